// SPDX-License-Identifier: Apache-2.0
// Recurrences, signals and random numbers of the reference IR. States that it overwrites are
// further outputs here.
#include <array>

#include "compiler/import/names.h"
#include "compiler/import/reference_ir/alias.h"

namespace rlx::reference_ir {
namespace sequences {
namespace {

using Results = std::vector<ValueId>;

Results selective_scan(AliasNode& n) {
  if (n.attrs().has("state_size") && !n.shape(2).empty() &&
      n.attrs().integer("state_size") != static_cast<int64_t>(n.shape(2).back()))
    n.refuse("state_size is " + std::to_string(n.attrs().integer("state_size")) +
             ", but input 2 is " + to_string(n.type(n.input(2))));
  return n.emit_all("selective_scan", {n.input(0), n.input(1), n.input(2), n.input(3), n.input(4)},
                    {}, 2);
}

Results mamba2(AliasNode& n) {
  const Shape& x = n.shape(0);
  const Shape& b = n.shape(3);
  if (x.size() != 4 || b.empty() || x.back() != Dim(n.attrs().integer("head_dim")) ||
      b.back() != Dim(n.attrs().integer("state_size")))
    n.refuse("x is " + to_string(n.type(n.input(0))) + " and b " + to_string(n.type(n.input(3))) +
             ", wanted head_dim and state_size as their last sizes");
  return n.emit_all("mamba2", {n.input(0), n.input(1), n.input(2), n.input(3), n.input(4)}, {}, 2);
}

Results gated_deltanet(AliasNode& n) {
  const bool carries = n.attrs().flag("carry_state");
  if (n.has(5) != carries)
    n.refuse(std::string("carry_state is ") + (carries ? "true" : "false") + ", but the state is " +
             (n.has(5) ? "there" : "missing"));
  const Shape& q = n.shape(0);
  if (q.size() != 4 || q[3] != Dim(n.attrs().integer("state_size")))
    n.refuse("q is " + to_string(n.type(n.input(0))) + ", wanted [batch, tokens, heads, " +
             std::to_string(n.attrs().integer("state_size")) + "]");
  const size_t gate_rank = n.attrs().flag("gate_per_channel") ? 4 : 3;
  if (n.rank(3) != gate_rank)
    n.refuse("the gate is " + to_string(n.type(n.input(3))) + ", wanted rank " +
             std::to_string(gate_rank));
  return n.emit_all("gated_deltanet",
                    {n.input(0), n.input(1), n.input(2), n.input(3), n.input(4), n.optional(5)},
                    {{"num_heads", static_cast<int64_t>(q[2])}}, 2);
}

Attributes layers(AliasNode& n) {
  Attributes attributes = n.same({"hidden_size", "num_layers"});
  attributes.emplace("direction",
                     std::string(n.attrs().flag("bidirectional") ? "bidirectional" : "forward"));
  return attributes;
}

void check_carry(AliasNode& n, size_t plain, size_t states) {
  const bool carries = n.attrs().flag("carry");
  const size_t wanted = plain + (carries ? states : 0);
  if (n.input_count() != wanted)
    n.refuse("it has " + std::to_string(n.input_count()) + " inputs, wanted " +
             std::to_string(wanted) + " with carry " + (carries ? "true" : "false"));
}

Results lstm(AliasNode& n) {
  check_carry(n, 4, 2);
  return n.emit_all("lstm",
                    {n.input(0), n.input(1), n.input(2), n.input(3), n.optional(4), n.optional(5)},
                    layers(n), 3);
}
Results gru(AliasNode& n) {
  check_carry(n, 5, 1);
  return n.emit_all("gru",
                    {n.input(0), n.input(1), n.input(2), n.input(3), n.input(4), n.optional(5)},
                    layers(n), 2);
}
Results rnn(AliasNode& n) {
  check_carry(n, 4, 1);
  Attributes attributes = layers(n);
  attributes.emplace("activation", std::string(n.attrs().flag("relu") ? "relu" : "tanh"));
  return n.emit_all("rnn", {n.input(0), n.input(1), n.input(2), n.input(3), n.optional(4)},
                    std::move(attributes), 2);
}

// ---- signals ----

// Names of norms say there which way is scaled, and not how.
Results fft(AliasNode& n) {
  const std::string norm = n.attrs().text("norm");
  const char* word = norm == "Backward" ? "none" : norm == "Forward" ? "backward" : "ortho";
  return {n.emit("fft", {n.input(0)},
                 {{"inverse", n.attrs().flag("inverse")}, {"norm", std::string(word)}})};
}

Results log_mel(AliasNode& n) {
  return {n.emit("log_mel", {n.input(0), n.input(1)}, {{"scope", std::string("frame")}})};
}

Results welch_peaks(AliasNode& n) {
  return {n.emit_all("welch_peaks", {n.input(0)},
                     {{"k", n.attrs().integer("k")},
                      {"n_segments", n.attrs().integer("n_segments")},
                      {"packed", true}},
                     1)
              .front()};
}

Results norm_sq(AliasNode& n) {
  return {n.emit("complex_norm_sq", {n.input(0)})};
}
Results conjugate(AliasNode& n) {
  return {n.emit("conjugate", {n.input(0)})};
}

// Wirtinger's: half of what PyTorch calls the gradient.
Results norm_sq_backward(AliasNode& n) {
  const ValueId z = n.input(0);
  const ValueId g = n.input(1);
  const ValueId re = n.emit("mul", {n.emit("real", {z}), g});
  const ValueId im = n.emit("mul", {n.emit("imag", {z}), g});
  return {n.emit("complex", {re, im})};
}

// ---- generation ----

Results sample(AliasNode& n) {
  Attributes attributes = n.same({"top_k", "top_p", "temperature"});
  if (const int64_t seed = n.attrs().integer("seed"); seed != 0) attributes.emplace("seed", seed);
  attributes.emplace("index_dtype", std::string(name_of(n.index_dtype())));
  return {n.emit_all("sample", {n.input(0)}, std::move(attributes), 1).front()};
}

// The low half of its key is the stream; without a template the declared shape is meant.
Results random(AliasNode& n, std::string_view op, std::initializer_list<std::string_view> names) {
  Attributes attributes = n.same(names);
  attributes.emplace("stream", n.attrs().integer("key") & 0xffffffff);
  if (n.attrs().has("op_seed"))
    attributes.emplace("seed", static_cast<int64_t>(n.attrs().real("op_seed")));
  if (!n.has(0)) attributes.emplace("shape", n.needed_shape());
  return {n.emit(op, {n.optional(0)}, std::move(attributes))};
}
Results rng_normal(AliasNode& n) {
  return random(n, "rng_normal", {"mean", "scale"});
}
Results rng_uniform(AliasNode& n) {
  return random(n, "rng_uniform", {"low", "high"});
}

constexpr AttrSpec kStateSize{
    .name = "state_size", .type = AttrType::Int, .required = true, .minimum = 1};
constexpr AttrSpec flag(std::string_view name) {
  return {.name = name, .type = AttrType::Bool, .default_text = "false"};
}
constexpr AttrSpec given(std::string_view name, AttrType type, bool required = true) {
  return {.name = name, .type = type, .required = required, .consumed_by_infer = true};
}
constexpr std::array kScan = {AttrSpec{.name = "state_size", .type = AttrType::Int, .minimum = 1}};
constexpr std::array kMamba2 = {
    AttrSpec{.name = "head_dim", .type = AttrType::Int, .required = true, .minimum = 1},
    kStateSize};
constexpr std::array kDelta = {kStateSize, flag("carry_state"), flag("gate_per_channel")};
constexpr std::array kLayers = {given("hidden_size", AttrType::Int),
                                given("num_layers", AttrType::Int, false), flag("bidirectional"),
                                flag("carry")};
constexpr std::array kRnn = {given("hidden_size", AttrType::Int),
                             given("num_layers", AttrType::Int, false), flag("bidirectional"),
                             flag("carry"), flag("relu")};
constexpr std::array<std::string_view, 3> kNorms = {"Backward", "Forward", "Ortho"};
constexpr std::array kFft = {flag("inverse"), AttrSpec{.name = "norm",
                                                       .type = AttrType::String,
                                                       .default_text = "\"Backward\"",
                                                       .choices = kNorms}};
constexpr std::array kWelch = {
    AttrSpec{.name = "k", .type = AttrType::Int, .required = true},
    AttrSpec{.name = "n_segments", .type = AttrType::Int, .required = true}};
constexpr std::array kSample = {
    given("top_k", AttrType::Int, false), given("top_p", AttrType::Float, false),
    given("temperature", AttrType::Float, false),
    AttrSpec{.name = "seed", .type = AttrType::Int, .default_text = "0"}};
constexpr AttrSpec kKey{.name = "key", .type = AttrType::Int, .default_text = "0"};
constexpr AttrSpec kOpSeed{.name = "op_seed", .type = AttrType::Float};
constexpr std::array kNormal = {given("mean", AttrType::Float), given("scale", AttrType::Float),
                                kKey, kOpSeed};
constexpr std::array kUniform = {given("low", AttrType::Float), given("high", AttrType::Float),
                                 kKey, kOpSeed};

constexpr std::array kAliases = {
    Alias{"SelectiveScan", kAll, "`selective_scan`", {5, 5}, kScan, selective_scan, 2},
    Alias{"Mamba2", kVulkan, "`mamba2`", {5, 5}, kMamba2, mamba2, 2},
    Alias{"GatedDeltaNet",
          kAll,
          "`gated_deltanet`; the state that it overwrites is its second output",
          {5, 6},
          kDelta,
          gated_deltanet,
          2},
    Alias{"Lstm", kVulkan, "`lstm`; last states are further outputs", {4, 6}, kLayers, lstm, 3},
    Alias{"Gru", kVulkan, "`gru`", {5, 6}, kLayers, gru, 2},
    Alias{"Rnn", kVulkan, "`rnn`", {4, 5}, kRnn, rnn, 2},
    Alias{"Fft",
          kAll,
          "`fft`; its `Backward` is `none`, its `Forward` is `backward`",
          {1, 1},
          kFft,
          fft},
    Alias{"LogMel", kWgpu | kCuda, "`log_mel` of frames", {2, 2}, {}, log_mel},
    Alias{"WelchPeaks", kWgpu | kCuda, "`welch_peaks`, packed", {1, 1}, kWelch, welch_peaks},
    Alias{"ComplexNormSq", kNone, "`complex_norm_sq`", {1, 1}, {}, norm_sq},
    Alias{
        "ComplexNormSqBackward", kNone, "a composition, Wirtinger's", {2, 2}, {}, norm_sq_backward},
    Alias{"Conjugate", kNone, "`conjugate`", {1, 1}, {}, conjugate},
    Alias{"Sample", kAll, "`sample`, ids in f32; seed 0 is the session's", {1, 1}, kSample, sample},
    Alias{"RngNormal",
          kVulkan,
          "`rng_normal`, `key`'s low half the stream",
          {0, 1},
          kNormal,
          rng_normal},
    Alias{"RngUniform", kVulkan, "`rng_uniform`, likewise", {0, 1}, kUniform, rng_uniform},
};

}  // namespace
}  // namespace sequences

std::span<const Alias> sequence_aliases() {
  return sequences::kAliases;
}

}  // namespace rlx::reference_ir
