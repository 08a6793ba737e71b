// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 11: products for the vendor's library, and the alternatives that a tuner may
// put in the place of steps.
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "runtime/base/dtype.h"
#include "runtime/plan/target_row.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

constexpr uint64_t kDimLimit = uint64_t{1} << 31;
constexpr uint64_t kStrideLimit = uint64_t{1} << 48;
constexpr uint32_t kAlgorithmBytes = 64;
constexpr size_t kMaxOperands = 8;  // six are known; each is compared with all others
constexpr size_t kMaxTuningBytes = 256;
// dtype.def's numbers.
constexpr uint8_t kF32 = 0;
constexpr uint8_t kF16 = 1;
constexpr uint8_t kBf16 = 2;

// ---- gemms ----

std::string gemm_name(const EntryParts& entry, uint32_t gemm) {
  return text_of(entry.name(), ", gemm ", gemm);
}

bool is_short(uint8_t dtype) {
  return dtype == kF16 || dtype == kBf16;
}

bool adds_bias(fb::GemmEpilogue epilogue) {
  return epilogue == fb::GemmEpilogue::Bias || epilogue == fb::GemmEpilogue::BiasRelu ||
         epilogue == fb::GemmEpilogue::BiasGeluTanh;
}

void verify_gemm_form(const EntryParts& entry, uint32_t index, Faults& faults) {
  const fb::LibraryGemm& gemm = *entry.entry.gemms()->Get(index);
  const uint8_t a = gemm.a_dtype();
  const uint8_t y = gemm.y_dtype();
  const bool dtypes = a == gemm.b_dtype() && (a == kF32 || is_short(a)) && (y == a || y == kF32);
  const bool compute = gemm.compute() == fb::GemmCompute::F32 || a == kF32;
  const bool activates =
      gemm.epilogue() != fb::GemmEpilogue::None && gemm.epilogue() != fb::GemmEpilogue::Bias;
  if (dtypes && compute && !(activates && gemm.has_residual())) return;
  faults.add(VerifyRule::GemmForm, gemm_name(entry, index), " multiplies dtypes ", a, " and ",
             gemm.b_dtype(), " to ", y, ", computes as ", fb::EnumNameGemmCompute(gemm.compute()),
             " with epilogue ", fb::EnumNameGemmEpilogue(gemm.epilogue()),
             gemm.has_residual() ? " and a residual" : "", ", which the library has not");
}

void verify_gemm_tuning(const EntryParts& entry, uint32_t index, Faults& faults) {
  const fb::LibraryGemm& gemm = *entry.entry.gemms()->Get(index);
  const uint32_t bytes = gemm.algorithm() == nullptr ? 0 : gemm.algorithm()->size();
  const std::array texts = {gemm.tuned_device(), gemm.tuned_driver(), gemm.tuned_library()};
  const bool good_texts = std::all_of(texts.begin(), texts.end(), [&](const auto* string) {
    const std::string_view text = PlanView::text(string);
    return text.empty() == (bytes == 0) && text.size() <= kMaxTuningBytes && is_utf8(text);
  });
  if ((bytes == 0 || bytes == kAlgorithmBytes) && good_texts) return;
  faults.add(VerifyRule::GemmTuning, gemm_name(entry, index), " has an algorithm of ", bytes,
             " bytes for device ", quoted(PlanView::text(texts[0])), ", driver ",
             quoted(PlanView::text(texts[1])), ", library ", quoted(PlanView::text(texts[2])),
             "; wanted 64 bytes and three names, or nothing");
}

// A matrix of a gemm as it is stored.
struct GemmMatrix {
  std::string_view name;
  uint64_t rows;
  uint64_t columns;
  uint64_t pitch;
  uint64_t batch_stride;
  uint32_t element_bytes;
};

GemmMatrix y_matrix(const fb::LibraryGemm& gemm) {
  return {"y",
          gemm.m(),
          gemm.n(),
          gemm.y_pitch(),
          gemm.y_batch_stride(),
          dtype_row(gemm.y_dtype())->block_bytes};
}
GemmMatrix a_matrix(const fb::LibraryGemm& gemm) {
  const bool turned = gemm.a_transposed();
  return {"a",
          turned ? gemm.k() : gemm.m(),
          turned ? gemm.m() : gemm.k(),
          gemm.a_pitch(),
          gemm.a_batch_stride(),
          dtype_row(gemm.a_dtype())->block_bytes};
}
GemmMatrix b_matrix(const fb::LibraryGemm& gemm) {
  const bool turned = gemm.b_transposed();
  return {"b",
          turned ? gemm.n() : gemm.k(),
          turned ? gemm.k() : gemm.n(),
          gemm.b_pitch(),
          gemm.b_batch_stride(),
          dtype_row(gemm.b_dtype())->block_bytes};
}
GemmMatrix residual_matrix(const fb::LibraryGemm& gemm) {
  GemmMatrix matrix = y_matrix(gemm);
  matrix.name = "residual";
  matrix.pitch = gemm.residual_pitch();
  matrix.batch_stride = gemm.residual_batch_stride();
  return matrix;
}

