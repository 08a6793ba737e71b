// SPDX-License-Identifier: Apache-2.0
// A .npy file from a stream of bytes, for those that stand alone and for members of archives.
#pragma once

#include <string_view>

#include "tools/npy/bytes.h"
#include "tools/npy/npy.h"

namespace rlx::npy {

// Reads the header, asks `wanted` (where there is one) about `array_name`, then reads the data,
// which are the rest of the bytes. `label` is for messages.
Status read_array(ByteReader& bytes, std::string_view label, std::string_view array_name,
                  const Wanted& wanted, Array& array);

}  // namespace rlx::npy
