// SPDX-License-Identifier: Apache-2.0
// Choosing between two ways to lower a graph, step by step.
#include "compiler/lower/share_kernels.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "compiler/support/check.h"

namespace rlx {
namespace {

// The steps that would run one kernel, and the kernels that they run now.
struct Sharers {
  size_t first_step = 0;
  std::set<KernelInstanceId> own;
};

using AllSharers = std::map<KernelInstanceId, Sharers>;  // by the kernel that they would run

AllSharers find_sharers(const Program& program, const Program& worded) {
  AllSharers sharers;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& own = program.steps[i];
    const Step& other = worded.steps[i];
    RLX_CHECK(own.kind == other.kind && own.node == other.node, "a graph lowered twice");
    if (!own.kernel || !other.kernel) continue;
    sharers.try_emplace(*other.kernel, Sharers{.first_step = i, .own = {}})
        .first->second.own.insert(*own.kernel);
  }
  return sharers;
}

// ---- forms ----

// Of the time that the steps are expected to take.
constexpr double kPrice = 0.01;

// The kernels that choices name, and how many choices are on each.
class ChosenForms {
 public:
  explicit ChosenForms(std::span<const SharedChoice> choices) : choices_(choices) {
    for (const SharedChoice& choice : choices) {
      chosen_.push_back(&choice.forms.at(choice.taken));
      ++users_[chosen_.back()->kernel];
    }
  }

  [[nodiscard]] double microseconds() const {
    double sum = 0;
    for (const TimedForm* form : chosen_) sum += form->microseconds;
    return sum;
  }

  // Takes away the kernel that costs least, up to `price`; the cost, or nullopt where none goes.
  std::optional<double> drop_cheapest(double price) {
    const std::string* cheapest = nullptr;
    for (const auto& [kernel, users] : users_) {
      const double cost = cost_without(kernel);
      if (cost > price) continue;
      cheapest = &kernel;
      price = cost;
    }
    if (cheapest == nullptr) return std::nullopt;
    const std::string dropped = *cheapest;
    for (size_t i = 0; i < chosen_.size(); ++i) {
      if (chosen_[i]->kernel == dropped) chosen_[i] = next_best(i, dropped);
    }
    users_.clear();
    for (const TimedForm* form : chosen_) ++users_[form->kernel];
    return price;
  }

  [[nodiscard]] FormTable table() const {
    FormTable table;
    for (size_t i = 0; i < chosen_.size(); ++i) {
      const SharedChoice& choice = choices_[i];
      if (chosen_[i] != &choice.forms.at(choice.taken)) table[choice.key] = chosen_[i]->name;
    }
    return table;
  }

 private:
  // The fastest form of the choice on another kernel that some choice is on.
  [[nodiscard]] const TimedForm* next_best(size_t choice, const std::string& without) const {
    const TimedForm* best = nullptr;
    for (const TimedForm& form : choices_[choice].forms) {
      if (form.kernel == without || !users_.contains(form.kernel)) continue;
      if (best == nullptr || form.microseconds < best->microseconds) best = &form;
    }
    return best;
  }

  [[nodiscard]] double cost_without(const std::string& kernel) const {
    double cost = 0;
    for (size_t i = 0; i < chosen_.size(); ++i) {
      if (chosen_[i]->kernel != kernel) continue;
      const TimedForm* other = next_best(i, kernel);
      if (other == nullptr) return std::numeric_limits<double>::infinity();
      cost += other->microseconds - chosen_[i]->microseconds;
    }
    return cost;
  }

  std::span<const SharedChoice> choices_;
  std::vector<const TimedForm*> chosen_;  // of each choice
  std::map<std::string, size_t> users_;
};

// The choices of nodes of which a step was replaced are those that the other program made.
void take_choices(Program& program, const Program& worded, const std::set<std::string>& nodes) {
  if (program.form_choices.size() != worded.form_choices.size()) return;
  for (size_t i = 0; i < program.form_choices.size(); ++i) {
    const FormChoice& other = worded.form_choices[i];
    if (nodes.contains(other.node)) program.form_choices[i] = other;
  }
}

}  // namespace

FormTable forms_with_few_kernels(std::span<const SharedChoice> choices) {
  ChosenForms chosen(choices);
  double price = kPrice * chosen.microseconds();
  while (const std::optional<double> cost = chosen.drop_cheapest(price)) price -= *cost;
  return chosen.table();
}

void share_kernels(Program& program, const Program& worded) {
  RLX_CHECK(program.steps.size() == worded.steps.size() &&
                program.buffers.size() == worded.buffers.size(),
            "a graph lowered twice");
  const AllSharers all = find_sharers(program, worded);
  std::set<std::string> shared_nodes;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& other = worded.steps[i];
    if (!other.kernel) continue;
    const Sharers& sharers = all.at(*other.kernel);
    if (sharers.own.size() < 2) continue;
    Step& step = program.steps[i];
    shared_nodes.insert(step.node);
    step = other;
    step.kernel = program.intern(worded.kernels.at(index_of(*other.kernel)));
    if (i == sharers.first_step) continue;
    step.reason += (step.reason.empty() ? "" : ", ") + std::string("shares the kernel of step ") +
                   std::to_string(sharers.first_step);
  }
  take_choices(program, worded, shared_nodes);
}

}  // namespace rlx
