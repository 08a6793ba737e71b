// SPDX-License-Identifier: Apache-2.0
// rlx._language: a language model's plan with its tokenizer and the loop of its tokens, for
// rlx.language.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/include/rlx.hpp"
#include "runtime/include/rlx_text.h"
#include "tools/language/token_loop.h"
#include "tools/python/translate.h"

namespace rlx::python {
namespace {

namespace nb = nanobind;

template <class Handle, void (*close)(Handle*)>
struct Closer {
  void operator()(Handle* handle) const { close(handle); }
};
using TextHandle = std::unique_ptr<rlx_text, Closer<rlx_text, rlx_text_close>>;
using StreamHandle =
    std::unique_ptr<rlx_text_stream, Closer<rlx_text_stream, rlx_text_stream_close>>;
using SamplerHandle =
    std::unique_ptr<rlx_text_sampler, Closer<rlx_text_sampler, rlx_text_sampler_close>>;

void check_status(const Status& status) {
  if (!status.ok()) throw Error(status.code(), status.message());
}
void check_text(rlx_status status) {
  if (status != RLX_OK) throw Error(status, rlx_text_last_error());
}

Plan open_plan(const std::string& path, const std::optional<std::string>& weights_folder) {
  auto options = init<rlx_plan_options>();
  options.weights_folder = weights_folder ? weights_folder->c_str() : nullptr;
  return Plan(path, &options);
}

TextHandle open_text(const Plan& plan) {
  rlx_text* text = nullptr;
  check_text(rlx_text_open(plan.get(), &text));
  return TextHandle(text);
}

std::vector<int32_t> encode_text(const rlx_text* text, const std::string& utf8, uint32_t flags) {
  // No token is shorter than a byte, but for those at the ends.
  std::vector<int32_t> ids(utf8.size() + 8);
  size_t count = 0;
  const auto encode = [&] {
    return rlx_text_encode(text, utf8.data(), utf8.size(), flags, ids.data(), ids.size(), &count);
  };
  const rlx_status status = encode();
  if (status != RLX_OK && count > ids.size()) {
    ids.resize(count);
    check_text(encode());
  } else {
    check_text(status);
  }
  ids.resize(count);
  return ids;
}

class TokenizerCore {
 public:
  explicit TokenizerCore(const std::string& path) : text_(open_text(open_plan(path, {}))) {
    info_ = init<rlx_text_info>();
    check_text(rlx_text_get_info(text_.get(), &info_));
  }

  [[nodiscard]] const rlx_text_info& info() const { return info_; }
  [[nodiscard]] std::vector<int32_t> encode(const std::string& text, bool add_special) const {
    return encode_text(text_.get(), text, add_special ? RLX_TEXT_ADD_SPECIAL : 0);
  }
  [[nodiscard]] std::string decode(const std::vector<int32_t>& ids, bool show_control) const {
    rlx_text_stream* opened = nullptr;
    check_text(rlx_text_stream_create(text_.get(), show_control ? 1 : 0, &opened));
    const StreamHandle stream(opened);
    std::string text;
    const char* utf8 = nullptr;
    size_t size_bytes = 0;
    for (const int32_t id : ids) {
      check_text(rlx_text_stream_put(stream.get(), id, &utf8, &size_bytes));
      text.append(utf8, size_bytes);
    }
    check_text(rlx_text_stream_end(stream.get(), &utf8, &size_bytes));
    return text.append(utf8, size_bytes);
  }

