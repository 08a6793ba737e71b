// SPDX-License-Identifier: Apache-2.0
// Library products: every operand, epilogue and layout against plain loops, and their tuning.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "runtime/cuda/cuda_device.h"
#include "runtime/plan/plan_view.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"

#define REQUIRE_OK(expression)                \
  do {                                        \
    const ::rlx::Status status_ = expression; \
    INFO(status_.message());                  \
    REQUIRE(status_.ok());                    \
  } while (false)

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr uint8_t kF32 = 0;
constexpr uint8_t kBf16 = 2;
constexpr uint8_t kU8 = 5;
constexpr uint64_t kWorkspaceBytes = uint64_t{4} << 20;

// The device, where it and cuBLASLt are there.
std::shared_ptr<Device> product_device() {
  std::string why_none;
  std::shared_ptr<Device> device;
  if (list_cuda_devices(why_none).empty()) {
    std::printf("SKIPPED: %s\n", why_none.c_str());
    return nullptr;
  }
  REQUIRE_OK(open_cuda_device("cuda", device));
  return device;
}

// f32 values as a tensor of f32 or bf16 holds them.
struct HostMatrix {
  uint8_t dtype = kF32;
  std::vector<float> values;

  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> all(values.size() * (dtype == kF32 ? 4 : 2));
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, &values[i], sizeof bits);
      if (dtype == kF32) {
        std::memcpy(all.data() + 4 * i, &bits, 4);
      } else {
        bits >>= 16;
        std::memcpy(all.data() + 2 * i, &bits, 2);
      }
    }
    return all;
  }
  void take(std::span<const std::byte> all) {
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits = 0;
      if (dtype == kF32) {
        std::memcpy(&bits, all.data() + 4 * i, 4);
      } else {
        std::memcpy(&bits, all.data() + 2 * i, 2);
        bits <<= 16;
      }
      std::memcpy(&values[i], &bits, sizeof bits);
    }
  }
};

// Multiples of 1/16 between -1 and 1: exact in every type.
HostMatrix random_matrix(uint8_t dtype, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  HostMatrix made{.dtype = dtype, .values = std::vector<float>(count)};
  for (float& value : made.values)
    value = static_cast<float>(static_cast<int>(random() % 33) - 16) / 16;
  return made;
}

struct Problem {
  fb::LibraryGemmT gemm;
  HostMatrix a, b, bias, residual, y;
};

bool has_bias(const fb::LibraryGemmT& gemm) {
  return gemm.epilogue == fb::GemmEpilogue::Bias || gemm.epilogue == fb::GemmEpilogue::BiasRelu ||
         gemm.epilogue == fb::GemmEpilogue::BiasGeluTanh;
}

// Pitches of `spare` elements more than a row has.
Problem make_problem(fb::LibraryGemmT gemm, uint64_t spare) {
  gemm.a_pitch = (gemm.a_transposed ? gemm.m : gemm.k) + spare;
  gemm.b_pitch = (gemm.b_transposed ? gemm.k : gemm.n) + spare;
  gemm.y_pitch = gemm.n + spare;
  gemm.residual_pitch = gemm.has_residual ? gemm.n + spare : 0;
  const uint64_t a_size = (gemm.a_transposed ? gemm.k : gemm.m) * gemm.a_pitch;
  const uint64_t b_size = (gemm.b_transposed ? gemm.n : gemm.k) * gemm.b_pitch;
  const uint64_t y_size = gemm.m * gemm.y_pitch;
  if (gemm.batch > 1) {
    gemm.a_batch_stride = a_size;
    gemm.b_batch_stride = b_size;
    gemm.y_batch_stride = y_size;
    gemm.residual_batch_stride = gemm.has_residual ? y_size : 0;
  }
  gemm.workspace_bytes = kWorkspaceBytes;
  return {.gemm = gemm,
          .a = random_matrix(gemm.a_dtype, gemm.batch * a_size, 1),
          .b = random_matrix(gemm.b_dtype, gemm.batch * b_size, 2),
          .bias = random_matrix(gemm.y_dtype, gemm.n, 3),
          .residual = random_matrix(gemm.y_dtype, gemm.batch * y_size, 4),
          .y = {.dtype = gemm.y_dtype, .values = std::vector<float>(gemm.batch * y_size)}};
}

