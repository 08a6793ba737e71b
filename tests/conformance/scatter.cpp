// SPDX-License-Identifier: Apache-2.0
// Cases of scatter_add, scatter_elements, scatter_nd, index_copy and index_add; golden values from
// NumPy (ufunc.at). Up to 2048 updates take one kernel, more are sorted or find their winners.
// In place or not: tests/compile/test_indexing.cpp.
#include <cmath>
#include <cstdint>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

class Table {
 public:
  std::vector<Case> cases;

  void add(const std::string& name, const CaseTensor& updates, const CaseTensor& index,
           std::optional<CaseTensor> base, const std::string& attributes,
           const std::vector<std::vector<double>>& golden = {}) {
    cases.push_back({.name = name,
                     .op = "scatter_add",
                     .inputs = {updates, index},
                     .attributes = attributes,
                     .tolerance = Tolerance::Sum,
                     .golden = golden});
    if (base) cases.back().inputs.emplace_back(std::move(base));
  }

  // x, index, updates.
  void into(const std::string& op, const std::string& name, const CaseTensor& x,
            const CaseTensor& index, const CaseTensor& updates, const std::string& attributes,
            const std::vector<std::vector<double>>& golden = {}) {
    const bool combines = attributes.find("add") != std::string::npos ||
                          attributes.find("mul") != std::string::npos || op == "index_add";
    cases.push_back({.name = name,
                     .op = op,
                     .inputs = {x, index, updates},
                     .attributes = attributes,
                     .tolerance = combines ? Tolerance::Sum : Tolerance::Exact,
                     .golden = golden});
  }
};

std::string reduction(const std::string& name) {
  return R"({"reduction": ")" + name + "\"}";
}

void scatter_add_cases(Table& table) {
  const CaseTensor three = tensor(DType::f32, {3, 2}).of({1, 2, 3, 4, 5, 6});
  const CaseTensor places = tensor(DType::i32, {3}).of({2, 0, 2});
  table.add("T105 duplicates add up, no base", three, places, std::nullopt, R"({"dim0": 4})",
            {{3, 4, 0, 0, 6, 8, 0, 0}});
  table.add("T105 duplicates add up on a base", three, places,
            tensor(DType::f32, {4, 2}).of({1, 1, 1, 1, 1, 1, 1, 1}), R"({"dim0": 4})",
            {{4, 5, 1, 1, 7, 9, 1, 1}});
  table.add("T13 100,000 updates of ten places give the same bits each time",
            tensor(DType::f32, {100000}), tensor(DType::i32, {100000}).range(0, 9), std::nullopt,
            R"({"dim0": 10})");
  table.add("T106 rows beyond every index keep the base", tensor(DType::f32, {6, 8}),
            tensor(DType::i64, {6}).range(0, 2), tensor(DType::f32, {90, 8}), R"({"dim0": 90})");
  table.add("T25 negative indices, T24 outside is dropped", tensor(DType::f32, {5, 3}),
            tensor(DType::i32, {5}).of({-1, 4, -5, 3, -4}), std::nullopt, R"({"dim0": 4})");
  table.add("index of rank 2", tensor(DType::bf16, {2, 3, 4}),
            tensor(DType::u8, {2, 3}).range(0, 3), std::nullopt, R"({"dim0": 5})");
  table.add("index of rank 0, rows of rank 2", tensor(DType::f16, {3, 2}),
            tensor(DType::i32, {}).of({1}), std::nullopt, R"({"dim0": 2})");
  for (DType t :
       {DType::f64, DType::i8, DType::u8, DType::i16, DType::i32, DType::u32, DType::i64}) {
    table.add("every payload dtype, integers wrap", tensor(t, {70, 3}),
              tensor(DType::i16, {70}).range(-4, 3), tensor(t, {4, 3}), R"({"dim0": 4})");
  }
  table.add("T8 legacy float indices", tensor(DType::f32, {4, 2}),
            tensor(DType::f32, {4}).of({1.9, NAN, -1, 1e20}), std::nullopt, R"({"dim0": 3})");
  table.add("T10 many halves of one place add up in f32",
            tensor(DType::f16, {1500, 1}).uniform(1, 2), tensor(DType::i32, {1500}).range(0, 0),
            std::nullopt, R"({"dim0": 1})");
  table.add("rows longer than a workgroup", tensor(DType::f32, {4, 3001}),
            tensor(DType::i32, {4}).of({1, 0, 1, 1}), std::nullopt, R"({"dim0": 2})");
  table.add("T19 no updates keep the base", tensor(DType::f32, {0, 3}), tensor(DType::i32, {0}),
            tensor(DType::f32, {2, 3}), R"({"dim0": 2})");
  table.add("T19 no updates, no base", tensor(DType::f16, {0, 3}), tensor(DType::i32, {0}),
            std::nullopt, R"({"dim0": 5})");
  table.add("sorted: rows of 4, places of two digits", tensor(DType::f32, {3000, 8}),
            tensor(DType::i32, {3000}).range(-320, 310), tensor(DType::f32, {300, 8}),
            R"({"dim0": 300})");
  table.add("sorted: one place takes all halves", tensor(DType::f16, {5000, 3}),
            tensor(DType::i64, {5000}).range(-1, 0), tensor(DType::f16, {1, 3}), R"({"dim0": 1})");
  table.add("sorted: several tiles of several rounds", tensor(DType::f64, {140001}),
            tensor(DType::i32, {140001}).range(0, 254), std::nullopt, R"({"dim0": 255})");
  table.add("sorted: integers wrap", tensor(DType::i8, {2500, 2}),
            tensor(DType::u8, {2500}).range(0, 9), std::nullopt, R"({"dim0": 7})");
}

