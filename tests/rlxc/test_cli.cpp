// SPDX-License-Identifier: Apache-2.0
// rlxc as its users meet it: commands, exit codes, messages, and what is on disk afterwards.
#include <sys/stat.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "tests/rlxc/tool_run.h"
#include "tests/support/catch.h"
#include "tests/support/program_laws.h"
#include "tools/npy/npy.h"

using namespace rlx;
using namespace rlx::test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Runs and expects an exit code; what was said is shown when the expectation fails.
ToolResult expect(int code, const Workplace& place, const std::vector<std::string>& arguments) {
  const ToolResult result = place.rlxc(arguments);
  INFO("output: " << result.output << "\nerrors: " << result.errors);
  CHECK(result.exit_code == code);
  return result;
}

std::vector<std::string> compile_arguments(const Workplace& place,
                                           std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {place.write("m.json", small_model()),
                                        "-o",
                                        place.path("m.plan"),
                                        "--target",
                                        "vulkan",
                                        "--dim",
                                        "batch=4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void write_floats(const std::string& path, std::vector<uint64_t> dims,
                  const std::vector<float>& values) {
  npy::Array array{.element = npy::Element::F32, .dims = std::move(dims), .data = {}};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  array.data.assign(bytes.begin(), bytes.end());
  REQUIRE(npy::write_npy(path, array).ok());
}

}  // namespace

TEST_CASE("a dim with several ranges becomes a program for each") {
  const Workplace place;
  const std::string model = place.write("m.json", small_model());
  const auto compile = [&](int code, const std::string& ranges) {
    return expect(code, place,
                  {model, "-o", place.path("m.plan"), "--target", "vulkan", "--dim",
                   "batch=" + ranges})
        .errors;
  };
  compile(0, "1,2:8");
  const auto inspect = [&](int code, std::vector<std::string> more) {
    more.insert(more.begin(), {"inspect", place.path("m.plan")});
    return expect(code, place, more);
  };
  const std::string all = inspect(0, {}).output;
  CHECK(contains(all, "entry \"main\" for vulkan, batch 2 to 8: "));
  CHECK(contains(all, "entry \"main\" for vulkan, batch 1: "));
  CHECK_FALSE(contains(inspect(0, {"--dim", "batch=3"}).output, "batch 1: "));
  CHECK_FALSE(contains(inspect(0, {"--dim", "batch=1"}).output, "batch 2 to 8: "));
  compile(0, "1:2,6:8");
  CHECK(
      contains(inspect(1, {"--dim", "batch=4"}).errors, "none of the plan's ranges has batch = 4"));
  CHECK(contains(compile(2, "1:2,8"), "the last range of symbol \"batch\" has one value, 8"));
  for (const char* ranges : {"1:2,2:8", "4:8,1:2", "1:2,", ",1:2", "1:2,x", "1:8/1", "1:8/"})
    CHECK(contains(compile(1, ranges), "or several, ascending and apart"));
  CHECK(contains(
      expect(1, place,
             {"reference", model, "--dim", "batch=1:2,3:4", "--inputs", "x.npy", "--outputs", "y"})
          .errors,
      "several ranges"));
}

TEST_CASE("a dim's range is cut at a part of its largest value, and at that of this") {
  const Workplace place;
  std::string text = small_model();
  text.replace(text.find("\"max\": 8"), 8, "\"max\": 99");
  const std::string model = place.write("m.json", text);
  const auto ranges_of = [&](const std::string& range) {
    expect(0, place,
           {model, "-o", place.path("m.plan"), "--target", "vulkan", "--dim", "batch=" + range});
    return expect(0, place, {"inspect", place.path("m.plan")}).output;
  };
  const std::string halves = ranges_of("3:20/2");
  for (const char* range : {"batch 11 to 20: ", "batch 6 to 10: ", "batch 3 to 5: "})
    CHECK(contains(halves, range));
  const std::string steps = ranges_of("24:64:8/2");
  CHECK(contains(steps, "batch 40 to 64"));
  CHECK(contains(steps, "batch 24 to 32"));
  CHECK(contains(ranges_of("1:96/4"), "batch 25 to 96: "));
  CHECK(contains(ranges_of("1:3/2"), "batch 1: "));
  CHECK_FALSE(contains(ranges_of("5:8/2"), ", batch"));
  const std::string parts = ranges_of("20:32/1.25");
  for (const char* range : {"batch 26 to 32: ", "batch 21 to 25: ", "batch 20: "})
    CHECK(contains(parts, range));
  const std::string tiles = ranges_of("70:99/1.25");
  for (const char* range : {"batch 81 to 99: ", "batch 70 to 80: "}) CHECK(contains(tiles, range));
  CHECK(contains(ranges_of("1:81/1.25"), "batch 65 to 81: "));
  CHECK(contains(ranges_of("16:96:16/1.25"), "batch 80 to 96"));
  CHECK_FALSE(contains(ranges_of("1:2/2"), ", batch"));
  for (const char* factor : {"1", "1.09", "0", "1.", ".5", "1.234", "-2", "2x", "2.x", ""}) {
    const ToolResult refused =
        expect(1, place,
               {model, "-o", place.path("m.plan"), "--dim", std::string("batch=1:32/") + factor});
    CHECK(contains(refused.errors, "NAME=MIN:MAX/FACTOR"));
  }
}

