// SPDX-License-Identifier: Apache-2.0
// Weights of several modules in one table.
#include "compiler/ir/merge_weights.h"

#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

bool same_data(const HostBytes& a, const HostBytes& b) {
  if (a.bytes.size() != b.bytes.size()) return false;
  return a.bytes.data() == b.bytes.data() || a.bytes.empty() ||
         std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
}
bool same_data(const SplatData& a, const SplatData& b) {
  return a.value == b.value;
}
bool same_data(const RandomData& a, const RandomData& b) {
  const auto all = [](const RandomData& data) {
    return std::tuple(data.distribution, data.a, data.b, data.seed, data.stream);
  };
  return all(a) == all(b);
}
bool same_data(const ComputedData& a, const ComputedData& b) {
  return a == b;
}

bool same_weight(const Weight& a, const Weight& b) {
  if (a.type != b.type || a.data.index() != b.data.index()) return false;
  return std::visit(
      [&b](const auto& data) {
        return same_data(data, std::get<std::decay_t<decltype(data)>>(b.data));
      },
      a.data);
}

// The data with its inputs, if it has any, numbered as in the joint table.
WeightData renumbered(WeightData data, const std::vector<WeightId>& ids) {
  if (auto* computed = std::get_if<ComputedData>(&data)) {
    for (std::optional<WeightId>& input : computed->inputs) {
      if (input) input = ids.at(index_of(*input));
    }
  }
  return data;
}

}  // namespace

std::vector<WeightId> merge_weights(Module& module, const Module& other,
                                    const std::string& suffix) {
  // Equal weights have equal byte counts and kinds, so few are compared.
  std::multimap<std::pair<uint64_t, size_t>, WeightId> known;
  std::set<std::string> names;
  const auto note = [&](WeightId id) {
    const Weight& weight = module.weight(id);
    known.emplace(std::pair(byte_size(weight.type), weight.data.index()), id);
    names.insert(weight.name);
  };
  for (size_t i = 0; i < module.weights.size(); ++i) note(WeightId{narrow<uint32_t>(i)});

  std::vector<WeightId> ids;
  std::set<WeightId> taken;  // two equal weights of `other` stay two: each state begins as its own
  for (const Weight& theirs : other.weights) {
    Weight weight = theirs;
    weight.data = renumbered(std::move(weight.data), ids);
    std::optional<WeightId> found;
    const auto [first, last] =
        known.equal_range(std::pair(byte_size(weight.type), weight.data.index()));
    for (auto place = first; place != last && !found; ++place) {
      const WeightId candidate = place->second;
      if (!taken.contains(candidate) && same_weight(module.weight(candidate), weight))
        found = candidate;
    }
    if (!found) {
      while (names.contains(weight.name)) weight.name += suffix;
      found = WeightId{narrow<uint32_t>(module.weights.size())};
      module.weights.push_back(std::move(weight));
      note(*found);
    }
    taken.insert(*found);
    ids.push_back(*found);
  }
  return ids;
}

}  // namespace rlx