void scatter_into_cases(Table& table) {
  const CaseTensor five = tensor(DType::f32, {5}).of({1, 2, 3, 4, 5});
  const CaseTensor tuples = tensor(DType::i32, {3, 1}).of({1, 1, 3});
  const CaseTensor three = tensor(DType::f32, {3}).of({10, -1, 2});
  const auto nd = [&](const std::string& how, const std::vector<double>& golden) {
    table.into("scatter_nd", "T105 duplicates with reduction " + how, five, tuples, three,
               reduction(how), {golden});
  };
  nd("none", {1, -1, 3, 2, 5});
  nd("add", {1, 11, 3, 6, 5});
  nd("mul", {1, -20, 3, 8, 5});
  nd("max", {1, 10, 3, 4, 5});
  nd("min", {1, -1, 3, 2, 5});
  table.into("scatter_nd", "T14 NaN wins maxima", tensor(DType::f16, {3}).of({NAN, 1, 2}),
             tensor(DType::i32, {3, 1}).of({0, 1, 1}), tensor(DType::f16, {3}).of({1, NAN, 9}),
             reduction("max"));
  table.into("scatter_nd", "slices of 16-byte words", tensor(DType::f16, {4, 3, 16}),
             tensor(DType::i32, {5, 2}).range(-4, 4), tensor(DType::f16, {5, 16}), "{}");
  table.into("scatter_nd", "slices of odd length", tensor(DType::bf16, {4, 3, 5}),
             tensor(DType::i32, {2, 3, 1}).range(-5, 4), tensor(DType::bf16, {2, 3, 3, 5}), "{}");
  table.into("scatter_nd", "tuples of no coordinate replace the whole of x",
             tensor(DType::f32, {3, 2}), tensor(DType::i32, {2, 0}), tensor(DType::f32, {2, 3, 2}),
             "{}");
  table.into("scatter_nd", "a tuple alone", tensor(DType::f32, {3, 2}),
             tensor(DType::i32, {2}).of({-1, 0}), tensor(DType::f32, {}), reduction("add"));
  table.into("scatter_nd", "T24 a tuple with a coordinate outside is dropped",
             tensor(DType::i32, {2, 3}), tensor(DType::i64, {3, 2}).of({0, 3, -3, 0, 1, -3}),
             tensor(DType::i32, {3}), "{}");

  table.into("scatter_elements", "golden over axis 0",
             tensor(DType::f32, {3, 3}).of({0, 0, 0, 0, 0, 0, 0, 0, 0}),
             tensor(DType::i32, {2, 3}).of({1, 0, 2, 0, 2, 1}),
             tensor(DType::f32, {2, 3}).of({1, 1.1, 1.2, 2, 2.1, 2.2}), "{}",
             {{2, 1.1, 0, 1, 0, 2.2, 0, 2.1, 1.2}});
  table.into("scatter_elements", "T104 index smaller than x off the axis",
             tensor(DType::f32, {4, 5, 3}), tensor(DType::i32, {2, 9, 2}).range(-6, 5),
             tensor(DType::f32, {2, 9, 2}), R"({"axis": 1, "reduction": "add"})");
  for (DType t : {DType::f16, DType::f64, DType::i64, DType::u8, DType::bool_}) {
    table.into("scatter_elements", "T105 the last of each place stays, every payload dtype",
               tensor(t, {6, 4}), tensor(DType::i32, {5, 4}).range(0, 2), tensor(t, {5, 4}),
               R"({"axis": -2})");
  }
  table.into("scatter_elements", "u32 minima", tensor(DType::u32, {7}),
             tensor(DType::i32, {40}).range(0, 6), tensor(DType::u32, {40}), reduction("min"));
  table.into("scatter_elements", "T19 empty index", tensor(DType::f32, {4, 3}),
             tensor(DType::i32, {0, 3}), tensor(DType::f32, {0, 3}), "{}");
  table.into("scatter_elements", "winners of many updates", tensor(DType::f32, {50, 70}),
             tensor(DType::i32, {60, 70}).range(-50, 49), tensor(DType::f32, {60, 70}), "{}");
  table.into("scatter_elements", "the last of sorted updates in a large base",
             tensor(DType::i16, {40000}), tensor(DType::i32, {2100}).range(0, 60),
             tensor(DType::i16, {2100}), "{}");
  table.into("scatter_elements", "sorted products", tensor(DType::f32, {9, 11}),
             tensor(DType::i32, {300, 11}).range(0, 8),
             tensor(DType::f32, {300, 11}).uniform(0.9, 1.1), reduction("mul"));
  table.into("scatter_elements", "sorted maxima with NaN and infinities", tensor(DType::f32, {64}),
             tensor(DType::i32, {3000}).range(0, 63), tensor(DType::f32, {3000}).edges(),
             reduction("max"));
}

