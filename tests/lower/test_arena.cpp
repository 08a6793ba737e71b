// SPDX-License-Identifier: Apache-2.0
// Laws of the arena packers.
#include <algorithm>
#include <random>

#include "compiler/lower/arena.h"
#include "compiler/lower/arena_problem.h"
#include "compiler/support/check.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

bool live_together(const ArenaItem& a, const ArenaItem& b) {
  return a.first <= b.last && b.first <= a.last;
}

// Whether no two items live together share a byte, and all lie below the height, aligned.
bool sound(const std::vector<ArenaItem>& items, const ArenaLayout& layout, uint64_t alignment) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (layout.offsets[i] % alignment != 0) return false;
    if (layout.offsets[i] + items[i].bytes > layout.height_bytes) return false;
    for (size_t j = 0; j < i; ++j) {
      if (!live_together(items[i], items[j])) continue;
      if (layout.offsets[i] < layout.offsets[j] + items[j].bytes &&
          layout.offsets[j] < layout.offsets[i] + items[i].bytes) {
        return false;
      }
    }
  }
  return true;
}

std::vector<ArenaItem> random_items(std::mt19937_64& random, size_t count, uint32_t waves,
                                    uint64_t largest) {
  std::vector<ArenaItem> items;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t first = static_cast<uint32_t>(random() % waves);
    const uint32_t length = static_cast<uint32_t>(random() % (random() % 8 == 0 ? waves : 4));
    items.push_back({.bytes = random() % largest, .first = first, .last = first + length});
  }
  return items;
}

TEST_CASE("no_items_need_no_arena") {
  const ArenaLayout layout = pack({}, 256);
  CHECK(layout.height_bytes == 0);
  CHECK(layout.lower_bound_bytes == 0);
  CHECK(layout.offsets.empty());
}

TEST_CASE("items_of_no_bytes_take_no_room") {
  const std::vector<ArenaItem> items{{.bytes = 0, .first = 0, .last = 9},
                                     {.bytes = 1, .first = 0, .last = 0}};
  const ArenaLayout layout = pack(items, 256);
  CHECK(layout.height_bytes == 256);
  CHECK(layout.offsets == std::vector<uint64_t>{0, 0});
}

TEST_CASE("an_item_that_dies_before_it_is_born_is_our_mistake") {
  const std::vector<ArenaItem> items{{.bytes = 1, .first = 2, .last = 1}};
  CHECK_THROWS_AS(pack(items, 256), InternalError);
}

TEST_CASE("random_layouts_are_sound_for_every_packer") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 400; ++round) {
    const std::vector<ArenaItem> items = random_items(random, random() % 40, 20, 5000);
    for (const uint64_t local : {0, 200'000}) {
      for (const uint64_t exact : {0, 200'000}) {
        const ArenaLayout layout =
            pack(items, 256, {.local_search_budget = local, .exact_search_budget = exact});
        REQUIRE(sound(items, layout, 256));
        REQUIRE(layout.height_bytes >= layout.lower_bound_bytes);
        REQUIRE(layout.height_bytes <= layout.total_bytes);
      }
    }
  }
}

TEST_CASE("the_sweep_is_sound_and_takes_what_died") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    const std::vector<ArenaItem> items = random_items(random, random() % 60, 20, 5000);
    const arena::Problem problem = arena::make_problem(items, 1);
    const arena::Placement placed = arena::place_by_time(problem);
    REQUIRE(placed.height >= problem.lower_bound);
    for (size_t i = 0; i < problem.items.size(); ++i) {
      const arena::Item& a = problem.items[i];
      REQUIRE(placed.offsets[i] + a.size <= placed.height);
      for (size_t k = 0; k < i; ++k) {
        const arena::Item& b = problem.items[k];
        const bool in_time = a.first_section <= b.last_section && b.first_section <= a.last_section;
        const bool in_place = placed.offsets[i] < placed.offsets[k] + b.size &&
                              placed.offsets[k] < placed.offsets[i] + a.size;
        REQUIRE_FALSE((in_time && in_place));
      }
    }
  }
  // One after the other: all in one place.
  std::vector<ArenaItem> chain;
  for (uint32_t i = 0; i < 100; ++i) chain.push_back({.bytes = 7, .first = i, .last = i});
  CHECK(arena::place_by_time(arena::make_problem(chain, 1)).height == 7);
}

