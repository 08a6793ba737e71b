// SPDX-License-Identifier: Apache-2.0
#include "encoder.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace search {
namespace {

constexpr uint32_t kEntry = 0;
constexpr const char* kIds = "input_ids";
constexpr const char* kMask = "attention_mask";
constexpr const char* kEmbedding = "sentence_embedding";

void check(rlx_status status) {
  if (status != RLX_OK) throw std::runtime_error(rlx_last_error());
}

void check_text(rlx_status status) {
  if (status != RLX_OK) throw std::runtime_error(rlx_text_last_error());
}

[[noreturn]] void refuse(const char* entry, const std::string& fault) {
  throw std::runtime_error("entry \"" + std::string(entry) + "\" embeds no sentences: " + fault);
}

// Of rows and tokens, as many as a text of some hundred lines has; each keeps what was recorded.
constexpr uint32_t kKeptSizes = 64;
constexpr uint64_t kForever = UINT64_MAX;

}  // namespace

Encoder::Encoder(const std::string& plan, const std::string& device) {
  rlx_plan* opened_plan = nullptr;
  check(rlx_plan_open_file(plan.c_str(), nullptr, &opened_plan));
  plan_.reset(opened_plan);
  read_entry();
  read_text();
  rlx_device* opened_device = nullptr;
  check(rlx_device_open(device.c_str(), &opened_device));
  device_.reset(opened_device);
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.max_bindings = kKeptSizes;
  for (Lane& lane : lanes_) {
    rlx_session* session = nullptr;
    check(rlx_session_create(plan_.get(), device_.get(), &options, &session));
    lane.session.reset(session);
  }
}

void Encoder::read_entry() {
  rlx_entry_info entry = RLX_INIT(rlx_entry_info);
  check(rlx_plan_get_entry(plan_.get(), kEntry, &entry));
  if (entry.input_count != 2 || entry.output_count != 1)
    refuse(entry.name, "it has not two inputs and one output");
  rlx_tensor_info output = RLX_INIT(rlx_tensor_info);
  check(rlx_plan_get_output(plan_.get(), kEntry, 0, &output));
  if (std::string_view(output.name) != kEmbedding || output.dtype != RLX_F32 || output.rank != 2)
    refuse(entry.name, "its output is not sentence_embedding f32[rows, width]");
  width_ = output.dims[1];
  for (uint32_t i = 0; i < entry.input_count; ++i) {
    rlx_tensor_info input = RLX_INIT(rlx_tensor_info);
    check(rlx_plan_get_input(plan_.get(), kEntry, i, &input));
    const std::string_view name = input.name;
    const bool is_right =
        (name == kIds || name == kMask) && input.dtype == RLX_I64 && input.rank == 2;
    if (!is_right) {
      refuse(entry.name, "its input \"" + std::string(name) +
                             "\" is none of input_ids and attention_mask, i64[rows, tokens]");
    }
    limits_ = {.rows = free_size(i, 0), .tokens = free_size(i, 1)};
  }
}

void Encoder::read_text() {
  rlx_text* opened = nullptr;
  check_text(rlx_text_open(plan_.get(), &opened));
  text_.reset(opened);
  rlx_text_info info = RLX_INIT(rlx_text_info);
  check_text(rlx_text_get_info(text_.get(), &info));
  adds_end_ = info.add_end != 0;
}

Tokens Encoder::tokens_of(std::string_view text) const {
  size_t count = 0;
  check_text(rlx_text_encode(text_.get(), text.data(), text.size(), RLX_TEXT_ADD_SPECIAL, nullptr,
                             0, &count));
  std::vector<int32_t> ids(count);
  check_text(rlx_text_encode(text_.get(), text.data(), text.size(), RLX_TEXT_ADD_SPECIAL,
                             ids.data(), ids.size(), &count));
  const size_t kept = std::min(ids.size(), limits_.tokens);
  if (kept < ids.size() && adds_end_) ids[kept - 1] = ids.back();
  return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept)};
}

// The largest value of a size that a run gives.
size_t Encoder::free_size(uint32_t input, uint32_t axis) {
  rlx_dim_info dim = RLX_INIT(rlx_dim_info);
  check(rlx_plan_get_input_dim(plan_.get(), kEntry, input, axis, &dim));
  if (dim.symbol == RLX_NO_SYMBOL) {
    throw std::runtime_error(
        "the plan's sizes are fixed; compile it with --dim batch=1:ROWS --dim seq=1:TOKENS");
  }
  return dim.maximum;
}

std::string Encoder::device_name() const {
  rlx_device_info info = RLX_INIT(rlx_device_info);
  check(rlx_device_get_info(device_.get(), &info));
  return std::string(info.id) + " " + info.name;
}

void Encoder::set_input(Lane& lane, const char* name, const std::vector<int64_t>& values) {
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = values.data();
  tensor.size_bytes = values.size() * sizeof(int64_t);
  tensor.dtype = RLX_I64;
  tensor.rank = 2;
  tensor.dims[0] = lane.batch->sentences.size();
  tensor.dims[1] = lane.batch->tokens;
  check(rlx_session_set_input(lane.session.get(), kEntry, name, &tensor));
}

std::vector<float> Encoder::embed(std::span<const Tokens> sentences) {
  std::vector<size_t> counts;
  for (const Tokens& sentence : sentences) counts.push_back(sentence.size());
  std::vector<float> embeddings(sentences.size() * width_);
  size_t turn = 0;
  for (const Batch& batch : make_batches(counts, limits_)) {
    Lane& lane = lanes_[turn++ % lanes_.size()];
    finish(lane, embeddings);
    start(lane, batch, sentences);
  }
  for (Lane& lane : lanes_) finish(lane, embeddings);
  return embeddings;
}

void Encoder::start(Lane& lane, const Batch& batch, std::span<const Tokens> sentences) {
  lane.batch = batch;
  std::vector<int64_t> ids(batch.sentences.size() * batch.tokens, 0);
  std::vector<int64_t> mask(ids.size(), 0);
  for (size_t row = 0; row < batch.sentences.size(); ++row) {
    const Tokens& sentence = sentences[batch.sentences[row]];
    const auto first = static_cast<std::ptrdiff_t>(row * batch.tokens);
    std::ranges::copy(sentence, ids.begin() + first);
    std::fill_n(mask.begin() + first, sentence.size(), 1);
  }
  set_input(lane, kIds, ids);
  set_input(lane, kMask, mask);
  check(rlx_session_submit(lane.session.get(), kEntry));
}

void Encoder::finish(Lane& lane, std::vector<float>& embeddings) {
  if (!lane.batch) return;
  const std::vector<size_t>& sentences = lane.batch->sentences;
  check(rlx_session_wait(lane.session.get(), kForever));
  std::vector<float> rows(sentences.size() * width_);
  check(rlx_session_read_output(lane.session.get(), kEntry, kEmbedding, rows.data(),
                                rows.size() * sizeof(float)));
  for (size_t row = 0; row < sentences.size(); ++row)
    std::copy_n(rows.data() + row * width_, width_, embeddings.data() + sentences[row] * width_);
  lane.batch.reset();
}

}  // namespace search
