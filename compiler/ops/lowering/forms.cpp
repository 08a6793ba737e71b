// SPDX-License-Identifier: Apache-2.0
// The text of a problem, and the choice.
#include "compiler/ops/lowering/forms.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

// Times within this factor of the best one's may be wrong about which is less.
constexpr double kCloseFactor = 1.3;
constexpr size_t kMostClose = 5;

std::string attributes_text(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) text += " " + name + "=" + to_string(value);
  return text;
}

// FNV-1a: stays the same from run to run, which a table in a file needs.
std::string digest_of(std::string_view text) {
  uint64_t digest = 0xcbf29ce484222325;
  for (const char c : text) digest = (digest ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(digest));
  return hex.data();
}

// What the node computes, without names: its op and types to read, the rest as a digest.
std::string problem_text(const LowerContext& ctx) {
  const Node& node = ctx.node();
  std::string text = node.op;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    text += (i > 0 ? ", " : " ") + (ctx.has_input(i) ? to_string(ctx.input_type(i)) : "none");
  text += " ->";
  for (size_t i = 0; i < node.outputs.size(); ++i)
    text += (i > 0 ? ", " : " ") + to_string(ctx.output_type(i));
  std::string rest = attributes_text(node.attributes);
  for (const RegionStep& step : node.region) {
    rest += "\n" + step.op + attributes_text(step.attributes);
    for (const uint32_t operand : step.operands) rest += " " + std::to_string(operand);
    rest += " : " + std::string(name_of(step.dtype));
  }
  return rest.empty() ? text : text + " #" + digest_of(rest);
}

// The best one, then the others that are close to it, the closest first, each name once.
std::vector<TimedForm> close_forms(const std::vector<TimedForm>& forms, size_t best) {
  std::vector<TimedForm> close = {forms[best]};
  std::vector<TimedForm> others;
  for (const TimedForm& form : forms) {
    if (form.microseconds <= kCloseFactor * forms[best].microseconds) others.push_back(form);
  }
  std::ranges::stable_sort(others, {}, &TimedForm::microseconds);
  for (TimedForm& form : others) {
    const bool is_known = std::ranges::find(close, form.name, &TimedForm::name) != close.end();
    if (!is_known && close.size() < kMostClose) close.push_back(std::move(form));
  }
  return close;
}

}  // namespace

size_t take_form(LowerContext& ctx, std::string_view chooser, const std::vector<TimedForm>& forms,
                 size_t best) {
  RLX_CHECK(best < forms.size(), "the best of the forms");
  // What makes weights runs once, and nobody times it.
  if (ctx.runs_once() || forms.size() < 2) return best;
  FormChoice choice{.entry = ctx.program().entry,
                    .node = ctx.node().name,
                    .problem = problem_text(ctx),
                    .chooser = std::string(chooser),
                    .close = close_forms(forms, best)};
  size_t taken = best;
  if (const std::string* tuned = ctx.tuned_form(choice.key())) {
    const auto named = std::ranges::find(forms, *tuned, &TimedForm::name);
    choice.is_tuned = named != forms.end();
    if (choice.is_tuned) taken = static_cast<size_t>(named - forms.begin());
  }
  if (choice.close.size() < 2 && !choice.is_tuned) return best;
  choice.taken = forms[taken].name;
  ctx.program().form_choices.push_back(std::move(choice));
  return taken;
}

namespace {

constexpr int64_t kLeastTile = 8;  // no tile is smaller

// Calls visit(value) for the size at each combination of its symbols' values; false where there
// are more than `most` of these.
bool visit_values(const Dim& size, int64_t most, const std::function<void(int64_t)>& visit) {
  const auto count_of = [](const FreeSymbol& symbol) {
    return (symbol.maximum - symbol.minimum) / symbol.multiple_of + 1;
  };
  std::map<uint32_t, FreeSymbol> symbols;
  for_each_symbol(size, [&](const FreeSymbol& symbol) { symbols.emplace(symbol.index, symbol); });
  int64_t combinations = 1;
  for (const auto& [index, symbol] : symbols) {
    const int64_t count = count_of(symbol);
    if (count > most / combinations) return false;
    combinations *= count;
  }
  for (int64_t combination = 0; combination < combinations; ++combination) {
    int64_t rest = combination;
    std::map<uint32_t, int64_t> values;
    for (const auto& [index, symbol] : symbols) {
      const int64_t count = count_of(symbol);
      values[index] = symbol.minimum + rest % count * symbol.multiple_of;
      rest /= count;
    }
    visit(with_symbols(size, [&values](const FreeSymbol& symbol) {
            return Dim(values.at(symbol.index));
          }).bound());
  }
  return true;
}

// All that the size may be, descending, where these are few and tiles apart; else none.
std::vector<int64_t> few_sizes(const Dim& size) {
  constexpr int64_t kMost = 48;
  std::vector<int64_t> sizes;
  if (!visit_values(size, kMost, [&sizes](int64_t value) { sizes.push_back(value); })) return {};
  std::sort(sizes.begin(), sizes.end(), std::greater());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  while (!sizes.empty() && sizes.back() < 1) sizes.pop_back();
  const auto are_close = [](int64_t larger, int64_t smaller) {
    return larger - smaller < kLeastTile;
  };
  return std::ranges::adjacent_find(sizes, are_close) == sizes.end() ? sizes
                                                                     : std::vector<int64_t>{};
}

}  // namespace

