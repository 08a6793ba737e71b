// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/model_parts.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "compiler/import/gguf/keys.h"
#include "compiler/import/model_files.h"
#include "compiler/import/names.h"
#include "compiler/import/source_graph.h"

namespace rlx::gguf {
namespace {

constexpr size_t kPartDigits = 5;

// What a file says of its place in the model.
struct Place {
  int64_t count = 1;
  int64_t number = 0;   // of this file
  int64_t tensors = 0;  // of all files
};

Place read_place(Keys& keys) {
  return {.count = keys.integer_in("split.count", 0, 99'999, 0),
          .number = keys.integer_in("split.no", 0, 99'999, 0),
          .tensors = keys.integer_in("split.tensors.count", 0, int64_t{kMaxNodes}, 0)};
}

std::string part_text(int64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(kPartDigits - std::min(kPartDigits, digits.size()), '0') + digits;
}

std::string part_suffix(int64_t number, int64_t count) {
  return "-" + part_text(number + 1) + "-of-" + part_text(count) + ".gguf";
}

class PartReader {
 public:
  PartReader(const File& first, const std::string& path, const HostBytes& bytes,
             Diagnostics& diagnostics)
      : path_(path), keys_(first, path, diagnostics), diagnostics_(diagnostics) {
    parts_.push_back({.path = path, .file = first, .bytes = bytes});
  }

  std::optional<std::vector<ModelPart>> read() {
    place_ = read_place(keys_);
    if (diagnostics_.has_errors()) return std::nullopt;
    if (place_.count < 2 && place_.number == 0) return std::move(parts_);
    if (!check_first()) return std::nullopt;
    for (int64_t number = 1; number < place_.count; ++number) {
      if (!add(number)) return std::nullopt;
    }
    if (!check_tensors()) return std::nullopt;
    return std::move(parts_);
  }

 private:
  bool check_first() {
    const std::string suffix = part_suffix(0, place_.count);
    if (place_.number == 0 && path_.ends_with(suffix)) return true;
    keys_.fail(DiagCode::FileFormat,
               "the file is part " + std::to_string(place_.number + 1) + " of " +
                   std::to_string(place_.count) + " of a model",
               "give the part whose name ends in " + suffix + "; the others lie beside it");
    return false;
  }

  bool check_tensors() {
    std::unordered_set<std::string_view> names;
    size_t tensors = 0;
    for (const ModelPart& part : parts_) {
      for (const Tensor& tensor : part.file.tensors) {
        ++tensors;
        if (names.insert(tensor.name).second) continue;
        keys_.fail(DiagCode::DuplicateName,
                   "tensor " + in_quotes(tensor.name) + " is in two files of the model");
        return false;
      }
    }
    if (tensors == static_cast<size_t>(place_.tensors)) return true;
    keys_.fail(DiagCode::FileFormat, "the model's " + std::to_string(place_.count) +
                                         " files have " + std::to_string(tensors) +
                                         " tensors, the first one says " +
                                         std::to_string(place_.tensors));
    return false;
  }

  bool add(int64_t number) {
    const size_t stem = path_.size() - part_suffix(0, place_.count).size();
    const std::string path = path_.substr(0, stem) + part_suffix(number, place_.count);
    FileResult file = map_file(path);
    if (const auto* fault = std::get_if<FileFault>(&file)) {
      diagnostics_.error(fault->code, {path, ""},
                         "part " + std::to_string(number + 1) + " of the model " + fault->message);
      return false;
    }
    auto mapped = std::get<std::shared_ptr<const MappedFile>>(std::move(file));
    auto parsed = parse_file(mapped->bytes(), path, diagnostics_);
    if (!parsed || !check_part(*parsed, path, number)) return false;
    const HostBytes bytes{.owner = mapped, .bytes = mapped->bytes()};
    parts_.push_back({.path = path, .file = std::move(*parsed), .bytes = bytes});
    return true;
  }

  bool check_part(const File& file, const std::string& path, int64_t number) {
    Keys keys(file, path, diagnostics_);
    const Place place = read_place(keys);
    if (place.number == number && place.count == place_.count) return !diagnostics_.has_errors();
    keys.fail(DiagCode::FileFormat,
              "the file says that it is part " + std::to_string(place.number + 1) + " of " +
                  std::to_string(place.count) + ", its name that it is " +
                  std::to_string(number + 1) + " of " + std::to_string(place_.count));
    return false;
  }

  const std::string& path_;
  Keys keys_;
  Diagnostics& diagnostics_;
  Place place_;
  std::vector<ModelPart> parts_;
};

}  // namespace

std::optional<File> parse_file(std::span<const std::byte> bytes, const std::string& path,
                               Diagnostics& diagnostics) {
  auto parsed = parse(bytes);
  if (auto* file = std::get_if<File>(&parsed)) return std::move(*file);
  const auto& fault = std::get<ParseFault>(parsed);
  diagnostics.error(fault.code, {path, ""}, "the GGUF file " + fault.message);
  return std::nullopt;
}

std::optional<std::vector<ModelPart>> read_parts(const File& first, const std::string& path,
                                                 const HostBytes& bytes, Diagnostics& diagnostics) {
  return PartReader(first, path, bytes, diagnostics).read();
}

}  // namespace rlx::gguf
