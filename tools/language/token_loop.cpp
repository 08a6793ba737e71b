// SPDX-License-Identifier: Apache-2.0
// Prompts and tokens as runs of a session.
#include "tools/language/token_loop.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "runtime/base/text.h"

namespace rlx::language {
namespace {

constexpr std::array<uint64_t, 1> kOne = {1};

rlx_tensor tensor_of(const Cache& cache, uint64_t rows, const std::byte* data) {
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = data;
  tensor.size_bytes = rows * cache.row_bytes;
  tensor.dtype = cache.dtype;
  tensor.rank = static_cast<uint32_t>(cache.dims.size());
  std::copy(cache.dims.begin(), cache.dims.end(), tensor.dims);
  tensor.dims[kRowAxis] = rows;
  return tensor;
}

rlx_state_range first_rows(uint64_t rows) {
  rlx_state_range range = RLX_INIT(rlx_state_range);
  range.axis = kRowAxis;
  range.count = rows;
  return range;
}

uint64_t bytes_of_row(const ModelPlan& model) {
  uint64_t bytes = 0;
  for (const Cache& cache : model.caches) bytes += cache.row_bytes;
  return bytes;
}

}  // namespace

TokenLoop::TokenLoop(ModelPlan model, rlx_session* session, Reuse reuse, uint32_t queue_depth)
    : model_(std::move(model)),
      session_(session),
      reuse_(reuse),
      queue_depth_(std::max(queue_depth, 1U)) {
  for (const TokenEntry& entry : model_.prompts) sizes_.push_back(entry.tokens);
  if (sizes_.empty()) sizes_.push_back(model_.decode.tokens);
  if (reuse_ != Reuse::Fast) sizes_.resize(row_exact_sizes(sizes_).size());
  held_.reserve(model_.context_tokens);
  if (model_.verify) chosen_.resize(model_.verify->tokens);
  padded_.reserve(std::max<size_t>(sizes_.front(), chosen_.size()));
}

Status TokenLoop::check_prompt(std::span<const int32_t> ids) const {
  if (ids.empty()) return refused("the prompt has no tokens; wanted is at least one");
  if (ids.size() > model_.context_tokens)
    return refused(text_of("the prompt has ", ids.size(), " tokens, the plan's context holds ",
                           model_.context_tokens,
                           "; shorten the prompt, or compile the model with a larger --ctx"));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= model_.vocabulary)
      return refused(text_of("token ", i, " of the prompt is ", ids[i],
                             "; the vocabulary has ids 0 to ", model_.vocabulary - 1));
  }
  return {};
}

// The last token is always computed: its logits are wanted.
uint32_t TokenLoop::equal_rows(std::span<const int32_t> ids) const {
  const size_t made = reuse_ == Reuse::Fast ? held_.size() : size_t{prompt_rows_};
  const size_t most = std::min(ids.size() - 1, made);
  const auto apart =
      std::mismatch(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(most), held_.begin());
  return static_cast<uint32_t>(apart.first - ids.begin());
}

// What is left to compute behind the rows that stay, whose number kept_tokens_ becomes.
std::vector<Chunk> TokenLoop::cut_prompt(std::span<const int32_t> ids) {
  const auto count = static_cast<uint32_t>(ids.size());
  const uint32_t equal = equal_rows(ids);
  if (reuse_ != Reuse::Exact) {
    kept_tokens_ = equal;
    return cut_into_chunks(sizes_, equal, count, model_.context_tokens);
  }
  std::vector<Chunk> chunks = cut_into_chunks(sizes_, 0, count, model_.context_tokens);
  const auto apart = std::mismatch(chunks.begin(), chunks.end() - 1, made_.begin(), made_.end(),
                                   [equal](const Chunk& wanted, const Chunk& made) {
                                     return wanted == made && wanted.end() <= equal;
                                   });
  kept_tokens_ = apart.first == chunks.begin() ? 0 : std::prev(apart.first)->end();
  chunks.erase(chunks.begin(), apart.first);
  return chunks;
}