std::vector<int64_t> form_sizes(const Dim& size) {
  if (std::vector<int64_t> few = few_sizes(size); !few.empty()) return few;
  const int64_t least = std::max(kLeastTile, size.range().least);
  std::vector<int64_t> sizes = {size.bound()};
  const auto most = narrow<int64_t>(std::bit_floor(narrow<uint64_t>(size.bound())));
  for (int64_t power = most; power >= 2; power /= 2) {
    // To the half of a size in two steps, and in four where tiles are small parts of it.
    const int64_t part = power >= 8 * kLeastTile ? power / 4 : power / 2;
    for (int64_t value = 2 * power - part; value >= power; value -= part) {
      if (value < sizes.back() && sizes.back() > least) sizes.push_back(value);
    }
  }
  return sizes;
}

namespace {

// How far a set of forms is from the least time at each size: the mean square of the factors, so
// that the worst sizes count most.
double excess_of(const std::vector<double>& times, const std::vector<double>& least) {
  double sum = 0;
  for (size_t i = 0; i < least.size(); ++i) sum += std::pow(times[i] / least[i], 2);
  return sum / static_cast<double>(least.size());
}

std::vector<double> less_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> less(a.size());
  std::ranges::transform(a, b, less.begin(), [](double x, double y) { return std::min(x, y); });
  return less;
}

// What a form binds, and where.
bool are_exchangeable(const Step& a, const Step& b) {
  const auto same_access = [](const Access& one, const Access& other) {
    return one.position == other.position && one.buffer == other.buffer && one.mode == other.mode &&
           one.alignment_bytes == other.alignment_bytes &&
           to_string(one.offset_bytes) == to_string(other.offset_bytes) &&
           to_string(one.range_offset_bytes) == to_string(other.range_offset_bytes) &&
           to_string(one.range_bytes) == to_string(other.range_bytes);
  };
  const auto same_word = [](const SizeWord& one, const SizeWord& other) {
    return one.position == other.position && one.symbol == other.symbol;
  };
  return a.kind == StepKind::Dispatch && b.kind == StepKind::Dispatch && a.params == b.params &&
         std::ranges::equal(a.accesses, b.accesses, same_access) &&
         std::ranges::equal(a.sizes, b.sizes, same_word);
}

std::vector<double> least_times(const std::vector<std::vector<double>>& microseconds) {
  RLX_CHECK(!microseconds.empty(), "a form");
  std::vector<double> least = microseconds.front();
  for (const std::vector<double>& times : microseconds) least = less_of(least, times);
  RLX_CHECK(std::ranges::all_of(least, [](double time) { return std::isfinite(time); }),
            "a form for every size");
  return least;
}

struct FormSet {
  std::vector<size_t> forms;
  double excess = std::numeric_limits<double>::infinity();
};

// The forms that together come nearest to the least times.
FormSet few_forms(const std::vector<std::vector<double>>& microseconds,
                  const std::vector<double>& least) {
  // Each form is a kernel to compile, for every shape of the network.
  constexpr size_t kMost = 11;
  constexpr double kWorth = 0.9997;  // of the excess without the form
  FormSet set;
  std::vector<double> times(least.size(), std::numeric_limits<double>::infinity());
  while (set.forms.size() < kMost) {
    size_t best = 0;
    double best_excess = std::numeric_limits<double>::infinity();
    for (size_t form = 0; form < microseconds.size(); ++form) {
      const double with_form = excess_of(less_of(times, microseconds[form]), least);
      if (with_form < best_excess) best_excess = with_form, best = form;
    }
    if (!std::isfinite(best_excess) || best_excess > kWorth * set.excess) break;
    set.forms.push_back(best);
    times = less_of(times, microseconds[best]);
    set.excess = best_excess;
  }
  return set;
}

}  // namespace

std::vector<Stretch> stretches(const std::vector<std::vector<double>>& microseconds) {
  const std::vector<double> least = least_times(microseconds);
  const FormSet taken = few_forms(microseconds, least);
  RLX_CHECK(!taken.forms.empty(), "a form for every size");
  std::vector<Stretch> found;
  for (size_t i = 0; i < least.size(); ++i) {
    const size_t form = *std::ranges::min_element(
        taken.forms, {}, [&microseconds, i](size_t f) { return microseconds[f][i]; });
    const bool goes_on =
        !found.empty() && microseconds[found.back().form][i] <= microseconds[form][i];
    if (!goes_on) found.push_back({.first_size = i, .form = form});
  }
  return found;
}

void join_form(Program& program, size_t step, size_t end, const Dim& size, int64_t most) {
  std::vector<Step>& steps = program.steps;
  if (end == step + 1 && steps.size() == end + 1 && are_exchangeable(steps[step], steps[end])) {
    const Step& form = steps[end];
    steps[step].forms.push_back(
        {.size = size, .most = most, .kernel = *form.kernel, .grid = form.grid});
    steps[step].reason +=
        "; where " + to_string(size) + " is at most " + std::to_string(most) + ": " + form.reason;
  }
  steps.resize(end);
}

}  // namespace rlx
