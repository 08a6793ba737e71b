// SPDX-License-Identifier: Apache-2.0
// Cases of rng_bits, rng_uniform, rng_normal, dropout and what they become.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

CaseTensor seed_tensor(int64_t seed) {
  return tensor(DType::i64, {}).of_integers({seed});
}
CaseTensor step_tensor(int64_t step) {
  return tensor(DType::u32, {}).of_integers({step});
}

// Drawn by a seed and a step of the run.
Case drawn_case(std::string law, std::string op, std::string attributes, int64_t seed = 42,
                int64_t step = 0, Tolerance tolerance = Tolerance::Exact) {
  return {.name = std::move(law),
          .op = std::move(op),
          .inputs = {std::nullopt, seed_tensor(seed), step_tensor(step)},
          .attributes = std::move(attributes),
          .tolerance = tolerance};
}

void add_rng_bits(std::vector<Case>& cases) {
  Case known = drawn_case("0.8 the words of seed 42", "rng_bits", R"({"shape": [4], "stream": 0})");
  known.golden = {{0x9ceaf053, 0x77f5493b, 0x12bf50ad, 0x5742b3d7}};
  cases.push_back(known);
  known = drawn_case("17 the words of seed 7, stream 1, step 2", "rng_bits",
                     R"({"shape": [5], "stream": 1})", 7, 2);
  known.golden = {{0xbcffe4ae, 0x6ecfdd94, 0xf9b6b7d6, 0x37adedbb, 0x0eef8516}};
  cases.push_back(known);
  known = drawn_case("T136 seed 0 is a seed, T135 the multiplier", "rng_bits",
                     R"({"shape": [2, 2], "stream": 0})", 0, 0);
  known.golden = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}};
  cases.push_back(known);
  cases.push_back(drawn_case("a seed of 64 bits", "rng_bits",
                             R"({"shape": [37, 11], "stream": 4294967295})", -81985529216486896,
                             4294967295));
  cases.push_back(drawn_case("T19 none", "rng_bits", R"({"shape": [3, 0], "stream": 0})"));
  cases.push_back(drawn_case("rank 0", "rng_bits", R"({"shape": [], "stream": 5})"));
  Case fixed =
      drawn_case("a seed of the graph", "rng_bits", R"({"shape": [513], "seed": -1, "stream": 9})");
  fixed.inputs[1] = std::nullopt;
  cases.push_back(fixed);
  Case like = drawn_case("as many as another tensor has", "rng_bits", R"({"stream": 3})");
  like.inputs[0] = tensor(DType::f16, {5, 3, 7});
  cases.push_back(like);
}

void add_rng_uniforms(std::vector<Case>& cases) {
  Case known = drawn_case("17 uniforms", "rng_uniform", R"({"shape": [5], "stream": 1})", 7, 2);
  known.golden = {{0.7382796, 0.4328592, 0.9754443, 0.2174976, 0.05834228}};
  cases.push_back(known);
  for (const std::string dtype : {"f32", "f16", "bf16", "f64"}) {
    cases.push_back(drawn_case("T137 below high in every type", "rng_uniform",
                               R"({"shape": [4097], "stream": 2, "dtype": ")" + dtype + R"("})"));
    cases.push_back(drawn_case(
        "another range", "rng_uniform",
        R"({"shape": [7, 33], "low": -3, "high": 0.1, "stream": 2, "dtype": ")" + dtype + R"("})"));
  }
  cases.push_back(drawn_case("a range of one value", "rng_uniform",
                             R"({"shape": [9], "low": 2, "high": 2, "stream": 2})"));
  Case like = drawn_case("as many as another tensor has", "rng_uniform", R"({"stream": 3})");
  like.inputs[0] = tensor(DType::f32, {6, 1, 9});
  cases.push_back(like);
}

void add_rng_normals(std::vector<Case>& cases) {
  Case known = drawn_case("0.8 the normals of seed 42", "rng_normal",
                          R"({"shape": [4], "stream": 0})", 42, 0, Tolerance::Norm);
  known.golden = {{-0.9701897, 0.1940190, -1.2356201, 1.9239270}};
  cases.push_back(known);
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    cases.push_back(drawn_case(
        "mean and scale", "rng_normal",
        R"({"shape": [65, 21], "mean": 3, "scale": 0.5, "stream": 2, "dtype": ")" + dtype + R"("})",
        1234567890123, 17, Tolerance::Norm));
  }
  cases.push_back(drawn_case("scale 0", "rng_normal",
                             R"({"shape": [6], "mean": -2, "scale": 0, "stream": 2})"));
}

void add_dropout(std::vector<Case>& cases) {
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    cases.push_back({.name = "inference is the identity",
                     .op = "dropout",
                     .inputs = {tensor(t, {3, 5})},
                     .attributes = R"({"p": 0.9})",
                     .outputs = 2});
    cases.push_back({.name = "a mask and what it leaves",
                     .op = "dropout",
                     .inputs = {tensor(t, {17, 23}), seed_tensor(3), step_tensor(1)},
                     .attributes = R"({"p": 0.3, "training": true, "stream": 8})",
                     .tolerance = Tolerance::ArithDiv,
                     .outputs = 2});
  }
  cases.push_back({.name = "nothing stays, infinities neither",
                   .op = "dropout",
                   .inputs = {tensor(DType::f32, {64}).edges(), seed_tensor(3), step_tensor(1)},
                   .attributes = R"({"p": 1, "training": true, "stream": 8})"});
}

void add_random_of_one_axis(std::vector<Case>& cases) {
  for (const std::string op : {"random_bits", "random_uniform", "random_normal"}) {
    cases.push_back({.name = "of one axis",
                     .op = op,
                     .inputs = {seed_tensor(11), step_tensor(5)},
                     .attributes = R"({"shape": [1029], "stream": 77})",
                     .tolerance = op == "random_normal" ? Tolerance::Norm : Tolerance::Exact});
  }
}

}  // namespace

std::vector<Case> random_cases() {
  std::vector<Case> cases;
  add_rng_bits(cases);
  add_rng_uniforms(cases);
  add_rng_normals(cases);
  add_dropout(cases);
  add_random_of_one_axis(cases);
  return cases;
}

}  // namespace rlx::test
