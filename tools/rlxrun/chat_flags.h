// SPDX-License-Identifier: Apache-2.0
// The flags for language models.
#pragma once

#include "tools/rlxrun/options.h"

namespace CLI {
class App;
}

namespace rlx::tool {

void add_chat_flags(CLI::App& app, Options& options);
// Refuses, by a CLI::ParseError, flags that do not go together: those of a single run with a
// language model's, and the other way round.
void check_chat_flags(const CLI::App& app, const Options& options);

}  // namespace rlx::tool
