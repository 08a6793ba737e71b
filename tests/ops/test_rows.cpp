// SPDX-License-Identifier: Apache-2.0
// Laws of row loops, and of shapes, diagnostics and kernels of reductions, argmax, softmax, norms
// and rope.
#include "compiler/ops/lowering/rows.h"
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

OneNode node_of(const std::string& op, Shape x, Attributes attributes = {},
                DType dtype = DType::f32) {
  return {
      .op = op, .inputs = {TensorType{dtype, std::move(x)}}, .attributes = std::move(attributes)};
}

}  // namespace

TEST_CASE("neighbouring_dims_that_step_alike_become_one_loop") {
  const Shape shape = {2, 3, 1, 5, 7};
  const RowLoops loops = split_rows(shape, dense_strides(shape), dense_strides(shape), {3, 4});
  REQUIRE(loops.kept.size() == 1);
  CHECK(loops.kept[0].size == 6);
  CHECK(loops.kept[0].strides[0] == 35);
  REQUIRE(loops.reduced.size() == 1);
  CHECK(is_contiguous(loops.reduced));
}

TEST_CASE("loops_run_innermost_along_the_smallest_stride") {
  const LoopDims dims = by_stride({{.size = 3, .strides = {1, 0}}, {.size = 4, .strides = {3, 0}}});
  REQUIRE(dims.size() == 1);
  CHECK(dims[0].size == 12);
}

TEST_CASE("index_macro_gives_the_offset_of_a_loop_position") {
  const LoopDims dims = {{.size = 3, .strides = {100, 1}}, {.size = 5, .strides = {7, 3}}};
  CHECK(index_macro("AT", dims, 0) ==
        "#define AT(i) ((RLX_INDEX(i) / RLX_INDEX(5)) * RLX_INDEX(100) + "
        "(RLX_INDEX(i) % RLX_INDEX(5)) * RLX_INDEX(7))\n");
  CHECK(index_macro("AT", {}, 0) == "#define AT(i) (RLX_INDEX(0))\n");
}

TEST_CASE("threads_lie_along_what_is_contiguous") {
  const Shape shape = {512, 512};
  const Strides strides = dense_strides(shape);
  CHECK_FALSE(plan_side_by_side(split_rows(shape, strides, strides, {1})));
  const RowPlan columns = plan_side_by_side(split_rows(shape, strides, strides, {0})).value();
  CHECK(columns.by_column);
  CHECK(columns.threads() == 256);
}

TEST_CASE("reductions_drop_or_keep_their_dims") {
  CHECK(infer(node_of("reduce_sum", {2, 3, 5}, {{"axes", Ints{-1, 0}}})).outputs[0].shape ==
        Shape{3});
  CHECK(infer(node_of("reduce_max", {2, 3, 5}, {{"axes", Ints{1}}, {"keep_dims", true}}))
            .outputs[0]
            .shape == Shape{2, 1, 5});
  CHECK(infer(node_of("variance", {2, 3})).outputs[0].shape.empty());
  CHECK(infer(node_of("reduce_sum", {2, 3}, {{"axes", Ints{}}})).outputs[0].shape == Shape{2, 3});
}

TEST_CASE("reductions_refuse_what_does_not_fit") {
  CHECK(refused(node_of("reduce_sum", {2, 3}, {{"axes", Ints{2}}}), "bad-axis", "2"));
  CHECK(refused(node_of("reduce_sum", {2, 3}, {{"axes", Ints{1, -1}}}), "bad-axis", "1"));
  CHECK(refused(node_of("reduce_sum", {2, 3}, {}, DType::bool_), "bad-dtype", "x is bool"));
  CHECK(refused(node_of("reduce_l2", {2, 3}, {}, DType::i32), "bad-dtype", "x is i32"));
  CHECK(refused(node_of("reduce_any", {2, 3}), "bad-dtype", "wanted bool"));
  CHECK(refused(node_of("variance", {2, 3}, {{"correction", int64_t{-1}}}), "bad-attribute",
                "correction"));
  CHECK(refused(node_of("argmax", {2, 0}, {{"axis", int64_t{1}}}), "bad-shape", "axis 1"));
  CHECK(refused(node_of("argmax", {2, 3}, {{"axis", int64_t{2}}}), "bad-axis", "2"));
  CHECK(refused(node_of("argmin", {2, 3}, {{"index_dtype", std::string("i8")}}), "bad-attribute",
                "index_dtype"));
}

