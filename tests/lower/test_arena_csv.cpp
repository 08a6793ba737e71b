// SPDX-License-Identifier: Apache-2.0
// Reading of packing problems.
#include "compiler/lower/arena_csv.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

TEST_CASE("arena_csv_upper_is_exclusive_and_columns_may_stand_in_any_order") {
  const auto parsed = parse_arena_csv("id,size,lower,upper\r\nb1,4,0,3\n\nb2,8,3,9");
  REQUIRE(std::holds_alternative<ArenaCsv>(parsed));
  const auto& [items, alignment_bytes] = std::get<ArenaCsv>(parsed);
  CHECK(alignment_bytes == 1);
  REQUIRE(items.size() == 2);
  CHECK(items[0].bytes == 4);
  CHECK(items[0].first == 0);
  CHECK(items[0].last == 2);
  CHECK(items[1].first == 3);
  CHECK(items[1].last == 8);
}

TEST_CASE("arena_csv_knows_both_sets_of_names_and_one_alignment") {
  const auto parsed = parse_arena_csv("buffer,start,end,size,alignment\n0,5,7,3,64\n1,6,9,2,64\n");
  REQUIRE(std::holds_alternative<ArenaCsv>(parsed));
  const auto& [items, alignment_bytes] = std::get<ArenaCsv>(parsed);
  CHECK(alignment_bytes == 64);
  REQUIRE(items.size() == 2);
  CHECK(items[1].first == 6);
  CHECK(items[1].last == 8);
}

TEST_CASE("arena_csv_faults_name_the_line") {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
      {"", "no header line"},
      {"id,lower,upper\n", "line 1: 3 columns"},
      {"id,lower,upper,size,color\n", "line 1: column \"color\""},
      {"id,lower,upper,id\n", "line 1: column \"id\""},
      {"id,lower,start,size\n", "line 1: column \"start\""},
      {"id,lower,upper,alignment\n", "line 1: 4 columns"},
      {"id,lower,upper,size,alignment\na,0,1,8,0\n", "line 2: alignment 0"},
      {"id,lower,upper,size,alignment\na,0,1,8,4\na,0,1,8,8\n", "line 3: alignment 8"},
      {"id,lower,upper,size\na,0,1\n", "line 2: 3 cells, wanted 4"},
      {"id,lower,upper,size\na,0,x,1\n", "line 2: \"x\" is no number"},
      {"id,lower,upper,size\na,0,,1\n", "line 2: \"\" is no number"},
      {"id,lower,upper,size\na,0,-1,1\n", "is no number"},
      {"id,lower,upper,size\na,3,3,1\n", "line 2: live from 3 to 3"},
      {"id,lower,upper,size\na,0,4294967296,1\n", "wanted lower < upper"},
      {"id,lower,upper,size\na,0,1,281474976710656\n", "wanted less than 2^48"},
  };
  for (const Case& c : cases) {
    INFO(c.text);
    const auto parsed = parse_arena_csv(c.text);
    REQUIRE(std::holds_alternative<std::string>(parsed));
    CHECK(std::get<std::string>(parsed).find(c.message) != std::string::npos);
  }
}

}  // namespace
}  // namespace rlx::test
