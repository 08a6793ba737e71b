// SPDX-License-Identifier: Apache-2.0
// The free sizes of an entry as its caller has chosen them.
#include "runtime/api/entry_sizes.h"

#include <algorithm>

#include "runtime/base/dtype.h"
#include "runtime/base/text.h"

namespace rlx {
namespace {

std::string symbol_name(const fb::Plan& plan, uint32_t symbol) {
  return quoted(PlanView::text(plan.symbols()->Get(symbol)->name()));
}

}  // namespace

EntrySizes::EntrySizes(const fb::Plan& plan, std::span<const fb::Entry* const> records)
    : plan_(&plan),
      records_(records),
      entry_(records.front()),
      present_(records.front()),
      is_free_(records.size() > 1 || ::rlx::has_free_sizes(*records.front())),
      symbols_(symbols_at_maximum(plan)),
      kept_(symbols_),
      sources_(symbols_.size()) {
  size_t terms = 0;
  for (const fb::Entry* record : records) terms = std::max(terms, size_terms(*record).size());
  sizes_.resize(terms);
  for (const uint32_t value : *entry_->inputs()) inputs_.push_back({.value = value, .given = {}});
}

std::string EntrySizes::text() const {
  return symbols_text(*plan_, symbols_);
}

std::string EntrySizes::entry_name() const {
  return text_of("entry ", quoted(PlanView::text(entry_->name())));
}

std::string EntrySizes::input_name(uint32_t input) const {
  return quoted(PlanView::text(PlanView::value(*entry_, inputs_[input].value).name()));
}

Status EntrySizes::find_symbol(std::string_view name, uint32_t& symbol) const {
  std::vector<std::string_view> names;
  for (uint32_t i = 0; i < plan_->symbols()->size(); ++i) {
    const fb::Symbol& candidate = *plan_->symbols()->Get(i);
    if (PlanView::text(candidate.name()) == name) {
      symbol = i;
      return {};
    }
    names.push_back(PlanView::text(candidate.name()));
  }
  return {RLX_INVALID_ARGUMENT,
          names.empty() ? text_of("the plan has no symbol ", quoted(name), ", and no other")
                        : text_of("the plan has no symbol ", quoted(name), "; its symbols are ",
                                  list_text(names))};
}

bool EntrySizes::is_possible(uint32_t symbol, uint64_t value) const {
  if (!is_in_range(*plan_->symbols()->Get(symbol), value)) return false;
  return std::ranges::any_of(records_, [&](const fb::Entry* record) {
    return std::ranges::all_of(ranges_of(*record), [&](const fb::SymbolRange& range) {
      return range.symbol() != symbol || is_in_range(range, value);
    });
  });
}

std::string EntrySizes::possible_text(uint32_t symbol) const {
  std::vector<std::pair<uint64_t, std::string>> ranges;  // by their minimum
  for (const fb::Entry* record : records_) {
    for (const fb::SymbolRange& range : ranges_of(*record)) {
      if (range.symbol() == symbol) ranges.emplace_back(range.minimum(), symbol_range_text(range));
    }
  }
  if (ranges.empty()) return symbol_range_text(*plan_->symbols()->Get(symbol));
  std::ranges::sort(ranges);
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  std::string text;
  for (const auto& [minimum, range] : ranges) text += (text.empty() ? "" : ", ") + range;
  return text;
}

Status EntrySizes::set_symbol(std::string_view name, uint64_t value, bool& changed) {
  uint32_t found = 0;
  RLX_RETURN_IF_ERROR(find_symbol(name, found));
  const fb::Symbol& symbol = *plan_->symbols()->Get(found);
  if (symbol.bound().has_value() ? value != *symbol.bound() : !is_possible(found, value)) {
    return {RLX_INVALID_ARGUMENT,
            text_of("symbol ", quoted(name), " was given ", value, ", wanted ",
                    symbol.bound().has_value() ? text_of(*symbol.bound(), ", which the plan fixed")
                                               : possible_text(found))};
  }
  changed = symbols_[found] != value;
  symbols_[found] = value;
  sources_[found].reset();
  take_symbols();
  return {};
}

Status EntrySizes::get_symbol(std::string_view name, uint64_t& value) const {
  uint32_t found = 0;
  RLX_RETURN_IF_ERROR(find_symbol(name, found));
  value = symbols_[found];
  return {};
}

Status EntrySizes::check_input(uint32_t input, std::span<const uint64_t> dims) const {
  const uint32_t v = inputs_[input].value;
  const fb::Value& value = PlanView::value(*entry_, v);
  for (uint32_t axis = 0; axis < dims.size(); ++axis) {
    const std::optional<uint32_t> found = symbol_of_dim(*entry_, v, axis);
    if (!found) continue;
    if (!is_possible(*found, dims[axis])) {
      return {RLX_INVALID_ARGUMENT,
              text_of("input ", input_name(input), " of ", entry_name(), " has ", dims[axis],
                      " at axis ", axis, ", which is symbol ", symbol_name(*plan_, *found),
                      ", wanted ", possible_text(*found))};
    }
    for (uint32_t before = 0; before < axis; ++before) {
      if (symbol_of_dim(*entry_, v, before) != found || dims[before] == dims[axis]) continue;
      return {RLX_INVALID_ARGUMENT,
              text_of("input ", input_name(input), " of ", entry_name(), " has ", dims[before],
                      " at axis ", before, " and ", dims[axis], " at axis ", axis,
                      ", both of which are symbol ", symbol_name(*plan_, *found))};
    }
  }
  const std::optional<uint64_t> bytes = tensor_bytes(value.dtype(), dims);
  if (bytes && *bytes <= value.size_bytes()) return {};
  return {RLX_INVALID_ARGUMENT,
          text_of("input ", input_name(input), " of ", entry_name(), " got ",
                  tensor_text(value.dtype(), dims), ", which is larger than it can become: ",
                  tensor_text(value.dtype(), {value.dims()->data(), value.dims()->size()}))};
}

bool EntrySizes::take_input(uint32_t input, std::span<const uint64_t> dims) {
  TensorDims& given = inputs_[input].given.emplace();
  given.rank = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), given.dims.begin());
  bool changed = false;
  for (uint32_t axis = 0; axis < dims.size(); ++axis) {
    const std::optional<uint32_t> symbol = symbol_of_dim(*entry_, inputs_[input].value, axis);
    if (!symbol) continue;
    changed = changed || symbols_[*symbol] != dims[axis];
    symbols_[*symbol] = dims[axis];
    sources_[*symbol] = {.input = input, .axis = axis};
  }
  take_symbols();
  return changed;
}