TEST_CASE("a model compiles to a plan that verifies; one line says what came of it") {
  const Workplace place;
  const ToolResult compiled = expect(0, place, compile_arguments(place));
  CHECK(contains(compiled.output, "m.plan: "));
  CHECK(contains(compiled.output, "(1.000 of its bound)"));
  CHECK(std::count(compiled.output.begin(), compiled.output.end(), '\n') == 1);
  CHECK(compiled.errors.empty());  // no progress where there is no terminal
  CHECK(contains(expect(0, place, {"verify", place.path("m.plan")}).output, "verified"));
  for (const char* view : {"--memory", "--steps", "--kernels", "--sizes", "--why"}) {
    CHECK_FALSE(expect(0, place, {"inspect", place.path("m.plan"), view}).output.empty());
    const ToolResult json = expect(0, place, {"inspect", place.path("m.plan"), view, "--json"});
    CHECK(nlohmann::json::accept(json.output));
  }
  const auto inspect_at = [&](int code, const char* dim) {
    return expect(code, place, {"inspect", place.path("m.plan"), "--dim", dim}).errors;
  };
  CHECK(contains(inspect_at(1, "width=2"), "the plan has no symbol \"width\""));
  CHECK(contains(inspect_at(1, "batch"), "\"batch\" is not NAME=N"));
  expect(0, place, {"inspect", place.path("m.plan"), "--svg", place.path("m.svg")});
  CHECK(contains(read_file(place.path("m.svg")), "<svg"));
  expect(0, place, {"inspect", place.path("m.plan"), "--graph", place.path("g.svg")});
  CHECK(contains(read_file(place.path("g.svg")), "step 0: product"));
  expect(0, place, {"inspect", place.path("m.plan"), "--html", place.path("m.html")});
  CHECK(contains(read_file(place.path("m.html")), "data-part=\"summary\">{\"name\":\"small\""));
  CHECK(contains(expect(2, place,
                        {"inspect", place.path("m.plan"), "--html", place.path("m.html"),
                         "--profile", place.path("m.plan")})
                     .errors,
                 "the profile is no JSON object"));
  CHECK(contains(
      expect(1, place,
             {"inspect", place.path("m.plan"), "--svg", place.path("n.svg"), "--entry", "x"})
          .errors,
      "entries are main"));
}

TEST_CASE("diff says by its exit code whether two plans are equal, and what differs") {
  const Workplace place;
  const std::string a = place.path("m.plan");
  const std::string b = place.path("n.plan");
  expect(0, place, compile_arguments(place));
  std::filesystem::copy_file(a, b);
  CHECK(expect(0, place, {"diff", a, b}).output == "the plans are equal\n");
  expect(0, place, compile_arguments(place, {"-O0"}));
  const ToolResult differ = expect(1, place, {"diff", a, b});
  CHECK(contains(differ.output,
                 "~ entry \"main\" for vulkan: 3 steps in 3 waves -> 1 step in 1 wave"));
  CHECK(contains(differ.output, "- entry \"main\" for vulkan: step \"sum\": step 1, region"));
  CHECK(contains(differ.output, "step \"product\": RLX_ACTIVATION: 0 -> 1"));
  const auto json = nlohmann::json::parse(expect(1, place, {"diff", a, b, "--json"}).output);
  CHECK(json["schema_version"] == 1);
  CHECK(json["equal"] == false);
  CHECK_FALSE(json["differences"]["steps"].empty());
  CHECK(json["differences"]["weights"].empty());
  place.write("n.plan", read_file(b).substr(0, 5000));
  CHECK(contains(expect(2, place, {"diff", a, b}).errors, "V1.5"));
  CHECK(contains(expect(2, place, {"diff", a, place.path("none.plan")}).errors, "none.plan"));
  expect(2, place, {"diff", a});
}

TEST_CASE("explain tells each code, and says so where there is none") {
  const Workplace place;
  CHECK(contains(expect(0, place, {"explain", "[bad-shape]"}).output, "cure "));
  CHECK(contains(expect(0, place, {"explain", "v1.5"}).output, "as long as its header says"));
  CHECK(contains(expect(0, place, {"explain"}).output, "V14.12"));
  CHECK(contains(expect(1, place, {"explain", "bad"}).errors, "there is no code \"bad\""));
  const auto json = nlohmann::json::parse(expect(0, place, {"explain", "--json"}).output);
  CHECK(json["codes"].size() > 150);
}

TEST_CASE("every command's help ends with an example") {
  const Workplace place;
  const std::string all = expect(0, place, {"--help"}).output;
  CHECK(contains(all, "Example: rlxc model.onnx"));
  std::istringstream lines(all.substr(all.find("Subcommands:")));
  std::string line;
  std::getline(lines, line);
  uint32_t commands = 0;
  while (std::getline(lines, line) && line.starts_with("  ")) {
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    if (name.empty()) continue;  // a description's second line
    ++commands;
    INFO(name);
    CHECK(contains(expect(0, place, {name, "--help"}).output, "Example: rlxc " + name + " "));
  }
  CHECK(commands > 10);
}

TEST_CASE("--quiet says nothing and --json says it as JSON") {
  const Workplace place;
  const ToolResult quiet = expect(0, place, compile_arguments(place, {"--quiet"}));
  CHECK((quiet.output + quiet.errors).empty());
  const ToolResult json = expect(0, place, compile_arguments(place, {"--json"}));
  const auto summary = nlohmann::json::parse(json.output, nullptr, false);
  REQUIRE(summary.is_object());
  CHECK(summary["plan_bytes"] == std::filesystem::file_size(place.path("m.plan")));
}

