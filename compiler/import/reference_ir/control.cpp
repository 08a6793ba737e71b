// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/reference_ir/control.h"

#include <algorithm>
#include <array>

#include "compiler/import/names.h"
#include "compiler/import/reference_ir/alias.h"

namespace rlx::reference_ir {
namespace control_flow {
namespace {

constexpr AttrSpec whole(std::string_view name, std::string_view default_text = {},
                         bool required = false) {
  return {.name = name,
          .type = AttrType::Int,
          .default_text = default_text,
          .required = required,
          .minimum = 0};
}
constexpr std::array kBackward = {
    AttrSpec{.name = "length", .type = AttrType::Int, .required = true, .minimum = 1},
    whole("num_xs", "0"), whole("xs_idx"), whole("num_checkpoints", "0"),
    AttrSpec{.name = "save_trajectory", .type = AttrType::Bool, .default_text = "false"}};

// Rows of the table for the page: binding rewrites these nodes.
constexpr std::array kAliases = {
    Alias{"If", kAll, "`if`; bodies `then_branch`, `else_branch`"},
    Alias{"While", kAll, "`while`; bodies `cond`, `body`"},
    Alias{"Scan", kNone, "`scan` of one carry; with `save_trajectory` its rows are the result"},
    Alias{"ScanBackward",
          kNone,
          "`scan` in reverse over `body_vjp`: the gradient of the first carry",
          {3, kUnlimited},
          kBackward},
    Alias{"ScanBackwardXs",
          kNone,
          "`scan` in reverse over `body_vjp`: the gradients of one input's rows",
          {4, kUnlimited},
          kBackward},
    Alias{"CustomFn", kAll, "`call` of `fwd_body`"},
};

class Rewriter {
 public:
  Rewriter(const SourceNode& node, Diagnostics& diagnostics)
      : from_(node), diagnostics_(diagnostics) {
    to_ = node;
    to_.attributes.clear();
  }

  ControlFlow rewrite() {
    if (from_.op == "If") {
      to_.op = "if";
      rename("then_branch", "then");
      rename("else_branch", "else");
    } else if (from_.op == "While") {
      to_.op = "while";
      keep("max_iterations");
    } else if (from_.op == "CustomFn") {
      custom();
    } else {
      scan();
    }
    for (const auto& [name, value] : from_.attributes) {
      if (name == "shape" || name == "dtype" || std::ranges::find(read_, name) != read_.end())
        continue;
      fail("there is no attribute " + in_quotes(name));
    }
    if (is_refused_) return {.node = std::nullopt, .is_refused = true};
    return {.node = std::move(to_)};
  }

 private:
  void fail(std::string message, std::string hint = {}) {
    is_refused_ = true;
    diagnostics_.add({.severity = Severity::Error,
                      .code = DiagCode::BadField,
                      .place = from_.place,
                      .op = from_.op,
                      .node = from_.name,
                      .message = std::move(message),
                      .hint = std::move(hint)});
  }

  const SourceAttribute* find(const std::string& name) {
    read_.push_back(name);
    const auto found = from_.attributes.find(name);
    return found == from_.attributes.end() ? nullptr : &found->second;
  }
  void keep(const std::string& name) {
    if (const SourceAttribute* value = find(name)) to_.attributes.emplace(name, *value);
  }
  int64_t integer(const std::string& name, int64_t absent) {
    const SourceAttribute* value = find(name);
    if (value == nullptr) return absent;
    if (const auto* number = std::get_if<int64_t>(value)) return *number;
    fail("attribute " + in_quotes(name) + " is no integer");
    return absent;
  }
  bool flag(const std::string& name) {
    const SourceAttribute* value = find(name);
    if (value == nullptr) return false;
    if (const auto* truth = std::get_if<bool>(value)) return *truth;
    fail("attribute " + in_quotes(name) + " is no boolean");
    return false;
  }

  SourceBody* body(const std::string& name) {
    const auto found = std::ranges::find(to_.bodies, name, &SourceBody::name);
    return found == to_.bodies.end() ? nullptr : &*found;
  }
  void rename(const std::string& from, const std::string& to) {
    if (SourceBody* found = body(from)) {
      found->name = to;
    } else {
      fail("body " + in_quotes(from) + " is missing");
    }
  }
  void custom() {
    to_.op = "call";
    const int64_t inputs = integer("num_inputs", static_cast<int64_t>(from_.inputs.size()));
    if (inputs != static_cast<int64_t>(from_.inputs.size()))
      fail("num_inputs is " + std::to_string(inputs) + ", but the node has " +
           std::to_string(from_.inputs.size()));
    for (const char* rule : {"vjp_body", "jvp_body"}) {
      if (body(rule) != nullptr)
        fail(std::string("body \"") + rule + "\" is not read: gradients are those of fwd_body",
             "leave it out where the model is not trained, or where that gradient is as good");
    }
    rename("fwd_body", "body");
  }

  std::string fresh(const std::string& suffix) const { return from_.name + "." + suffix; }

