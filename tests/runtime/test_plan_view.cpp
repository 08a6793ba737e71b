// SPDX-License-Identifier: Apache-2.0
// Opening of plans from files and memory.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "runtime/plan/plan_view.h"
#include "schema/rounding.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"
#include "tests/support/temporary_folder.h"

using rlx::PlanView;
using rlx::Status;
using namespace rlx::test;

namespace {

using Bytes = std::vector<std::byte>;

void write_file(const std::string& path, const Bytes& bytes) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

TEST_CASE("sections_in_the_holes_of_a_sparse_file_are_not_read") {
  const TemporaryFolder folder;
  const std::string path = folder.path("sparse.plan");
  Bytes plan = serialise(small_plan());
  rlx::PlanHeader header = header_of(plan);
  // Debug notes of 512 MiB behind all else, where the file has nothing.
  constexpr uint64_t kHoleBytes = uint64_t{512} << 20;
  for (rlx::PlanSection& section : header.sections) {
    if (section.kind != static_cast<uint32_t>(rlx::SectionKind::Debug)) continue;
    section.offset_bytes = rlx::round_up(plan.size(), size_t{8});
    section.size_bytes = kHoleBytes;
    header.file_bytes = section.offset_bytes + section.size_bytes;
  }
  set_header(plan, header);
  reseal(plan);
  write_file(path, plan);
  REQUIRE(::truncate(path.c_str(), static_cast<off_t>(header.file_bytes)) == 0);
  std::shared_ptr<const PlanView> view;
  const Status status = PlanView::open_file(path, {}, view);
  CHECK(status.code() == RLX_INVALID_PLAN);
  CHECK(status.message().find("sparse") != std::string::npos);
}

TEST_CASE("a_preflight_refuses_segments_whose_sum_wraps") {
  Bytes plan = serialise(small_plan());
  rlx::PlanHeader header = header_of(plan);
  header.weights_bytes = header.state_bytes = uint64_t{1} << 63;
  set_header(plan, header);
  reseal(plan);
  const Status status = PlanView::open_header(std::span(plan).first(4096), header);
  CHECK(status.code() == RLX_INVALID_PLAN);
  CHECK(status.message().find("V3.10") != std::string::npos);
}

TEST_CASE("a_file_and_its_bytes_open_alike") {
  const TemporaryFolder folder;
  const Bytes plan = serialise(small_plan());
  write_file(folder.path("a.plan"), plan);
  std::shared_ptr<const PlanView> from_file;
  std::shared_ptr<const PlanView> from_memory;
  REQUIRE(PlanView::open_file(folder.path("a.plan"), {}, from_file).ok());
  REQUIRE(PlanView::open_memory(plan, {}, from_memory).ok());
  CHECK(from_file->identity() == from_memory->identity());
  for (const auto& view : {from_file, from_memory}) {
    CHECK(view->name() == "fixture");
    CHECK(view->entry_count() == 2);
    CHECK(view->describe_step(view->entry(0), 1) == "step 1 (region, node \"main.node1\")");
    float numbers[2] = {};
    REQUIRE(view->read_weights(4, std::as_writable_bytes(std::span(numbers))).ok());
    CHECK(numbers[0] == 1);
    CHECK(numbers[1] == 2);
    CHECK_FALSE(view->read_weights(508, std::as_writable_bytes(std::span(numbers))).ok());
  }
}

TEST_CASE("a_copied_plan_needs_its_source_no_more") {
  Bytes plan = serialise(small_plan());
  std::shared_ptr<const PlanView> view;
  REQUIRE(PlanView::open_memory(plan, {.copy_memory = true}, view).ok());
  std::fill(plan.begin(), plan.end(), std::byte{0});
  float number = 0;
  REQUIRE(view->read_weights(4, std::as_writable_bytes(std::span(&number, 1))).ok());
  CHECK(number == 1);
}

TEST_CASE("metadata_is_copied_before_it_is_verified") {
  Bytes plan = serialise(small_plan());
  std::shared_ptr<const PlanView> view;
  REQUIRE(PlanView::open_memory(plan, {}, view).ok());
  std::fill(plan.begin(), plan.end(), std::byte{0xFF});
  CHECK(view->name() == "fixture");
  CHECK(PlanView::steps(view->entry(0)).size() == 6);
}

TEST_CASE("unaligned_memory_opens") {
  const Bytes plan = serialise(small_plan());
  Bytes shifted(plan.size() + 1);
  std::memcpy(shifted.data() + 1, plan.data(), plan.size());
  std::shared_ptr<const PlanView> view;
  CHECK(PlanView::open_memory(std::span(shifted).subspan(1), {}, view).ok());
}

TEST_CASE("files_that_are_no_plans_are_refused_by_name") {
  const TemporaryFolder folder;
  write_file(folder.path("empty"), {});
  write_file(folder.path("short"), Bytes(100));
  REQUIRE(mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  std::shared_ptr<const PlanView> view;
  const auto refusal = [&](const std::string& name) {
    return PlanView::open_file(folder.path(name), {}, view);
  };
  CHECK(refusal("missing").code() == RLX_IO_ERROR);
  CHECK(refusal("missing").message().find("No such file") != std::string::npos);
  CHECK(refusal(".").code() == RLX_IO_ERROR);
  CHECK(refusal(".").message().find("it is a directory") != std::string::npos);
  CHECK(refusal("pipe").code() == RLX_IO_ERROR);
  CHECK(refusal("empty").code() == RLX_INVALID_PLAN);
  CHECK(refusal("short").code() == RLX_INVALID_PLAN);
  CHECK(refusal("short").message().find("this is no plan") != std::string::npos);
  CHECK(view == nullptr);
}

TEST_CASE("a_newer_major_is_refused_with_both_versions") {
  PlanSpec spec = small_plan();
  spec.edit_header = [](rlx::PlanHeader& header) {
    header.major = 9;
    header.minor = 0;
  };
  std::shared_ptr<const PlanView> view;
  const Bytes plan = serialise(spec);
  const Status status = PlanView::open_memory(plan, {}, view);
  CHECK(status.code() == RLX_UNSUPPORTED_VERSION);
  CHECK(status.message().find("9.0") != std::string::npos);
  const std::string ours = std::to_string(rlx::kPlanMajor) + "." + std::to_string(rlx::kPlanMinor);
  CHECK(status.message().find("reads " + ours) != std::string::npos);
}

TEST_CASE("a_file_shortened_while_open_is_an_error") {
  const TemporaryFolder folder;
  const Bytes plan = serialise(small_plan());
  write_file(folder.path("a.plan"), plan);
  std::shared_ptr<const PlanView> view;
  REQUIRE(PlanView::open_file(folder.path("a.plan"), {}, view).ok());
  REQUIRE(truncate(folder.path("a.plan").c_str(), 5000) == 0);
  float number = 0;
  const Status status = view->read_weights(0, std::as_writable_bytes(std::span(&number, 1)));
  CHECK(status.code() == RLX_IO_ERROR);
  CHECK(status.message().find("was shortened") != std::string::npos);
}

TEST_CASE("opening_a_long_plan_prints_its_cost") {
  const Bytes plan = serialise(chain_plan(10000));
  std::shared_ptr<const PlanView> view;
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    REQUIRE(PlanView::open_memory(plan, {}, view).ok());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  std::printf("open and verify: %.3f ms per 1,000 steps\n", best / 10);
}

TEST_CASE("opening_does_not_read_the_weights") {
  // A gigabyte of weights, most of it a hole in the file.
  constexpr uint64_t kWeightBytes = uint64_t{1} << 30;
  PlanSpec spec = small_plan();
  uint64_t file_bytes = 0;
  spec.edit_header = [&](rlx::PlanHeader& header) {
    rlx::PlanSection& weights = header.sections[header.section_count - 1];
    weights.size_bytes = kWeightBytes;
    header.weights_bytes = kWeightBytes;
    header.file_bytes = weights.offset_bytes + kWeightBytes;
    file_bytes = header.file_bytes;
  };
  const TemporaryFolder folder;
  write_file(folder.path("large.plan"), serialise(spec));
  if (truncate(folder.path("large.plan").c_str(), static_cast<off_t>(file_bytes)) != 0) {
    std::printf("SKIPPED: no room for a sparse file of a gigabyte\n");
    return;
  }
  std::shared_ptr<const PlanView> view;
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(PlanView::open_file(folder.path("large.plan"), {}, view).ok());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  CHECK(view->weights_section_bytes() == kWeightBytes);
  std::printf("open and verify of a plan with 1 GiB of weights: %.3f ms\n", took.count());
}