TEST_CASE("the plan's bytes depend on model and options, not on folder, threads or cache") {
  const Workplace place;
  expect(0, place, compile_arguments(place, {"--no-cache", "-j1"}));
  const std::string reference = read_file(place.path("m.plan"));
  REQUIRE(reference.size() > 4096);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"-j2"}, {"-j1"}, {"-j3", "--cache", place.path("other cache")}}) {
    expect(0, place, compile_arguments(place, more));
    CHECK((read_file(place.path("m.plan")) == reference));
  }
  const std::string model = place.write("other folder/other name.json", small_model());
  expect(0, place, {model, "-o", place.path("other folder/p"), "--dim", "batch=4"});
  CHECK((read_file(place.path("other folder/p")) == reference));
  expect(0, place, {model, "-o", place.path("p"), "--dim", "batch=5"});
  CHECK((read_file(place.path("p")) != reference));
}

TEST_CASE("wrong use is told what is right") {
  const Workplace place;
  CHECK(contains(expect(1, place, {}).errors, "MODEL is missing"));
  const std::string own = place.write("own.json", small_model());
  std::filesystem::create_symlink("own.json", place.path("link.plan"));
  for (const std::string& output : {own, place.path("link.plan")})
    CHECK(contains(expect(1, place, {own, "-o", output, "--dim", "batch=4"}).errors,
                   "is the model itself"));
  CHECK(read_file(own) == small_model());
  CHECK(contains(expect(1, place, {"m.json"}).errors, "-o PLAN is missing"));
  CHECK(contains(expect(1, place, compile_arguments(place, {"--nvrtc", ""})).errors,
                 "--nvrtc: the value is empty"));
  CHECK(contains(expect(1, place, compile_arguments(place, {"--cache", own})).errors,
                 "is no folder"));
  CHECK(contains(expect(1, place, compile_arguments(place, {"--nvrtc", "x.so"})).errors,
                 "--nvrtc names the compiler for --target cuda"));
  expect(1, place, compile_arguments(place, {"--unknown"}));
  expect(1, place, compile_arguments(place, {"-O3"}));
  expect(1, place, compile_arguments(place, {"--precision", "f8"}));
  std::vector<std::string> other_target = compile_arguments(place);
  other_target[4] = "metal";
  CHECK(contains(expect(1, place, other_target).errors,
                 "targets are: vulkan, vulkan-khr-coop, vulkan-nvidia, vulkan-cpu, cuda"));
  CHECK(contains(expect(1, place, compile_arguments(place, {"--dump-after", "magic"})).errors,
                 "fuse-elementwise"));
  CHECK(contains(expect(1, place, compile_arguments(place, {"--dim", "batch"})).errors,
                 "NAME=NUMBER"));
  CHECK(contains(expect(1, place, compile_arguments(place, {"--dim", "batch=2"})).errors,
                 "given twice"));
  expect(1, place, compile_arguments(place, {"--no-cache", "--cache", place.path("c")}));
  CHECK(contains(expect(1, place, compile_arguments(place, {"--entry", "decode"})).errors,
                 "its entries are: \"main\""));
  for (const char* entry : {":batch=1", "a=", "a=:batch=1"}) {
    CHECK(contains(expect(1, place, compile_arguments(place, {"--entry", entry})).errors,
                   "is not NAME[=ENTRY][:DIM=NUMBER,...]"));
  }
  CHECK(contains(expect(1, place, compile_arguments(place, {"--entry", "a:batch"})).errors,
                 "--entry a: \"batch\" is not NAME=NUMBER"));
  expect(1, place, {"inspect", place.path("m.plan"), "--memory", "--steps"});
  CHECK_FALSE(std::filesystem::exists(place.path("m.plan")));
}

