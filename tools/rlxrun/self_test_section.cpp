// SPDX-License-Identifier: Apache-2.0
// The section of schema/self_test.fbs, which may be anybody's bytes.
#include <algorithm>

#include "runtime/base/dtype.h"
#include "runtime/base/text.h"
#include "schema/self_test.h"
#include "schema/self_test_generated.h"
#include "tools/plan_file/plan_file.h"
#include "tools/rlxrun/self_test.h"

namespace rlx::tool {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

Status fault(const std::string& message) {
  return {RLX_INVALID_PLAN, "the plan's self-test " + message + "; rlxc self-test writes it anew"};
}

Status unpack(const fb::SelfTestTensor& tensor, npy::Array& array) {
  const std::string name = quoted(PlanView::text(tensor.name()));
  const std::optional<npy::Element> element = npy::element_for(tensor.dtype());
  if (!element) return fault("has " + name + " of a type that arrays lack");
  if (tensor.dims()->size() > RLX_MAX_RANK) return fault("has " + name + " of too many dims");
  uint64_t bytes = npy::element_bytes(*element);
  for (const uint64_t dim : *tensor.dims()) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return fault("has " + name + " of no size");
  }
  if (bytes != tensor.data()->size()) {
    return fault("has " + name + " with " + std::to_string(tensor.data()->size()) +
                 " bytes, wanted " + std::to_string(bytes));
  }
  const auto data = std::as_bytes(std::span(tensor.data()->data(), tensor.data()->size()));
  array = {.element = *element,
           .dims = {tensor.dims()->begin(), tensor.dims()->end()},
           .data = {data.begin(), data.end()}};
  return {};
}

Status unpack(const fb::SelfTestCase& from, const PlanView& plan, SelfTestCase& to) {
  to.entry = PlanView::text(from.entry());
  for (const fb::SelfTestSymbol* symbol : *from.symbols()) {
    if (symbol->symbol() >= plan.index().symbols()->size())
      return fault("names symbol " + std::to_string(symbol->symbol()) + ", which the plan lacks");
    const fb::Symbol& known = *plan.index().symbols()->Get(symbol->symbol());
    to.symbols.push_back(
        {.name = std::string(PlanView::text(known.name())), .value = symbol->value()});
  }
  for (const fb::SelfTestTensor* tensor : *from.inputs()) {
    npy::Array array;
    RLX_RETURN_IF_ERROR(unpack(*tensor, array));
    to.inputs.emplace_back(std::string(PlanView::text(tensor->name())), std::move(array));
  }
  for (const fb::SelfTestTensor* tensor : *from.outputs()) {
    ExpectedArray expected{.name = std::string(PlanView::text(tensor->name())),
                           .array = {},
                           .bound = {.rtol = tensor->rtol(), .atol = tensor->atol()}};
    RLX_RETURN_IF_ERROR(unpack(*tensor, expected.array));
    to.outputs.push_back(std::move(expected));
  }
  return {};
}

// The rlx_dtype whose arrays have this element.
uint8_t dtype_for(npy::Element element) {
  for (uint32_t dtype = 0; dtype <= RLX_F8E5M2; ++dtype) {
    if (npy::element_for(dtype) == element) return static_cast<uint8_t>(dtype);
  }
  return RLX_U8;
}

flatbuffers::Offset<fb::SelfTestTensor> pack(flatbuffers::FlatBufferBuilder& builder,
                                             const std::string& name, const npy::Array& array,
                                             const Tolerances& bound) {
  const auto text = builder.CreateString(name);
  const auto dims = builder.CreateVector(array.dims);
  const auto data =
      builder.CreateVector(reinterpret_cast<const uint8_t*>(array.data.data()), array.data.size());
  return fb::CreateSelfTestTensor(builder, text, dtype_for(array.element), dims, data,
                                  bound.rtol.value_or(0), bound.atol.value_or(0));
}

uint32_t symbol_index(const PlanView& plan, const std::string& name) {
  const auto& symbols = *plan.index().symbols();
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    if (PlanView::text(symbols.Get(i)->name()) == name) return i;
  }
  return 0;
}

flatbuffers::Offset<fb::SelfTestCase> pack(flatbuffers::FlatBufferBuilder& builder,
                                           const SelfTestCase& from, const PlanView& plan) {
  std::vector<fb::SelfTestSymbol> symbols;
  for (const SymbolValue& symbol : from.symbols)
    symbols.emplace_back(symbol.value, symbol_index(plan, symbol.name));
  std::vector<flatbuffers::Offset<fb::SelfTestTensor>> inputs;
  for (const auto& [name, array] : from.inputs) inputs.push_back(pack(builder, name, array, {}));
  std::vector<flatbuffers::Offset<fb::SelfTestTensor>> outputs;
  for (const ExpectedArray& output : from.outputs)
    outputs.push_back(pack(builder, output.name, output.array, output.bound));
  const auto entry = builder.CreateString(from.entry);
  const auto symbol_list = builder.CreateVectorOfStructs(symbols);
  const auto input_list = builder.CreateVector(inputs);
  const auto output_list = builder.CreateVector(outputs);
  return fb::CreateSelfTestCase(builder, entry, symbol_list, input_list, output_list);
}

}  // namespace

Status read_self_test(const std::string& plan_path, const PlanView& plan,
                      std::vector<SelfTestCase>& cases) {
  cases.clear();
  std::vector<std::byte> bytes;
  RLX_RETURN_IF_ERROR(read_section(plan_path, kSelfTestSection, kMostBytes, bytes));
  if (bytes.empty()) return {};
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!fb::VerifySelfTestBuffer(verifier)) return fault("is not well-formed");
  for (const fb::SelfTestCase* one : *fb::GetSelfTest(data)->cases()) {
    SelfTestCase unpacked;
    RLX_RETURN_IF_ERROR(unpack(*one, plan, unpacked));
    cases.push_back(std::move(unpacked));
  }
  return {};
}

Status write_self_test(const std::string& plan_path, const PlanView& plan,
                       const std::vector<SelfTestCase>& cases) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fb::SelfTestCase>> packed;
  for (const SelfTestCase& one : cases) packed.push_back(pack(builder, one, plan));
  const auto list = builder.CreateVector(packed);
  fb::FinishSelfTestBuffer(builder, fb::CreateSelfTest(builder, list));
  const auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return write_with_section(plan_path, kSelfTestSection, bytes, plan_path);
}

}  // namespace rlx::tool
