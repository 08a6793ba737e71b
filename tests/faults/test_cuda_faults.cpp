// SPDX-License-Identifier: Apache-2.0
// Every call of the CUDA driver and of cuBLASLt fails once in every way that it may, and the device
// is lost at each: on a fake driver, or on the real one (README.md).
#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/api/session.h"
#include "runtime/cuda/cu_memory.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/faults/fault_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/free_plans.h"
#include "tests/support/sketches.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr int kUnknown = 999;

bool starts_with_any(const std::string& text, std::initializer_list<const char*> beginnings) {
  for (const char* beginning : beginnings) {
    if (text.starts_with(beginning)) return true;
  }
  return false;
}

// cuBLASLt has numbers of its own.
Wanted cublas_status(const std::string& function, int result) {
  const bool asks = function == "cublasLtMatmulAlgoCheck";  // of a plan's choice; another is made
  if (asks || function.ends_with("Destroy")) return {RLX_OK};
  if (result == cuda::CUBLAS_STATUS_ALLOC_FAILED) return {RLX_OUT_OF_DEVICE_MEMORY};
  return {result == cuda::CUBLAS_STATUS_NOT_SUPPORTED ? RLX_UNSUITABLE_DEVICE : RLX_DRIVER_ERROR};
}

Wanted cuda_status(const std::string& function, int result) {
  if (function.starts_with("cublas")) return cublas_status(function, result);
  // What ends something ends it, with or without its context being current; how much memory is free
  // need not be known.
  const bool or_none =
      starts_with_any(function, {"cuMemFree", "cuMemGetInfo", "cuModuleUnload", "cuCtxPush",
                                 "cuCtxPop", "cuDevicePrimaryCtxRelease"}) ||
      function.find("Destroy") != std::string::npos;
  if (result == cuda::CUDA_ERROR_LAUNCH_FAILED) return {RLX_DEVICE_LOST, or_none};
  if (result == cuda::CUDA_ERROR_OUT_OF_MEMORY) {
    const bool host = function == "cuMemHostAlloc";
    return {host ? RLX_OUT_OF_HOST_MEMORY : RLX_OUT_OF_DEVICE_MEMORY, or_none};
  }
  if (result == cuda::CUDA_ERROR_NOT_SUPPORTED) return {RLX_UNSUITABLE_DEVICE, or_none};
  return {result == kUnknown ? RLX_DRIVER_ERROR : RLX_NO_DEVICE, or_none};
}

}  // namespace

TEST_CASE("a cuda call that fails is a status, and the next use is as good as the first") {
  const FaultCounts counts = fail_every_call(cuda_scenario(), cuda_status);
  std::printf("%lu calls of CUDA, %lu faults\n", counts.calls, counts.faults);
  CHECK(counts.faults > 2 * counts.calls);
}

TEST_CASE("a cuda device is lost at any call, and stays lost until it is opened again") {
  const FaultCounts counts = lose_at_every_call(cuda_scenario());
  CHECK(counts.faults + 5 > counts.calls);
}

TEST_CASE("a call of the library of products that fails is a status too") {
  const Scenario scenario = cuda_scenario(serialise(gemm_plan()));
  CHECK(fail_every_call(scenario, cuda_status).faults > 0);
  CHECK(lose_at_every_call(scenario).faults > 0);
}

TEST_CASE("a call that makes a loop on the device and fails is a status too") {
  PlanSpec spec = region_plan();
  add_cuda(spec);
  const Scenario scenario = cuda_scenario(serialise(spec));
  CHECK(fail_every_call(scenario, cuda_status).faults > 0);
  CHECK(lose_at_every_call(scenario).faults > 0);
}

TEST_CASE("a lent cuda context is left with nothing of ours in it") {
  FaultControl& control = open_stand_in(RLX_CUDA_STAND_IN);
  control.reset();
  const auto view = open_plan(full_sketch());
  const auto objects = std::make_shared<ObjectCounts>();
  std::shared_ptr<const cuda::Driver> driver;
  std::shared_ptr<cuda::Context> own;
  REQUIRE(cuda::Driver::open(RLX_CUDA_STAND_IN, driver).ok());
  REQUIRE(cuda::Context::open(driver, 0, "cuda:0", nullptr, own).ok());
  const int64_t before = control.live;
  {
    std::shared_ptr<Device> device;
    std::shared_ptr<DevicePlan> plan;
    std::unique_ptr<DeviceSession> session;
    REQUIRE(
        adopt_cuda_device(own->handle, device, {.library = RLX_CUDA_STAND_IN, .objects = objects})
            .ok());
    CHECK(objects_text(objects->read()) == "none");
    REQUIRE(device->load(*view, {}, plan).ok());
    REQUIRE(plan->create_session({}, session).ok());
    REQUIRE(session->submit(0).ok());
    REQUIRE(session->wait(UINT64_MAX).ok());
    CHECK(objects->of(ObjectKind::Session) == 1);
  }
  CHECK(objects_text(objects->read()) == "none");
  CHECK(control.live == before);
  CHECK(control.misuses == 0);
}

