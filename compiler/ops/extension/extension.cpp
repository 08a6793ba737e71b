// SPDX-License-Identifier: Apache-2.0
// Shape rule, lowering and gradient of registered extensions.
#include "compiler/ops/extension/extension.h"

#include <algorithm>
#include <utility>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/registered_ops.h"
#include "compiler/support/check.h"
#include "compiler/support/dim_expression.h"

namespace rlx {
namespace {

constexpr int64_t kMostThreads = 1024;  // of a workgroup

using ExtensionsByName = std::map<std::string_view, const Extension*>;

ExtensionsByName& extensions_by_name() {
  static ExtensionsByName extensions;
  return extensions;
}

const Extension& extension_of(const NodeContext& ctx) {
  return *find_extension(ctx.node().op);
}

bool is_name(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }) && !(text.front() >= '0' && text.front() <= '9');
}

class Binder {
 public:
  Binder(const Extension& extension, const std::vector<TensorType>& inputs, NodeContext& ctx)
      : extension_(extension), inputs_(inputs), ctx_(ctx) {}

  std::optional<ExtensionBinding> bind() {
    for (const AttrSpec& spec : extension_.attributes) {
      if (spec.type == AttrType::Int)
        binding_.sizes[std::string(spec.name)] = ctx_.attrs().integer(spec.name);
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!bind_type(extension_.inputs[i], inputs_[i].dtype) || !bind_names(i)) return std::nullopt;
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!check_sizes(i)) return std::nullopt;
      binding_.sizes[extension_.inputs[i].name + "_count"] = element_count(inputs_[i].shape);
    }
    for (const ExtensionRequirement& requirement : extension_.requirements) {
      if (!check(requirement)) return std::nullopt;
    }
    for (const ExtensionOperand& output : extension_.outputs) {
      if (!add_output(output)) return std::nullopt;
    }
    return std::move(binding_);
  }

 private:
  bool bind_type(const ExtensionOperand& operand, DType dtype) {
    const auto variable = extension_.types.find(operand.dtype);
    if (variable == extension_.types.end()) {
      const DType wanted = dtype_of(operand);
      if (dtype == wanted) return true;
      return ctx_.fail(DiagCode::BadDtype, operand.name + " is " + std::string(name_of(dtype)) +
                                               ", wanted " + std::string(name_of(wanted)));
    }
    const auto [found, is_first] = binding_.types.emplace(operand.dtype, dtype);
    if (found->second != dtype)
      return ctx_.fail(DiagCode::BadDtype, operand.name + " is " + std::string(name_of(dtype)) +
                                               ", wanted " + std::string(name_of(found->second)) +
                                               " as other operands of type " + operand.dtype);
    const std::vector<DType>& legal = variable->second;
    if (std::ranges::find(legal, dtype) != legal.end()) return true;
    std::string names;
    for (const DType known : legal)
      names += (names.empty() ? "" : ", ") + std::string(name_of(known));
    return ctx_.fail(DiagCode::BadDtype, operand.name + " is " + std::string(name_of(dtype)) +
                                             ", wanted one of " + names);
  }

  // Precondition: it is no type name, or one that was bound.
  [[nodiscard]] DType dtype_of(const ExtensionOperand& operand) const {
    if (const auto bound = binding_.types.find(operand.dtype); bound != binding_.types.end())
      return bound->second;
    if (const auto fixed = dtype_from_name(operand.dtype)) return *fixed;
    return ctx_.attrs().dtype(operand.dtype);
  }

  bool bind_names(size_t i) {
    const ExtensionOperand& operand = extension_.inputs[i];
    if (!operand.shape) return true;
    const Shape& shape = inputs_[i].shape;
    if (shape.size() != operand.shape->size())
      return ctx_.fail(DiagCode::BadRank, operand.name + " is " + to_string(inputs_[i]) +
                                              ", wanted rank " +
                                              std::to_string(operand.shape->size()));
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const std::string& text = (*operand.shape)[axis];
      if (is_name(text)) binding_.sizes.try_emplace(text, shape[axis]);
    }
    return true;
  }

  // The value of an expression; reports where there is none.
  std::optional<Dim> evaluate(const std::string& text, const std::string& what) {
    const auto value = evaluate_dim(text, [this](const std::string& name) {
      const auto found = binding_.sizes.find(name);
      return found == binding_.sizes.end() ? std::nullopt : std::optional(found->second);
    });
    if (const auto* dim = std::get_if<Dim>(&value)) return *dim;
    const auto& fault = std::get<DimFault>(value);
    ctx_.fail(
        DiagCode::BadShape,
        what + " of the extension's description, \"" + text + "\", " +
            (fault.symbol ? "names " + *fault.symbol + ", which nothing binds" : fault.message));
    return std::nullopt;
  }

  bool check_sizes(size_t i) {
    const ExtensionOperand& operand = extension_.inputs[i];
    if (!operand.shape) return true;
    for (size_t axis = 0; axis < operand.shape->size(); ++axis) {
      const std::string& text = (*operand.shape)[axis];
      const std::string what = "size " + std::to_string(axis) + " of " + operand.name;
      const std::optional<Dim> wanted = evaluate(text, what);
      if (!wanted) return false;
      if (inputs_[i].shape[axis] != *wanted)
        return ctx_.fail(DiagCode::BadShape, operand.name + " is " + to_string(inputs_[i]) +
                                                 ", wanted " + to_string(*wanted) + " (" + text +
                                                 ") on axis " + std::to_string(axis));
    }
    return true;
  }

  bool check(const ExtensionRequirement& requirement) {
    const std::optional<Dim> value = evaluate(requirement.not_negative, "a requirement");
    if (!value) return false;
    if (value->range().least >= 0) return true;
    return ctx_.fail(DiagCode::BadShape, requirement.not_negative + " is " + to_string(*value) +
                                             ", wanted 0 or more: " + requirement.why);
  }

  bool add_output(const ExtensionOperand& operand) {
    TensorType type{.dtype = dtype_of(operand), .shape = {}};
    if (!operand.shape) {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        if (extension_.inputs[i].name == operand.like) type.shape = inputs_[i].shape;
      }
    } else {
      for (size_t axis = 0; axis < operand.shape->size(); ++axis) {
        const std::string what = "size " + std::to_string(axis) + " of output " + operand.name;
        const std::optional<Dim> size = evaluate((*operand.shape)[axis], what);
        if (!size) return false;
        if (size->range().least < 0)
          return ctx_.fail(DiagCode::BadShape, what + ", " + (*operand.shape)[axis] + ", is " +
                                                   to_string(*size) + ", wanted 0 or more");
        type.shape.push_back(*size);
      }
    }
    binding_.outputs.push_back(std::move(type));
    return true;
  }

  const Extension& extension_;
  const std::vector<TensorType>& inputs_;
  NodeContext& ctx_;
  ExtensionBinding binding_;
};

