// SPDX-License-Identifier: Apache-2.0
// Sizes that depend on symbols: arithmetic, what is known of them, and who hears of numbers.
#include "compiler/support/dim.h"
#include "compiler/support/required_size.h"
#include "compiler/support/sampled_sizes.h"
#include "compiler/support/shape.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

Dim free_dim(const char* name, int64_t minimum, int64_t maximum, int64_t multiple_of = 1) {
  return Dim::of({.index = 0,
                  .name = name,
                  .minimum = minimum,
                  .maximum = maximum,
                  .multiple_of = multiple_of});
}

}  // namespace

TEST_CASE("fixed sizes are numbers", "[dim]") {
  const Dim three = 3;
  CHECK(!three.is_free());
  CHECK(three * 4 + 1 == 13);
  CHECK(ceil_div(Dim(13), 4) == 4);
  CHECK(round_up(Dim(13), 4) == 16);
  CHECK(static_cast<int64_t>(three) == 3);
  CHECK(numbers_of({1, 2}) == std::vector<int64_t>{1, 2});
}

TEST_CASE("free sizes keep expressions, values at the bound and ranges", "[dim]") {
  const Dim seq = free_dim("seq", 1, 512);
  const Dim padded = ceil_div(seq, 64) * 64;
  CHECK(padded.is_free());
  CHECK(padded.bound() == 512);
  CHECK(padded.range().least == 64);
  CHECK(padded.range().most == 512);
  CHECK(padded.divides_by(64));
  CHECK(!padded.divides_by(128));
  CHECK(to_string(padded) == "((seq + 63) / 64) * 64");
  CHECK(to_string(seq * 12 + 1) == "(seq * 12) + 1");
}

TEST_CASE("what becomes a number whatever the symbols are is fixed", "[dim]") {
  const Dim seq = free_dim("seq", 1, 512);
  CHECK(!(seq - seq).is_free());
  CHECK(!(seq * 0).is_free());
  CHECK(seq * 768 / 768 == seq);
  CHECK(seq * 768 / 64 == seq * 12);
  CHECK(seq * 768 % 64 == 0);
  CHECK(max(seq, 1) == seq);
  CHECK(min(seq, 512) == seq);
  CHECK(min(seq, 100).is_free());
}

TEST_CASE("equal sizes are equal however they were computed", "[dim]") {
  const Dim batch = free_dim("batch", 1, 32);
  const Dim seq = free_dim("seq", 1, 512);
  CHECK(batch * (seq + 1) == seq * batch + batch);
  CHECK(batch * seq != seq);
  CHECK(seq != 512);  // only at the bound
  CHECK(seq != 1);    // only at the minimum
  CHECK(seq > 100);   // at the bound, where kernels are chosen
  CHECK(1 + (seq - 1) / 4 == ceil_div(seq, 4));
  CHECK((batch * 8 + seq) / 4 == batch * 2 + seq / 4);
  CHECK((seq + 2) / 4 != (seq + 3) / 4);
  CHECK(seq / 4 + (seq + 2) / 4 == seq / 2);
  CHECK(seq / 4 + (seq + 1) / 4 != seq / 2);
  CHECK((seq / 4 - (seq + 3) / 4).range().least == -1);
  CHECK(min(seq, seq + 1) == seq);
  CHECK(max(seq, seq + 1) == seq + 1);
}

