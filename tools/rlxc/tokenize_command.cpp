// SPDX-License-Identifier: Apache-2.0
// `rlxc tokenize`: what a plan's tokenizer makes of a text, and of ids.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/include/rlx_text.h"
#include "tools/describe/id_list.h"
#include "tools/program/terminal.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"

namespace rlx {
namespace {

struct TokenizeArguments {
  std::string plan;
  std::string text;
  std::string texts;  // a file
  std::vector<int32_t> ids;
  bool has_ids = false;  // else a text
  bool special = false;
  bool add_special = false;
  bool json = false;
};

struct Closer {
  void operator()(rlx_plan* plan) const { rlx_plan_close(plan); }
  void operator()(rlx_text* text) const { rlx_text_close(text); }
  void operator()(rlx_text_stream* stream) const { rlx_text_stream_close(stream); }
};
template <class Handle>
using Owned = std::unique_ptr<Handle, Closer>;

Status text_status(rlx_status code) {
  return code == RLX_OK ? Status() : Status(code, rlx_text_last_error());
}

Status open_text(const std::string& path, Owned<rlx_text>& text) {
  rlx_plan* plan = nullptr;
  if (const rlx_status code = rlx_plan_open_file(path.c_str(), nullptr, &plan); code != RLX_OK)
    return {code, rlx_last_error()};
  const Owned<rlx_plan> owned_plan(plan);
  rlx_text* opened = nullptr;
  if (const Status status = text_status(rlx_text_open(plan, &opened)); !status.ok())
    return {status.code(), text_of(path, ": ", status.message())};
  text.reset(opened);
  return {};
}

Status encode(const rlx_text* text, const TokenizeArguments& arguments, std::string_view given,
              std::vector<int32_t>& ids) {
  uint32_t flags = 0;
  if (arguments.special) flags |= RLX_TEXT_PARSE_SPECIAL;
  if (arguments.add_special) flags |= RLX_TEXT_ADD_SPECIAL;
  size_t count = 0;
  RLX_RETURN_IF_ERROR(
      text_status(rlx_text_encode(text, given.data(), given.size(), flags, nullptr, 0, &count)));
  ids.resize(count);
  return text_status(
      rlx_text_encode(text, given.data(), given.size(), flags, ids.data(), ids.size(), &count));
}

Status show_ids(const rlx_text* text, const std::vector<int32_t>& ids, bool as_json) {
  nlohmann::json tokens = nlohmann::json::array();
  for (const int32_t id : ids) {
    const char* bytes = nullptr;
    size_t size_bytes = 0;
    RLX_RETURN_IF_ERROR(text_status(rlx_text_token(text, id, &bytes, &size_bytes)));
    const std::string shown = quoted({bytes, size_bytes});
    if (as_json) {
      tokens.push_back(shown.substr(1, shown.size() - 2));
    } else {
      std::printf("%7d  %s\n", id, shown.c_str());
    }
  }
  if (as_json)
    std::printf("%s\n", nlohmann::json({{"schema_version", tool::kJsonSchemaVersion},
                                        {"ids", ids},
                                        {"tokens", tokens}})
                            .dump()
                            .c_str());
  return {};
}

Status decode(const rlx_text* text, const TokenizeArguments& arguments, std::string& decoded) {
  rlx_text_stream* opened = nullptr;
  RLX_RETURN_IF_ERROR(
      text_status(rlx_text_stream_create(text, arguments.special ? 1 : 0, &opened)));
  const Owned<rlx_text_stream> stream(opened);
  const char* utf8 = nullptr;
  size_t size_bytes = 0;
  for (const int32_t id : arguments.ids) {
    RLX_RETURN_IF_ERROR(text_status(rlx_text_stream_put(opened, id, &utf8, &size_bytes)));
    decoded.append(utf8, size_bytes);
  }
  RLX_RETURN_IF_ERROR(text_status(rlx_text_stream_end(opened, &utf8, &size_bytes)));
  decoded.append(utf8, size_bytes);
  return {};
}

Status show_text(const rlx_text* text, const TokenizeArguments& arguments) {
  std::string decoded;
  RLX_RETURN_IF_ERROR(decode(text, arguments, decoded));
  if (arguments.json)
    decoded =
        nlohmann::json({{"schema_version", tool::kJsonSchemaVersion}, {"text", decoded}}).dump();
  decoded += '\n';
  std::fwrite(decoded.data(), 1, decoded.size(), stdout);
  return {};
}

// Ids of each text of a file, a line each.
Status show_ids_of_file(const rlx_text* text, const TokenizeArguments& arguments) {
  std::ifstream file(arguments.texts);
  const nlohmann::json texts = nlohmann::json::parse(file, nullptr, false);
  const auto is_text = [](const nlohmann::json& item) { return item.is_string(); };
  if (!texts.is_array() || !std::ranges::all_of(texts, is_text))
    return {RLX_INVALID_ARGUMENT, text_of(arguments.texts, ": wanted a JSON list of strings")};
  for (const std::string given : texts) {
    std::vector<int32_t> ids;
    RLX_RETURN_IF_ERROR(encode(text, arguments, given, ids));
    std::printf("%s\n", nlohmann::json(ids).dump().c_str());
  }
  return {};
}

Status tokenize(const TokenizeArguments& arguments) {
  Owned<rlx_text> text;
  RLX_RETURN_IF_ERROR(open_text(arguments.plan, text));
  if (arguments.has_ids) return show_text(text.get(), arguments);
  if (!arguments.texts.empty()) return show_ids_of_file(text.get(), arguments);
  std::vector<int32_t> ids;
  RLX_RETURN_IF_ERROR(encode(text.get(), arguments, arguments.text, ids));
  return show_ids(text.get(), ids, arguments.json);
}

int run_tokenize(const TokenizeArguments& arguments) {
  const Status status = tokenize(arguments);
  if (status.ok()) return kExitOk;
  tool::say_error("rlxc", status.message());
  return status.code() == RLX_OUT_OF_HOST_MEMORY ? kExitResources : kExitInputRefused;
}

}  // namespace

void add_tokenize_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* command = app.add_subcommand(
      "tokenize", "Show the tokens that a plan's language model takes a text for, or their text");
  command->add_option("PLAN", arguments->plan, "Plan of a language model")->required();
  CLI::Option_group* input = command->add_option_group("input", "One of these");
  input->add_option("--text", arguments->text, "Text to encode: ids and tokens are printed");
  input->add_option(
      "--texts", arguments->texts,
      "File with a JSON list of texts: a line of JSON with the ids of each is printed");
  CLI::Option* ids =
      tool::add_id_list(*input, "--ids", arguments->ids, "Ids to decode: text is printed");
  input->require_option(1);
  command->add_flag("--special", arguments->special,
                    "Names of control tokens in the text are those tokens; shown in decoded text");
  command->add_flag("--add-special", arguments->add_special,
                    "Add what the model wants at the start and the end");
  command->add_flag("--json", arguments->json, "As JSON");
  command->callback([arguments, ids, &action] {
    arguments->has_ids = ids->count() > 0;
    action = [arguments] { return run_tokenize(*arguments); };
  });
}

}  // namespace rlx
