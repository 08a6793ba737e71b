// SPDX-License-Identifier: Apache-2.0
// Sums over the nodes of a problem, the list of what to try, and what counts as a win.
#include "tools/tune_forms/form_search.h"

#include <algorithm>
#include <numeric>

namespace rlx::tune {
namespace {

// A form wins that is faster by this share, and by what runs of one plan differ among themselves.
constexpr double kClearGain = 0.03;
// Clocks of devices do not resolve less: microseconds a node.
constexpr double kLeastGain = 0.1;

double quantile(std::vector<double> sorted, double share) {
  std::ranges::sort(sorted);
  return sorted.at(static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5));
}

// What all nodes of one problem did in one plan.
struct ProblemRun {
  std::vector<FormChoice> choices;
  std::set<NodeName> nodes;
  std::vector<double> sums;  // by run
  double estimate = 0;
  std::set<std::string> kernels;
  std::map<std::string, std::string> taken;  // by the choice's key
};

std::map<std::string, ProblemRun> by_problem(const TimedPlan& plan) {
  std::map<std::string, ProblemRun> runs;
  std::map<NodeName, std::string> problem_of;
  for (const FormChoice& choice : plan.choices) {
    ProblemRun& run = runs[choice.problem];
    run.choices.push_back(choice);
    run.taken[choice.key()] = choice.taken;
    run.nodes.insert({choice.entry, choice.node});
    problem_of[{choice.entry, choice.node}] = choice.problem;
  }
  for (const TimedStep& step : plan.steps) {
    const auto problem = problem_of.find({step.entry, step.node});
    if (problem == problem_of.end()) continue;
    ProblemRun& run = runs.at(problem->second);
    run.sums.resize(std::max(run.sums.size(), step.samples.size()), 0);
    for (size_t i = 0; i < step.samples.size(); ++i) run.sums[i] += step.samples[i];
    run.estimate += step.estimate;
    run.kernels.insert(step.kernel);
  }
  return runs;
}

bool took(const ProblemRun& run, const FormTable& forms) {
  return std::ranges::all_of(forms, [&](const auto& asked) {
    const auto is_asked = [&](const FormChoice& choice) { return choice.key() == asked.first; };
    const auto all_took = [&](const FormChoice& choice) {
      return !is_asked(choice) || choice.taken == asked.second;
    };
    return std::ranges::any_of(run.choices, is_asked) && std::ranges::all_of(run.choices, all_took);
  });
}

void time_variation(Variation& variation, const ProblemRun& run) {
  variation.microseconds = quantile(run.sums, 0.5);
  variation.spread = (quantile(run.sums, 0.75) - quantile(run.sums, 0.25)) / 2;
  variation.estimate = run.estimate;
  variation.kernels.clear();
  for (const std::string& kernel : run.kernels)
    variation.kernels += (variation.kernels.empty() ? "" : ", ") + kernel;
  variation.taken.clear();
  for (const auto& [key, form] : run.taken)
    variation.taken += (variation.taken.empty() ? "" : "; ") + form;
  variation.is_timed = true;
}

bool is_clear_win(const Variation& form, const Variation& chosen, size_t nodes) {
  const double gain = chosen.microseconds - form.microseconds;
  return gain > std::max({kClearGain * chosen.microseconds, form.spread + chosen.spread,
                          kLeastGain * static_cast<double>(nodes)});
}

// Of those that win the fastest; 0 where none does.
size_t winner_of(const TunedProblem& problem) {
  size_t best = 0;
  for (size_t v = 1; v < problem.variations.size(); ++v) {
    const Variation& variation = problem.variations[v];
    if (!variation.is_timed || !is_clear_win(variation, problem.chosen(), problem.nodes.size()))
      continue;
    if (best == 0 || variation.microseconds < problem.variations[best].microseconds) best = v;
  }
  return best;
}

}  // namespace

TunedProblem& FormSearch::problem_named(const std::string& problem) {
  const auto [place, is_new] = index_.try_emplace(problem, problems_.size());
  if (is_new) problems_.push_back({.problem = problem, .variations = {Variation{}}});
  return problems_[place->second];
}

std::optional<size_t> FormSearch::pending(const TunedProblem& problem) {
  for (size_t v = 0; v < problem.variations.size(); ++v) {
    if (!problem.variations[v].is_timed && !problem.variations[v].is_refused) return v;
  }
  return std::nullopt;
}

void FormSearch::add(const TimedPlan& plan) {
  is_begun_ = true;
  const std::map<std::string, ProblemRun> runs = by_problem(plan);
  for (const FormChoice& choice : plan.choices) problem_named(choice.problem);
  for (TunedProblem& problem : problems_) {
    const std::optional<size_t> now = pending(problem);
    if (!now) continue;
    const auto found = runs.find(problem.problem);
    const Variation asked = problem.variations[*now];
    if (found == runs.end() || found->second.sums.empty() || !took(found->second, asked.forms)) {
      problem.variations[*now].is_refused = true;
      continue;
    }
    const ProblemRun& run = found->second;
    problem.nodes.assign(run.nodes.begin(), run.nodes.end());
    time_variation(problem.variations[*now], run);
    // Choices that this one met first.
    for (const FormChoice& choice : run.choices) {
      if (!problem.known_choices.insert(choice.key()).second) continue;
      for (const TimedForm& form : choice.close) {
        if (form.name == choice.taken || problem.variations.size() >= most_variations_) continue;
        FormTable forms = asked.forms;
        forms[choice.key()] = form.name;
        problem.variations.push_back({.forms = std::move(forms)});
      }
    }
    problem.winner = winner_of(problem);
  }
}

std::optional<FormTable> FormSearch::next() const {
  FormTable table;
  bool is_any = !is_begun_;
  for (const TunedProblem& problem : problems_) {
    const std::optional<size_t> now = pending(problem);
    is_any = is_any || now.has_value();
    const Variation& variation = problem.variations.at(now.value_or(problem.winner));
    table.insert(variation.forms.begin(), variation.forms.end());
  }
  return is_any ? std::optional(std::move(table)) : std::nullopt;
}

FormTable FormSearch::winners() const {
  FormTable table;
  for (const TunedProblem& problem : problems_)
    table.insert(problem.won().forms.begin(), problem.won().forms.end());
  return table;
}

void FormSearch::confirm(const TimedPlan& tuned, const TimedPlan& plain) {
  const std::map<std::string, ProblemRun> tuned_runs = by_problem(tuned);
  const std::map<std::string, ProblemRun> plain_runs = by_problem(plain);
  for (TunedProblem& problem : problems_) {
    const auto with = tuned_runs.find(problem.problem);
    const auto without = plain_runs.find(problem.problem);
    if (problem.winner == 0 || with == tuned_runs.end() || without == plain_runs.end()) continue;
    Variation& winner = problem.variations[problem.winner];
    time_variation(winner, with->second);
    time_variation(problem.variations.front(), without->second);
    if (!is_clear_win(winner, problem.chosen(), problem.nodes.size())) problem.winner = 0;
  }
}

void FormSearch::drop_winners() {
  for (TunedProblem& problem : problems_) problem.winner = 0;
}

}  // namespace rlx::tune
