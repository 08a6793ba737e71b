// SPDX-License-Identifier: Apache-2.0
// A registered extension: an op named "namespace.op" that a description, one kernel text and a
// graph define instead of code of the compiler. What OpDef's functions do for one.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rlx {

// An input or output.
struct ExtensionOperand {
  std::string name;
  std::string dtype;  // an element type, a name of Extension::types, or an attribute of type dtype
  // Sizes as expressions (dim_expression.h). In inputs a name alone binds it; names that inputs
  // bound and integer attributes stand in all others. Absent: an input of any shape.
  std::optional<std::vector<std::string>> shape;
  std::string like;  // of an output without `shape`: the operand whose shape it has
};

struct ExtensionKernel {
  std::string file;                      // as messages name it
  std::string text;                      // one text for every target (shaders/README.md)
  std::array<std::string, 3> workgroup;  // expressions of fixed sizes
  std::string groups;                    // their number, an expression; split_grid spreads them
  std::map<std::string, std::string> defines;  // words of the text: expressions
};

// The gradient by another op: `inputs` are names of inputs and outputs, or "d_" and that of an
// output; its outputs are the gradients of the inputs named in `gives`.
struct ExtensionGradient {
  std::string op;
  std::vector<std::string> inputs;
  std::vector<std::string> gives;
  Attributes attributes;  // besides this op's own, of which those of the same names go along
};

// What must hold of a node beyond its shapes.
struct ExtensionRequirement {
  std::string not_negative;  // an expression as in shapes
  std::string why;           // the end of the message where it is
};

struct Extension {
  std::string name;  // with its namespace
  std::string signature;
  std::string summary;
  std::vector<ExtensionOperand> inputs;
  std::vector<ExtensionOperand> outputs;
  std::map<std::string, std::vector<DType>> types;  // by the name that operands use
  std::vector<AttrSpec> attributes;
  std::vector<ExtensionRequirement> requirements;
  std::optional<ExtensionKernel> kernel;
  std::optional<ExtensionGradient> gradient;
  // The op as a graph of others: in its place, or on host tensors. Empty where there is none.
  std::function<bool(RewriteContext&)> expand;
  std::function<bool(EvaluateContext&)> evaluate;

  OpDef op;  // its views are of what stands here
  std::deque<std::string> strings;
  std::deque<std::vector<std::string_view>> choices;
};

// What the names of a description mean for one node.
struct ExtensionBinding {
  std::map<std::string, Dim> sizes;    // dims that inputs bind, integer attributes, "x_count"
  std::map<std::string, DType> types;  // type names
  std::vector<TensorType> outputs;
};

// Reports what does not fit the description; `inputs` are the node's.
std::optional<ExtensionBinding> bind_extension(const Extension& extension,
                                               const std::vector<TensorType>& inputs,
                                               NodeContext& ctx);

// The defines and functions that stand before the kernel's text: those of its operands, dims and
// attributes that the text names. Precondition: bind_extension made `binding` of the node.
std::string extension_words(const Extension& extension, const ExtensionBinding& binding,
                            const std::vector<TensorType>& inputs, const AttributeReader& attrs);

// Completes extension.op from the rest. Precondition: the parts are sound (compiler/extension).
void complete_op(Extension& extension);
// As register_op of its op. Precondition: complete_op.
bool register_extension(const Extension& extension);
// The extension that a registered op stands for; nullptr where it is another.
const Extension* find_extension(std::string_view op);

}  // namespace rlx
