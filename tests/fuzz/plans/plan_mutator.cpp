// SPDX-License-Identifier: Apache-2.0
// Seeds, and which edits a mutant suffers.
#include "tests/fuzz/plans/plan_mutator.h"

#include <algorithm>
#include <set>

#include "debug_bfbs_generated.h"
#include "plan_bfbs_generated.h"
#include "tests/fuzz/plans/mutant_builder.h"
#include "tests/support/plan_fixture.h"

namespace rlx::test {

Dice::Dice(uint64_t seed, uint64_t number)
    : state_(seed * 0x9e3779b97f4a7c15u ^ (number + 1) * 0xd1342543de82ef95u) {
  next();
}

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t Dice::next() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

namespace {

class SiteFinder {
 public:
  SiteFinder(const TreeSchema& schema, std::map<std::string, std::vector<Site>>& sites,
             std::set<uint64_t>& scalars)
      : schema_(schema), sites_(sites), scalars_(scalars) {}

  void walk_table(uint32_t object, const Node& table) {
    const ObjectType& type = schema_.object(object);
    for (uint32_t f = 0; f < type.fields.size(); ++f) {
      const FieldType& field = type.fields[f];
      const Node& kid = table.kids[f];
      path_.push_back(f);
      sites_[type.name + "." + field.name].push_back({.path = path_, .type = &field});
      if (field.kind == FieldKind::Scalar) scalars_.insert(kid.bits);
      if (field.kind == FieldKind::Table && kid.kind != NodeKind::Absent)
        walk_table(field.object, kid);
      for (uint32_t i = 0; field.kind == FieldKind::Tables && i < kid.kids.size(); ++i) {
        path_.push_back(i);
        walk_table(field.object, kid.kids[i]);
        path_.pop_back();
      }
      if (field.kind == FieldKind::Struct || field.kind == FieldKind::Structs)
        walk_structs(type.name + "." + field.name, field, kid);
      path_.pop_back();
    }
  }

 private:
  void walk_structs(const std::string& name, const FieldType& vector, const Node& records) {
    for (uint32_t i = 0; i < records.bytes.size() / vector.bytes; ++i) {
      for (const FieldType& field : schema_.object(vector.object).fields) {
        sites_[name + "." + field.name].push_back(
            {.path = path_, .element = i, .type = &field, .vector = &vector});
      }
    }
  }

  const TreeSchema& schema_;
  std::map<std::string, std::vector<Site>>& sites_;
  std::set<uint64_t>& scalars_;
  std::vector<uint32_t> path_;
};

}  // namespace

void PlanMutator::find_sites(const TreeSchema& schema, const Node& root, Tree& tree) {
  tree.root = root;
  std::set<uint64_t> scalars;
  SiteFinder(schema, tree.sites, scalars).walk_table(schema.root(), root);
  for (const auto& [name, sites] : tree.sites) tree.site_names.push_back(name);
  tree.scalars.assign(scalars.begin(), scalars.end());
}

PlanMutator::PlanMutator(std::vector<SeedPlan> seeds)
    : plan_schema_(fb::PlanBinarySchema::data()), debug_schema_(fb::DebugBinarySchema::data()) {
  for (SeedPlan& plan : seeds) {
    Seed seed{
        .name = std::move(plan.name), .file = split_plan(plan.bytes), .index = {}, .debug = {}};
    find_sites(plan_schema_, plan_schema_.read(seed.file.section(SectionKind::Index)->bytes),
               seed.index);
    const FileSection* debug = seed.file.section(SectionKind::Debug);
    if (debug != nullptr) find_sites(debug_schema_, debug_schema_.read(debug->bytes), seed.debug);
    PlanFile unchanged = seed.file;
    unchanged.section(SectionKind::Index)->bytes = plan_schema_.write(seed.index.root);
    if (debug != nullptr)
      unchanged.section(SectionKind::Debug)->bytes = debug_schema_.write(seed.debug.root);
    seed.unchanged = join_plan(unchanged);
    reseal(seed.unchanged);
    seeds_.push_back(std::move(seed));
  }
}

std::vector<std::string> PlanMutator::field_names() const {
  std::set<std::string> names;
  for (const Seed& seed : seeds_)
    names.insert(seed.index.site_names.begin(), seed.index.site_names.end());
  return {names.begin(), names.end()};
}

Mutant PlanMutator::make(uint64_t seed, uint64_t number, bool explain) const {
  return MutantBuilder(*this, seed, number, explain).build();
}

MutantBuilder::MutantBuilder(const PlanMutator& all, uint64_t seed, uint64_t number, bool explain)
    : all_(all),
      explain_(explain),
      dice_(seed, number),
      seed_(all.seeds_[dice_.below(all.seeds_.size())]),
      donor_(all.seeds_[dice_.below(all.seeds_.size())]),
      file_(seed_.file),
      index_(seed_.index.root),
      debug_(seed_.debug.root),
      has_debug_(!seed_.debug.sites.empty()) {
  if (explain_) mutant_.edits.push_back(text_of("plan ", seed_.name, ", donor ", donor_.name));
}

Mutant MutantBuilder::build() {
  constexpr int kMostAttempts = 4;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    uint64_t wanted = 1;
    while (wanted < 8 && dice_.chance(2, 5)) ++wanted;
    edits_ = 0;
    for (uint64_t tries = 0; edits_ < wanted && tries < 4 * wanted; ++tries) edit_once();
    repair();
    pack();
    mutant_.bytes = join_plan(file_);
    PlanHeader header = header_of(mutant_.bytes);
    for (uint32_t i = 0; i < header_edits_; ++i) write_header_field(header);
    set_header(mutant_.bytes, header);
    reseal(mutant_.bytes);
    // Some edits change nothing, as two equal records that change places.
    if (mutant_.bytes != seed_.unchanged) break;
  }
  return std::move(mutant_);
}

