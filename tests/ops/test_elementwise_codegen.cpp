// SPDX-License-Identifier: Apache-2.0
// The generated text of elementwise code and the dispatch that carries it.
#include <string>

#include "compiler/ops/lowering/elementwise_region.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/support/check.h"
#include "tests/support/catch.h"

namespace rlx {
namespace {

TensorRef arena_tensor(Program& program, DType dtype, Shape shape) {
  const TensorType type{dtype, std::move(shape)};
  const BufferId buffer = program.add_buffer({.name = "b" + std::to_string(program.buffers.size()),
                                              .type = type,
                                              .size_bytes = byte_size(type),
                                              .weight = {},
                                              .state = {},
                                              .input_index = {},
                                              .output_index = {}});
  return {.buffer = buffer, .offset_bytes = 0, .type = type, .strides = dense_strides(type.shape)};
}

Region add_region(const TensorRef& y, std::vector<TensorRef> operands) {
  Region region{.output = y,
                .output_storage = element_storage(y.dtype()),
                .operands = {},
                .element_text = "return x1;\n",
                .operations = 1,
                .subject = "one op"};
  for (TensorRef& operand : operands)
    region.operands.push_back({.view = operand, .storage = element_storage(operand.dtype())});
  return region;
}

const std::string& generated(const Program& program, const std::string& name) {
  return program.kernels.at(index_of(*program.steps.back().kernel))
      .generated.at("generated/" + name);
}

}  // namespace

TEST_CASE("literals read back exactly") {
  CHECK(literal(DType::f32, 0.1) == "0.100000001f");
  CHECK(literal(DType::f32, 1) == "1.0f");
  CHECK(literal(DType::f16, -2.5) == "(-2.5f)");
  CHECK(literal(DType::f32, 1e30) == "1.00000002e+30f");
  CHECK(literal(DType::f32, INFINITY) == "rlx_from_bits(0x7F800000u)");
  CHECK(literal(DType::f64, 1) == "rlx_f64_of(0x00000000u, 0x3FF00000u)");
  CHECK(integer_literal(DType::i32, INT32_MIN) == "rlx_i32(0x80000000u)");
  CHECK(integer_literal(DType::u32, 4294967295) == "4294967295u");
  CHECK(integer_literal(DType::i64, INT64_MIN) ==
        "rlx_i64((rlx_u64(0x80000000u) << 32) | rlx_u64(0x00000000u))");
}

TEST_CASE("a chain is one line per step") {
  const std::vector<RegionStep> steps = {
      {.op = "add", .attributes = {}, .operands = {0, 1}, .dtype = DType::f32},
      {.op = "leaky_relu", .attributes = {{"alpha", 0.25}}, .operands = {2}, .dtype = DType::f32}};
  const GeneratedChain chain = generate_chain(steps, {"x1", "x2"}, {DType::f32, DType::f32});
  CHECK(chain.text ==
        "const rlx_f32 t0 = (x1 + x2);\n"
        "const rlx_f32 t1 = (t0 >= 0.0f ? t0 : 0.25f * t0);\n");
  CHECK(chain.result == "t1");
}

TEST_CASE("narrow integers wrap and casts convert") {
  CHECK(scalar_expression("add", {}, {"a", "b"}, {DType::i8, DType::i8}, DType::i8) ==
        "rlx_wrap_i8(rlx_add(a, b))");
  CHECK(scalar_expression("cast", {{"to", "i8"}}, {"a"}, {DType::i16}, DType::i8) ==
        "rlx_wrap_i8(rlx_min(rlx_max(a, (-128)), 127))");
  CHECK(scalar_expression("cast", {{"to", "f16"}}, {"a"}, {DType::f32}, DType::f16) ==
        "rlx_round_f16(a)");
  CHECK(scalar_expression("clamp", {{"max", 6.0}}, {"a", "", ""},
                          {DType::f32, DType::f32, DType::f32}, DType::f32) == "rlx_min(a, 6.0f)");
  CHECK(activation_expression("gelu", {}, "acc") == "rlx_gelu(acc)");
  CHECK(activation_expression("none", {}, "acc") == "acc");
  CHECK(is_activation("silu"));
  CHECK_FALSE(is_activation("add"));
  CHECK_FALSE(is_activation("cast"));
}

TEST_CASE("an attribute that the text does not use is an internal error") {
  CHECK_THROWS_AS(scalar_expression("gelu", {{"alpha", 1.0}}, {"a"}, {DType::f32}, DType::f32),
                  InternalError);
}

TEST_CASE("dense operands are read four at a time, with a tail") {
  Program program;
  const TensorRef x = arena_tensor(program, DType::f32, {7, 3});
  const TensorRef y = arena_tensor(program, DType::f32, {7, 3});
  emit_region(program, {}, add_region(y, {x}));
  const std::string& text = generated(program, "region.inc");
  CHECK(text.find("rlx_load4_f32(p.buffers[1], rlx_i64(i1))") != std::string::npos);
  CHECK(text.find("if (c0 + 4u <= 21u)") != std::string::npos);
  CHECK(program.steps.back().reason == "one op, 1 input, vector width 4");
  CHECK(program.steps.back().in_place_input == x.buffer);
  CHECK(program.steps.back().bytes_moved == 2 * 21 * 4);
}

TEST_CASE("a broadcast axis has stride 0 and a row operand is loaded wide") {
  Program program;
  const TensorRef x = arena_tensor(program, DType::f32, {6, 1, 8});
  const TensorRef row = arena_tensor(program, DType::f32, {8});
  const TensorRef y = arena_tensor(program, DType::f32, {6, 5, 8});
  emit_region(program, {}, add_region(y, {x, row}));
  const std::string& text = generated(program, "region.inc");
  CHECK(text.find("const rlx_u32 i1 = c0 * 8u + c2;") != std::string::npos);
  CHECK(text.find("const rlx_u32 i2 = c2;") != std::string::npos);
  CHECK_FALSE(program.steps.back().in_place_input.has_value());
}

TEST_CASE("reversed axes count down from the lowest address") {
  Program program;
  TensorRef x = arena_tensor(program, DType::f32, {10});
  x.offset_bytes = 36;
  x.strides = {-1};
  const TensorRef y = arena_tensor(program, DType::f32, {10});
  emit_region(program, {}, add_region(y, {x}));
  CHECK(generated(program, "region.inc").find("const rlx_u32 i1 = 9u - c0;") != std::string::npos);
  CHECK(program.steps.back().accesses.at(1).offset_bytes == 0);
  CHECK(program.steps.back().accesses.at(1).range_bytes == 40);
}

TEST_CASE("an operand seen in two ways is not overwritten in place") {
  Program program;
  const TensorRef x = arena_tensor(program, DType::f32, {8, 8});
  TensorRef transposed = x;
  transposed.strides = {1, 8};
  const TensorRef y = arena_tensor(program, DType::f32, {8, 8});
  emit_region(program, {}, add_region(y, {x, transposed}));
  CHECK_FALSE(program.steps.back().in_place_input.has_value());
}

TEST_CASE(
    "T21 regions beyond 65535 workgroups and 2^32 elements spread over the grid with 64-bit "
    "indices") {
  Program program;
  const TensorRef x = arena_tensor(program, DType::u8, {3, int64_t{1} << 31});
  const TensorRef y = arena_tensor(program, DType::u8, {3, int64_t{1} << 31});
  emit_region(program, {}, add_region(y, {x}));
  const Step& step = program.steps.back();
  CHECK(step.grid.x == 65535);
  CHECK(step.grid.x * step.grid.y * step.grid.z * 256 * 4 * 4 >= int64_t{3} << 31);
  CHECK(generated(program, "region.inc").find("rlx_u64 c0") != std::string::npos);
}

TEST_CASE("equal regions share one kernel, and the text is deterministic") {
  Program program;
  for (int i = 0; i < 2; ++i) {
    const TensorRef x = arena_tensor(program, DType::bf16, {4, 33});
    const TensorRef y = arena_tensor(program, DType::bf16, {4, 33});
    emit_region(program, {}, add_region(y, {x}));
  }
  CHECK(program.kernels.size() == 1);
  CHECK(program.steps.size() == 2);
}

TEST_CASE("regions that differ in sizes alone share one kernel by words") {
  Program program;
  const auto emit = [&](const Shape& shape, WordUse use) {
    const TensorRef x = arena_tensor(program, DType::f32, {shape[0], 1});
    const TensorRef y = arena_tensor(program, DType::f32, shape);
    Region region = add_region(y, {x, arena_tensor(program, DType::f32, shape)});
    region.words = use;
    emit_region(program, {}, region);
    return program.steps.back();
  };
  const Step small = emit({3, 8}, WordUse::Always);
  const Step large = emit({5, 24}, WordUse::Always);
  CHECK(program.kernels.size() == 1);
  CHECK(small.reason == "one op, 2 inputs, vector width 4, sizes as words");
  // Each step's ranges are its own, and the kernel says what it reaches by its words.
  CHECK(small.accesses.at(0).range_bytes == 96);
  CHECK(large.accesses.at(0).range_bytes == 480);
  CHECK(program.kernels.at(0).reaches.size() == 3);
  CHECK(small.params != large.params);
  // A row that is no whole number of vectors is another kernel.
  emit({5, 25}, WordUse::Always);
  CHECK(program.kernels.size() == 2);
  // Two loops divide: for a run constants are cheaper.
  CHECK(emit({3, 8}, WordUse::WhereFree).reason == "one op, 2 inputs, vector width 4");
  emit({7, 8}, WordUse::WhereFree);
  CHECK(program.kernels.size() == 4);
}

TEST_CASE("one loop takes words where they must be free") {
  Program program;
  for (const int64_t count : {64, 96}) {
    const TensorRef x = arena_tensor(program, DType::f32, {count});
    Region region = add_region(arena_tensor(program, DType::f32, {count}), {x});
    region.words = WordUse::WhereFree;
    emit_region(program, {}, region);
  }
  CHECK(program.kernels.size() == 1);
}

TEST_CASE("a region whose pointers leave no room for words has constants") {
  Program program;
  const TensorRef y = arena_tensor(program, DType::f32, {3, 5, 8});
  std::vector<TensorRef> operands;
  for (size_t i = 0; i < kMaxRegionOperands; ++i) {
    operands.push_back(arena_tensor(program, DType::f32, {3, 1, 8}));
  }
  Region region = add_region(y, operands);
  region.words = WordUse::Always;
  emit_region(program, {}, region);
  CHECK(program.steps.back().reason == "one op, 15 inputs, vector width 4");
  CHECK(program.kernels.back().size_positions.empty());
}

TEST_CASE("a region that steps backwards has constants, as it begins elsewhere for each size") {
  Program program;
  TensorRef x = arena_tensor(program, DType::f32, {10});
  x.offset_bytes = 36;
  x.strides = {-1};
  Region region = add_region(arena_tensor(program, DType::f32, {10}), {x});
  region.words = WordUse::Always;
  emit_region(program, {}, region);
  CHECK(program.kernels.back().size_positions.empty());
}

TEST_CASE("transposed copies that run once share one kernel") {
  Program program;
  const LowerOptions once{.target = find_target("vulkan"), .runs_once = true};
  for (const int64_t edge : {40, 64}) {
    TensorRef x = arena_tensor(program, DType::f16, {3, edge, 50});
    x.type.shape = {3, 50, edge};
    x.strides = {50 * edge, 1, 50};
    emit_strided_copy(once, program, {}, x, arena_tensor(program, DType::f16, {3, 50, edge}));
    CHECK(program.steps.back().accesses.at(0).range_bytes == 3 * 50 * edge * 2);
  }
  CHECK(program.kernels.size() == 1);
}

TEST_CASE("a transposed copy goes through tiles, other strided copies through a region") {
  Program program;
  TensorRef x = arena_tensor(program, DType::f16, {3, 40, 50});
  x.type.shape = {3, 50, 40};
  x.strides = {2000, 1, 50};
  const TensorRef y = arena_tensor(program, DType::f16, {3, 50, 40});
  emit_strided_copy({.target = find_target("vulkan")}, program, {}, x, y);
  CHECK(program.kernels.back().kernel == KernelId::transpose);
  CHECK(program.kernels.back().defines.at("RLX_BATCHES") == "3u");
  TensorRef every_second = arena_tensor(program, DType::f16, {100});
  every_second.type.shape = {50};
  every_second.strides = {2};
  emit_strided_copy({.target = find_target("vulkan")}, program, {}, every_second,
                    arena_tensor(program, DType::f16, {50}));
  CHECK(program.kernels.back().kernel == KernelId::region);
  CHECK(generated(program, "region.inc").find("rlx_load_u16") != std::string::npos);
}

TEST_CASE("an empty output has no dispatch") {
  Program program;
  emit_region(program, {},
              add_region(arena_tensor(program, DType::f32, {0, 3}),
                         {arena_tensor(program, DType::f32, {3})}));
  CHECK(program.steps.empty());
}

}  // namespace rlx