TEST_CASE("a size with a requirement is that size and refuses where it does not hold", "[dim]") {
  const Dim seq = free_dim("seq", 1, 512);
  CHECK(!required_at_least(4, seq, 1).is_free());  // always holds
  const Dim four = required_at_least(4, seq, 2);
  CHECK(four == 4);
  CHECK(four * seq == seq * 4);
  CHECK(static_cast<int64_t>(four) == 4);  // nobody is told
  CHECK(four.divides_by(4));
  CHECK((four + 4) / 4 == 2);
  CHECK(to_string(four) == "4 + (min((max((seq - 2), 0)), 0))");
  CHECK(required_at_least(seq, seq, 2) == seq);
  // What counts as 1, or as the other side, is not left out.
  const Dim one = required_at_least(1, seq, 2);
  CHECK(has_requirement(one * 2));
  CHECK(has_requirement(seq * one));
  CHECK(has_requirement(four - 4));
  CHECK(has_requirement(four / Dim(4)));
  CHECK(has_requirement(max(four, 4)));
  CHECK(has_requirement(min(5, four)));
  CHECK(!has_requirement(seq * 4 - seq));
  CHECK(required_at_least(4, free_dim("few", 0, 1), 1).is_free());  // that is all it can be
}

TEST_CASE("sizes of windows one behind the other keep few steps and their factors", "[dim]") {
  const Dim height = free_dim("height", 32, 1024, 32);
  const Dim steps = (height - 1) / 2;
  const Dim halved = steps + 1;
  CHECK(to_string(halved) == "height / 2");
  CHECK(halved.divides_by(16));
  CHECK(to_string((halved - 1) + 1) == "height / 2");
  CHECK(to_string((halved + 2 - 3) / 2 + 1) == "height / 4");
  CHECK((height / 32) * 2 == height / 16);
  const Dim batch = free_dim("batch", 1, 8);
  CHECK(batch * (height / 4) * 2 == batch * (height / 2));
  CHECK(batch * (height / 32) * 16 != batch * (height / 4));
  CHECK((height / 16) * 32 == height * 2);
  CHECK((height / 2 - 7) / 2 == height / 4 - 4);
}

TEST_CASE("fewer steps of a size refuse what the steps refused", "[dim]") {
  const Dim width = free_dim("width", 1, 64);
  CHECK(to_string(width - 3 + 1) == "(width - 3) + 1");  // none at 2
  CHECK(to_string(width + 1 - 3) == "width - 2");
  CHECK(to_string(width - 3 - 1) == "width - 4");
  CHECK(to_string(width * 2 / 3 / 5) == "(width * 2) / 15");
  CHECK(to_string((width * 4 - 6) / 2) == "(width * 2) - 3");  // none at 1, as before
  CHECK(to_string(width / 3 * 3) == "(width / 3) * 3");        // not the width
  CHECK(to_string(width / 3 * 6) == "(width / 3) * 6");
}

TEST_CASE("a quotient of a negative size is that of the positive one, rounded up", "[dim]") {
  const Dim width = free_dim("width", 1, 9);
  CHECK(to_string(8 + (0 - width) / 2) == "8 - ((width + 1) / 2)");
  CHECK(to_string(width + (0 - width) / 4) == "width - ((width + 3) / 4)");
  CHECK((0 - width * 4) / 2 + width * 3 == width * 3 - width * 2);
}

TEST_CASE("a factor anywhere in a size divides it", "[dim]") {
  const Dim batch = free_dim("batch", 1, 32);
  const Dim seq = free_dim("seq", 1, 512);
  CHECK(batch * 16 * 4 / 64 == batch);
  CHECK(batch * 4 * seq / batch == seq * 4);
  CHECK(batch * seq * 6 / (seq * 2) == batch * 3);
  CHECK((batch * 6 + seq * 4) / 2 == batch * 3 + seq * 2);
  CHECK(batch * 3 / 2 != batch);
}

TEST_CASE("a quotient without a rest is known by what it was divided by", "[dim]") {
  const Dim even = free_dim("even", 2, 32, 2);
  CHECK(even * 6 / 4 * 4 == even * 6);
  CHECK(even / 2 + even / 2 == even);
  const Dim any = free_dim("any", 1, 32);
  CHECK(any * 6 / 4 * 4 != any * 6);
}

