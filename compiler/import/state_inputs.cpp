// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/state_inputs.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/import/names.h"

namespace rlx {
namespace {

// Names of an entry's values.
std::set<std::string_view> names_of(const SourceEntry& entry) {
  std::set<std::string_view> names;
  for (const SourceTensor& input : entry.inputs) names.insert(input.name);
  for (const SourceNode& node : entry.nodes) names.insert(node.outputs.begin(), node.outputs.end());
  return names;
}

// An output that is the next value, or rows of it.
struct Feed {
  std::string output;
  std::string row;   // an input: where its last row goes
  std::string rows;  // an input: how many of its first rows go
  std::optional<int64_t> axis = std::nullopt;
};

// nullopt: another form.
std::optional<Feed> parse_feed(const std::string& text) {
  Feed feed;
  size_t at = text.find(',');
  feed.output = text.substr(0, at);
  while (at != std::string::npos) {
    const size_t end = text.find(',', at + 1);
    const std::string part = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (key == "row") {
      feed.row = value;
    } else if (key == "rows") {
      feed.rows = value;
    } else if (key == "axis" && error == std::errc() && stop == value.data() + value.size()) {
      feed.axis = number;
    } else {
      return std::nullopt;
    }
    if (value.empty()) return std::nullopt;
    at = end;
  }
  const bool is_feed = !feed.row.empty() || !feed.rows.empty();
  if (is_feed != feed.axis.has_value() || (!feed.row.empty() && !feed.rows.empty()))
    return std::nullopt;
  return feed;
}

class StateMaker {
 public:
  StateMaker(SourceGraph& graph, const std::string& input, const std::string& output,
             Diagnostics& diagnostics)
      : graph_(graph), input_(input), output_(output), diagnostics_(diagnostics) {}

  bool make() {
    // An output's name may have a comma itself.
    const bool is_output = std::ranges::any_of(graph_.entries, [this](const SourceEntry& entry) {
      return std::ranges::find(entry.outputs, output_) != entry.outputs.end();
    });
    if (!is_output && output_.find(',') != std::string::npos) {
      const std::optional<Feed> feed = parse_feed(output_);
      if (!feed)
        return fail("gives " + in_quotes(output_) + " for input " + in_quotes(input_),
                    "wanted OUTPUT, OUTPUT,row=INPUT,axis=N or OUTPUT,rows=INPUT,axis=N");
      feed_ = *feed;
    } else {
      feed_.output = output_;
    }
    std::optional<SourceTensor> state;
    std::set<std::string_view> known;
    for (SourceEntry& entry : graph_.entries) {
      const auto found = std::ranges::find(entry.inputs, input_, &SourceTensor::name);
      for (const SourceTensor& input : entry.inputs) known.insert(input.name);
      if (found == entry.inputs.end()) continue;
      if (state && (state->dtype != found->dtype || state->shape != found->shape))
        return fail("names input " + in_quotes(input_) +
                    ", which two entries declare with different types");
      state = *found;
      entry.inputs.erase(found);
      if (!write(entry, *state)) return false;
    }
    if (state) {
      graph_.states.push_back(std::move(*state));
      return true;
    }
    const std::vector<std::string_view> inputs(known.begin(), known.end());
    return fail("names " + in_quotes(input_) + ", which is no input of the graph",
                inputs.empty() ? "the graph has none" : "its inputs are " + list_names(inputs));
  }

 private:
  bool write(SourceEntry& entry, const SourceTensor& state) {
    const auto output = std::ranges::find(entry.outputs, feed_.output);
    if (output == entry.outputs.end()) {
      const std::vector<std::string_view> known(entry.outputs.begin(), entry.outputs.end());
      return fail("names " + in_quotes(feed_.output) + ", which is no output of entry " +
                      in_quotes(entry.name),
                  "its outputs are " + list_names(known));
    }
    entry.outputs.erase(output);
    for (const std::string_view name : names_of(entry)) taken_.emplace(name);
    std::string next = feed_.output;
    if (!feed_.row.empty()) next = with_last_row(entry);
    if (!feed_.rows.empty()) {
      const auto rank = static_cast<int64_t>(state.shape.size());
      const int64_t axis = *feed_.axis < 0 ? *feed_.axis + rank : *feed_.axis;
      if (axis < 0 || axis >= rank)
        return fail("names axis " + std::to_string(*feed_.axis) + " of " + in_quotes(input_) +
                    ", which has rank " + std::to_string(rank));
      next = with_first_rows(entry, state, static_cast<size_t>(axis));
    }
    emit(entry, "state_write", {input_, next}, feed_.output + ".kept");
    return true;
  }