double activated(fb::GemmEpilogue epilogue, double x) {
  if (epilogue == fb::GemmEpilogue::Relu || epilogue == fb::GemmEpilogue::BiasRelu)
    return std::max(x, 0.0);
  if (epilogue == fb::GemmEpilogue::GeluTanh || epilogue == fb::GemmEpilogue::BiasGeluTanh)
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
  return x;
}

double wanted_at(const Problem& problem, uint64_t batch, uint64_t m, uint64_t n) {
  const fb::LibraryGemmT& gemm = problem.gemm;
  const float* a = problem.a.values.data() + batch * gemm.a_batch_stride;
  const float* b = problem.b.values.data() + batch * gemm.b_batch_stride;
  double sum = 0;
  for (uint64_t k = 0; k < gemm.k; ++k) {
    const float left = gemm.a_transposed ? a[k * gemm.a_pitch + m] : a[m * gemm.a_pitch + k];
    const float right = gemm.b_transposed ? b[n * gemm.b_pitch + k] : b[k * gemm.b_pitch + n];
    sum += double{left} * right;
  }
  if (has_bias(gemm)) sum += problem.bias.values[n];
  if (gemm.has_residual)
    sum +=
        problem.residual.values[batch * gemm.residual_batch_stride + m * gemm.residual_pitch + n];
  return activated(gemm.epilogue, sum);
}

PlanSpec plan_of(const Problem& problem) {
  const fb::LibraryGemmT& gemm = problem.gemm;
  SpecEntry main{.name = "main", .arena_bytes = kWorkspaceBytes};
  SpecStep step{.kind = fb::StepKind::LibraryGemm};
  const auto add = [&](const std::string& name, const HostMatrix& matrix, uint32_t position,
                       fb::AccessMode mode) {
    const auto index = static_cast<uint32_t>(main.values.size());
    const uint64_t size_bytes = matrix.bytes().size();
    main.values.push_back({.name = name,
                           .dtype = matrix.dtype,
                           .dims = {matrix.values.size()},
                           .segment = fb::Segment::Io,
                           .size_bytes = size_bytes});
    step.relocations.push_back(
        {.value = index, .position = position, .length_bytes = size_bytes, .mode = mode});
    (mode == fb::AccessMode::Read ? main.inputs : main.outputs).push_back(index);
  };
  add("a", problem.a, 0, fb::AccessMode::Read);
  add("b", problem.b, 8, fb::AccessMode::Read);
  if (has_bias(gemm)) add("bias", problem.bias, 16, fb::AccessMode::Read);
  if (gemm.has_residual) add("residual", problem.residual, 24, fb::AccessMode::Read);
  add("y", problem.y, 32, fb::AccessMode::Write);
  const auto workspace = static_cast<uint32_t>(main.values.size());
  main.values.push_back({.name = "workspace",
                         .dtype = kU8,
                         .dims = {kWorkspaceBytes},
                         .size_bytes = kWorkspaceBytes});
  step.relocations.push_back({.value = workspace,
                              .position = 40,
                              .length_bytes = kWorkspaceBytes,
                              .mode = fb::AccessMode::Write});
  main.gemms.push_back(gemm);
  main.steps.push_back(std::move(step));
  PlanSpec spec;
  spec.cuda = {.present = 1, .ptx_architecture = 80, .minimum_driver = 12030};
  spec.entries.push_back(std::move(main));
  return spec;
}

std::shared_ptr<const PlanView> open(const PlanSpec& spec) {
  std::shared_ptr<const PlanView> view;
  REQUIRE_OK(PlanView::open_memory(serialise(spec), {.copy_memory = true}, view));
  return view;
}

