// SPDX-License-Identifier: Apache-2.0
// Alternates: which rows serve which sizes, and what becomes of their steps.
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/lowering/alternates.h"
#include "compiler/ops/product/product_offers.h"
#include "compiler/ops/vision/conv_lower.h"
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

Dim size_between(int64_t least, int64_t most, int64_t multiple_of = 1) {
  return Dim::of(
      {.index = 0, .name = "seq", .minimum = least, .maximum = most, .multiple_of = multiple_of});
}

using Stretches = std::vector<std::pair<size_t, size_t>>;

Stretches chosen(const std::vector<TimesFrom>& times, size_t plain) {
  std::vector<double> least(times.front().size(), kNever);
  for (const TimesFrom& row : times) {
    for (const std::vector<double>& from : row) {
      for (size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], from[i]);
    }
  }
  Stretches found;
  for (const Stretch& stretch : choose_alternates(times, least, plain))
    found.emplace_back(stretch.first_size, stretch.form);
  return found;
}

// Of rows whose kernels do not depend on where they begin.
Stretches chosen(const std::vector<std::vector<double>>& times, size_t plain = 0) {
  std::vector<TimesFrom> all;
  for (const std::vector<double>& row : times) all.push_back(TimesFrom(row.size(), row));
  return chosen(all, plain);
}

}  // namespace

TEST_CASE("rows are compared where forms are, and at the least size") {
  CHECK(alternate_sizes(size_between(1, 20)) == std::vector<int64_t>{20, 16, 12, 8, 1});
  CHECK(alternate_sizes(size_between(16, 64)) == std::vector<int64_t>{64, 48, 32, 24, 16});
  CHECK(alternate_sizes(size_between(40, 64)) == std::vector<int64_t>{64, 48, 40});
  CHECK(alternate_sizes(size_between(0, 16)) == std::vector<int64_t>{16, 12, 8, 1});
  CHECK(alternate_sizes(size_between(2, 5)) == std::vector<int64_t>{5, 2});
  CHECK(alternate_sizes(64 - size_between(1, 20)) == std::vector<int64_t>{44});
  CHECK(alternate_sizes(size_between(16, 512) * 8).back() == 128);
}

TEST_CASE("a row serves the sizes at which it is clearly faster") {
  CHECK(chosen({{10, 10, 10}, {12, 9, 5}}) == Stretches{{0, 0}, {1, 1}});
  CHECK(chosen({{10, 10, 10}, {12, 9.9, 9.8}}) == Stretches{{0, 0}});
  CHECK(chosen({{10, 10, 10, 10}, {5, 15, 15, 15}, {20, 20, 7, 5}}) ==
        Stretches{{0, 1}, {1, 0}, {2, 2}});
}

TEST_CASE("eight alternates are the most, where they gain most") {
  std::vector<std::vector<double>> times(10, std::vector<double>(10, 20));
  for (size_t i = 0; i < 10; ++i) times[i][i] = 10;
  times[0] = {10, 11, 13, 15, 20, 20, 20, 20, 20, 20};
  CHECK(chosen(times).size() == 8);
}

TEST_CASE("a row that does not take a size is not chosen for it") {
  CHECK(chosen({{10, 10, 10}, {kNever, 1, 1}}) == Stretches{{0, 0}, {1, 1}});
  CHECK(chosen({{10, kNever, kNever}, {12, 12, 12}}) == Stretches{{0, 0}, {1, 1}});
  CHECK(chosen({{10, 10, 10}, {kNever, kNever, 1}}) == Stretches{{0, 0}, {2, 1}});
}

TEST_CASE("one row is its own alternate where it is lowered otherwise for smaller sizes") {
  // One pass from the bound or the first size below it on, splits from the third on.
  const TimesFrom row = {
      {10, 10, 10, 10}, {kNever, 10, 10, 10}, {kNever, kNever, 5, 4}, {kNever, kNever, kNever, 4}};
  CHECK(chosen(std::vector<TimesFrom>{row}, 0) == Stretches{{0, 0}, {2, 0}});
}