TEST_CASE("--arch and --nvrtc are for CUDA and say what is right") {
  const Workplace place;
  std::vector<std::string> cuda = compile_arguments(place, {"--no-cache"});
  cuda[4] = "cuda";
  const auto with = [](std::vector<std::string> arguments, std::vector<std::string> more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  CHECK(contains(expect(1, place, with(cuda, {"--arch", "sm_80,sm_70"})).errors,
                 "no architecture \"sm_70\"; architectures are sm_80,sm_86,"));
  CHECK(contains(expect(1, place, compile_arguments(place, {"--arch", "sm_80"})).errors,
                 "--arch names architectures for --target cuda"));
  const std::string missing =
      expect(5, place, with(cuda, {"--nvrtc", place.path("libnvrtc.so.13")})).errors;
  CHECK(contains(missing, "--target cuda needs NVRTC"));
  CHECK(contains(missing, "--target vulkan needs none"));
  CHECK_FALSE(std::filesystem::exists(place.path("m.plan")));
}

TEST_CASE("a refused model names file, place and what was wanted, and leaves no plan") {
  const Workplace place;
  const auto refuse = [&](const std::string& text) {
    const std::string model = place.write("bad.json", text);
    const ToolResult result =
        expect(2, place, {model, "-o", place.path("bad.plan"), "--dim", "batch=4"});
    CHECK(contains(result.errors, "bad.json:"));
    CHECK_FALSE(std::filesystem::exists(place.path("bad.plan")));
    return result.errors;
  };
  CHECK(contains(refuse("{\"rlx_graph\": 1,\n \"nodes\": [}"), "[syntax]"));
  const std::string ops = refuse(small_model(R"(
      {"name": "a", "op": "reluu", "inputs": ["x"], "outputs": ["h"]},
      {"name": "b", "op": "frobnicate", "inputs": ["h"], "outputs": ["y"]})"));
  CHECK(contains(ops, "reluu"));
  CHECK(contains(ops, "frobnicate"));
  CHECK(contains(ops, "relu"));  // the hint
  CHECK(contains(
      refuse(small_model(R"({"name": "a", "op": "softmax", "inputs": ["x"], "outputs": ["y"],
                                        "attributes": {"axis": 4}})")),
      "[bad-axis]"));
  const ToolResult unbound =
      expect(2, place, {place.write("m.json", small_model()), "-o", place.path("x.plan")});
  CHECK(contains(unbound.errors, "--dim batch=N"));
  CHECK(contains(expect(2, place, {place.path("nowhere.json"), "-o", place.path("x.plan")}).errors,
                 "nowhere.json"));
}

TEST_CASE(
    "a tensor of more elements than the workgroups of a kernel reach is refused by its node") {
  const Workplace place;
  for (const char* node : {R"("cast", "attributes": {"to": "i8"})", R"("softmax")", R"("sort")",
                           R"("reduce_sum", "attributes": {"axes": [1]})",
                           R"("transpose", "attributes": {"perm": [1, 0]})"}) {
    const std::string model = place.write(
        "large.json",
        R"({"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "f16", "shape": [274877906944, 256]}],
            "nodes": [{"inputs": ["x"], "outputs": ["y"], "op": )" +
            std::string(node) + R"(}], "outputs": ["y"]})");
    CAPTURE(node);
    const ToolResult result = expect(2, place, {model, "-o", place.path("large.plan")});
    CHECK(contains(result.errors, ": a kernel of it would be "));
    CHECK(contains(result.errors, "[limit]"));
  }
}

TEST_CASE(
    "an output path that cannot be written is a matter of resources and keeps what was there") {
  const Workplace place;
  const std::string model = place.write("m.json", small_model());
  expect(5, place, {model, "-o", place.path("m.json") + "/x.plan", "--dim", "batch=4"});
  std::filesystem::create_directory(place.path("folder.plan"));
  CHECK(contains(
      expect(5, place, {model, "-o", place.path("folder.plan"), "--dim", "batch=4"}).errors,
      "folder"));
  CHECK(read_file(model) == small_model());
}

TEST_CASE("passes can be watched") {
  const Workplace place;
  CHECK(contains(
      expect(0, place, compile_arguments(place, {"--dump-after", "fuse-epilogues"})).output,
      "matmul"));
  CHECK(
      contains(expect(0, place, compile_arguments(place, {"--time-passes"})).errors, "write plan"));
  expect(0, place, compile_arguments(place, {"-O0"}));
  expect(0, place, compile_arguments(place, {"-O", "1", "--disable-pass", "merge-common"}));
}

TEST_CASE("a plan does not replace a file of the model's weights") {
  const Workplace place;
  const std::string header = R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})";
  const uint64_t size = header.size();
  const std::string stored =
      std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + std::string(8, 0);
  const std::string weights = place.write("w.safetensors", stored);
  const std::string model = place.write("m.json", R"({"rlx_graph": 1,
    "params": [{"name": "w", "dtype": "f32", "shape": [2], "data": {"safetensors": "w.safetensors"}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [2]}],
    "nodes": [{"name": "sum", "op": "add", "inputs": ["x", "w"], "outputs": ["y"]}],
    "outputs": ["y"]})");
  CHECK(contains(expect(1, place, {model, "-o", weights, "--target", "vulkan"}).errors,
                 "holds weights of the model"));
  CHECK(read_file(weights) == stored);
}

TEST_CASE("inspect --why prints what each kernel of a table would take, or why it does not") {
  const Workplace place;
  place.write("net.json", R"({"rlx_graph": 1,
    "params": [{"name": "w", "dtype": "f32", "shape": [32, 24], "data": {"splat": 1}},
               {"name": "f", "dtype": "f32", "shape": [8, 4, 3, 3], "data": {"splat": 1}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [16, 32]},
               {"name": "image", "dtype": "f32", "shape": [1, 4, 8, 8]},
               {"name": "q", "dtype": "f32", "shape": [1, 8, 2, 8]}],
    "nodes": [{"name": "product", "op": "matmul", "inputs": ["x", "w"], "outputs": ["y"]},
              {"name": "window", "op": "conv", "inputs": ["image", "f"], "outputs": ["z"]},
              {"name": "heads", "op": "attention", "inputs": ["q", "q", "q"], "outputs": ["a"],
               "attributes": {"num_heads": 2, "head_dim": 8}}],
    "outputs": ["y", "z", "a"]})");
  expect(0, place,
         {place.path("net.json"), "-o", place.path("net.plan"), "--target", "vulkan", "-q"});
  const std::string why = expect(0, place, {"inspect", place.path("net.plan"), "--why"}).output;
  for (const char* row :
       {"matmul_coop    the target has no such kernel", "matvec         more than 4 vectors",
        "library        the target has no library", "or else matmul         ",
        "conv_mma ring            the target has no such kernel",
        "product                  a window that is more than the pixel itself",
        "conv_depthwise           filters of several channels", "or else conv                  ",
        "attention_decode  more than 4 queries", "or else attention         "}) {
    INFO(row << "\n" << why);
    CHECK(contains(why, row));
  }
}

TEST_CASE("--without leaves kernels out, and refuses names and choices that leave none") {
  const Workplace place;
  expect(0, place, compile_arguments(place, {"--forbid", "matvec,library"}));
  const std::string why = expect(0, place, {"inspect", place.path("m.plan"), "--why"}).output;
  CHECK(contains(why, "left out by --without"));
  const ToolResult unknown = expect(1, place, compile_arguments(place, {"--without", "matmull"}));
  CHECK(contains(unknown.errors, "\"matmull\""));
  CHECK(contains(unknown.errors, "matmul_mma"));
  const ToolResult none =
      expect(2, place, compile_arguments(place, {"--without", "matvec,matmul"}));
  CHECK(contains(none.errors, "\"product\""));
  CHECK(contains(none.errors, "no kernel takes it"));
}

