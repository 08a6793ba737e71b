// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/checkpoint/tokenizer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/import/checkpoint/checkpoint_files.h"
#include "compiler/import/names.h"

namespace rlx::checkpoint {
namespace {

constexpr const char* kFile = "tokenizer.json";
constexpr int64_t kMaxTokens = int64_t{1} << 24;
constexpr size_t kMaxHoles = 4096;  // ids without tokens, beside as many as there are tokens

// GGUF's numbers of kinds of tokens.
constexpr int32_t kNormal = 1;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;
constexpr int32_t kUnused = 5;

// The tokenizer is not one that is read: a warning, and no keys.
struct NotRead {
  std::string why;
};
[[noreturn]] void not_read(std::string why) {
  throw NotRead{std::move(why)};
}

// ---- JSON ----

const JsonValue* find(const JsonObject& object, std::string_view name) {
  const JsonValue* value = find_member(object, name);
  return value && std::holds_alternative<std::monostate>(value->data) ? nullptr : value;
}
const JsonObject* find_object(const JsonObject& object, std::string_view name) {
  const JsonValue* value = find(object, name);
  return value ? value->object() : nullptr;
}
bool is_true(const JsonObject& object, std::string_view name, bool absent = false) {
  const JsonValue* value = find(object, name);
  const bool* flag = value ? std::get_if<bool>(&value->data) : nullptr;
  return flag ? *flag : absent;
}
std::string text_or_empty(const JsonObject& object, std::string_view name) {
  const JsonValue* value = find(object, name);
  return value && value->string() ? *value->string() : std::string();
}

// The steps of a component that may be a Sequence of them under `list`; none where it is null.
std::vector<const JsonObject*> steps_of(const JsonObject& file, std::string_view component,
                                        std::string_view list) {
  const JsonValue* value = find(file, component);
  if (value == nullptr) return {};
  const JsonObject* object = value->object();
  if (object == nullptr) not_read("a tokenizer whose " + std::string(component) + " is no object");
  if (text_or_empty(*object, "type") != "Sequence") return {object};
  const JsonValue* items = find(*object, list);
  std::vector<const JsonObject*> steps;
  if (items == nullptr || items->array() == nullptr)
    not_read("a tokenizer whose " + std::string(component) + " is a sequence of nothing");
  for (const JsonValue& item : *items->array()) {
    if (item.object() == nullptr)
      not_read("a tokenizer whose " + std::string(component) + " has a step that is no object");
    steps.push_back(item.object());
  }
  return steps;
}

// ---- how words are cut ----

#define RLX_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define RLX_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

// A pattern, what comes with it, and the name that GGUF files give all of it.
struct WordCut {
  std::string_view pattern;  // "": that of ByteLevel itself
  bool digits_first;         // each alone
  bool composes;             // Unicode's form C first
  bool ignores_merges;
  std::string_view name;
};
constexpr WordCut kWordCuts[] = {
    {"", false, false, false, "gpt-2"},
    {"", true, false, false, "smollm"},
    {RLX_CONTRACTIONS "\\p{N}{1,3}" RLX_REST, false, false, true, "llama-bpe"},
    {RLX_CONTRACTIONS "\\p{N}{1,3}" RLX_REST, false, false, false, "dbrx"},
    {RLX_CONTRACTIONS "\\p{N}" RLX_REST, false, true, false, "qwen2"},
    {RLX_CONTRACTIONS "\\p{N}" RLX_REST, false, false, false, "stablelm2"},
};

#undef RLX_CONTRACTIONS
#undef RLX_REST

struct FoundCut {
  std::string pattern;
  bool digits_first = false;
  bool cuts_by_itself = true;  // ByteLevel's own pattern
  bool has_bytes = false;      // the step ByteLevel
};

void add_split(const JsonObject& step, FoundCut& cut) {
  const JsonObject* pattern = find_object(step, "pattern");
  const std::string regex = pattern ? text_or_empty(*pattern, "Regex") : "";
  const bool is_plain = text_or_empty(step, "behavior") == "Isolated" && !is_true(step, "invert");
  if (regex.empty() || !is_plain || !cut.pattern.empty())
    not_read("a tokenizer that cuts words by other than one pattern");
  cut.pattern = regex;
}

FoundCut find_cut(const JsonObject& file) {
  FoundCut cut;
  for (const JsonObject* step : steps_of(file, "pre_tokenizer", "pretokenizers")) {
    const std::string type = text_or_empty(*step, "type");
    if (type == "Digits" && is_true(*step, "individual_digits") && !cut.has_bytes) {
      cut.digits_first = true;
    } else if (type == "Split" && !cut.has_bytes) {
      add_split(*step, cut);
    } else if (type == "ByteLevel" && !is_true(*step, "add_prefix_space")) {
      cut.has_bytes = true;
      cut.cuts_by_itself = is_true(*step, "use_regex", true);
    } else {
      not_read("a tokenizer whose words are cut by " + in_quotes(type));
    }
  }
  if (!cut.has_bytes) not_read("a tokenizer that is not byte-level");
  return cut;
}

bool has_form_c(const JsonObject& file) {
  bool composes = false;
  for (const JsonObject* step : steps_of(file, "normalizer", "normalizers")) {
    const std::string type = text_or_empty(*step, "type");
    if (type != "NFC") not_read("a tokenizer that normalizes text by " + in_quotes(type));
    composes = true;
  }
  return composes;
}

std::string_view name_of_cut(const JsonObject& file, const JsonObject& model) {
  const FoundCut cut = find_cut(file);
  const bool composes = has_form_c(file);
  const bool ignores_merges = is_true(model, "ignore_merges");
  for (const WordCut& known : kWordCuts) {
    if (known.pattern == cut.pattern && known.digits_first == cut.digits_first &&
        known.composes == composes && known.ignores_merges == ignores_merges &&
        cut.cuts_by_itself == cut.pattern.empty())
      return known.name;
  }
  not_read("a tokenizer that cuts words by " + in_quotes(cut.pattern));
}

// ---- tokens ----

class TokenReader {
 public:
  TokenReader(const JsonObject& file, const JsonObject& model) : file_(file), model_(model) {}

