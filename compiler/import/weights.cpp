// SPDX-License-Identifier: Apache-2.0
// The data of params, constants and states.
#include "compiler/import/weights.h"

#include <algorithm>
#include <cmath>

#include "compiler/import/names.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

// Bool bytes are 0 or 1 in memory; any other non-zero byte of a file counts as 1.
HostBytes normalised(HostBytes data, DType dtype) {
  const auto is_wide = [](std::byte b) { return b > std::byte{1}; };
  if (dtype != DType::bool_ || std::none_of(data.bytes.begin(), data.bytes.end(), is_wide))
    return data;
  auto bytes = std::make_shared<std::vector<std::byte>>(data.bytes.begin(), data.bytes.end());
  for (std::byte& b : *bytes) b = b == std::byte{0} ? b : std::byte{1};
  const std::span<const std::byte> view(*bytes);
  return {std::move(bytes), view};
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

bool is_same_shape(const std::vector<uint64_t>& written, const Shape& wanted) {
  return std::equal(written.begin(), written.end(), wanted.begin(), wanted.end(),
                    [](uint64_t a, int64_t b) { return a == static_cast<uint64_t>(b); });
}

}  // namespace

std::optional<std::string> type_fault(const TensorType& type) {
  if (type.shape.size() > kMaxRank) {
    return "has rank " + std::to_string(type.shape.size()) + ", at most " +
           std::to_string(kMaxRank) + " is allowed";
  }
  const uint32_t block = block_elements(type.dtype);
  if (block > 1 && (type.shape.empty() || !type.shape.back().divides_by(block))) {
    return "is " + to_string(type) + ", its last dim must hold whole blocks of " +
           std::to_string(block) + " elements";
  }
  uint64_t bytes = block_bytes(type.dtype);
  for (const Dim& dim : type.shape) {
    // Of a free one at the largest sizes: the range that its expression shows may be too wide, and
    // what is negative at a binding is refused there.
    const DimRange range = dim.range();
    if (dim < 0 || range.most > kMaxDim)
      return "has dim " + to_string(dim) + ", wanted 0 to 2^40 - 1";
    const auto product =
        checked_mul(bytes, static_cast<uint64_t>(std::max<int64_t>(range.most, 1)));
    if (!product || *product > kMaxTensorBytes)
      return "is " + to_string(type) + ", more than 2^48 bytes";
    bytes = *product;
  }
  return std::nullopt;
}

std::optional<WeightData> WeightReader::read(const SourceTensor& tensor, const TensorType& type,
                                             const std::string& what) {
  const Request request{tensor, type, what};
  std::optional<WeightData> result =
      std::visit([&](const auto& written) { return data(request, written); }, *tensor.data);
  if (!result) return std::nullopt;
  if (auto* bytes = std::get_if<HostBytes>(&*result))
    *bytes = normalised(std::move(*bytes), type.dtype);
  return result;
}

void WeightReader::finish() {
  for (const auto& [path, use] : raw_uses_) {
    if (!use.is_alone_at_zero || use.end_bytes == use.file_bytes) continue;
    diagnostics_.error(DiagCode::FileSize, use.place,
                       "data of " + use.what + ": raw file " + in_quotes(path) + " has " +
                           std::to_string(use.file_bytes) + " bytes, the tensor takes " +
                           std::to_string(use.end_bytes));
  }
}

std::vector<ModelFile> WeightReader::files() const {
  std::vector<ModelFile> files;
  for (const auto& [path, file] : files_) {
    const auto* open_file = std::get_if<OpenFile>(&file);
    if (open_file == nullptr) continue;
    files.push_back({.name = path, .owner = open_file->file, .bytes = open_file->file->bytes()});
  }
  for (const auto& [path, file] : mapped_)
    files.push_back({.name = path, .owner = file.owner, .bytes = file.bytes});
  return files;
}

std::optional<WeightData> WeightReader::data(const Request& request, const HostBytes& bytes) {
  const uint64_t wanted = byte_size(request.type);
  if (bytes.bytes.size() == wanted) return bytes;
  return fail(request, DiagCode::FileSize,
              "the inline data has " + std::to_string(bytes.bytes.size()) + " bytes, " +
                  to_string(request.type) + " wants " + std::to_string(wanted));
}

std::optional<WeightData> WeightReader::data(const Request& request, const NpyFile& file) {
  const OpenFile* open_file = open(request, file.path);
  if (open_file == nullptr) return std::nullopt;
  const auto parsed = parse_npy(open_file->file->bytes());
  if (const auto* fault = std::get_if<ParseFault>(&parsed)) {
    return fail(request, fault->code, "file " + in_quotes(file.path) + " " + fault->message);
  }
  const NpyView& view = std::get<NpyView>(parsed);
  if (view.type != request.type) {
    return fail(request,
                view.type.dtype != request.type.dtype ? DiagCode::BadDtype : DiagCode::BadShape,
                "file " + in_quotes(file.path) + " holds " + to_string(view.type) +
                    ", the graph wants " + to_string(request.type),
                view.type.dtype != request.type.dtype && request.type.dtype == DType::bf16
                    ? "NumPy has no bf16: use .safetensors or raw data"
                    : "");
  }
  return npy_bytes(view, open_file->file);
}

