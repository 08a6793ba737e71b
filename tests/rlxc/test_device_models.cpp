// SPDX-License-Identifier: Apache-2.0
// --device-model, `rlxc device-models` and `rlxc estimate` as users meet them.
#include <nlohmann/json.hpp>

#include "tests/rlxc/tool_run.h"
#include "tests/support/catch.h"

using namespace rlx::test;

namespace {

using Json = nlohmann::ordered_json;

ToolResult expect_code(int code, const Workplace& place,
                       const std::vector<std::string>& arguments) {
  const ToolResult result = place.rlxc(arguments);
  INFO("output: " << result.output << "\nerrors: " << result.errors);
  CHECK(result.exit_code == code);
  return result;
}

bool says(const ToolResult& result, const std::string& part) {
  INFO("output: " << result.output << "\nerrors: " << result.errors);
  CHECK((result.output + result.errors).find(part) != std::string::npos);
  return true;
}

ToolResult compile_with(int code, const Workplace& place, std::vector<std::string> more,
                        const std::string& plan = "m.plan") {
  std::vector<std::string> arguments = {place.write("m.json", small_model()), "-o",
                                        place.path(plan), "--dim", "batch=4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return expect_code(code, place, arguments);
}

}  // namespace

TEST_CASE("a device model begins with a built-in one, and the plan tells its name") {
  const Workplace place;
  says(expect_code(0, place, {"device-models"}), "generic-vulkan");
  says(expect_code(0, place, {"device-models", "--numbers"}), "library.short_float");
  Json model = Json::parse(expect_code(0, place, {"device-models", "h200"}).output);
  compile_with(0, place, {});
  compile_with(0, place, {"--device-model", "h200"}, "same.plan");
  CHECK(read_file(place.path("m.plan")) == read_file(place.path("same.plan")));
  model["name"] = "my card";
  model["targets"]["vulkan"]["multiprocessors"] = 3;
  const std::string file = place.write("card.json", model.dump());
  compile_with(0, place, {"--device-model", "vulkan=" + file}, "card.plan");
  says(expect_code(0, place, {"inspect", place.path("card.plan"), "--why"}),
       "vulkan: device model my card");
}

TEST_CASE("a plan is tuned on a device, and made again without one") {
  const Workplace place;
  says(compile_with(0, place, {"--tune=null"}), "tuned vulkan for null");
  says(expect_code(0, place, {"inspect", place.path("m.plan"), "--why"}),
       "vulkan: forms tuned on null");
  compile_with(0, place, {"--tune=locked", "--tuned", place.path("m.plan.tuned.json")},
               "again.plan");
  CHECK(read_file(place.path("m.plan")) == read_file(place.path("again.plan")));
  says(compile_with(2, place, {"--tune=locked"}, "other.plan"), "other.plan.tuned.json");
  says(compile_with(1, place, {"--tune=locked", "--target", "vulkan-cpu"}), "for target vulkan");
  says(compile_with(1, place, {"--tuned", "x.json"}), "--tune");
}

TEST_CASE("forms are tuned at one size") {
  const Workplace place;
  const std::string model = place.write("m.json", small_model());
  const ToolResult free =
      place.rlxc({model, "-o", place.path("m.plan"), "--dim", "batch=1:4", "--tune=null"});
  CHECK(free.exit_code != 0);
  says(free, "--dim batch=4");
}

TEST_CASE("the model of a CPU takes products by lanes, and no other device hears of them") {
  const Workplace place;
  const std::string model = place.write("m.json", R"({"rlx_graph": 1, "name": "m",
    "inputs": [{"name": "a", "dtype": "f32", "shape": [128, 64]},
               {"name": "b", "dtype": "f32", "shape": [64, 96]}],
    "nodes": [{"name": "n", "op": "matmul", "inputs": ["a", "b"], "outputs": ["y"]}],
    "outputs": ["y"]})");
  const auto why = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {model, "-o", place.path("m.plan"), "--target", "vulkan"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_code(0, place, arguments);
    return expect_code(0, place, {"inspect", place.path("m.plan"), "--why"}).output;
  };
  CHECK(why({"--device-model", "lavapipe"}).find("matmul_lanes for matmul") != std::string::npos);
  CHECK(why({}).find("matmul_lanes") == std::string::npos);
  CHECK(
      why({"--device-model", "lavapipe", "--without", "matmul_lanes"}).find("matmul for matmul") !=
      std::string::npos);
}

