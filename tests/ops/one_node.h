// SPDX-License-Identifier: Apache-2.0
// A graph of one node for unit tests of ops: infer with its diagnostics, and the program that lower
// emits.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/prepare.h"
#include "tests/support/catch.h"

namespace rlx::test {

struct OneNode {
  std::string op;
  std::vector<std::optional<TensorType>> inputs;
  Attributes attributes = {};
  size_t outputs = 1;
  std::string target = "vulkan";
  ProductPrecision products = ProductPrecision::F32;
  std::vector<std::string> without = {};  // names of offers
};

inline TensorType f32(Shape shape) {
  return {DType::f32, std::move(shape)};
}

struct Inferred {
  bool good = false;
  std::vector<TensorType> outputs;
  std::string diagnostics;
};

class OneNodeGraph {
 public:
  explicit OneNodeGraph(const OneNode& spec)
      : without_(spec.without),
        options_{
            .target = find_target(spec.target), .products = spec.products, .without = &without_} {
    Node node{.name = "n", .op = spec.op, .attributes = spec.attributes};
    for (size_t i = 0; i < spec.inputs.size(); ++i) {
      if (!spec.inputs[i]) {
        node.inputs.emplace_back();
        continue;
      }
      const ValueId id = graph_.add_value(
          {.name = "x" + std::to_string(i), .type = *spec.inputs[i], .origin = ValueOrigin::Input});
      graph_.inputs.push_back(id);
      node.inputs.emplace_back(id);
    }
    for (size_t i = 0; i < spec.outputs; ++i) {
      node.outputs.push_back(graph_.add_value({.name = "y" + std::to_string(i)}));
    }
    id_ = graph_.add_node(node);
  }

  Inferred infer() {
    Diagnostics diagnostics;
    KnownValues known;
    Inferred result{.good = prepare_node({}, graph_, id_, known, diagnostics) &&
                            check_and_infer(graph_, id_, diagnostics)};
    for (const ValueId id : graph_.node(id_).outputs)
      result.outputs.push_back(graph_.value(id).type);
    result.diagnostics = diagnostics.text();
    return result;
  }

  // Infers and lowers; input `strided` (if any) is seen through the given strides.
  struct Strided {
    size_t input;
    Strides strides;
  };
  Program lower(std::optional<Strided> strided = std::nullopt) {
    Program program;
    Diagnostics diagnostics;
    if (!check_and_infer(graph_, id_, diagnostics)) throw std::runtime_error(diagnostics.text());
    LoweringState state(module_, graph_, options_, program);
    const Node& node = graph_.node(id_);
    if (strided) {
      TensorRef view = state.ref(*node.inputs[strided->input]);
      view.strides = strided->strides;
      state.set_ref(*node.inputs[strided->input], view);
    }
    const OpDef& op = *find_op(node.op);
    LowerContext ctx(op, state, node, diagnostics);
    if (!op.lower(ctx)) throw std::runtime_error(diagnostics.text());
    return program;
  }

 private:
  Module module_;
  Graph graph_;
  std::vector<std::string> without_;
  LowerOptions options_;
  NodeId id_{};
};

inline Inferred infer(const OneNode& spec) {
  return OneNodeGraph(spec).infer();
}
inline Program lower(const OneNode& spec) {
  return OneNodeGraph(spec).lower();
}

inline const Specialization& kernel_of(const Program& program, size_t step) {
  return program.kernels.at(index_of(program.steps.at(step).kernel.value()));
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// What the table of kernels says of a kernel for the program's first step with a choice: why it
// does not take the problem, or "" where it does.
inline std::string refusal_by(const Program& program, const std::string& kernel) {
  for (const Step& step : program.steps) {
    for (const OfferNote& offer : step.offers) {
      if (offer.kernel == kernel) return offer.refusal;
    }
  }
  throw std::runtime_error("no offer of " + kernel);
}

// Whether the node is refused with that code, and words with that part.
inline bool refused(const OneNode& node, const std::string& code, const std::string& part) {
  const Inferred result = OneNodeGraph(node).infer();
  UNSCOPED_INFO(result.diagnostics);
  return !result.good && contains(result.diagnostics, "[" + code + "]") &&
         contains(result.diagnostics, part);
}

}  // namespace rlx::test