bool infer_extension(InferContext& ctx) {
  const Extension& extension = extension_of(ctx);
  std::vector<TensorType> inputs;
  for (size_t i = 0; i < ctx.input_count(); ++i) inputs.push_back(ctx.input(i));
  std::optional<ExtensionBinding> binding = bind_extension(extension, inputs, ctx);
  if (!binding) return false;
  for (size_t i = 0; i < binding->outputs.size(); ++i)
    ctx.set_output(i, std::move(binding->outputs[i]));
  return true;
}

// ---- lowering ----

// Expressions of a kernel, which may name outputs' counts too.
class KernelNumbers {
 public:
  KernelNumbers(const Extension& extension, ExtensionBinding binding, NodeContext& ctx)
      : sizes_(std::move(binding.sizes)), ctx_(ctx) {
    for (size_t i = 0; i < binding.outputs.size(); ++i)
      sizes_[extension.outputs[i].name + "_count"] = element_count(binding.outputs[i].shape);
  }

  std::optional<Dim> of(const std::string& text, const std::string& what) {
    const auto value = evaluate_dim(text, [this](const std::string& name) {
      const auto found = sizes_.find(name);
      return found == sizes_.end() ? std::nullopt : std::optional(found->second);
    });
    if (const auto* dim = std::get_if<Dim>(&value)) return *dim;
    const auto& fault = std::get<DimFault>(value);
    ctx_.fail(
        DiagCode::BadField,
        what + " of the extension's kernel, \"" + text + "\", " +
            (fault.symbol ? "names " + *fault.symbol + ", which nothing binds" : fault.message));
    return std::nullopt;
  }

 private:
  std::map<std::string, Dim> sizes_;
  NodeContext& ctx_;
};

std::optional<Extent3> workgroup_of(const ExtensionKernel& kernel, KernelNumbers& numbers,
                                    NodeContext& ctx) {
  std::array<int64_t, 3> extents{};
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    const std::optional<Dim> extent = numbers.of(kernel.workgroup[axis], "the workgroup");
    if (!extent) return std::nullopt;
    extents[axis] = *extent;
    if (extents[axis] < 1 || extents[axis] > kMostThreads) {
      ctx.fail(DiagCode::BadField, "the workgroup of the extension's kernel is " +
                                       std::to_string(extents[axis]) + " threads (" +
                                       kernel.workgroup[axis] + ") along axis " +
                                       std::to_string(axis) + ", wanted 1 to 1024");
      return std::nullopt;
    }
  }
  if (extents[0] * extents[1] * extents[2] > kMostThreads) {
    ctx.fail(DiagCode::BadField, "the workgroup of the extension's kernel has " +
                                     std::to_string(extents[0] * extents[1] * extents[2]) +
                                     " threads, wanted at most 1024");
    return std::nullopt;
  }
  return Extent3{static_cast<uint32_t>(extents[0]), static_cast<uint32_t>(extents[1]),
                 static_cast<uint32_t>(extents[2])};
}

