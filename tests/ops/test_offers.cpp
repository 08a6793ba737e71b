// SPDX-License-Identifier: Apache-2.0
// Laws of tables of offers, and of the families' tables.
#include <algorithm>
#include <array>
#include <set>

#include "compiler/ops/attention/attention_lower.h"
#include "compiler/ops/product/product_offers.h"
#include "compiler/ops/vision/conv_offers.h"
#include "compiler/ops/weighted/weighted_product.h"
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

// A problem of a test: what each row of a table would take, and which of them refuse.
struct Times {
  double matmul = 0;
  double matvec = 0;
  double conv = 0;
  bool small = false;
};

std::string never(const OfferContext&, const Times&) {
  return {};
}

const Offer<Times> kMatmul{
    .kernel = KernelId::matmul,
    .refusal = never,
    .microseconds = [](const OfferContext&, const Times& times) { return times.matmul; }};
const Offer<Times> kMatvec{
    .kernel = KernelId::matvec,
    .refusal = [](const OfferContext&,
                  const Times& times) { return std::string(times.small ? "" : "too large"); },
    .microseconds = [](const OfferContext&, const Times& times) { return times.matvec; }};
const Offer<Times> kConv{
    .kernel = KernelId::conv,
    .refusal = never,
    .microseconds = [](const OfferContext&, const Times& times) { return times.conv; }};

OfferContext on(const std::string& target, const std::vector<std::string>* without = nullptr) {
  return OfferContext({.target = find_target(target), .without = without});
}

// The name of the row that is taken.
std::string taken(const std::vector<Offer<Times>>& table, const Times& times,
                  const std::vector<std::string>& without = {}) {
  const auto choice = choose(std::span<const Offer<Times>>(table), on("vulkan", &without), times);
  return choice.row == nullptr ? "none" : offer_name(choice.row->kernel, choice.row->form);
}

Offer<Times> of_rank(Offer<Times> row, uint8_t rank) {
  row.rank = rank;
  return row;
}

template <typename Row>
void check_table(std::span<const Row> table) {
  std::set<std::string> names;
  uint8_t rank = 0;
  for (const Row& row : table) {
    const std::string name = offer_name(row.kernel, row.form);
    INFO(name);
    CHECK(names.insert(name).second);
    CHECK(row.rank >= rank);
    rank = row.rank;
    CHECK((row.refusal != nullptr && row.microseconds != nullptr && row.emit != nullptr));
  }
}

OneNode product(DType dtype, int64_t m, int64_t n, int64_t k, const std::string& target) {
  return {.op = "matmul",
          .inputs = {TensorType{dtype, {m, k}}, TensorType{dtype, {k, n}}},
          .target = target};
}

// The first choice but for those of operands' copies.
const OfferNote& taken_of(const Program& program) {
  for (const Step& step : program.steps) {
    for (const OfferNote& offer : step.offers) {
      if (offer.taken && offer.kernel != "transpose" && offer.kernel != "region") return offer;
    }
  }
  throw std::runtime_error("no step has a choice");
}

