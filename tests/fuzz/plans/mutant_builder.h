// SPDX-License-Identifier: Apache-2.0
// One mutant in the making: copies of a seed's trees and sections, and the edits that they suffer.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "schema/plan_generated.h"
#include "tests/fuzz/plans/plan_mutator.h"

namespace rlx::test {

// Number of a table's field by the offset that generated code gives it: fb::Entry::VT_STEPS.
constexpr size_t field_id(int vtable_offset) {
  return static_cast<size_t>(vtable_offset - 4) / 2;
}

class MutantBuilder {
 public:
  MutantBuilder(const PlanMutator& all, uint64_t seed, uint64_t number, bool explain);
  Mutant build();

 private:
  using Edit = void (MutantBuilder::*)();
  struct WeightedEdit {
    Edit edit;
    uint32_t weight;
  };

  // An edit that found something to edit says so.
  template <class... Pieces>
  void note(const Pieces&... pieces) {
    ++edits_;
    if (explain_) mutant_.edits.push_back(text_of(pieces...));
  }

  void edit_once();
  void repair();
  void pack();

  // ---- Any field, any record: field_edits.cpp ----
  void edit_field();
  void edit_list();
  void take_from_elsewhere();
  void edit_debug();
  uint64_t new_number(const FieldType& type, uint64_t old, const PlanMutator::Tree& tree,
                      const std::vector<Site>& alike, const Node& root);
  std::string new_text(const std::string& old);
  void edit_site(const PlanMutator::Tree& tree, Node& root);
  void edit_elements(Node& node, uint32_t element_bytes);
  // Null where edits took it away.
  [[nodiscard]] static const Node* find(const Node& root, const Site& site);
  [[nodiscard]] static Node* find(Node& root, const Site& site);
  [[nodiscard]] static uint64_t number_at(const Node& node, const Site& site);
  static void set_number(Node& node, const Site& site, uint64_t bits);

  // ---- What fields say together: plan_edits.cpp ----
  void swap_kernels();
  void other_kernel();
  void retarget();
  void shift_range();
  void share_place();
  void merge_waves();
  void split_wave();
  void move_step();
  void drop_edges();
  void copy_step();
  void remove_step();
  void other_code();
  void other_accesses();
  void resize_value();
  void other_params();
  void swap_roles();
  void other_targets();
  void swap_entry_and_init();
  void bend_size();
  void fix_size();

  // ---- Sections, header, bytes behind the schema's back: file_edits.cpp ----
  void edit_params();
  void edit_code();
  void edit_section();
  void other_section();
  void edit_index_bytes();
  void edit_header();
  void write_index_bytes(std::vector<std::byte>& index);
  void write_header_field(PlanHeader& header);

  // ---- Repairs: repairs.cpp. Each makes one kind of consequence right again, so that edits reach
  // the rules behind the first ----
  void repair_sizes();
  void repair_lifetimes();
  void repair_ranges();
  void repair_waves();
  void repair_segments();
  void repair_hashes();

  // Access to records. Fields of structs by name, as the schema may gain some.
  [[nodiscard]] Node& kid(Node& table, int vtable_offset) const {
    return table.kids[field_id(vtable_offset)];
  }
  [[nodiscard]] const FieldType& struct_field(const char* object, const char* field) const;
  [[nodiscard]] static uint64_t get(const Node& records, size_t element, uint32_t bytes,
                                    const FieldType& field);
  static void set(Node& records, size_t element, uint32_t bytes, const FieldType& field,
                  uint64_t bits);
  [[nodiscard]] uint64_t step_field(const Node& steps, size_t step, const char* name) const;
  void set_step_field(Node& steps, size_t step, const char* name, uint64_t bits);
  [[nodiscard]] static size_t count(const Node& records, size_t bytes) {
    return records.bytes.size() / bytes;
  }
  // Records of entries and inits. At least one.
  std::vector<Node*> entries();
  Node& some_entry();
  // A kernel's, or null.
  Node* some_variant();

  const PlanMutator& all_;
  const bool explain_;
  Dice dice_;
  const PlanMutator::Seed& seed_;
  const PlanMutator::Seed& donor_;
  PlanFile file_;
  Node index_;
  Node debug_;
  bool has_debug_ = false;
  uint64_t edits_ = 0;
  uint32_t index_byte_edits_ = 0;  // done once the index is packed
  uint32_t header_edits_ = 0;      // done once the file is joined
  Mutant mutant_;
};

}  // namespace rlx::test
