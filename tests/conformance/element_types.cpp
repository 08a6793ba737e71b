// SPDX-License-Identifier: Apache-2.0
// Movement and indexing of 8-bit floats and c64 (ops.md 0.3, 6, 8): every op copies their bits.
#include "tests/support/case.h"

namespace rlx::test {
namespace {

struct Moved {
  const char* op;
  Shape shape;  // of input 0
  const char* attributes = "{}";
  size_t outputs = 1;
};

const Moved kMovements[] = {
    {"identity", {3, 5}},
    {"reshape", {4, 6}, R"({"shape": [3, -1]})"},
    {"squeeze", {4, 1, 3}},
    {"flatten", {2, 3, 4}},
    {"transpose", {5, 3, 4}, R"({"perm": [2, 0, 1]})"},
    {"transpose", {64, 48}},
    {"narrow", {7, 5}, R"({"axis": 1, "start": 1, "len": 3})"},
    {"slice", {7, 5}, R"({"axes": [0, 1], "starts": [5, 0], "ends": [0, 4], "steps": [-2, 3]})"},
    {"reverse", {3, 4}, R"({"axes": [0, 1]})"},
    {"diagonal", {4, 5}, R"({"offset": 1})"},
    {"split", {7, 3}, R"({"axis": 0, "sizes": [2, 5]})", 2},
    {"expand", {3, 1}, R"({"shape": [2, 3, 4]})"},
    {"tile", {2, 3}, R"({"repeats": [2, 3]})"},
    {"repeat_interleave", {2, 3}, R"({"axis": 1, "repeats": 3})"},
    {"depth_to_space", {1, 8, 2, 3}, R"({"block": 2})"},
    {"space_to_depth", {1, 2, 4, 6}, R"({"block": 2})"},
    {"pad", {3, 4}, R"({"pads": [1, 2, 0, 3], "value": -1.7})"},
    {"pad", {3, 4}, R"({"pads": [1, 2, 2, 3], "mode": "reflect"})"},
    {"roll", {4, 5}, R"({"shifts": [1, -2], "axes": [0, 1]})"},
    {"trilu", {5, 6}, R"({"k": 1})"},
    {"trilu", {5, 6}, R"({"upper": false})"},
    {"resize_nearest_2x", {1, 2, 3, 4}},
    {"resize", {1, 2, 3, 4}, R"({"mode": "nearest", "sizes": [5, 7]})"},
    {"im2col",
     {1, 2, 4, 5},
     R"({"kernel": [2, 3], "stride": [1, 2], "pads": [1, 0, 0, 1], "dilation": [1, 1]})"},
};

CaseTensor edges(DType dtype, Shape shape) {
  return tensor(dtype, std::move(shape)).edges();
}

void add_movements(std::vector<Case>& cases, DType dtype) {
  const auto add = [&cases](const char* op, std::vector<std::optional<CaseTensor>> inputs,
                            const char* attributes) {
    cases.push_back(
        {.name = "bits are kept", .op = op, .inputs = std::move(inputs), .attributes = attributes});
  };
  for (const Moved& moved : kMovements) {
    add(moved.op, {edges(dtype, moved.shape)}, moved.attributes);
    cases.back().outputs = moved.outputs;
  }
  const CaseTensor x = edges(dtype, {5, 4});
  add("concat", {x, edges(dtype, {3, 4}), x}, R"({"axis": 0})");
  add("stack", {x, edges(dtype, {5, 4})}, R"({"axis": 1})");
  add("reverse_sequence", {x, tensor(DType::i32, {4}).of({0, 5, 2, 3})},
      R"({"batch_axis": 1, "time_axis": 0})");
}

void add_indexing(std::vector<Case>& cases, DType dtype) {
  const auto add = [&cases](const char* op, std::vector<std::optional<CaseTensor>> inputs,
                            const char* attributes = "{}") {
    cases.push_back(
        {.name = "bits are kept", .op = op, .inputs = std::move(inputs), .attributes = attributes});
  };
  const CaseTensor x = edges(dtype, {6, 4});
  const CaseTensor rows = tensor(DType::i64, {5}).of({3, -1, 0, 5, 3});
  add("gather", {x, rows});
  add("gather", {x, tensor(DType::i32, {3}).of({1, 9, -2})}, R"({"axis": 1, "oob": "zero"})");
  add("gather", {edges(dtype, {9, 64}), rows});
  add("embedding", {x, rows});
  add("gather_elements", {x, tensor(DType::i32, {3, 4}).range(-6, 5)});
  add("gather_nd", {x, tensor(DType::i32, {3, 2}).of({2, 1, 0, 3, 5, 0})});
  add("scatter_elements", {x, tensor(DType::i32, {2, 4}).range(-6, 5), edges(dtype, {2, 4})});
  add("scatter_nd", {x, tensor(DType::i32, {3, 1}).of({2, 5, 2}), edges(dtype, {3, 4})});
  add("index_copy", {x, tensor(DType::i32, {2}).of({4, 1}), edges(dtype, {2, 4})},
      R"({"axis": 0})");
  add("kv_append", {x, edges(dtype, {6, 1}), tensor(DType::i32, {}).of({3})}, R"({"axis": 1})");
  const CaseTensor mask = tensor(DType::bool_, {6, 4});
  add("where", {mask, x, edges(dtype, {4})});
  add("where", {tensor(DType::f32, {6, 1}).edges(), x, x});
  add("masked_fill", {x, mask, edges(dtype, {})});
  add("masked_scatter", {x, mask, edges(dtype, {30})});
}

void add_filled(std::vector<Case>& cases, const std::string& name) {
  const auto add = [&cases](const char* op, std::vector<std::optional<CaseTensor>> inputs,
                            std::string attributes) {
    cases.push_back({.name = "holds the number",
                     .op = op,
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes)});
  };
  const std::string dtype = R"(, "dtype": ")" + name + R"("})";
  add("fill", {}, R"({"shape": [3, 4], "value": -0.3)" + dtype);
  add("eye", {}, R"({"n": 3, "m": 5, "k": 1)" + dtype);
  add("one_hot", {tensor(DType::i32, {4}).of({0, 2, -1, 7})},
      R"({"depth": 3, "on": 500, "off": -0.5)" + dtype);
}

// Regions around the types: what stands between casts never reaches memory.
void add_regions(std::vector<Case>& cases) {
  const auto step = [](const char* op, std::vector<uint32_t> operands, DType dtype,
                       Attributes attributes = {}) {
    return RegionStep{.op = op,
                      .attributes = std::move(attributes),
                      .operands = std::move(operands),
                      .dtype = dtype};
  };
  const auto cast = [&step](uint32_t operand, DType to) {
    return step("cast", {operand}, to, {{"to", std::string(name_of(to))}});
  };
  const auto add = [&cases](const char* name, CaseTensor x, std::vector<RegionStep> steps) {
    cases.push_back({.name = name,
                     .op = "ew_region",
                     .inputs = {std::move(x)},
                     .tolerance = Tolerance::Arith,
                     .region = std::move(steps)});
  };
  add("T2 8 bits inside a region round", tensor(DType::f32, {1030}),
      {cast(0, DType::f8e4m3), cast(1, DType::f32), step("neg", {2}, DType::f32)});
  add("complex numbers inside a region", tensor(DType::f32, {515}).uniform(-2, -1),
      {cast(0, DType::c64), step("mul", {1, 1}, DType::c64), step("sub", {1, 2}, DType::c64),
       step("abs", {3}, DType::f32)});
  cases.back().tolerance = Tolerance::ArithDiv;
}

}  // namespace

std::vector<Case> element_type_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2, DType::c64}) {
    if (dtype != DType::f8e5m2) add_movements(cases, dtype);
    if (dtype != DType::f8e5m2) add_indexing(cases, dtype);
    add_filled(cases, std::string(name_of(dtype)));
  }
  add_regions(cases);
  return cases;
}

}  // namespace rlx::test
