// SPDX-License-Identifier: Apache-2.0
// Chat templates: the part of Jinja2 that Hugging Face's templates use, with its settings
// (trim_blocks, lstrip_blocks, loop controls, tojson, raise_exception, strftime_now). A template is
// a stranger's code: what it may take is bounded, it changes nothing and reads nothing but its
// variables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/jinja_value.h"

namespace rlx::jinja {

struct RenderOptions {
  int64_t now_unix_seconds = 0;  // what strftime_now tells, UTC
  Limits limits;
};

// Renders `source` with `variables`. `name` is for messages, which have line and column. A
// template that is none is RLX_INVALID_PLAN; one that faults or asks for too much,
// RLX_INVALID_ARGUMENT: its variables are the caller's.
Status render(std::string_view name, std::string_view source,
              const std::vector<NamedValue>& variables, const RenderOptions& options,
              MarkedText& out);

// Everything of a template that is not supported, each with line and column, in their order: for
// who makes a plan. Empty: all of it is.
std::vector<std::string> check_template(std::string_view source);

}  // namespace rlx::jinja
