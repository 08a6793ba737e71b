// SPDX-License-Identifier: Apache-2.0
// Device models as files: what is written is read again, and what is wrong is refused by its name.
#include <nlohmann/json.hpp>

#include "compiler/import/device_profile_json.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

using Json = nlohmann::ordered_json;

Json h200() {
  return Json::parse(device_profile_json(built_in_profiles().front()));
}

// What the reader says of the profile.
std::string refusal(const Json& json) {
  Diagnostics diagnostics;
  CHECK_FALSE(parse_device_profile(json.dump(), "d.json", diagnostics).has_value());
  return diagnostics.text();
}

// The H200's profile with one change to its numbers for CUDA.
template <typename Change>
std::string refusal_of(const Change& change) {
  Json json = h200();
  change(json["targets"]["cuda"]);
  return refusal(json);
}

void check_says(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("a_device_profile_is_read_as_it_was_written") {
  for (const DeviceProfile& built_in : built_in_profiles()) {
    DeviceProfile profile = built_in;
    profile.columns.front().fits = {{.number = "step_microseconds",
                                     .samples = 3,
                                     .median_before = 0.5,
                                     .worst_before = 1.5,
                                     .median_after = 0.125,
                                     .worst_after = 0.25}};
    const std::string text = device_profile_json(profile);
    Diagnostics diagnostics;
    const auto read = parse_device_profile(text, "d.json", diagnostics);
    INFO(diagnostics.text());
    REQUIRE(read.has_value());
    CHECK(device_profile_json(*read) == text);
    for (const DeviceColumn& column : profile.columns) {
      REQUIRE(read->column(column.target) != nullptr);
      CHECK(read->column(column.target)->model == column.model);
    }
  }
}

TEST_CASE("built_in_device_profiles_keep_to_the_ranges_of_their_numbers") {
  for (const DeviceProfile& profile : built_in_profiles()) {
    for (DeviceColumn column : profile.columns) {
      for (const DeviceNumber& number : numbers_of(column.model, *find_target(column.target))) {
        INFO(profile.name << " " << column.target << " " << number.path());
        CHECK(number.value() >= number.least);
        CHECK(number.value() <= number.most);
      }
    }
  }
  // The first holds what targets have by themselves.
  for (const Target& target : all_targets())
    CHECK(built_in_profiles().front().column(target.name)->model == target.device);
}

TEST_CASE("device_profiles_with_missing_or_unknown_fields_are_refused_by_name") {
  check_says(refusal(Json::parse("[]")), "device model is an array, wanted an object");
  check_says(refusal(Json::object()), "device model has no field \"rlx_device_model\"");
  Json later = h200();
  later["rlx_device_model"] = 2;
  check_says(refusal(later), "device model of version 2, wanted 1");
  Json unnamed = h200();
  unnamed["name"] = "";
  check_says(refusal(unnamed), "the name of the device model is empty");
  Json other = h200();
  other["targets"]["metal"] = Json::object();
  check_says(refusal(other), "/targets/metal: error: target \"metal\" is unknown");
  other["targets"] = Json::object();
  check_says(refusal(other), "the device model has no target");
  check_says(refusal_of([](Json& cuda) { cuda.erase("step_microseconds"); }),
             "/targets/cuda: error: the model for cuda has no field \"step_microseconds\"");
  check_says(refusal_of([](Json& cuda) { cuda["wgmma"].erase("begin"); }),
             "/targets/cuda/wgmma: error: \"wgmma\" has no field \"begin\"");
  check_says(refusal_of([](Json& cuda) { cuda["wgmma"]["beginn"] = 1; }),
             "\"wgmma\" has an unknown field \"beginn\"");
  check_says(refusal_of([](Json& cuda) { cuda["coop"] = Json::object(); }),
             "the model for cuda has an unknown field \"coop\"");
}

TEST_CASE("numbers_of_device_profiles_out_of_their_range_are_refused_by_name") {
  check_says(refusal_of([](Json& cuda) { cuda["memory_gigabytes_per_second"] = 0; }),
             "field \"memory_gigabytes_per_second\" is 0.0, wanted a number from 1.0 to 100000.0");
  check_says(refusal_of([](Json& cuda) { cuda["memory_gigabytes_per_second"] = 0; }),
             "hint: it is GB/s, what large copies reach");
  check_says(refusal_of([](Json& cuda) { cuda["mma"]["start"] = -1; }), "\"start\" is -1.0");
  check_says(refusal_of([](Json& cuda) { cuda["mma"]["start"] = "inf"; }),
             "\"start\" of \"mma\" is a string, wanted a number from 0.0 to 10000.0");
  check_says(refusal_of([](Json& cuda) { cuda["mma"]["start"] = nullptr; }),
             "\"start\" of \"mma\"");
  check_says(refusal_of([](Json& cuda) { cuda["multiprocessors"] = 1.5; }),
             "\"multiprocessors\" is 1.5, wanted a whole number from 1 to 65536");
  check_says(refusal_of([](Json& cuda) { cuda["fits"]["mma.begin"] = Json::object(); }),
             "\"fits\" has an unknown field \"mma.begin\"");
  check_says(refusal_of([](Json& cuda) {
               cuda["fits"]["mma.start"] = {{"samples", 0},
                                            {"median_before", 0},
                                            {"worst_before", 0},
                                            {"median_after", -1},
                                            {"worst_after", 0}};
             }),
             "field \"median_after\" is no relative error");
}

}  // namespace rlx::test