void MutantBuilder::edit_once() {
  static constexpr WeightedEdit kEdits[] = {
      {&MutantBuilder::edit_field, 40},
      {&MutantBuilder::edit_list, 12},
      {&MutantBuilder::take_from_elsewhere, 8},
      {&MutantBuilder::edit_debug, 2},
      {&MutantBuilder::swap_kernels, 3},
      {&MutantBuilder::other_kernel, 3},
      {&MutantBuilder::retarget, 6},
      {&MutantBuilder::shift_range, 6},
      {&MutantBuilder::share_place, 5},
      {&MutantBuilder::merge_waves, 3},
      {&MutantBuilder::split_wave, 2},
      {&MutantBuilder::move_step, 3},
      {&MutantBuilder::drop_edges, 3},
      {&MutantBuilder::copy_step, 4},
      {&MutantBuilder::remove_step, 2},
      {&MutantBuilder::other_code, 4},
      {&MutantBuilder::other_accesses, 2},
      {&MutantBuilder::resize_value, 6},
      {&MutantBuilder::other_params, 3},
      {&MutantBuilder::swap_roles, 2},
      {&MutantBuilder::other_targets, 2},
      {&MutantBuilder::swap_entry_and_init, 1},
      {&MutantBuilder::bend_size, 5},
      {&MutantBuilder::fix_size, 3},
      {&MutantBuilder::edit_params, 6},
      {&MutantBuilder::edit_code, 3},
      {&MutantBuilder::edit_section, 2},
      {&MutantBuilder::other_section, 3},
      {&MutantBuilder::edit_index_bytes, 7},
      {&MutantBuilder::edit_header, 8},
  };
  uint32_t all = 0;
  for (const WeightedEdit& row : kEdits) all += row.weight;
  uint64_t roll = dice_.below(all);
  for (const WeightedEdit& row : kEdits) {
    if (roll < row.weight) return (this->*row.edit)();
    roll -= row.weight;
  }
}

void MutantBuilder::repair() {
  static constexpr Edit kRepairs[] = {
      &MutantBuilder::repair_sizes,    &MutantBuilder::repair_lifetimes,
      &MutantBuilder::repair_ranges,   &MutantBuilder::repair_waves,
      &MutantBuilder::repair_segments, &MutantBuilder::repair_hashes};
  if (dice_.chance(1, 4)) return;
  const bool all = dice_.chance(1, 2);
  for (const Edit edit : kRepairs) {
    if (all || dice_.chance(1, 2)) (this->*edit)();
  }
}

void MutantBuilder::pack() {
  if (FileSection* index = file_.section(SectionKind::Index)) {
    index->bytes = all_.plan_schema_.write(index_);
    for (uint32_t i = 0; i < index_byte_edits_; ++i) write_index_bytes(index->bytes);
  }
  FileSection* debug = file_.section(SectionKind::Debug);
  if (debug != nullptr && has_debug_) debug->bytes = all_.debug_schema_.write(debug_);
}

}  // namespace rlx::test
