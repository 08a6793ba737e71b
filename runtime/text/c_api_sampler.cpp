// SPDX-License-Identifier: Apache-2.0
// rlx_text.h: the next token.
#include "runtime/text/handles.h"
#include "runtime/text/sampler.h"

struct rlx_text_sampler {
  std::unique_ptr<rlx::Sampler> sampler;
};

using rlx::null_argument;
using rlx::Status;
using rlx::text_error;

rlx_status rlx_text_sampler_create(const rlx_text* text, const rlx_text_sampling* sampling,
                                   rlx_text_sampler** sampler) {
  return rlx::guarded(text_error(), [&]() -> Status {
    if (sampler == nullptr) return null_argument("sampler");
    *sampler = nullptr;
    if (text == nullptr) return null_argument("text");
    rlx_text_sampling taken = RLX_INIT(rlx_text_sampling);
    RLX_RETURN_IF_ERROR(rlx::take_struct(sampling, "sampling", taken));
    auto made = std::make_unique<rlx_text_sampler>();
    RLX_RETURN_IF_ERROR(
        rlx::Sampler::create(text->model->vocabulary().size(), taken, made->sampler));
    *sampler = made.release();
    return {};
  });
}

void rlx_text_sampler_close(rlx_text_sampler* sampler) {
  delete sampler;
}

rlx_status rlx_text_sampler_accept(rlx_text_sampler* sampler, int32_t id) {
  return rlx::guarded(text_error(), [&]() -> Status {
    return sampler == nullptr ? null_argument("sampler") : sampler->sampler->accept(id);
  });
}

rlx_status rlx_text_sampler_choose(rlx_text_sampler* sampler, const float* logits, size_t count,
                                   int32_t* id) {
  return rlx::guarded(text_error(), [&]() -> Status {
    if (sampler == nullptr) return null_argument("sampler");
    if (logits == nullptr) return null_argument("logits");
    if (id == nullptr) return null_argument("id");
    return sampler->sampler->choose({logits, count}, *id);
  });
}

rlx_status rlx_text_sampler_reset(rlx_text_sampler* sampler, uint64_t draw) {
  return rlx::guarded(text_error(), [&]() -> Status {
    if (sampler == nullptr) return null_argument("sampler");
    sampler->sampler->reset(draw);
    return {};
  });
}