TEST_CASE("--prefer takes a kernel wherever it fits, and refuses what no kernel is called") {
  const Workplace place;
  const auto product = [&](const std::vector<std::string>& options) {
    expect(0, place, compile_arguments(place, options));
    return expect(0, place, {"inspect", place.path("m.plan"), "--why"}).output;
  };
  CHECK(contains(product({}), ": matvec for "));
  const std::string preferred = product({"--prefer", "matmul"});
  CHECK(contains(preferred, ": matmul for "));
  CHECK_FALSE(contains(preferred, ": matvec for "));
  CHECK(contains(preferred, "vulkan: --prefer matmul"));
  CHECK(contains(expect(1, place, compile_arguments(place, {"--prefer", "matmull"})).errors,
                 "--prefer \"matmull\": no kernel of that name"));
  CHECK(contains(
      expect(1, place, compile_arguments(place, {"--prefer", "matmul", "--without", "matmul"}))
          .errors,
      "--without leaves it out"));
}

TEST_CASE("--precision and --no-debug make other plans that verify") {
  const Workplace place;
  for (const char* precision : {"f16", "bf16"}) {
    expect(0, place, compile_arguments(place, {"--precision", precision}));
    expect(0, place, {"verify", place.path("m.plan")});
  }
  expect(0, place, compile_arguments(place));
  CHECK(contains(read_file(place.path("m.plan")), "product"));  // a node's name
  expect(0, place, compile_arguments(place, {"--no-debug"}));
  CHECK_FALSE(contains(read_file(place.path("m.plan")), "product"));
  expect(0, place, {"verify", place.path("m.plan")});
}

TEST_CASE(
    "a kernel of --kernels replaces the embedded one, and its errors name kernel, node and line") {
  const Workplace place;
  place.write("k/shaders/matmul.kernel", "\nnonsense\n");
  place.write("k/shaders/matvec.kernel", "\nnonsense\n");
  const ToolResult result =
      expect(2, place, compile_arguments(place, {"--kernels", place.path("k"), "--no-cache"}));
  CHECK(contains(result.errors, "does not compile"));
  CHECK(contains(result.errors, ".kernel:2: error"));
  CHECK(contains(result.errors, "\"product\""));
  CHECK(
      contains(expect(2, place, compile_arguments(place, {"--kernels", place.path("none")})).errors,
               "neither"));
}

TEST_CASE("convert goes to the binary form and back without loss") {
  const Workplace place;
  expect(0, place, {"convert", place.write("m.json", small_model()), place.path("m.rlxg")});
  expect(0, place, {"convert", place.path("m.rlxg"), place.path("back.json")});
  expect(0, place, {"convert", place.path("back.json"), place.path("again.rlxg")});
  CHECK((read_file(place.path("m.rlxg")) == read_file(place.path("again.rlxg"))));
  expect(0, place,
         {place.path("m.json"), "-o", place.path("a.plan"), "--dim", "batch=4", "--no-debug"});
  expect(0, place,
         {place.path("m.rlxg"), "-o", place.path("b.plan"), "--dim", "batch=4", "--no-debug"});
  CHECK((read_file(place.path("a.plan")) == read_file(place.path("b.plan"))));
  expect(2, place, {"convert", place.path("nothing.json"), place.path("x.rlxg")});
}

TEST_CASE("ops lists every operator in text and in JSON") {
  const Workplace place;
  const ToolResult text = expect(0, place, {"ops"});
  const auto json =
      nlohmann::json::parse(expect(0, place, {"ops", "--json"}).output, nullptr, false);
  REQUIRE(json.is_object());
  CHECK(json.at("schema_version") == 1);
  std::set<std::string> names;
  for (const auto& op : json.at("operators")) {
    names.insert(op["name"].get<std::string>());
    CHECK(contains(text.output, op["signature"].get<std::string>() + "\n"));
  }
  CHECK(names.size() == json.at("operators").size());
  for (const char* name : {"matmul", "softmax", "attention", "conv", "layer_norm", "gather"})
    CHECK(names.count(name) == 1);
}

TEST_CASE("ops tells what conformance found, and the document in the tree is what it prints") {
  const Workplace place;
  const auto json = nlohmann::json::parse(expect(0, place, {"ops", "--json"}).output);
  for (const auto& op : json.at("operators")) {
    INFO(op["name"]);
    for (const auto& row : op["conformance"]) {
      REQUIRE(!row["runs"].empty());
      CHECK(row["runs"][0]["cases"] > 0);
      for (const auto& run : row["runs"]) CHECK(run["worst_ratio"] <= 1.0);
    }
  }
  INFO("make it anew: rlxc explain --markdown > tools/CODES.md");
  CHECK(expect(0, place, {"explain", "--markdown"}).output == read_file("tools/CODES.md"));
  INFO("make it anew: rlxc ops --markdown > compiler/ops/OPERATORS.md");
  CHECK(expect(0, place, {"ops", "--markdown"}).output == read_file("compiler/ops/OPERATORS.md"));
  INFO("make it anew: rlxc ops --reference --markdown > compiler/import/reference_ir/OPERATORS.md");
  CHECK(expect(0, place, {"ops", "--reference", "--markdown"}).output ==
        read_file("compiler/import/reference_ir/OPERATORS.md"));
#ifdef RLX_HAS_ONNX
  INFO("make it anew: rlxc ops --onnx --markdown > compiler/import/onnx/OPERATORS.md");
  CHECK(expect(0, place, {"ops", "--onnx", "--markdown"}).output ==
        read_file("compiler/import/onnx/OPERATORS.md"));
#endif
}

