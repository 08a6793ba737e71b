// SPDX-License-Identifier: Apache-2.0
// Candidates for the assignment of waves: earliest, latest, balanced, and memory-first orders.
#include "compiler/lower/waves.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "compiler/support/checked.h"

namespace rlx {
namespace {

Edges successors_of(const Edges& before) {
  Edges after(before.size());
  for (uint32_t step = 0; step < before.size(); ++step) {
    for (const uint32_t earlier : before[step]) after[earlier].push_back(step);
  }
  return after;
}

uint32_t wave_count_of(const std::vector<uint32_t>& wave) {
  return wave.empty() ? 0 : *std::max_element(wave.begin(), wave.end()) + 1;
}

std::vector<uint32_t> earliest_waves(const Edges& before) {
  std::vector<uint32_t> wave(before.size(), 0);
  for (uint32_t step = 0; step < before.size(); ++step) {
    for (const uint32_t earlier : before[step])
      wave[step] = std::max(wave[step], wave[earlier] + 1);
  }
  return wave;
}

std::vector<uint32_t> latest_waves(const Edges& before, uint32_t wave_count) {
  std::vector<uint32_t> wave(before.size(), wave_count == 0 ? 0 : wave_count - 1);
  for (size_t step = before.size(); step-- > 0;) {
    for (const uint32_t earlier : before[step]) {
      wave[earlier] = std::min(wave[earlier], wave[step] - 1);
    }
  }
  return wave;
}

// The search budget, spent in elementary operations.
class Budget {
 public:
  explicit Budget(uint64_t operations) : left_(operations) {}
  bool spend(uint64_t operations) {
    if (operations > left_) return false;
    left_ -= operations;
    return true;
  }

