// SPDX-License-Identifier: Apache-2.0
// Laws of the views of a plan.
#include <limits>
#include <memory>

#include "tests/support/catch.h"
#include "tests/support/cubin.h"
#include "tests/support/free_plans.h"
#include "tests/support/plan_fixture.h"
#include "tools/inspect/inspect.h"

namespace rlx::test {
namespace {

using Json = nlohmann::ordered_json;

std::shared_ptr<const PlanView> open(const PlanSpec& spec) {
  std::shared_ptr<const PlanView> plan;
  const Status status = PlanView::open_memory(serialise(spec), {.copy_memory = true}, plan);
  INFO(status.message());
  REQUIRE(status.ok());
  return plan;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr InspectView kViews[] = {InspectView::Summary, InspectView::Memory, InspectView::Steps,
                                  InspectView::Kernels, InspectView::Sizes,  InspectView::Why};

TEST_CASE("every_view_of_every_plan_ends_in_a_newline_and_is_the_same_each_time") {
  for (const PlanSpec& spec : {small_plan(), chain_plan(1), chain_plan(300)}) {
    const auto plan = open(spec);
    for (const InspectView view : kViews) {
      const std::string text = inspect_text(*plan, view);
      REQUIRE_FALSE(text.empty());
      CHECK(text.back() == '\n');
      CHECK(text == inspect_text(*plan, view));
      CHECK(inspect_json(*plan, view).dump() == inspect_json(*plan, view).dump());
    }
  }
}

TEST_CASE("summary_names_targets_inputs_and_outputs") {
  const auto plan = open(small_plan());
  const std::string text = inspect_text(*plan, InspectView::Summary);
  const std::string format = std::to_string(kPlanMajor) + "." + std::to_string(kPlanMinorPlain);
  CHECK(contains(text, "plan \"fixture\", format " + format));
  CHECK(contains(text, "target vulkan 1.2"));
  CHECK(contains(text, "input  \"x\" f32[64]"));
  CHECK(contains(text, "output \"z\" f32[4]"));
  CHECK(contains(text, "symbol \"batch\": 1 to 8, multiple of 1, compiled for 1"));
  const Json json = inspect_json(*plan, InspectView::Summary);
  CHECK(json["entries"].size() == 3);
  CHECK(json["entries"][2]["init"] == true);
}

TEST_CASE("free_sizes_are_shown_by_their_symbols_and_at_a_binding_as_numbers") {
  const auto plan = open(free_copies_plan());
  const std::string free = inspect_text(*plan, InspectView::Summary);
  CHECK(contains(free, "symbol \"seq\": 0 to 16, multiple of 1, free"));
  CHECK(contains(free, "input  \"x\" f32[batch,seq]"));
  CHECK(contains(free, "output \"l\" f32[seq + seq]"));
  std::shared_ptr<const PlanView> bound;
  REQUIRE(PlanView::bind(*plan, plan->records(), std::vector<uint64_t>{2, 7}, bound).ok());
  const std::string at = inspect_text(*bound, InspectView::Summary);
  CHECK(contains(at, "symbol \"seq\": 0 to 16, multiple of 1, here 7"));
  CHECK(contains(at, "input  \"x\" f32[2,7]"));
  CHECK(contains(inspect_text(*bound, InspectView::Steps), "f32[14], bytes 0 to 56"));
  CHECK(inspect_json(*bound, InspectView::Summary)["symbols"][1]["value"] == 7);
  REQUIRE(PlanView::bind(*plan, plan->records(), std::vector<uint64_t>{2, 0}, bound).ok());
  CHECK(contains(inspect_text(*bound, InspectView::Steps), "wave 0: skip"));
}

TEST_CASE("a_library_product_says_its_problem_and_whether_it_is_tuned") {
  PlanSpec spec = gemm_plan();
  auto plan = open(spec);
  const std::string steps = inspect_text(*plan, InspectView::Steps);
  CHECK(contains(steps, "library-gemm, 16 x 32 x 8 of f16, bias, residual, workspace 512 bytes"));
  CHECK(contains(inspect_text(*plan, InspectView::Why), "tuned   no: the library's heuristic"));
  fb::LibraryGemmT& gemm = spec.entries[0].gemms[0];
  gemm.algorithm.assign(64, 1);
  gemm.tuned_device = "some GPU";
  gemm.tuned_driver = "13.0";
  gemm.tuned_library = "cuBLASLt 13.1.0";
  gemm.tuned_microseconds = 12.5;
  plan = open(spec);
  const std::string tuned = "12.500 us on some GPU, driver 13.0, cuBLASLt 13.1.0";
  CHECK(contains(inspect_text(*plan, InspectView::Why), "tuned   " + tuned));
  const Json json = inspect_json(*plan, InspectView::Why);
  CHECK(json["entries"][0]["steps"][0]["gemm"]["tuned"] == tuned);
  spec.entries[0].gemms[0].tuned_microseconds = std::numeric_limits<double>::max();
  plan = open(spec);
  CHECK(contains(inspect_text(*plan, InspectView::Why), "858368.000 us on some GPU"));
}

TEST_CASE("memory_compares_the_arena_with_its_bound_and_with_no_reuse") {
  const auto plan = open(small_plan());
  const Json arena = inspect_json(*plan, InspectView::Memory)["entries"][0]["arena"];
  CHECK(arena["bytes"] == 512);
  CHECK(arena["lower_bound_bytes"] == 512);
  CHECK(arena["gap_bytes"] == 0);
  CHECK(arena["ratio"] == 1.0);
  CHECK(arena["unplanned_bytes"] == 768);
}

TEST_CASE("memory_draws_lifetimes_with_offsets_upwards_and_waves_to_the_right") {
  const auto plan = open(small_plan());
  const std::string text = inspect_text(*plan, InspectView::Memory);
  CHECK(contains(text, "  256 |.bb.|\n    0 |aacc|\n"));
}

TEST_CASE("memory_drawing_stays_small_for_a_long_plan") {
  const auto plan = open(chain_plan(1000));
  const std::string text = inspect_text(*plan, InspectView::Memory);
  const size_t drawing = text.find("lifetimes:");
  REQUIRE(drawing != std::string::npos);
  CHECK(text.size() - drawing < 4000);
  CHECK(contains(text.substr(drawing), "a column is 11 waves"));
}

TEST_CASE("a_value_that_takes_over_another_one_says_so") {
  PlanSpec spec = small_plan();
  SpecEntry& main = spec.entries[0];
  for (SpecValue& value : main.values) {
    if (value.name == "b") {
      value.offset_bytes = 0;
      value.alias_of = 6;  // "a"
    }
    if (value.name == "c") value.offset_bytes = 256;
  }
  const auto plan = open(spec);
  CHECK(contains(inspect_text(*plan, InspectView::Memory), "\"b\" in place of \"a\""));
  const Json values = inspect_json(*plan, InspectView::Memory)["entries"][0]["values"];
  CHECK(values[7]["in_place_of"] == "a");
  CHECK_FALSE(values[6].contains("in_place_of"));
}

TEST_CASE("steps_tell_kernel_grid_accesses_and_edges") {
  const auto plan = open(small_plan());
  const std::string text = inspect_text(*plan, InspectView::Steps);
  CHECK(contains(text, "step 1, wave 1: region, grid 1x1x1, workgroup 64x1x1, params 24 bytes"));
  CHECK(contains(text, "waits for 0"));
  CHECK(contains(text, "read       \"g\" f32[64], bytes 0 to 256, weights + 512"));
  const Json step = inspect_json(*plan, InspectView::Steps)["entries"][0]["steps"][2];
  CHECK(step["kernel"] == "region");
  CHECK(step["wave"] == 2);
  CHECK(step["edges"] == Json::array({1}));
  CHECK(step["accesses"][2]["value"] == "g");
  CHECK(step["accesses"][2]["mode"] == "read");
}

TEST_CASE("kernels_tell_the_code_of_every_target") {
  PlanSpec spec = small_plan();
  spec.cuda = {
      .present = 1, .ptx_architecture = 80, .architecture_count = 1, .architectures = {90}};
  for (SpecKernel& kernel : spec.kernels) {
    kernel.variants.push_back({.target = fb::TargetKind::Cuda,
                               .format = fb::CodeFormat::Cubin,
                               .architecture = 90,
                               .code = make_cubin({.params_bytes = kernel.params_bytes,
                                                   .registers = 77,
                                                   .static_shared_bytes = 512,
                                                   .dynamic_shared_bytes = 1024}),
                               .shared_bytes = 1536,
                               .dynamic_shared_bytes = 1024,
                               .waits_for_predecessors = true});
    kernel.variants.push_back({.target = fb::TargetKind::Cuda,
                               .format = fb::CodeFormat::Ptx,
                               .architecture = 80,
                               .code = make_ptx("sm_80", "main")});
  }
  const auto plan = open(spec);
  const std::string text = inspect_text(*plan, InspectView::Kernels);
  CHECK(contains(text, "spir-v"));
  CHECK(contains(text, "cubin sm_90"));
  CHECK(contains(text, "ptx compute_80"));
  const Json variant = inspect_json(*plan, InspectView::Kernels)["kernels"][0]["variants"][1];
  CHECK(variant["format"] == "cubin sm_90");
  CHECK(variant["registers"] == 77);
  CHECK(variant["local_bytes"] == 0);
  CHECK(variant["shared_bytes"] == 1536);
  CHECK(variant["waits_for_predecessors"] == true);
  const fb::Kernel& kernel = plan->kernel(0);
  const std::string digest = hex_text(plan->code_digest(kernel, *kernel.variants()->Get(1)));
  CHECK(variant["sha256"] == digest);
  CHECK(contains(text, "sha-256 " + digest + " cubin sm_90"));
}

TEST_CASE("sizes_account_for_every_byte_of_the_file") {
  for (const PlanSpec& spec : {small_plan(), chain_plan(50)}) {
    const auto plan = open(spec);
    const Json json = inspect_json(*plan, InspectView::Sizes);
    uint64_t end = 0;
    for (const Json& region : json["regions"]) {
      CHECK(region["offset_bytes"] == end);
      end += region["size_bytes"].get<uint64_t>();
    }
    CHECK(end == serialise(spec).size());
    CHECK(json["file_bytes"] == end);

    const auto section = [&](const std::string& name) {
      uint64_t bytes = 0;
      for (const Json& region : json["regions"]) {
        if (region["name"] == name) bytes += region["size_bytes"].get<uint64_t>();
      }
      return bytes;
    };
    uint64_t weights = json["weights"]["padding_bytes"];
    for (const Json& weight : json["weights"]["tensors"]) {
      if (weight["generated"] == false) weights += weight["size_bytes"].get<uint64_t>();
    }
    CHECK(weights == section("weights"));
    uint64_t code = json["code"]["padding_bytes"];
    for (const Json& piece : json["code"]["pieces"]) code += piece["size_bytes"].get<uint64_t>();
    CHECK(code == section("code"));
    CHECK(json["params"]["blob_bytes"].get<uint64_t>() +
              json["params"]["padding_bytes"].get<uint64_t>() ==
          section("params"));
  }
}

TEST_CASE("why_gives_the_reason_of_each_step_and_says_when_nothing_is_recorded") {
  const auto plan = open(small_plan());
  const std::string text = inspect_text(*plan, InspectView::Why);
  CHECK(contains(text, "step 1: region for add \"main.node1\""));
  CHECK(contains(text, "why     only one"));

  PlanSpec spec = small_plan();
  spec.debug_notes = false;
  const auto bare = open(spec);
  CHECK(contains(inspect_text(*bare, InspectView::Why), "no debug section"));
  CHECK(inspect_json(*bare, InspectView::Why)["has_debug"] == false);
}

TEST_CASE("why_prints_every_kernel_that_was_compared_by_rank") {
  PlanSpec spec = small_plan();
  spec.offers = {{.kernel = "mma", .refusal = "a batch"},
                 {.kernel = "region", .microseconds = 12.25, .taken = true},
                 {.kernel = "tiles", .microseconds = 3, .is_bound = true, .rank = 1}};
  const auto plan = open(spec);
  const std::string text = inspect_text(*plan, InspectView::Why);
  CHECK(contains(text,
                 "    why     only one\n"
                 "    offer   mma     a batch\n"
                 "    offer   region  12.250 us expected, taken\n"
                 "    or else tiles   at least 3.000 us\n"));
  const Json json = inspect_json(*plan, InspectView::Why);
  const Json offers = json["entries"][0]["steps"][0]["offers"];
  REQUIRE(offers.size() == 3);
  CHECK(offers[0]["refusal"] == "a batch");
  CHECK(offers[1]["microseconds"] == 12.25);
  CHECK(offers[1]["taken"] == true);
  CHECK(offers[2]["least_microseconds"] == 3);
  CHECK(offers[2]["rank"] == 1);
}

TEST_CASE("a_choice_that_the_plan_lacks_is_no_choice") {
  PlanSpec spec = small_plan();
  spec.offers = {{.kernel = "region", .taken = true}};
  spec.choice = 1;
  const auto plan = open(spec);
  CHECK_FALSE(contains(inspect_text(*plan, InspectView::Why), "offer "));
}

TEST_CASE("words_of_index_errors_stand_with_their_steps_and_in_the_memory") {
  const auto plan = open(index_plan(3));
  const std::string steps = inspect_text(*plan, InspectView::Steps);
  CHECK(contains(steps, "\"word2\" u32[1], bytes 0 to 4, index_errors + 8"));
  const std::string memory = inspect_text(*plan, InspectView::Memory);
  CHECK(contains(memory, "index_errors"));
  CHECK(contains(memory, "word1"));
  CHECK(inspect_json(*plan, InspectView::Memory)["segments"]["index_error_bytes"] == 12);
}

TEST_CASE("svg_has_a_rectangle_and_a_tooltip_for_each_arena_value") {
  PlanSpec spec = small_plan();
  spec.entries[0].values[6].name = "a<&\"b\">";
  const auto plan = open(spec);
  const std::string svg = memory_svg(*plan, 0);
  CHECK(svg.rfind("<svg xmlns=", 0) == 0);
  CHECK(contains(svg,
                 "<title>a&lt;&amp;&quot;b&quot;&gt; f32[64]&#10;offset 0, 256 bytes&#10;waves 0 "
                 "to 1</title>"));
  CHECK(contains(svg, "<title>c f32[64]"));
  CHECK(contains(svg, "</svg>"));
  CHECK_NOTHROW(memory_svg(*plan, 2));  // init
  CHECK_THROWS_AS(memory_svg(*plan, 3), std::out_of_range);
}

TEST_CASE("names_cannot_steer_the_terminal") {
  PlanSpec spec = small_plan();
  spec.entries[0].values[6].name = "a\x1b[2J";
  std::shared_ptr<const PlanView> plan;
  const Status status = PlanView::open_memory(serialise(spec), {.copy_memory = true}, plan);
  CHECK(contains(status.message(), "V2.4"));
  CHECK_FALSE(contains(status.message(), "\x1b"));
}

}  // namespace
}  // namespace rlx::test
