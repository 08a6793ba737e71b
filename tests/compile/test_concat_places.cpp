// SPDX-License-Identifier: Apache-2.0
// Where kernels write the parts of a concat, and which copies remain.
#include <tuple>

#include "compiler/lower/lower.h"
#include "compiler/passes/pass.h"
#include "schema/rounding.h"
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

// A graph as JSON; inputs and nodes are added in order.
class Network {
 public:
  explicit Network(std::string dtype) : dtype_(std::move(dtype)) {}

  Network& input(const std::string& name, const std::string& shape) {
    inputs_ += (inputs_.empty() ? "" : ", ") + std::string(R"({"name": ")") + name +
               R"(", "dtype": ")" + dtype_ + R"(", "shape": )" + shape + "}";
    return *this;
  }
  Network& node(const std::string& op, const std::string& inputs, const std::string& output,
                const std::string& attributes = "{}") {
    nodes_ += (nodes_.empty() ? "" : ", ") + std::string(R"({"op": ")") + op + R"(", "inputs": [)" +
              inputs + R"(], "outputs": [")" + output + R"("], "attributes": )" + attributes + "}";
    return *this;
  }
  [[nodiscard]] std::string text(const std::string& outputs) const {
    return R"({"rlx_graph": 1, "inputs": [)" + inputs_ + R"(], "nodes": [)" + nodes_ +
           R"(], "outputs": [)" + outputs + "]}";
  }

 private:
  std::string dtype_;
  std::string inputs_;
  std::string nodes_;
};

constexpr const char* kChannels = R"({"axis": 1})";
constexpr const char* kPadded = R"({"pads": [1, 1]})";
constexpr const char* kPool = R"({"kind": "max", "kernel": [3, 3], "pads": [1, 1]})";
constexpr const char* kMean = R"({"kind": "mean", "kernel": [2, 2], "stride": [2, 2]})";

