// SPDX-License-Identifier: Apache-2.0
// Sizes that depend on free symbols.
#include "runtime/plan/free_sizes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "runtime/base/text.h"

namespace rlx {
namespace {

// Structs of a FlatBuffers vector lie densely and little-endian, as this machine has them.
template <class Struct>
std::span<const Struct> structs_or_none(const flatbuffers::Vector<const Struct*>* vector) {
  if (vector == nullptr) return {};
  return {reinterpret_cast<const Struct*>(vector->Data()), vector->size()};
}

constexpr std::string_view kPastLimit = "exceeds 64 bits";
constexpr std::string_view kBelowZero = "is negative";
constexpr std::string_view kByZero = "divides by 0";

struct Size {
  uint64_t value = 0;
  std::string_view why_not = {};
};

Size operation(fb::SizeOp op, uint64_t a, uint64_t b) {
  Size size;
  switch (op) {
    case fb::SizeOp::Add:
      return __builtin_add_overflow(a, b, &size.value) ? Size{.why_not = kPastLimit} : size;
    case fb::SizeOp::Subtract:
      return a < b ? Size{.why_not = kBelowZero} : Size{.value = a - b};
    case fb::SizeOp::Multiply:
      return __builtin_mul_overflow(a, b, &size.value) ? Size{.why_not = kPastLimit} : size;
    case fb::SizeOp::FloorDivide:
      return b == 0 ? Size{.why_not = kByZero} : Size{.value = a / b};
    case fb::SizeOp::CeilDivide:
      return b == 0 ? Size{.why_not = kByZero} : Size{.value = a / b + (a % b == 0 ? 0 : 1)};
    case fb::SizeOp::Modulo:
      return b == 0 ? Size{.why_not = kByZero} : Size{.value = a % b};
    case fb::SizeOp::Min:
      return {.value = std::min(a, b)};
    case fb::SizeOp::Max:
      return {.value = std::max(a, b)};
    case fb::SizeOp::Constant:
    case fb::SizeOp::Symbol:
      break;  // No operations.
  }
  return {};
}

// How an operation is written: "a + b", "min(a, b)".
struct OperationText {
  std::string_view before;
  std::string_view between;
  std::string_view after;
};

OperationText text_of_operation(fb::SizeOp op) {
  switch (op) {
    case fb::SizeOp::Add:
      return {"(", " + ", ")"};
    case fb::SizeOp::Subtract:
      return {"(", " - ", ")"};
    case fb::SizeOp::Multiply:
      return {"", " * ", ""};
    case fb::SizeOp::FloorDivide:
      return {"floor(", " / ", ")"};
    case fb::SizeOp::CeilDivide:
      return {"ceil(", " / ", ")"};
    case fb::SizeOp::Modulo:
      return {"(", " mod ", ")"};
    case fb::SizeOp::Min:
      return {"min(", ", ", ")"};
    case fb::SizeOp::Max:
      return {"max(", ", ", ")"};
    case fb::SizeOp::Constant:
    case fb::SizeOp::Symbol:
      break;
  }
  return {};
}

std::string size_text(const fb::Plan& plan, std::span<const fb::SizeTerm> terms, uint32_t term,
                      uint32_t levels) {
  const fb::SizeTerm& record = terms[term];
  if (record.op() == fb::SizeOp::Constant) return std::to_string(record.value());
  if (record.op() == fb::SizeOp::Symbol) return plan.symbols()->Get(record.a())->name()->str();
  if (levels == 0) return "...";
  const OperationText text = text_of_operation(record.op());
  return text_of(text.before, size_text(plan, terms, record.a(), levels - 1), text.between,
                 size_text(plan, terms, record.b(), levels - 1), text.after);
}

struct GemmField {
  uint64_t (fb::LibraryGemm::*get)() const;
  bool (fb::LibraryGemm::*set)(uint64_t);
  flatbuffers::voffset_t place;
  std::string_view name;
};

// By part.
constexpr std::array<GemmField, kGemmPartCount> kGemmFields = {{
    {&fb::LibraryGemm::m, &fb::LibraryGemm::mutate_m, fb::LibraryGemm::VT_M, "m"},
    {&fb::LibraryGemm::n, &fb::LibraryGemm::mutate_n, fb::LibraryGemm::VT_N, "n"},
    {&fb::LibraryGemm::k, &fb::LibraryGemm::mutate_k, fb::LibraryGemm::VT_K, "k"},
    {&fb::LibraryGemm::batch, &fb::LibraryGemm::mutate_batch, fb::LibraryGemm::VT_BATCH, "batch"},
    {&fb::LibraryGemm::a_pitch, &fb::LibraryGemm::mutate_a_pitch, fb::LibraryGemm::VT_A_PITCH,
     "pitch of a"},
    {&fb::LibraryGemm::b_pitch, &fb::LibraryGemm::mutate_b_pitch, fb::LibraryGemm::VT_B_PITCH,
     "pitch of b"},
    {&fb::LibraryGemm::y_pitch, &fb::LibraryGemm::mutate_y_pitch, fb::LibraryGemm::VT_Y_PITCH,
     "pitch of y"},
    {&fb::LibraryGemm::residual_pitch, &fb::LibraryGemm::mutate_residual_pitch,
     fb::LibraryGemm::VT_RESIDUAL_PITCH, "pitch of the residual"},
    {&fb::LibraryGemm::a_batch_stride, &fb::LibraryGemm::mutate_a_batch_stride,
     fb::LibraryGemm::VT_A_BATCH_STRIDE, "batch stride of a"},
    {&fb::LibraryGemm::b_batch_stride, &fb::LibraryGemm::mutate_b_batch_stride,
     fb::LibraryGemm::VT_B_BATCH_STRIDE, "batch stride of b"},
    {&fb::LibraryGemm::y_batch_stride, &fb::LibraryGemm::mutate_y_batch_stride,
     fb::LibraryGemm::VT_Y_BATCH_STRIDE, "batch stride of y"},
    {&fb::LibraryGemm::residual_batch_stride, &fb::LibraryGemm::mutate_residual_batch_stride,
     fb::LibraryGemm::VT_RESIDUAL_BATCH_STRIDE, "batch stride of the residual"},
}};

auto order_of(const fb::Patch& patch) {
  return std::tuple(patch.field(), patch.index(), patch.part());
}

uint32_t params_bytes_of(fb::PatchField field) {
  return field == fb::PatchField::ParamsWord ? kParamsWordBytes : 2 * kParamsWordBytes;
}

template <class Struct>
Struct& record_of(flatbuffers::Vector<const Struct*>& records, uint32_t index) {
  return *records.GetMutableObject(index);
}

void set_grid(fb::Step& step, uint32_t axis, uint32_t size) {
  if (axis == 0) step.mutate_grid_x(size);
  if (axis == 1) step.mutate_grid_y(size);
  if (axis == 2) step.mutate_grid_z(size);
}

uint32_t grid_of(const fb::Step& step, uint32_t axis) {
  if (axis == 0) return step.grid_x();
  return axis == 1 ? step.grid_y() : step.grid_z();
}

std::string range_text(uint64_t minimum, uint64_t maximum, uint64_t multiple_of) {
  if (minimum == maximum) return std::to_string(minimum);
  std::string text = text_of(minimum, " to ", maximum);
  if (multiple_of > 1) text += text_of(" in steps of ", multiple_of);
  return text;
}

}  // namespace

std::span<const fb::SizeTerm> size_terms(const fb::Entry& entry) {
  return structs_or_none(entry.sizes());
}

std::span<const fb::Patch> patches_of(const fb::Entry& entry) {
  return structs_or_none(entry.patches());
}

std::span<const fb::StepForm> forms_of(const fb::Entry& entry) {
  return structs_or_none(entry.forms());
}

std::span<const fb::StepForm> forms_of(const fb::Entry& entry, uint32_t step) {
  const std::span<const fb::StepForm> all = forms_of(entry);
  const auto first = std::ranges::lower_bound(all, step, {}, &fb::StepForm::step);
  const auto end = std::ranges::upper_bound(all, step, {}, &fb::StepForm::step);
  return all.subspan(static_cast<size_t>(first - all.begin()), static_cast<size_t>(end - first));
}

std::vector<uint64_t> symbols_at_maximum(const fb::Plan& plan) {
  std::vector<uint64_t> symbols;
  for (const fb::Symbol* symbol : *plan.symbols())
    symbols.push_back(symbol->bound().value_or(symbol->maximum()));
  return symbols;
}

std::span<const fb::SymbolRange> ranges_of(const fb::Entry& entry) {
  return structs_or_none(entry.ranges());
}

std::vector<uint64_t> symbols_at_maximum(const fb::Plan& plan, const fb::Entry& entry) {
  std::vector<uint64_t> symbols = symbols_at_maximum(plan);
  for (const fb::SymbolRange& range : ranges_of(entry)) symbols[range.symbol()] = range.maximum();
  return symbols;
}

bool is_made_for(const fb::Entry& entry, std::span<const uint64_t> symbols) {
  return std::ranges::all_of(ranges_of(entry), [&](const fb::SymbolRange& range) {
    return is_in_range(range, symbols[range.symbol()]);
  });
}

const fb::Entry* record_for(std::span<const fb::Entry* const> records,
                            std::span<const uint64_t> symbols) {
  const auto found = std::ranges::find_if(
      records, [&](const fb::Entry* record) { return is_made_for(*record, symbols); });
  return found == records.end() ? nullptr : *found;
}

std::string ranges_text(const fb::Plan& plan, const fb::Entry& entry) {
  std::string text;
  for (const fb::SymbolRange& range : ranges_of(entry)) {
    text += text_of(text.empty() ? "" : ", ", plan.symbols()->Get(range.symbol())->name()->c_str(),
                    " ", symbol_range_text(range));
  }
  return text;
}

std::string symbols_text(const fb::Plan& plan, std::span<const uint64_t> symbols) {
  std::string text;
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    const fb::Symbol& symbol = *plan.symbols()->Get(i);
    if (symbol.bound().has_value()) continue;
    text += text_of(text.empty() ? "" : ", ", symbol.name()->c_str(), " = ", symbols[i]);
  }
  return text;
}

