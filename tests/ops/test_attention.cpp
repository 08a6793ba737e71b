// SPDX-License-Identifier: Apache-2.0
// Laws of attention's layouts, diagnostics and tiling.
#include "compiler/dispatch/target.h"
#include "compiler/ops/attention/attention_mma_tiles.h"
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

// q [2,5,4,8], k and v [2,7,2,8], then `more` inputs; attributes over four query heads and two kv
// heads of 8.
OneNode attention(Attributes attributes = {}, std::vector<std::optional<TensorType>> more = {}) {
  attributes.emplace("num_heads", int64_t{4});
  attributes.emplace("num_kv_heads", int64_t{2});
  attributes.emplace("head_dim", int64_t{8});
  OneNode node{
      .op = "attention",
      .inputs = {TensorType{DType::f32, {2, 5, 4, 8}}, TensorType{DType::f32, {2, 7, 2, 8}},
                 TensorType{DType::f32, {2, 7, 2, 8}}},
      .attributes = std::move(attributes)};
  node.inputs.insert(node.inputs.end(), more.begin(), more.end());
  return node;
}

}  // namespace

TEST_CASE("attention_output_follows_its_layout") {
  CHECK(infer(attention()).outputs[0].shape == Shape{2, 5, 4, 8});
  CHECK(infer(attention({{"out_layout", std::string("bhsd")}})).outputs[0].shape ==
        Shape{2, 4, 5, 8});
  CHECK(infer(attention({{"out_layout", std::string("bsd")}})).outputs[0].shape == Shape{2, 5, 32});
}

TEST_CASE("attention_refuses_what_does_not_fit") {
  CHECK(refused(attention({{"num_kv_heads", int64_t{3}}}), "bad-attribute",
                "multiple of num_kv_heads = 3"));
  CHECK(refused(attention({{"num_kv_heads", int64_t{4}}}), "bad-shape", "k is f32[2, 7, 2, 8]"));
  CHECK(refused(attention({{"head_dim", int64_t{16}}}), "bad-shape", "wanted [B, S, 4, 16]"));
  CHECK(refused(attention({{"v_head_dim", int64_t{4}}}), "bad-shape", "v is f32[2, 7, 2, 8]"));
  CHECK(refused(attention({{"head_dim", int64_t{513}}}), "bad-attribute", "head_dim"));
  // As many heads have more columns than can be counted.
  CHECK(refused(attention({{"num_heads", int64_t{1} << 60}}), "bad-attribute",
                "wanted at most 1073741824"));
  CHECK(refused(attention({{"q_layout", std::string("bsd")}}), "bad-rank", "layout bsd"));
  CHECK(refused(attention({{"kv_layout", std::string("sbhd")}}), "bad-attribute", "kv_layout"));
  CHECK(refused(attention({{"window_left", int64_t{-2}}}), "bad-attribute", "window_left"));
  CHECK(refused(attention({{"softcap", -1.0}}), "bad-attribute", "softcap"));
  OneNode packed = attention({{"packed", std::string("3hd")}});
  packed.inputs.resize(1);
  CHECK(refused(packed, "bad-attribute", "num_kv_heads is 2"));
  CHECK(refused(attention({{"packed", std::string("gqa")}}), "bad-arity", "k and v are given"));
  OneNode without_v = attention();
  without_v.inputs[2] = std::nullopt;
  CHECK(refused(without_v, "bad-arity", "k or v is null"));
  OneNode short_v = attention();
  short_v.inputs[2]->shape = {2, 6, 2, 8};
  CHECK(refused(short_v, "bad-shape", "k has 7 tokens and v 6"));
}