TEST_CASE("problems_too_large_for_the_other_packers_are_swept") {
  // 30,000 items live at once, which die from the last to the first.
  std::vector<ArenaItem> items;
  for (uint32_t i = 0; i < 30'000; ++i)
    items.push_back({.bytes = 1 + i % 7, .first = i, .last = 60'000 - i});
  const ArenaLayout layout = pack(items, 1);
  CHECK(layout.packer == "sweep");
  CHECK(layout.height_bytes == layout.lower_bound_bytes);
}

// Least height by trying every order of placement.
uint64_t least_height(const arena::Problem& problem) {
  std::vector<uint32_t> order(problem.items.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  uint64_t least = ~uint64_t{0};
  do {
    const auto placed = arena::place_in_order(problem, order, arena::Fit::Lowest, ~uint64_t{0});
    least = std::min(least, placed->height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST_CASE("exact_search_finds_the_least_height") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaItem> items;
    for (int i = 0; i < 8; ++i) {
      const uint32_t first = static_cast<uint32_t>(random() % 6);
      const uint32_t last = first + static_cast<uint32_t>(random() % 3);
      items.push_back({.bytes = 1 + random() % 3, .first = first, .last = last});
    }
    const arena::Problem problem = arena::make_problem(items, 1);
    const uint64_t least = least_height(problem);
    const ArenaLayout layout =
        pack(items, 1, {.local_search_budget = 0, .exact_search_budget = 10'000'000});
    REQUIRE(sound(items, layout, 1));
    REQUIRE(layout.height_bytes == least);
  }
}

TEST_CASE("exact_search_stops_above_a_bound_that_cannot_be_reached") {
  // Every wave is full, and yet no layout has the height of the fullest.
  const std::vector<ArenaItem> items{
      {.bytes = 3, .first = 0, .last = 0}, {.bytes = 2, .first = 0, .last = 2},
      {.bytes = 1, .first = 1, .last = 3}, {.bytes = 1, .first = 1, .last = 5},
      {.bytes = 1, .first = 1, .last = 4}, {.bytes = 1, .first = 3, .last = 4},
      {.bytes = 1, .first = 3, .last = 3}, {.bytes = 2, .first = 4, .last = 5},
      {.bytes = 2, .first = 5, .last = 5}};
  CHECK(least_height(arena::make_problem(items, 1)) == 6);
  const ArenaLayout layout = pack(items, 1);
  CHECK(sound(items, layout, 1));
  CHECK(layout.lower_bound_bytes == 5);
  CHECK(layout.height_bytes == 6);
}

// A perfect packing: one block of `side` bytes and waves, cut again and again.
std::vector<ArenaItem> cut_block(std::mt19937_64& random, size_t count, uint32_t side) {
  std::vector<ArenaItem> items{{.bytes = side, .first = 0, .last = side - 1}};
  while (items.size() < count) {
    ArenaItem& cut = items[random() % items.size()];
    ArenaItem other = cut;
    if (random() % 2 == 0 && cut.bytes > 1) {
      other.bytes = 1 + random() % (cut.bytes - 1);
      cut.bytes -= other.bytes;
    } else if (cut.last > cut.first) {
      cut.last = cut.first + static_cast<uint32_t>(random() % (cut.last - cut.first));
      other.first = cut.last + 1;
    } else {
      continue;
    }
    items.push_back(other);
  }
  return items;
}

TEST_CASE("large_perfect_packings_are_found") {
  std::mt19937_64 random(17);
  int missed = 0;
  for (int round = 0; round < 8; ++round) {
    const std::vector<ArenaItem> items = cut_block(random, 150, 1024);
    const ArenaLayout layout = pack(items, 1);
    REQUIRE(sound(items, layout, 1));
    missed += layout.height_bytes > 1024;
  }
  CHECK(missed <= 1);
}

TEST_CASE("search_reaches_the_bound_where_greedy_does_not") {
  // Perfect packings are hard for greedy packers.
  std::mt19937_64 random(3);
  int greedy_missed = 0;
  int missed = 0;
  for (int round = 0; round < 40; ++round) {
    const std::vector<ArenaItem> items = cut_block(random, 40, 64);
    const ArenaLayout greedy = pack(items, 1, {.local_search_budget = 0, .exact_search_budget = 0});
    const ArenaLayout layout = pack(items, 1);
    REQUIRE(sound(items, layout, 1));
    greedy_missed += greedy.height_bytes > 64;
    missed += layout.height_bytes > 64;
  }
  CHECK(greedy_missed > 10);
  CHECK(missed == 0);
}

TEST_CASE("items_of_one_size_reach_the_bound_outward_from_the_fullest_wave") {
  std::mt19937_64 random(13);
  for (int round = 0; round < 100; ++round) {
    std::vector<ArenaItem> items = random_items(random, 1 + random() % 80, 30, 2);
    for (ArenaItem& item : items) item.bytes = 96;
    const arena::Problem problem = arena::make_problem(items, 1);
    const auto placed = arena::place_in_order(problem, arena::order_outward(problem),
                                              arena::Fit::Lowest, ~uint64_t{0});
    REQUIRE(placed->height == problem.lower_bound);
  }
}

TEST_CASE("what_is_set_aside_fits_behind_any_placement_of_the_core") {
  std::mt19937_64 random(19);
  size_t aside = 0;
  for (int round = 0; round < 300; ++round) {
    const uint64_t unit = 1 + random() % 8;
    std::vector<ArenaItem> items = random_items(random, random() % 60, 20, 40);
    for (ArenaItem& item : items) item.bytes *= unit;
    arena::Problem problem = arena::make_problem(items, 1);
    problem.wanted = problem.lower_bound + random() % 3 * unit;
    const arena::Core core = arena::make_core(problem);
    REQUIRE(core.items.size() + core.aside.size() == problem.items.size());
    aside += core.aside.size();
    std::vector<uint32_t> order(core.items.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    const auto placed =
        arena::place_in_order(core.problem, order, arena::Fit::Lowest, ~uint64_t{0});
    const arena::Placement whole = arena::place_aside(problem, core, *placed);
    REQUIRE(whole.height <= std::max(placed->height, problem.wanted));
    std::vector<ArenaItem> sized;
    for (const arena::Item& item : problem.items)
      sized.push_back({.bytes = item.size, .first = item.first_section, .last = item.last_section});
    REQUIRE(sound(sized, {.offsets = whole.offsets, .height_bytes = whole.height}, 1));
  }
  CHECK(aside > 1000);
}

TEST_CASE("what_fits_next_to_a_gap_that_may_be_cut_is_not_set_aside") {
  // Two items of 3 leave 4 of 10 free, which can be gaps of 1, 1 and 2, or 2 and 2.
  const auto wanting_ten = [](uint64_t third) {
    const std::vector<ArenaItem> items{{.bytes = 3, .first = 0, .last = 1},
                                       {.bytes = 3, .first = 0, .last = 1},
                                       {.bytes = third, .first = 0, .last = 0}};
    arena::Problem problem = arena::make_problem(items, 1);
    problem.wanted = 10;
    return arena::make_core(problem);
  };
  CHECK(wanting_ten(2).aside.size() == 3);
  CHECK(wanting_ten(3).aside.size() == 3);  // of one size: 10 is three of them, and no gap is less
  CHECK(wanting_ten(4).items.size() == 3);
}

TEST_CASE("many_small_items_elsewhere_do_not_hinder_the_search") {
  std::mt19937_64 random(23);
  int greedy_missed = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<ArenaItem> items = cut_block(random, 40, 64);
    for (ArenaItem& item : items) item.bytes *= 16;
    for (uint32_t i = 0; i < 3000; ++i)
      items.push_back({.bytes = 1 + random() % 20, .first = 64 + i / 2, .last = 66 + i / 2});
    const ArenaLayout greedy = pack(items, 1, {.local_search_budget = 0, .exact_search_budget = 0});
    const ArenaLayout layout =
        pack(items, 1, {.local_search_budget = 8'000'000, .exact_search_budget = 8'000'000});
    REQUIRE(sound(items, layout, 1));
    greedy_missed += greedy.height_bytes > greedy.lower_bound_bytes;
    CHECK(layout.height_bytes == 1024);
  }
  CHECK(greedy_missed > 2);
}

TEST_CASE("packing_stops_at_what_is_enough") {
  // The same problem as above: 5 cannot be reached, and a search for less than 6 is in vain.
  const std::vector<ArenaItem> items{
      {.bytes = 3, .first = 0, .last = 0}, {.bytes = 2, .first = 0, .last = 2},
      {.bytes = 1, .first = 1, .last = 3}, {.bytes = 1, .first = 1, .last = 5},
      {.bytes = 1, .first = 1, .last = 4}, {.bytes = 1, .first = 3, .last = 4},
      {.bytes = 1, .first = 3, .last = 3}, {.bytes = 2, .first = 4, .last = 5},
      {.bytes = 2, .first = 5, .last = 5}};
  const ArenaLayout all = pack(items, 1, {.enough_bytes = 100});
  CHECK(all.packer == "size-first-fit");
  CHECK(sound(items, all, 1));
  const ArenaLayout six = pack(items, 1, {.enough_bytes = 6});
  CHECK(sound(items, six, 1));
  CHECK(six.height_bytes == 6);
}

TEST_CASE("packing_is_the_same_each_time") {
  std::mt19937_64 random(5);
  const std::vector<ArenaItem> items = random_items(random, 120, 40, 100'000);
  const ArenaLayout one = pack(items, 256);
  const ArenaLayout two = pack(items, 256);
  CHECK(one.offsets == two.offsets);
  CHECK(one.packer == two.packer);
}

}  // namespace
}  // namespace rlx::test
