// SPDX-License-Identifier: Apache-2.0
// What the parts of a description must be to each other, and the registration.
#include "compiler/extension/load_extension.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "compiler/extension/extension_graph.h"
#include "compiler/extension/read_description.h"
#include "compiler/import/names.h"
#include "compiler/ops/registered_ops.h"
#include "compiler/support/check.h"
#include "compiler/support/dim_expression.h"

namespace rlx {
namespace {

// Registered extensions live as long as the process, as other ops do.
struct Registered {
  std::unique_ptr<Extension> extension;
  std::string digest;
};
std::map<std::string, Registered>& registered_extensions() {
  static std::map<std::string, Registered> all;
  return all;
}

using Names = std::set<std::string, std::less<>>;

Names words_of(std::string_view text) {
  Names words;
  const auto continues = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (size_t at = 0; at < text.size();) {
    const size_t first = at;
    while (at < text.size() && continues(text[at])) ++at;
    if (at > first) words.emplace(text.substr(first, at - first));
    if (at == first) ++at;
  }
  return words;
}

bool is_plain(std::string_view text) {
  const Names words = words_of(text);
  return words.size() == 1 && *words.begin() == text &&
         !(text.front() >= '0' && text.front() <= '9');
}

// Those of an array; none of other values.
std::span<const JsonValue> items_of(const JsonValue* value) {
  const JsonArray* items = value == nullptr ? nullptr : value->array();
  return items == nullptr ? std::span<const JsonValue>() : std::span<const JsonValue>(*items);
}
// Those of an object.
std::span<const JsonMember> members_of(const JsonValue& value) {
  const JsonObject* members = value.object();
  return members == nullptr ? std::span<const JsonMember>() : std::span<const JsonMember>(*members);
}

// Every text of a tree: keys and strings.
void add_words(const JsonValue& value, Names& words) {
  if (const std::string* text = value.string()) words.merge(words_of(*text));
  for (const JsonValue& item : items_of(&value)) add_words(item, words);
  for (const JsonMember& member : members_of(value)) {
    words.insert(member.key);
    add_words(member.value, words);
  }
}

// The parts of one op against each other.
class OpCheck {
 public:
  OpCheck(const DescribedOp& described, const std::string& file, Diagnostics& diagnostics)
      : extension_(*described.extension),
        described_(described),
        place_{file, described.pointer},
        diagnostics_(diagnostics) {}

  void run() {
    check_names();
    check_shapes();
    check_dtypes();
    if (extension_.kernel) check_kernel();
    check_uses();
  }

 private:
  void fail(DiagCode code, const std::string& message, std::string hint = {}) {
    diagnostics_.error(code, place_, extension_.name + ": " + message, std::move(hint));
  }

  void check_names() {
    Names names;
    const auto add = [&](const std::string& name, const char* role) {
      if (!names.insert(name).second)
        fail(DiagCode::DuplicateName, std::string(role) + " " + in_quotes(name) +
                                          " has a name that stands for something else");
    };
    for (const ExtensionOperand& operand : extension_.inputs) add(operand.name, "input");
    for (const ExtensionOperand& operand : extension_.outputs) add(operand.name, "output");
    for (const AttrSpec& spec : extension_.attributes) add(std::string(spec.name), "attribute");
    for (const auto& [name, types] : extension_.types) add(name, "type");
    for (const AttrSpec& spec : extension_.attributes) {
      if (spec.type == AttrType::Int) sizes_.insert(std::string(spec.name));
    }
    for (const ExtensionOperand& operand : extension_.inputs) {
      for (const std::string& text : operand.shape.value_or(std::vector<std::string>())) {
        if (!is_plain(text) || sizes_.contains(text)) continue;
        add(text, "size");
        sizes_.insert(text);
      }
    }
  }

  // Reports an expression that is none, or names what nothing binds.
  void check_expression(const std::string& text, const std::string& what) {
    used_.merge(words_of(text));
    const auto value = evaluate_dim(text, [this](const std::string& name) {
      return sizes_.contains(name) ? std::optional<Dim>(1) : std::nullopt;
    });
    const auto* fault = std::get_if<DimFault>(&value);
    if (fault == nullptr) return;
    if (fault->symbol) {
      std::vector<std::string_view> known(sizes_.begin(), sizes_.end());
      fail(DiagCode::UnknownValue,
           what + ", " + in_quotes(text) + ", names " + in_quotes(*fault->symbol) +
               ", which is neither a size that an input binds nor an int attribute",
           nearest_hint(*fault->symbol, known));
    } else if (fault->message.find("is no expression") != std::string::npos) {
      fail(DiagCode::BadField, what + ", " + in_quotes(text) + ", " + fault->message);
    }
  }

