// SPDX-License-Identifier: Apache-2.0
// Laws of the tuner, on the null device: what it writes, what it leaves, what it refuses.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/include/rlx.h"
#include "runtime/null/null_device.h"
#include "tests/support/catch.h"
#include "tests/support/free_plans.h"
#include "tests/support/plan_fixture.h"
#include "tools/plan_file/plan_file.h"
#include "tools/tune/tune.h"

namespace rlx::test {
namespace {

// A folder that goes with the test.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() / ("rlx-tune-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string write(const std::string& name, const PlanSpec& spec) const {
    const std::string path = (path_ / name).string();
    const std::vector<std::byte> plan = serialise(spec);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(plan.data()),
               static_cast<std::streamsize>(plan.size()));
    return path;
  }
  [[nodiscard]] std::string at(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] size_t file_count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                             std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

std::shared_ptr<const PlanView> open(const std::string& path) {
  std::shared_ptr<const PlanView> view;
  const Status status = PlanView::open_file(path, {.check_weights = true}, view);
  INFO(status.message());
  REQUIRE(status.ok());
  return view;
}

// As `rlxc tune` does it, on the null device.
Status tune_to(const std::string& from, const std::string& to, const tune::TuneOptions& options,
               tune::TuneReport& report) {
  std::vector<std::byte> index;
  RLX_RETURN_IF_ERROR(tune::tune_file(from, "null", options, index, report));
  return write_with_index(from, index, to);
}

std::shared_ptr<const PlanView> view_of(const PlanSpec& spec) {
  std::shared_ptr<const PlanView> view;
  REQUIRE(PlanView::open_memory(serialise(spec), {.copy_memory = true}, view).ok());
  return view;
}

const fb::LibraryGemm& gemm_of(const PlanView& plan, uint32_t gemm = 0) {
  return *plan.entry(0, fb::TargetKind::Cuda).gemms()->Get(gemm);
}

fb::StepKind kind_of_step(const PlanView& plan) {
  return PlanView::steps(plan.entry(0, fb::TargetKind::Cuda))[0].kind();
}

// The library's product, or a copy of the residual that stands for a dispatch of our own: it needs
// no code, but the accesses of a product.
PlanSpec spec_with_alternative() {
  PlanSpec spec = gemm_plan();
  SpecEntry& main = spec.entries[0];
  fb::LibraryGemmT frugal = main.gemms[0];
  frugal.workspace_bytes = 0;
  main.gemms.push_back(frugal);
  SpecStep other = main.steps[0];
  other.kernel = 1;
  other.relocations.pop_back();
  main.alternatives.push_back({.step = 0, .other = std::move(other)});
  return spec;
}

}  // namespace

TEST_CASE("tuning_leaves_free_sizes_as_they_are") {
  const Folder folder;
  const std::string plan = folder.write("free.plan", free_gemm_plan());
  tune::TuneReport report;
  const Status status = tune_to(plan, folder.at("tuned.plan"), {}, report);
  INFO(status.message());
  REQUIRE(status.ok());
  const std::shared_ptr<const PlanView> tuned = open(folder.at("tuned.plan"));
  const std::vector<uint64_t> rows = {5};
  std::shared_ptr<const PlanView> bound;
  REQUIRE(PlanView::bind(*tuned, tuned->records(), rows, bound).ok());
  CHECK(bound->entry(0).gemms()->Get(0)->m() == 5);
  CHECK(bound->entry(0).gemms()->Get(0)->algorithm()->size() == 64);
}