TEST_CASE("attention_masks_have_one_meaning_per_rank") {
  const auto mask = [](Shape shape, DType dtype = DType::bool_) {
    return attention({}, {TensorType{dtype, std::move(shape)}});
  };
  CHECK(infer(mask({2, 7})).good);
  CHECK(infer(mask({2, 5, 7})).good);
  CHECK(infer(mask({1, 4, 1, 7})).good);
  CHECK(refused(mask({5, 7}), "bad-shape", "wanted [2, 7]"));
  CHECK(refused(mask({7}), "bad-rank", "wanted rank 2, 3 or 4"));
  CHECK(refused(mask({1, 2, 1, 7}), "bad-shape", "broadcasts"));
  CHECK(refused(attention({}, {std::nullopt, TensorType{DType::f32, {5, 7}}}), "bad-rank",
                "bias is f32[5, 7]"));
  CHECK(refused(attention({}, {std::nullopt, TensorType{DType::i32, {1, 1, 5, 7}}}), "bad-dtype",
                "bias is i32"));
  CHECK(refused(attention({}, {std::nullopt, std::nullopt, TensorType{DType::i32, {3}}}),
                "bad-shape", "kv_len is i32[3]"));
  CHECK(refused(attention({}, {std::nullopt, std::nullopt, TensorType{DType::f32, {2}}}),
                "bad-dtype", "kv_len is f32"));
}

TEST_CASE("attention_sinks_are_one_score_per_query_head") {
  const auto sinks = [](TensorType type) {
    return attention({}, {std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::move(type)});
  };
  CHECK(infer(sinks({DType::f16, {4}})).good);
  CHECK(refused(sinks({DType::f32, {2}}), "bad-shape", "sinks is f32[2], wanted [4]"));
  CHECK(refused(sinks({DType::i32, {4}}), "bad-dtype", "sinks is i32"));
}

TEST_CASE("attention_is_one_dispatch_without_a_score_matrix") {
  const Program program = lower(attention());
  REQUIRE(program.steps.size() == 1);
  for (const Buffer& buffer : program.buffers) CHECK(buffer.type.shape.size() == 4);
}

namespace {

// Few queries over many keys: q [1, tokens, heads, dim], k and v [1, keys, kv_heads, dim].
OneNode decode_attention(int64_t tokens, int64_t keys, int64_t heads, int64_t kv_heads,
                         int64_t dim) {
  const TensorType kv{DType::f32, {1, keys, kv_heads, dim}};
  return {.op = "attention",
          .inputs = {TensorType{DType::f32, {1, tokens, heads, dim}}, kv, kv},
          .attributes = {{"num_heads", heads}, {"num_kv_heads", kv_heads}, {"head_dim", dim}},
          .target = "vulkan"};
}

}  // namespace

TEST_CASE("few_queries_read_each_key_once_for_all_heads_that_share_it") {
  const Program program = lower(decode_attention(1, 100, 32, 8, 64));
  REQUIRE(program.steps[0].kernel.has_value());
  CHECK(kernel_of(program, 0).kernel == KernelId::attention_decode);
  CHECK(kernel_of(program, 0).defines.at("RLX_R") == "4");
  CHECK(kernel_of(lower(decode_attention(4, 100, 8, 8, 64)), 0).kernel ==
        KernelId::attention_decode);
  CHECK(kernel_of(lower(decode_attention(5, 100, 8, 8, 64)), 0).kernel == KernelId::attention);
}

TEST_CASE("keys_are_split_over_workgroups_until_heads_alone_fill_the_device") {
  const auto splits = [](const OneNode& node) {
    const Program program = lower(node);
    const std::string text = kernel_of(program, 0).defines.at("RLX_SPLITS");
    CHECK(program.steps.size() == (text == "1" ? 1 : 2));
    return text;
  };
  CHECK(splits(decode_attention(1, 2048, 32, 8, 64)) == "32");
  CHECK(splits(decode_attention(1, 64, 32, 8, 64)) == "1");
  CHECK(splits(decode_attention(1, 2048, 512, 512, 64)) == "1");
}

TEST_CASE("attention_reads_transposed_heads_without_a_copy") {
  const Program program =
      OneNodeGraph(attention()).lower({{.input = 0, .strides = {160, 8, 40, 1}}});
  CHECK(program.steps.size() == 1);
}