namespace {

// A session on the stand-in whose first run was submitted.
struct Submitted {
  std::shared_ptr<Device> device;
  std::shared_ptr<DevicePlan> plan;
  std::unique_ptr<DeviceSession> session;

  explicit Submitted(const PlanView& view) {
    REQUIRE(open_cuda_device("cuda", device, {.library = RLX_CUDA_STAND_IN}).ok());
    REQUIRE(device->load(view, {}, plan).ok());
    REQUIRE(plan->create_session({}, session).ok());
    REQUIRE(session->submit(0).ok());
  }
};

}  // namespace

TEST_CASE("kernels start early only where each is the only one before or behind the other") {
  struct Row {
    PlanSketch sketch;
    uint64_t early;
  };
  // Eight steps one after another; two and three side by side, each of which waits for all of the
  // wave before, and at the end sums one after another.
  for (Row& row :
       std::vector<Row>{{chain_sketch(), 7}, {wide_sketch(2, 3), 0}, {wide_sketch(3, 3), 1}}) {
    row.sketch.cuda_architecture = 90;
    FaultControl& control = open_stand_in(RLX_CUDA_STAND_IN);
    control.reset();
    const auto view = open_plan(row.sketch);
    const Submitted run(*view);
    REQUIRE(run.session->wait(UINT64_MAX).ok());
    CHECK(control.early_starts == row.early);
    CHECK(control.misuses == 0);
  }
}

TEST_CASE("a wait with a timeout on cuda leaves the run to be waited for") {
  FaultControl& control = open_stand_in(RLX_CUDA_STAND_IN);
  control.reset();
  const auto view = open_plan(full_sketch());
  const Submitted run(*view);
  CHECK(run.session->wait(1000).code() == RLX_TIMEOUT);
  CHECK(run.session->submit(0).code() == RLX_INVALID_STATE);
  CHECK(run.session->wait(uint64_t{10} * 1000 * 1000 * 1000).ok());
  CHECK(control.misuses == 0);
}

namespace {

// A session on the stand-in beside a context and a stream of the caller's own.
struct OwnContext {
  std::shared_ptr<const cuda::Driver> driver;
  std::shared_ptr<cuda::Context> context;
  std::shared_ptr<Device> device;
  std::shared_ptr<DevicePlan> plan;
  std::unique_ptr<DeviceSession> session;

  explicit OwnContext(const PlanView& view) {
    open_stand_in(RLX_CUDA_STAND_IN).reset();
    REQUIRE(cuda::Driver::open(RLX_CUDA_STAND_IN, driver).ok());
    REQUIRE(cuda::Context::open(driver, 0, "cuda:0", nullptr, context).ok());
    REQUIRE(adopt_cuda_device(context->handle, device, {.library = RLX_CUDA_STAND_IN}).ok());
    REQUIRE(device->load(view, {.profile = true}, plan).ok());
  }
};

constexpr uint32_t kStates = 1;  // the entry that copies and fills
constexpr uint32_t kOne = 4;     // its value that is a copy of a state of ones
constexpr uint32_t kFilled = 5;

std::vector<float> read_floats(DeviceSession& session, uint32_t value) {
  std::vector<float> numbers(1000);
  const Status status = session.read(kStates, value, std::as_writable_bytes(std::span(numbers)));
  INFO(status.message());
  REQUIRE(status.ok());
  return numbers;
}

void run(DeviceSession& session) {
  REQUIRE(session.submit(kStates).ok());
  REQUIRE(session.wait(UINT64_MAX).ok());
}

}  // namespace

