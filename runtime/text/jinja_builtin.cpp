// SPDX-License-Identifier: Apache-2.0
// How builtins are found and get their arguments, and what they share.
#include "runtime/text/jinja_builtin.h"

#include <algorithm>
#include <charconv>

#include "runtime/base/text.h"

namespace rlx::jinja {
namespace {

const Builtin* find(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Builtin& builtin) { return builtin.name == name; });
  return found == table.end() ? nullptr : &*found;
}

// The next name of "a,b", taken off it.
std::string_view next_parameter(std::string_view& parameters) {
  const size_t size = std::min(parameters.find(','), parameters.size());
  const std::string_view name = parameters.substr(0, size);
  parameters.remove_prefix(std::min(size + 1, parameters.size()));
  return name;
}

size_t parameter_index(std::string_view parameters, std::string_view name) {
  size_t index = 0;
  while (!parameters.empty()) {
    if (next_parameter(parameters) == name) return index;
    ++index;
  }
  return index;
}

size_t parameter_count(std::string_view parameters) {
  if (parameters.empty()) return 0;
  return static_cast<size_t>(std::count(parameters.begin(), parameters.end(), ',')) + 1;
}

Value list_item(const Values& values, const Value& value, int64_t index) {
  if (value.is(Kind::List)) {
    const std::vector<Value>& items = value.list().items;
    const auto place = index_within(index, items.size());
    return place ? items[*place] : Value();
  }
  const MarkedText& text = value.text();
  values.step(extent_of(value).weight);
  const auto place = index_within(index, count_characters(text.bytes()));
  if (!place) return {};
  const size_t at = byte_of_character(text.bytes(), *place);
  return values.text(text.part(at, character_bytes(text.bytes(), at)));
}

}  // namespace

Call::Call(Environment& environment, const Builtin& builtin, const Value& subject,
           const Arguments& arguments)
    : environment_(environment), builtin_(builtin), subject_(subject), arguments_(arguments) {
  if (builtin.parameters == "*") return;
  const size_t count = parameter_count(builtin.parameters);
  if (arguments.positional.size() > count) {
    throw Fault{text_of(quoted(builtin.name), " takes ", count, " arguments at most, got ",
                        arguments.positional.size())};
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound_[i] = &arguments.positional[i];
  for (const NamedValue& named : arguments.named) {
    const size_t index = parameter_index(builtin.parameters, named.name);
    if (index == count) {
      throw Fault{text_of(quoted(builtin.name), " takes no argument ", quoted(named.name))};
    }
    if (bound_[index] != nullptr) {
      throw Fault{text_of(quoted(builtin.name), " got argument ", quoted(named.name), " twice")};
    }
    bound_[index] = &named.value;
  }
}

const Value& Call::wanted(size_t index) const {
  if (bound_[index] != nullptr) return *bound_[index];
  std::string_view parameters = builtin_.parameters;
  for (size_t i = 0; i < index; ++i) next_parameter(parameters);
  throw Fault{
      text_of(quoted(builtin_.name), " wants an argument ", quoted(next_parameter(parameters)))};
}

bool Call::flag(size_t index, bool otherwise) const {
  return bound_[index] == nullptr ? otherwise : is_true(*bound_[index]);
}

int64_t Call::integer(size_t index, int64_t otherwise) const {
  const Value* value = bound_[index];
  if (value == nullptr) return otherwise;
  if (value->is(Kind::Bool)) return value->boolean() ? 1 : 0;
  if (value->is(Kind::Integer)) return value->integer();
  throw Fault{text_of(quoted(builtin_.name), " wants a whole number, got ", kind_text(*value))};
}

const MarkedText& Call::text(size_t index) const {
  const Value& value = wanted(index);
  if (value.is(Kind::Text)) return value.text();
  throw Fault{text_of(quoted(builtin_.name), " wants a text, got ", kind_text(value))};
}

std::optional<std::string_view> Call::bytes(size_t index) const {
  const Value* value = bound_[index];
  if (value == nullptr || value->is(Kind::None)) return std::nullopt;
  return text(index).bytes();
}

Value run_builtin(Environment& environment, const Builtin& builtin, const Value& subject,
                  const Arguments& arguments) {
  environment.budget.step();
  return builtin.run(Call(environment, builtin, subject, arguments));
}

const Builtin* find_filter(std::string_view name) {
  const Builtin* found = find(text_filters(), name);
  return found != nullptr ? found : find(list_filters(), name);
}

const Builtin* find_test(std::string_view name) {
  return find(test_table(), name);
}

const Builtin* find_function(std::string_view name) {
  return find(function_table(), name);
}

const Builtin* find_method(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::Text:
      return find(text_methods(), name);
    case Kind::List:
      return find(list_methods(), name);
    case Kind::Dict:
      return find(dict_methods(), name);
    case Kind::Loop:
      return find(loop_methods(), name);
    default:
      return nullptr;
  }
}