// What the operands are bound to, in the order of the description.
struct Operands {
  std::vector<TensorRef> inputs;
  std::vector<TensorRef> outputs;
};

Operands operands_of(LowerContext& ctx, const Extension& extension,
                     const ExtensionBinding& binding) {
  Operands operands;
  for (size_t i = 0; i < extension.inputs.size(); ++i)
    operands.inputs.push_back(ctx.dense_input(i));
  for (size_t i = 0; i < extension.outputs.size(); ++i) {
    operands.outputs.push_back(ctx.has_output(i)
                                   ? ctx.output(i)
                                   : ctx.scratch(binding.outputs[i], extension.outputs[i].name));
  }
  return operands;
}

bool uses_doubles(const Operands& operands) {
  const auto is_double = [](const TensorRef& ref) { return ref.dtype() == DType::f64; };
  return std::ranges::any_of(operands.inputs, is_double) ||
         std::ranges::any_of(operands.outputs, is_double);
}

bool lower_extension(LowerContext& ctx) {
  const Extension& extension = extension_of(ctx);
  const ExtensionKernel& kernel = *extension.kernel;
  std::vector<TensorType> inputs;
  for (size_t i = 0; i < ctx.input_count(); ++i) inputs.push_back(ctx.input_type(i));
  const std::optional<ExtensionBinding> binding = bind_extension(extension, inputs, ctx);
  if (!binding) return false;
  KernelNumbers numbers(extension, *binding, ctx);
  const std::optional<Extent3> workgroup = workgroup_of(kernel, numbers, ctx);
  const std::optional<Dim> groups = numbers.of(kernel.groups, "the number of workgroups");
  if (!workgroup || !groups) return false;
  if (groups->range().least < 1 || groups->bound() > kCountLimit)
    return ctx.fail(DiagCode::BadField, "the extension's kernel runs in " + to_string(*groups) +
                                            " workgroups (" + kernel.groups +
                                            "), wanted 1 to 2^31 - 4097");
  std::vector<std::pair<std::string, Dim>> defines;
  for (const auto& [name, text] : kernel.defines) {
    const std::optional<Dim> number = numbers.of(text, "the word " + name);
    if (!number) return false;
    defines.emplace_back(name, *number);
  }
  const Operands operands = operands_of(ctx, extension, *binding);
  auto dispatch = ctx.dispatch<KernelId::extension>();
  uint32_t position = 0;
  Dim bytes = 0;
  for (const auto* list : {&operands.inputs, &operands.outputs}) {
    const AccessMode mode = list == &operands.inputs ? AccessMode::Read : AccessMode::Write;
    for (const TensorRef& ref : *list) {
      dispatch.bind(position, ref, mode);
      position += sizeof(rlx_ptr);
      bytes += byte_size(ref.type);
    }
  }
  for (const auto& [name, number] : defines) dispatch.size(name, number);
  if (uses_doubles(operands)) dispatch.define("RLX_DOUBLE", 1);
  const std::string file = extension.name + ".kernel";
  dispatch.workgroup(*workgroup)
      .grid(split_grid(*groups))
      .size("RLX_GROUPS", *groups)
      .generated("extension.inc", extension_words(extension, *binding, inputs, ctx.attrs()) +
                                      "#include \"generated/" + file + "\"\n")
      .generated(file, kernel.text)
      .count_index_errors()
      .work(bytes, 0)
      .reason("the kernel of the registered extension " + extension.name);
  return true;
}

// ---- gradient ----

// Whether a node of these inputs would be taken; reports as of the forward node.
bool is_taken(const Extension& forward, const OpDef& op, const Attributes& attributes,
              const std::vector<TensorType>& inputs, size_t outputs, GradientContext& ctx) {
  Graph graph;
  Node node{.name = ctx.node().name, .op = std::string(op.name), .attributes = attributes};
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.emplace_back(graph.add_value(
        {.name = "input" + std::to_string(i), .type = inputs[i], .origin = ValueOrigin::Input}));
  }
  for (size_t i = 0; i < outputs; ++i)
    node.outputs.push_back(graph.add_value({.name = "output" + std::to_string(i)}));
  Diagnostics faults;
  const NodeId id = graph.add_node(std::move(node));
  if (check_and_infer(graph, id, faults)) return true;
  return ctx.fail(DiagCode::BadField, "the gradient that the description of " + forward.name +
                                          " names, " + std::string(op.name) +
                                          ", does not take it: " + faults.all().front().message);
}

