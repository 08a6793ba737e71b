// SPDX-License-Identifier: Apache-2.0
// The choice of the next token against NumPy (make_sampler_cases.py).
#include <cmath>
#include <limits>

#include "runtime/text/portable_math.h"
#include "runtime/text/sampler.h"
#include "tests/support/catch.h"
#include "tests/text/case_files.h"

using namespace rlx;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
const nlohmann::json kGreedy = nlohmann::json::object();

rlx_text_sampling sampling_of(const nlohmann::json& options) {
  rlx_text_sampling sampling = RLX_INIT(rlx_text_sampling);
  sampling.temperature = options.value("temperature", 0.0F);
  sampling.top_k = options.value("top_k", 0U);
  sampling.top_p = options.value("top_p", 0.0F);
  sampling.min_p = options.value("min_p", 0.0F);
  sampling.typical_p = options.value("typical_p", 0.0F);
  sampling.repetition_penalty = options.value("repetition_penalty", 0.0F);
  sampling.presence_penalty = options.value("presence_penalty", 0.0F);
  sampling.frequency_penalty = options.value("frequency_penalty", 0.0F);
  sampling.penalty_tokens = options.value("penalty_tokens", 0U);
  sampling.seed = options.value("seed", uint64_t{0});
  sampling.order = static_cast<rlx_text_order>(options.value("order", 0));
  return sampling;
}

std::vector<float> row_of(const nlohmann::json& numbers) {
  std::vector<float> row;
  for (const auto& number : numbers)
    row.push_back(number.is_null() ? -kInfinity : number.get<float>());
  return row;
}

std::unique_ptr<Sampler> sampler_of(size_t tokens, const nlohmann::json& options) {
  std::unique_ptr<Sampler> sampler;
  REQUIRE(Sampler::create(static_cast<uint32_t>(tokens), sampling_of(options), sampler).ok());
  return sampler;
}

int32_t choice(Sampler& sampler, const std::vector<float>& logits) {
  int32_t id = -1;
  REQUIRE(sampler.choose(logits, id).ok());
  return id;
}

int32_t choice(const std::vector<float>& logits, const nlohmann::json& options) {
  return choice(*sampler_of(logits.size(), options), logits);
}

}  // namespace

TEST_CASE("tokens are chosen as by the reference, from every draw on") {
  const nlohmann::json data = test::read_cases("samplers");
  std::vector<std::vector<float>> rows;
  for (const auto& numbers : data["logits"]) rows.push_back(row_of(numbers));
  for (const auto& entry : data["cases"]) {
    INFO(entry["options"]);
    const auto sampler = sampler_of(rows[0].size(), entry["options"]);
    const auto wanted = entry["chosen"].get<std::vector<int32_t>>();
    for (const int32_t id : data["accepted"]) REQUIRE(sampler->accept(id).ok());
    for (size_t draw = 0; draw < wanted.size(); ++draw) {
      CHECK(choice(*sampler, rows[draw % rows.size()]) == wanted[draw]);
    }
    // Back to the middle.
    const size_t middle = wanted.size() / 2;
    sampler->reset(middle);
    for (const int32_t id : data["accepted"]) REQUIRE(sampler->accept(id).ok());
    for (size_t draw = 0; draw < middle; ++draw) REQUIRE(sampler->accept(wanted[draw]).ok());
    CHECK(choice(*sampler, rows[middle % rows.size()]) == wanted[middle]);
  }
}

TEST_CASE("greedy takes the largest logit, of equal ones the first; padding and NaN never") {
  CHECK(choice({1, 5, 5, 2}, kGreedy) == 1);
  CHECK(choice({kNaN, -3, kNaN}, kGreedy) == 1);
  CHECK(choice({kNaN, -kInfinity}, kGreedy) == 0);
  CHECK(choice({1, kInfinity, 3, kInfinity}, kGreedy) == 1);
  const auto sampler = sampler_of(2, kGreedy);
  CHECK(choice(*sampler, {1, 2, 99}) == 1);
}