  std::string emit(SourceEntry& entry, const std::string& op,
                   const std::vector<std::string>& inputs, const std::string& stem,
                   std::map<std::string, SourceAttribute> attributes = {}) {
    std::string name = stem;
    while (!taken_.insert(name).second) name += "_";
    SourceNode node{.place = entry.place, .name = name, .op = op, .outputs = {name}};
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attributes = std::move(attributes);
    entry.nodes.push_back(std::move(node));
    return name;
  }

  // An integer that the run gives.
  void want_input(SourceEntry& entry, const std::string& name) {
    if (!taken_.insert(name).second) return;
    entry.inputs.push_back({.place = entry.place, .name = name, .dtype = DType::i32, .shape = {}});
  }

  std::string with_last_row(SourceEntry& entry) {
    want_input(entry, feed_.row);
    const std::string last =
        emit(entry, "narrow", {feed_.output}, feed_.output + ".last",
             {{"axis", *feed_.axis}, {"start", int64_t{-1}}, {"len", int64_t{1}}});
    return emit(entry, "kv_append", {input_, last, feed_.row}, input_ + ".fed",
                {{"axis", *feed_.axis}});
  }

  std::string with_first_rows(SourceEntry& entry, const SourceTensor& state, size_t axis) {
    want_input(entry, feed_.rows);
    const SourceDim& size = state.shape[axis];
    SourceDims along(state.shape.size(), SourceDim(int64_t{1}));
    along[axis] = size;
    const auto as_attribute = [](const SourceDim& dim) -> SourceAttribute {
      if (const auto* number = std::get_if<int64_t>(&dim)) return *number;
      return std::get<std::string>(dim);
    };
    const auto number = [&](int64_t value) {
      return emit(entry, "fill", {}, input_ + ".number",
                  {{"shape", Ints{}},
                   {"value", static_cast<double>(value)},
                   {"dtype", std::string("i32")}});
    };
    const std::string line = emit(entry, "ramp", {number(0), number(1)}, input_ + ".rows",
                                  {{"count", as_attribute(size)}});
    const std::string rows = emit(entry, "reshape", {line}, input_ + ".rows", {{"shape", along}});
    const std::string count =
        emit(entry, "cast", {feed_.rows}, input_ + ".count", {{"to", std::string("i32")}});
    const std::string flat =
        emit(entry, "reshape", {count}, input_ + ".count", {{"shape", Ints{}}});
    const std::string is_fed = emit(entry, "lt", {rows, flat}, input_ + ".is_fed");
    const std::string first =
        emit(entry, "narrow", {feed_.output}, feed_.output + ".first",
             {{"axis", *feed_.axis}, {"start", int64_t{0}}, {"len", as_attribute(size)}});
    return emit(entry, "where", {is_fed, first, input_}, input_ + ".fed");
  }

  bool fail(const std::string& what, std::string hint = {}) {
    diagnostics_.error(DiagCode::BadBinding, {graph_.file, ""}, "--state " + what, std::move(hint));
    return false;
  }

  SourceGraph& graph_;
  const std::string& input_;
  const std::string& output_;
  Diagnostics& diagnostics_;
  Feed feed_;
  std::set<std::string> taken_;
};

}  // namespace

bool make_states(SourceGraph& graph, const StateInputs& inputs, Diagnostics& diagnostics) {
  for (const auto& [input, output] : inputs) {
    if (!StateMaker(graph, input, output, diagnostics).make()) return false;
  }
  return true;
}

}  // namespace rlx