std::optional<WeightData> WeightReader::data(const Request& request, const SafetensorsFile& file) {
  const SafetensorsView* tensors = tensors_of(request, file.path);
  if (tensors == nullptr) return std::nullopt;
  const auto found = tensors->find(file.tensor);
  if (found == tensors->end()) {
    std::vector<std::string_view> names;
    for (const auto& [name, tensor] : *tensors) names.push_back(name);
    const std::string near = nearest_hint(file.tensor, names);
    return fail(request, DiagCode::FileFormat,
                "file " + in_quotes(file.path) + " has no tensor " + in_quotes(file.tensor),
                near.empty() ? "its tensors are " + list_names(names) : near);
  }
  const SafetensorsTensor& tensor = found->second;
  const bool is_dtype = tensor.dtype == request.type.dtype;
  if (!is_dtype || !is_same_shape(tensor.shape, request.type.shape)) {
    return fail(request, is_dtype ? DiagCode::BadShape : DiagCode::BadDtype,
                "tensor " + in_quotes(file.tensor) + " of file " + in_quotes(file.path) + " is " +
                    in_quotes(tensor.dtype_text) + shape_text(tensor.shape) + ", the graph wants " +
                    to_string(request.type));
  }
  return HostBytes{.owner = std::get<OpenFile>(files_.at(file.path)).file, .bytes = tensor.bytes};
}

std::optional<WeightData> WeightReader::data(const Request& request, const RawFile& file) {
  if (file.mapped) {
    if (!file.file.empty()) {
      mapped_.insert_or_assign(file.path,
                               HostBytes{.owner = file.mapped->owner, .bytes = file.file});
    }
    return data(request, *file.mapped);
  }
  const OpenFile* open_file = open(request, file.path);
  if (open_file == nullptr) return std::nullopt;
  const auto bytes = open_file->file->bytes();
  const uint64_t wanted = byte_size(request.type);
  if (!range_fits(file.offset_bytes, wanted, bytes.size())) {
    return fail(request, DiagCode::FileSize,
                "raw file " + in_quotes(file.path) + " has " + std::to_string(bytes.size()) +
                    " bytes, " + to_string(request.type) + " wants " + std::to_string(wanted) +
                    " from byte " + std::to_string(file.offset_bytes));
  }
  const auto [use, is_first] =
      raw_uses_.try_emplace(file.path, RawUse{.place = request.tensor.place,
                                              .what = request.what,
                                              .end_bytes = wanted,
                                              .file_bytes = bytes.size(),
                                              .is_alone_at_zero = file.offset_bytes == 0});
  if (!is_first) use->second.is_alone_at_zero = false;
  return HostBytes{.owner = open_file->file, .bytes = bytes.subspan(file.offset_bytes, wanted)};
}

std::optional<WeightData> WeightReader::data(const Request& request, const SplatData& splat) {
  const DType dtype = request.type.dtype;
  bool is_held = is_float(dtype) &&
                 (!std::isfinite(splat.value) || std::isfinite(round_to(dtype, splat.value)));
  if (is_integer(dtype) || dtype == DType::bool_) {
    const IntegerRange range = integer_range(dtype);
    // -2^63 is exact in f64 and 2^63 is the first value above i64.
    is_held = splat.value == std::trunc(splat.value) &&
              splat.value >= static_cast<double>(range.lowest) && splat.value < 0x1p63 &&
              static_cast<int64_t>(splat.value) <= range.highest;
  }
  if (is_held) return splat;
  return fail(
      request, DiagCode::BadDtype,
      "splat " + std::to_string(splat.value) + " is no value of " + std::string(name_of(dtype)));
}

std::optional<WeightData> WeightReader::data(const Request& request, const RandomData& random) {
  const bool is_normal = random.distribution == RandomData::Distribution::Normal;
  if (!is_float(request.type.dtype)) {
    return fail(request, DiagCode::BadDtype,
                "random data is for f32, f16, bf16 and f64, not for " +
                    std::string(name_of(request.type.dtype)));
  }
  const bool is_range = std::isfinite(random.a) && std::isfinite(random.b) &&
                        (is_normal ? random.b >= 0 : random.b >= random.a);
  if (is_range) return random;
  return fail(request, DiagCode::BadField,
              is_normal ? "random data wants a finite mean and a finite std >= 0"
                        : "random data wants finite low <= high");
}

WeightReader::OpenFile* WeightReader::open(const Request& request, const std::string& path) {
  auto found = files_.find(path);
  if (found == files_.end()) {
    FileResult result = folder_.map(path);
    if (auto* fault = std::get_if<FileFault>(&result)) {
      found = files_.emplace(path, std::move(*fault)).first;
    } else {
      found = files_.emplace(path, OpenFile{std::get<0>(std::move(result)), std::nullopt}).first;
    }
  }
  if (auto* file = std::get_if<OpenFile>(&found->second)) return file;
  const FileFault& fault = std::get<FileFault>(found->second);
  fail(request, fault.code, "file " + in_quotes(path) + " " + fault.message,
       fault.code == DiagCode::FileOutside
           ? "weights are plain files inside the folder of the graph file"
           : "");
  return nullptr;
}

const SafetensorsView* WeightReader::tensors_of(const Request& request, const std::string& path) {
  OpenFile* file = open(request, path);
  if (file == nullptr) return nullptr;
  if (file->tensors) return &*file->tensors;
  auto bad = bad_safetensors_.find(path);
  if (bad == bad_safetensors_.end()) {
    auto parsed = parse_safetensors(file->file->bytes());
    if (auto* view = std::get_if<SafetensorsView>(&parsed))
      return &file->tensors.emplace(std::move(*view));
    bad = bad_safetensors_.emplace(path, std::get<ParseFault>(std::move(parsed))).first;
  }
  fail(request, bad->second.code, "file " + in_quotes(path) + " " + bad->second.message);
  return nullptr;
}

std::nullopt_t WeightReader::fail(const Request& request, DiagCode code, const std::string& message,
                                  std::string hint) {
  diagnostics_.error(code, request.tensor.place, "data of " + request.what + ": " + message,
                     std::move(hint));
  return std::nullopt;
}

}  // namespace rlx
