// SPDX-License-Identifier: Apache-2.0
// Weights by name and by making.
#include "compiler/ir/weight_index.h"

#include "compiler/ir/graph.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

bool same_numbers(const RandomData& a, const RandomData& b) {
  return a.distribution == b.distribution && a.a == b.a && a.b == b.b && a.seed == b.seed &&
         a.stream == b.stream;
}

// Made on the device in the same way.
bool same_making(const WeightData& a, const WeightData& b) {
  const auto* random_a = std::get_if<RandomData>(&a);
  const auto* random_b = std::get_if<RandomData>(&b);
  if (random_a != nullptr && random_b != nullptr) return same_numbers(*random_a, *random_b);
  const auto* computed_a = std::get_if<ComputedData>(&a);
  const auto* computed_b = std::get_if<ComputedData>(&b);
  return computed_a != nullptr && computed_b != nullptr && *computed_a == *computed_b;
}

// Equal for weights that are made alike, and seldom for others; empty for a weight that is not made
// on the device.
std::string making_of(const Weight& weight) {
  if (const auto* random = std::get_if<RandomData>(&weight.data)) {
    return "random " + std::to_string(random->seed) + " " + std::to_string(random->stream);
  }
  const auto* computed = std::get_if<ComputedData>(&weight.data);
  if (computed == nullptr) return {};
  std::string text = computed->op;
  for (const std::optional<WeightId>& input : computed->inputs)
    text += input ? " " + std::to_string(index_of(*input)) : " -";
  return text;
}

}  // namespace

bool WeightIndex::has_name(const std::vector<Weight>& weights, const std::string& name) {
  follow(weights);
  return names_.contains(name);
}

std::optional<WeightId> WeightIndex::made_alike(const std::vector<Weight>& weights,
                                                const Weight& wanted) {
  follow(weights);
  const auto found = made_.find(making_of(wanted));
  if (found == made_.end()) return std::nullopt;
  for (const WeightId id : found->second) {
    const Weight& known = weights[index_of(id)];
    if (known.type == wanted.type && same_making(known.data, wanted.data)) return id;
  }
  return std::nullopt;
}

void WeightIndex::follow(const std::vector<Weight>& weights) {
  for (; indexed_ < weights.size(); ++indexed_) {
    const Weight& weight = weights[indexed_];
    names_.insert(weight.name);
    std::string making = making_of(weight);
    if (!making.empty()) made_[std::move(making)].push_back(WeightId{narrow<uint32_t>(indexed_)});
  }
}

}  // namespace rlx