void index_cases(Table& table) {
  table.into("index_copy", "a middle axis", tensor(DType::f32, {2, 5, 4}),
             tensor(DType::i64, {4}).of({4, -5, 1, 1}), tensor(DType::f32, {2, 4, 4}),
             R"({"axis": 1})");
  table.into("index_copy", "the last axis of bytes", tensor(DType::u8, {3, 6}),
             tensor(DType::i32, {2}).of({5, 6}), tensor(DType::u8, {3, 2}), R"({"axis": -1})");
  table.into("index_add", "golden with alpha", tensor(DType::f32, {3, 2}).of({1, 1, 1, 1, 1, 1}),
             tensor(DType::i32, {3}).of({0, 2, 0}),
             tensor(DType::f32, {3, 2}).of({1, 2, 3, 4, 5, 6}), R"({"axis": 0, "alpha": -0.5})",
             {{-2, -3, 1, 1, -0.5, -1}});
  table.into("index_add", "integers take a whole alpha", tensor(DType::i32, {3, 4}),
             tensor(DType::i32, {6}).range(-4, 3), tensor(DType::i32, {3, 6}),
             R"({"axis": 1, "alpha": 3})");
  table.into("index_add", "sorted behind two outer rows", tensor(DType::bf16, {2, 40, 12}),
             tensor(DType::i32, {2200}).range(0, 39), tensor(DType::bf16, {2, 2200, 12}),
             R"({"axis": 1, "alpha": 0.25})");
}

}  // namespace

std::vector<Case> scatter_cases() {
  Table table;
  scatter_add_cases(table);
  scatter_into_cases(table);
  index_cases(table);
  return table.cases;
}

}  // namespace rlx::test
