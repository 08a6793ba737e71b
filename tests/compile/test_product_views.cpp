// SPDX-License-Identifier: Apache-2.0
// Products, convolutions and pools read views: transposed, sliced, reversed and broadcast tensors;
// their epilogues may write over the residual.
#include "tests/compile/graph_text.h"

namespace rlx::test {
TEST_CASE("matmul_reads_transposed_operands") {
  // Few lines of a (matvec) and many (tiles); a transposed b is contiguous along k.
  for (const char* a : {"[2, 48]", "[40, 48]"}) {
    check_on_devices(
        graph(input("a", a) + ", " + input("b", "[36, 48]"),
              node("transpose", R"("b")", "t") + ", " + node("matmul", R"("a", "t")", "y")));
  }
  check_on_devices(graph(input("a", "[3, 48, 20]") + ", " + input("b", "[48, 36]"),
                         node("transpose", R"("a")", "t", R"({"perm": [0, 2, 1]})") + ", " +
                             node("matmul", R"("t", "b")", "y")));
}

TEST_CASE("matmul_reads_heads_of_a_packed_projection") {
  // [2, 16, 3 * 24]: slices become [2, 3, 16, 8] by reshape and transpose.
  const std::string slices =
      node("slice", R"("x")", "q1", R"({"starts": [0], "ends": [24], "axes": [2], "steps": [1]})") +
      ", " +
      node("slice", R"("x")", "k1",
           R"({"starts": [24], "ends": [48], "axes": [2], "steps": [1]})") +
      ", " + node("reshape", R"("q1")", "q2", R"({"shape": [2, 16, 3, 8]})") + ", " +
      node("reshape", R"("k1")", "k2", R"({"shape": [2, 16, 3, 8]})") + ", " +
      node("transpose", R"("q2")", "q", R"({"perm": [0, 2, 1, 3]})") + ", " +
      node("transpose", R"("k2")", "k", R"({"perm": [0, 2, 1, 3]})") + ", ";
  check_on_devices(graph(input("x", "[2, 16, 72]"),
                         slices + node("matmul", R"("q", "k")", "y", R"({"trans_b": true})")));
}

TEST_CASE("matmul_reads_reversed_and_strided_views") {
  const std::string reversed =
      node("slice", R"("a")", "v",
           R"({"starts": [-1], "ends": [-100], "axes": [0], "steps": [-1]})") +
      ", ";
  check_on_devices(graph(input("a", "[24, 20]") + ", " + input("b", "[20, 12]"),
                         reversed + node("matmul", R"("v", "b")", "y")));
  const std::string sparse =
      node("slice", R"("a")", "v",
           R"({"starts": [0, 1], "ends": [24, 20], "axes": [0, 1], "steps": [2, 3]})") +
      ", ";
  check_on_devices(graph(input("a", "[24, 20]") + ", " + input("b", "[7, 12]"),
                         sparse + node("matmul", R"("v", "b")", "y")));
}

TEST_CASE("matmul_reads_broadcast_views_without_unit_batches") {
  check_on_devices(graph(input("a", "[1, 9, 16]") + ", " + input("b", "[5, 16, 12]"),
                         node("expand", R"("a")", "v", R"({"shape": [5, 9, 16]})") + ", " +
                             node("matmul", R"("v", "b")", "y")));
}

TEST_CASE("fused_epilogue_adds_a_residual_that_dies_and_one_that_is_also_an_operand") {
  const std::string inputs =
      input("x", "[10, 16]") + ", " + input("w", "[16, 16]") + ", " + input("c", "[16]");
  const std::string dying = node("exp", R"("x")", "e") + ", " + node("matmul", R"("x", "w")", "p") +
                            ", " + node("add", R"("p", "c")", "b") + ", " +
                            node("gelu", R"("b")", "g") + ", " + node("add", R"("g", "e")", "y");
  check_on_devices(graph(inputs, dying));
  const std::string shared = node("exp", R"("x")", "e") + ", " +
                             node("matmul", R"("e", "w")", "p") + ", " +
                             node("add", R"("p", "e")", "y");
  check_on_devices(graph(inputs, shared));
}

TEST_CASE("conv_and_pool_read_channels_last_and_sliced_images") {
  const std::string inputs = input("x", "[2, 9, 10, 6]") + ", " + input("w", "[8, 6, 3, 3]") +
                             ", " + input("d", "[6, 1, 3, 3]") + ", " + input("o", "[8, 6, 1, 1]");
  const std::string planar = node("transpose", R"("x")", "v", R"({"perm": [0, 3, 1, 2]})") + ", ";
  check_on_devices(graph(inputs, planar + node("conv", R"("v", "w")", "y", R"({"pads": [1, 1]})")));
  check_on_devices(graph(inputs, planar + node("conv", R"("v", "d")", "y", R"({"groups": 6})")));
  check_on_devices(graph(inputs, planar + node("conv", R"("v", "o")", "y")));
  check_on_devices(
      graph(inputs, planar + node("pool", R"("v")", "y",
                                  R"({"kind": "mean", "kernel": [3, 2], "stride": [2, 2]})")));
  const std::string cropped =
      planar +
      node("slice", R"("v")", "s",
           R"({"starts": [1, -2], "ends": [8, -9], "axes": [2, 3], "steps": [1, -1]})") +
      ", ";
  check_on_devices(graph(inputs, cropped + node("conv", R"("s", "w")", "y")));
  check_on_devices(graph(inputs, cropped + node("conv", R"("s", "o")", "y")));
  check_on_devices(
      graph(inputs, cropped + node("pool", R"("s")", "y", R"({"kind": "max", "kernel": [2, 2]})")));
}

// 16-bit images between convolutions on tensor cores are stored channels last: pools in vectors of
// 8 channels, of 4, and of none, with and without pads. Whole numbers, so that nothing is rounded.
TEST_CASE("pools_between_convolutions") {
  const auto half = [](const std::string& name, const std::string& shape) {
    return R"({"name": ")" + name + R"(", "dtype": "f16", "shape": )" + shape + "}";
  };
  for (const char* filters : {"16", "12", "10"}) {
    const std::string count(filters);
    const std::string inputs = half("x", "[2, 8, 13, 11]") + ", " +
                               half("w", "[" + count + ", 8, 3, 3]") + ", " +
                               half("u", "[8, " + count + ", 1, 1]");
    for (const char* window :
         {R"({"kind": "max", "kernel": [3, 3], "stride": [2, 2], "pads": [1, 1]})",
          R"({"kind": "sum", "kernel": [3, 2], "pads": [0, 1]})",
          R"({"kind": "min", "kernel": [7, 5], "dilation": [1, 2]})"}) {
      check_on_devices(graph(inputs, node("round", R"("x")", "i") + ", " +
                                         node("round", R"("w")", "k") + ", " +
                                         node("round", R"("u")", "l") + ", " +
                                         node("conv", R"("i", "k")", "c", R"({"pads": [1, 1]})") +
                                         ", " + node("pool", R"("c")", "p", window) + ", " +
                                         node("conv", R"("p", "l")", "y")));
    }
  }
}

// What comes from channels last and goes back there is computed so: vectors of 8 and of 4 channels,
// whole and broken tiles, pads on every side, weights of the model and others. Whole numbers, so
// that nothing is rounded.
TEST_CASE("depthwise_convolutions_between_transposes") {
  const auto typed = [](const std::string& name, const char* dtype, const std::string& shape) {
    return R"({"name": ")" + name + R"(", "dtype": ")" + dtype + R"(", "shape": )" + shape + "}";
  };
  struct Window {
    const char* taps;
    const char* attributes;
  };
  for (const char* dtype : {"f16", "bf16", "f32"}) {
    for (const int channels : {8, 12, 10}) {
      for (const Window window :
           {Window{"3, 3", R"("pads": [1, 1])"},
            Window{"3, 3", R"("stride": [2, 2], "pads": [1, 1], "activation": "relu")"},
            Window{"5, 5", R"("pads": [0, 1, 2, 3], "dilation": [2, 1])"},
            Window{"7, 7", R"("pads": [3, 3])"}, Window{"1, 9", R"("stride": [3, 2])"},
            Window{"2, 40", R"("pads": [1, 30])"}}) {
        INFO(dtype << ", " << channels << " channels, " << window.taps << ": "
                   << window.attributes);
        const std::string count = std::to_string(channels);
        const std::string inputs = typed("x", dtype, "[2, 13, 11, " + count + "]") + ", " +
                                   typed("w", dtype, "[" + count + ", 1, " + window.taps + "]") +
                                   ", " + typed("b", dtype, "[" + count + "]");
        check_on_devices(graph(
            inputs, node("round", R"("x")", "i") + ", " + node("round", R"("w")", "k") + ", " +
                        node("round", R"("b")", "j") + ", " +
                        node("transpose", R"("i")", "v", R"({"perm": [0, 3, 1, 2]})") + ", " +
                        node("conv", R"("v", "k", "j")", "c",
                             R"({"groups": )" + count + ", " + window.attributes + "}") +
                        ", " + node("transpose", R"("c")", "y", R"({"perm": [0, 2, 3, 1]})")));
      }
    }
  }
}

// Volumes channels last: depthwise between transposes, a residual behind them, pools and whole
// convolutions between convolutions. Whole numbers, so that nothing is rounded.
TEST_CASE("volumes_stay_channels_last_between_convolutions_and_transposes") {
  const auto half = [](const std::string& name, const std::string& shape) {
    return R"({"name": ")" + name + R"(", "dtype": "f16", "shape": )" + shape + "}";
  };
  const std::string inputs = half("x", "[2, 4, 6, 5, 8]") + ", " + half("w", "[8, 1, 3, 3, 3]") +
                             ", " + half("b", "[8]") + ", " + half("u", "[16, 8, 2, 3, 3]") + ", " +
                             half("l", "[8, 16, 1, 1, 1]");
  const std::string rounded =
      node("round", R"("x")", "i") + ", " + node("round", R"("w")", "k") + ", " +
      node("round", R"("b")", "j") + ", " + node("round", R"("u")", "m") + ", " +
      node("round", R"("l")", "o") + ", " +
      node("transpose", R"("i")", "v", R"({"perm": [0, 4, 1, 2, 3]})") + ", ";
  const std::string back = node("transpose", R"("c")", "y", R"({"perm": [0, 2, 3, 4, 1]})");
  for (const char* window :
       {R"({"groups": 8, "pads": [1, 1, 1]})",
        R"({"groups": 8, "stride": [1, 2, 2], "pads": [1, 0, 1, 2, 1, 0]})",
        R"({"groups": 8, "dilation": [1, 2, 1], "stride": [2, 1, 3], "pads": [2, 2, 1]})"}) {
    INFO(window);
    check_on_devices(
        graph(inputs, rounded + node("conv", R"("v", "k", "j")", "c", window) + ", " + back));
  }
  check_on_devices(graph(
      inputs, rounded + node("conv", R"("v", "k")", "d", R"({"groups": 8, "pads": [1, 1, 1]})") +
                  ", " + node("add", R"("d", "v")", "c") + ", " + back));
  for (const char* pool :
       {R"({"kind": "max", "kernel": [2, 3, 3], "stride": [1, 2, 2], "pads": [1, 1, 1]})",
        R"({"kind": "sum", "kernel": [1, 2, 2], "stride": [1, 2, 2]})"}) {
    INFO(pool);
    check_on_devices(graph(inputs, rounded +
                                       node("conv", R"("v", "m")", "e", R"({"pads": [1, 1, 1]})") +
                                       ", " + node("pool", R"("e")", "p", pool) + ", " +
                                       node("conv", R"("p", "o")", "c") + ", " + back));
  }
}

TEST_CASE("batch_norm_after_conv_folds_or_follows") {
  const std::string inputs = input("x", "[2, 3, 7, 7]") + ", " + input("w", "[4, 3, 3, 3]") + ", " +
                             input("g", "[4]") + ", " + input("b", "[4]") + ", " +
                             input("m", "[4]") + ", " + input("v", "[4]");
  check_on_devices(
      graph(inputs, node("conv", R"("x", "w")", "c") + ", " + node("square", R"("v")", "s") + ", " +
                        node("batch_norm", R"("c", "g", "b", "m", "s")", "n", R"({"eps": 0.5})") +
                        ", " + node("relu", R"("n")", "y")));
}

}  // namespace rlx::test