// Elements from the first to behind the last of one batch entry.
uint64_t entry_elements(const GemmMatrix& matrix) {
  return (matrix.rows - 1) * matrix.pitch + matrix.columns;
}
// Bytes from the first element to behind the last; nullopt from 2^48 on.
std::optional<uint64_t> reach_bytes(const GemmMatrix& matrix, uint64_t batch) {
  uint64_t reach = 0;
  if (__builtin_mul_overflow(batch - 1, matrix.batch_stride, &reach) || reach >= kStrideLimit)
    return std::nullopt;
  return (reach + entry_elements(matrix)) * matrix.element_bytes;
}

void verify_gemm_pitches(const EntryParts& entry, uint32_t index, Faults& faults) {
  const fb::LibraryGemm& gemm = *entry.entry.gemms()->Get(index);
  const auto verify_pitch = [&](const GemmMatrix& matrix, bool apart) {
    const bool rows = matrix.pitch >= matrix.columns && matrix.pitch < kDimLimit;
    const bool entries =
        matrix.batch_stride < kStrideLimit &&
        (!apart || gemm.batch() == 1 || (rows && matrix.batch_stride >= entry_elements(matrix)));
    if (rows && entries) return;
    faults.add(VerifyRule::GemmPitch, gemm_name(entry, index), ": ", matrix.name, " has ",
               matrix.rows, " rows of ", matrix.columns, " at a pitch of ", matrix.pitch,
               " and batch entries at a stride of ", matrix.batch_stride);
  };
  verify_pitch(a_matrix(gemm), false);
  verify_pitch(b_matrix(gemm), false);
  verify_pitch(y_matrix(gemm), true);
  if (gemm.has_residual()) verify_pitch(residual_matrix(gemm), false);
}

// ---- products ----

enum class Operand : uint32_t { A = 0, B = 8, Bias = 16, Residual = 24, Y = 32, Workspace = 40 };

// What a product needs at a position.
struct WantedOperand {
  Operand position;
  std::string_view name;
  bool wanted;
  fb::AccessMode mode;
  std::optional<uint64_t> bytes;  // that it reaches over
  uint32_t alignment_bytes;
};

std::array<WantedOperand, 6> wanted_operands(const fb::LibraryGemm& gemm) {
  constexpr uint32_t kVector = 16;  // whole vectors, as the library's fast paths want them
  const auto read = fb::AccessMode::Read;
  const auto write = fb::AccessMode::Write;
  const uint64_t batch = gemm.batch();
  return {{{Operand::A, "a", true, read, reach_bytes(a_matrix(gemm), batch), kVector},
           {Operand::B, "b", true, read, reach_bytes(b_matrix(gemm), batch), kVector},
           {Operand::Bias, "bias", adds_bias(gemm.epilogue()), read,
            gemm.n() * dtype_row(gemm.y_dtype())->block_bytes, kVector},
           {Operand::Residual, "residual", gemm.has_residual(), read,
            gemm.has_residual() ? reach_bytes(residual_matrix(gemm), batch) : 0, kVector},
           {Operand::Y, "y", true, write, reach_bytes(y_matrix(gemm), batch), kVector},
           {Operand::Workspace, "workspace", gemm.workspace_bytes() > 0, write,
            gemm.workspace_bytes(), kArenaAlignmentBytes}}};
}

const fb::Relocation* relocation_at(const StepPlace& place, Operand position) {
  for (const fb::Relocation& relocation : place.entry.relocations_of(place.step)) {
    if (relocation.position() == static_cast<uint32_t>(position)) return &relocation;
  }
  return nullptr;
}

void verify_operand(const StepPlace& place, const WantedOperand& wanted, Faults& faults) {
  const fb::Relocation* relocation = relocation_at(place, wanted.position);
  if ((relocation != nullptr) != wanted.wanted ||
      (relocation != nullptr && relocation->mode() != wanted.mode)) {
    return faults.add(VerifyRule::GemmOperands, place.name(),
                      relocation == nullptr ? " lacks its " : " has an unfit ", wanted.name,
                      " at byte ", static_cast<uint32_t>(wanted.position));
  }
  if (relocation == nullptr) return;
  if (!wanted.bytes || relocation->length_bytes() < *wanted.bytes) {
    faults.add(VerifyRule::GemmRange, place.name(), ": ", wanted.name, " has a range of ",
               relocation->length_bytes(), " bytes, its elements reach over ",
               wanted.bytes ? std::to_string(*wanted.bytes) : "2^48 and more");
  }
  if (address_alignment(place.entry, *relocation) < wanted.alignment_bytes) {
    faults.add(VerifyRule::RelocationAlignment, place.name(), ": ", wanted.name,
               " has an alignment of ", address_alignment(place.entry, *relocation),
               " bytes, the library relies on ", wanted.alignment_bytes);
  }
}