TEST_CASE("bench-arena packs a problem and says whether it fits") {
  const Workplace place;
  const std::string problem =
      place.write("p.csv", "id,lower,upper,size\na,0,4,10\nb,2,6,20\nc,4,9,10\nd,6,9,20\n");
  const ToolResult packed = expect(0, place, {"bench-arena", problem, "--capacity", "30B"});
  CHECK(contains(packed.output, "4 items, 30 bytes, lower bound 30, ratio 1.0000"));
  CHECK(contains(packed.output, ", fits 30"));
  const ToolResult full = expect(5, place, {"bench-arena", problem, "--capacity", "29", "--json"});
  const auto json = nlohmann::json::parse(full.output);
  CHECK(json.at("arena_bytes") == 30);
  CHECK(json.at("fits") == false);
  const std::string odd = place.write("odd.csv", "id,lower,upper,size\na,4,4,1\n");
  CHECK(contains(expect(2, place, {"bench-arena", odd}).errors, "odd.csv: line 2: live from 4"));
  CHECK(contains(expect(1, place, {"bench-arena", problem, "--dim", "batch=2"}).errors,
                 "go with a model"));
}

TEST_CASE("bench-arena plans a model with and without fusion and in-place results") {
  const Workplace place;
  const ToolResult planned = expect(0, place,
                                    {"bench-arena", place.write("m.json", small_model()), "--dim",
                                     "batch=4", "--target", "vulkan,cuda", "--json"});
  const auto rows = nlohmann::json::parse(planned.output).at("arenas");
  REQUIRE(rows.size() == 8);  // four variants of one entry on two targets
  CHECK(rows[0].at("variant") == "as compiled");
  CHECK(rows[0].at("steps") == 1);
  CHECK(rows[6].at("variant") == "no fusion, not in place");
  CHECK(rows[6].at("steps") == 3);
  CHECK(rows[6].at("arena_bytes") == 512);  // the product and the sum, each in a slot of 256
  CHECK(rows[4].at("arena_bytes") == 256);  // the sum takes the product's place
  CHECK(rows[0].at("arena_bytes") == 0);
}

