// SPDX-License-Identifier: Apache-2.0
// Reading a plan's entries and states as a language model's.
#include "tools/language/model_plan.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/base/text.h"

namespace rlx::language {
namespace {

constexpr const char* kWanted =
    "inputs ids i32[1,tokens], position i32[], count i32[] and last i32[1], outputs logits "
    "f32[1,vocabulary] and next i32[1]";

using TensorGetter = rlx_status (*)(const rlx_plan*, uint32_t, uint32_t, rlx_tensor_info*);

Status read_tensors(const rlx_plan* plan, uint32_t entry, uint32_t count, TensorGetter get,
                    std::vector<rlx_tensor_info>& tensors) {
  for (uint32_t i = 0; i < count; ++i) {
    rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
    RLX_RETURN_IF_ERROR(status_of(get(plan, entry, i, &info)));
    tensors.push_back(info);
  }
  return {};
}

// The tensor of that name, if it has that type and so many dims, all 1 but perhaps the last.
const rlx_tensor_info* find(const std::vector<rlx_tensor_info>& tensors, std::string_view name,
                            uint32_t dtype, uint32_t rank) {
  for (const rlx_tensor_info& info : tensors) {
    if (info.name != name) continue;
    const bool is_row =
        rank < 2 || std::all_of(info.dims, info.dims + rank - 1, [](uint64_t n) { return n == 1; });
    return info.dtype == dtype && info.rank == rank && is_row ? &info : nullptr;
  }
  return nullptr;
}

struct FoundEntry {
  TokenEntry entry;
  uint32_t vocabulary = 0;  // 0: of an entry that verifies drafts, which gives no logits
};

// Whether the count of tokens is the run's choice.
bool has_free_tokens(const rlx_plan* plan, uint32_t entry, size_t ids) {
  rlx_dim_info dim = RLX_INIT(rlx_dim_info);
  return rlx_plan_get_input_dim(plan, entry, static_cast<uint32_t>(ids), 1, &dim) != RLX_OK ||
         dim.is_free != 0;
}

Status inspect_entry(const rlx_plan* plan, uint32_t index, std::optional<FoundEntry>& found) {
  rlx_entry_info info = RLX_INIT(rlx_entry_info);
  RLX_RETURN_IF_ERROR(status_of(rlx_plan_get_entry(plan, index, &info)));
  std::vector<rlx_tensor_info> inputs;
  std::vector<rlx_tensor_info> outputs;
  RLX_RETURN_IF_ERROR(read_tensors(plan, index, info.input_count, rlx_plan_get_input, inputs));
  RLX_RETURN_IF_ERROR(read_tensors(plan, index, info.output_count, rlx_plan_get_output, outputs));
  const rlx_tensor_info* const ids = find(inputs, "ids", RLX_I32, 2);
  const rlx_tensor_info* const last = find(inputs, "last", RLX_I32, 1);
  const rlx_tensor_info* const logits = find(outputs, "logits", RLX_F32, 2);
  const rlx_tensor_info* const next = find(outputs, "next", RLX_I32, 1);
  const bool takes_tokens = ids != nullptr && find(inputs, "position", RLX_I32, 0) != nullptr &&
                            find(inputs, "count", RLX_I32, 0) != nullptr && next != nullptr;
  if (!takes_tokens) return {};
  const bool is_prompts = inputs.size() == 4 && last != nullptr && last->dims[0] == 1 &&
                          logits != nullptr && next->dims[0] == 1;
  const bool verifies = inputs.size() == 3 && outputs.size() == 1 && ids->dims[1] > 1 &&
                        next->dims[0] == ids->dims[1];
  if (!is_prompts && !verifies) return {};
  if (has_free_tokens(plan, index, static_cast<size_t>(ids - inputs.data()))) return {};
  found = {.entry = {.entry = index, .tokens = static_cast<uint32_t>(ids->dims[1])},
           .vocabulary = is_prompts ? static_cast<uint32_t>(logits->dims[1]) : 0};
  return {};
}

// The entry without inputs that gives the next token.
Status inspect_step(const rlx_plan* plan, uint32_t index, ModelPlan& model) {
  rlx_entry_info info = RLX_INIT(rlx_entry_info);
  RLX_RETURN_IF_ERROR(status_of(rlx_plan_get_entry(plan, index, &info)));
  if (std::string_view(info.name) != "step" || info.input_count != 0) return {};
  std::vector<rlx_tensor_info> outputs;
  RLX_RETURN_IF_ERROR(read_tensors(plan, index, info.output_count, rlx_plan_get_output, outputs));
  if (find(outputs, "next", RLX_I32, 1) != nullptr) model.step = index;
  return {};
}

Status find_entries(const rlx_plan* plan, ModelPlan& model) {
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  RLX_RETURN_IF_ERROR(status_of(rlx_plan_get_info(plan, &info)));
  for (uint32_t i = 0; i < info.entry_count; ++i) {
    std::optional<FoundEntry> found;
    RLX_RETURN_IF_ERROR(inspect_entry(plan, i, found));
    if (!found) {
      RLX_RETURN_IF_ERROR(inspect_step(plan, i, model));
      continue;
    }
    if (found->vocabulary == 0) {
      if (!model.verify || model.verify->tokens < found->entry.tokens) model.verify = found->entry;
      continue;
    }
    if (model.vocabulary != 0 && model.vocabulary != found->vocabulary)
      return refused(text_of("the plan's entries give ", model.vocabulary, " and ",
                             found->vocabulary, " logits; wanted are those of one vocabulary"));
    model.vocabulary = found->vocabulary;
    (found->entry.tokens == 1 ? model.decode : model.prompts.emplace_back()) = found->entry;
  }
  if (model.decode.tokens == 0)
    return refused(text_of("plan ", quoted(info.name), " of ", info.entry_count,
                           " entries has none that takes one token as language models do (",
                           kWanted, "); rlxc makes such plans from .gguf files"));
  return {};
}

Status read_cache(const rlx_tensor_info& info, ModelPlan& model) {
  const bool fits = info.rank == 4 && info.dims[0] == 1 && info.dims[kRowAxis] != 0 &&
                    info.size_bytes % info.dims[kRowAxis] == 0;
  const std::string type = tensor_text(info.dtype, {info.dims, info.rank});
  if (!fits)
    return refused(text_of("state ", quoted(info.name), " is ", type,
                           "; a language model's caches are [1,groups,context,width]"));
  const auto rows = static_cast<uint32_t>(info.dims[kRowAxis]);
  if (model.context_tokens != 0 && model.context_tokens != rows)
    return refused(text_of("state ", quoted(info.name), " is ", type,
                           "; the caches before it hold ", model.context_tokens, " rows"));
  model.context_tokens = rows;
  model.caches.push_back({.name = info.name,
                          .dtype = info.dtype,
                          .dims = {info.dims, info.dims + info.rank},
                          .row_bytes = info.size_bytes / rows});
  return {};
}

Status find_caches(const rlx_plan* plan, ModelPlan& model) {
  uint32_t step_states = 0;
  for (uint32_t i = 0; i < rlx_plan_state_count(plan); ++i) {
    rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
    RLX_RETURN_IF_ERROR(status_of(rlx_plan_get_state(plan, i, &info)));
    const std::string_view name = info.name;
    const bool is_ring = name == kStepRing && info.rank == 2 && info.dims[0] == 1;
    const bool is_token = name == kStepToken && info.rank == 2 && info.size_bytes == 4;
    const bool is_position = name == kStepPosition && info.rank == 0;
    if (info.dtype == RLX_I32 && (is_ring || is_token || is_position)) {
      if (is_ring) model.ring_tokens = static_cast<uint32_t>(info.dims[1]);
      ++step_states;
      continue;
    }
    RLX_RETURN_IF_ERROR(read_cache(info, model));
  }
  if (model.caches.empty()) return refused("the plan has no states: a language model keeps caches");
  if (step_states != 3 || model.ring_tokens == 0) model.step.reset();
  return {};
}

// Longest first; of equal ones the first, none longer than the caches, nor what verifies drafts.
void sort_prompts(ModelPlan& model) {
  std::vector<TokenEntry>& prompts = model.prompts;
  std::stable_sort(prompts.begin(), prompts.end(),
                   [](const TokenEntry& a, const TokenEntry& b) { return a.tokens > b.tokens; });
  const auto same = [](const TokenEntry& a, const TokenEntry& b) { return a.tokens == b.tokens; };
  prompts.erase(std::unique(prompts.begin(), prompts.end(), same), prompts.end());
  std::erase_if(prompts,
                [&](const TokenEntry& each) { return each.tokens > model.context_tokens; });
  if (model.verify && model.verify->tokens > model.context_tokens) model.verify.reset();
}

}  // namespace

Status describe_model(const rlx_plan* plan, ModelPlan& model) {
  ModelPlan found;
  RLX_RETURN_IF_ERROR(find_entries(plan, found));
  RLX_RETURN_IF_ERROR(find_caches(plan, found));
  sort_prompts(found);
  model = std::move(found);
  return {};
}

Status refused(std::string message) {
  return {RLX_INVALID_ARGUMENT, std::move(message)};
}

Status status_of(rlx_status code) {
  if (code == RLX_OK) return {};
  return {code, rlx_last_error()};
}

}  // namespace rlx::language
