// SPDX-License-Identifier: Apache-2.0
// How byte-level BPE cuts text into words.
#pragma once

#include <string_view>
#include <vector>

#include "schema/text_generated.h"

namespace rlx {

// The words of UTF-8 text, in order and without gaps, cut as the patterns of the family cut
// (schema/ text.fbs). The time goes with the text's length.
std::vector<std::string_view> split_words(fb::WordSplit family, std::string_view text);

}  // namespace rlx
