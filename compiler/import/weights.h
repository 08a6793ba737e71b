// SPDX-License-Identifier: Apache-2.0
// The data of params, constants and states: inline bytes, weight files, generated values.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "compiler/import/model_files.h"
#include "compiler/import/npy.h"
#include "compiler/import/safetensors.h"
#include "compiler/import/source_graph.h"

namespace rlx {

// Checks a shape against the limits: rank, dims, whole blocks, bytes below 2^48 (zero dims counted
// as 1, so that products of dims never wrap). Returns the end of a sentence about the tensor.
std::optional<std::string> type_fault(const TensorType& type);

// Reads the data of many tensors; each file is opened and checked once.
class WeightReader {
 public:
  WeightReader(const std::string& folder, Diagnostics& diagnostics)
      : folder_(folder), diagnostics_(diagnostics) {}

  // Bytes of exactly byte_size(type), or a generator. `what` names the tensor in messages.
  // Precondition: type_fault(type) is nullopt and tensor.data is present. nullopt after an error.
  std::optional<WeightData> read(const SourceTensor& tensor, const TensorType& type,
                                 const std::string& what);
  // Reports raw files that are longer than the one tensor that is read from them.
  void finish();
  // The files that were read, by name.
  [[nodiscard]] std::vector<ModelFile> files() const;

 private:
  struct OpenFile {
    std::shared_ptr<const MappedFile> file;
    std::optional<SafetensorsView> tensors;  // once it was read as one
  };
  struct RawUse {
    SourcePlace place;
    std::string what;
    uint64_t end_bytes = 0;
    uint64_t file_bytes = 0;
    bool is_alone_at_zero = false;  // the file holds just this tensor, as far as the graph tells
  };
  // What is read, for messages and checks.
  struct Request {
    const SourceTensor& tensor;
    const TensorType& type;
    const std::string& what;
  };

  std::optional<WeightData> data(const Request& request, const HostBytes& bytes);
  std::optional<WeightData> data(const Request& request, const NpyFile& file);
  std::optional<WeightData> data(const Request& request, const SafetensorsFile& file);
  std::optional<WeightData> data(const Request& request, const RawFile& file);
  std::optional<WeightData> data(const Request& request, const SplatData& splat);
  std::optional<WeightData> data(const Request& request, const RandomData& random);

  OpenFile* open(const Request& request, const std::string& path);
  const SafetensorsView* tensors_of(const Request& request, const std::string& path);
  std::nullopt_t fail(const Request& request, DiagCode code, const std::string& message,
                      std::string hint = {});

  ModelFolder folder_;
  Diagnostics& diagnostics_;
  std::map<std::string, std::variant<OpenFile, FileFault>> files_;
  std::map<std::string, HostBytes> mapped_;  // files that a reader has open
  std::map<std::string, ParseFault> bad_safetensors_;
  std::map<std::string, RawUse> raw_uses_;
};

}  // namespace rlx
