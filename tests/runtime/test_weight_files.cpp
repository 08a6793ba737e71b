// SPDX-License-Identifier: Apache-2.0
// Weights that stay in files beside the plan: where they are looked for, and what is refused.
#include <numeric>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/plan/plan_memory.h"
#include "runtime/plan/plan_view.h"
#include "schema/rounding.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"
#include "tests/support/temporary_folder.h"

using namespace rlx;
using namespace rlx::test;

namespace {

using Bytes = std::vector<std::byte>;

constexpr uint64_t kFileBytes = (uint64_t{3} << 20) / 2;  // more than is checked at every load
constexpr uint64_t kFileOffset = 1'200'004;
constexpr uint64_t kWeightBytes = 512;

Bytes model_file() {
  Bytes bytes(kFileBytes);
  uint32_t number = 1;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((number = number * 69069 + 1) >> 24);
  return bytes;
}

// The small plan, and behind its weights one that lies in weights/model.bin.
Bytes plan_with_file(const Bytes& file) {
  PlanSpec spec = small_plan();
  const uint64_t offset = round_up(spec.weights_bytes, kArenaAlignmentBytes);
  spec.weight_files.push_back({.name = "weights/model.bin",
                               .size_bytes = file.size(),
                               .checksum = XXH3_64bits(file.data(), file.size()),
                               .start_checksum = XXH3_64bits(file.data(), kWeightFileStartBytes)});
  spec.weights.push_back({.name = "elsewhere",
                          .dims = {kWeightBytes / 4},
                          .kind = fb::WeightKind::External,
                          .offset_bytes = offset,
                          .size_bytes = kWeightBytes,
                          .file_offset = kFileOffset});
  spec.weights_bytes = offset + kWeightBytes;
  return serialise(spec);
}

struct Opened {
  Status status;
  std::shared_ptr<const PlanView> view;
};

Opened open(const std::string& path, const PlanOptions& options = {}) {
  Opened opened;
  opened.status = PlanView::open_file(path, options, opened.view);
  return opened;
}

// Reads the weight that lies in the file, with what stands before it in the segment.
Status read_weight(const PlanView& view, Bytes& weight) {
  const uint64_t begin = view.header().weights_bytes - kWeightBytes;
  Bytes read(kWeightBytes + 100);
  const Status status = view.read_weights(begin - 100, read);
  weight.assign(read.begin() + 100, read.end());
  return status;
}

}  // namespace

TEST_CASE("weights in a file beside the plan are read from where they lie in it") {
  const TemporaryFolder folder;
  const Bytes file = model_file();
  folder.write("weights/model.bin", file);
  folder.write("m.plan", plan_with_file(file));
  const Opened opened = open(folder.path("m.plan"), {.check_weights = true});
  INFO(opened.status.message());
  REQUIRE(opened.status.ok());
  Bytes weight;
  REQUIRE(read_weight(*opened.view, weight).ok());
  CHECK(std::equal(weight.begin(), weight.end(), file.begin() + kFileOffset));
  const std::vector<ByteRange> ranges = stored_weight_ranges(*opened.view);
  CHECK(ranges.back().offset_bytes + ranges.back().size_bytes ==
        opened.view->header().weights_bytes);
}

TEST_CASE("a plan whose weights are elsewhere opens without them, and finds them by folder") {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  const Bytes file = model_file();
  folder.write("m.plan", plan_with_file(file));
  other.write("weights/model.bin", file);
  Bytes weight;
  const Opened without = open(folder.path("m.plan"));
  REQUIRE(without.status.ok());
  const Status missing = read_weight(*without.view, weight);
  CHECK(missing.code() == RLX_IO_ERROR);
  CHECK(missing.message().find("weights/model.bin") != std::string::npos);
  CHECK(missing.message().find("--weights-folder") != std::string::npos);
  const Opened with = open(folder.path("m.plan"), {.weights_folder = other.path()});
  REQUIRE(with.status.ok());
  CHECK(read_weight(*with.view, weight).ok());

  const Bytes plan = plan_with_file(file);
  std::shared_ptr<const PlanView> view;
  REQUIRE(PlanView::open_memory(plan, {}, view).ok());
  CHECK(read_weight(*view, weight).code() == RLX_INVALID_STATE);
  REQUIRE(PlanView::open_memory(plan, {.weights_folder = other.path()}, view).ok());
  CHECK(read_weight(*view, weight).ok());
}

TEST_CASE("a file that is not the one the plan was compiled from is refused") {
  const TemporaryFolder folder;
  Bytes file = model_file();
  folder.write("m.plan", plan_with_file(file));
  Bytes weight;
  Bytes longer = file;
  longer.push_back(std::byte{0});
  folder.write("weights/model.bin", longer);
  CHECK(read_weight(*open(folder.path("m.plan")).view, weight).code() == RLX_INVALID_PLAN);
  file[17] ^= std::byte{1};
  folder.write("weights/model.bin", file);
  CHECK(read_weight(*open(folder.path("m.plan")).view, weight).code() == RLX_INVALID_PLAN);
  // Behind what every load checks.
  file[17] ^= std::byte{1};
  file.back() ^= std::byte{1};
  folder.write("weights/model.bin", file);
  CHECK(read_weight(*open(folder.path("m.plan")).view, weight).ok());
  CHECK(open(folder.path("m.plan"), {.check_weights = true}).status.code() == RLX_INVALID_PLAN);
}

TEST_CASE("names of weight files stay in their folder") {
  for (const char* good : {"m.gguf", "a/b.bin", "..a", "a..b/c"}) CHECK(is_weight_file_name(good));
  for (const char* bad : {"", "/m", "m/", "a//b", ".", "..", "../m", "a/../b", "a/./b"})
    CHECK_FALSE(is_weight_file_name(bad));
}