void TokenLoop::note_made(const Chunk& chunk) {
  while (!made_.empty() && made_.back().end() > chunk.position) made_.pop_back();
  made_.push_back(chunk);
}

uint32_t TokenLoop::prompt_rows() const {
  if (reuse_ != Reuse::Exact) return prompt_rows_;
  return made_.empty() ? 0 : made_.back().end();
}

Status TokenLoop::set(uint32_t entry, const char* name, const int32_t* data,
                      std::span<const uint64_t> dims) {
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = data;
  tensor.dtype = RLX_I32;
  tensor.rank = static_cast<uint32_t>(dims.size());
  uint64_t count = 1;
  for (size_t i = 0; i < dims.size(); ++i) count *= tensor.dims[i] = dims[i];
  tensor.size_bytes = count * sizeof(int32_t);
  return status_of(rlx_session_set_input(session_, entry, name, &tensor));
}

// How many of the ids count, and that the last of these is wanted.
Status TokenLoop::set_row(uint32_t entry, uint32_t count) {
  const auto counted = static_cast<int32_t>(count);
  const int32_t last = counted - 1;
  RLX_RETURN_IF_ERROR(set(entry, "count", &counted, {}));
  return set(entry, "last", &last, kOne);
}

Status TokenLoop::run_chunk(const Chunk& chunk, std::span<const int32_t> ids) {
  const auto found =
      std::find_if(model_.prompts.begin(), model_.prompts.end(),
                   [&](const TokenEntry& each) { return each.tokens == chunk.size; });
  const uint32_t entry = found == model_.prompts.end() ? model_.decode.entry : found->entry;
  const auto counted = ids.subspan(chunk.position, chunk.count);
  padded_.assign(counted.begin(), counted.end());
  padded_.resize(chunk.size);
  const auto position = static_cast<int32_t>(chunk.position);
  decode_is_set_ = false;
  RLX_RETURN_IF_ERROR(set(entry, "ids", padded_.data(), std::array<uint64_t, 2>{1, chunk.size}));
  RLX_RETURN_IF_ERROR(set(entry, "position", &position, {}));
  RLX_RETURN_IF_ERROR(set_row(entry, chunk.count));
  RLX_RETURN_IF_ERROR(status_of(rlx_session_run(session_, entry)));
  ran_ = entry;
  held_.resize(chunk.position);
  held_.insert(held_.end(), counted.begin(), counted.end());
  return {};
}

Status TokenLoop::read_prompt(std::span<const int32_t> ids) {
  RLX_RETURN_IF_ERROR(check_prompt(ids));
  RLX_RETURN_IF_ERROR(status_of(rlx_session_wait(session_, RLX_NO_TIMEOUT)));
  const std::vector<Chunk> chunks = cut_prompt(ids);
  rewind(kept_tokens_);
  prompt_runs_ = static_cast<uint32_t>(chunks.size());
  for (const Chunk& chunk : chunks) {
    RLX_RETURN_IF_ERROR(run_chunk(chunk, ids));
    note_made(chunk);
    if (reuse_ != Reuse::Fast) prompt_rows_ = static_cast<uint32_t>(held_.size());
  }
  return {};
}

Status TokenLoop::feed(int32_t id) {
  if (held_.size() >= model_.context_tokens)
    return refused(text_of("the context is full: it holds ", model_.context_tokens, " tokens, ",
                           held_.size() + 1, " are wanted"));
  const uint32_t entry = model_.decode.entry;
  const auto position = static_cast<int32_t>(held_.size());
  RLX_RETURN_IF_ERROR(status_of(rlx_session_wait(session_, RLX_NO_TIMEOUT)));
  if (!decode_is_set_) RLX_RETURN_IF_ERROR(set_row(entry, 1));
  decode_is_set_ = true;
  RLX_RETURN_IF_ERROR(set(entry, "ids", &id, std::array<uint64_t, 2>{1, 1}));
  RLX_RETURN_IF_ERROR(set(entry, "position", &position, {}));
  RLX_RETURN_IF_ERROR(status_of(rlx_session_submit(session_, entry)));
  ran_ = entry;
  held_.push_back(id);
  return {};
}