 private:
  TextHandle text_;
  rlx_text_info info_{};
};

// One thread at a time; a second one is refused.
class Busy {
 public:
  explicit Busy(std::atomic_flag& flag) : flag_(flag) {
    if (flag_.test_and_set())
      throw Error(RLX_INVALID_STATE, "another thread is in a call of this language model");
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() { flag_.clear(); }

 private:
  std::atomic_flag& flag_;
};

struct Sampling {
  float temperature = 0;
  uint32_t top_k = 0;
  float top_p = 0;
  float min_p = 0;
  uint64_t seed = 0;
};

class LanguageCore {
 public:
  LanguageCore(const std::string& path, const std::string& device,
               const std::optional<std::string>& weights_folder, language::Reuse reuse)
      : plan_(open_plan(path, weights_folder)),
        text_(open_text(plan_)),
        device_(device),
        session_(plan_, device_) {
    language::ModelPlan model;
    check_status(language::describe_model(plan_.get(), model));
    info_ = init<rlx_text_info>();
    check_text(rlx_text_get_info(text_.get(), &info_));
    logits_.resize(model.vocabulary);
    loop_.emplace(std::move(model), session_.get(), reuse);
  }

  [[nodiscard]] uint32_t context() const { return loop_->model().context_tokens; }
  [[nodiscard]] uint32_t kept() const { return loop_->kept_tokens(); }

  // Messages as (role, content).
  [[nodiscard]] std::vector<int32_t> chat_ids(
      const std::vector<std::pair<std::string, std::string>>& messages) const {
    std::vector<rlx_text_message> views;
    views.reserve(messages.size());
    for (const auto& message : messages) {
      if (message.first.find('\0') != std::string::npos)
        throw Error(RLX_INVALID_ARGUMENT, "a message's role has the character zero in it");
      views.push_back({.role = message.first.c_str(),
                       .content = message.second.data(),
                       .content_bytes = message.second.size()});
    }
    auto options = init<rlx_text_chat_options>();
    options.add_reply_start = 1;
    options.now_unix_seconds = std::time(nullptr);
    size_t count = 0;
    check_text(
        rlx_text_chat(text_.get(), views.data(), views.size(), &options, nullptr, 0, &count));
    std::vector<int32_t> ids(count);
    check_text(rlx_text_chat(text_.get(), views.data(), views.size(), &options, ids.data(),
                             ids.size(), &count));
    return ids;
  }

  [[nodiscard]] std::vector<int32_t> encode(const std::string& text) const {
    return encode_text(text_.get(), text, RLX_TEXT_ADD_SPECIAL);
  }

  // Reads a prompt; next() then gives what follows.
  void begin(const std::vector<int32_t>& ids, const Sampling& given) {
    const nb::gil_scoped_release released;
    const Busy busy(busy_);
    auto sampling = init<rlx_text_sampling>();
    sampling.temperature = given.temperature;
    sampling.top_k = given.top_k;
    sampling.top_p = given.top_p;
    sampling.min_p = given.min_p;
    sampling.seed = given.seed;
    rlx_text_sampler* sampler = nullptr;
    check_text(rlx_text_sampler_create(text_.get(), &sampling, &sampler));
    sampler_.reset(sampler);
    rlx_text_stream* stream = nullptr;
    check_text(rlx_text_stream_create(text_.get(), 0, &stream));
    stream_.reset(stream);
    draws_ = given.temperature > 0;
    pending_.reset();
    check_status(loop_->read_prompt(ids));
  }

  // The next token: its id, the text that can be shown with it, and whether it ends the reply.
  nb::tuple next() {
    std::string text;
    int32_t id = 0;
    bool is_end = false;
    {
      const nb::gil_scoped_release released;
      const Busy busy(busy_);
      if (stream_ == nullptr)
        throw Error(RLX_INVALID_STATE, "no prompt was read; begin a reply first");
      if (pending_) check_status(loop_->feed(*pending_));
      pending_.reset();
      id = choose();
      is_end = rlx_text_is_stop(text_.get(), id) != 0;
      if (!is_end) {
        const char* utf8 = nullptr;
        size_t size_bytes = 0;
        check_text(rlx_text_stream_put(stream_.get(), id, &utf8, &size_bytes));
        text.assign(utf8, size_bytes);
        pending_ = id;
      }
    }
    return nb::make_tuple(id, text, is_end);
  }

  // What of an incomplete character was held back.
  std::string end() {
    const Busy busy(busy_);
    if (stream_ == nullptr) return {};
    const char* utf8 = nullptr;
    size_t size_bytes = 0;
    check_text(rlx_text_stream_end(stream_.get(), &utf8, &size_bytes));
    return {utf8, size_bytes};
  }

