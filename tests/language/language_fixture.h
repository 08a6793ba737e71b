// SPDX-License-Identifier: Apache-2.0
// Loops over the tiny language model on the devices that are present.
#pragma once

#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "runtime/api/handles.h"
#include "tests/support/catch.h"
#include "tests/support/harness.h"
#include "tests/support/tiny_language_model.h"
#include "tools/language/token_loop.h"

namespace rlx::test {

#define REQUIRE_OK(...)                   \
  do {                                    \
    const Status status_ = (__VA_ARGS__); \
    INFO(status_.message());              \
    REQUIRE(status_.ok());                \
  } while (false)

// The plan of all sizes, compiled once.
inline rlx_plan* tiny_plan() {
  static const std::vector<std::byte> bytes =
      tiny_language_plan(std::vector<uint32_t>{1, 8, 16, 32}, TinyText::Without, 4);
  static rlx_plan* const plan = [] {
    rlx_plan* opened = nullptr;
    REQUIRE(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &opened) == RLX_OK);
    return opened;
  }();
  return plan;
}

// A session of its own with a loop over it, whose prompts are cut into these sizes only.
class Rig {
 public:
  Rig(rlx_device* device, language::Reuse reuse, const std::vector<uint32_t>& sizes = {}) {
    language::ModelPlan model;
    REQUIRE_OK(language::describe_model(tiny_plan(), model));
    if (!sizes.empty())
      std::erase_if(model.prompts, [&](const language::TokenEntry& entry) {
        return std::find(sizes.begin(), sizes.end(), entry.tokens) == sizes.end();
      });
    REQUIRE(rlx_session_create(tiny_plan(), device, nullptr, &session_) == RLX_OK);
    loop_ = std::make_unique<language::TokenLoop>(std::move(model), session_, reuse);
  }
  ~Rig() { rlx_session_close(session_); }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  language::TokenLoop& loop() { return *loop_; }
  rlx_session* session() { return session_; }

  // The logits behind the prompt.
  std::vector<float> read(const std::vector<int32_t>& ids) {
    REQUIRE_OK(loop().read_prompt(ids));
    return logits();
  }
  std::vector<float> logits() {
    std::vector<float> values(kTinyVocabulary);
    REQUIRE_OK(loop().read_logits(values));
    return values;
  }
  // The likeliest tokens, one after another.
  std::vector<int32_t> greedy(size_t count) {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < count; ++i) {
      int32_t id = 0;
      REQUIRE_OK(loop().next(id));
      ids.push_back(id);
      REQUIRE_OK(loop().feed(id));
    }
    return ids;
  }

 private:
  rlx_session* session_ = nullptr;
  std::unique_ptr<language::TokenLoop> loop_;
};

// Some prompt of that many tokens; longer ones begin alike.
inline std::vector<int32_t> some_prompt(size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i)
    ids[i] = static_cast<int32_t>((i * i * 7 + i * 3 + 5) % kTinyVocabulary);
  return ids;
}

// Every device that computes, as the C API has it; says where there is none.
template <class Body>
void on_every_device(const Body& body) {
  if (present_devices().devices.empty()) WARN("SKIPPED: no device: " + present_devices().note);
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    INFO(device->info().id);
    rlx_device* const handle = make_device_handle(device);
    body(handle);
    rlx_device_close(handle);
  }
}

}  // namespace rlx::test