namespace {

// Attention for the target with tensor cores: q [batch, tokens, heads, dim], k and v [batch, keys,
// kv_heads, dim].
struct MmaSizes {
  DType dtype = DType::f16;
  int64_t batch = 1;
  int64_t tokens = 128;
  int64_t keys = 128;
  int64_t heads = 12;
  int64_t kv_heads = 12;
  int64_t dim = 64;
};

OneNode mma_attention(const MmaSizes& s, Attributes attributes = {}) {
  attributes.emplace("num_heads", s.heads);
  attributes.emplace("num_kv_heads", s.kv_heads);
  attributes.emplace("head_dim", s.dim);
  const TensorType kv{s.dtype, {s.batch, s.keys, s.kv_heads, s.dim}};
  return {.op = "attention",
          .inputs = {TensorType{s.dtype, {s.batch, s.tokens, s.heads, s.dim}}, kv, kv},
          .attributes = std::move(attributes),
          .target = "cuda"};
}

int64_t defined(const Program& program, const std::string& name) {
  return std::stoll(kernel_of(program, 0).defines.at(name));
}

}  // namespace

TEST_CASE("attention_takes_the_tensor_cores_that_a_target_has") {
  OneNode node = mma_attention({});
  CHECK(kernel_of(lower(node), 0).kernel == KernelId::attention_mma);
  CHECK(contains(lower(node).steps[0].reason, "tensor cores"));
  node.target = "vulkan";
  CHECK(kernel_of(lower(node), 0).kernel == KernelId::attention);
}

TEST_CASE("attention_says_why_it_does_without_tensor_cores") {
  const auto refusal = [](const OneNode& node) {
    const Program program = lower(node);
    CHECK(kernel_of(program, 0).kernel == KernelId::attention);
    return refusal_by(program, "attention_mma");
  };
  CHECK(contains(refusal(mma_attention({.dim = 12})), "head size 12 is no multiple of 8"));
  CHECK(contains(refusal(mma_attention({.dim = 264})), "head size 264"));
  CHECK(contains(refusal(mma_attention({.dtype = DType::f32, .dim = 160})), "up to 128"));
  CHECK(contains(refusal(mma_attention({.keys = 0})), "no keys"));
  OneNode mixed = mma_attention({});
  mixed.inputs[1]->dtype = DType::bf16;
  CHECK(contains(refusal(mixed), "another dtype"));
}

TEST_CASE("attention_takes_cooperative_matrices_where_they_fit") {
  const auto step = [](const MmaSizes& sizes) {
    OneNode node = mma_attention(sizes);
    node.target = "vulkan-nvidia";
    const Program program = lower(node);
    return std::pair(kernel_of(program, 0).kernel, program.steps[0].reason);
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto [kernel, reason] = step({.dtype = dtype, .tokens = 33, .dim = 64});
    CHECK(kernel == KernelId::attention_coop);
    CHECK(contains(reason, "cooperative matrices"));
  }
  const auto refused_for = [&](const MmaSizes& sizes, const std::string& why) {
    OneNode node = mma_attention(sizes);
    node.target = "vulkan-nvidia";
    const Program program = lower(node);
    const KernelId kernel = kernel_of(program, 0).kernel;
    return (kernel == KernelId::attention || kernel == KernelId::attention_decode) &&
           contains(refusal_by(program, "attention_coop"), why);
  };
  CHECK(refused_for({.dtype = DType::f32, .tokens = 33, .dim = 64}, "not f16 or bf16"));
  CHECK(refused_for({.dtype = DType::f16, .tokens = 33, .dim = 76}, "head size 76"));
  CHECK(refused_for({.dtype = DType::f16, .tokens = 33, .dim = 264}, "up to 256"));
  CHECK(refused_for({.dtype = DType::f16, .tokens = 3, .dim = 64}, "3 queries do not fill"));
  CHECK(refused_for({.dtype = DType::f16, .tokens = 33, .keys = 0, .dim = 64}, "no keys"));
}