std::string symbol_range_text(const fb::Symbol& symbol) {
  return range_text(symbol.minimum(), symbol.maximum(), symbol.multiple_of());
}

std::string symbol_range_text(const fb::SymbolRange& range) {
  return range_text(range.minimum(), range.maximum(), range.multiple_of());
}

bool is_in_range(const fb::SymbolRange& range, uint64_t value) {
  return value >= range.minimum() && value <= range.maximum() && value % range.multiple_of() == 0;
}

bool is_in_range(const fb::Symbol& symbol, uint64_t value) {
  return value >= symbol.minimum() && value <= symbol.maximum() &&
         value % symbol.multiple_of() == 0;
}

std::optional<SizeFault> evaluate_sizes(std::span<const fb::SizeTerm> terms,
                                        std::span<const uint64_t> symbols,
                                        std::span<uint64_t> sizes) {
  for (uint32_t i = 0; i < terms.size(); ++i) {
    const fb::SizeTerm& term = terms[i];
    if (term.op() == fb::SizeOp::Constant) {
      sizes[i] = term.value();
    } else if (term.op() == fb::SizeOp::Symbol) {
      sizes[i] = symbols[term.a()];
    } else {
      const Size size = operation(term.op(), sizes[term.a()], sizes[term.b()]);
      if (!size.why_not.empty()) return SizeFault{.term = i, .why = size.why_not};
      sizes[i] = size.value;
    }
  }
  return std::nullopt;
}