TEST_CASE("outputs on cuda move to the caller's memory and back") {
  const auto view = open_plan(full_sketch());
  OwnContext own(*view);
  REQUIRE(own.plan->create_session({}, own.session).ok());
  DeviceSession& session = *own.session;
  const std::vector<float> ones(1000, 1.0f);
  run(session);
  CHECK(read_floats(session, kOne) == ones);
  {
    const cuda::Current current(*own.context);
    cuda::Segment lent;
    REQUIRE(cuda::Segment::create(*own.context, "the caller's", 4000, lent).ok());
    const auto* numbers = reinterpret_cast<const float*>(lent.address());
    REQUIRE(
        session.bind(kStates, kOne, {.device_address = lent.address(), .size_bytes = 4000}).ok());
    run(session);
    CHECK(std::vector<float>(numbers, numbers + 1000) == ones);
    CHECK(session.read(kStates, kOne, {}).code() == RLX_INVALID_STATE);
    REQUIRE(session.bind(kStates, kOne, {}).ok());
  }
  run(session);
  CHECK(read_floats(session, kOne) == ones);
  CHECK(read_floats(session, kFilled)[510] == 10.0f);
  CHECK(open_stand_in(RLX_CUDA_STAND_IN).misuses == 0);
}

TEST_CASE("values on cuda are read after a step, steps are timed, and the arena is poisoned") {
  const auto view = open_plan(full_sketch());
  OwnContext own(*view);
  REQUIRE(own.plan->create_session({}, own.session).ok());
  DeviceSession& session = *own.session;
  std::vector<uint32_t> words(1000);
  REQUIRE(session.read_after(kStates, 2, kFilled, std::as_writable_bytes(std::span(words))).ok());
  CHECK(words == std::vector<uint32_t>(1000, 7));
  std::vector<StepTime> times;
  REQUIRE(session.profile(kStates, times).ok());
  CHECK(times.size() == 4);
  REQUIRE(session.poison_arena(std::byte{0xff}).ok());
  std::vector<GemmAlgorithm> algorithms;
  CHECK(session.time_algorithms(kStates, 0, 4, algorithms).code() == RLX_INVALID_ARGUMENT);
  CHECK(open_stand_in(RLX_CUDA_STAND_IN).misuses == 0);
}

PlanSpec free_copies_for_cuda() {
  PlanSpec spec = free_copies_plan();
  spec.kernels.clear();
  spec.params.clear();
  spec.vulkan = {};
  spec.cuda = {.present = 1, .minimum_driver = 12000, .architecture_count = 1};
  spec.cuda.architectures[0] = 90;
  return spec;
}

// Runs a session of free_copies_for_cuda() at a size and looks at what it gives.
void run_copies(Session& session, uint64_t seq, float first) {
  std::vector<float> x(2 * seq);
  std::iota(x.begin(), x.end(), first);
  for (const char* name : {"x", "m", "k"}) {
    const std::vector<uint64_t> dims =
        *name == 'k' ? std::vector<uint64_t>{2 * seq} : std::vector<uint64_t>{2, seq};
    REQUIRE(session.set_input(0, name, {.bytes = std::as_bytes(std::span(x)), .dims = dims}).ok());
  }
  REQUIRE(session.run(0).ok());
  std::vector<float> y(2 * seq);
  REQUIRE(session.read_output(0, "y", std::as_writable_bytes(std::span(y))).ok());
  CHECK(y == x);
}

TEST_CASE(
    "the first run of a binding has no graph, and a binding that nobody keeps leaves its own") {
  const std::shared_ptr<const PlanView> view = open_spec(free_copies_for_cuda());
  OwnContext own(*view);
  std::unique_ptr<Session> session;
  REQUIRE(Session::create(view, own.plan, true, {.max_bindings = 2}, session).ok());
  FaultControl& control = open_stand_in(RLX_CUDA_STAND_IN);
  control.graphs = control.graph_launches = 0;
  float first = 0;
  for (uint64_t seq = 1; seq < 16; ++seq) run_copies(*session, seq, ++first);
  CHECK(control.graph_launches == 0);
  CHECK(control.graphs == 0);
  for (uint64_t seq = 1; seq < 16; ++seq) {
    for (int run = 0; run < 4; ++run) run_copies(*session, seq, ++first);
  }
  // The first two values have their graphs made, the others take theirs.
  CHECK(control.graph_launches == 2 * 2 + 13 * 3);
  CHECK(control.graphs == 2);
  session.reset();
  CHECK(control.misuses == 0);
}

