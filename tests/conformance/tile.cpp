// SPDX-License-Identifier: Apache-2.0
// Cases of tile, repeat_interleave, resize_nearest_2x.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

constexpr DType kAll[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8,   DType::u8,
                          DType::i16, DType::i32, DType::u32,  DType::i64, DType::bool_};

void add_tiles(std::vector<Case>& cases) {
  const auto tile = [&cases](const std::string& law, const CaseTensor& x,
                             const std::string& attributes, std::vector<double> golden = {}) {
    cases.push_back({.name = law, .op = "tile", .inputs = {x}, .attributes = attributes});
    if (!golden.empty()) cases.back().golden = {std::move(golden)};
  };
  const CaseTensor four = tensor(DType::f32, {2, 2}).of({1, 2, 3, 4});
  tile("the whole tensor is repeated", four, R"({"repeats": [1, 2]})", {1, 2, 1, 2, 3, 4, 3, 4});
  tile("rows after rows", four, R"({"repeats": [2, 1]})", {1, 2, 3, 4, 1, 2, 3, 4});
  for (DType t : kAll) tile("every dtype", tensor(t, {3, 5}), R"({"repeats": [2, 3]})");
  tile("an axis of size 1 is a view", tensor(DType::f32, {1, 5}), R"({"repeats": [4, 1]})");
  tile("vectors of four", tensor(DType::f32, {3, 64}), R"({"repeats": [2, 4]})");
  tile("T19 no repeats", tensor(DType::f32, {3, 5}), R"({"repeats": [2, 0]})");
  tile("T19 nothing to repeat", tensor(DType::f32, {0, 5}), R"({"repeats": [3, 2]})");
  tile("T20 rank 0", tensor(DType::f32, {}), R"({"repeats": []})");
  tile("T20 rank 8", tensor(DType::f32, {2, 1, 2, 2, 1, 2, 2, 2}),
       R"({"repeats": [2, 3, 2, 2, 1, 2, 2, 2]})");
  tile("special values keep their bits", tensor(DType::f32, {41}).edges(), R"({"repeats": [3]})");
}

void add_interleaves(std::vector<Case>& cases) {
  const auto repeat = [&cases](const std::string& law, const CaseTensor& x,
                               const std::string& attributes, std::vector<double> golden = {}) {
    cases.push_back(
        {.name = law, .op = "repeat_interleave", .inputs = {x}, .attributes = attributes});
    if (!golden.empty()) cases.back().golden = {std::move(golden)};
  };
  const CaseTensor four = tensor(DType::f32, {2, 2}).of({1, 2, 3, 4});
  repeat("each element in a row", four, R"({"axis": 1, "repeats": 2})", {1, 1, 2, 2, 3, 3, 4, 4});
  repeat("each row in a row", four, R"({"axis": 0, "repeats": 2})", {1, 2, 1, 2, 3, 4, 3, 4});
  for (DType t : kAll) {
    repeat("every dtype", tensor(t, {3, 5}), R"({"axis": -1, "repeats": 3})");
  }
  repeat("heads of a cache", tensor(DType::f16, {2, 3, 7, 16}), R"({"axis": 1, "repeats": 4})");
  repeat("an axis of size 1 is a view", tensor(DType::f32, {4, 1}), R"({"axis": 1, "repeats": 6})");
  repeat("T19 no repeats", tensor(DType::f32, {3, 5}), R"({"axis": 0, "repeats": 0})");
  repeat("T20 rank 8", tensor(DType::i16, {2, 1, 2, 3, 1, 2, 2, 2}),
         R"({"axis": 3, "repeats": 2})");
}

}  // namespace

std::vector<Case> tile_cases() {
  std::vector<Case> cases;
  add_tiles(cases);
  add_interleaves(cases);
  for (DType t : kAll) {
    cases.push_back(
        {.name = "every dtype", .op = "resize_nearest_2x", .inputs = {tensor(t, {2, 3, 5, 7})}});
  }
  cases.push_back({.name = "each pixel 2 x 2",
                   .op = "resize_nearest_2x",
                   .inputs = {tensor(DType::f32, {1, 1, 2, 2}).of({1, 2, 3, 4})},
                   .golden = {{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}}});
  cases.push_back({.name = "T19 no pixels",
                   .op = "resize_nearest_2x",
                   .inputs = {tensor(DType::f32, {1, 3, 0, 4})}});
  return cases;
}

}  // namespace rlx::test
