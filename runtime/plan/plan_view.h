// SPDX-License-Identifier: Apache-2.0
// An open, verified plan: header, index, params, code and debug notes in host memory, weights where
// they are. Immutable, so it is shared by threads. Every accessor may be called without further
// checks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/input_file.h"
#include "runtime/base/sha256.h"
#include "runtime/base/status.h"
#include "runtime/plan/weight_files.h"
#include "runtime/trust/trust_policy.h"
#include "schema/debug_generated.h"
#include "schema/plan_generated.h"
#include "schema/plan_header.h"

namespace rlx {

struct PlanOptions {
  bool check_weights = false;  // also check the checksum of the weights section
  bool copy_memory = false;    // open_memory: own a copy of the bytes
  // Where files with weights of the plan lie; empty: in the plan's own folder.
  std::string weights_folder = {};
  TrustPolicy trust = {};
};

// What the debug section says of a step; empty where there is none.
struct StepNames {
  std::string_view node;
  std::string_view op;
  std::string_view source;
  std::string_view reason;
};

// A record of a plan's index by itself, of which a binding is a copy.
struct RecordImage {
  const fb::Entry* record = nullptr;  // of the plan
  std::vector<std::byte> bytes;       // a buffer whose root is the record
};
// Takes about as long as a new binding.
RecordImage image_of(const fb::Entry& record);

class PlanView {
 public:
  // Opens, copies out and verifies. Errors name the file, the rule's code and the place.
  static Status open_file(const std::string& path, const PlanOptions& options,
                          std::shared_ptr<const PlanView>& view);
  // Without copy_memory the bytes must outlive the view.
  static Status open_memory(std::span<const std::byte> bytes, const PlanOptions& options,
                            std::shared_ptr<const PlanView>& view);

  // The same plan with another index, verified anew. The new view shares the weights of the old
  // one.
  static Status with_index(std::shared_ptr<const PlanView> plan, std::vector<std::byte> index,
                           std::shared_ptr<const PlanView>& view);

  // The plan with the sizes of some of its records at values of its symbols, one for each symbol of
  // the plan (a bound one has its own). These records are verified anew; all else is as it is in
  // `plan`, which is not bound itself and outlives the new view. A record that is not made for
  // these values is refused.
  static Status bind(const PlanView& plan, std::span<const RecordImage> images,
                     std::span<const uint64_t> symbols, std::shared_ptr<const PlanView>& bound);
  static Status bind(const PlanView& plan, std::span<const fb::Entry* const> records,
                     std::span<const uint64_t> symbols, std::shared_ptr<const PlanView>& bound);

  // The plan as it would be if a profile's program were its only one for that kind of target: what
  // a device runs. Shares code, notes and weights with `plan`. `profile` is one of the header's.
  static std::shared_ptr<const PlanView> of_profile(std::shared_ptr<const PlanView> plan,
                                                    uint32_t profile);

  // The values at which this view was bound; empty for a plan as it is in its file.
  [[nodiscard]] std::span<const uint64_t> bound_symbols() const { return bound_symbols_; }

  // Header of a plan of which only the first 4 KiB are at hand, checked as far as they allow.
  static Status open_header(std::span<const std::byte> first_page, PlanHeader& header);

  [[nodiscard]] const PlanHeader& header() const { return header_; }
  [[nodiscard]] const fb::Plan& index() const { return *index_; }
  [[nodiscard]] std::string_view name() const { return text(index_->name()); }

  // Entries that a caller can run, by name; init() is not among them. Each has one record per
  // target of the plan and range of its symbols, or one that serves several targets.
  [[nodiscard]] uint32_t entry_count() const { return static_cast<uint32_t>(entries_.size()); }
  // The record for a target that the plan is for, of several profiles the first one's or that of
  // this view; of several ranges the one with every free symbol's maximum.
  [[nodiscard]] const fb::Entry& entry(uint32_t index, fb::TargetKind target) const {
    return *entry_ranges(index, target).front();
  }
  // The records for the ranges of its symbols, entry() first.
  [[nodiscard]] std::span<const fb::Entry* const> entry_ranges(uint32_t index,
                                                               fb::TargetKind target) const {
    return entries_[index].records[static_cast<size_t>(target)];
  }
  // The record for the plan's first target: names, inputs and outputs are those of all.
  [[nodiscard]] const fb::Entry& entry(uint32_t index) const {
    return entry(index, first_target());
  }
  // Run once after the weights are uploaded; null where there is nothing to generate.
  [[nodiscard]] const fb::Entry* init(fb::TargetKind target) const {
    const auto& records = init_.records[static_cast<size_t>(target)];
    return records.empty() ? nullptr : records.front();
  }
  [[nodiscard]] bool is_for(fb::TargetKind target) const;
  [[nodiscard]] fb::TargetKind first_target() const;
  // What runs records of a target, as --target of rlxc names it: "vulkan-nvidia" in the view of
  // that profile.
  [[nodiscard]] std::string_view program_name(fb::TargetKind target) const;
  // Every record that a target runs: of the entries, then of init.
  [[nodiscard]] std::vector<const fb::Entry*> records(fb::TargetKind target) const;
  // Every record of an entry and then of init, in the order of the file.
  [[nodiscard]] std::vector<const fb::Entry*> records() const { return records_; }
  // Of these the ones for the values at which this view was bound; all where it was not.
  [[nodiscard]] std::vector<const fb::Entry*> bound_records() const;

