// SPDX-License-Identifier: Apache-2.0
// Which forms a tuner tries and which of them win. Knows no device and no compiler: it is told what
// plans took.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/dispatch/form_choice.h"

namespace rlx::tune {

// A step of a plan that was timed.
struct TimedStep {
  std::string entry;
  std::string node;
  std::string kernel;
  double estimate = 0;          // microseconds that the cost model expects
  std::vector<double> samples;  // microseconds in each of the runs
};

struct NodeName {
  std::string entry;
  std::string node;
  auto operator<=>(const NodeName&) const = default;
};

struct TimedPlan {
  std::vector<FormChoice> choices;
  std::vector<TimedStep> steps;
};

// Forms for the choices of a node, and what all nodes of the problem take by them.
struct Variation {
  FormTable forms;      // empty: as estimates choose
  std::string kernels;  // of the steps
  std::string taken;    // by every choice: "conv_mma ring; 64x64 tiles, 4 warps, ..."
  double estimate = 0;
  double microseconds = 0;  // median over the runs of the sum over the steps
  double spread = 0;        // half of the distance between the quartiles
  bool is_timed = false;    // else it waits, or was not to be had
  bool is_refused = false;  // a form that was asked for did not fit all of the nodes
};

// All nodes that compute the same.
struct TunedProblem {
  std::string problem;
  std::vector<NodeName> nodes;
  std::vector<Variation> variations;  // first that of the estimates
  size_t winner = 0;
  std::set<std::string> known_choices;  // keys whose close forms are in the list

  [[nodiscard]] const Variation& chosen() const { return variations.front(); }
  [[nodiscard]] const Variation& won() const { return variations.at(winner); }
};

// Rounds of whole plans: in each, every problem takes its next form that was not timed. Then the
// winners are timed beside what the estimates choose, and keep their places where they win again.
class FormSearch {
 public:
  // At most so many variations of a problem, the estimates' choice too.
  explicit FormSearch(size_t most_variations) : most_variations_(most_variations) {}

  // A plan compiled with next()'s table; the first with an empty one.
  void add(const TimedPlan& plan);
  // What to time next; none where all was.
  [[nodiscard]] std::optional<FormTable> next() const;
  // Of the problems whose fastest form is clearly faster than the estimates' choice.
  [[nodiscard]] FormTable winners() const;
  // A plan compiled with winners(), and one with an empty table that was timed beside it.
  void confirm(const TimedPlan& tuned, const TimedPlan& plain);
  // Nobody wins.
  void drop_winners();

  // In the order of the first plan.
  [[nodiscard]] const std::vector<TunedProblem>& problems() const { return problems_; }

 private:
  TunedProblem& problem_named(const std::string& problem);
  [[nodiscard]] static std::optional<size_t> pending(const TunedProblem& problem);

  size_t most_variations_;
  bool is_begun_ = false;
  std::vector<TunedProblem> problems_;
  std::map<std::string, size_t> index_;  // by the problem
};

}  // namespace rlx::tune