// Runs the problem's plan; y is what it gave.
void run(DeviceSession& session, const PlanView& view, Problem& problem) {
  const fb::Entry& entry = view.entry(0, fb::TargetKind::Cuda);
  const HostMatrix* inputs[] = {&problem.a, &problem.b, &problem.bias, &problem.residual};
  const char* names[] = {"a", "b", "bias", "residual"};
  for (const uint32_t value : *entry.inputs()) {
    for (size_t i = 0; i < 4; ++i) {
      if (PlanView::text(PlanView::value(entry, value).name()) != names[i]) continue;
      REQUIRE_OK(session.write(0, value, inputs[i]->bytes()));
    }
  }
  REQUIRE_OK(session.submit(0));
  REQUIRE_OK(session.wait(UINT64_MAX));
  std::vector<std::byte> bytes(problem.y.bytes().size());
  REQUIRE_OK(session.read(0, entry.outputs()->Get(0), bytes));
  problem.y.take(bytes);
}

// The worst difference over the largest wanted number.
double error_of(const Problem& problem) {
  const fb::LibraryGemmT& gemm = problem.gemm;
  double worst = 0;
  double largest = 0;
  for (uint64_t i = 0; i < gemm.batch; ++i) {
    for (uint64_t m = 0; m < gemm.m; ++m) {
      for (uint64_t n = 0; n < gemm.n; ++n) {
        const double wanted = wanted_at(problem, i, m, n);
        const double got = problem.y.values[i * gemm.y_batch_stride + m * gemm.y_pitch + n];
        worst = std::max(worst, std::isnan(got) ? 1e9 : std::abs(got - wanted));
        largest = std::max(largest, std::abs(wanted));
      }
    }
  }
  return worst / largest;
}

fb::LibraryGemmT gemm_of(uint8_t dtype, uint64_t m, uint64_t n, uint64_t k) {
  fb::LibraryGemmT gemm;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.a_dtype = gemm.b_dtype = gemm.y_dtype = dtype;
  return gemm;
}

void check(Device& device, const fb::LibraryGemmT& gemm, uint64_t spare, double tolerance) {
  Problem problem = make_problem(gemm, spare);
  INFO("m " << gemm.m << " n " << gemm.n << " k " << gemm.k << " batch " << gemm.batch
            << " transposed " << gemm.a_transposed << gemm.b_transposed << " epilogue "
            << static_cast<int>(gemm.epilogue) << " residual " << gemm.has_residual << " spare "
            << spare);
  const auto view = open(plan_of(problem));
  std::shared_ptr<DevicePlan> plan;
  std::unique_ptr<DeviceSession> session;
  REQUIRE_OK(device.load(*view, {}, plan));
  REQUIRE_OK(plan->create_session({}, session));
  run(*session, *view, problem);
  CHECK(error_of(problem) < tolerance);
}

}  // namespace

TEST_CASE("library_products_are_the_products_of_the_record") {
  const auto device = product_device();
  if (device == nullptr) return;
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      fb::LibraryGemmT gemm = gemm_of(kF32, 48, 96, 64);
      gemm.a_transposed = a_transposed;
      gemm.b_transposed = b_transposed;
      check(*device, gemm, 0, 1e-6);
      check(*device, gemm, 8, 1e-6);
      gemm.batch = 3;
      check(*device, gemm, 4, 1e-6);
      gemm = gemm_of(kBf16, 64, 128, 96);
      gemm.a_transposed = a_transposed;
      gemm.b_transposed = b_transposed;
      check(*device, gemm, 8, 8e-3);
    }
  }
}

TEST_CASE("library_products_have_the_epilogue_of_the_record") {
  const auto device = product_device();
  if (device == nullptr) return;
  for (const fb::GemmEpilogue epilogue : fb::EnumValuesGemmEpilogue()) {
    fb::LibraryGemmT gemm = gemm_of(kF32, 40, 72, 56);
    gemm.epilogue = epilogue;
    check(*device, gemm, 0, 1e-6);
    gemm = gemm_of(kBf16, 40, 72, 56);
    gemm.epilogue = epilogue;
    check(*device, gemm, 0, 8e-3);
  }
  for (const fb::GemmEpilogue epilogue : {fb::GemmEpilogue::None, fb::GemmEpilogue::Bias}) {
    fb::LibraryGemmT gemm = gemm_of(kF32, 40, 72, 56);
    gemm.epilogue = epilogue;
    gemm.has_residual = true;
    check(*device, gemm, 4, 1e-6);
  }
}

