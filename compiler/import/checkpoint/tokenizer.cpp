// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/checkpoint/tokenizer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/import/checkpoint/checkpoint_files.h"
#include "compiler/import/checkpoint/piece_rules.h"
#include "compiler/import/checkpoint/tokenizer_json.h"
#include "compiler/import/checkpoint/word_cuts.h"
#include "compiler/import/checkpoint/word_list.h"
#include "compiler/import/checkpoint/word_rules.h"
#include "compiler/import/gguf/model_parts.h"
#include "compiler/import/gguf/text.h"
#include "compiler/import/model_files.h"
#include "compiler/import/names.h"

namespace rlx::checkpoint {
namespace {

constexpr const char* kFile = "tokenizer.json";
constexpr int64_t kMaxTokens = int64_t{1} << 24;
constexpr size_t kMaxHoles = 4096;  // ids without tokens, beside as many as there are tokens

// GGUF's numbers of kinds of tokens.
constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;
constexpr int32_t kUnused = 5;
constexpr int32_t kByte = 6;

// ---- tokens ----

class TokenReader {
 public:
  TokenReader(const JsonObject& file, const JsonObject& model, Family family)
      : file_(file), model_(model), family_(family) {}

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
      kinds[place] = kind_of(name);
      names[place] = text_of(name, kinds[place]);
    }
    made.texts("tokenizer.ggml.tokens", names);
    made.integers("tokenizer.ggml.token_type", kinds);
    if (family_ == Family::Unigram) {
      made.reals("tokenizer.ggml.scores", scores_by_id(names.size()));
    } else if (family_ != Family::Words) {
      made.texts("tokenizer.ggml.merges", merges());
    }
    made.integers("tokenizer.rlx.strips_left", strips_left_);
    made.integers("tokenizer.rlx.strips_right", strips_right_);
  }

  // Of characters that no token has; nullopt where there is none.
  [[nodiscard]] std::optional<int64_t> unknown_id() const { return id_of(unknown_); }

  [[nodiscard]] std::optional<int64_t> id_of(const std::string& token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

 private:
  int32_t kind_of(const std::string& name) const {
    const auto added = added_.find(name);
    const bool is_added = added != added_.end();
    // Of words the name of the unknown one is found in text as those of other special tokens are.
    if (is_added && family_ == Family::Words) return added->second;
    if (family_ != Family::Bytes && name == unknown_) return kUnknown;
    if (is_added) return added->second;
    return has_byte_tokens_ && is_byte_name(name) ? kByte : kNormal;
  }

  std::string text_of(const std::string& name, int32_t kind) const {
    if (family_ != Family::Words || kind != kNormal) return name;
    return word_part(name, word_mark(model_));
  }

  // <0x41>
  static bool is_byte_name(const std::string& name) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    return name.size() == 6 && name.starts_with("<0x") && name.back() == '>' &&
           kDigits.find(name[3]) != std::string_view::npos &&
           kDigits.find(name[4]) != std::string_view::npos;
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
    const bool has_pieces = family_ == Family::MergedPieces || family_ == Family::Unigram;
    has_byte_tokens_ = has_pieces && is_true(model_, "byte_fallback");
    unknown_ = text_or_empty(model_, "unk_token");
    if (family_ == Family::Unigram) {
      read_pieces();
      return;
    }
    const JsonObject* vocabulary = find_object(model_, "vocab");
    if (vocabulary == nullptr) not_read("a tokenizer without a vocabulary");
    for (const JsonMember& member : *vocabulary) add(member.key, &member.value);
  }

  // [piece, score] each, in the order of their ids.
  void read_pieces() {
    const JsonValue* list = find(model_, "vocab");
    if (list == nullptr || list->array() == nullptr) not_read("a tokenizer without a vocabulary");
    for (const JsonValue& item : *list->array()) {
      const JsonArray* pair = item.array();
      if (pair == nullptr || pair->size() != 2 || pair->front().string() == nullptr)
        not_read("a tokenizer with a piece that is not a text and its score");
      const auto* real = std::get_if<double>(&pair->back().data);
      const int64_t* whole = pair->back().integer();
      if (real == nullptr && whole == nullptr)
        not_read("a tokenizer with a piece whose score is no number");
      const JsonValue id{static_cast<int64_t>(scores_.size())};
      add(*pair->front().string(), &id);
      scores_.push_back(real ? *real : static_cast<double>(*whole));
    }
    const JsonValue* unknown = find(model_, "unk_id");
    if (unknown == nullptr) return;
    const int64_t* id = unknown->integer();
    if (id == nullptr || *id < 0 || *id >= static_cast<int64_t>(scores_.size()))
      not_read("a tokenizer whose \"unk_id\" is none of its " + std::to_string(scores_.size()) +
               " pieces");
    unknown_ = *list->array()->at(static_cast<size_t>(*id)).array()->front().string();
  }

