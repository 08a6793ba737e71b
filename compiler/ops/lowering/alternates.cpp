// SPDX-License-Identifier: Apache-2.0
// Which rows serve which sizes, and what becomes of their steps.
#include "compiler/ops/lowering/alternates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/size_growth.h"

namespace rlx {
namespace {

constexpr size_t kMostAlternates = 8;
// What another alternate must gain where it changes the kernel, in the mean of the factors.
constexpr double kWorth = 1.03;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Stretches with the time at each size.
struct Partition {
  std::vector<Stretch> stretches;
  std::vector<double> times;
  double excess = kNever;  // the sum of the squared factors above the least times
};

double excess_of(double time, double least) {
  const double factor = std::max(1.0, time / least);
  return factor * factor;
}

// Finds best partitions of the sizes from one on, each once.
class Partitions {
 public:
  Partitions(const std::vector<TimesFrom>& times, std::span<const double> least)
      : times_(times), least_(least) {}

  // Of the sizes from `first` on, into `count` stretches.
  const Partition& best(size_t first, size_t count) {
    const auto [found, is_new] = found_.try_emplace({first, count});
    if (is_new) found->second = search(first, count);
    return found->second;
  }

 private:
  Partition search(size_t first, size_t count) {
    Partition best;
    for (size_t row = 0; row < times_.size(); ++row) {
      Partition own{.stretches = {{.first_size = first, .form = row}}, .times = {}, .excess = 0};
      for (size_t end = first + 1; end <= least_.size(); ++end) {
        const double time = times_[row][first][end - 1];
        own.times.push_back(time);
        own.excess += excess_of(time, least_[end - 1]);
        if (own.excess >= best.excess) break;
        const bool is_last = count == 1;
        if (is_last != (end == least_.size())) continue;
        if (is_last) {
          best = own;
        } else if (const Partition& rest = this->best(end, count - 1);
                   own.excess + rest.excess < best.excess) {
          best = joined(own, rest);
        }
      }
    }
    return best;
  }

  static Partition joined(Partition first, const Partition& rest) {
    first.stretches.insert(first.stretches.end(), rest.stretches.begin(), rest.stretches.end());
    first.times.insert(first.times.end(), rest.times.begin(), rest.times.end());
    first.excess += rest.excess;
    return first;
  }

  const std::vector<TimesFrom>& times_;
  std::span<const double> least_;
  std::map<std::pair<size_t, size_t>, Partition> found_;
};

// The mean factor by which `times` beat `others` where the two differ.
double gain_of(const std::vector<double>& times, const std::vector<double>& others) {
  double sum = 0;
  size_t count = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] == others[i]) continue;
    sum += others[i] / times[i];
    ++count;
  }
  return count == 0 ? 1 : sum / static_cast<double>(count);
}

// The symbol `steps` of kMostSteps of the way from its least value to its largest.
constexpr int64_t kMostSteps = int64_t{1} << 31;
int64_t symbol_at(const FreeSymbol& symbol, int64_t steps) {
  const int64_t count = (symbol.maximum - symbol.minimum) / symbol.multiple_of;
  const auto taken = static_cast<int64_t>(std::floor(
      static_cast<double>(count) * static_cast<double>(steps) / static_cast<double>(kMostSteps)));
  return symbol.minimum + taken * symbol.multiple_of;
}

int64_t value_at(const Dim& size, int64_t steps) {
  return with_symbols(size, [steps](const FreeSymbol& s) { return Dim(symbol_at(s, steps)); })
      .bound();
}

// The most steps at which the size is at most `most`; 0 where there are none.
int64_t steps_up_to(const Dim& size, int64_t most) {
  int64_t least = 0;
  int64_t above = kMostSteps + 1;
  while (above - least > 1) {
    const int64_t middle = least + (above - least) / 2;
    (value_at(size, middle) <= most ? least : above) = middle;
  }
  return least;
}

std::set<uint32_t> symbols_of(const Dim& size) {
  std::set<uint32_t> symbols;
  for_each_symbol(size, [&symbols](const FreeSymbol& symbol) { symbols.insert(symbol.index); });
  return symbols;
}

// Of an alternate within another one, by the same size.
ServedSizes both(const ServedSizes& inner, const ServedSizes& outer) {
  ServedSizes sizes = outer;
  if (inner.above) sizes.above = std::max(*inner.above, outer.above.value_or(*inner.above));
  if (inner.most) sizes.most = std::min(*inner.most, outer.most.value_or(*inner.most));
  return sizes;
}