TEST_CASE("the_fastest_algorithm_is_written_with_what_it_was_measured_on") {
  const Folder folder;
  const std::string path = folder.write("plan", gemm_plan());
  tune::TuneReport report;
  const Status status = tune_to(path, folder.at("tuned"), {}, report);
  INFO(status.message());
  REQUIRE(status.ok());
  const auto tuned = open(folder.at("tuned"));
  const fb::LibraryGemm& gemm = gemm_of(*tuned);
  REQUIRE(gemm.algorithm()->size() == 64);
  CHECK(gemm.algorithm()->Get(0) == 3);  // the last that the library suggests
  CHECK(gemm.tuned_microseconds() == 10);
  CHECK(PlanView::text(gemm.tuned_device()) == "null device");
  CHECK(PlanView::text(gemm.tuned_library()) == "null library 1");
  CHECK(gemm_of(*open(path)).algorithm() == nullptr);
  REQUIRE(report.gemms.size() == 1);
  CHECK(report.gemms[0].first_microseconds == 30);
  CHECK(report.gemms[0].candidates == 3);
  CHECK(folder.file_count() == 2);
}

TEST_CASE("a_plan_can_be_tuned_in_its_own_place_again_and_again") {
  const Folder folder;
  const std::string path = folder.write("plan", gemm_plan());
  tune::TuneReport report;
  REQUIRE(tune_to(path, path, {.candidates = 1}, report).ok());
  CHECK(gemm_of(*open(path)).tuned_microseconds() == 30);
  REQUIRE(tune_to(path, path, {}, report).ok());
  CHECK(gemm_of(*open(path)).tuned_microseconds() == 10);
  CHECK(folder.file_count() == 1);
}

TEST_CASE("a_tuned_plan_goes_through_links_and_never_over_a_device") {
  const Folder folder;
  const std::string path = folder.write("plan", gemm_plan());
  std::filesystem::create_symlink("plan", folder.at("link"));
  tune::TuneReport report;
  REQUIRE(tune_to(folder.at("link"), folder.at("link"), {}, report).ok());
  CHECK(std::filesystem::is_symlink(folder.at("link")));
  CHECK(gemm_of(*open(path)).tuned_microseconds() == 10);
  REQUIRE(tune_to(path, "/dev/null", {}, report).ok());
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK(tune_to(path, "/dev/full", {}, report).code() == RLX_IO_ERROR);
  CHECK(folder.file_count() == 2);
}

TEST_CASE("everything_but_the_index_keeps_its_bytes") {
  const Folder folder;
  PlanSpec spec = small_plan();
  const std::string path = folder.write("plan", spec);
  const auto before = open(path);
  flatbuffers::FlatBufferBuilder builder;
  fb::PlanT index;
  before->index().UnPackTo(&index);
  index.producer = std::string(4000, 'p');  // the index grows
  fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, &index));
  REQUIRE(write_with_index(
              path, std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())), path)
              .ok());
  const auto after = open(path);
  CHECK(PlanView::text(after->index().producer()).size() == 4000);
  REQUIRE(after->weights_section_bytes() == before->weights_section_bytes());
  std::vector<std::byte> weights(after->weights_section_bytes());
  std::vector<std::byte> old_weights(weights.size());
  REQUIRE(after->read_weights(0, weights).ok());
  REQUIRE(before->read_weights(0, old_weights).ok());
  CHECK(weights == old_weights);
  CHECK(after->step_names(after->entry(0), 0).node == before->step_names(before->entry(0), 0).node);
}

TEST_CASE("an_index_that_does_not_verify_is_never_written") {
  const Folder folder;
  const std::string path = folder.write("plan", gemm_plan());
  const auto before = open(path);
  fb::PlanT index;
  before->index().UnPackTo(&index);
  index.entries[0]->gemms[0]->k = 0;
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, &index));
  const std::span<const std::byte> bytes =
      std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  CHECK(write_with_index(path, bytes, path).code() == RLX_INVALID_PLAN);
  CHECK(gemm_of(*open(path)).k() == 8);
  CHECK(folder.file_count() == 1);
}