std::string size_text(const fb::Plan& plan, std::span<const fb::SizeTerm> terms, uint32_t term) {
  constexpr uint32_t kLevels = 6;
  const std::string text = size_text(plan, terms, term, kLevels);
  // Nothing stands around the whole.
  const bool is_enclosed = text_of_operation(terms[term].op()).before == "(";
  return is_enclosed ? text.substr(1, text.size() - 2) : text;
}

std::string dims_text(const fb::Plan& plan, const fb::Entry& entry, uint32_t value) {
  const auto& dims = *entry.values()->Get(value)->dims();
  std::string text = "[";
  for (uint32_t axis = 0; axis < dims.size(); ++axis) {
    const fb::Patch* patch = find_patch(entry, fb::PatchField::ValueDim, value, axis);
    text += text_of(axis == 0 ? "" : ",", patch == nullptr
                                              ? std::to_string(dims.Get(axis))
                                              : size_text(plan, size_terms(entry), patch->size()));
  }
  return text + "]";
}

const fb::Patch* find_patch(const fb::Entry& entry, fb::PatchField field, uint32_t index,
                            uint32_t part) {
  const std::span<const fb::Patch> patches = patches_of(entry);
  const auto wanted = std::tuple(field, index, part);
  const auto found =
      std::lower_bound(patches.begin(), patches.end(), wanted,
                       [](const fb::Patch& patch, const auto& w) { return order_of(patch) < w; });
  return found == patches.end() || order_of(*found) != wanted ? nullptr : &*found;
}

std::optional<uint32_t> symbol_of_dim(const fb::Entry& entry, uint32_t value, uint32_t axis) {
  const fb::Patch* patch = find_patch(entry, fb::PatchField::ValueDim, value, axis);
  if (patch == nullptr) return std::nullopt;
  const fb::SizeTerm& term = size_terms(entry)[patch->size()];
  return term.op() == fb::SizeOp::Symbol ? std::optional(term.a()) : std::nullopt;
}

bool is_stored(const fb::Entry& entry, const fb::Patch& patch) {
  const auto stored = [](const auto& record, flatbuffers::voffset_t place) {
    return reinterpret_cast<const flatbuffers::Table&>(record).GetOptionalFieldOffset(place) != 0;
  };
  if (patch.field() == fb::PatchField::ValueBytes)
    return stored(*entry.values()->Get(patch.index()), fb::Value::VT_SIZE_BYTES);
  if (patch.field() == fb::PatchField::Gemm)
    return stored(*entry.gemms()->Get(patch.index()), kGemmFields[patch.part()].place);
  return true;
}

