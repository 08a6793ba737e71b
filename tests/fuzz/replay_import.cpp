// SPDX-License-Identifier: Apache-2.0
// Runs the fuzz targets of the importer on every regression file, without a fuzzer: each was once a
// crash, a hang or a leak.
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "compiler/import/model_files.h"
#include "compiler/import/onnx/onnx_reader.h"
#include "tests/fuzz/import_targets.h"

using namespace rlx;

namespace {

// Under sanitizers, on a slow machine, with room to spare; what was a hang takes far longer.
constexpr double kMostSeconds = 10;

struct Count {
  size_t files = 0;
  size_t failed = 0;
};

void replay(const fuzz::Target& target, const std::filesystem::path& path, Count& count) {
  FileResult file = map_file(path.string());
  ++count.files;
  if (const auto* fault = std::get_if<FileFault>(&file)) {
    std::printf("FAILED: %s %s\n", path.c_str(), fault->message.c_str());
    ++count.failed;
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  try {
    fuzz::run_on_copy(target.run, std::get<std::shared_ptr<const MappedFile>>(file)->bytes());
  } catch (const std::exception& error) {
    std::printf("FAILED: %s: %s\n", path.c_str(), error.what());
    ++count.failed;
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  if (taken.count() <= kMostSeconds) return;
  std::printf("FAILED: %s took %.1f s\n", path.c_str(), taken.count());
  ++count.failed;
}

}  // namespace

// Arguments: the folder with one folder of files per format.
int main(int argc, char** argv) {
  const std::filesystem::path root = argc > 1 ? argv[1] : "tests/fuzz/regressions";
  Count count;
  for (const fuzz::Target& target : fuzz::all_targets()) {
    if (target.format == "onnx" && !can_read_onnx()) continue;
    if (!std::filesystem::is_directory(root / target.format)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(root / target.format))
      replay(target, entry.path(), count);
  }
  std::printf("%zu files, %zu failed\n", count.files, count.failed);
  return count.files > 0 && count.failed == 0 ? 0 : 1;
}