TEST_CASE("attention_passes_matrices_through_memory_where_fragments_are_not_known") {
  for (const Target& target : all_targets()) {
    if (!target.cooperative_matrices) continue;
    OneNode node = mma_attention({.dtype = DType::f16, .tokens = 33, .dim = 64});
    node.target = target.name;
    const Program program = lower(node);
    INFO(target.name);
    CHECK(kernel_of(program, 0).kernel == KernelId::attention_coop);
    CHECK(defined(program, "RLX_KNOWN_FRAGMENTS") == (target.name == "vulkan-nvidia" ? 1 : 0));
  }
}

TEST_CASE("attention_where_fragments_are_not_known_has_tiles_that_fit_registers") {
  const auto of_head = [](int64_t dim) {
    OneNode node = mma_attention({.dtype = DType::f16, .tokens = 33, .dim = dim});
    node.target = "vulkan-khr-coop";
    return lower(node);
  };
  const Program fits = of_head(128);
  CHECK(kernel_of(fits, 0).kernel == KernelId::attention_coop);
  CHECK(defined(fits, "RLX_KEYS") == 16);
  CHECK(defined(fits, "RLX_WARPS") == 8);
  CHECK(contains(refusal_by(of_head(256), "attention_coop"),
                 "heads of 256 and 256 do not fit the registers"));
}

TEST_CASE("attention_on_cooperative_matrices_splits_the_keys_of_eight_queries_alone") {
  const auto of_tokens = [](const std::string& target, int64_t tokens, int64_t keys) {
    OneNode node = mma_attention({.dtype = DType::f16,
                                  .tokens = tokens,
                                  .keys = keys,
                                  .heads = 32,
                                  .kv_heads = 8,
                                  .dim = 128});
    node.target = target;
    return lower(node);
  };
  for (const std::string target : {"vulkan-nvidia", "vulkan-khr-coop"}) {
    const Program split = of_tokens(target, 8, 2048);
    INFO(target);
    REQUIRE(split.steps.size() == 2);
    CHECK(kernel_of(split, 0).kernel == KernelId::attention_coop);
    CHECK(defined(split, "RLX_SPLITS") == 16);
    CHECK(kernel_of(split, 1).kernel == KernelId::attention_decode);
    // No more than there are tiles of keys for, and none of what is no few queries.
    CHECK(of_tokens(target, 8, 40).steps.size() == 1);
    CHECK(of_tokens(target, 9, 2048).steps.size() == 1);
  }
}

// The sizes are those of the conformance cases "full device, ...".
TEST_CASE("attention_on_cooperative_matrices_has_the_largest_tiles_where_they_fill_the_device") {
  struct Tiling {
    MmaSizes sizes;
    int64_t warps;
    int64_t rows;
    int64_t keys;
    int64_t stages;
  };
  const auto sizes = [](int64_t batch, int64_t tokens, int64_t keys, int64_t dim) {
    return MmaSizes{.dtype = DType::f16,
                    .batch = batch,
                    .tokens = tokens,
                    .keys = keys,
                    .heads = 12,
                    .kv_heads = 4,
                    .dim = dim};
  };
  for (const Tiling& wanted :
       {Tiling{sizes(11, 33, 70, 128), 8, 16, 64, 1}, Tiling{sizes(11, 33, 70, 64), 8, 16, 32, 1},
        Tiling{sizes(11, 33, 70, 32), 4, 32, 32, 1}, Tiling{sizes(11, 33, 70, 16), 4, 16, 64, 1},
        Tiling{sizes(11, 33, 70, 40), 4, 16, 64, 1}, Tiling{sizes(11, 33, 70, 160), 4, 16, 32, 1},
        Tiling{sizes(11, 33, 70, 256), 4, 16, 16, 1}, Tiling{sizes(11, 17, 520, 64), 8, 16, 64, 2},
        Tiling{sizes(23, 9, 520, 64), 8, 16, 32, 2}, Tiling{sizes(1, 300, 300, 64), 4, 16, 64, 2},
        Tiling{sizes(1, 300, 60, 64), 1, 16, 32, 1}}) {
    OneNode node = mma_attention(wanted.sizes);
    node.target = "vulkan-nvidia";
    const Program program = lower(node);
    INFO(program.steps[0].reason);
    CHECK(defined(program, "RLX_WARPS") == wanted.warps);
    CHECK(defined(program, "RLX_SUBGROUP_ROWS") == wanted.rows);
    CHECK(defined(program, "RLX_KEYS") == wanted.keys);
    CHECK(defined(program, "RLX_STAGES") == wanted.stages);
  }
}