  [[nodiscard]] static std::span<const fb::Step> steps(const fb::Entry& entry);
  [[nodiscard]] static std::span<const fb::Relocation> relocations(const fb::Entry& entry,
                                                                   const fb::Step& step);
  [[nodiscard]] static std::span<const uint32_t> edges(const fb::Entry& entry,
                                                       const fb::Step& step);
  [[nodiscard]] static bool holds(const fb::Region& region, uint32_t step) {
    return step >= region.first_step() && step - region.first_step() < region.step_count();
  }
  // The region that a step belongs to; null where it runs once.
  [[nodiscard]] static const fb::Region* region_of(const fb::Entry& entry, uint32_t step);
  [[nodiscard]] static const fb::Value& value(const fb::Entry& entry, uint32_t index) {
    return *entry.values()->Get(index);
  }
  [[nodiscard]] const fb::Kernel& kernel(uint32_t index) const {
    return *index_->kernels()->Get(index);
  }
  // The kernel's first variant for a target; null where it has none.
  [[nodiscard]] static const fb::Variant* first_variant(const fb::Kernel& kernel,
                                                        fb::TargetKind target);

  // Params blob of a step, pointers not yet patched.
  [[nodiscard]] std::span<const std::byte> params(const fb::Step& step) const;
  // Code of a variant; SPIR-V is 4-byte aligned.
  [[nodiscard]] std::span<const std::byte> code(const fb::Variant& variant) const;
  // Of a kernel's variant the digest by which code and record are known again: SHA-256 over both
  // (runtime/plan/contract.h).
  [[nodiscard]] Sha256Digest code_digest(const fb::Kernel& kernel,
                                         const fb::Variant& variant) const;

  // Bytes of the weights section, which go to the start of the weights segment
  // (header().weights_bytes long; the rest is filled by init()).
  [[nodiscard]] uint64_t weights_section_bytes() const { return weights_bytes_; }
  // Copies a range of the weights segment: of the weights section, and of files that hold weights.
  // By pread, so that a file shortened meanwhile is an error, not a signal.
  Status read_weights(uint64_t offset_bytes, std::span<std::byte> destination) const;

  // The text section: what a language model's tokenizer and chat templates are (schema/text.fbs). 0
  // where the plan has none. Its content is not verified: replaying never reads it.
  [[nodiscard]] uint64_t text_section_bytes() const { return text_.size_bytes; }
  // All of it; `destination` has its size. Refused where its checksum differs.
  Status read_text(std::span<std::byte> destination) const;

  // Null where the plan has no debug section.
  [[nodiscard]] const fb::Debug* debug() const { return debug_; }
  // `entry` is one of records().
  [[nodiscard]] StepNames step_names(const fb::Entry& entry, uint32_t step) const;
  // The kernels among which that of the step was chosen; null where there is nothing of it.
  [[nodiscard]] const fb::Choice* step_choice(const fb::Entry& entry, uint32_t step) const;
  // "step 12 (matmul, node \"enc.0.q\")", for messages.
  [[nodiscard]] std::string describe_step(const fb::Entry& entry, uint32_t step) const;
  // The kernel that a step runs, or "copy", "fill", "library_gemm".
  [[nodiscard]] const char* step_kernel_name(const fb::Step& step) const;

  // A number that is equal for equal plans and profiles: what a pipeline cache is bound to.
  [[nodiscard]] uint64_t identity() const { return header_.header_checksum; }

  [[nodiscard]] static std::string_view text(const flatbuffers::String* string) {
    return string == nullptr ? std::string_view()
                             : std::string_view(string->c_str(), string->size());
  }

 private:
  friend class PlanLoader;
  friend class PlanBinder;
  PlanView() = default;
  [[nodiscard]] const fb::StepNote* step_note(const fb::Entry& entry, uint32_t step) const;
  // Bytes of the file, from where this view has them.
  Status read_file(uint64_t offset_bytes, std::span<std::byte> destination) const;
  // Fills records_, entries_ and init_ from the verified index.
  void group_records();
  // Whether the view's programs are those of the record's profile.
  [[nodiscard]] bool runs(const fb::Entry& record) const;
  [[nodiscard]] std::span<const std::byte> code_section() const {
    return profile_.has_value() ? base_->code_section() : std::span<const std::byte>(code_);
  }

  // The records of one name, by TargetKind.
  struct EntryRecords {
    std::array<std::vector<const fb::Entry*>, static_cast<size_t>(fb::TargetKind::MAX) + 1> records;
  };

  InputFile file_;  // when opened by path
  std::shared_ptr<const PlanView>
      base_;  // whose weights these are, when made by with_index or of_profile
  std::optional<uint32_t>
      profile_;  // of base_'s header, when made by of_profile; whose code it is then too
  std::vector<uint64_t> bound_symbols_;
  const PlanView* bound_from_ = nullptr;  // whose index, weights, code and notes, when made by bind
  std::vector<std::vector<std::byte>> bound_images_;  // of the records that were bound
  std::vector<std::byte> owned_;                      // when opened from memory with a copy
  std::span<const std::byte> memory_;                 // the whole plan when opened from memory
  PlanHeader header_{};
  std::vector<std::byte> index_bytes_;
  std::vector<std::byte> params_;  // when made by bind those of its own, which count on from there
  std::vector<std::byte> code_;
  std::vector<std::byte> debug_bytes_;
  uint64_t weights_offset_ = 0;  // in the file
  uint64_t weights_bytes_ = 0;
  PlanSection text_{};  // of no bytes where there is none
  std::unique_ptr<WeightFiles> weight_files_;
  const fb::Plan* index_ = nullptr;
  std::vector<const fb::Entry*> records_;  // in the order of the file
  std::vector<EntryRecords> entries_;      // in the order of the first record of each name
  EntryRecords init_;
  const fb::Debug* debug_ = nullptr;
};

}  // namespace rlx