bool is_method_name(std::string_view name) {
  return find(text_methods(), name) != nullptr || find(list_methods(), name) != nullptr ||
         find(dict_methods(), name) != nullptr || find(loop_methods(), name) != nullptr;
}

std::optional<size_t> index_within(int64_t index, size_t count) {
  const auto signed_count = static_cast<int64_t>(count);
  if (index < -signed_count || index >= signed_count) return std::nullopt;
  return static_cast<size_t>(index < 0 ? index + signed_count : index);
}

Value item_of(const Values& values, const Value& value, const Value& key) {
  if (value.is(Kind::Dict)) {
    const Value* found = values.find(value.dict(), key);
    return found == nullptr ? Value() : *found;
  }
  const bool is_indexed = value.is(Kind::List) || value.is(Kind::Text);
  if (!is_indexed || !(key.is(Kind::Integer) || key.is(Kind::Bool))) return {};
  return list_item(values, value, key.is(Kind::Bool) ? int64_t{key.boolean()} : key.integer());
}

Value path_of(const Values& values, const Value& value, const Value& path) {
  if (!path.is(Kind::Text)) return item_of(values, value, path);
  Value out = value;
  std::string_view rest = path.text().bytes();
  while (true) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    int64_t index = 0;
    const char* end = part.data() + part.size();
    const auto read = std::from_chars(part.data(), end, index);
    const bool is_index = read.ec == std::errc() && read.ptr == end && part[0] != '-';
    if (out.is(Kind::Undefined)) throw Fault{text_of("undefined has no attribute ", quoted(part))};
    out = item_of(values, out, is_index ? Value(index) : values.text(part));
    if (part.size() == rest.size()) return out;
    rest.remove_prefix(part.size() + 1);
  }
}

bool is_in(const Values& values, const Value& item, const Value& container) {
  values.step(extent_of(container).weight);
  switch (container.kind()) {
    case Kind::Undefined:
      return false;
    case Kind::Dict:
      return values.find(container.dict(), item) != nullptr;
    case Kind::List: {
      const std::vector<Value>& items = container.list().items;
      return std::any_of(items.begin(), items.end(),
                         [&](const Value& other) { return values.are_equal(item, other); });
    }
    case Kind::Text:
      if (item.is(Kind::Text)) {
        values.step_search(container.text().bytes(), item.text().bytes());
        return container.text().bytes().find(item.text().bytes()) != std::string_view::npos;
      }
      [[fallthrough]];
    default:
      throw Fault{text_of("cannot look for ", kind_text(item), " in ", kind_text(container))};
  }
}

int64_t length_of(const Values& values, const Value& value) {
  switch (value.kind()) {
    case Kind::Undefined:
      return 0;
    case Kind::Text:
      values.step(extent_of(value).weight);
      return static_cast<int64_t>(count_characters(value.text().bytes()));
    case Kind::List:
      return static_cast<int64_t>(value.list().items.size());
    case Kind::Dict:
      return static_cast<int64_t>(value.dict().members.size());
    default:
      throw Fault{text_of(kind_text(value), " has no length")};
  }
}

}  // namespace rlx::jinja
