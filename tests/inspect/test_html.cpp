// SPDX-License-Identifier: Apache-2.0
// Laws of the page of a plan.
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"
#include "tools/inspect/html.h"

namespace rlx::test {
namespace {

std::shared_ptr<const PlanView> plan_of(const PlanSpec& spec) {
  std::shared_ptr<const PlanView> plan;
  REQUIRE(PlanView::open_memory(serialise(spec), {.copy_memory = true}, plan).ok());
  return plan;
}

// What the page's script gets.
nlohmann::json data_of(const std::string& page) {
  nlohmann::json data;
  for (const char* part : {"summary", "memory", "steps", "why", "sizes", "profile"}) {
    const std::string begin = "data-part=\"" + std::string(part) + "\">";
    const size_t from = page.find(begin) + begin.size();
    data[part] = nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
  }
  return data;
}

TEST_CASE("a_page_holds_every_step_and_asks_for_nothing_from_elsewhere") {
  const auto plan = plan_of(chain_plan(1000));
  const std::string page = report_html(*plan, *plan, std::nullopt);
  CHECK(data_of(page)["steps"]["entries"][0]["steps"].size() == 1000);
  CHECK(data_of(page)["profile"].is_null());
  for (const char* part : {"<link", " src=", "@import", "fetch(", "XMLHttpRequest"})
    CHECK(page.find(part) == std::string::npos);
  CHECK(page == report_html(*plan, *plan, std::nullopt));
}

TEST_CASE("names_of_a_plan_cannot_end_the_script_that_holds_them") {
  PlanSpec spec = small_plan();
  spec.name = "</script><script>alert(1)</script>";
  const auto plan = plan_of(spec);
  const std::string page = report_html(*plan, *plan, std::nullopt);
  CHECK(page.find("alert(1)</script>") == std::string::npos);
  CHECK(data_of(page)["summary"]["name"] == spec.name);
}

TEST_CASE("measured_times_are_taken_from_what_rlxrun_prints_and_from_nothing_else") {
  MeasuredSteps measured;
  REQUIRE(parse_profile(R"({"entry": {"name": "main"}, "device": {"name": "GPU"},
                            "profile": [{"us": 1.5}, {"us": 2}]})",
                        measured)
              .ok());
  CHECK(measured.microseconds == std::vector<double>{1.5, 2});
  const auto plan = plan_of(small_plan());
  CHECK(data_of(report_html(*plan, *plan, measured))["profile"]["device"] == "GPU");
  for (const char* text :
       {"", "[]", "{}", R"({"entry": {"name": "main"}, "device": {"name": 3}, "profile": []})",
        R"({"entry": {"name": "main"}, "device": {"name": "GPU"}})",
        R"({"entry": {"name": "main"}, "device": {"name": "GPU"}, "profile": [3]})",
        R"({"entry": {"name": "main"}, "device": {"name": "GPU"}, "profile": [{"us": "x"}]})"}) {
    INFO(text);
    CHECK_FALSE(parse_profile(text, measured).ok());
  }
}

}  // namespace
}  // namespace rlx::test