TEST_CASE("an alternate within another one runs where both do") {
  Program program;
  program.steps.resize(3);
  program.steps[1].forms = {{.size = {}, .most = 8, .grid = {}},
                            {.size = {}, .most = 48, .grid = {}},
                            {.size = {}, .most = 96, .grid = {}}};
  const Dim size = size_between(1, 100);
  serve(program, 1, {.size = size, .above = 32}, {});
  serve(program, 2, {.size = size, .above = 64, .most = 80}, {});
  serve(program, 0, {.size = size, .above = 50}, {});
  CHECK(program.steps[0].served->above == 50);
  CHECK(program.steps[1].served->above == 50);
  CHECK(program.steps[1].served->at_bound());
  CHECK(program.steps[1].forms.size() == 1);
  CHECK(program.steps[2].served->above == 64);
  CHECK(program.steps[2].served->most == 80);
}

TEST_CASE("a norm is a step of its own but for one line, which a kernel reads with it") {
  test::OneNode node{
      .op = "fused_norm_matmul",
      .inputs = {TensorType{DType::f16, {512, 256}}, TensorType{DType::f16, {384, 256}},
                 std::nullopt, TensorType{DType::f16, {256}}},
      .attributes = {{"norm", std::string("rms")}},
      .target = "cuda"};
  node.inputs[0]->shape[0] = size_between(1, 512);
  const Program program = test::lower(node);
  REQUIRE(program.steps.size() > 2);
  const auto kernel = [&program](const Step& step) {
    return step.kernel ? program.kernels.at(index_of(*step.kernel)).kernel : KernelId::matmul;
  };
  CHECK(kernel(program.steps.front()) == KernelId::norm);
  CHECK(program.steps.front().served->above == 1);
  CHECK(kernel(program.steps.back()) == KernelId::matvec_stream);
  CHECK(program.steps.back().served->most == 1);
  for (size_t i = 1; i + 1 < program.steps.size(); ++i) CHECK(program.steps[i].served->above >= 1);
}

TEST_CASE("the sizes of stretches") {
  const Dim size = size_between(1, 100);
  const std::vector<int64_t> sizes = alternate_sizes(size);
  const std::vector<Stretch> stretches = {{0, 1}, {5, 0}, {9, 2}};
  const ServedSizes first = served_by(size, sizes, stretches, 0);
  CHECK(first.above == 32);
  CHECK(first.at_bound());
  const ServedSizes second = served_by(size, sizes, stretches, 1);
  CHECK(second.above == 8);
  CHECK(second.most == 32);
  const ServedSizes last = served_by(size, sizes, stretches, 2);
  CHECK(!last.above);
  CHECK(last.most == 8);
}

TEST_CASE("a size within a stretch is no larger, and no smaller where it is of one symbol") {
  const Dim lines = size_between(16, 512) * 8;
  const Dim large = within({.size = lines, .above = 1024});
  CHECK(large.bound() == 4096);
  CHECK(large.range().least == 1032);
  CHECK(to_string(large) == to_string(lines));
  const Dim middle = within({.size = lines, .above = 256, .most = 1024});
  CHECK(middle.bound() == 1024);
  CHECK(middle.range().least == 264);
  CHECK(within({.size = size_between(1, 64, 1), .most = 1}) == 1);
  const Dim batch = Dim::of({.index = 1, .name = "batch", .minimum = 1, .maximum = 8});
  CHECK(within({.size = batch * size_between(16, 512), .above = 1024}).range().least == 16);
}

TEST_CASE("the sizes of a problem where one of them is at most a number") {
  const Dim seq = size_between(16, 512);
  CHECK(SizesAt(seq * 8, 1024).value(seq * 8) == 1024);
  CHECK(SizesAt(seq * 8, 1027).value(seq + 1) == 129);
  CHECK(SizesAt(seq, 9).value(seq) == 16);
  CHECK(SizesAt(seq, 100000).value(seq) == 512);
  CHECK(SizesAt(seq, 100).value(7) == 7);
  const Dim even = size_between(32, 1024, 32);
  CHECK(SizesAt(even, 100).value(even) == 96);
  const Dim batch = Dim::of({.index = 1, .name = "batch", .minimum = 1, .maximum = 8});
  CHECK(SizesAt(seq, 128).value(batch * seq) == batch * 128);
  CHECK(SizesAt(seq, 128).value(batch) == batch);
  // Nothing of a plan's sizes is left of the symbol: they are proven at its maximum too.
  for_each_symbol(SizesAt(seq, 128).value(seq + batch),
                  [](const FreeSymbol& symbol) { CHECK(symbol.index == 1); });
  const int64_t lines = SizesAt(batch * seq, 1000).value(batch * seq).bound();
  CHECK(lines <= 1000);
  CHECK(lines > 800);
}