TEST_CASE("f32_products_are_f32_products_unless_the_record_says_tf32") {
  const auto device = product_device();
  if (device == nullptr) return;
  const auto error = [&](fb::GemmCompute compute) {
    fb::LibraryGemmT gemm = gemm_of(kF32, 256, 256, 1024);
    gemm.compute = compute;
    Problem problem = make_problem(gemm, 0);
    std::mt19937 random(5);
    for (HostMatrix* matrix : {&problem.a, &problem.b}) {
      for (float& value : matrix->values)
        value = std::uniform_real_distribution<float>(-1, 1)(random);
    }
    const auto view = open(plan_of(problem));
    std::shared_ptr<DevicePlan> plan;
    std::unique_ptr<DeviceSession> session;
    REQUIRE_OK(device->load(*view, {}, plan));
    REQUIRE_OK(plan->create_session({}, session));
    run(*session, *view, problem);
    return error_of(problem);
  };
  CHECK(error(fb::GemmCompute::F32) < 2e-6);
  CHECK(error(fb::GemmCompute::Tf32) > 2e-6);
  CHECK(error(fb::GemmCompute::Tf32) < 2e-3);
}

TEST_CASE("algorithms_are_timed_and_a_recorded_one_is_used_where_it_fits") {
  const auto device = product_device();
  if (device == nullptr) return;
  Problem problem = make_problem(gemm_of(kBf16, 128, 768, 768), 0);
  const auto view = open(plan_of(problem));
  std::shared_ptr<DevicePlan> plan;
  std::unique_ptr<DeviceSession> session;
  REQUIRE_OK(device->load(*view, {}, plan));
  REQUIRE_OK(plan->create_session({}, session));
  CHECK_FALSE(plan->gemm_reports().at(0).tuned);
  CHECK(plan->gemm_reports().at(0).note.empty());
  std::vector<GemmAlgorithm> algorithms;
  REQUIRE_OK(session->time_algorithms(0, 0, 16, algorithms));
  REQUIRE_FALSE(algorithms.empty());
  for (size_t i = 0; i < algorithms.size(); ++i) {
    CHECK(algorithms[i].microseconds > 0);
    CHECK(algorithms[i].workspace_bytes <= kWorkspaceBytes);
    if (i > 0) CHECK(algorithms[i].microseconds >= algorithms[i - 1].microseconds);
    std::printf("algorithm %zu: %.2f us\n", i, algorithms[i].microseconds);
  }
  // The session still runs.
  run(*session, *view, problem);
  CHECK(error_of(problem) < 8e-3);

  const DevicePlan::TuningIdentity identity = plan->tuning_identity();
  CHECK(identity.device == device->info().name);
  CHECK(identity.library.starts_with("cuBLASLt 1"));
  CHECK(device->load(*view, {.require_tuned = true}, plan).code() == RLX_UNSUITABLE_DEVICE);
  for (const GemmAlgorithm& algorithm : algorithms) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(algorithm.bytes.data());
    problem.gemm.algorithm.assign(bytes, bytes + algorithm.bytes.size());
    problem.gemm.tuned_device = identity.device;
    problem.gemm.tuned_driver = identity.driver;
    problem.gemm.tuned_library = identity.library;
    const auto tuned = open(plan_of(problem));
    REQUIRE_OK(device->load(*tuned, {.require_tuned = true}, plan));
    CHECK(plan->gemm_reports().at(0).tuned);
    REQUIRE_OK(plan->create_session({}, session));
    run(*session, *tuned, problem);
    CHECK(error_of(problem) < 8e-3);
  }
  problem.gemm.tuned_device = "NVIDIA L40S";
  const auto foreign = open(plan_of(problem));
  REQUIRE_OK(device->load(*foreign, {}, plan));
  CHECK_FALSE(plan->gemm_reports().at(0).tuned);
  CHECK(plan->gemm_reports().at(0).note == "tuned on NVIDIA L40S with " + identity.library);
}
