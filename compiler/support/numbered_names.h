// SPDX-License-Identifier: Apache-2.0
// Names that differ: a stem, or the stem with the first number behind it that is free.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace rlx {

// Each call takes constant time, however many names there are of one stem.
class NumberedNames {
 public:
  // False where the name is taken already.
  bool insert(const std::string& name) { return names_.insert(name).second; }

  // "stem", or else "stem.1", "stem.2" ...; it is taken from then on.
  std::string fresh(const std::string& stem) {
    std::string name = stem;
    if (insert(name)) return name;
    uint64_t& number = numbers_.try_emplace(stem, 0).first->second;
    do {
      name = stem + "." + std::to_string(++number);
    } while (!insert(name));
    return name;
  }

 private:
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, uint64_t> numbers_;  // per stem: the last one given
};

}  // namespace rlx
