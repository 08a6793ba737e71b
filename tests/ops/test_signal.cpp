// SPDX-License-Identifier: Apache-2.0
// Laws of the shapes, diagnostics and plans of Fourier transforms and of what is made of spectra.
#include "compiler/ops/signal/transform.h"
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

OneNode signal_node(const std::string& op, DType dtype, Shape x, Attributes attributes = {}) {
  return {
      .op = op, .inputs = {TensorType{dtype, std::move(x)}}, .attributes = std::move(attributes)};
}

Dim free_size(int64_t minimum, int64_t maximum) {
  return Dim::of({.index = 0, .name = "length", .minimum = minimum, .maximum = maximum});
}

}  // namespace

TEST_CASE("an_empty_axis_is_refused_by_name") {
  CHECK(refused(signal_node("fft", DType::c64, {3, 0}), "bad-shape", "nothing to transform"));
  CHECK(refused(signal_node("rfft", DType::f32, {0}), "bad-shape", "nothing to transform"));
  CHECK(refused(signal_node("irfft", DType::c64, {1}), "bad-shape", "length from axis 0 is 0"));
  CHECK(refused(signal_node("fftn", DType::c64, {3, 0}), "bad-shape", "nothing to transform"));
}

TEST_CASE("a_length_may_be_one_that_a_run_gives_from_1_on") {
  const Dim length = free_size(1, 9);
  CHECK(infer(signal_node("fft", DType::c64, {3, length})).outputs[0].shape == Shape{3, length});
  CHECK(infer(signal_node("fftn", DType::c64, {length, 4})).good);
  CHECK(infer(signal_node("fft", DType::c64, {free_size(0, 9), 4})).good);
  CHECK(infer(signal_node("rfft", DType::f32, {2, length})).outputs[0].shape ==
        Shape{2, length / 2 + 1});
  CHECK(infer(signal_node("rfft", DType::f32, {2, length}, {{"n", int64_t{8}}})).good);
  CHECK(infer(signal_node("irfft", DType::c64, {2, 5}, {{"n", Ints{length}}})).outputs[0].shape ==
        Shape{2, length});
  CHECK(infer(signal_node("irfft", DType::c64, {free_size(2, 9)})).good);
  CHECK(refused(signal_node("irfft", DType::c64, {length}), "bad-shape", "nothing to transform"));
  CHECK(
      refused(signal_node("fft", DType::c64, {free_size(0, 9)}), "bad-shape", "wanted 1 or more"));
  CHECK(refused(signal_node("fft", DType::c64, {free_size(1, 9000000)}), "limit", "points"));
}

TEST_CASE("T125_bins_are_half_of_the_exact_length_and_one") {
  const auto bins = [](int64_t points) {
    return infer(signal_node("rfft", DType::f32, {2, 6}, {{"n", points}})).outputs[0];
  };
  CHECK(bins(6) == TensorType{DType::c64, {2, 4}});
  CHECK(bins(7) == TensorType{DType::c64, {2, 4}});
  CHECK(bins(8) == TensorType{DType::c64, {2, 5}});
  CHECK(infer(signal_node("irfft", DType::c64, {4, 2})).outputs[0] == f32({4, 2}));
}

TEST_CASE("layouts_that_a_tensor_does_not_have_are_refused") {
  const Attributes interleaved = {{"layout", "interleaved"}};
  CHECK(
      refused(signal_node("fft", DType::f32, {4, 3}, interleaved), "bad-shape", "last axis of 2"));
  CHECK(refused(signal_node("fft", DType::f32, {4, 3}), "bad-shape", "even last axis"));
  CHECK(refused(signal_node("fft", DType::f32, {4, 2}, {{"axis", int64_t{0}}}), "bad-attribute",
                "last axis"));
  CHECK(refused(signal_node("fft", DType::c64, {4}, interleaved), "bad-dtype", "float type"));
  CHECK(refused(signal_node("fft", DType::i32, {4}), "bad-dtype", "i32"));
  CHECK(refused(signal_node("rfft", DType::f64, {4}), "bad-dtype", "no complex numbers"));
  CHECK(refused(signal_node("rfft", DType::c64, {4}), "bad-dtype", "float type"));
}

TEST_CASE("frames_of_a_free_signal_follow_its_size") {
  const Attributes frames = {{"frame_len", int64_t{16}}, {"hop", int64_t{4}}};
  const Dim length = free_size(16, 100);
  const Inferred good = infer(signal_node("stft", DType::f32, {2, length}, frames));
  REQUIRE(good.good);
  CHECK(good.outputs[0].shape == Shape{2, (length - 16) / 4 + 1, 9});
  CHECK(refused(signal_node("stft", DType::f32, {2, free_size(1, 100)}, frames), "bad-shape",
                "at least the 16 of a frame"));
  CHECK(refused(signal_node("stft", DType::f32, {15}, frames), "bad-shape", "15 points"));
  CHECK(refused(signal_node("stft", DType::c64, {32}, frames), "bad-attribute", "onesided"));
}

TEST_CASE("T124_every_length_has_a_plan_up_to_the_limit") {
  for (const int64_t points : {1, 2, 3, 7, 97, 1000, 4096, 65536, 10007, 16777216}) {
    INFO(points);
    const auto plan = plan_transform(points, DType::f32);
    REQUIRE(plan.has_value());
    CHECK(plan->chirps == (points == 97 || points == 10007));
    CHECK(plan->points >= (plan->chirps ? 2 * points - 1 : points));
    CHECK(plan->points % plan->columns == 0);
    CHECK(std::max(plan->columns, plan->points / plan->columns) <= 4096);
  }
  CHECK_FALSE(plan_transform(16777217, DType::f32).has_value());
  CHECK(plan_transform(free_size(1, 1024), DType::f32)->points == 2048);
  CHECK(plan_transform(free_size(1, 8388608), DType::f32)->chirps);
  CHECK_FALSE(plan_transform(free_size(1, 8388609), DType::f32).has_value());
  CHECK(
      refused(signal_node("rfft", DType::f32, {4}, {{"n", int64_t{1} << 30}}), "limit", "points"));
}

TEST_CASE("spectra_whose_bins_do_not_fit_are_refused") {
  const OneNode mel = {.op = "log_mel", .inputs = {f32({5, 16}), f32({3, 6})}};
  CHECK(refused(mel, "bad-shape", "n_fft / 2 + 1"));
  CHECK(refused(signal_node("welch_peaks", DType::f32, {5, 16},
                            {{"k", int64_t{2}}, {"n_segments", int64_t{2}}}),
                "bad-shape", "multiple of n_segments"));
  CHECK(refused(signal_node("welch_peaks", DType::f32, {4, 15},
                            {{"k", int64_t{2}}, {"n_segments", int64_t{2}}}),
                "bad-shape", "2 * n_fft"));
}

}  // namespace rlx::test