TEST_CASE("softmax_and_norms_refuse_what_does_not_fit") {
  CHECK(refused(node_of("softmax", {2, 3, 4}, {{"axis", int64_t{4}}}), "bad-axis", "4"));
  CHECK(refused(node_of("log_softmax", {2, 3}, {}, DType::i32), "bad-dtype", "x is i32"));
  CHECK(refused(node_of("layer_norm", {2, 3}, {{"eps", -1.0}}), "bad-attribute", "eps"));
  OneNode gamma = node_of("layer_norm", {2, 3});
  gamma.inputs.push_back(TensorType{DType::f32, {2}});
  CHECK(refused(gamma, "bad-shape", "gamma has shape [2]"));
  OneNode wide = node_of("rms_norm", {2, 3});
  wide.inputs.push_back(TensorType{DType::f32, {4, 2, 3}});
  CHECK(refused(wide, "bad-shape", "gamma has shape [4, 2, 3]"));
}

TEST_CASE("few_long_rows_are_reduced_in_two_stages") {
  CHECK(lower(node_of("reduce_sum", {1 << 20})).steps.size() == 2);
  CHECK(lower(node_of("reduce_sum", {4096, 256}, {{"axes", Ints{1}}})).steps.size() == 1);
  CHECK(lower(node_of("variance", {4096, 256}, {{"axes", Ints{1}}})).steps.size() == 2);
}

TEST_CASE("reductions_read_strided_inputs_without_a_copy") {
  const Program program = OneNodeGraph(node_of("reduce_sum", {64, 48}, {{"axes", Ints{1}}}))
                              .lower({{.input = 0, .strides = {1, 64}}});
  REQUIRE(program.steps.size() == 1);
  CHECK(kernel_of(program, 0).defines.at("RLX_BY_COLUMN") == "1");
}

TEST_CASE("more_rows_than_a_grid_axis_holds_are_spread") {
  const Program program = lower(node_of("softmax", {20'000'000, 300}, {}, DType::f16));
  const Grid grid = program.steps.at(0).grid;
  CHECK(grid.x <= 65535);
  CHECK(grid.y <= 65535);
  const int64_t rows = std::stoll(kernel_of(program, 0).defines.at("RLX_ROWS"));
  CHECK(static_cast<int64_t>(grid.x) * grid.y * grid.z * rows >= 20'000'000);
}

TEST_CASE("rope_refuses_what_does_not_fit") {
  const auto rope = [](Shape x, Shape table, Attributes attributes) {
    attributes.emplace("head_dim", int64_t{8});
    return OneNode{.op = "rope",
                   .inputs = {TensorType{DType::f32, std::move(x)}, TensorType{DType::f32, table},
                              TensorType{DType::f32, table}},
                   .attributes = std::move(attributes)};
  };
  CHECK(infer(rope({2, 5, 3, 8}, {5, 4}, {})).good);
  CHECK(refused(rope({2, 5, 24}, {5, 4}, {}), "bad-rank", "wanted rank 4"));
  CHECK(refused(rope({2, 5, 3, 6}, {5, 4}, {}), "bad-shape", "head_dim = 8"));
  CHECK(refused(rope({2, 5, 3, 8}, {5, 3}, {}), "bad-shape", "n_rot / 2 = 4"));
  CHECK(
      refused(rope({2, 5, 3, 8}, {5, 4}, {{"n_rot", int64_t{3}}}), "bad-attribute", "n_rot is 3"));
  CHECK(refused(rope({2, 5, 3, 8}, {5, 4}, {{"n_rot", int64_t{10}}}), "bad-attribute",
                "n_rot is 10"));
  CHECK(refused(rope({2, 5, 3, 8}, {5, 4}, {{"table", std::string("token")}}), "bad-shape",
                "batch * tokens = 10"));
  CHECK(refused(rope({2, 5, 3, 8}, {2, 4, 4}, {}), "bad-shape", "wanted [2, 5, W]"));
  OneNode positions = rope({2, 5, 3, 8}, {30, 4}, {});
  positions.inputs.push_back(TensorType{DType::i32, {4}});
  CHECK(refused(positions, "bad-shape", "positions is i32[4]"));
  OneNode unused = rope({2, 5, 3, 8}, {10, 4}, {{"table", std::string("token")}});
  unused.inputs.push_back(TensorType{DType::i32, {5}});
  CHECK(refused(unused, "bad-arity", "positions is given"));
}

}  // namespace rlx::test