TEST_CASE("attention_rows_off_16_bytes_do_without_tensor_cores") {
  // Tokens of q stand 772 elements apart: rows begin at multiples of 8 bytes.
  const Program program = OneNodeGraph(mma_attention({.tokens = 4, .heads = 2, .kv_heads = 2}))
                              .lower({{.input = 0, .strides = {0, 772, 64, 1}}});
  CHECK(kernel_of(program, 0).kernel == KernelId::attention_decode);
  CHECK(contains(refusal_by(program, "attention_mma"), "rows of q"));
}

TEST_CASE("attention_products_of_f32_have_three_terms_unless_tf32_is_allowed") {
  OneNode node = mma_attention({.dtype = DType::f32});
  CHECK(defined(lower(node), "RLX_TERMS") == 3);
  node.products = ProductPrecision::Tf32;
  CHECK(defined(lower(node), "RLX_TERMS") == 1);
}

TEST_CASE("one_query_of_grouped_heads_folds_them_and_splits_the_keys") {
  const Program program = lower(
      mma_attention({.dtype = DType::bf16, .tokens = 1, .keys = 1025, .heads = 32, .kv_heads = 8},
                    {{"causal", true}}));
  CHECK(defined(program, "RLX_FOLD") == 4);
  CHECK(defined(program, "RLX_SPLITS") > 1);
  CHECK(defined(program, "RLX_CAUSAL") == 0);  // the only query is the last token
  CHECK(program.steps[0].grid.x == 8 * static_cast<int64_t>(defined(program, "RLX_SPLITS")));
}

TEST_CASE("a_full_device_splits_no_keys_and_shares_them_through_shared_memory") {
  const Program program = lower(mma_attention({.batch = 32}));
  CHECK(defined(program, "RLX_SPLITS") == 1);
  CHECK(defined(program, "RLX_STAGED") > 0);
}

TEST_CASE("few_tiles_of_rows_read_keys_straight_over_several_warps") {
  const Program program = lower(mma_attention({}));
  CHECK(defined(program, "RLX_STAGED") == 0);
  CHECK(defined(program, "RLX_WARPS_K") > 1);
}

TEST_CASE("every_head_size_finds_a_tiling_within_shared_memory") {
  const DeviceModel& device = find_target("cuda")->device;
  for (const DType dtype : {DType::f16, DType::f32}) {
    for (int64_t dim = 8; dim <= (dtype == DType::f32 ? 128 : 256); dim += 8) {
      for (const int64_t tokens : {1, 16, 100, 1024}) {
        AttentionProblem problem;
        problem.batch = 1;
        problem.heads = problem.kv_heads = 8;
        problem.q_tokens = tokens;
        problem.kv_tokens = 1024;
        problem.head_dim = problem.v_head_dim = dim;
        const AttentionMmaTiling tiling = choose_attention_mma_tiling({&problem, 1}, dtype, device);
        const AttentionMmaShared shared = attention_mma_shared(problem, dtype, tiling);
        CHECK(shared.alone_bytes <= static_cast<int64_t>(device.shared_bytes));
        CHECK(shared.cluster_bytes <= 227 * 1024);
        CHECK(tiling.row_tiles(problem) * tiling.tile_rows() >= tokens * tiling.fold);
      }
    }
  }
}

}  // namespace rlx::test