  void read(MadeFile& made) {
    read_vocabulary();
    read_added();
    if (ids_.empty()) not_read("a tokenizer without tokens");
    if (static_cast<size_t>(last_) >= 2 * ids_.size() + kMaxHoles)
      not_read("a tokenizer of " + std::to_string(ids_.size()) + " tokens with id " +
               std::to_string(last_));
    std::vector<std::string> names(static_cast<size_t>(last_ + 1));
    std::vector<int32_t> kinds(names.size(), kUnused);
    for (size_t id = 0; id < names.size(); ++id) names[id] = "[UNUSED" + std::to_string(id) + "]";
    for (const auto& [name, id] : ids_) {
      const auto place = static_cast<size_t>(id);
      if (kinds[place] != kUnused)
        not_read("a tokenizer with two tokens of id " + std::to_string(id));
      names[place] = name;
      kinds[place] = kind_of(name);
    }
    made.texts("tokenizer.ggml.tokens", names);
    made.integers("tokenizer.ggml.token_type", kinds);
    made.texts("tokenizer.ggml.merges", merges());
  }

  [[nodiscard]] std::optional<int64_t> id_of(const std::string& token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

 private:
  int32_t kind_of(const std::string& name) const {
    const auto added = added_.find(name);
    return added == added_.end() ? kNormal : added->second;
  }

  void add(const std::string& name, const JsonValue* id) {
    const int64_t* number = id ? id->integer() : nullptr;
    if (number == nullptr || *number < 0 || *number >= kMaxTokens)
      not_read("a tokenizer whose token " + in_quotes(name) + " has no id below 2^24");
    const auto [place, is_new] = ids_.emplace(name, *number);
    if (!is_new && place->second != *number)
      not_read("a tokenizer whose token " + in_quotes(name) + " has two ids");
    last_ = std::max(last_, *number);
  }

  void read_vocabulary() {
    const JsonObject* vocabulary = find_object(model_, "vocab");
    if (vocabulary == nullptr) not_read("a tokenizer without a vocabulary");
    for (const JsonMember& member : *vocabulary) add(member.key, &member.value);
  }

  void read_added() {
    const JsonValue* list = find(file_, "added_tokens");
    if (list == nullptr) return;
    if (list->array() == nullptr) not_read("a tokenizer whose added tokens are no list");
    for (const JsonValue& item : *list->array()) {
      const JsonObject* token = item.object();
      const std::string name = token ? text_or_empty(*token, "content") : "";
      if (name.empty()) not_read("a tokenizer with an added token that has no content");
      for (const std::string_view trait : {"single_word", "lstrip", "rstrip"}) {
        if (is_true(*token, trait))
          not_read("a tokenizer whose token " + in_quotes(name) + " is " + std::string(trait));
      }
      add(name, find(*token, "id"));
      added_[name] = is_true(*token, "special") ? kControl : kUserDefined;
    }
  }

  // Pairs as "a b", or as lists of two in newer files.
  std::vector<std::string> merges() const {
    const JsonValue* list = find(model_, "merges");
    if (list == nullptr || list->array() == nullptr) not_read("a tokenizer without merges");
    std::vector<std::string> merges;
    for (const JsonValue& item : *list->array()) {
      const JsonArray* pair = item.array();
      const bool is_pair =
          pair && pair->size() == 2 && pair->front().string() && pair->back().string();
      if (item.string() == nullptr && !is_pair)
        not_read("a tokenizer with a merge that is not of two parts");
      merges.push_back(is_pair ? *pair->front().string() + " " + *pair->back().string()
                               : *item.string());
    }
    return merges;
  }

  const JsonObject& file_;
  const JsonObject& model_;
  std::map<std::string, int64_t> ids_;
  std::map<std::string, int32_t> added_;  // with their kinds
  int64_t last_ = -1;
};

// ---- what is put around text, and what ends it ----

struct Frame {
  std::string begin;  // a token; empty: none
  bool adds_end = false;
};

// Of the template for one text: special tokens in front of it and behind.
Frame find_frame(const JsonObject& file) {
  Frame frame;
  for (const JsonObject* step : steps_of(file, "post_processor", "processors")) {
    const std::string type = text_or_empty(*step, "type");
    if (type == "ByteLevel") continue;
    const JsonValue* single = find(*step, "single");
    if (type != "TemplateProcessing" || single == nullptr || single->array() == nullptr)
      not_read("a tokenizer that frames text by " + in_quotes(type));
    bool is_behind = false;
    for (const JsonValue& item : *single->array()) {
      const JsonObject* part = item.object();
      const JsonObject* special = part ? find_object(*part, "SpecialToken") : nullptr;
      if (special == nullptr) {
        is_behind = true;
      } else if (is_behind) {
        frame.adds_end = true;
      } else if (frame.begin.empty()) {
        frame.begin = text_or_empty(*special, "id");
      } else {
        not_read("a tokenizer that puts two tokens in front of text");
      }
    }
  }
  return frame;
}

// A token of tokenizer_config.json: its text, or an object with it.
std::string named_token(const JsonObject& settings, std::string_view name) {
  const JsonObject* object = find_object(settings, name);
  return object ? text_or_empty(*object, "content") : text_or_empty(settings, name);
}

void add_ids(const Config& config, const JsonObject& settings, const Frame& frame,
             const TokenReader& tokens, MadeFile& made) {
  const auto add = [&](const std::string& key, std::optional<int64_t> id) {
    if (id) made.integer("tokenizer.ggml." + key, *id);
  };
  auto begin = tokens.id_of(frame.begin);
  if (!frame.begin.empty() && !begin)
    not_read("a tokenizer that begins text with " + in_quotes(frame.begin) + ", which is no token");
  if (!begin) begin = tokens.id_of(named_token(settings, "bos_token"));
  add("bos_token_id", begin ? begin : config.begin_id);
  made.flag("tokenizer.ggml.add_bos_token", !frame.begin.empty());
  made.flag("tokenizer.ggml.add_eos_token", frame.adds_end);
  std::vector<int64_t> ends = config.end_ids;
  if (const auto end = tokens.id_of(named_token(settings, "eos_token"))) {
    std::erase(ends, *end);
    ends.insert(ends.begin(), *end);
  }
  const std::vector<std::string> keys = {"eos_token_id", "eot_token_id", "eom_token_id"};
  if (ends.size() > keys.size())
    not_read("a tokenizer with " + std::to_string(ends.size()) + " tokens that end a reply");
  for (size_t i = 0; i < ends.size(); ++i) add(keys[i], ends[i]);
}

// ---- chat templates ----

constexpr const char* kTemplateKey = "tokenizer.chat_template";

void add_templates(const std::string& folder, const JsonObject& settings, MadeFile& made,
                   Diagnostics& diagnostics) {
  const JsonValue* given = find(settings, "chat_template");
  if (given && given->string()) made.text(kTemplateKey, *given->string());
  for (const JsonValue& item : given && given->array() ? *given->array() : JsonArray()) {
    if (item.object() == nullptr) continue;
    const std::string name = text_or_empty(*item.object(), "name");
    const std::string key = name == "default" ? kTemplateKey : kTemplateKey + ("." + name);
    made.text(key, text_or_empty(*item.object(), "template"));
  }
  if (auto file = read_text_file(folder, "chat_template.jinja", diagnostics))
    made.text(kTemplateKey, std::move(*file));
}

// All keys, or none: `model` comes last, and without it nothing reads the others.
void add_tokenizer(const std::string& folder, const JsonObject& file, const Config& config,
                   MadeFile& made, Diagnostics& diagnostics) {
  const JsonObject* model = find_object(file, "model");
  if (model == nullptr || text_or_empty(*model, "type") != "BPE")
    not_read("a tokenizer of type " +
             in_quotes(model ? text_or_empty(*model, "type") : std::string("none")));
  if (is_true(*model, "byte_fallback")) not_read("a tokenizer with tokens for single bytes");
  if (!text_or_empty(*model, "continuing_subword_prefix").empty() ||
      !text_or_empty(*model, "end_of_word_suffix").empty())
    not_read("a tokenizer with marks at parts of words");
  const auto settings = read_json_file(folder, "tokenizer_config.json", diagnostics);
  made.text("tokenizer.ggml.pre", std::string(name_of_cut(file, *model)));
  TokenReader tokens(file, *model);
  tokens.read(made);
  add_ids(config, settings.value_or(JsonObject()), find_frame(file), tokens, made);
  add_templates(folder, settings.value_or(JsonObject()), made, diagnostics);
  made.text("tokenizer.ggml.model", "gpt2");
}

}  // namespace

void read_tokenizer(const std::string& folder, const Config& config, MadeFile& made,
                    Diagnostics& diagnostics) {
  const auto file = read_json_file(folder, kFile, diagnostics);
  if (!file) return;
  try {
    add_tokenizer(folder, *file, config, made, diagnostics);
  } catch (const NotRead& reason) {
    diagnostics.warning(DiagCode::BadField, {folder + "/" + kFile, ""},
                        reason.why + " is not read: the plan takes and gives ids alone");
  }
}

}  // namespace rlx::checkpoint
