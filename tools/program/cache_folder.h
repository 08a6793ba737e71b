// SPDX-License-Identifier: Apache-2.0
// Where programs keep what can be made again.
#pragma once

#include <string>

namespace rlx::tool {

// $XDG_CACHE_HOME/rlx or ~/.cache/rlx; empty where neither is known.
std::string default_cache_folder();

}  // namespace rlx::tool
