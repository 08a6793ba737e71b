// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/onnx/extensions.h"

#include <algorithm>

#include "compiler/import/names.h"
#include "compiler/ops/registered_ops.h"

namespace rlx::onnx_import {
namespace {

// An attribute of the node in the type that the op wants.
AttributeValue value_of(NodeReader& n, const AttrSpec& spec) {
  switch (spec.type) {
    case AttrType::Int:
      return n.integer(spec.name, 0);
    case AttrType::Float:
      return n.real(spec.name, 0);
    case AttrType::Bool:
      return n.integer(spec.name, 0) != 0;
    case AttrType::String:
    case AttrType::DTypeName:
      return n.text(spec.name, {});
    case AttrType::IntList:
      return n.integers(spec.name, {});
    case AttrType::FloatList:
      return n.reals(spec.name, {});
    case AttrType::StringList:
      break;
  }
  n.refuse("attribute " + in_quotes(spec.name) + " is a list of strings, which no extension has");
}

}  // namespace

std::string extension_of(std::string_view domain, std::string_view name) {
  std::string op(domain);
  std::ranges::replace(op, '.', '_');
  op += "." + std::string(name);
  return !domain.empty() && is_registered(op) ? op : std::string();
}

void translate_extension(NodeReader& n, const std::string& op) {
  Inputs inputs;
  for (size_t i = 0; i < n.input_count(); ++i) inputs.push_back(n.optional_input(i));
  Attributes attributes;
  for (const AttrSpec& spec : find_op(op)->attrs) {
    if (n.has(spec.name)) attributes.emplace(std::string(spec.name), value_of(n, spec));
  }
  const size_t count = n.output_count();
  const std::vector<ValueId> results =
      n.emit_all(op, std::move(inputs), std::move(attributes), count);
  for (size_t i = 0; i < count; ++i) n.set_output(i, results[i]);
}

}  // namespace rlx::onnx_import