TEST_CASE("a least size that several values of a symbol make is none of a fixed problem") {
  const Dim seq = size_between(1, 64);
  CHECK(is_least_once(seq));
  CHECK(is_least_once(seq * 8 + 3));
  CHECK(!is_least_once(ceil_div(seq, 2)));
  CHECK(!is_least_once(max(seq, 8)));
  const Dim batch = Dim::of({.index = 1, .name = "batch", .minimum = 1, .maximum = 8});
  CHECK(is_least_once(batch * seq));
}

TEST_CASE("a product at a number of lines is as if they were fixed") {
  const Dim seq = size_between(16, 512);
  const FusedProduct free = product_of_types({.m = seq * 8, .n = 64, .k = 32});
  CHECK(sizing(free) == seq * 8);
  const FusedProduct fixed = at_size(free, 1024);
  CHECK(!has_free_sizes(fixed));
  CHECK(fixed.product.m == 1024);
  CHECK(fixed.product.a.ref.shape() == Shape{1024, 32});
  CHECK(fixed.product.y.shape() == Shape{1024, 64});
  CHECK(!sizing(fixed));
  CHECK(!sizing(product_of_types({.m = seq, .n = seq, .k = 32})));
  const FusedProduct part = for_sizes(free, {.size = seq * 8, .above = {}, .most = 256});
  CHECK(part.product.m.bound() == 256);
  CHECK(part.product.y.shape()[0] == seq * 8);
}

TEST_CASE("a convolution of a number of pixels is as if its sizes were fixed") {
  const Dim batch = size_between(1, 32);
  const TensorType image = {.dtype = DType::f16, .shape = {batch, 64, 8, 8}};
  const TensorType filters = {.dtype = DType::f16, .shape = {64, 64, 3, 3}};
  Convolution conv{.images = batch,
                   .group_in = 64,
                   .group_out = 64,
                   .x = dense_ref({}, image),
                   .w = dense_ref({}, filters),
                   .y = dense_ref({}, image)};
  conv.window.rank = 2;
  conv.window.in = conv.window.out = {1, 8, 8};
  conv.window.kernel = {1, 3, 3};
  const ConvProblem free{.conv = conv};
  CHECK(sizing(free) == batch * 64);
  const ConvProblem fixed = at_size(free, 300);
  CHECK(!has_free_sizes(fixed));
  CHECK(fixed.conv.images == 4);
  CHECK(fixed.conv.x.shape() == Shape{4, 64, 8, 8});
  CHECK(!sizing(fixed));
  const ConvProblem part = for_sizes(free, {.size = batch * 64, .above = {}, .most = 300});
  CHECK(part.conv.images == batch);
  REQUIRE(part.part);
  CHECK(part.part->pixels.bound() == 300);
  CHECK(part.for_tiles().images == 4);
}

TEST_CASE("steps that serve some sizes keep the forms for these") {
  Program program;
  program.steps.resize(3);
  for (Step& step : program.steps) {
    step.in_place_states = {BufferId{3}};
    step.reason = "tiles";
    step.forms = {{.most = 8}, {.most = 16}, {.most = 32}};
  }
  const std::set<size_t> for_all = {2};
  serve(program, 1, {.size = size_between(1, 64), .above = 16, .most = 48}, for_all);
  for (const size_t untouched : {0, 2}) {
    CHECK(program.steps[untouched].runs_at_bound());
    CHECK(program.steps[untouched].forms.size() == 3);
  }
  CHECK(!program.steps[1].runs_at_bound());
  CHECK(program.steps[1].in_place_states.empty());
  REQUIRE(program.steps[1].forms.size() == 1);
  CHECK(program.steps[1].forms[0].most == 32);
  CHECK(program.steps[1].reason == "where seq is above 16 and at most 48: tiles");
}

}  // namespace rlx