TEST_CASE("a session on cuda is bound to one size after another") {
  const std::shared_ptr<const PlanView> view = open_spec(free_copies_for_cuda());
  OwnContext own(*view);
  std::unique_ptr<Session> session;
  REQUIRE(Session::create(view, own.plan, true, {.max_bindings = 2}, session).ok());
  float first = 0;
  const auto set = [&](const char* name, std::vector<uint64_t> dims, const std::vector<float>& x) {
    return session->set_input(0, name, {.bytes = std::as_bytes(std::span(x)), .dims = dims}).ok();
  };
  for (const uint64_t seq : {3, 16, 7, 0, 3, 16, 7, 7, 1}) {
    INFO(seq);
    const std::vector<float> x(2 * seq, ++first);
    REQUIRE(set("x", {2, seq}, x));
    REQUIRE(set("m", {2, seq}, x));
    REQUIRE(set("k", {2 * seq}, x));
    const Status status = session->run(0);
    INFO(status.message());
    REQUIRE(status.ok());
    std::vector<float> y(2 * seq);
    REQUIRE(session->read_output(0, "y", std::as_writable_bytes(std::span(y))).ok());
    CHECK(y == x);
    std::vector<StepTime> times;
    REQUIRE(session->profile(0, times).ok());
    REQUIRE(session->read_value(0, 1, 4, std::as_writable_bytes(std::span(y))).ok());
    CHECK(y == x);
  }
  session.reset();
  CHECK(open_stand_in(RLX_CUDA_STAND_IN).misuses == 0);
}

TEST_CASE("products of a binding on cuda are described anew") {
  const std::shared_ptr<const PlanView> view = open_spec(free_gemm_plan());
  OwnContext own(*view);
  std::unique_ptr<Session> session;
  REQUIRE(Session::create(view, own.plan, true, {}, session).ok());
  const std::vector<std::byte> zeros(2048);
  for (const uint64_t rows : {5, 16, 0, 5, 1}) {
    INFO(rows);
    REQUIRE(session->set_symbol(0, "rows", rows).ok());
    const std::map<std::string, std::vector<uint64_t>> shapes = {
        {"a", {rows, 8}}, {"b", {8, 32}}, {"bias", {32}}, {"residual", {rows, 32}}};
    for (const auto& [name, dims] : shapes) {
      uint64_t bytes = 2;
      for (const uint64_t dim : dims) bytes *= dim;
      REQUIRE(
          session
              ->set_input(0, name,
                          {.bytes = std::span(zeros).first(bytes), .dtype = RLX_F16, .dims = dims})
              .ok());
    }
    const Status status = session->run(0);
    INFO(status.message());
    REQUIRE(status.ok());
    std::vector<StepTime> times;
    REQUIRE(session->profile(0, times).ok());
  }
  session.reset();
  CHECK(open_stand_in(RLX_CUDA_STAND_IN).misuses == 0);
}

TEST_CASE("a session on cuda works on the stream that it was lent") {
  const auto view = open_plan(full_sketch());
  OwnContext own(*view);
  cuda::OwnedStream stream;
  {
    const cuda::Current current(*own.context);
    REQUIRE(cuda::create_stream(*own.context, stream).ok());
  }
  REQUIRE(own.plan->create_session({.stream = stream.get()}, own.session).ok());
  run(*own.session);
  CHECK(own.session->last_run_microseconds() > 0);
  CHECK(read_floats(*own.session, kOne)[999] == 1.0f);
  own.session.reset();
  CHECK(open_stand_in(RLX_CUDA_STAND_IN).misuses == 0);
}

TEST_CASE("the library's algorithms for a product are timed in place") {
  std::shared_ptr<const PlanView> view;
  REQUIRE(PlanView::open_memory(serialise(gemm_plan()), {.copy_memory = true}, view).ok());
  OwnContext own(*view);
  REQUIRE(own.plan->create_session({}, own.session).ok());
  const std::span<const fb::Step> steps = PlanView::steps(view->entry(0, fb::TargetKind::Cuda));
  const auto gemm = std::ranges::find_if(
      steps, [](const fb::Step& step) { return step.kind() == fb::StepKind::LibraryGemm; });
  REQUIRE(gemm != steps.end());
  std::vector<GemmAlgorithm> algorithms;
  const Status status =
      own.session->time_algorithms(0, static_cast<uint32_t>(gemm - steps.begin()), 4, algorithms);
  INFO(status.message());
  REQUIRE(status.ok());
  CHECK(!algorithms.empty());
  CHECK(open_stand_in(RLX_CUDA_STAND_IN).misuses == 0);
}