TEST_CASE("a draw from infinite logits, or from none, ends") {
  CHECK(choice({1, kInfinity, kNaN}, {{"temperature", 1}, {"top_p", 0.5}}) == 1);
  CHECK(choice({-kInfinity, kNaN}, {{"temperature", 1}, {"typical_p", 0.5}}) == 0);
  const float most = std::numeric_limits<float>::max();
  CHECK(choice({-most, most, 0}, {{"temperature", 1e-30}, {"min_p", 1}, {"typical_p", 0.5}}) == 1);
  CHECK(choice({0, 0, 0, 0}, {{"temperature", 1e30}, {"top_p", 1e-6}}) == 0);
}

TEST_CASE("draws follow the distribution") {
  const std::vector<float> logits = {0, std::log(2.0F), std::log(5.0F)};
  const auto sampler = sampler_of(3, {{"temperature", 1}, {"seed", 3}});
  std::vector<int> counts(3);
  for (int draw = 0; draw < 8000; ++draw) ++counts[static_cast<size_t>(choice(*sampler, logits))];
  CHECK(std::abs(counts[0] - 1000) < 120);
  CHECK(std::abs(counts[1] - 2000) < 160);
  CHECK(std::abs(counts[2] - 5000) < 180);
}

TEST_CASE("the penalties' tokens are the last ones") {
  const std::vector<float> logits = {4, 3, 2};
  const auto sampler = sampler_of(3, {{"presence_penalty", 10}, {"penalty_tokens", 2}});
  CHECK(choice(*sampler, logits) == 0);
  CHECK(choice(*sampler, logits) == 1);
  CHECK(choice(*sampler, logits) == 2);
  CHECK(choice(*sampler, logits) == 0);
  sampler->reset(0);
  CHECK(choice(*sampler, logits) == 0);
}

TEST_CASE("sampling that means nothing is refused") {
  const auto refuses = [](const nlohmann::json& options, const std::string& message) {
    std::unique_ptr<Sampler> sampler;
    const Status status = Sampler::create(4, sampling_of(options), sampler);
    CHECK(status.code() == RLX_INVALID_ARGUMENT);
    CHECK(status.message() == "argument sampling has " + message);
  };
  refuses({{"temperature", -1}}, "temperature -1.000000, wanted 0 to any finite number");
  refuses({{"top_p", 1.5}}, "top_p 1.500000, wanted 0 to 1");
  refuses({{"min_p", kNaN}}, "min_p nan, wanted 0 to 1");
  refuses({{"typical_p", -0.5}}, "typical_p -0.500000, wanted 0 to 1");
  refuses({{"repetition_penalty", kInfinity}, {"penalty_tokens", 1}},
          "repetition_penalty inf, wanted 0 to any finite number");
  refuses({{"presence_penalty", kNaN}, {"penalty_tokens", 1}},
          "a penalty that is no finite number");
  refuses({{"frequency_penalty", 1}},
          "penalties, and penalty_tokens 0: say how many of the last tokens they are for");
  refuses({{"penalty_tokens", 2000000}}, "penalty_tokens 2000000, at most 1048576");
}

TEST_CASE("logits that are too few and tokens that are none are refused") {
  const auto sampler = sampler_of(3, kGreedy);
  int32_t id = 7;
  CHECK(sampler->choose(std::vector<float>{1, 2}, id).message() ==
        "there are 2 logits, the text has 3 tokens");
  CHECK(sampler->accept(3).message() == "there is no token 3, the text has 3");
  CHECK_FALSE(sampler->accept(-1).ok());
  CHECK(id == 7);
}

TEST_CASE("exp and log are those of the library within a few units in the last place") {
  constexpr double kUnit = 0x1p-52;
  for (double x = 0; x > -690; x -= 0.37) {
    CHECK(std::fabs(portable_exp(x) / std::exp(x) - 1) < 3 * kUnit);
  }
  for (double x = 0x1p-24; x < 0x1p20; x *= 1.07) {
    CHECK(std::fabs(portable_log(x) - std::log(x)) <= 4 * kUnit * std::fabs(std::log(x)));
  }
  CHECK(portable_log(1 - 0x1p-24) == std::log(1 - 0x1p-24));
  CHECK(portable_exp(0) == 1);
  CHECK(portable_exp(-1000) == 0);
  CHECK(portable_exp(-std::numeric_limits<double>::infinity()) == 0);
}