  void scan() {
    to_.op = "scan";
    for (const char* name : {"length", "num_bcast", "num_xs", "num_checkpoints"}) keep(name);
    const bool has_rows = flag("save_trajectory");
    to_.attributes.emplace("num_carry", int64_t{1});
    if (!has_rows) return;
    to_.attributes.emplace("save_trajectory", true);
    to_.outputs.insert(to_.outputs.begin(), fresh("final"));
  }

  const SourceNode& from_;
  Diagnostics& diagnostics_;
  SourceNode to_;
  std::vector<std::string> read_;
  bool is_refused_ = false;
};

}  // namespace
}  // namespace control_flow

bool is_scan_backward(std::string_view op) {
  return op == "ScanBackward" || op == "ScanBackwardXs";
}

ScanBackward as_scan_backward(AliasNode& n, const SourceNode& from) {
  const int64_t length = n.attrs().integer("length");
  const int64_t xs = n.attrs().integer("num_xs");
  const int64_t checkpoints = n.attrs().integer("num_checkpoints");
  const bool has_rows = n.attrs().flag("save_trajectory");
  const bool wants_xs = from.op == "ScanBackwardXs";
  const int64_t wanted = n.attrs().has("xs_idx") ? n.attrs().integer("xs_idx") : 0;
  if (n.attrs().has("xs_idx") != wants_xs)
    n.refuse("attribute \"xs_idx\" is of ScanBackwardXs, and wanted there");
  if (checkpoints != 0 && checkpoints != length)
    n.refuse("carries are not recomputed between checkpoints",
             "save every row: num_checkpoints = 0");
  const auto vjp = std::ranges::find(from.bodies, std::string("body_vjp"), &SourceBody::name);
  if (vjp == from.bodies.end()) n.refuse("body \"body_vjp\" is missing");
  const auto inputs = static_cast<int64_t>(n.input_count());
  if (inputs != 3 + xs || (wants_xs && wanted >= xs))
    n.refuse("it has " + std::to_string(inputs) +
             " inputs, wanted init, trajectory, upstream and num_xs = " + std::to_string(xs) +
             " more");
  if (static_cast<int64_t>(vjp->inputs.size()) != xs + 2 ||
      static_cast<int64_t>(vjp->outputs.size()) < xs + 1)
    n.refuse("body_vjp takes " + std::to_string(vjp->inputs.size()) + " values and gives " +
             std::to_string(vjp->outputs.size()) +
             ", wanted the carry, each x and d_output, and the gradients of all but the last");

  // The carry before each step: those behind, a row later.
  ValueId before = n.emit("unsqueeze", {n.input(0)}, {{"axes", Ints{0}}});
  if (length > 1)
    before =
        n.emit("concat", {before, n.narrow(n.input(1), 0, 0, length - 1)}, {{"axis", int64_t{0}}});
  ScanBackward made;
  made.reads.emplace_back(from.name + ".d_init",
                          has_rows ? n.filled(n.type(n.input(0)), 0) : n.input(2));
  made.reads.emplace_back(from.name + ".before", before);
  if (has_rows) made.reads.emplace_back(from.name + ".above", n.input(2));
  for (int64_t i = 0; i < xs; ++i)
    made.reads.emplace_back(from.name + ".x" + std::to_string(i),
                            n.input(static_cast<size_t>(3 + i)));

  SourceBody body = *vjp;
  body.name = "body";
  auto above = std::ranges::find(body.inputs, std::string("d_output"));
  if (above == body.inputs.end()) above = body.inputs.end() - 1;
  const std::string gradient = *above;
  body.inputs.erase(above);
  if (has_rows) {
    const std::string later = gradient + ".later";
    const std::string own = gradient + ".own";
    body.nodes.insert(body.nodes.begin(), SourceNode{.place = from.place,
                                                     .name = gradient + ".sum",
                                                     .op = "add",
                                                     .inputs = {later, own},
                                                     .outputs = {gradient}});
    body.inputs.insert(body.inputs.begin() + 1, own);
    body.inputs.insert(body.inputs.begin(), later);
  } else {
    body.inputs.insert(body.inputs.begin(), gradient);
  }
  std::vector<std::string> results = {body.outputs.front()};
  if (wants_xs) results.push_back(body.outputs[static_cast<size_t>(1 + wanted)]);
  body.outputs = results;

  made.node = {.place = from.place,
               .name = from.name,
               .op = "scan",
               .inputs = {},
               .outputs = from.outputs,
               .attributes = {{"length", length},
                              {"num_carry", int64_t{1}},
                              {"reverse", true},
                              {"num_xs", xs + 1 + (has_rows ? 1 : 0)}},
               .source = from.source,
               .bodies = {std::move(body)}};
  for (const auto& [name, value] : made.reads) made.node.inputs.emplace_back(name);
  if (wants_xs) made.node.outputs.insert(made.node.outputs.begin(), from.name + ".d_carry");
  return made;
}

ControlFlow as_control_flow(const SourceNode& node, Diagnostics& diagnostics) {
  constexpr std::array kRewritten = {"If", "While", "Scan", "CustomFn"};
  if (std::ranges::find(kRewritten, node.op) == kRewritten.end()) return {};
  return control_flow::Rewriter(node, diagnostics).rewrite();
}

std::span<const Alias> control_aliases() {
  return control_flow::kAliases;
}

}  // namespace rlx::reference_ir