// A residual may be y itself, element by element.
bool is_in_place(const StepPlace& place, const fb::LibraryGemm& gemm) {
  const fb::Relocation* residual = relocation_at(place, Operand::Residual);
  const fb::Relocation* y = relocation_at(place, Operand::Y);
  const auto begin = [&](const fb::Relocation& range) {
    return place.entry.value(range.value()).offset_bytes() + range.offset_bytes();
  };
  return begin(*residual) == begin(*y) && gemm.residual_pitch() == gemm.y_pitch() &&
         (gemm.batch() == 1 || gemm.residual_batch_stride() == gemm.y_batch_stride());
}

void verify_overlaps(const StepPlace& place, const fb::LibraryGemm& gemm, Faults& faults) {
  const std::span<const fb::Relocation> ranges = place.entry.relocations_of(place.step);
  for (size_t i = 0; i < ranges.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool written =
          ranges[i].mode() == fb::AccessMode::Write || ranges[j].mode() == fb::AccessMode::Write;
      if (!written || !same_memory(place.entry, ranges[i], ranges[j])) continue;
      const auto stands_at = [&](Operand position) {
        return ranges[i].position() == static_cast<uint32_t>(position) ||
               ranges[j].position() == static_cast<uint32_t>(position);
      };
      if (stands_at(Operand::Residual) && stands_at(Operand::Y) && is_in_place(place, gemm))
        continue;
      faults.add(VerifyRule::GemmOverlap, place.name(), " writes bytes of its operand at byte ",
                 ranges[i].position(), " that are those at byte ", ranges[j].position(), " too");
    }
  }
}

// ---- alternatives ----

using Touched = std::tuple<uint32_t, uint64_t, uint64_t, fb::AccessMode>;

// What a step or alternative does with which bytes, without what is the library's alone.
std::vector<Touched> touched_by(const StepPlace& place) {
  std::vector<Touched> touched;
  for (const fb::Relocation& range : place.entry.relocations_of(place.step)) {
    const bool workspace = place.step.kind() == fb::StepKind::LibraryGemm &&
                           range.position() == static_cast<uint32_t>(Operand::Workspace);
    if (workspace) continue;
    touched.emplace_back(range.value(), range.offset_bytes(), range.length_bytes(), range.mode());
  }
  std::sort(touched.begin(), touched.end());
  return touched;
}

bool may_be_exchanged(fb::StepKind kind) {
  return kind == fb::StepKind::Dispatch || kind == fb::StepKind::LibraryGemm;
}

void verify_gemm_index(const StepPlace& place, Faults& faults) {
  if (place.step.kind() != fb::StepKind::LibraryGemm) return;
  const auto* gemms = place.entry.entry.gemms();
  const uint32_t count = gemms == nullptr ? 0 : gemms->size();
  if (place.step.kernel() >= count) {
    faults.add(VerifyRule::GemmIndex, place.name(), " names gemm ", place.step.kernel(),
               ", the entry has ", count);
  }
  const uint32_t targets = place.entry.entry.targets();
  const bool has_library = std::ranges::any_of(target_rows(), [&](const TargetRow& row) {
    return row.has_library && row.mask() == targets;
  });
  if (!has_library) {
    faults.add(VerifyRule::GemmTarget, place.name(), " stands in an entry for targets ",
               place.entry.entry.targets(), ", the library is CUDA's");
  }
}

}  // namespace

void verify_gemm_record(const EntryParts& entry, uint32_t index, Faults& faults) {
  const fb::LibraryGemm& gemm = *entry.entry.gemms()->Get(index);
  const std::array dtypes = {gemm.a_dtype(), gemm.b_dtype(), gemm.y_dtype()};
  const bool known = std::all_of(dtypes.begin(), dtypes.end(),
                                 [](uint8_t dtype) { return dtype_row(dtype) != nullptr; });
  if (!known || gemm.compute() > fb::GemmCompute::MAX || gemm.epilogue() > fb::GemmEpilogue::MAX) {
    return faults.add(VerifyRule::EnumRange, gemm_name(entry, index),
                      " has a dtype, compute type or epilogue that is unknown");
  }
  for (const uint64_t size : {gemm.m(), gemm.n(), gemm.k(), gemm.batch()}) {
    if (size >= 1 && size < kDimLimit) continue;
    return faults.add(VerifyRule::GemmSize, gemm_name(entry, index), " is of ", gemm.m(), " x ",
                      gemm.n(), " x ", gemm.k(), ", batch ", gemm.batch(),
                      "; each must be 1 to 2^31 - 1");
  }
  verify_gemm_form(entry, index, faults);
  verify_gemm_tuning(entry, index, faults);
  verify_gemm_pitches(entry, index, faults);
}