TEST_CASE("reference runs the model on the host") {
  const Workplace place;
  const std::string model = place.write("m.json", small_model());
  write_floats(place.path("x.npy"), {2, 3}, {1, 2, 3, 0, 1, 0});
  expect(0, place,
         {"reference", model, "--dim", "batch=2", "--inputs", place.path("x.npy"), "--outputs",
          place.path("out")});
  npy::Array y;
  REQUIRE(npy::read_npy(place.path("out/y.npy"), y).ok());
  CHECK(y.dims == std::vector<uint64_t>{2, 2});
  std::vector<float> values(4);
  std::memcpy(values.data(), y.data.data(), y.data.size());
  CHECK(values ==
        std::vector<float>{0, 11.5f, 2.25f, 0});  // rows: [1+4-9+.25, -1+1+12-.5], [2.25, 0]
  expect(0, place,
         {"reference", model, "--dim", "batch=2", "--inputs", "x=" + place.path("x.npy"),
          "--outputs", place.path("out64"), "--float64"});
  REQUIRE(npy::read_npy(place.path("out64/y.npy"), y).ok());
  CHECK(y.element == npy::Element::F64);

  const auto refuse = [&](const std::vector<std::string>& inputs) {
    std::vector<std::string> arguments = {"reference", model,       "--dim",
                                          "batch=2",   "--outputs", place.path("no")};
    if (!inputs.empty()) arguments.push_back("--inputs");
    arguments.insert(arguments.end(), inputs.begin(), inputs.end());
    return expect(2, place, arguments).errors;
  };
  CHECK(contains(refuse({}), "input \"x\" is missing; inputs are x f32[2, 3]"));
  CHECK(contains(refuse({"z=" + place.path("x.npy")}), "no input \"z\""));
  write_floats(place.path("wide.npy"), {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(contains(refuse({place.path("wide.npy")}), "got f32[2, 4], wanted f32[2, 3]"));
  CHECK_FALSE(std::filesystem::exists(place.path("no/y.npy")));
}

TEST_CASE("--entry binds symbols per entry, and the entries of a plan share its weights") {
  const Workplace place;
  const std::string model = place.write("m.json", small_model());
  const auto weights_with = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {model, "-o", place.path("e.plan")};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    expect(0, place, arguments);
    expect(0, place, {"verify", place.path("e.plan")});
    return nlohmann::json::parse(
        expect(0, place, {"inspect", place.path("e.plan"), "--json"}).output);
  };
  const auto one = weights_with({"--dim", "batch=2"});
  const auto two = weights_with({"--entry", "short:batch=2", "--entry", "long=main:batch=7"});
  CHECK(two["segments"]["weights_bytes"] == one["segments"]["weights_bytes"]);
  REQUIRE(two["entries"].size() == 2);
  CHECK(two["entries"][0]["name"] == "short");
  CHECK(two["entries"][0]["inputs"][0]["type"] == "f32[2,3]");
  CHECK(two["entries"][1]["name"] == "long");
  CHECK(two["entries"][1]["inputs"][0]["type"] == "f32[7,3]");
}

TEST_CASE("--keep makes values inside the model outputs, of the plan and of the reference") {
  const Workplace place;
  const std::string model = place.write("m.json", small_model());
  const auto outputs_with = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {model, "-o", place.path("k.plan"), "--dim", "batch=2"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    expect(0, place, arguments);
    const auto plan =
        nlohmann::json::parse(expect(0, place, {"inspect", place.path("k.plan"), "--json"}).output);
    std::vector<std::string> names;
    for (const auto& output : plan["entries"][0]["outputs"]) names.push_back(output["name"]);
    return names;
  };
  CHECK(outputs_with({}) == std::vector<std::string>{"y"});
  CHECK(outputs_with({"--keep", "h"}) == std::vector<std::string>{"y", "h"});
  CHECK(outputs_with({"--keep", "h,y"}) == std::vector<std::string>{"y", "h"});
  CHECK(outputs_with({"--keep-all"}).size() > 2);

  write_floats(place.path("x.npy"), {2, 3}, {1, 2, 3, 0, 1, 0});
  expect(0, place,
         {"reference", model, "--dim", "batch=2", "--inputs", place.path("x.npy"), "--outputs",
          place.path("out"), "--keep", "h"});
  CHECK(std::filesystem::exists(place.path("out/h.npy")));
  const std::string errors =
      expect(1, place, {model, "-o", place.path("no.plan"), "--dim", "batch=2", "--keep", "hh"})
          .errors;
  CHECK(contains(errors, "no node of the model gives a value \"hh\""));
  CHECK(contains(errors, "did you mean \"h\"?"));
}

TEST_CASE("verify refuses a plan that was cut or altered") {
  const Workplace place;
  expect(0, place, compile_arguments(place));
  const std::string plan = read_file(place.path("m.plan"));
  place.write("cut.plan", plan.substr(0, plan.size() - 1));
  expect(2, place, {"verify", place.path("cut.plan")});
  std::string altered = plan;
  altered.back() = static_cast<char>(altered.back() ^ 1);  // a weight
  place.write("altered.plan", altered);
  CHECK(contains(expect(2, place, {"verify", place.path("altered.plan")}).errors, "V1.15"));
  expect(2, place, {"inspect", place.path("missing.plan")});
}

TEST_CASE("a compile killed at any moment leaves the old plan, the new one or none") {
  const Workplace place;
  constexpr size_t kWeightBytes = size_t{8} << 20;
  place.write("w.bin", std::string(kWeightBytes, '\1'));
  const std::string model = place.write("m.json", R"({"rlx_graph": 1, "name": "big",
      "params": [{"name": "w", "dtype": "f32", "shape": [2097152], "data": {"raw": "w.bin"}}],
      "inputs": [{"name": "x", "dtype": "f32", "shape": [2097152]}],
      "nodes": [{"op": "add", "inputs": ["x", "w"], "outputs": ["y"]}], "outputs": ["y"]})");
  const std::string plan = place.path("out/big.plan");
  const std::vector<std::string> arguments = {model, "-o", plan, "-q"};
  expect(0, place, arguments);
  const std::string complete = read_file(plan);
  REQUIRE(complete.size() > kWeightBytes);
  std::mt19937 random(7);
  for (int round = 0; round < 25; ++round) {
    const bool had_plan = round % 2 == 0;
    if (had_plan)
      std::ofstream(plan, std::ios::binary) << "old";
    else
      std::filesystem::remove(plan);
    const pid_t child = place.start(arguments);
    usleep(random() % 60000);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (std::filesystem::exists(plan)) {
      const std::string left = read_file(plan);
      CHECK((left == complete || (had_plan && left == "old")));
    } else {
      CHECK_FALSE(had_plan);
    }
    for (const auto& file : std::filesystem::directory_iterator(place.path("out"))) {
      const std::string name = file.path().filename().string();
      CHECK((name == "big.plan" || name == "big.plan.partial"));
    }
  }
  expect(0, place, arguments);
  CHECK((read_file(plan) == complete));
  CHECK_FALSE(std::filesystem::exists(plan + ".partial"));
}

TEST_CASE("no output of rlxc replaces a device, a FIFO or a link") {
  const Workplace place;
  const std::string model = place.write("m.json", small_model());
  const auto compile_to = [&](int code, const std::string& plan) {
    return expect(code, place, {model, "-o", plan, "--dim", "batch=4"}).errors;
  };
  compile_to(0, "/dev/null");
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK(contains(compile_to(5, "/dev/full"), "No space left"));
  std::filesystem::create_symlink("real.plan", place.path("link.plan"));
  compile_to(0, place.path("link.plan"));
  CHECK(std::filesystem::is_symlink(place.path("link.plan")));
  expect(0, place, {"verify", place.path("real.plan")});
  const std::string plan = place.path("m.plan");
  compile_to(0, plan);
  const std::string fifo = place.path("fifo.json");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(contains(compile_to(5, fifo), "a FIFO that no process reads"));
  CHECK(
      contains(expect(5, place, {"convert", model, fifo}).errors, "a FIFO that no process reads"));
  CHECK(contains(expect(5, place, {"inspect", plan, "--svg", fifo}).errors, "a FIFO that no"));
  expect(0, place, {"inspect", plan, "--svg", "/dev/null"});
  CHECK(contains(expect(0, place, {"inspect", plan, "--svg", "/dev/stdout"}).output, "<svg"));
  const std::string link = place.path("link.rlxg");
  std::filesystem::create_symlink("real.rlxg", link);
  expect(0, place, {"convert", model, link});
  CHECK(std::filesystem::is_symlink(link));
  expect(0, place, {place.path("real.rlxg"), "-o", "/dev/null", "--dim", "batch=4"});
  CHECK(contains(expect(5, place, {"convert", model, place.path("") + "no/such/b.json"}).errors,
                 "No such file or directory"));
  write_floats(place.path("x.npy"), {4, 3}, std::vector<float>(12));
  CHECK(contains(expect(5, place,
                        {"reference", model, "--dim", "batch=4", "--inputs", place.path("x.npy"),
                         "--outputs", "/dev/null"})
                     .errors,
                 "/dev/null: cannot create this folder"));
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK(std::filesystem::is_fifo(fifo));
}