std::string served_text(const ServedSizes& served) {
  std::string text = "where " + to_string(served.size) + " is ";
  if (served.above) text += "above " + std::to_string(*served.above);
  if (served.above && served.most) text += " and ";
  if (served.most) text += "at most " + std::to_string(*served.most);
  return text;
}

}  // namespace

std::vector<int64_t> alternate_sizes(const Dim& size) {
  if (!grows_only(size)) return {size.bound()};
  std::vector<int64_t> sizes = form_sizes(size);
  const int64_t least = std::max<int64_t>(size.range().least, 1);
  if (sizes.back() < least) sizes.pop_back();
  if (sizes.empty() || sizes.back() > least) sizes.push_back(least);
  return sizes;
}

std::vector<Stretch> choose_alternates(const std::vector<TimesFrom>& times,
                                       std::span<const double> least, size_t plain) {
  Partition taken{.stretches = {{.first_size = 0, .form = plain}}, .times = times[plain].front()};
  Partitions partitions(times, least);
  for (size_t count = 2; count <= std::min(kMostAlternates, least.size()); ++count) {
    const Partition& next = partitions.best(0, count);
    if (std::isfinite(next.excess) && gain_of(next.times, taken.times) >= kWorth) taken = next;
  }
  return taken.stretches;
}

ServedSizes served_by(const Dim& size, std::span<const int64_t> sizes,
                      std::span<const Stretch> stretches, size_t number) {
  ServedSizes served{.size = size};
  if (number > 0) served.most = sizes[stretches[number].first_size];
  if (number + 1 < stretches.size()) served.above = sizes[stretches[number + 1].first_size];
  return served;
}

void serve(Program& program, size_t first_step, const ServedSizes& served,
           const std::set<size_t>& for_all) {
  for (size_t i = first_step; i < program.steps.size(); ++i) {
    if (for_all.contains(i)) continue;
    Step& step = program.steps[i];
    // Their params and accesses are a dispatch's in a plan, where they are skipped at the maximum.
    RLX_CHECK(!served.most || step.kind == StepKind::Dispatch, "an alternate's step");
    step.served = step.served ? both(*step.served, served) : served;
    const std::optional<int64_t> above = step.served->above;
    for (StepForm& form : step.forms) form.size = served.size;
    // Another alternate reads what this one would overwrite.
    step.in_place_states.clear();
    std::erase_if(step.forms,
                  [above](const StepForm& form) { return above && form.most <= *above; });
    step.reason = served_text(served) + (step.reason.empty() ? "" : ": ") + step.reason;
  }
}

SizesAt::SizesAt(const Dim& by, int64_t most)
    : symbols_(symbols_of(by)), steps_(steps_up_to(by, most)) {}

Dim SizesAt::value(const Dim& size) const {
  return with_symbols(size, [this](const FreeSymbol& symbol) {
    return symbols_.contains(symbol.index) ? Dim(symbol_at(symbol, steps_)) : Dim::of(symbol);
  });
}

void SizesAt::fix(std::vector<Dim>& sizes) const {
  for (Dim& size : sizes) fix(size);
}

void SizesAt::fix(TensorRef& ref) const {
  fix(ref.offset_bytes);
  fix(ref.type.shape);
  fix(ref.strides);
}

bool is_least_once(const Dim& size) {
  const std::set<uint32_t> symbols = symbols_of(size);
  return std::ranges::all_of(symbols, [&size](uint32_t moved) {
    const Dim next = with_symbols(size, [moved](const FreeSymbol& symbol) {
      return Dim(symbol.index == moved
                     ? std::min(symbol.minimum + symbol.multiple_of, symbol.maximum)
                     : symbol.minimum);
    });
    return next.bound() > value_at(size, 0);
  });
}

Dim within(const ServedSizes& served) {
  Dim size = served.size;
  // Smaller sizes have forms of their own; without these the text of a kernel is the same.
  if (served.above && symbols_of(size).size() == 1) {
    const int64_t steps = steps_up_to(size, *served.above);
    size = with_symbols(size, [steps](const FreeSymbol& symbol) {
      FreeSymbol narrowed = symbol;
      narrowed.minimum = std::min(symbol_at(symbol, steps) + symbol.multiple_of, symbol.maximum);
      return Dim::of(narrowed);
    });
  }
  return served.most ? min(size, *served.most) : size;
}

}  // namespace rlx