TEST_CASE("the_faster_of_two_ways_takes_the_step") {
  const auto plan = view_of(spec_with_alternative());
  const auto control = std::make_shared<NullControl>();
  const auto device = open_null_device(control);
  std::vector<std::byte> index;
  tune::TuneReport report;
  // Both ways are library products here, so both take the same: the plan's own stays.
  control->gemm_microseconds = 20;
  REQUIRE(tune::tune(plan, *device, {.runs = 3}, index, report).ok());
  std::shared_ptr<const PlanView> tuned;
  REQUIRE(PlanView::with_index(plan, index, tuned).ok());
  CHECK(PlanView::steps(tuned->entry(0, fb::TargetKind::Cuda))[0].kernel() == 0);
  REQUIRE(report.alternatives.size() == 1);
  CHECK_FALSE(report.alternatives[0].own_is_faster);
  const fb::Alternative& kept = *tuned->entry(0, fb::TargetKind::Cuda).alternatives()->Get(0);
  CHECK(kept.step_microseconds() == 20);
  CHECK(kept.other_microseconds() == 20);
  CHECK(kind_of_step(*tuned) == fb::StepKind::LibraryGemm);
}

TEST_CASE("a_plan_without_library_products_is_told_so") {
  const auto device = open_null_device();
  std::vector<std::byte> index;
  tune::TuneReport report;
  const Status status = tune::tune(view_of(small_plan()), *device, {}, index, report);
  CHECK(status.code() == RLX_INVALID_ARGUMENT);
  CHECK(status.message().find("nothing to tune") != std::string::npos);
}

TEST_CASE("sessions_can_insist_on_tuned_products") {
  const Folder folder;
  const std::string path = folder.write("plan", gemm_plan());
  const auto create = [&] {
    rlx_plan* plan = nullptr;
    rlx_device* device = nullptr;
    rlx_session* session = nullptr;
    REQUIRE(rlx_plan_open_file(path.c_str(), nullptr, &plan) == RLX_OK);
    REQUIRE(rlx_device_open("null", &device) == RLX_OK);
    rlx_session_options options = RLX_INIT(rlx_session_options);
    options.require_tuned = 1;
    const rlx_status status = rlx_session_create(plan, device, &options, &session);
    const std::string message = rlx_last_error();
    rlx_session_close(session);
    rlx_plan_close(plan);
    rlx_device_close(device);
    return std::pair(status, message);
  };
  const auto [refused, message] = create();
  CHECK(refused == RLX_UNSUITABLE_DEVICE);
  CHECK(message.find("step 0") != std::string::npos);
  CHECK(message.find("rlxc tune") != std::string::npos);
  tune::TuneReport report;
  REQUIRE(tune_to(path, path, {}, report).ok());
  CHECK(create().first == RLX_OK);
}

TEST_CASE("sessions_can_insist_on_kernels_that_were_chosen_on_their_device") {
  PlanSpec spec = small_plan();
  const auto create = [&](const std::string& device_name, const std::string& driver) {
    spec.entries[0].tuned_device = device_name;
    spec.entries[0].tuned_driver = driver;
    const std::vector<std::byte> bytes = serialise(spec);
    rlx_plan* plan = nullptr;
    rlx_device* device = nullptr;
    rlx_session* session = nullptr;
    REQUIRE(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &plan) == RLX_OK);
    REQUIRE(rlx_device_open("null", &device) == RLX_OK);
    rlx_session_options options = RLX_INIT(rlx_session_options);
    options.require_tuned = 1;
    const rlx_status status = rlx_session_create(plan, device, &options, &session);
    rlx_session_close(session);
    rlx_plan_close(plan);
    rlx_device_close(device);
    return status;
  };
  const DeviceInfo null = open_null_device()->info();
  CHECK(create("", "") == RLX_OK);
  CHECK(create(null.name, null.driver) == RLX_OK);
  CHECK(create("NVIDIA H200", null.driver) == RLX_UNSUITABLE_DEVICE);
  CHECK(create(null.name, "another") == RLX_UNSUITABLE_DEVICE);
}

}  // namespace rlx::test
