// SPDX-License-Identifier: Apache-2.0
// The table of all ops, made from ops.def.
#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/registered_ops.h"
#include "compiler/support/check.h"

namespace rlx {

#define RLX_OPS(table, ...) std::span<const OpDef> table##_ops();
#include "compiler/ops/ops.def"
#undef RLX_OPS

namespace {

// The enumerator of an op: its name, but for words of C++ and of its macros.
std::string enumerator_of(std::string_view name) {
  const bool is_word = name == "if" || name == "while" || name == "assert";
  return std::string(name) + (is_word ? "_" : "");
}

std::vector<const OpDef*> collect_ops() {
  std::vector<const OpDef*> ops;
  // OpId counts the names of ops.def.
  const auto add = [&ops](std::span<const OpDef> table, std::string_view names) {
    std::string defined;
    for (const OpDef& op : table) {
      defined += (defined.empty() ? "" : ", ") + enumerator_of(op.name);
      ops.push_back(&op);
    }
    RLX_CHECK(defined == names, "ops.def has the row \"" + std::string(names) +
                                    "\" for a table of \"" + defined + "\"");
  };
#define RLX_OPS(table, ...) add(table##_ops(), #__VA_ARGS__);
#include "compiler/ops/ops.def"
#undef RLX_OPS
  return ops;
}

using RegisteredOps = std::map<std::string_view, const OpDef*>;

RegisteredOps& registered() {
  static RegisteredOps ops;
  return ops;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitution, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const OpDef* const> all_ops() {
  static const std::vector<const OpDef*> ops = collect_ops();
  return ops;
}

std::string_view name_of(OpId op) {
  return all_ops()[static_cast<size_t>(op)]->name;
}

const OpDef* find_op(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const OpDef*> map;
    for (const OpDef* op : all_ops()) {
      RLX_CHECK(map.emplace(op->name, op).second,
                "op \"" + std::string(op->name) + "\" defined twice");
    }
    return map;
  }();
  const auto found = by_name.find(name);
  if (found != by_name.end()) return found->second;
  const auto extension = registered().find(name);
  return extension == registered().end() ? nullptr : extension->second;
}

bool register_op(const OpDef& op) {
  return find_op(op.name) == nullptr && registered().emplace(op.name, &op).second;
}

bool is_registered(std::string_view name) {
  return registered().contains(name);
}

std::vector<const OpDef*> registered_ops() {
  std::vector<const OpDef*> ops;
  for (const auto& [name, op] : registered()) ops.push_back(op);
  return ops;
}

std::string suggest_op(std::string_view name) {
  std::string best;
  size_t best_distance = std::max<size_t>(name.size() / 3, 1) + 1;
  std::vector<const OpDef*> ops(all_ops().begin(), all_ops().end());
  const std::vector<const OpDef*> extensions = registered_ops();
  ops.insert(ops.end(), extensions.begin(), extensions.end());
  for (const OpDef* op : ops) {
    const size_t distance = edit_distance(name, op->name);
    if (distance < best_distance) {
      best_distance = distance;
      best = op->name;
    }
  }
  return best;
}

}  // namespace rlx
