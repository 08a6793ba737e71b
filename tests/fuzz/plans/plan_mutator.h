// SPDX-License-Identifier: Apache-2.0
// Hostile plans from good ones: edits of any field of the index, of records as a whole, of what
// several fields say together, of sections and of the header, sealed again. A mutant is known by
// the seed and its number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/plans/plan_file.h"
#include "tests/fuzz/plans/tree.h"

namespace rlx::test {

struct SeedPlan {
  std::string name;
  std::vector<std::byte> bytes;
};

struct Mutant {
  std::vector<std::byte> bytes;
  std::vector<std::string> edits;  // what was done, where it was asked for
};

// Numbers that depend on nothing but where they began.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t number);
  uint64_t next();
  // 0 to count - 1; 0 for none.
  uint64_t below(uint64_t count) { return count == 0 ? 0 : next() % count; }
  bool chance(uint64_t of, uint64_t among) { return below(among) < of; }

 private:
  uint64_t state_;
};

// A field of a record: from the root of the tree by fields and elements.
struct Site {
  std::vector<uint32_t> path;         // field, element, field, element, ..., field
  uint32_t element = 0;               // of a vector of structs
  const FieldType* type = nullptr;    // of the field, or of the struct's field
  const FieldType* vector = nullptr;  // Structs and Struct: of what holds the struct
};

class PlanMutator {
 public:
  explicit PlanMutator(std::vector<SeedPlan> seeds);

  // `explain`: with the list of edits.
  [[nodiscard]] Mutant make(uint64_t seed, uint64_t number, bool explain = false) const;

  // Schema paths of all fields that the mutator edits: "Entry.steps.grid_x".
  [[nodiscard]] std::vector<std::string> field_names() const;

 private:
  friend class MutantBuilder;

  // A tree with its fields by their place in the schema.
  struct Tree {
    Node root;
    std::map<std::string, std::vector<Site>> sites;
    std::vector<std::string> site_names;
    std::vector<uint64_t> scalars;  // all that occur
  };
  struct Seed {
    std::string name;
    PlanFile file;
    Tree index;
    Tree debug;                        // without sites where the plan has none
    std::vector<std::byte> unchanged;  // what no edit makes of it
  };

  static void find_sites(const TreeSchema& schema, const Node& root, Tree& tree);

  TreeSchema plan_schema_;
  TreeSchema debug_schema_;
  std::vector<Seed> seeds_;
};

}  // namespace rlx::test