  void check_shapes() {
    const auto check = [this](const ExtensionOperand& operand) {
      for (const std::string& text : operand.shape.value_or(std::vector<std::string>()))
        check_expression(text, "a size of " + in_quotes(operand.name));
    };
    for (const ExtensionOperand& input : extension_.inputs) check(input);
    for (const ExtensionOperand& input : extension_.inputs) sizes_.insert(input.name + "_count");
    for (const ExtensionRequirement& requirement : extension_.requirements)
      check_expression(requirement.not_negative, "a requirement");
    for (const ExtensionOperand& output : extension_.outputs) {
      check(output);
      const bool is_known = output.like.empty() ||
                            std::ranges::find(extension_.inputs, output.like,
                                              &ExtensionOperand::name) != extension_.inputs.end();
      if (!is_known)
        fail(DiagCode::UnknownValue, "output " + in_quotes(output.name) + " is like " +
                                         in_quotes(output.like) + ", which is no input");
    }
  }

  void check_dtypes() {
    Names bound;
    for (const ExtensionOperand& input : extension_.inputs) bound.insert(input.dtype);
    for (const auto* list : {&extension_.inputs, &extension_.outputs}) {
      for (const ExtensionOperand& operand : *list) {
        used_.insert(operand.dtype);
        const bool is_type = extension_.types.contains(operand.dtype);
        const auto attribute =
            std::ranges::find(extension_.attributes, operand.dtype, &AttrSpec::name);
        const bool is_attribute =
            attribute != extension_.attributes.end() && attribute->type == AttrType::DTypeName;
        if (is_type && !bound.contains(operand.dtype)) {
          fail(DiagCode::UnknownDtype, "output " + in_quotes(operand.name) + " has the type " +
                                           in_quotes(operand.dtype) + ", which no input has");
        } else if (!is_type && !is_attribute && !dtype_from_name(operand.dtype)) {
          fail(DiagCode::UnknownDtype,
               in_quotes(operand.name) + " has the dtype " + in_quotes(operand.dtype) +
                   ", which is no element type, no name of \"types\" and no dtype attribute");
        }
      }
    }
  }

  void check_kernel() {
    for (const ExtensionOperand& output : extension_.outputs) sizes_.insert(output.name + "_count");
    const ExtensionKernel& kernel = *extension_.kernel;
    for (const std::string& extent : kernel.workgroup) check_expression(extent, "the workgroup");
    check_expression(kernel.groups, "the number of workgroups");
    const Names words = words_of(kernel.text);
    for (const auto& [name, text] : kernel.defines) {
      check_expression(text, "the define " + in_quotes(name));
      if (!words.contains(name))
        fail(DiagCode::BadField,
             "the define " + in_quotes(name) + " does not occur in " + in_quotes(kernel.file));
    }
    for (const ExtensionOperand& output : extension_.outputs) {
      const size_t position =
          extension_.inputs.size() + static_cast<size_t>(&output - extension_.outputs.data());
      const bool is_stored =
          words.contains(output.name + "_store") ||
          kernel.text.find("operands[" + std::to_string(position) + "]") != std::string::npos;
      if (!is_stored)
        fail(DiagCode::BadField,
             in_quotes(kernel.file) + " never writes output " + in_quotes(output.name),
             "write it by " + output.name + "_store(i, value)");
    }
    if (!words.contains("RLX_MAIN"))
      fail(DiagCode::BadField, in_quotes(kernel.file) + " has no RLX_MAIN { ... }");
    for (const std::string& word : words) {
      for (const char* prefix : {"attr_", "dim_"}) {
        if (word.starts_with(prefix)) used_.insert(word.substr(std::string_view(prefix).size()));
      }
      const size_t choice = word.find("_is_");
      if (word.starts_with("attr_") && choice != std::string::npos)
        used_.insert(word.substr(5, choice - 5));
    }
  }