std::string failure(const OneNode& node) {
  try {
    lower(node);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

// Rows that devices of one kind alone are asked about are left out elsewhere.
template <typename Row>
size_t for_every_device(std::span<const Row> table) {
  return static_cast<size_t>(std::count_if(table.begin(), table.end(),
                                           [](const Row& row) { return row.is_for == nullptr; }));
}

}  // namespace

TEST_CASE("the_fastest_row_that_takes_the_problem_is_taken_and_of_equal_ones_the_first") {
  CHECK(taken({kMatmul, kMatvec}, {.matmul = 2, .matvec = 1, .small = true}) == "matvec");
  CHECK(taken({kMatmul, kMatvec}, {.matmul = 2, .matvec = 1}) == "matmul");
  CHECK(taken({kMatmul, kMatvec}, {.matmul = 2, .matvec = 2, .small = true}) == "matmul");
  CHECK(taken({kMatvec}, {}) == "none");
}

TEST_CASE("a_row_more_is_taken_where_it_is_the_fastest") {
  const Times times{.matmul = 3, .matvec = 2, .conv = 1, .small = true};
  CHECK(taken({kMatmul, kMatvec}, times) == "matvec");
  CHECK(taken({kMatmul, kMatvec, kConv}, times) == "conv");
}

TEST_CASE("times_are_compared_within_a_rank_alone") {
  const Times times{.matmul = 3, .matvec = 2, .conv = 1, .small = true};
  CHECK(taken({kMatmul, of_rank(kConv, 1)}, times) == "matmul");
  CHECK(taken({kMatmul, kMatvec, of_rank(kConv, 1)}, times) == "matvec");
  CHECK(taken({kMatvec, of_rank(kConv, 1)}, {.conv = 1}) == "conv");
}

TEST_CASE("every_row_is_noted_with_its_refusal_or_its_time") {
  const std::vector<Offer<Times>> table = {kMatmul, kMatvec, of_rank(kConv, 1)};
  const auto choice =
      choose(std::span(table), on("vulkan"), Times{.matmul = 3, .matvec = 2, .conv = 1});
  REQUIRE(choice.notes.size() == 3);
  CHECK((choice.notes[0].taken && choice.notes[0].microseconds == 3));
  CHECK((!choice.notes[1].taken && choice.notes[1].refusal == "too large"));
  CHECK((!choice.notes[2].taken && choice.notes[2].rank == 1 && choice.notes[2].microseconds == 1));
}

TEST_CASE("what_the_target_lacks_and_what_is_left_out_is_not_asked") {
  const Offer<Times> cuda_only{
      .kernel = KernelId::matmul_wgmma, .refusal = never, .microseconds = kMatmul.microseconds};
  const std::vector<Offer<Times>> table = {cuda_only};
  const auto choice = choose(std::span(table), on("vulkan"), Times{});
  CHECK(choice.row == nullptr);
  CHECK(choice.notes[0].refusal == "the target has no such kernel");
  Offer<Times> form = kConv;
  form.form = "ring";
  const Times times{.matmul = 2, .conv = 1};
  CHECK(taken({kMatmul, form}, times) == "conv ring");
  CHECK(taken({kMatmul, form}, times, {"conv"}) == "matmul");
  CHECK(taken({kMatmul, form}, times, {"conv ring"}) == "matmul");
  CHECK(taken({kMatmul, form}, times, {"conv patch"}) == "conv ring");
}

TEST_CASE("tables_have_whole_rows_of_different_names_by_rank") {
  check_table(product_offers());
  check_table(weighted_offers());
  check_table(conv_offers());
  check_table(attention_offers());
  CHECK(own_product_offers().size() + 2 == product_offers().size());
}

TEST_CASE("a_step_has_the_choice_that_made_it") {
  const Program program = lower(product(DType::f16, 4096, 3072, 768, "cuda"));
  REQUIRE(program.steps.size() == 1);
  CHECK(program.steps[0].offers.size() == for_every_device(product_offers()));
  // Of what takes the product, the fastest.
  const OfferNote& chosen = taken_of(program);
  for (const OfferNote& offer : program.steps[0].offers) {
    if (!offer.refusal.empty() || offer.rank != chosen.rank) continue;
    CHECK(offer.microseconds >= chosen.microseconds);
  }
}

TEST_CASE("another_kernel_takes_what_the_left_out_one_would_have") {
  OneNode node = product(DType::f16, 32, 384, 384, "cuda");
  CHECK(taken_of(lower(node)).kernel == "matmul_mma");
  node.without = {"matmul_mma"};
  CHECK(taken_of(lower(node)).kernel == "matmul");
  CHECK(refusal_by(lower(node), "matmul_mma") == "left out by --without");
  node.without = {"matmul_mma", "matmul"};
  CHECK(contains(failure(node), "matmul \"n\": no kernel takes it"));
  CHECK(contains(failure(node), "matvec (more than 4 vectors)"));
}

TEST_CASE("without_the_library_its_alternative_is_the_step") {
  OneNode node = product(DType::f16, 4096, 768, 3072, "cuda");
  const Program with = lower(node);
  REQUIRE(with.steps[0].kind == StepKind::LibraryGemm);
  REQUIRE(with.steps[0].alternatives.size() == 1);
  node.without = {"library"};
  const Program program = lower(node);
  REQUIRE(program.steps.size() == 1);
  CHECK(program.steps[0].kind == StepKind::Dispatch);
  CHECK(program.steps[0].params == with.steps[0].alternatives[0].params);
}

TEST_CASE("convolutions_attention_and_weights_that_are_decoded_have_tables_too") {
  OneNode conv{
      .op = "conv",
      .inputs = {TensorType{DType::f16, {1, 64, 56, 56}}, TensorType{DType::f16, {64, 64, 3, 3}}},
      .attributes = {{"pads", Ints{1, 1, 1, 1}}},
      .target = "cuda"};
  CHECK(taken_of(lower(conv)).kernel == "conv_mma ring");
  CHECK(refusal_by(lower(conv), "conv_mma patch") == "channels in whole 16-byte pieces");
  conv.without = {"conv_mma"};
  CHECK(taken_of(lower(conv)).kernel == "matmul_wgmma window");
  conv.without = {};
  CHECK(refusal_by(lower(conv), "conv_depthwise") == "filters of several channels");
  conv.without = {"conv_mma", "matmul_wgmma"};
  CHECK(taken_of(lower(conv)).kernel == "conv");
  conv.without = {"conv_mma", "matmul_wgmma", "conv"};
  CHECK(contains(failure(conv), "conv \"n\": no kernel takes it"));
  // f32 in two parts, where products are many enough for copies to channels last.
  conv.without = {};
  conv.inputs = {TensorType{DType::f32, {1, 64, 56, 56}}, TensorType{DType::f32, {64, 64, 3, 3}}};
  CHECK(taken_of(lower(conv)).kernel == "conv_mma ring");
  conv.without = {"conv_mma", "matmul_wgmma"};
  CHECK(taken_of(lower(conv)).kernel == "conv");
  conv.without = {};
  conv.inputs = {TensorType{DType::f32, {1, 16, 8, 8}}, TensorType{DType::f32, {16, 16, 3, 3}}};
  CHECK(taken_of(lower(conv)).kernel == "conv");
  CHECK(contains(refusal_by(lower(conv), "conv_mma ring"), "so few products"));

  OneNode pointwise{
      .op = "conv",
      .inputs = {TensorType{DType::f32, {1, 64, 8, 8}}, TensorType{DType::f32, {32, 64, 1, 1}}},
      .target = "cuda"};
  const Program program = lower(pointwise);
  CHECK(taken_of(program).kernel == "product");
  // The product's own choice stands behind it.
  CHECK(program.steps[0].offers.size() ==
        for_every_device(conv_offers()) + for_every_device(product_offers()));

  const TensorType heads{DType::f32, {2, 5, 4, 8}};
  OneNode attention{.op = "attention",
                    .inputs = {heads, heads, heads},
                    .attributes = {{"num_heads", int64_t{4}}, {"head_dim", int64_t{8}}}};
  CHECK(taken_of(lower(attention)).kernel == "attention");
  CHECK(refusal_by(lower(attention), "attention_decode") == "more than 4 queries");

  OneNode blocks{.op = "dequant_matmul",
                 .inputs = {TensorType{DType::f16, {64, 512}}, TensorType{DType::q4_k, {256, 512}}},
                 .attributes = {{"scheme", std::string("q4_k")}},
                 .target = "cuda"};
  CHECK(taken_of(lower(blocks)).kernel == "dequant_mma");
  blocks.without = {"dequant_mma"};
  CHECK(taken_of(lower(blocks)).kernel == "dequant_matmul");
}

TEST_CASE("scatters_choose_their_form_by_updates_and_places") {
  const auto scatter = [](int64_t updates) {
    return OneNode{
        .op = "scatter_nd",
        .inputs = {f32({100000, 4}), TensorType{DType::i64, {updates, 1}}, f32({updates, 4})}};
  };
  CHECK(taken_of(lower(scatter(100))).kernel == "scatter direct");
  CHECK(taken_of(lower(scatter(10000))).kernel == "scatter winners");
  CHECK(taken_of(lower(scatter(3000))).kernel == "scatter sorted");
  CHECK(refusal_by(lower(scatter(3000)), "scatter winners") == "many more places than updates");
  OneNode without = scatter(100);
  without.without = {"scatter direct"};
  CHECK(taken_of(lower(without)).kernel == "scatter sorted");
}

TEST_CASE("softmax_chooses_its_form_by_how_rows_stand_and_how_many_they_are") {
  const auto softmax = [](Shape shape, int64_t axis) {
    return OneNode{
        .op = "softmax", .inputs = {f32(std::move(shape))}, .attributes = {{"axis", axis}}};
  };
  CHECK(taken_of(lower(softmax({256, 512}, 0))).kernel == "softmax column");
  CHECK(taken_of(lower(softmax({8, 512}, 1))).kernel == "softmax in registers");
  CHECK(taken_of(lower(softmax({8192, 512}, 1))).kernel == "softmax narrow teams");
  const Program twice = lower(softmax({2, 100000}, 1));
  CHECK(taken_of(twice).kernel == "softmax read twice");
  CHECK(refusal_by(twice, "softmax column") == "rows that do not stand side by side");
  CHECK(refusal_by(twice, "softmax in registers") == "rows too long for registers");
  // x once more.
  const std::vector<OfferNote> notes = lower(softmax({4096, 4096}, 1)).steps[0].offers;
  REQUIRE(notes.size() == 4);
  CHECK(notes[3].microseconds > notes[2].microseconds);
  OneNode without = softmax({256, 512}, 0);
  without.without = {"softmax column"};
  CHECK(taken_of(lower(without)).kernel == "softmax in registers");
  CHECK(kernel_of(lower(without), 0).defines.at("RLX_BY_COLUMN") == "0");
}

TEST_CASE("norms_choose_registers_parts_or_to_read_again") {
  const auto norm = [](Shape shape, std::vector<std::string> without = {}) {
    return OneNode{
        .op = "rms_norm", .inputs = {f32(std::move(shape))}, .without = std::move(without)};
  };
  CHECK(taken_of(lower(norm({64, 512}))).kernel == "norm in registers");
  CHECK(refusal_by(lower(norm({64, 512})), "norm in parts") == "rows that fit registers");
  CHECK(taken_of(lower(norm({2, 50000}))).kernel == "norm in parts");
  // The choice of the statistics stands behind it.
  CHECK(refusal_by(lower(norm({2, 50000})), "moments column") ==
        "rows that do not stand side by side");
  CHECK(taken_of(lower(norm({2, 50000}, {"norm in parts"}))).kernel == "norm read again");
  CHECK(taken_of(lower(norm({1024, 50000}))).kernel == "norm read again");
  CHECK(kernel_of(lower(norm({64, 512}, {"norm in registers"})), 0).defines.at("RLX_ITEMS") == "0");
}

TEST_CASE("reductions_searches_and_scans_choose_columns_rows_and_chunks_alike") {
  struct Family {
    std::string op;
    std::string kernel;
    Attributes (*along)(int64_t axis);
  };
  const auto axes = [](int64_t axis) { return Attributes{{"axes", Ints{axis}}}; };
  const auto axis = [](int64_t at) { return Attributes{{"axis", at}}; };
  for (const Family& family :
       {Family{"reduce_sum", "reduce", axes}, Family{"argmax", "arg_reduce", axis},
        Family{"cumsum", "scan", axis}}) {
    const auto node = [&](Shape shape, int64_t along, std::vector<std::string> without = {}) {
      return OneNode{.op = family.op,
                     .inputs = {f32(std::move(shape))},
                     .attributes = family.along(along),
                     .without = std::move(without)};
    };
    INFO(family.op);
    CHECK(taken_of(lower(node({4096, 256}, 1))).kernel == family.kernel + " row");
    CHECK(taken_of(lower(node({2, 1 << 20}, 1))).kernel == family.kernel + " row chunks");
    CHECK(taken_of(lower(node({256, 65536}, 0))).kernel == family.kernel + " column");
    CHECK(taken_of(lower(node({1 << 20, 32}, 0))).kernel == family.kernel + " column chunks");
    const Program whole = lower(node({2, 1 << 20}, 1, {family.kernel + " row chunks"}));
    CHECK(taken_of(whole).kernel == family.kernel + " row");
    CHECK(whole.steps.size() == 1);
    CHECK(refusal_by(whole, family.kernel + " row chunks") == "left out by --without");
    const Program along_rows = lower(node({256, 65536}, 0, {family.kernel + " column"}));
    CHECK(kernel_of(along_rows, 0).defines.at("RLX_BY_COLUMN") == "0");
    CHECK(contains(failure(node({4096, 256}, 1, {family.kernel})), "no kernel takes it"));
  }
}

TEST_CASE("sorts_choose_tiles_merged_runs_or_selection") {
  const auto topk = [](int64_t length, int64_t k, std::vector<std::string> without = {}) {
    return OneNode{.op = "topk",
                   .inputs = {f32({4, length})},
                   .attributes = {{"k", k}},
                   .without = std::move(without)};
  };
  CHECK(taken_of(lower(topk(500, 400))).kernel == "sort tiles");
  CHECK(taken_of(lower(topk(100000, 10))).kernel == "sort selection");
  CHECK(taken_of(lower(topk(100000, 10, {"sort selection"}))).kernel == "sort tiles");
  CHECK(taken_of(lower(topk(100000, 2000))).kernel == "sort merged runs");
  CHECK(refusal_by(lower(topk(100000, 2000)), "sort tiles") ==
        "more than 1024 wanted of rows that no tile holds");
  CHECK(lower(topk(500, 400, {"sort tiles"})).steps.size() == 2);
}

TEST_CASE("draws_choose_tiles_or_selection") {
  const auto draw = [](int64_t length, int64_t k, std::vector<std::string> without = {}) {
    return OneNode{
        .op = "draw_topk",
        .inputs = {f32({4, length}), TensorType{DType::i64, {}}, TensorType{DType::u32, {}}},
        .attributes = {{"k", k}, {"stream", int64_t{1}}},
        .without = std::move(without)};
  };
  CHECK(taken_of(lower(draw(500, 400))).kernel == "sort tiles");
  CHECK(lower(draw(500, 400)).steps.size() == 1);
  CHECK(taken_of(lower(draw(128256, 40))).kernel == "sort selection");
  CHECK(lower(draw(128256, 40)).steps.size() == 2);
  CHECK(taken_of(lower(draw(128256, 1024))).kernel == "sort tiles");
  CHECK(refusal_by(lower(draw(500, 400)), "sort merged runs") == "no merge ends with a draw");
  CHECK(contains(failure(draw(500, 400, {"sort tiles"})), "no kernel takes it"));
}

TEST_CASE("pools_choose_how_many_threads_take_a_window") {
  const auto pool = [](int64_t kernel, std::vector<std::string> without = {}) {
    return OneNode{.op = "pool",
                   .inputs = {f32({1, 4, 32, 32})},
                   .attributes = {{"kind", std::string("max")}, {"kernel", Ints{kernel, kernel}}},
                   .without = std::move(without)};
  };
  CHECK(taken_of(lower(pool(3))).kernel == "pool thread");
  CHECK(refusal_by(lower(pool(3)), "pool workgroup") == "windows of at most 64 taps");
  CHECK(refusal_by(lower(pool(3)), "pool channels") == "channels that are no neighbours in y");
  CHECK(taken_of(lower(pool(9))).kernel == "pool workgroup");
  CHECK(taken_of(lower(pool(9, {"pool workgroup"}))).kernel == "pool thread");
}

TEST_CASE("copies_choose_tiles_or_a_region_by_how_their_sides_stand") {
  const OneNode columns{
      .op = "sort", .inputs = {f32({300, 40})}, .attributes = {{"axis", int64_t{0}}}};
  const Program program = lower(columns);
  CHECK(refusal_by(program, "transpose").empty());
  OneNode without = columns;
  without.without = {"transpose"};
  CHECK(refusal_by(lower(without), "transpose") == "left out by --without");
  CHECK(lower(without).steps.size() == program.steps.size());
  for (const Step& step : lower(without).steps) {
    CHECK(lower(without).kernels.at(index_of(step.kernel.value())).kernel != KernelId::transpose);
  }
}

TEST_CASE("passes_are_told_what_the_lowering_takes") {
  const ProductTypes pair{
      .m = 1024, .n = 8192, .k = 2048, .x = DType::bf16, .w = DType::bf16, .gated = true};
  const auto row = [&](const std::vector<std::string>& without) {
    const OfferContext at = on("cuda", &without);
    return choose(product_offers(), at, product_of_types(pair)).row;
  };
  REQUIRE(row({}) != nullptr);
  CHECK(row({})->kernel == KernelId::matmul_wgmma);
  CHECK(row({"matmul_wgmma"}) == nullptr);
}

}  // namespace rlx::test
