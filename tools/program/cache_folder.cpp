// SPDX-License-Identifier: Apache-2.0
// The user's cache folder by the environment (XDG Base Directory Specification).
#include "tools/program/cache_folder.h"

#include <cstdlib>

namespace rlx::tool {

std::string default_cache_folder() {
  const char* cache_home = std::getenv("XDG_CACHE_HOME");
  if (cache_home != nullptr && *cache_home == '/') return std::string(cache_home) + "/rlx";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/rlx";
  return {};
}

}  // namespace rlx::tool