Status EntrySizes::check_record() const {
  if (present_ != nullptr) return {};
  return {RLX_INVALID_ARGUMENT, text_of("the plan has nothing for ", entry_name(), " at ", text(),
                                        ": none of its ranges has these values together")};
}

Status EntrySizes::evaluate() {
  RLX_RETURN_IF_ERROR(check_record());
  const std::span<const fb::SizeTerm> terms = size_terms(*present_);
  const std::optional<SizeFault> fault = evaluate_sizes(terms, symbols_, sizes_);
  if (!fault) return {};
  return {RLX_INVALID_PLAN, text_of(entry_name(), " at ", text(), ": ",
                                    size_text(*plan_, terms, fault->term), " ", fault->why)};
}

uint64_t EntrySizes::dim_at(uint32_t value, uint32_t axis) const {
  const fb::Patch* patch = find_patch(*present_, fb::PatchField::ValueDim, value, axis);
  return patch != nullptr ? sizes_[patch->size()]
                          : PlanView::value(*present_, value).dims()->Get(axis);
}

Status EntrySizes::disagreement(uint32_t input, uint32_t axis) const {
  const uint32_t value = inputs_[input].value;
  const uint64_t given = inputs_[input].given->dims[axis];
  const std::optional<uint32_t> symbol = symbol_of_dim(*entry_, value, axis);
  if (!symbol) {
    const fb::Patch* patch = find_patch(*entry_, fb::PatchField::ValueDim, value, axis);
    return {RLX_INVALID_ARGUMENT,
            text_of("input ", input_name(input), " of ", entry_name(), " was set with ", given,
                    " at axis ", axis, ", wanted ", dim_at(present_value(input), axis), ", which ",
                    size_text(*plan_, size_terms(*entry_), patch->size()), " is at ", text())};
  }
  const std::optional<Source>& source = sources_[*symbol];
  if (!source || !inputs_[source->input].given) {
    return {RLX_INVALID_STATE,
            text_of("input ", input_name(input), " of ", entry_name(), " was set with ", given,
                    " at axis ", axis, ", symbol ", symbol_name(*plan_, *symbol), " is ",
                    symbols_[*symbol], " now; set the input again, or the symbol")};
  }
  return {RLX_INVALID_ARGUMENT,
          text_of("inputs ", input_name(source->input), " (", symbols_[*symbol], " at axis ",
                  source->axis, ") and ", input_name(input), " (", given, " at axis ", axis,
                  ") of ", entry_name(), " disagree on symbol ", symbol_name(*plan_, *symbol))};
}

Status EntrySizes::check_agreement() {
  if (Status status = evaluate(); !status.ok()) {
    restore();
    return status;
  }
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].given) continue;
    for (uint32_t axis = 0; axis < inputs_[i].given->rank; ++axis) {
      if (inputs_[i].given->dims[axis] != dim_at(present_value(i), axis))
        return disagreement(i, axis);
    }
  }
  return {};
}

Status EntrySizes::shape(Ports ports, uint32_t number, TensorDims& shape) {
  RLX_RETURN_IF_ERROR(evaluate());
  const uint32_t value = (present_->*ports)()->Get(number);
  const fb::Value& largest = PlanView::value(*present_, value);
  shape.rank = largest.dims()->size();
  for (uint32_t axis = 0; axis < shape.rank; ++axis) shape.dims[axis] = dim_at(value, axis);
  const std::optional<uint64_t> bytes = tensor_bytes(largest.dtype(), shape.span());
  if (bytes && *bytes <= largest.size_bytes()) return {};
  return {RLX_INVALID_PLAN,
          text_of(quoted(PlanView::text(largest.name())), " of ", entry_name(), " is ",
                  tensor_text(largest.dtype(), shape.span()), " at ", text(),
                  ", larger than at the maximum: ",
                  tensor_text(largest.dtype(), {largest.dims()->data(), largest.dims()->size()}))};
}

}  // namespace rlx