void verify_entry_tuning(const EntryParts& entry, Faults& faults) {
  const std::string_view device = PlanView::text(entry.entry.tuned_device());
  const std::string_view driver = PlanView::text(entry.entry.tuned_driver());
  const auto is_good = [](std::string_view text) {
    return text.size() <= kMaxTuningBytes && is_utf8(text);
  };
  if (device.empty() == driver.empty() && is_good(device) && is_good(driver)) return;
  faults.add(VerifyRule::EntryTuning, entry.name(), " was tuned on device ", quoted(device),
             ", driver ", quoted(driver), "; wanted two names, or nothing");
}

void verify_gemm_tables(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  verify_entry_tuning(entry, faults);
  const uint32_t gemms = entry.entry.gemms() == nullptr ? 0 : entry.entry.gemms()->size();
  faults.charge(2 * kWorkPerTable * gemms);
  for (uint32_t i = 0; i < gemms && !faults.full(); ++i) verify_gemm_record(entry, i, faults);
  uint64_t next = 0;
  const auto* alternatives = entry.entry.alternatives();
  for (uint32_t i = 0; alternatives != nullptr && i < alternatives->size(); ++i) {
    const fb::Alternative& alternative = *alternatives->Get(i);
    const uint64_t step = alternative.step();
    const bool in_order = step >= next && step < entry.steps.size();
    if (!in_order || !may_be_exchanged(entry.steps[step].kind()) ||
        !may_be_exchanged(alternative.other()->kind())) {
      return faults.add(VerifyRule::AlternativeStep, entry.name(), ", alternative ", i,
                        " is for step ", step, in_order ? ", which has none" : ", out of order");
    }
    next = step + 1;
  }
  if (!faults.empty()) return;
  for (const StepPlace& place : all_places(entry)) {
    if (faults.full()) return;
    if (place.is_alternative) verify_step_record(parts, place, faults);
    verify_gemm_index(place, faults);
  }
}

void verify_gemm(const StepPlace& place, Faults& faults) {
  const fb::LibraryGemm& gemm = *place.entry.entry.gemms()->Get(place.step.kernel());
  const std::array<WantedOperand, 6> operands = wanted_operands(gemm);
  const std::span<const fb::Relocation> relocations = place.entry.relocations_of(place.step);
  if (relocations.size() > kMaxOperands) {
    return faults.add(VerifyRule::GemmOperands, place.name(), " has ", relocations.size(),
                      " operands, at most ", kMaxOperands, " can be used");
  }
  for (const fb::Relocation& relocation : relocations) {
    verify_range(place, relocation, faults);
    const auto row = std::find_if(operands.begin(), operands.end(), [&](const WantedOperand& o) {
      return static_cast<uint32_t>(o.position) == relocation.position();
    });
    if (row != operands.end() && relocation_at(place, row->position) == &relocation) continue;
    faults.add(VerifyRule::GemmOperands, place.name(), " has an operand at byte ",
               relocation.position(), row == operands.end() ? ", which is no place" : " twice");
  }
  if (!faults.empty()) return;
  for (const WantedOperand& wanted : operands) verify_operand(place, wanted, faults);
  if (faults.empty()) verify_overlaps(place, gemm, faults);
}

void verify_alternatives(const EntryParts& entry, Faults& faults) {
  for (const StepPlace& place : all_places(entry)) {
    if (!place.is_alternative) continue;
    // Both lists are sorted.
    faults.charge(kWorkPerTable + 2 * work_of_sort(place.step.relocation_count()) +
                  kWorkPerEdge * place.step.edge_count());
    if (faults.full()) return;
    const fb::Step& step = entry.steps[place.number];
    const StepPlace own{.entry = entry, .number = place.number, .step = step};
    if (place.step.wave() == step.wave() &&
        std::ranges::equal(entry.edges_of(place.step), entry.edges_of(step)) &&
        touched_by(place) == touched_by(own))
      continue;
    faults.add(VerifyRule::AlternativePlace, place.name(),
               " differs from its step in wave, edges or accesses");
  }
}

}  // namespace rlx