Program lowered(const std::string& text, const char* target) {
  Module module = module_from(text);
  Graph& graph = module.entries.at(0);
  for (size_t i = 0; i < graph.outputs().size(); ++i) graph.output_names.push_back("y");
  Diagnostics diagnostics;
  std::vector<std::string> log;
  for (const PassStage stage : {PassStage::Neutral, PassStage::PerTarget}) {
    REQUIRE(run_passes(module, stage, {.target = find_target(target)}, diagnostics, log));
  }
  auto program = lower_entry(module, graph, {.target = find_target(target)}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(program.has_value());
  return std::move(*program);
}

// The reasons of the copies that join parts.
std::vector<std::string> joining_copies(const std::string& text, const char* target) {
  std::vector<std::string> reasons;
  for (const Step& step : lowered(text, target).steps) {
    if (step.op == "concat") reasons.push_back(step.reason);
  }
  return reasons;
}

bool begins_with(const std::string& text, const std::string& beginning) {
  return text.compare(0, beginning.size(), beginning) == 0;
}

// Four branches, two of them with odd counts of channels: a 1x1, a depthwise and a 3x3 convolution,
// and a pool; `images` of `size` pixels squared.
Network branches(const std::string& dtype, int64_t images, int64_t size) {
  const std::string pixels = std::to_string(size) + ", " + std::to_string(size) + "]";
  const std::string n = "[" + std::to_string(images);
  return Network(dtype)
      .input("x", n + ", 6, " + pixels)
      .input("r", n + ", 24, " + pixels)
      .input("w1", "[5, 6, 1, 1]")
      .input("w2", "[6, 1, 3, 3]")
      .input("w3", "[7, 6, 3, 3]")
      .node("conv", R"("x", "w1")", "a")
      .node("conv", R"("x", "w2")", "b", R"({"pads": [1, 1], "groups": 6})")
      .node("conv", R"("x", "w3")", "c", kPadded)
      .node("pool", R"("x")", "d", kPool)
      .node("concat", R"("a", "b", "c", "d")", "joined", kChannels);
}

// Three branches in whole pieces of 16 bytes of channels, as tensor cores write them.
Network even_branches(const std::string& dtype, int64_t images, int64_t size) {
  const std::string pixels = std::to_string(size) + ", " + std::to_string(size) + "]";
  const std::string n = "[" + std::to_string(images);
  return Network(dtype)
      .input("x", n + ", 8, " + pixels)
      .input("r", n + ", 24, " + pixels)
      .input("w1", "[8, 8, 1, 1]")
      .input("w3", "[8, 8, 3, 3]")
      .node("conv", R"("x", "w1")", "a")
      .node("conv", R"("x", "w3")", "c", kPadded)
      .node("pool", R"("x")", "d", kPool)
      .node("concat", R"("a", "c", "d")", "joined", kChannels);
}

// Device bytes of the outputs, on each device present.
std::vector<std::vector<Tensor>> results_of(const std::string& text,
                                            const std::vector<Tensor>& inputs) {
  Diagnostics diagnostics;
  const auto plan = compile_plan(module_from(text), test_options(2), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  std::vector<std::vector<Tensor>> results;
  for (const auto& device : present_devices().devices)
    results.push_back(TestSession(*device, plan).run(0, inputs, std::byte{0xA5}));
  return results;
}

const std::vector<const char*> kTargets = {"vulkan", "cuda"};

// The network computes without copies that join parts on these targets, and its outputs have the
// bits that they have where the parts, outputs too, are copied, and where these are read apart. f32
// also agrees with the evaluator; intermediate results of 16 bits are rounded.
void check_joined_by_kernels(const Network& network, const std::string& dtype,
                             const std::string& outputs, const std::string& parts,
                             const std::vector<const char*>& targets = kTargets) {
  const std::string placed = network.text(outputs);
  const std::string apart = network.text(outputs + ", " + parts);
  const bool has_joined = outputs.find("joined") != std::string::npos;
  const std::string copied =
      network.text(outputs + ", " + parts + (has_joined ? "" : R"(, "joined")"));
  INFO(placed);
  for (const char* target : targets) {
    CHECK(joining_copies(placed, target).empty());
    CHECK(!joining_copies(copied, target).empty());
  }
  const std::vector<Tensor> inputs = random_inputs(module_from(placed).entries[0]);
  const auto by_kernels = results_of(placed, inputs);
  const auto by_copies = results_of(copied, inputs);
  const auto from_parts = results_of(apart, inputs);
  for (size_t i = 0; i < by_kernels.size(); ++i) {
    for (size_t output = 0; output < by_kernels[i].size(); ++output) {
      CHECK(by_kernels[i][output].floats == by_copies[i].at(output).floats);
      CHECK(by_kernels[i][output].floats == from_parts[i].at(output).floats);
    }
  }
  if (dtype == "f32") check_on_devices(placed);
}

}  // namespace

TEST_CASE("kernels_write_the_parts_of_several_images") {
  for (const int64_t images : {2, 3}) {
    // Read by an elementwise op, a convolution, a pool and a reduction.
    const auto read = [](Network network) {
      network.input("w4", "[8, 24, 1, 1]")
          .node("add", R"("joined", "r")", "y0")
          .node("conv", R"("joined", "w4")", "y1")
          .node("pool", R"("joined")", "y2", kMean)
          .node("reduce_mean", R"("joined")", "y3", R"({"axes": [2, 3]})");
      return network;
    };
    const std::string outputs = R"("y0", "y1", "y2", "y3")";
    const std::string parts = R"("a", "b", "c", "d")";
    check_joined_by_kernels(read(branches("f32", images, 6)), "f32", outputs, parts);
    check_joined_by_kernels(read(branches("f16", images, 7)), "f16", outputs, parts, {"vulkan"});
    check_joined_by_kernels(read(even_branches("f16", images, 7)), "f16", outputs,
                            R"("a", "c", "d")");
  }
}

TEST_CASE("a_concat_that_is_an_output_is_written_by_kernels") {
  const std::string parts = R"("a", "b", "c", "d")";
  check_joined_by_kernels(branches("f32", 2, 5), "f32", R"("joined")", parts);
  check_joined_by_kernels(branches("f16", 3, 5), "f16", R"("joined")", parts, {"vulkan"});
  const auto reasons = joining_copies(even_branches("f16", 2, 5).text(R"("joined")"), "cuda");
  REQUIRE(reasons.size() == 2);
  for (const std::string& reason : reasons)
    CHECK(begins_with(reason, "matrix units write images channels last: "));
}

TEST_CASE("a_part_used_twice_is_copied_once") {
  Network network("f32");
  network.input("x", "[2, 3, 6, 6]")
      .input("w", "[5, 3, 3, 3]")
      .node("conv", R"("x", "w")", "a", kPadded)
      .node("concat", R"("a", "a")", "b", kChannels)
      .node("exp", R"("b")", "y");
  const std::string text = network.text(R"("y")");
  for (const char* target : {"vulkan", "cuda"}) CHECK(joining_copies(text, target).size() == 1);
  check_on_devices(text);
}

TEST_CASE("a_part_that_is_an_output_or_an_input_is_copied_and_says_so") {
  Network network = branches("f32", 2, 6);
  network.node("concat", R"("x", "joined")", "all", kChannels)
      .node("softmax", R"("all")", "y", kChannels);
  const std::string text = network.text(R"("y", "c")");
  for (const char* target : {"vulkan", "cuda"}) {
    const std::vector<std::string> reasons = joining_copies(text, target);
    REQUIRE(reasons.size() == 2);
    CHECK(begins_with(reasons[0], "no node's result: "));
    CHECK(begins_with(reasons[1], "an output of its own: "));
  }
  check_on_devices(text);
}

TEST_CASE("a_part_whose_op_writes_dense_results_is_copied_and_says_so") {
  Network network("f32");
  network.input("x", "[2, 3, 6, 6]")
      .input("w", "[5, 3, 3, 3]")
      .node("conv", R"("x", "w")", "a", kPadded)
      .node("softmax", R"("x")", "b", R"({"axis": 1})")
      .node("concat", R"("a", "b")", "c", kChannels);
  const std::string text = network.text(R"("c")");
  for (const char* target : {"vulkan", "cuda"}) {
    const std::vector<std::string> reasons = joining_copies(text, target);
    REQUIRE(reasons.size() == 1);
    CHECK(begins_with(reasons[0], "softmax writes dense results: "));
  }
  check_on_devices(text);
}

TEST_CASE("cooperative_matrices_write_the_parts_of_images") {
  for (const std::string dtype : {"f32", "f16"}) {
    Network network = even_branches(dtype, 2, 6);
    network.node("exp", R"("joined")", "y");
    check_joined_by_kernels(network, dtype, R"("y")", R"("a", "c", "d")", {"vulkan-nvidia"});
  }
  // Vectors of four channels begin at any element behind five.
  Network network = Network("f16")
                        .input("x", "[2, 8, 6, 6]")
                        .input("w5", "[5, 8, 3, 3]")
                        .input("w8", "[8, 8, 3, 3]")
                        .node("conv", R"("x", "w5")", "a", kPadded)
                        .node("conv", R"("x", "w8")", "b", kPadded)
                        .node("concat", R"("a", "b")", "joined", kChannels)
                        .node("softmax", R"("joined")", "y", kChannels);
  const auto reasons = joining_copies(network.text(R"("y")"), "vulkan-nvidia");
  REQUIRE(reasons.size() == 1);
  CHECK(begins_with(reasons[0], "cooperative matrices write aligned vectors: "));
}

// A convolution on matrix units, and a depthwise one behind it that follows its layout.
Network ghost(int64_t channels, int64_t depthwise) {
  const std::string c = std::to_string(channels);
  const std::string d = std::to_string(depthwise);
  Network network("f16");
  network.input("x", "[2, 64, 14, 14]")
      .input("w1", "[" + c + ", 64, 3, 3]")
      .input("w2", "[" + d + ", 1, 3, 3]")
      .input("w3", "[64, " + std::to_string(channels + depthwise) + ", 3, 3]")
      .node("conv", R"("x", "w1")", "a", kPadded);
  if (depthwise != channels)
    network.node("narrow", R"("a")", "cut", R"({"axis": 1, "start": 0, "len": )" + d + "}");
  network
      .node("conv", depthwise == channels ? R"("a", "w2")" : R"("cut", "w2")", "b",
            R"({"pads": [1, 1], "groups": )" + d + "}")
      .node("concat", R"("a", "b")", "joined", kChannels)
      .node("conv", R"("joined", "w3")", "y", kPadded);
  return network;
}

TEST_CASE("depthwise_convolutions_write_their_part_channels_last") {
  check_joined_by_kernels(ghost(64, 64), "f16", R"("y")", R"("a", "b")", {"cuda", "vulkan-nvidia"});
  // Six channels are no vectors, and with them pixels are no pieces of 16 bytes.
  const auto reasons = joining_copies(ghost(64, 6).text(R"("y")"), "cuda");
  REQUIRE(reasons.size() == 1);
  CHECK(begins_with(reasons[0], "matrix units write aligned pieces of 16 bytes; conv writes "));
}

TEST_CASE("depthwise_convolutions_that_run_at_once_keep_buffers_of_their_own") {
  const auto network = [](const std::string& reader, const std::string& attributes) {
    Network made("f16");
    made.input("x", "[2, 64, 14, 14]")
        .input("w1", "[64, 64, 3, 3]")
        .input("w2", "[32, 1, 3, 3]")
        .input("w3", "[32, 1, 5, 5]")
        .input("w4", "[64, 64, 3, 3]")
        .node("conv", R"("x", "w1")", "a", kPadded)
        .node("split", R"("a")", R"(p", "q)", R"({"axis": 1, "num": 2})")
        .node("conv", R"("p", "w2")", "b", R"({"pads": [1, 1], "groups": 32})")
        .node("conv", R"("q", "w3")", "c", R"({"pads": [2, 2], "groups": 32})")
        .node("concat", R"("b", "c")", "joined", kChannels)
        .node(reader, reader == "conv" ? R"("joined", "w4")" : R"("joined")", "y", attributes);
    return made.text(R"("y")");
  };
  for (const char* target : {"cuda", "vulkan-nvidia"}) {
    CHECK(joining_copies(network("tanh", "{}"), target).empty());
    const auto reasons = joining_copies(network("conv", kPadded), target);
    REQUIRE(reasons.size() == 1);
    CHECK(begins_with(reasons[0], "conv runs beside others that it is joined with: "));
  }
}

// Steps, of which none joins parts.
size_t steps_without_copies(const std::string& text, const char* target) {
  CHECK(joining_copies(text, target).empty());
  return lowered(text, target).steps.size();
}

TEST_CASE("elementwise_nodes_read_the_parts_of_a_concat_where_they_stand") {
  for (const std::string dtype : {"f32", "f16", "i8", "i64", "bool"}) {
    // Parts that are whole vectors and some that are not, along each axis.
    for (const auto& [axis, c, d] :
         {std::tuple{0, "[4, 8, 12]", "[3, 8, 12]"}, std::tuple{1, "[5, 4, 12]", "[5, 3, 12]"},
          std::tuple{2, "[5, 8, 4]", "[5, 8, 8]"}, std::tuple{2, "[5, 8, 3]", "[5, 8, 6]"},
          std::tuple{0, "[3]", "[4]"}, std::tuple{0, "[4]", "[7]"}}) {
      Network network(dtype);
      network.input("a", c).input("b", d).input("r", "[1]");
      const std::string joined = R"({"axis": )" + std::to_string(axis) + "}";
      network.node("concat", R"("a", "b", "a")", "joined", joined)
          .node("where", R"("cond", "joined", "r")", "y0")
          .node("eq", R"("joined", "joined")", "y1");
      std::string text = network.text(R"("y0", "y1")");
      text.insert(text.find(R"("inputs": [)") + 11,
                  R"({"name": "cond", "dtype": "bool", "shape": [1]}, )");
      INFO(text);
      for (const char* target : {"vulkan", "cuda"}) CHECK(steps_without_copies(text, target) == 2);
      check_on_devices(text);
    }
  }
}

TEST_CASE("parts_are_read_of_views_and_broadcast_along_other_axes") {
  Network network("f32");
  network.input("x", "[3, 20, 10]").input("z", "[3, 5, 20]").input("r", "[2, 3, 10, 17]");
  network.node("transpose", R"("x")", "t", R"({"perm": [0, 2, 1]})")
      .node("split", R"("t")", R"(p", "q)", R"({"axis": 2, "sizes": [9, 11]})")
      .node("slice", R"("z")", "s",
            R"({"axes": [1, 2], "starts": [2, 19], "ends": [3, -9], "steps": [1, -1]})")
      .node("expand", R"("s")", "e", R"({"shape": [3, 10, 8]})")
      .node("concat", R"("e", "p")", "joined", R"({"axis": 2})")
      .node("mul", R"("joined", "r")", "y")
      .node("concat", R"("p", "q", "p")", "others", R"({"axis": -1})")
      .node("tanh", R"("others")", "u");
  const std::string text = network.text(R"("y", "u")");
  // Parts whose elements stand in another order are turned first, each once.
  for (const char* target : {"vulkan", "cuda"}) CHECK(lowered(text, target).steps.size() == 4);
  check_on_devices(text);
}

TEST_CASE("a_part_in_place_of_which_something_is_written_is_read_before") {
  Network network("f32");
  network.input("x", "[6, 8]").input("z", "[6, 8]");
  network.node("exp", R"("x")", "a")
      .node("slice", R"("a")", "part", R"({"axes": [1], "starts": [2], "ends": [6]})")
      .node("concat", R"("part", "z")", "joined", R"({"axis": 1})")
      .node("index_copy", R"("a", "at", "z2")", "b", R"({"axis": 0})")
      .node("reduce_sum", R"("b")", "late", R"({"axes": [0, 1]})")
      .node("add", R"("joined", "late")", "y");
  std::string text = network.text(R"("y", "b")");
  text.insert(text.find(R"("inputs": [)") + 11,
              R"({"name": "at", "dtype": "i64", "shape": [2]}, )"
              R"({"name": "z2", "dtype": "f32", "shape": [2, 8]}, )");
  check_on_devices(text);
}

TEST_CASE("a_concat_that_more_than_elements_read_is_made") {
  const auto network = [] {
    Network made("f32");
    made.input("x", "[4, 12]").input("z", "[4, 7]");
    made.node("concat", R"("x", "z")", "joined", R"({"axis": 1})").node("exp", R"("joined")", "y");
    return made;
  };
  const auto copies = [](const std::string& text) { return joining_copies(text, "cuda").size(); };
  CHECK(copies(network().text(R"("y")")) == 0);
  // An output itself; read by a softmax besides; cut.
  CHECK(copies(network().text(R"("y", "joined")")) == 1);
  CHECK(
      copies(network().node("softmax", R"("joined")", "s", R"({"axis": 1})").text(R"("y", "s")")) ==
      1);
  CHECK(copies(network()
                   .node("narrow", R"("joined")", "n", R"({"axis": 1, "start": 3, "len": 12})")
                   .node("exp", R"("n")", "e")
                   .text(R"("y", "e")")) == 1);
  check_on_devices(network().text(R"("y", "joined")"));
}

TEST_CASE("more_parts_than_a_region_binds_are_copied_together") {
  for (const int64_t count : {14, 15, 40}) {
    Network network("f32");
    std::string parts;
    for (int64_t i = 0; i < count; ++i) {
      const std::string name = "p" + std::to_string(i);
      network.input(name, "[3, " + std::to_string(i % 5 + 1) + ", 2]");
      parts += (parts.empty() ? "\"" : ", \"") + name + "\"";
    }
    network.node("concat", parts, "joined", kChannels).node("exp", R"("joined")", "y");
    const std::string text = network.text(R"("y")");
    // A region has an output too, and might count indices.
    const size_t copies = count == 14 ? 0 : static_cast<size_t>(ceil_div(count, 15));
    for (const char* target : {"vulkan", "cuda"})
      CHECK(joining_copies(text, target).size() == copies);
    check_on_devices(text);
  }
}

TEST_CASE("layers_that_read_all_earlier_ones_copy_nothing") {
  for (const std::string dtype : {"f32", "f16"}) {
    // Each layer reads the concat of all parts before; a transition of half the size behind them.
    Network network(dtype);
    network.input("x", "[2, 8, 6, 6]").input("w0", "[8, 8, 3, 3]");
    network.node("conv", R"("x", "w0")", "p0", kPadded);
    std::string parts = R"("p0")";
    for (int64_t i = 1; i < 4; ++i) {
      const std::string number = std::to_string(i);
      const std::string channels = std::to_string(8 * i);
      network.input("w" + number, "[8, " + channels + ", 3, 3]");
      network.node("concat", parts, "j" + number, kChannels)
          .node("relu", "\"j" + number + "\"", "r" + number)
          .node("conv", "\"r" + number + "\", \"w" + number + "\"", "p" + number, kPadded);
      parts += ", \"p" + number + "\"";
    }
    network.node("concat", parts, "joined", kChannels).node("pool", R"("joined")", "y", kMean);
    check_joined_by_kernels(network, dtype, R"("y")", parts);
  }
}

TEST_CASE("skips_are_read_before_their_neighbours_are_written") {
  for (const std::string dtype : {"f32", "f16"}) {
    Network network(dtype);
    network.input("x", "[3, 8, 8, 8]")
        .input("w1", "[8, 8, 3, 3]")
        .input("w2", "[8, 16, 3, 3]")
        .node("conv", R"("x", "w1")", "skip", kPadded)
        .node("pool", R"("skip")", "small", kMean)
        .node("conv", R"("small", "w1")", "deep", kPadded)
        .node("resize_nearest_2x", R"("deep")", "up")
        .node("concat", R"("up", "skip")", "joined", kChannels)
        .node("conv", R"("joined", "w2")", "y", kPadded);
    check_joined_by_kernels(network, dtype, R"("y")", R"("up", "skip")");
  }
}

TEST_CASE("residuals_are_read_from_slices_of_images") {
  Network network("f32");
  network.input("x", "[2, 6, 7, 7]").input("z", "[2, 20, 7, 7]");
  network.input("w1", "[6, 6, 1, 1]").input("w2", "[6, 1, 3, 3]").input("w3", "[6, 6, 3, 3]");
  network.node("narrow", R"("z")", "r", R"({"axis": 1, "start": 3, "len": 6})")
      .node("conv", R"("x", "w1", null, "r")", "a")
      .node("conv", R"("x", "w2", null, "r")", "b", R"({"pads": [1, 1], "groups": 6})")
      .node("conv", R"("x", "w3", null, "r")", "y0", kPadded)
      .node("concat", R"("a", "b")", "y1", kChannels);
  const std::string text = network.text(R"("y0", "y1")");
  for (const char* target : {"vulkan", "cuda"}) CHECK(lowered(text, target).steps.size() == 3);
  check_on_devices(text);
}

TEST_CASE("nested_concats_of_several_images_keep_their_values") {
  Network network = branches("f32", 2, 6);
  network.input("w4", "[3, 24, 3, 3]")
      .node("conv", R"("joined", "w4")", "e", kPadded)
      .node("concat", R"("e", "joined", "a")", "outer", kChannels)
      .node("concat", R"("outer", "outer")", "stacked", R"({"axis": 0})")
      .node("exp", R"("stacked")", "y");
  check_on_devices(network.text(R"("y", "outer")"));
  check_on_devices(network.text(R"("y")"));
}

TEST_CASE("products_write_the_columns_and_rows_of_a_concat") {
  for (const std::string dtype : {"f32", "f16"}) {
    for (const std::string axis : {"2", "1"}) {
      INFO(dtype << " on axis " << axis);
      const bool columns = axis == "2";
      Network network(dtype);
      // 40 lines take tiles, 3 the vectors; 20 columns are whole vectors, 7 are not.
      network.input("x", "[2, 40, 48]")
          .input("z", columns ? "[2, 40, 12]" : "[2, 3, 48]")
          .input("w", "[2, 48, 20]")
          .input("v", columns ? "[12, 7]" : "[48, 20]")
          .input("b", columns ? "[7]" : "[20]")
          .node("matmul", R"("x", "w")", "p")
          .node("matmul", R"("z", "v")", "q")
          .node("add", R"("q", "b")", "s")
          .node("relu", R"("s")", "t")
          .node("concat", R"("p", "t")", "joined", R"({"axis": )" + axis + "}")
          .node("exp", R"("joined")", "y");
      check_joined_by_kernels(network, dtype, R"("y")", R"("p", "t")");
    }
  }
}

}  // namespace rlx::test
