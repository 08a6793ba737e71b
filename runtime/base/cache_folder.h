// SPDX-License-Identifier: Apache-2.0
// Folders of what can be made again.
#pragma once

#include <cstdint>
#include <string>

namespace rlx {

enum class FolderOwner : uint8_t {
  None,    // there is no such folder, and none can be made
  Others,  // somebody else's, or others may write to it
  Own,     // the user's, to whom alone it can be written
};

enum class FolderAccess : uint8_t { OwnerAlone, AsUsual };

// Makes the folder where it is missing, with those above it, and says whose it is.
FolderOwner make_cache_folder(const std::string& path, FolderAccess access);

}  // namespace rlx