uint32_t TokenLoop::most_steps() const {
  return model_.step ? std::min(queue_depth_, model_.ring_tokens) : 0;
}

// Token and position of the next step, where the device does not have them from the last one.
Status TokenLoop::set_step(int32_t id) {
  const std::array<int32_t, 2> wanted = {id, static_cast<int32_t>(held_.size())};
  if (on_device_ == wanted) return {};
  on_device_.reset();
  rlx_tensor token = RLX_INIT(rlx_tensor);
  token.data = &wanted[0];
  token.size_bytes = sizeof(int32_t);
  token.dtype = RLX_I32;
  token.rank = 2;
  token.dims[0] = token.dims[1] = 1;
  rlx_tensor position = token;
  position.data = &wanted[1];
  position.rank = 0;
  RLX_RETURN_IF_ERROR(status_of(rlx_session_write_state(session_, kStepToken, nullptr, &token)));
  return status_of(rlx_session_write_state(session_, kStepPosition, nullptr, &position));
}

Status TokenLoop::step(int32_t id, std::span<int32_t> following) {
  const size_t count = following.size();
  if (count == 0 || count > most_steps())
    return refused(text_of(count, " steps are wanted at once; the loop takes 1 to ", most_steps()));
  if (held_.size() + count > model_.context_tokens)
    return refused(text_of("the context is full: it holds ", model_.context_tokens, " tokens, ",
                           held_.size() + count, " are wanted"));
  RLX_RETURN_IF_ERROR(status_of(rlx_session_wait(session_, RLX_NO_TIMEOUT)));
  RLX_RETURN_IF_ERROR(set_step(id));
  on_device_.reset();
  for (size_t i = 0; i < count; ++i)
    RLX_RETURN_IF_ERROR(status_of(rlx_session_submit(session_, *model_.step)));
  RLX_RETURN_IF_ERROR(status_of(rlx_session_wait(session_, RLX_NO_TIMEOUT)));
  ran_ = *model_.step;
  decode_is_set_ = false;
  for (size_t i = 0; i < count; ++i) {
    rlx_state_range place = RLX_INIT(rlx_state_range);
    place.axis = 1;
    place.begin = held_.size() % model_.ring_tokens;
    place.count = 1;
    RLX_RETURN_IF_ERROR(status_of(
        rlx_session_read_state(session_, kStepRing, &place, &following[i], sizeof(int32_t))));
    held_.push_back(i == 0 ? id : following[i - 1]);
  }
  on_device_ = {following.back(), static_cast<int32_t>(held_.size())};
  return {};
}

uint32_t TokenLoop::most_drafts() const {
  const bool has_room =
      model_.verify && held_.size() + model_.verify->tokens <= model_.context_tokens;
  return has_room ? model_.verify->tokens - 1 : 0;
}

