// SPDX-License-Identifier: Apache-2.0
// Conformance of topk, sort and argsort (ops.md 7.5).
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {

namespace {

Case ordered(const std::string& law, const std::string& op, const CaseTensor& x,
             const std::string& attributes, std::vector<std::vector<double>> golden = {}) {
  return {.name = law + " " + to_string(x.type),
          .op = op,
          .inputs = {x},
          .attributes = attributes,
          .tolerance = Tolerance::Exact,
          .outputs = op == "argsort" ? size_t{1} : size_t{2},
          .golden = std::move(golden)};
}

void add_topk(std::vector<Case>& cases) {
  const CaseTensor ties = tensor(DType::f32, {5}).of({2, 5, 5, 1, 5});
  cases.push_back(
      ordered("T99 ties by lower index", "topk", ties, R"({"k": 3})", {{5, 5, 5}, {1, 2, 4}}));
  cases.push_back(ordered("T99 smallest", "topk", ties, R"({"k": 3, "largest": false})",
                          {{1, 2, 5}, {3, 0, 1}}));
  cases.push_back(ordered("T99 full length", "topk", ties, R"({"k": 5, "sorted": false})",
                          {{5, 5, 5, 2, 1}, {1, 2, 4, 0, 3}}));
  cases.push_back(ordered("T99 k = 0", "topk", ties, R"({"k": 0})", {{}, {}}));
  cases.push_back(ordered("T99 axis 0", "topk", tensor(DType::f32, {3, 2}).of({1, 6, 3, 4, 2, 5}),
                          R"({"k": 2, "axis": 0})", {{3, 6, 2, 5}, {1, 0, 2, 2}}));
  for (const double k : {0.0, 2.0, 3.0, 9.0, -1.0}) {
    Case given = ordered("T99 k at run time is " + std::to_string(k), "topk", ties, R"({"k": 3})");
    given.inputs.emplace_back(tensor(DType::i64, {}).of({k}));
    cases.push_back(given);
  }
  cases.back().golden = {{0, 0, 0}, {-1, -1, -1}};
  Case rows = ordered("T99 k at run time, axis 1", "topk", tensor(DType::f16, {3, 70, 11}),
                      R"({"k": 20, "axis": 1, "index_dtype": "u32", "largest": false})");
  rows.inputs.emplace_back(tensor(DType::u8, {1}).of({7}));
  cases.push_back(rows);
  Case integers = ordered("T99 k at run time, integers, legacy indices", "topk",
                          tensor(DType::i64, {4, 90}), R"({"k": 9, "index_dtype": "f32"})");
  integers.inputs.emplace_back(tensor(DType::i32, {}).of({4}));
  cases.push_back(integers);
  const CaseTensor infinities =
      tensor(DType::f32, {6}).of({-kInfinity, 1, -kInfinity, kNan, kInfinity, kNan});
  cases.push_back(
      ordered("T100 -inf and NaN", "topk", infinities, R"({"k": 6})",
              {{kNan, kNan, kInfinity, 1, -kInfinity, -kInfinity}, {3, 5, 4, 1, 0, 2}}));
  cases.push_back(ordered("T100 -inf and NaN, smallest", "topk", infinities,
                          R"({"k": 4, "largest": false})",
                          {{-kInfinity, -kInfinity, 1, kInfinity}, {0, 2, 1, 4}}));
  cases.push_back(ordered("T100 a long row of -inf", "topk",
                          tensor(DType::f32, {5000}).of(std::vector<double>(5000, -kInfinity)),
                          R"({"k": 100})"));
  cases.push_back(ordered("T99 one tile", "topk", tensor(DType::f32, {7, 2048}), R"({"k": 40})"));
  cases.push_back(ordered("T99 tiles twice", "topk", tensor(DType::f32, {3, 40009}),
                          R"({"k": 200, "index_dtype": "i64"})"));
  // Selected: keys and places of equals, in one step or two.
  cases.push_back(
      ordered("T99 selected, k = 1", "topk", tensor(DType::f32, {2, 9000}), R"({"k": 1})"));
  for (const DType t : {DType::f32, DType::f16, DType::i64}) {
    cases.push_back(ordered("T99 few selected", "topk", tensor(t, {3, 9001}), R"({"k": 40})"));
    cases.push_back(ordered("T99 few selected, smallest", "topk", tensor(t, {2, 2500}),
                            R"({"k": 64, "largest": false})"));
  }
  cases.push_back(ordered("T99 few selected among few values", "topk",
                          tensor(DType::i32, {2, 9000}).range(0, 3), R"({"k": 30})"));
  cases.push_back(ordered("T99 few selected, edges", "topk", tensor(DType::f32, {2, 4097}).edges(),
                          R"({"k": 50})"));
  cases.push_back(
      ordered("T100 NaN as -inf", "topk", infinities, R"({"k": 6, "nan_least": true})",
              {{kInfinity, 1, -kInfinity, -kInfinity, kNan, kNan}, {4, 1, 0, 2, 3, 5}}));
  for (const DType t : {DType::f32, DType::bf16, DType::f64}) {
    cases.push_back(ordered("T100 NaN as -inf", "topk", tensor(t, {2, 4097}).edges(),
                            R"({"k": 50, "nan_least": true, "largest": false})"));
    cases.push_back(
        ordered("T100 NaN as -inf", "sort", tensor(t, {2, 301}).edges(), R"({"nan_least": true})"));
  }
  cases.push_back(ordered("T100 NaN as -inf", "argsort", infinities, R"({"nan_least": true})",
                          {{0, 2, 3, 5, 1, 4}}));
  cases.push_back(ordered("T99 selected among few values", "topk",
                          tensor(DType::i32, {2, 9000}).range(0, 3), R"({"k": 300})"));
  cases.push_back(ordered("T99 selected, smallest, edges", "topk",
                          tensor(DType::f32, {2, 4097}).edges(),
                          R"({"k": 512, "largest": false})"));
  cases.push_back(ordered("T99 selected, 64-bit keys", "topk",
                          tensor(DType::f64, {2, 4500}).edges(),
                          R"({"k": 65, "index_dtype": "i64"})"));
  cases.push_back(ordered("T99 selected, 64-bit ties", "topk",
                          tensor(DType::i64, {1, 5000}).range(0, 2), R"({"k": 100})"));
  cases.push_back(ordered("T100 selected beside NaN and -inf alone", "topk",
                          tensor(DType::f16, {3001}).of([] {
                            std::vector<double> row(3001, -kInfinity);
                            row[17] = row[3000] = kNan;
                            row[2999] = kInfinity;
                            return row;
                          }()),
                          R"({"k": 5})"));
  // Where the first ones are decides how many are looked at, not what is found.
  const auto made = [](int64_t length, double (*value)(int64_t)) {
    std::vector<double> row;
    for (int64_t i = 0; i < length; ++i) row.push_back(value(i));
    return tensor(DType::f32, {length}).of(std::move(row));
  };
  for (const char* k : {R"({"k": 40})", R"({"k": 64, "largest": false})", R"({"k": 300})"}) {
    cases.push_back(ordered("T99 selected from a row in order", "topk",
                            made(9001, [](int64_t i) { return static_cast<double>(i); }), k));
    cases.push_back(
        ordered("T99 selected from equals", "topk", made(4097, [](int64_t) { return 1.0; }), k));
    cases.push_back(ordered("T99 selected, the first of which are near each other", "topk",
                            made(9001,
                                 [](int64_t i) {
                                   return static_cast<double>(i * 7919 % 9001) +
                                          (i % 512 < 160 ? 1e4 : 0.0);
                                 }),
                            k));
  }
  cases.push_back(
      ordered("T99 selected from a tile", "topk", tensor(DType::f32, {5, 1500}), R"({"k": 8})"));
  cases.push_back(
      ordered("T99 selected from a tile", "topk", tensor(DType::bf16, {3, 700}), R"({"k": 170})"));
  cases.push_back(ordered("T99 selected from a tile", "topk", tensor(DType::i64, {2, 2048}),
                          R"({"k": 512, "largest": false})"));
  cases.push_back(ordered("T99 selected from little more than threads", "topk",
                          tensor(DType::f32, {3, 513}).edges(), R"({"k": 1})"));
  for (const int64_t k : {171, 341, 342, 511}) {
    cases.push_back(ordered("T99 selected, as many as a workgroup has room for", "topk",
                            tensor(k == 171 ? DType::i64 : DType::f32, {2, 5003}),
                            R"({"k": )" + std::to_string(k) + "}"));
  }
  cases.push_back(
      ordered("T99 half a tile", "topk", tensor(DType::f16, {2, 9001}), R"({"k": 1024})"));
  cases.push_back(ordered("T99 merged", "topk", tensor(DType::f32, {2, 20011}),
                          R"({"k": 3000, "largest": false, "index_dtype": "u32"})"));
  cases.push_back(ordered("T99 merged to the full length", "topk", tensor(DType::i32, {2, 6151}),
                          R"({"k": 6151, "index_dtype": "f32"})"));
  cases.push_back(ordered("T99 rows longer than 2^20", "topk", tensor(DType::f32, {(1 << 20) + 77}),
                          R"({"k": 50})"));
  cases.push_back(ordered("T99 long axis 0", "topk", tensor(DType::bf16, {3001, 5}),
                          R"({"k": 33, "axis": 0})"));
  cases.push_back(ordered("T99 middle axis", "topk", tensor(DType::f16, {3, 70, 11}),
                          R"({"k": 66, "axis": 1})"));
  cases.push_back(
      ordered("T99 ties in a long row", "topk", tensor(DType::i8, {2, 30000}), R"({"k": 700})"));
}

void add_sort(std::vector<Case>& cases) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8,
                            DType::i16, DType::i32, DType::u32, DType::i64, DType::bool_}) {
    cases.push_back(ordered("any dtype", "sort", tensor(dtype, {5, 301}).edges(), "{}"));
    cases.push_back(ordered("any dtype, in tiles", "sort", tensor(dtype, {2, 4200}).edges(),
                            R"({"descending": true})"));
  }
  const CaseTensor zeros = tensor(DType::f32, {7}).of({0.0, kNan, -0.0, -1, 0.0, kNan, -0.0});
  cases.push_back(
      ordered("-0 equals +0, NaN last", "argsort", zeros, "{}", {{3, 0, 2, 4, 6, 1, 5}}));
  cases.push_back(ordered("-0 equals +0, NaN first", "argsort", zeros, R"({"descending": true})",
                          {{1, 5, 0, 2, 4, 6, 3}}));
  cases.push_back(
      ordered("beyond 2^53", "sort",
              tensor(DType::i64, {4})
                  .of_integers({9007199254740993, 9007199254740992, -9007199254740993, 7}),
              "{}"));
  cases.push_back(ordered("stable", "argsort", tensor(DType::i32, {3, 1000}).range(0, 3), "{}"));
  cases.push_back(ordered("stable in a long row", "argsort",
                          tensor(DType::i32, {2, 30011}).range(0, 50),
                          R"({"index_dtype": "i64"})"));
  cases.push_back(ordered("axis 0", "sort", tensor(DType::f32, {300, 37}), R"({"axis": 0})"));
  cases.push_back(ordered("short axis 0", "sort", tensor(DType::f32, {13, 370}), R"({"axis": 0})"));
  cases.push_back(ordered("middle axis", "sort", tensor(DType::f16, {3, 5000, 2}),
                          R"({"axis": 1, "descending": true})"));
  cases.push_back(ordered("a long row", "sort", tensor(DType::f32, {100003}), "{}"));
  cases.push_back(ordered("an odd number of runs", "sort", tensor(DType::f64, {2048 * 5}),
                          R"({"descending": true})"));
  cases.push_back(ordered("axis of size 1", "sort", tensor(DType::f32, {5, 1}), "{}"));
  cases.push_back(ordered("axis of size 2", "sort", tensor(DType::f32, {500, 2}), "{}"));
  cases.push_back(ordered("T19 empty", "sort", tensor(DType::f32, {0, 5}), "{}"));
  cases.push_back(ordered("T19 empty axis", "argsort", tensor(DType::f32, {5, 0}), "{}"));
  cases.push_back(ordered("T20 rank 8", "sort", tensor(DType::f32, {2, 1, 3, 2, 9, 2, 3, 2}),
                          R"({"axis": 4})"));
}

}  // namespace

std::vector<Case> sort_cases() {
  std::vector<Case> cases;
  add_topk(cases);
  add_sort(cases);
  return cases;
}

}  // namespace rlx::test