  std::vector<float> scores_by_id(size_t count) const {
    std::vector<float> scores(count, 0.0F);
    for (size_t i = 0; i < scores_.size(); ++i) scores[i] = static_cast<float>(scores_[i]);
    return scores;
  }

  // Found in text before it is normalised: spaces are not yet marked there, while the mark in the
  // name of such a token stands for one. Merges make it of spaces as well.
  bool is_made_of_spaces(const std::string& name) const {
    return family_ == Family::MergedPieces && name.find(kSpaceMark) != std::string::npos &&
           ids_.contains(name);
  }

  void read_added() {
    const JsonValue* list = find(file_, "added_tokens");
    if (list == nullptr) return;
    if (list->array() == nullptr) not_read("a tokenizer whose added tokens are no list");
    for (const JsonValue& item : *list->array()) {
      const JsonObject* token = item.object();
      const std::string name = token ? text_or_empty(*token, "content") : "";
      if (name.empty()) not_read("a tokenizer with an added token that has no content");
      if (is_true(*token, "single_word"))
        not_read("a tokenizer whose token " + in_quotes(name) + " is single_word");
      const bool is_special = is_true(*token, "special");
      if (family_ == Family::Words && is_true(*token, "normalized", !is_special))
        not_read("a tokenizer of words whose token " + in_quotes(name) +
                 " is looked for in normalized text");
      const bool is_piece = !is_special && is_made_of_spaces(name);
      add(name, find(*token, "id"));
      if (is_piece) continue;
      added_[name] = is_special ? kControl : kUserDefined;
      const auto id = static_cast<int32_t>(ids_.at(name));
      if (is_true(*token, "lstrip")) strips_left_.push_back(id);
      if (is_true(*token, "rstrip")) strips_right_.push_back(id);
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
  Family family_;
  bool has_byte_tokens_ = false;
  std::string unknown_;  // a token; empty: none
  std::vector<double> scores_;
  std::vector<int32_t> strips_left_;
  std::vector<int32_t> strips_right_;
  std::map<std::string, int64_t> ids_;
  std::map<std::string, int32_t> added_;  // with their kinds
  int64_t last_ = -1;
};

// ---- what is put around text, and what ends it ----

struct Frame {
  std::string begin;  // a token; empty: none
  std::string end;
};

// The token of a pair of it and its id.
std::string token_of_pair(const JsonObject& step, std::string_view name) {
  const JsonValue* pair = find(step, name);
  const JsonArray* items = pair ? pair->array() : nullptr;
  if (items == nullptr || items->size() != 2 || items->front().string() == nullptr)
    not_read("a tokenizer whose " + in_quotes(name) + " is no token and its id");
  return *items->front().string();
}

// Of the template for one text: special tokens in front of it and behind.
Frame find_frame(const JsonObject& file) {
  Frame frame;
  for (const JsonObject* step : steps_of(file, "post_processor", "processors")) {
    const std::string type = text_or_empty(*step, "type");
    if (type == "ByteLevel") continue;
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      frame = {.begin = token_of_pair(*step, "cls"), .end = token_of_pair(*step, "sep")};
      continue;
    }
    const JsonValue* single = find(*step, "single");
    if (type != "TemplateProcessing" || single == nullptr || single->array() == nullptr)
      not_read("a tokenizer that frames text by " + in_quotes(type));
    bool is_behind = false;
    for (const JsonValue& item : *single->array()) {
      const JsonObject* part = item.object();
      const JsonObject* special = part ? find_object(*part, "SpecialToken") : nullptr;
      if (special == nullptr) {
        if (is_behind) not_read("a tokenizer that frames text by a template with it twice");
        is_behind = true;
      } else if (is_behind && frame.end.empty()) {
        frame.end = text_or_empty(*special, "id");
      } else if (is_behind) {
        not_read("a tokenizer that puts two tokens behind text");
      } else if (frame.begin.empty()) {
        frame.begin = text_or_empty(*special, "id");
      } else {
        not_read("a tokenizer that puts two tokens in front of text");
      }
    }
    if (!is_behind) not_read("a tokenizer that frames text by a template without it");
  }
  return frame;
}

void add_ids(const Config& config, const JsonObject& settings, const Frame& frame,
             const TokenReader& tokens, MadeFile& made) {
  // Kinds of GGUF files have ids of their own where none are said.
  for (const std::string_view key : {"bos_token_id", "eos_token_id", "unknown_token_id"})
    made.integer("tokenizer.ggml." + std::string(key), -1);
  const auto add = [&](const std::string& key, std::optional<int64_t> id) {
    if (id) made.integer("tokenizer.ggml." + key, *id);
  };
  add("unknown_token_id", tokens.unknown_id());
  auto begin = tokens.id_of(frame.begin);
  if (!frame.begin.empty() && !begin)
    not_read("a tokenizer that begins text with " + in_quotes(frame.begin) + ", which is no token");
  if (!begin) begin = tokens.id_of(named_token(settings, "bos_token"));
  add("bos_token_id", begin ? begin : config.begin_id);
  made.flag("tokenizer.ggml.add_bos_token", !frame.begin.empty());
  made.flag("tokenizer.ggml.add_eos_token", !frame.end.empty());
  std::vector<int64_t> ends = config.end_ids;
  const auto end_in_front = [&](std::optional<int64_t> end) {
    if (!end) return;
    std::erase(ends, *end);
    ends.insert(ends.begin(), *end);
  };
  end_in_front(tokens.id_of(named_token(settings, "eos_token")));
  if (!frame.end.empty()) {
    const auto end = tokens.id_of(frame.end);
    if (!end)
      not_read("a tokenizer that ends text with " + in_quotes(frame.end) + ", which is no token");
    end_in_front(end);
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

bool drops_merges(const JsonObject& model) {
  const JsonValue* dropout = find(model, "dropout");
  if (dropout == nullptr) return false;
  const int64_t* whole = dropout->integer();
  const double* share = std::get_if<double>(&dropout->data);
  return (whole == nullptr || *whole != 0) && (share == nullptr || *share != 0);
}

Family family_of(const JsonObject& file, const JsonObject& model) {
  const std::string type = text_or_empty(model, "type");
  if (type == "Unigram") return Family::Unigram;
  if (type == "WordPiece") return Family::Words;
  if (type != "BPE") not_read("a tokenizer of type " + in_quotes(type));
  if (!text_or_empty(model, "continuing_subword_prefix").empty() ||
      !text_or_empty(model, "end_of_word_suffix").empty())
    not_read("a tokenizer with marks at parts of words");
  if (drops_merges(model)) not_read("a tokenizer that leaves out merges at random (\"dropout\")");
  if (has_step(file, "pre_tokenizer", "pretokenizers", "ByteLevel")) return Family::Bytes;
  if (is_true(model, "ignore_merges")) not_read("a tokenizer of pieces that ignores merges");
  if (!is_true(model, "fuse_unk") && !text_or_empty(model, "unk_token").empty() &&
      !is_true(model, "byte_fallback"))
    not_read("a tokenizer with a token for each unknown character");
  return Family::MergedPieces;
}

// All keys, or none: `model` comes last, and without it nothing reads the others.
void add_tokenizer(const std::string& folder, const JsonObject& file, const JsonObject& settings,
                   const Config& config, MadeFile& made, Diagnostics& diagnostics) {
  const JsonObject* model = find_object(file, "model");
  if (model == nullptr) not_read("a tokenizer without a model");
  const Family family = family_of(file, *model);
  if (family == Family::Bytes) {
    made.text("tokenizer.ggml.pre", std::string(name_of_cut(file, *model)));
  } else if (family == Family::Words) {
    add_word_rules(file, *model, made);
  } else {
    add_piece_rules(file, family, made);
  }
  TokenReader tokens(file, *model, family);
  tokens.read(made);
  if (family == Family::Words && !tokens.unknown_id())
    not_read("a tokenizer of words whose \"unk_token\" is no token");
  add_ids(config, settings, find_frame(file), tokens, made);
  add_templates(folder, settings, made, diagnostics);
  constexpr std::array kNames = {"gpt2", "llama", "t5", "wordpiece"};  // by Family
  made.text("tokenizer.ggml.model", kNames.at(static_cast<size_t>(family)));
}

// The file of a folder's tokenizer; tokenizer.json where there is none.
std::string file_in(const std::string& folder) {
  std::error_code failed;
  const auto has = [&](const char* name) {
    return std::filesystem::exists(folder + "/" + name, failed);
  };
  return has(kWordList) && !has(kFile) ? kWordList : kFile;
}

// Reads the tokenizer of that file; false where there is none. Throws NotRead.
bool read_file(const std::string& folder, const std::string& name, const Config& config,
               MadeFile& made, Diagnostics& diagnostics) {
  const auto given = read_json_file(folder, "tokenizer_config.json", diagnostics);
  const JsonObject settings = given.value_or(JsonObject());
  std::optional<JsonObject> file;
  if (name.ends_with(".txt")) {
    const auto words = read_text_file(folder, name, diagnostics);
    if (words) file = tokenizer_of_words(*words, settings);
  } else {
    file = read_json_file(folder, name, diagnostics);
  }
  if (file) add_tokenizer(folder, *file, settings, config, made, diagnostics);
  return file.has_value();
}

}  // namespace

void read_tokenizer(const std::string& folder, const Config& config, MadeFile& made,
                    Diagnostics& diagnostics) {
  const std::string name = file_in(folder);
  try {
    read_file(folder, name, config, made, diagnostics);
  } catch (const NotRead& reason) {
    diagnostics.warning(DiagCode::BadField, {folder + "/" + name, ""},
                        reason.why + " is not read: the plan takes and gives ids alone");
  }
}

namespace {

using Section = std::optional<std::vector<std::byte>>;

constexpr const char* kWanted =
    "give a tokenizer.json as Hugging Face's tokenizers write it, a vocab.txt of BERT's, the "
    "folder "
    "of one, or a GGUF file";

Section section_of(const gguf::File& file, const std::string& path, int64_t context,
                   Diagnostics& diagnostics) {
  gguf::Keys keys(file, path, diagnostics);
  std::vector<std::byte> section =
      gguf::read_text(keys, file, {.vocabulary = kMaxTokens, .context = context});
  if (section.empty() && !diagnostics.has_errors())
    diagnostics.error(DiagCode::UnsupportedOp, {path, ""}, "it has no tokenizer that is read",
                      kWanted);
  if (diagnostics.has_errors()) return std::nullopt;
  return section;
}

Section section_of_file(const std::string& path, int64_t context, Diagnostics& diagnostics) {
  const std::string folder = folder_of(path);
  const std::string name = std::filesystem::path(path).filename().string();
  MadeFile made;
  try {
    if (!read_file(folder, name, Config(), made, diagnostics) && !diagnostics.has_errors())
      diagnostics.error(DiagCode::FileMissing, {path, ""}, "there is no such file", kWanted);
  } catch (const NotRead& reason) {
    diagnostics.error(DiagCode::UnsupportedOp, {path, ""}, reason.why + " is not read");
  }
  if (diagnostics.has_errors()) return std::nullopt;
  return section_of(made.file(), path, context, diagnostics);
}

}  // namespace

Section read_tokenizer_section(const std::string& path, int64_t context, Diagnostics& diagnostics) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed))
    return section_of_file(path + "/" + file_in(path), context, diagnostics);
  const FileResult mapped = map_file(path);
  if (const auto* fault = std::get_if<FileFault>(&mapped)) {
    diagnostics.error(fault->code, {path, ""}, fault->message, kWanted);
    return std::nullopt;
  }
  const auto& bytes = std::get<std::shared_ptr<const MappedFile>>(mapped)->bytes();
  if (!gguf::has_magic(bytes)) return section_of_file(path, context, diagnostics);
  const auto file = gguf::parse_file(bytes, path, diagnostics);
  return file ? section_of(*file, path, context, diagnostics) : std::nullopt;
}

}  // namespace rlx::checkpoint
