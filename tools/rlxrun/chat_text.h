// SPDX-License-Identifier: Apache-2.0
// The text of a plan: owners for the handles of rlx_text.h, and its calls as C++ values.
#pragma once

#include <string>
#include <vector>

#include "runtime/include/rlx_text.h"
#include "tools/rlxrun/handles.h"

namespace rlx::tool {

using TextHandle = std::unique_ptr<rlx_text, Closer<rlx_text, rlx_text_close>>;
using StreamHandle =
    std::unique_ptr<rlx_text_stream, Closer<rlx_text_stream, rlx_text_stream_close>>;
using SamplerHandle =
    std::unique_ptr<rlx_text_sampler, Closer<rlx_text_sampler, rlx_text_sampler_close>>;

// Throws a Failure with rlx_text_last_error() unless the call went well.
void check_text(rlx_status status);

// NULL for a plan without a text section.
TextHandle open_text(const rlx_plan* plan);

struct ChatMessage {
  std::string role;
  std::string content;
};
// The ids of a conversation whose next part is the model's. Refuses what is no UTF-8.
std::vector<int32_t> chat_ids(const rlx_text* text, const std::vector<ChatMessage>& messages);

}  // namespace rlx::tool
