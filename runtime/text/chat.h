// SPDX-License-Identifier: Apache-2.0
// Conversations: messages rendered by a template of the plan.
#pragma once

#include <span>

#include "runtime/base/status.h"
#include "runtime/include/rlx_text.h"
#include "runtime/text/jinja_text.h"
#include "runtime/text/text.h"

namespace rlx {

// The text of a conversation, which knows what of it is the caller's: all of the messages and of
// the variables.
Status render_chat(const TextModel& model, std::span<const rlx_text_message> messages,
                   const rlx_text_chat_options& options, jinja::MarkedText& text);

// Its parts, for TextModel::encode_pieces; they live as long as the text.
std::vector<TextPiece> pieces_of(const jinja::MarkedText& text);

}  // namespace rlx