TEST_CASE("the model of a CPU takes attention by lanes, of one query too") {
  const Workplace place;
  const auto why = [&](const std::string& queries, std::vector<std::string> arguments) {
    const std::string kv = R"("dtype": "f32", "shape": [1, 40, 2, 16]})";
    const std::string model = place.write("m.json", R"({"rlx_graph": 1, "name": "m", "inputs": [
      {"name": "q", "dtype": "f32", "shape": [1, )" + queries +
                                                        R"(, 2, 16]},
      {"name": "k", )" + kv + R"(, {"name": "v", )" + kv +
                                                        R"(],
      "nodes": [{"name": "n", "op": "attention", "inputs": ["q", "k", "v"], "outputs": ["y"],
                 "attributes": {"num_heads": 2, "head_dim": 16}}],
      "outputs": ["y"]})");
    for (const char* each : {"--target", "vulkan", "-o"}) arguments.emplace_back(each);
    arguments.push_back(place.path("m.plan"));
    arguments.push_back(model);
    expect_code(0, place, arguments);
    return expect_code(0, place, {"inspect", place.path("m.plan"), "--why"});
  };
  says(why("64", {"--device-model", "lavapipe"}), "eight lanes: tiles of 32 rows, 4 workgroups");
  says(why("1", {"--device-model", "lavapipe"}), "eight lanes: tiles of 16 rows, 2 workgroups");
  says(why("40", {"--device-model", "lavapipe", "--without", "attention_lanes"}),
       "attention for attention");
  CHECK(why("40", {}).output.find("attention_lanes") == std::string::npos);
}

TEST_CASE("convolutions that differ in sizes alone run one kernel on a CPU") {
  const Workplace place;
  const std::string model = place.write("m.json", R"({"rlx_graph": 1, "name": "m",
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 8, 6, 6]},
               {"name": "v", "dtype": "f32", "shape": [16, 8, 3, 3]},
               {"name": "w", "dtype": "f32", "shape": [20, 16, 3, 3]}],
    "nodes": [{"name": "a", "op": "conv", "inputs": ["x", "v"], "outputs": ["h"]},
              {"name": "b", "op": "conv", "inputs": ["h", "w"], "outputs": ["y"]}],
    "outputs": ["y"]})");
  const auto kernels = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {model, "-o", place.path("m.plan"), "--target", "vulkan"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_code(0, place, arguments);
    return expect_code(0, place, {"inspect", place.path("m.plan"), "--kernels"});
  };
  says(kernels({"--device-model", "lavapipe"}), "matmul_lanes for 2 steps");
  const ToolResult portable = kernels({});
  says(portable, "conv for 1 step");
  CHECK(portable.output.find("conv for 2 steps") == std::string::npos);
}

TEST_CASE("device models that say nothing of a target are refused with what to do") {
  const Workplace place;
  says(compile_with(1, place, {"--device-model", "h300"}),
       "there is no file h300, and built-in models are h200, generic-cuda");
  says(compile_with(1, place, {"--device-model", "generic-cuda"}),
       "device model \"generic-cuda\" says nothing of target vulkan, only of cuda; name one for "
       "each target, as --device-model vulkan=h200");
  says(compile_with(1, place, {"--target", "vulkan,cuda", "--device-model", "lavapipe"}),
       "device model \"lavapipe\" says nothing of target cuda");
  says(compile_with(1, place, {"--device-model", "cuda=h200"}),
       "--device-model names target cuda, which is not asked for");
  says(compile_with(1, place, {"--device-model", "h200", "--device-model", "lavapipe"}),
       "--device-model is given twice for all targets");
  const std::string broken = place.write("broken.json", R"({"rlx_device_model": 1})");
  says(compile_with(2, place, {"--device-model", broken}),
       "device model has no field \"name\" [bad-field]");
}

TEST_CASE("estimates are printed for each step, and again for each device model that follows") {
  const Workplace place;
  const std::string model = place.write("m.json", small_model());
  const Json json = Json::parse(
      expect_code(0, place, {"estimate", model, "--dim", "batch=4", "--device-model", "h200"})
          .output);
  CHECK(json.at("schema_version") == 1);
  REQUIRE(json.at("models").size() == 1);
  const Json& steps = json["models"][0]["steps"];
  REQUIRE_FALSE(steps.empty());
  for (const char* key : {"kernel", "node", "flops", "bytes", "us"}) CHECK(steps[0].contains(key));
  CHECK(steps[0]["us"].get<double>() > 0);
  says(expect_code(1, place, {"estimate", model, "--target", "metal"}), "target \"metal\"");
  // What names the target comes before what names none.
  const auto first_step = [&](const std::vector<std::string>& models) {
    std::vector<std::string> arguments = {"estimate", model, "--dim", "batch=4"};
    for (const std::string& name : models) {
      arguments.emplace_back("--device-model");
      arguments.push_back(name);
    }
    return Json::parse(expect_code(0, place, arguments).output)["models"][0]["steps"][0]["us"]
        .get<double>();
  };
  CHECK(first_step({"vulkan=lavapipe", "h200"}) == first_step({"lavapipe"}));
  CHECK(first_step({"h200", "vulkan=lavapipe"}) == first_step({"lavapipe"}));
  CHECK(first_step({"lavapipe"}) > 5 * first_step({"h200"}));
}

TEST_CASE("a recurrent layer takes no kernel that the device has too little shared memory for") {
  const Workplace place;
  const auto kernels = [&](int hidden, const std::string& device) {
    const std::string h = std::to_string(hidden);
    const std::string wide = std::to_string(4 * hidden);
    const std::string model = place.write(
        "layer.json",
        R"({"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 50, )" + wide +
            R"(]}], "params": [{"name": "w", "dtype": "f16", "shape": [1, )" + wide + ", " + h +
            R"(], "data": {"splat": 0.1}}],
            "nodes": [{"name": "l", "op": "recurrence", "inputs": ["x", "w"], "outputs": ["y"],
                       "attributes": {"cell": "lstm"}}], "outputs": ["y"]})");
    return expect_code(0, place, {"estimate", model, "--target", "cuda", "--device-model", device})
        .output;
  };
  CHECK(kernels(1024, "h200").find("recurrence_together") != std::string::npos);
  CHECK(kernels(1024, "generic-cuda").find("recurrence_together") == std::string::npos);
  CHECK(kernels(256, "h200").find("recurrence_cluster") != std::string::npos);
  CHECK(kernels(256, "generic-cuda").find("recurrence_cluster") == std::string::npos);
}