Status TokenLoop::verify(int32_t id, std::span<const int32_t> drafts, std::span<int32_t> following,
                         uint32_t& count) {
  if (drafts.empty() || drafts.size() > most_drafts())
    return refused(text_of(drafts.size(),
                           " drafts are to be verified at once; the loop takes 1 to ",
                           most_drafts(), " here"));
  const auto [entry, tokens] = *model_.verify;
  padded_.assign(1, id);
  padded_.insert(padded_.end(), drafts.begin(), drafts.end());
  const auto given = static_cast<int32_t>(padded_.size());
  padded_.resize(tokens);
  const auto position = static_cast<int32_t>(held_.size());
  RLX_RETURN_IF_ERROR(status_of(rlx_session_wait(session_, RLX_NO_TIMEOUT)));
  decode_is_set_ = false;
  RLX_RETURN_IF_ERROR(set(entry, "ids", padded_.data(), std::array<uint64_t, 2>{1, tokens}));
  RLX_RETURN_IF_ERROR(set(entry, "position", &position, {}));
  RLX_RETURN_IF_ERROR(set(entry, "count", &given, {}));
  RLX_RETURN_IF_ERROR(status_of(rlx_session_run(session_, entry)));
  RLX_RETURN_IF_ERROR(status_of(rlx_session_read_output(session_, entry, "next", chosen_.data(),
                                                        chosen_.size() * sizeof(int32_t))));
  ran_ = entry;
  const auto apart = std::mismatch(drafts.begin(), drafts.end(), chosen_.begin());
  const auto right = apart.first - drafts.begin();
  count = static_cast<uint32_t>(right) + 1;
  std::copy_n(chosen_.begin(), count, following.begin());
  held_.insert(held_.end(), padded_.begin(), padded_.begin() + count);
  return {};
}

Status TokenLoop::next(int32_t& id) {
  RLX_RETURN_IF_ERROR(status_of(rlx_session_wait(session_, RLX_NO_TIMEOUT)));
  return status_of(rlx_session_read_output(session_, ran_, "next", &id, sizeof id));
}

Status TokenLoop::read_logits(std::span<float> logits) {
  RLX_RETURN_IF_ERROR(status_of(rlx_session_wait(session_, RLX_NO_TIMEOUT)));
  return status_of(
      rlx_session_read_output(session_, ran_, "logits", logits.data(), logits.size_bytes()));
}

void TokenLoop::rewind(uint32_t count) {
  held_.resize(count);
  prompt_rows_ = std::min(prompt_rows_, count);
  while (!made_.empty() && made_.back().end() > count) made_.pop_back();
}

Status TokenLoop::save_rows(std::vector<std::byte>& rows) {
  RLX_RETURN_IF_ERROR(status_of(rlx_session_wait(session_, RLX_NO_TIMEOUT)));
  const rlx_state_range range = first_rows(held_.size());
  rows.resize(held_.size() * bytes_of_row(model_));
  std::byte* place = rows.data();
  for (const Cache& cache : model_.caches) {
    const uint64_t size_bytes = range.count * cache.row_bytes;
    if (size_bytes != 0)
      RLX_RETURN_IF_ERROR(status_of(
          rlx_session_read_state(session_, cache.name.c_str(), &range, place, size_bytes)));
    place += size_bytes;
  }
  return {};
}

Status TokenLoop::restore_rows(std::span<const int32_t> ids, uint32_t prompt_rows,
                               std::span<const std::byte> rows) {
  RLX_RETURN_IF_ERROR(check_prompt(ids));
  if (rows.size() != ids.size() * bytes_of_row(model_) || prompt_rows > ids.size())
    return refused(text_of("caches of ", ids.size(), " tokens, ", prompt_rows,
                           " of them of prompts, in ", rows.size(), " bytes; the plan's rows have ",
                           bytes_of_row(model_), " bytes"));
  RLX_RETURN_IF_ERROR(status_of(rlx_session_wait(session_, RLX_NO_TIMEOUT)));
  rewind(0);
  const rlx_state_range range = first_rows(ids.size());
  const std::byte* place = rows.data();
  for (const Cache& cache : model_.caches) {
    const rlx_tensor tensor = tensor_of(cache, range.count, place);
    RLX_RETURN_IF_ERROR(
        status_of(rlx_session_write_state(session_, cache.name.c_str(), &range, &tensor)));
    place += tensor.size_bytes;
  }
  held_.assign(ids.begin(), ids.end());
  for (const Chunk& chunk : cut_into_chunks(sizes_, 0, prompt_rows, model_.context_tokens))
    note_made(chunk);
  prompt_rows_ = prompt_rows;
  return {};
}

}  // namespace rlx::language
