// SPDX-License-Identifier: Apache-2.0
// Reading attributes with defaults, and checking them against their specs.
#include <algorithm>
#include <charconv>

#include "compiler/ops/op_def.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

const AttrSpec* find_spec(const OpDef& op, std::string_view name) {
  const auto found = std::find_if(op.attrs.begin(), op.attrs.end(),
                                  [name](const AttrSpec& spec) { return spec.name == name; });
  return found == op.attrs.end() ? nullptr : &*found;
}

template <typename T>
T parse_number(std::string_view text) {
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  RLX_CHECK(result.ec == std::errc() && result.ptr == text.data() + text.size(),
            "attribute default \"" + std::string(text) + "\"");
  return value;
}

template <typename T, typename Item = T>
std::vector<Item> parse_list(std::string_view text) {
  RLX_CHECK(text.size() >= 2 && text.front() == '[' && text.back() == ']',
            "attribute default \"" + std::string(text) + "\"");
  text = text.substr(1, text.size() - 2);
  std::vector<Item> values;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    values.push_back(parse_number<T>(item));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return values;
}

double parse_real(std::string_view text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return parse_number<double>(text);
}

std::string unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

AttributeValue parse_default(const AttrSpec& spec) {
  switch (spec.type) {
    case AttrType::Int:
      return parse_number<int64_t>(spec.default_text);
    case AttrType::Float:
      return parse_real(spec.default_text);
    case AttrType::Bool:
      return spec.default_text == "true";
    case AttrType::String:
    case AttrType::DTypeName:
      return unquoted(spec.default_text);
    case AttrType::IntList:
      return parse_list<int64_t, Dim>(spec.default_text);
    case AttrType::FloatList:
      return parse_list<double>(spec.default_text);
    case AttrType::StringList:
      return Strings{};
  }
  return int64_t{0};
}

// A number that the run gives.
bool is_free_number(const AttributeValue& value) {
  const auto* sizes = std::get_if<Ints>(&value);
  return sizes != nullptr && sizes->size() == 1 && sizes->front().is_free();
}

bool has_type(const AttributeValue& value, AttrType type) {
  switch (type) {
    case AttrType::Int:
      return std::holds_alternative<int64_t>(value) || is_free_number(value);
    case AttrType::Float:
      return std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value);
    case AttrType::Bool:
      return std::holds_alternative<bool>(value);
    case AttrType::String:
      return std::holds_alternative<std::string>(value);
    case AttrType::DTypeName:
      return std::holds_alternative<std::string>(value) &&
             dtype_from_name(std::get<std::string>(value)).has_value();
    case AttrType::IntList:
      return std::holds_alternative<Ints>(value);
    case AttrType::FloatList:
      return std::holds_alternative<Floats>(value) || std::holds_alternative<Ints>(value);
    case AttrType::StringList:
      return std::holds_alternative<Strings>(value) ||
             (std::holds_alternative<Ints>(value) && std::get<Ints>(value).empty());
  }
  return false;
}

// Every number in a value, for the range check.
Floats numbers_in(const AttributeValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return {static_cast<double>(*integer)};
  if (const auto* real = std::get_if<double>(&value)) return {*real};
  if (const auto* integers = std::get_if<Ints>(&value)) {
    Floats numbers;  // of a free one both ends
    for (const Dim& size : *integers) {
      numbers.push_back(static_cast<double>(size.range().least));
      if (size.is_free()) numbers.push_back(static_cast<double>(size.range().most));
    }
    return numbers;
  }
  if (const auto* reals = std::get_if<Floats>(&value)) return *reals;
  return {};
}

std::string known_names(const OpDef& op) {
  std::string text;
  for (const AttrSpec& spec : op.attrs) text += (text.empty() ? "" : ", ") + std::string(spec.name);
  return text.empty() ? "it takes no attributes" : "it takes " + text;
}