std::optional<size_t> place_of(const std::vector<ExtensionOperand>& operands,
                               std::string_view name) {
  const auto found = std::ranges::find(operands, name, &ExtensionOperand::name);
  if (found == operands.end()) return std::nullopt;
  return static_cast<size_t>(found - operands.begin());
}

// As written, or its default: the other op may have another.
AttributeValue attribute_value(const AttrSpec& spec, const AttributeReader& attrs) {
  switch (spec.type) {
    case AttrType::Int:
      return attrs.integer(spec.name);
    case AttrType::Float:
      return attrs.real(spec.name);
    case AttrType::Bool:
      return attrs.flag(spec.name);
    case AttrType::String:
    case AttrType::DTypeName:
      return attrs.text(spec.name);
    case AttrType::IntList:
      return attrs.integers(spec.name);
    case AttrType::FloatList:
      return attrs.reals(spec.name);
    case AttrType::StringList:
      break;
  }
  RLX_CHECK(false, "attribute " + std::string(spec.name) + " of an extension");
}

bool extension_gradient(GradientContext& ctx) {
  const Extension& extension = extension_of(ctx);
  const ExtensionGradient& gradient = *extension.gradient;
  const OpDef& op = *find_op(gradient.op);
  for (size_t i = 0; i < extension.inputs.size(); ++i) {
    const std::string& name = extension.inputs[i].name;
    if (ctx.wants(i) && std::ranges::find(gradient.gives, name) == gradient.gives.end())
      return ctx.fail(DiagCode::UnknownOp,
                      "the gradient " + gradient.op + " gives none of input " + name,
                      "keep gradients from it by stop_gradient");
  }
  NodeBuilder::Inputs inputs;
  std::vector<TensorType> types;
  for (const std::string& name : gradient.inputs) {
    ValueId value{};
    if (const auto input = place_of(extension.inputs, name)) {
      value = ctx.input(*input);
    } else if (const auto output = place_of(extension.outputs, name)) {
      value = ctx.output(*output);
    } else {
      value = ctx.gradient(*place_of(extension.outputs, std::string_view(name).substr(2)));
    }
    inputs.emplace_back(value);
    types.push_back(ctx.type(value));
  }
  Attributes attributes = gradient.attributes;
  for (const AttrSpec& spec : extension.attributes) {
    if (std::ranges::find(op.attrs, spec.name, &AttrSpec::name) != op.attrs.end())
      attributes.try_emplace(std::string(spec.name), attribute_value(spec, ctx.attrs()));
  }
  if (!is_taken(extension, op, attributes, types, gradient.gives.size(), ctx)) return false;
  const std::vector<ValueId> results =
      ctx.emit_all(gradient.op, std::move(inputs), std::move(attributes), gradient.gives.size());
  for (size_t i = 0; i < results.size(); ++i)
    ctx.give(*place_of(extension.inputs, gradient.gives[i]), results[i]);
  return true;
}

bool expand_extension(RewriteContext& ctx) {
  return extension_of(ctx).expand(ctx);
}

bool evaluate_extension(EvaluateContext& ctx) {
  return extension_of(ctx).evaluate(ctx);
}

}  // namespace

std::optional<ExtensionBinding> bind_extension(const Extension& extension,
                                               const std::vector<TensorType>& inputs,
                                               NodeContext& ctx) {
  return Binder(extension, inputs, ctx).bind();
}

void complete_op(Extension& extension) {
  const auto inputs = static_cast<uint32_t>(extension.inputs.size());
  const auto outputs = static_cast<uint32_t>(extension.outputs.size());
  extension.op = {.name = extension.name,
                  .signature = extension.signature,
                  .inputs = {inputs, inputs},
                  .outputs = {1, outputs},
                  .attrs = extension.attributes,
                  .infer = infer_extension,
                  .evaluate = extension.evaluate ? evaluate_extension : nullptr,
                  .decompose = extension.expand ? expand_extension : nullptr,
                  .gradient = extension.gradient ? extension_gradient : nullptr,
                  .lower = extension.kernel ? lower_extension : nullptr};
}

bool register_extension(const Extension& extension) {
  return register_op(extension.op) &&
         extensions_by_name().emplace(extension.name, &extension).second;
}

const Extension* find_extension(std::string_view op) {
  const auto found = extensions_by_name().find(op);
  return found == extensions_by_name().end() ? nullptr : found->second;
}

}  // namespace rlx