TEST_CASE("an order that depends on the run is told where all must be decided", "[dim]") {
  const Dim seq = free_dim("seq", 2, 512);
  std::string heard;
  const DimWatch watch([&heard](const Dim& dim) { heard += to_string(dim) + ";"; });
  CHECK(seq > 100);
  CHECK(heard.empty());
  const DecidedOrders decided;
  CHECK(seq >= 2);
  CHECK(seq > 1);
  CHECK(!(seq < 2));
  CHECK(3 > Dim(2));
  CHECK(seq <= 512);
  CHECK(seq < seq + 1);
  CHECK(seq * 2 + 1 > seq * 2);
  CHECK(heard.empty());
  CHECK(seq > 2);
  CHECK(heard == "seq;");
  CHECK(3 < seq);
  CHECK(heard == "seq;seq;");
}

TEST_CASE("multiples are known through sums, products and quotients", "[dim]") {
  const Dim height = free_dim("height", 32, 1024, 32);
  CHECK(height.divides_by(32));
  CHECK((height * 3).divides_by(96));
  CHECK((height / 8).divides_by(4));
  CHECK((height + 16).divides_by(16));
  CHECK(!(height + 16).divides_by(32));
}

TEST_CASE("a free size read as a number is told, with the innermost watch", "[dim]") {
  const Dim seq = free_dim("seq", 1, 512);
  std::string heard;
  const DimWatch outer([&heard](const Dim&) { heard += "outer"; });
  {
    const DimWatch inner([&heard](const Dim& dim) { heard += to_string(dim); });
    const int64_t number = seq + 1;
    CHECK(number == 513);
    CHECK(heard == "seq + 1");
  }
  CHECK(static_cast<int64_t>(Dim(7)) == 7);
  CHECK(heard == "seq + 1");
  CHECK(static_cast<uint64_t>(seq) == 512);
  CHECK(heard == "seq + 1outer");
}

TEST_CASE("products that no 64-bit number holds at some value are refused", "[dim]") {
  const Dim seq = free_dim("seq", 1, int64_t{1} << 40);
  CHECK(checked_product(seq, 1024).has_value());
  CHECK(!checked_product(seq, int64_t{1} << 30).has_value());
}

TEST_CASE("shapes with free sizes broadcast, reshape and count", "[dim]") {
  const Dim batch = free_dim("batch", 1, 32);
  const Dim seq = free_dim("seq", 1, 512);
  const Shape shape{batch, seq, 768};
  CHECK(element_count(shape) == batch * seq * 768);
  CHECK(byte_size({DType::f16, shape}) == batch * seq * 1536);
  CHECK(dense_strides(shape) == Strides{seq * 768, 768, 1});
  CHECK(is_dense(shape, dense_strides(shape)));
  CHECK(broadcast_shapes(shape, {768}) == shape);
  CHECK(broadcast_shapes(shape, {batch, 1, 768}) == shape);
  CHECK(!broadcast_shapes(shape, {batch, 77, 768}).has_value());
  const auto heads = reshape_strides(shape, dense_strides(shape), {batch, seq, 12, 64});
  CHECK(heads == Strides{seq * 768, 768, 64, 1});
  CHECK(reshape_strides(shape, dense_strides(shape), {batch * seq, 768}) == Strides{768, 1});
}

TEST_CASE("windows_are_tried_at_the_bound_of_a_narrow_range_and_at_its_halves_too_of_a_wide_one",
          "[dim]") {
  const auto values_of = [](const Dim& size) {
    return at_sampled_windows(size, [&size](const SampledSizes& at) { return at.value(size); });
  };
  using Values = std::vector<int64_t>;
  CHECK(values_of(12) == Values{12});
  CHECK(values_of(free_dim("height", 257, 512)) == Values{512});
  CHECK(values_of(free_dim("height", 256, 512) * 3) == Values{1536});
  CHECK(values_of(free_dim("height", 255, 512)) == Values{512, 256, 255});
  CHECK(values_of(free_dim("images", 0, 5)) == Values{5, 2, 1});
}

}  // namespace rlx::test