 private:
  uint64_t left_;
};

// Cost of one evaluation of LivenessModel::cost, in elementary operations.
uint64_t evaluation_cost(const Edges& before, const LivenessModel& liveness, uint32_t wave_count) {
  uint64_t uses = 0;
  for (uint32_t step = 0; step < before.size(); ++step) uses += liveness.used_by(step).size();
  return 2 * uses + wave_count + liveness.chances().size();
}

enum class Moves : uint8_t {
  Better,  // to where the cost is smaller
  Later,   // there, and to later waves at the same cost: then what is before the step may follow
};

// Moves single steps within the slack that their neighbours leave.
void balance(const Edges& before, const LivenessModel& liveness, Moves moves, Budget& budget,
             WavePlan& plan) {
  constexpr int kRounds = 4;
  const Edges after = successors_of(before);
  const uint64_t price = evaluation_cost(before, liveness, plan.wave_count);
  const size_t count = before.size();
  for (int round = 0; round < kRounds; ++round) {
    bool improved = false;
    for (size_t i = 0; i < count; ++i) {
      const size_t step = round % 2 == 0 ? count - 1 - i : i;
      if (liveness.used_by(narrow<uint32_t>(step)).empty()) continue;
      uint32_t low = 0;
      uint32_t high = plan.wave_count - 1;
      for (const uint32_t earlier : before[step])
        low = std::max(low, plan.wave_of_step[earlier] + 1);
      for (const uint32_t later : after[step]) high = std::min(high, plan.wave_of_step[later] - 1);
      if (low == high) continue;
      const uint32_t home = plan.wave_of_step[step];
      uint32_t best_wave = home;
      for (const uint32_t wave : {high, high - 1, low + 1, low}) {
        if (wave == home || wave < low || wave > high) continue;
        if (!budget.spend(price)) {
          plan.wave_of_step[step] = best_wave;
          return;
        }
        plan.wave_of_step[step] = wave;
        const WaveCost cost = liveness.cost(plan.wave_of_step, plan.wave_count);
        const bool is_later = moves == Moves::Later && round % 2 == 0 && wave > best_wave;
        if (cost < plan.cost || (is_later && cost == plan.cost)) {
          improved = improved || cost < plan.cost;
          plan.cost = cost;
          best_wave = wave;
        }
      }
      plan.wave_of_step[step] = best_wave;
    }
    if (!improved) return;
  }
}

// A step and what serves it alone: steps all of whose successors belong to it too, nearest first.
std::vector<uint32_t> cone_of(const Edges& before, const Edges& after, uint32_t step) {
  constexpr size_t kMostSteps = 32;
  std::vector<uint32_t> cone = {step};
  std::vector<uint32_t> reached = before[step];
  const auto belongs = [&](uint32_t later) {
    return std::find(cone.begin(), cone.end(), later) != cone.end();
  };
  // A step stands before its successors, so the last one reached has all of its own looked at.
  while (!reached.empty() && cone.size() < kMostSteps) {
    const auto last = std::max_element(reached.begin(), reached.end());
    const uint32_t earlier = *last;
    std::erase(reached, earlier);
    if (!std::all_of(after[earlier].begin(), after[earlier].end(), belongs)) continue;
    cone.push_back(earlier);
    reached.insert(reached.end(), before[earlier].begin(), before[earlier].end());
  }
  return cone;
}

// Moves steps as late as they can be together with what serves them alone, as long as that makes
// the cost smaller: what one of them would save the one before it may keep.
void sink(const Edges& before, const LivenessModel& liveness, Budget& budget, WavePlan& plan) {
  const Edges after = successors_of(before);
  const uint64_t price = evaluation_cost(before, liveness, plan.wave_count);
  const auto latest = [&](const std::vector<uint32_t>& waves, uint32_t step) {
    uint32_t wave = plan.wave_count - 1;
    for (const uint32_t later : after[step]) wave = std::min(wave, waves[later] - 1);
    return wave;
  };
  for (auto step = narrow<uint32_t>(before.size()); step-- > 0;) {
    if (latest(plan.wave_of_step, step) == plan.wave_of_step[step]) continue;
    const std::vector<uint32_t> cone = cone_of(before, after, step);
    std::vector<uint32_t> waves = plan.wave_of_step;
    std::vector<uint32_t> best;
    bool is_spent = false;
    for (size_t i = 0; i < cone.size(); ++i) {
      waves[cone[i]] = latest(waves, cone[i]);
      // All sizes would cost too much.
      if (i + 1 < cone.size() && (i & (i + 1)) != 0) continue;
      is_spent = !budget.spend(price);
      if (is_spent) break;
      const WaveCost cost = liveness.cost(waves, plan.wave_count);
      if (!(cost < plan.cost)) continue;
      plan.cost = cost;
      best = waves;
    }
    if (!best.empty()) plan.wave_of_step = std::move(best);
    if (is_spent) return;
  }
}

WavePlan make_plan(std::string_view name, std::vector<uint32_t> wave_of_step,
                   const LivenessModel& liveness) {
  const uint32_t wave_count = wave_count_of(wave_of_step);
  const WaveCost cost = liveness.cost(wave_of_step, wave_count);
  return {.name = name,
          .wave_of_step = std::move(wave_of_step),
          .wave_count = wave_count,
          .cost = cost};
}

struct Names {
  std::string_view earliest;
  std::string_view latest;
  std::string_view balanced;
  std::string_view sunk;
};

void add_shortest(const Edges& before, const LivenessModel& liveness, const Names& names,
                  Budget& budget, std::vector<WavePlan>& plans) {
  WavePlan earliest = make_plan(names.earliest, earliest_waves(before), liveness);
  WavePlan latest = make_plan(names.latest, latest_waves(before, earliest.wave_count), liveness);
  // Without steps, or without slack anywhere, there is nothing to choose.
  const bool slack = earliest.wave_of_step != latest.wave_of_step;
  plans.push_back(earliest);
  if (!slack) return;
  plans.push_back(latest);
  WavePlan balanced = latest.cost < earliest.cost ? std::move(latest) : std::move(earliest);
  balanced.name = names.balanced;
  balance(before, liveness, Moves::Better, budget, balanced);
  WavePlan sunk = balanced;
  sunk.name = names.sunk;
  sink(before, liveness, budget, sunk);
  balance(before, liveness, Moves::Later, budget, sunk);
  sink(before, liveness, budget, sunk);
  plans.push_back(std::move(balanced));
  plans.push_back(std::move(sunk));
}

// The hazards and, for each takeover that can be had without a longer chain, edges from the other
// users of the input to the step that overwrites it. nullopt when there are none to add.
std::optional<Edges> order_for_in_place(const Edges& hazards, const LivenessModel& liveness,
                                        Budget& budget) {
  Edges before = hazards;
  std::vector<uint32_t> earliest = earliest_waves(before);
  const uint32_t wave_count = wave_count_of(earliest);
  std::vector<uint32_t> latest = latest_waves(before, wave_count);
  bool changed = false;
  for (const InPlaceChance& chance : liveness.chances()) {
    std::vector<uint32_t> unordered;
    const std::vector<uint32_t>& users = liveness.users(chance.input);
    if (users.back() > chance.step) continue;
    bool possible = true;
    for (const uint32_t user : users) {
      if (user == chance.step) continue;
      possible = possible && earliest[user] < latest[chance.step];
      const std::vector<uint32_t>& known = before[chance.step];
      if (!std::binary_search(known.begin(), known.end(), user)) unordered.push_back(user);
    }
    if (!possible || unordered.empty()) continue;
    if (!budget.spend(before.size() * 4)) break;
    std::vector<uint32_t>& edges = before[chance.step];
    edges.insert(edges.end(), unordered.begin(), unordered.end());
    std::sort(edges.begin(), edges.end());
    earliest = earliest_waves(before);
    latest = latest_waves(before, wave_count);
    changed = true;
  }
  if (!changed) return std::nullopt;
  return before;
}

// A topological order that at each turn takes the step after which the fewest bytes are live; ties
// in program order.
std::vector<uint32_t> least_memory_order(const Edges& before, const LivenessModel& liveness) {
  const uint32_t count = narrow<uint32_t>(before.size());
  const Edges after = successors_of(before);
  std::vector<size_t> waiting_for(count);
  std::vector<uint32_t> ready;
  for (uint32_t step = 0; step < count; ++step) {
    waiting_for[step] = before[step].size();
    if (waiting_for[step] == 0) ready.push_back(step);
  }
  std::vector<size_t> uses_left(liveness.buffer_count());
  for (uint32_t i = 0; i < uses_left.size(); ++i) uses_left[i] = liveness.users(BufferId(i)).size();
  const auto growth = [&](uint32_t step) {
    int64_t units = 0;
    for (const BufferId buffer : liveness.used_by(step)) {
      const size_t left = uses_left[index_of(buffer)];
      if (left == liveness.users(buffer).size())
        units += static_cast<int64_t>(liveness.units(buffer));
      if (left == 1) units -= static_cast<int64_t>(liveness.units(buffer));
    }
    return units;
  };
  std::vector<uint32_t> order;
  while (!ready.empty()) {
    auto best = ready.begin();
    int64_t best_growth = growth(*best);
    for (auto candidate = ready.begin() + 1; candidate != ready.end(); ++candidate) {
      const int64_t units = growth(*candidate);
      if (units > best_growth || (units == best_growth && *candidate > *best)) continue;
      best = candidate;
      best_growth = units;
    }
    const uint32_t step = *best;
    ready.erase(best);
    order.push_back(step);
    for (const BufferId buffer : liveness.used_by(step)) --uses_left[index_of(buffer)];
    for (const uint32_t later : after[step]) {
      if (--waiting_for[later] == 0) ready.push_back(later);
    }
  }
  return order;
}

// One step per wave in `order`; then each step joins the wave before it where hazards and the peak
// allow.
WavePlan chain_plan(std::string_view name, const std::vector<uint32_t>& order, const Edges& before,
                    const LivenessModel& liveness, Budget& budget) {
  std::vector<uint32_t> wave(order.size());
  for (uint32_t position = 0; position < order.size(); ++position) wave[order[position]] = position;
  WavePlan plan = make_plan(name, std::move(wave), liveness);
  const uint64_t price = evaluation_cost(before, liveness, plan.wave_count) + order.size();
  for (size_t position = 1; position < order.size(); ++position) {
    const uint32_t step = order[position];
    const uint32_t home = plan.wave_of_step[step];
    const bool waits = std::any_of(before[step].begin(), before[step].end(), [&](uint32_t earlier) {
      return plan.wave_of_step[earlier] + 1 == home;
    });
    if (waits) continue;
    if (!budget.spend(price)) break;
    std::vector<uint32_t> merged = plan.wave_of_step;
    for (size_t later = position; later < order.size(); ++later) --merged[order[later]];
    const WaveCost cost = liveness.cost(merged, plan.wave_count - 1);
    if (cost.peak > plan.cost.peak) continue;
    plan.wave_of_step = std::move(merged);
    --plan.wave_count;
    plan.cost = cost;
  }
  return plan;
}

}  // namespace

std::vector<WavePlan> wave_candidates(const Edges& hazards, const LivenessModel& liveness,
                                      const ScheduleOptions& options) {
  Budget budget(options.search_budget);
  std::vector<WavePlan> plans;
  if (options.serial) {
    std::vector<uint32_t> own_waves(hazards.size());
    std::iota(own_waves.begin(), own_waves.end(), 0u);
    plans.push_back(make_plan("serial", std::move(own_waves), liveness));
    return plans;
  }
  add_shortest(hazards, liveness,
               {.earliest = "as-early-as-possible",
                .latest = "as-late-as-possible",
                .balanced = "balanced",
                .sunk = "sunk"},
               budget, plans);
  const std::optional<Edges> ordered = order_for_in_place(hazards, liveness, budget);
  if (ordered) {
    add_shortest(*ordered, liveness,
                 {.earliest = "in-place-early",
                  .latest = "in-place-late",
                  .balanced = "in-place-balanced",
                  .sunk = "in-place-sunk"},
                 budget, plans);
  }
  if (options.goal == ScheduleGoal::Memory && !hazards.empty()) {
    std::vector<uint32_t> program_order(hazards.size());
    std::iota(program_order.begin(), program_order.end(), 0u);
    plans.push_back(chain_plan("program-order", program_order, hazards, liveness, budget));
    plans.push_back(chain_plan("least-memory-first", least_memory_order(hazards, liveness), hazards,
                               liveness, budget));
  }
  return plans;
}

}  // namespace rlx
