// SPDX-License-Identifier: Apache-2.0
#include "encoder.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace search {
namespace {

constexpr const char* kIds = "input_ids";
constexpr const char* kMask = "attention_mask";
constexpr const char* kEmbedding = "sentence_embedding";

void check(rlx_status status) {
  if (status != RLX_OK) throw std::runtime_error(rlx_last_error());
}

[[noreturn]] void refuse(const char* entry, const std::string& fault) {
  throw std::runtime_error("entry \"" + std::string(entry) + "\" embeds no sentences: " + fault);
}

}  // namespace

Encoder::Encoder(const std::string& plan, const std::string& device, Tokens filler)
    : filler_(std::move(filler)) {
  rlx_plan* opened_plan = nullptr;
  check(rlx_plan_open_file(plan.c_str(), nullptr, &opened_plan));
  plan_.reset(opened_plan);
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  check(rlx_plan_get_info(plan_.get(), &info));
  for (uint32_t entry = 0; entry < info.entry_count; ++entry)
    buckets_.push_back(read_bucket(entry));
  rlx_device* opened_device = nullptr;
  check(rlx_device_open(device.c_str(), &opened_device));
  device_.reset(opened_device);
  rlx_session* session = nullptr;
  check(rlx_session_create(plan_.get(), device_.get(), nullptr, &session));
  session_.reset(session);
}

Bucket Encoder::read_bucket(uint32_t entry) {
  rlx_entry_info info = RLX_INIT(rlx_entry_info);
  check(rlx_plan_get_entry(plan_.get(), entry, &info));
  if (info.input_count != 2 || info.output_count != 1)
    refuse(info.name, "it has not two inputs and one output");
  rlx_tensor_info output = RLX_INIT(rlx_tensor_info);
  check(rlx_plan_get_output(plan_.get(), entry, 0, &output));
  if (std::string_view(output.name) != kEmbedding || output.dtype != RLX_F32 || output.rank != 2)
    refuse(info.name, "its output is not sentence_embedding f32[rows, width]");
  if (width_ != 0 && width_ != output.dims[1])
    refuse(info.name, "its embeddings are not as wide as those of others");
  width_ = output.dims[1];
  Bucket bucket{.entry = entry, .rows = output.dims[0], .tokens = 0};
  for (uint32_t i = 0; i < info.input_count; ++i) {
    rlx_tensor_info input = RLX_INIT(rlx_tensor_info);
    check(rlx_plan_get_input(plan_.get(), entry, i, &input));
    const std::string_view name = input.name;
    const bool is_right = (name == kIds || name == kMask) && input.dtype == RLX_I64 &&
                          input.rank == 2 && input.dims[0] == bucket.rows &&
                          (i == 0 || input.dims[1] == bucket.tokens);
    if (!is_right) {
      refuse(info.name, "its input \"" + std::string(name) +
                            "\" is none of input_ids and attention_mask, i64[rows, tokens]");
    }
    bucket.tokens = input.dims[1];
  }
  if (bucket.tokens < filler_.size()) refuse(info.name, "it has too few tokens for any");
  max_tokens_ = std::max(max_tokens_, bucket.tokens);
  return bucket;
}

std::string Encoder::device_name() const {
  rlx_device_info info = RLX_INIT(rlx_device_info);
  check(rlx_device_get_info(device_.get(), &info));
  return std::string(info.id) + " " + info.name;
}

void Encoder::set_input(const Bucket& bucket, const char* name,
                        const std::vector<int64_t>& values) {
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = values.data();
  tensor.size_bytes = values.size() * sizeof(int64_t);
  tensor.dtype = RLX_I64;
  tensor.rank = 2;
  tensor.dims[0] = bucket.rows;
  tensor.dims[1] = bucket.tokens;
  check(rlx_session_set_input(session_.get(), bucket.entry, name, &tensor));
}

std::vector<float> Encoder::embed(std::span<const Tokens> sentences) {
  std::vector<size_t> counts;
  for (const Tokens& sentence : sentences) counts.push_back(sentence.size());
  std::vector<float> embeddings(sentences.size() * width_);
  for (const Batch& batch : make_batches(counts, buckets_)) run(batch, sentences, embeddings);
  return embeddings;
}

void Encoder::run(const Batch& batch, std::span<const Tokens> sentences,
                  std::vector<float>& embeddings) {
  const Bucket& bucket = batch.bucket;
  std::vector<int64_t> ids(bucket.rows * bucket.tokens, 0);
  std::vector<int64_t> mask(ids.size(), 0);
  for (size_t row = 0; row < bucket.rows; ++row) {
    const bool is_used = row < batch.sentences.size();
    const Tokens& sentence = is_used ? sentences[batch.sentences[row]] : filler_;
    std::copy(sentence.begin(), sentence.end(), ids.data() + row * bucket.tokens);
    std::fill_n(mask.data() + row * bucket.tokens, sentence.size(), 1);
  }
  set_input(bucket, kIds, ids);
  set_input(bucket, kMask, mask);
  check(rlx_session_run(session_.get(), bucket.entry));
  std::vector<float> rows(bucket.rows * width_);
  check(rlx_session_read_output(session_.get(), bucket.entry, kEmbedding, rows.data(),
                                rows.size() * sizeof(float)));
  for (size_t row = 0; row < batch.sentences.size(); ++row)
    std::copy_n(rows.data() + row * width_, width_,
                embeddings.data() + batch.sentences[row] * width_);
}

}  // namespace search
