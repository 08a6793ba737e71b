// SPDX-License-Identifier: Apache-2.0
// Making a folder and looking at its owner.
#include "runtime/base/cache_folder.h"

#include <sys/stat.h>
#include <unistd.h>

namespace rlx {

FolderOwner make_cache_folder(const std::string& path, FolderAccess access) {
  // What it all comes to, stat tells.
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1))
    ::mkdir(path.substr(0, slash).c_str(), 0777);
  // With the umasks that let groups write, a folder made as usual is not the owner's alone.
  ::mkdir(path.c_str(), access == FolderAccess::OwnerAlone ? 0700 : 0777);
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) return FolderOwner::None;
  const bool is_own = facts.st_uid == ::geteuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return is_own ? FolderOwner::Own : FolderOwner::Others;
}

}  // namespace rlx