std::string range_text(const AttrSpec& spec) {
  const auto bound = [](double value) {
    return value == static_cast<double>(static_cast<int64_t>(value))
               ? std::to_string(static_cast<int64_t>(value))
               : std::to_string(value);
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (spec.minimum > -kInfinity && spec.maximum < kInfinity) {
    return "in [" + bound(spec.minimum) + ", " + bound(spec.maximum) + "]";
  }
  if (spec.minimum > -kInfinity) return "at least " + bound(spec.minimum);
  if (spec.maximum < kInfinity) return "at most " + bound(spec.maximum);
  return "a number";
}

std::string choices_text(const AttrSpec& spec) {
  std::string text;
  for (std::string_view choice : spec.choices) {
    text += (text.empty() ? "" : ", ") + ("\"" + std::string(choice) + "\"");
  }
  return text;
}

// Of what there is one at least, as heads and their columns: such numbers are multiplied with each
// other.
constexpr double kMostOfOneKind = 1 << 30;

bool check_value(const AttrSpec& spec, const AttributeValue& value, NodeContext& ctx) {
  const std::string subject = "attribute \"" + std::string(spec.name) + "\" is " + to_string(value);
  if (!has_type(value, spec.type)) {
    return ctx.fail(DiagCode::BadAttribute,
                    subject + ", wanted a " + std::string(name_of(spec.type)));
  }
  for (double number : numbers_in(value)) {
    if (!(number >= spec.minimum && number <= spec.maximum)) {
      return ctx.fail(DiagCode::BadAttribute, subject + ", wanted " + range_text(spec));
    }
    if (spec.type == AttrType::Int && spec.minimum >= 1 && number > kMostOfOneKind) {
      return ctx.fail(DiagCode::BadAttribute,
                      subject + ", wanted at most " + std::to_string(int64_t{1} << 30));
    }
  }
  if (const auto* text = std::get_if<std::string>(&value); text && !spec.choices.empty()) {
    if (std::find(spec.choices.begin(), spec.choices.end(), *text) == spec.choices.end()) {
      return ctx.fail(DiagCode::BadAttribute, subject + ", wanted one of " + choices_text(spec));
    }
  }
  return true;
}

}  // namespace

AttributeReader::AttributeReader(const OpDef& op, const Attributes& attributes)
    : op_(&op), attributes_(&attributes) {}

const AttributeValue& AttributeReader::get(std::string_view name, AttributeValue& scratch) const {
  const AttrSpec* spec = find_spec(*op_, name);
  RLX_CHECK(spec != nullptr, std::string(op_->name) + " has no attribute " + std::string(name));
  read_.emplace(name);
  if (const auto found = attributes_->find(name); found != attributes_->end()) return found->second;
  RLX_CHECK(!spec->default_text.empty(), std::string(op_->name) + ": attribute " +
                                             std::string(name) + " is absent and has no default");
  scratch = parse_default(*spec);
  return scratch;
}

bool AttributeReader::has(std::string_view name) const {
  RLX_CHECK(find_spec(*op_, name) != nullptr,
            std::string(op_->name) + " has no attribute " + std::string(name));
  read_.emplace(name);
  return attributes_->find(name) != attributes_->end();
}

int64_t AttributeReader::integer(std::string_view name) const {
  AttributeValue scratch;
  const AttributeValue& value = get(name, scratch);
  // Read as a number, a free one refuses the node.
  if (const auto* size = std::get_if<Ints>(&value)) return static_cast<int64_t>(size->at(0));
  return std::get<int64_t>(value);
}

double AttributeReader::real(std::string_view name) const {
  AttributeValue scratch;
  const AttributeValue& value = get(name, scratch);
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  return std::get<double>(value);
}

bool AttributeReader::flag(std::string_view name) const {
  AttributeValue scratch;
  return std::get<bool>(get(name, scratch));
}

std::string AttributeReader::text(std::string_view name) const {
  AttributeValue scratch;
  return std::get<std::string>(get(name, scratch));
}

Ints AttributeReader::integers(std::string_view name) const {
  AttributeValue scratch;
  const AttributeValue& value = get(name, scratch);
  if (const auto* integer = std::get_if<int64_t>(&value)) return {*integer};
  return std::get<Ints>(value);
}

Floats AttributeReader::reals(std::string_view name) const {
  AttributeValue scratch;
  const AttributeValue& value = get(name, scratch);
  if (const auto* integers = std::get_if<Ints>(&value)) {
    return Floats(integers->begin(), integers->end());
  }
  return std::get<Floats>(value);
}

DType AttributeReader::dtype(std::string_view name) const {
  return dtype_from_name(text(name)).value();
}

std::vector<std::string> AttributeReader::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : *attributes_) {
    const AttrSpec* spec = find_spec(*op_, name);
    if (!read_.contains(name) && !(spec != nullptr && spec->consumed_by_infer)) {
      names.push_back(name);
    }
  }
  return names;
}

bool check_attributes(const OpDef& op, const Node& node, Diagnostics& diagnostics) {
  NodeContext ctx(op, node, diagnostics);
  bool good = true;
  for (const auto& [name, value] : node.attributes) {
    const AttrSpec* spec = find_spec(op, name);
    if (spec == nullptr) {
      good = ctx.fail(DiagCode::UnknownAttribute, "attribute \"" + name + "\" is unknown",
                      known_names(op));
    } else if (!check_value(*spec, value, ctx)) {
      good = false;
    }
  }
  for (const AttrSpec& spec : op.attrs) {
    if (spec.required && !node.attributes.contains(std::string(spec.name))) {
      good = ctx.fail(DiagCode::MissingAttribute,
                      "attribute \"" + std::string(spec.name) + "\" is required and missing");
    }
  }
  return good;
}

}  // namespace rlx