  // An attribute that nothing uses would be accepted and ignored.
  void check_uses() {
    if (described_.graph.tree && !extension_.kernel) add_words(*described_.graph.tree, used_);
    for (const AttrSpec& spec : extension_.attributes) {
      if (used_.contains(spec.name)) continue;
      fail(DiagCode::BadAttribute, "attribute " + in_quotes(spec.name) + " is used by nothing",
           extension_.kernel
               ? "the kernel's text reads it as attr_" + std::string(spec.name) +
                     " (of a string attr_" + std::string(spec.name) + "_is_<choice>), " +
                     "expressions by its name"
               : "the graph reads it as {\"word\": \"" + std::string(spec.name) + "\"}");
    }
  }

  const Extension& extension_;
  const DescribedOp& described_;
  SourcePlace place_;
  Diagnostics& diagnostics_;
  Names sizes_;  // names that expressions may have here
  Names used_;   // words that occur where attributes are used
};

// The op of that name: of this description, or registered, or the compiler's own.
struct OpsInSight {
  const std::vector<DescribedOp>& described;

  [[nodiscard]] const Extension* own(std::string_view name) const {
    const auto found = std::ranges::find_if(
        described, [&](const DescribedOp& op) { return op.extension->name == name; });
    return found == described.end() ? nullptr : found->extension.get();
  }
  [[nodiscard]] const OpDef* find(std::string_view name) const {
    const Extension* found = own(name);
    return found != nullptr ? &found->op : find_op(name);
  }
};

void check_gradient(const DescribedOp& described, const OpsInSight& ops, const SourcePlace& place,
                    Diagnostics& diagnostics) {
  const Extension& extension = *described.extension;
  const ExtensionGradient& gradient = *extension.gradient;
  const auto fail = [&](const std::string& message) {
    diagnostics.error(DiagCode::BadField, place, "gradient of " + extension.name + ": " + message);
  };
  const auto names = [](const std::vector<ExtensionOperand>& operands, std::string_view name) {
    return std::ranges::find(operands, name, &ExtensionOperand::name) != operands.end();
  };
  const OpDef* op = ops.find(gradient.op);
  if (op == nullptr) return fail("there is no op " + in_quotes(gradient.op));
  if (gradient.inputs.size() < op->inputs.minimum || gradient.inputs.size() > op->inputs.maximum)
    fail("it gives " + gradient.op + " " + std::to_string(gradient.inputs.size()) +
         " inputs, which takes " + std::to_string(op->inputs.minimum));
  if (gradient.gives.empty() || gradient.gives.size() > op->outputs.maximum)
    fail("it takes " + std::to_string(gradient.gives.size()) + " outputs of " + gradient.op +
         ", which has " + std::to_string(op->outputs.maximum));
  for (const std::string& name : gradient.inputs) {
    const bool is_gradient = name.starts_with("d_") && names(extension.outputs, name.substr(2));
    if (!is_gradient && !names(extension.inputs, name) && !names(extension.outputs, name))
      fail(in_quotes(name) + " is neither an input nor an output, nor \"d_\" and an output");
  }
  for (const std::string& name : gradient.gives) {
    if (!names(extension.inputs, name)) fail(in_quotes(name) + " of \"gives\" is no input");
  }
}

// Ops that the nodes of a graph name.
void add_ops(const JsonValue& graph, Names& names) {
  const JsonValue* nodes = graph.object() ? find_member(*graph.object(), "nodes") : nullptr;
  for (const JsonValue& node : items_of(nodes)) {
    const JsonValue* op = node.object() ? find_member(*node.object(), "op") : nullptr;
    if (op != nullptr && op->string()) names.insert(*op->string());
  }
}

// Graphs that lead back to their own op would never end.
void check_circles(const Description& description, const std::string& file,
                   Diagnostics& diagnostics) {
  std::map<std::string, Names, std::less<>> uses;
  for (const DescribedOp& op : description.ops) {
    for (const DescribedGraph* graph : {&op.graph, &op.reference}) {
      if (graph->tree) add_ops(*graph->tree, uses[op.extension->name]);
    }
  }
  for (const DescribedOp& op : description.ops) {
    Names reached;
    std::vector<std::string> open = {op.extension->name};
    while (!open.empty()) {
      const auto found = uses.find(open.back());
      open.pop_back();
      for (const std::string& name : found == uses.end() ? Names{} : found->second) {
        if (reached.insert(name).second) open.push_back(name);
      }
    }
    if (reached.contains(op.extension->name))
      diagnostics.error(DiagCode::Cycle, {file, op.pointer},
                        "the graph of " + op.extension->name + " leads back to that op");
  }
}

// Everything that defines the family.
std::string digest_of(const ExtensionFiles& files, const DescribedOp& op) {
  return files.folder + "\n" + files.read("extension.json").value_or("") + "\n" +
         (op.extension->kernel ? op.extension->kernel->text : "") + "\n" +
         files.read(op.graph.path).value_or("") + "\n" + files.read(op.reference.path).value_or("");
}

bool check(const Description& description, const std::string& file, Diagnostics& diagnostics) {
  const size_t before = diagnostics.error_count();
  Names names;
  for (const DescribedOp& op : description.ops) {
    OpCheck(op, file, diagnostics).run();
    if (!names.insert(op.extension->name).second)
      diagnostics.error(DiagCode::DuplicateName, {file, op.pointer},
                        "op " + in_quotes(op.extension->name) + " is described twice");
  }
  const OpsInSight ops{description.ops};
  for (const DescribedOp& op : description.ops) {
    if (op.extension->gradient) check_gradient(op, ops, {file, op.pointer}, diagnostics);
  }
  check_circles(description, file, diagnostics);
  return diagnostics.error_count() == before;
}

std::optional<ExtensionFamily> load(ExtensionFiles files, Diagnostics& diagnostics) {
  std::optional<Description> description = read_description(files, diagnostics);
  if (!description) return std::nullopt;
  const std::string file = files.place("extension.json");
  for (DescribedOp& op : description->ops) {
    if (op.graph.tree)
      define_by_graph(*op.extension, files, op.graph.file, op.graph.tree, GraphUse::Both);
    if (op.reference.tree)
      define_by_graph(*op.extension, files, op.reference.file, op.reference.tree,
                      GraphUse::Evaluation);
    complete_op(*op.extension);
  }
  if (!check(*description, file, diagnostics)) return std::nullopt;
  std::map<std::string, Registered>& all = registered_extensions();
  std::vector<std::string> digests;
  for (const DescribedOp& op : description->ops) {
    digests.push_back(digest_of(files, op));
    const auto known = all.find(op.extension->name);
    const bool is_again = known != all.end() && known->second.digest == digests.back();
    if (!is_again && find_op(op.extension->name) != nullptr)
      diagnostics.error(DiagCode::DuplicateName, {file, op.pointer},
                        "there is an op " + in_quotes(op.extension->name) + " already",
                        "use another namespace");
  }
  if (diagnostics.has_errors()) return std::nullopt;
  ExtensionFamily family{.files = std::move(files), .ops = {}, .cases = description->cases};
  for (size_t i = 0; i < description->ops.size(); ++i) {
    std::unique_ptr<Extension>& extension = description->ops[i].extension;
    const std::string name = extension->name;
    const auto [found, is_new] =
        all.try_emplace(name, Registered{std::move(extension), std::move(digests[i])});
    if (is_new) RLX_CHECK(register_extension(*found->second.extension), "op " + name);
    family.ops.push_back(found->second.extension.get());
  }
  return family;
}

std::vector<ExtensionFamily> load_built_in() {
  std::vector<ExtensionFamily> families;
  for (const auto& [name, files] : embedded_extensions()) {
    Diagnostics diagnostics;
    auto family = load({.folder = "built-in:" + name, .embedded = files}, diagnostics);
    RLX_CHECK(family.has_value(), diagnostics.text());
    families.push_back(std::move(*family));
  }
  return families;
}

}  // namespace

std::optional<ExtensionFamily> load_extension(const std::string& folder, Diagnostics& diagnostics) {
  return load({.folder = folder, .embedded = {}}, diagnostics);
}

const std::vector<ExtensionFamily>& built_in_extensions() {
  static const std::vector<ExtensionFamily> families = load_built_in();
  return families;
}

}  // namespace rlx