TEST_CASE("rlxc reads regular files only, and no more of an input than it wants") {
  const Workplace place;
  const std::string model = place.write("m.json", small_model());
  for (const char* name : {"f.json", "f.rlxg", "f.onnx", "f.plan", "f.npy", "f.npz", "f.csv"})
    REQUIRE(::mkfifo(place.path(name).c_str(), 0600) == 0);
  for (const char* name : {"f.json", "f.rlxg", "f.onnx"}) {
    CHECK(contains(expect(2, place, {place.path(name), "-o", place.path("x")}).errors,
                   "not a regular file"));
    CHECK(contains(expect(2, place, {"convert", place.path(name), place.path("x.json")}).errors,
                   "not a regular file"));
  }
  for (const char* command : {"verify", "inspect"}) {
    CHECK(contains(expect(2, place, {command, place.path("f.plan")}).errors, "no regular file"));
  }
  CHECK(contains(expect(2, place, {"bench-arena", place.path("f.csv")}).errors, "no regular file"));
  for (const char* name : {"f.npy", "f.npz"}) {
    CHECK(contains(expect(2, place,
                          {"reference", model, "--dim", "batch=4", "--inputs", place.path(name),
                           "--outputs", place.path("out")})
                       .errors,
                   "no regular file"));
  }
  write_floats(place.path("x.npy"), {4, 3}, std::vector<float>(12));
  CHECK(contains(
      expect(2, place,
             {"reference", model, "--dim", "batch=4", "--inputs", "x=" + place.path("x.npy"),
              "x=" + place.path("x.npy"), "--outputs", place.path("out")})
          .errors,
      "input \"x\" is given twice"));
}

TEST_CASE("two kernels whose cache entries were exchanged make the plans that they should") {
  const Workplace place;
  const auto model_of = [&](const std::string& op) {
    return place.write(
        op + ".json", R"({"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [64]},
             {"name": "y", "dtype": "f32", "shape": [64]}],
             "nodes": [{"op": ")" +
                          op + R"(", "inputs": ["x", "y"], "outputs": ["z"]}], "outputs": ["z"]})");
  };
  const auto plan_of = [&](const std::string& op, const std::string& cache) {
    expect(0, place, {model_of(op), "-o", place.path("p"), "--cache", place.path(cache)});
    return read_file(place.path("p"));
  };
  const std::string sum = plan_of("add", "sums");
  const std::string difference = plan_of("sub", "differences");
  REQUIRE(sum != difference);
  const auto only_entry = [&](const std::string& cache) {
    std::vector<std::filesystem::path> files;
    for (const auto& file : std::filesystem::directory_iterator(place.path(cache)))
      files.push_back(file.path());
    REQUIRE(files.size() == 1);
    return files.front();
  };
  std::filesystem::copy_file(only_entry("sums"), only_entry("differences"),
                             std::filesystem::copy_options::overwrite_existing);
  CHECK((plan_of("sub", "differences") == difference));
  CHECK((plan_of("sub", "differences") == difference));
}

TEST_CASE("a default cache that others may write to is not used, and that is said") {
  const Workplace place;
  expect(0, place, compile_arguments(place));
  const std::string reference = read_file(place.path("m.plan"));
  const std::filesystem::path cache = place.path("../cache/rlx");
  REQUIRE(std::filesystem::is_directory(cache));
  REQUIRE(::chmod(cache.c_str(), 0777) == 0);
  const ToolResult unsafe = expect(0, place, compile_arguments(place));
  CHECK(contains(unsafe.errors, "the kernel cache is not used"));
  CHECK(contains(unsafe.errors, "name it with --cache"));
  CHECK((read_file(place.path("m.plan")) == reference));
  CHECK(expect(0, place, compile_arguments(place, {"--cache", cache.string()})).errors.empty());
}

TEST_CASE("rlxc ends with 5 where it cannot print") {
  const Workplace place;
  expect(0, place, compile_arguments(place));
  const std::string program = bin_folder() + "/rlxc ";
  const std::string plan = place.path("m.plan");
  const std::string csv = place.write("p.csv", "id,lower,upper,size\na,0,4,10\n");
  for (const std::string& command :
       {std::string("--help"), std::string("--version"), std::string("convert --help"),
        std::string("ops"), std::string("ops --json"), std::string("ops --markdown"),
        std::string("ops --onnx"), "verify " + plan, "inspect " + plan, "inspect --json " + plan,
        "inspect --memory " + plan, "bench-arena " + csv, "bench-arena --json " + csv,
        place.path("m.json") + " -o " + place.path("q.plan") + " --no-cache --dim batch=4",
        place.path("m.json") + " -o " + place.path("q.plan") +
            " --no-cache --dim batch=4 --json"}) {
    check_unwritable_output(program + command);
  }
}

TEST_CASE("rlxc ends with 5 where memory runs out while its command line is set up") {
  const std::string program = bin_folder() + "/rlxc ";
  check_failing_allocations(program + "--version");
  check_failing_allocations(program + "inspect --help");
  check_failing_allocations(program + "tune --help");
}
