// SPDX-License-Identifier: Apache-2.0
// Laws of the search for the fastest forms: what is tried, what counts as a win.
#include "tests/support/catch.h"
#include "tools/tune_forms/form_search.h"

namespace rlx::test {
namespace {

using tune::FormSearch;
using tune::TimedPlan;

// The times of a device on which each form of a chooser takes what the table says.
class TimedDevice {
 public:
  explicit TimedDevice(std::map<std::string, double> times) : times_(std::move(times)) {}

  // A node "a" of problem "p" whose one choice is among the forms, in the order of their names.
  [[nodiscard]] TimedPlan run(const FormTable& table, double noise = 0) const {
    FormChoice choice{.entry = "main", .node = "a", .problem = "p", .chooser = "tile"};
    for (const auto& [name, time] : times_) choice.close.push_back({name, 10});
    const auto tuned = table.find(choice.key());
    choice.taken = tuned == table.end() ? choice.close.front().name : tuned->second;
    const double time = times_.at(choice.taken);
    return {.choices = {choice},
            .steps = {{.entry = "main",
                       .node = "a",
                       .kernel = "matmul",
                       .estimate = 10,
                       .samples = {time - noise, time - noise, time, time + noise, time + noise}}}};
  }

  // Every round, as the tuner does them. The plans that were timed.
  size_t search(FormSearch& search, double noise = 0) const {
    size_t rounds = 0;
    while (const auto table = search.next()) {
      search.add(run(*table, noise));
      ++rounds;
    }
    return rounds;
  }

 private:
  std::map<std::string, double> times_;
};

const FormTable kTakesB = {{"tile: p", "b"}};

}  // namespace

TEST_CASE("every_close_form_is_timed_once_and_the_fastest_wins") {
  FormSearch search(8);
  CHECK(TimedDevice({{"a", 10}, {"b", 7}, {"c", 8}}).search(search) == 3);
  CHECK(search.winners() == kTakesB);
}

TEST_CASE("a_plan_without_choices_is_timed_once") {
  FormSearch search(8);
  REQUIRE(search.next() == FormTable());
  search.add({});
  CHECK(search.next() == std::nullopt);
}

TEST_CASE("a_form_that_is_hardly_faster_does_not_win") {
  FormSearch search(8);
  TimedDevice({{"a", 10}, {"b", 9.8}}).search(search);
  CHECK(search.winners().empty());
}

TEST_CASE("a_form_does_not_win_by_less_than_runs_differ") {
  FormSearch quiet(8);
  TimedDevice({{"a", 10}, {"b", 9}}).search(quiet);
  CHECK(quiet.winners() == kTakesB);
  FormSearch noisy(8);
  TimedDevice({{"a", 10}, {"b", 9}}).search(noisy, 3);
  CHECK(noisy.winners().empty());
}

TEST_CASE("no_more_forms_are_timed_than_asked_for") {
  FormSearch search(2);
  CHECK(TimedDevice({{"a", 10}, {"b", 9}, {"c", 1}}).search(search) == 2);
  CHECK(search.winners() == kTakesB);
}

TEST_CASE("a_winner_that_does_not_win_again_is_dropped") {
  const TimedDevice first({{"a", 10}, {"b", 7}});
  FormSearch search(8);
  first.search(search);
  const TimedDevice second({{"a", 10}, {"b", 11}});
  search.confirm(second.run(search.winners()), second.run({}));
  CHECK(search.winners().empty());
}

TEST_CASE("a_form_that_was_not_taken_has_no_time") {
  const TimedDevice device({{"a", 10}, {"b", 1}});
  FormSearch search(8);
  search.add(device.run(search.next().value()));
  REQUIRE(search.next() == kTakesB);
  search.add(device.run({}));
  CHECK(search.next() == std::nullopt);
  CHECK(search.winners().empty());
}

TEST_CASE("choices_that_a_form_brings_along_are_tried_with_it") {
  // Kernel "k" has a choice of tiles that kernel "j" has not.
  const auto run = [](const FormTable& table) {
    const auto taken = [&](const FormChoice& choice) {
      const auto named = table.find(choice.key());
      return named == table.end() ? choice.close.front().name : named->second;
    };
    FormChoice kernel{.entry = "main", .node = "a", .problem = "p", .chooser = "kernel"};
    kernel.close = {{"j", 10}, {"k", 11}};
    kernel.taken = taken(kernel);
    TimedPlan plan{.choices = {kernel}, .steps = {{.entry = "main", .node = "a", .samples = {10}}}};
    if (kernel.taken == "j") return plan;
    FormChoice tile{.entry = "main", .node = "a", .problem = "p", .chooser = "tile"};
    tile.close = {{"wide", 11}, {"narrow", 12}};
    tile.taken = taken(tile);
    plan.choices.push_back(tile);
    plan.steps[0].samples = {tile.taken == "narrow" ? 5.0 : 9.9};
    return plan;
  };
  FormSearch search(8);
  while (const auto table = search.next()) search.add(run(*table));
  CHECK(search.winners() == FormTable{{"kernel: p", "k"}, {"tile: p", "narrow"}});
}

}  // namespace rlx::test