  [[nodiscard]] std::string device() const { return device_.info().id; }

 private:
  // By argmax on the device where the likeliest token is wanted, unless that is padding.
  int32_t choose() {
    int32_t id = 0;
    if (!draws_) {
      check_status(loop_->next(id));
      if (static_cast<uint32_t>(id) < info_.token_count) return id;
    }
    check_status(loop_->read_logits(logits_));
    check_text(rlx_text_sampler_choose(sampler_.get(), logits_.data(), logits_.size(), &id));
    return id;
  }

  Plan plan_;
  TextHandle text_;
  Device device_;
  Session session_;
  rlx_text_info info_{};
  std::optional<language::TokenLoop> loop_;
  SamplerHandle sampler_;
  StreamHandle stream_;
  bool draws_ = false;
  std::optional<int32_t> pending_;  // chosen, not yet fed
  std::vector<float> logits_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace
}  // namespace rlx::python

NB_MODULE(_language, module) {
  using rlx::python::LanguageCore;
  using rlx::python::Sampling;
  using rlx::python::TokenizerCore;
  module.doc() = "Language models for rlx.language; use that.";
  nanobind::register_exception_translator(rlx::python::translate);
  nanobind::enum_<rlx::language::Reuse>(module, "Reuse")
      .value("exact", rlx::language::Reuse::Exact)
      .value("rows", rlx::language::Reuse::Rows)
      .value("fast", rlx::language::Reuse::Fast);
  nanobind::class_<TokenizerCore>(module, "Tokenizer")
      .def(nanobind::init<const std::string&>(), nanobind::arg("path"),
           nanobind::call_guard<nanobind::gil_scoped_release>())
      .def_prop_ro("count", [](const TokenizerCore& core) { return core.info().token_count; })
      .def_prop_ro("begin", [](const TokenizerCore& core) { return core.info().begin; })
      .def_prop_ro("end", [](const TokenizerCore& core) { return core.info().end; })
      .def_prop_ro("add_begin",
                   [](const TokenizerCore& core) { return core.info().add_begin != 0; })
      .def_prop_ro("add_end", [](const TokenizerCore& core) { return core.info().add_end != 0; })
      .def("encode", &TokenizerCore::encode, nanobind::arg("text"), nanobind::arg("add_special"),
           nanobind::call_guard<nanobind::gil_scoped_release>())
      .def("decode", &TokenizerCore::decode, nanobind::arg("ids"), nanobind::arg("show_control"),
           nanobind::call_guard<nanobind::gil_scoped_release>());
  nanobind::class_<LanguageCore>(module, "Language")
      .def(nanobind::init<const std::string&, const std::string&, const std::optional<std::string>&,
                          rlx::language::Reuse>(),
           nanobind::arg("path"), nanobind::arg("device"), nanobind::arg("weights_folder").none(),
           nanobind::arg("reuse"), nanobind::call_guard<nanobind::gil_scoped_release>())
      .def_prop_ro("context", &LanguageCore::context)
      .def_prop_ro("kept", &LanguageCore::kept)
      .def_prop_ro("device", &LanguageCore::device)
      .def("chat_ids", &LanguageCore::chat_ids, nanobind::arg("messages"))
      .def("encode", &LanguageCore::encode, nanobind::arg("text"))
      .def(
          "begin",
          [](LanguageCore& core, const std::vector<int32_t>& ids, float temperature, uint32_t top_k,
             float top_p, float min_p, uint64_t seed) {
            core.begin(ids, {.temperature = temperature,
                             .top_k = top_k,
                             .top_p = top_p,
                             .min_p = min_p,
                             .seed = seed});
          },
          nanobind::arg("ids"), nanobind::arg("temperature"), nanobind::arg("top_k"),
          nanobind::arg("top_p"), nanobind::arg("min_p"), nanobind::arg("seed"))
      .def("next", &LanguageCore::next)
      .def("end", &LanguageCore::end);
}