uint64_t patched_field(const fb::Entry& entry, const fb::Patch& patch,
                       std::span<const std::byte> params) {
  uint64_t size = 0;
  switch (patch.field()) {
    case fb::PatchField::ValueDim:
      return entry.values()->Get(patch.index())->dims()->Get(patch.part());
    case fb::PatchField::ValueBytes:
      return entry.values()->Get(patch.index())->size_bytes();
    case fb::PatchField::RelocationOffset:
      return entry.relocations()->Get(patch.index())->offset_bytes();
    case fb::PatchField::RelocationLength:
      return entry.relocations()->Get(patch.index())->length_bytes();
    case fb::PatchField::Grid:
      return grid_of(*entry.steps()->Get(patch.index()), patch.part());
    case fb::PatchField::ParamsWord:
    case fb::PatchField::ParamsLong:
      std::memcpy(&size, params.data() + patch.part(), params_bytes_of(patch.field()));
      return size;
    case fb::PatchField::BytesMoved:
      return entry.steps()->Get(patch.index())->bytes_moved();
    case fb::PatchField::Flops:
      return entry.steps()->Get(patch.index())->flops();
    case fb::PatchField::Gemm:
      return (entry.gemms()->Get(patch.index())->*kGemmFields[patch.part()].get)();
  }
  return size;
}

void set_patched_field(fb::Entry& entry, const fb::Patch& patch, std::span<std::byte> params,
                       uint64_t size) {
  switch (patch.field()) {
    case fb::PatchField::ValueDim:
      entry.mutable_values()
          ->GetMutableObject(patch.index())
          ->mutable_dims()
          ->Mutate(patch.part(), size);
      break;
    case fb::PatchField::ValueBytes:
      entry.mutable_values()->GetMutableObject(patch.index())->mutate_size_bytes(size);
      break;
    case fb::PatchField::RelocationOffset:
      record_of(*entry.mutable_relocations(), patch.index()).mutate_offset_bytes(size);
      break;
    case fb::PatchField::RelocationLength:
      record_of(*entry.mutable_relocations(), patch.index()).mutate_length_bytes(size);
      break;
    case fb::PatchField::Grid:
      set_grid(record_of(*entry.mutable_steps(), patch.index()), patch.part(),
               static_cast<uint32_t>(size));
      break;
    case fb::PatchField::ParamsWord:
    case fb::PatchField::ParamsLong:
      std::memcpy(params.data() + patch.part(), &size, params_bytes_of(patch.field()));
      break;
    case fb::PatchField::BytesMoved:
      record_of(*entry.mutable_steps(), patch.index()).mutate_bytes_moved(size);
      break;
    case fb::PatchField::Flops:
      record_of(*entry.mutable_steps(), patch.index()).mutate_flops(size);
      break;
    case fb::PatchField::Gemm:
      (entry.mutable_gemms()->GetMutableObject(patch.index())->*kGemmFields[patch.part()].set)(
          size);
      break;
  }
}

uint64_t patched_field_limit(const fb::Patch& patch) {
  const bool is_word =
      patch.field() == fb::PatchField::Grid || patch.field() == fb::PatchField::ParamsWord;
  return is_word ? std::numeric_limits<uint32_t>::max() : std::numeric_limits<uint64_t>::max();
}

std::string patch_text(const fb::Patch& patch) {
  switch (patch.field()) {
    case fb::PatchField::ValueDim:
      return text_of("dim ", patch.part(), " of value ", patch.index());
    case fb::PatchField::ValueBytes:
      return text_of("the bytes of value ", patch.index());
    case fb::PatchField::RelocationOffset:
      return text_of("the offset of relocation ", patch.index());
    case fb::PatchField::RelocationLength:
      return text_of("the length of relocation ", patch.index());
    case fb::PatchField::Grid:
      return text_of("axis ", patch.part(), " of the grid of step ", patch.index());
    case fb::PatchField::ParamsWord:
    case fb::PatchField::ParamsLong:
      return text_of("the ", params_bytes_of(patch.field()), " bytes at ", patch.part(),
                     " of the params of step ", patch.index());
    case fb::PatchField::BytesMoved:
      return text_of("the bytes moved by step ", patch.index());
    case fb::PatchField::Flops:
      return text_of("the flops of step ", patch.index());
    case fb::PatchField::Gemm:
      return text_of("the ",
                     patch.part() < kGemmPartCount ? kGemmFields[patch.part()].name
                                                   : std::string_view("unknown part"),
                     " of gemm ", patch.index());
  }
  return text_of("field ", static_cast<uint32_t>(patch.field()), " of ", patch.index());
}

}  // namespace rlx
