// SPDX-License-Identifier: Apache-2.0
#include "runtime/trust/known_code.h"

#include <algorithm>

#include "runtime/base/text.h"

namespace rlx {

Status KnownCode::parse(std::string_view list, KnownCode& known) {
  constexpr std::string_view kSpaces = " \t\r";
  std::vector<Sha256Digest> digests;
  for (size_t number = 1; !list.empty(); ++number) {
    const size_t end = list.find('\n');
    std::string_view line = list.substr(0, end);
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
    line.remove_prefix(std::min(line.find_first_not_of(kSpaces), line.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::string_view word = line.substr(0, line.find_first_of(kSpaces));
    const std::optional<Sha256Digest> digest = digest_of_hex(word);
    if (!digest) {
      return {RLX_INVALID_ARGUMENT,
              text_of("line ", number, " of the list of known code begins with ", quoted(word),
                      ", wanted a SHA-256 digest of 64 digits in lower case, as `rlxc inspect "
                      "--known` prints them")};
    }
    digests.push_back(*digest);
  }
  if (digests.empty())
    return {RLX_INVALID_ARGUMENT,
            "the list of known code holds no digest; `rlxc inspect PLAN --known` prints those of a "
            "plan"};
  std::sort(digests.begin(), digests.end());
  known.digests_ = std::move(digests);
  return {};
}

bool KnownCode::contains(const Sha256Digest& digest) const {
  return std::binary_search(digests_.begin(), digests_.end(), digest);
}

}  // namespace rlx
