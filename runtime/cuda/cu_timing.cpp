// SPDX-License-Identifier: Apache-2.0
// A session's times: of every step of an entry, and of the ways in which the library can compute a
// product.
#include <algorithm>
#include <cstring>
#include <random>

#include "runtime/cuda/cu_session.h"

namespace rlx::cuda {
namespace {

// Events with what records them.
class EventList {
 public:
  Status create(Context& context, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      OwnedEvent event;
      RLX_RETURN_IF_ERROR(create_event(context, CU_EVENT_DEFAULT, event));
      handles_.push_back(event.get());
      owners_.push_back(std::move(event));
    }
    return {};
  }
  [[nodiscard]] std::span<const CUevent> handles() const { return handles_; }

 private:
  std::vector<OwnedEvent> owners_;
  std::vector<CUevent> handles_;
};

double median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace

// Recording an event costs about as much as a short kernel (2.6 us on an H200), so what it costs
// with nothing in between is taken off: what remains is the step itself, without the distance to
// its neighbours.
Status CudaSession::time_steps(uint32_t program, StepTimes& times) {
  const LinkedEntry& linked = programs_[program].linked;
  const uint32_t step_count = linked.entry->steps()->size();
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  RLX_RETURN_IF_ERROR(prepare_products(program));
  EventList events;
  EntryGraph graph;
  RLX_RETURN_IF_ERROR(events.create(context_, kCalibrationEvents + step_count));
  RLX_RETURN_IF_ERROR(EntryGraph::create(code(program), linked,
                                         {.step_count = step_count, .events = events.handles()},
                                         capture_.get(), graph));
  RLX_RETURN_IF_ERROR(run_once(graph, "profile"));

  std::vector<double> gaps(kCalibrationEvents + step_count - 1);
  for (size_t i = 0; i < gaps.size(); ++i) {
    RLX_RETURN_IF_ERROR(
        microseconds_between(context_, events.handles()[i], events.handles()[i + 1], gaps[i]));
  }
  const auto first_step = gaps.begin() + (kCalibrationEvents - 1);
  const double recording = *std::min_element(gaps.begin(), first_step);
  for (uint32_t s = 0; s < step_count; ++s) {
    times.microseconds.push_back(std::max(first_step[s] - recording, 0.0));
    times.all_microseconds += times.microseconds.back();
  }
  return {};
}

namespace {

constexpr uint32_t kRepetitions = 11;

// Random numbers of any float type, of magnitudes from 2^-7 to 1: zeros would be faster than real
// data is.
void fill_random(uint8_t dtype, std::span<std::byte> bytes) {
  struct Float {
    uint32_t size_bytes;
    uint32_t mantissa_bits;
    uint64_t one;  // exponent field of 1.0
  };
  constexpr Float kFloats[] = {{4, 23, 127}, {2, 10, 15}, {2, 7, 127}, {8, 52, 1023}};
  const Float& type = kFloats[dtype < std::size(kFloats) ? dtype : 0];
  std::mt19937_64 random(20);
  for (size_t i = 0; i + type.size_bytes <= bytes.size(); i += type.size_bytes) {
    const uint64_t draw = random();
    const uint64_t sign = draw >> 63;
    const uint64_t exponent = type.one - 1 - (draw >> 60 & 7) % 7;
    const uint64_t mantissa = draw & ((uint64_t{1} << type.mantissa_bits) - 1);
    const uint64_t bits =
        sign << (type.size_bytes * 8 - 1) | exponent << type.mantissa_bits | mantissa;
    std::memcpy(bytes.data() + i, &bits, type.size_bytes);
  }
}

// Times launches as a run meets them: weights not in the cache, what the step before wrote in it.
class ProductTimer {
 public:
  ProductTimer(Context& context, CUstream stream) : context_(context), stream_(stream) {}

  // The operand that an earlier step of a run would have left in the cache.
  Status create(CUdeviceptr warm, uint64_t warm_bytes) {
    int cache_bytes = 0;
    CUdevice device = 0;
    RLX_RETURN_IF_ERROR(context_.check(context_.api.cuCtxGetDevice(&device), "cuCtxGetDevice"));
    RLX_RETURN_IF_ERROR(context_.check(
        context_.api.cuDeviceGetAttribute(&cache_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device),
        "cuDeviceGetAttribute"));
    RLX_RETURN_IF_ERROR(Segment::create(context_, "the tuner's scratch",
                                        2 * static_cast<uint64_t>(cache_bytes), scratch_));
    warm_ = warm;
    warm_bytes_ = std::min(warm_bytes, scratch_.size_bytes());
    RLX_RETURN_IF_ERROR(events_.create(context_, size_t{2} * kRepetitions));
    return measure([] { return Status(); }, empty_microseconds_);
  }

  // Median time of what `launch` puts on the stream.
  template <typename Launch>
  Status time(const Launch& launch, double& microseconds) {
    RLX_RETURN_IF_ERROR(measure(launch, microseconds));
    microseconds = std::max(microseconds - empty_microseconds_, 0.0);
    return {};
  }

 private:
  template <typename Launch>
  Status measure(const Launch& launch, double& microseconds) {
    const Api& api = context_.api;
    const std::span<const CUevent> events = events_.handles();
    for (uint32_t i = 0; i < kRepetitions; ++i) {
      // Long enough for the host to be ahead of the device.
      RLX_RETURN_IF_ERROR(context_.check(
          api.cuMemsetD8Async(scratch_.address(), 0, scratch_.size_bytes(), stream_), "timing"));
      if (warm_bytes_ > 0) {
        RLX_RETURN_IF_ERROR(context_.check(
            api.cuMemcpyDtoDAsync_v2(scratch_.address(), warm_, warm_bytes_, stream_), "timing"));
      }
      RLX_RETURN_IF_ERROR(context_.check(api.cuEventRecord(events[2 * i], stream_), "timing"));
      RLX_RETURN_IF_ERROR(launch());
      RLX_RETURN_IF_ERROR(context_.check(api.cuEventRecord(events[2 * i + 1], stream_), "timing"));
    }
    RLX_RETURN_IF_ERROR(context_.check(api.cuStreamSynchronize(stream_), "timing"));
    std::vector<double> times(kRepetitions);
    for (uint32_t i = 0; i < kRepetitions; ++i) {
      RLX_RETURN_IF_ERROR(
          microseconds_between(context_, events[2 * i], events[2 * i + 1], times[i]));
    }
    microseconds = median(std::move(times));
    return {};
  }

  Context& context_;
  CUstream stream_;
  Segment scratch_;
  CUdeviceptr warm_ = 0;
  uint64_t warm_bytes_ = 0;
  EventList events_;
  double empty_microseconds_ = 0;
};

// Fills what the step reads outside the weights with random numbers of the value's type.
Status fill_operands(Context& context, Staging& staging, CUstream stream, const LinkedEntry& linked,
                     const fb::Step& step) {
  constexpr uint64_t kPatternBytes = uint64_t{1} << 20;
  for (const fb::Relocation& range : PlanView::relocations(*linked.entry, step)) {
    const fb::Value& value = PlanView::value(*linked.entry, range.value());
    const bool reads = range.mode() == fb::AccessMode::Read;
    if (!reads || value.segment() == fb::Segment::Weights || value.segment() == fb::Segment::State)
      continue;
    std::vector<std::byte> pattern(std::min(range.length_bytes(), kPatternBytes));
    fill_random(value.dtype(), pattern);
    const CUdeviceptr target = linked.address(range);
    RLX_RETURN_IF_ERROR(staging.write(target, pattern));
    for (uint64_t done = pattern.size(); done < range.length_bytes();) {
      const uint64_t piece = std::min(done, range.length_bytes() - done);
      RLX_RETURN_IF_ERROR(context.check(
          context.api.cuMemcpyDtoDAsync_v2(target + done, target, piece, stream), "timing"));
      done += piece;
    }
  }
  return {};
}

}  // namespace

Status CudaSession::time_library(uint32_t program, uint32_t step, uint32_t most,
                                 std::vector<GemmAlgorithm>& algorithms) {
  const LinkedEntry& linked = programs_[program].linked;
  const fb::Step& record = PlanView::steps(*linked.entry)[step];
  const Current current(context_);
  RLX_RETURN_IF_ERROR(current.status());
  RLX_RETURN_IF_ERROR(prepare_products(program));
  const StepCode step_code = code(program);
  std::vector<cublasLtMatmulHeuristicResult_t> offers;
  RLX_RETURN_IF_ERROR(step_code.gemms.offers(*linked.entry, step, most, offers));
  RLX_RETURN_IF_ERROR(fill_operands(context_, staging_, stream_, linked, record));
  const std::span<const fb::Relocation> ranges = PlanView::relocations(*linked.entry, record);
  const fb::Relocation& a = *std::find_if(  // the operand at position 0
      ranges.begin(), ranges.end(), [](const auto& range) { return range.position() == 0; });
  ProductTimer timer(context_, stream_);
  RLX_RETURN_IF_ERROR(timer.create(linked.address(a), a.length_bytes()));

  std::vector<GemmAlgorithm> timed;
  for (const cublasLtMatmulHeuristicResult_t& offer : offers) {
    GemmAlgorithm made{.bytes = {}, .workspace_bytes = offer.workspaceSize, .microseconds = 0};
    std::memcpy(made.bytes.data(), &offer.algo, made.bytes.size());
    const auto launch = [&] { return step_code.gemms.launch(linked, step, offer.algo, stream_); };
    RLX_RETURN_IF_ERROR(launch());  // loads the kernel
    RLX_RETURN_IF_ERROR(timer.time(launch, made.microseconds));
    timed.push_back(made);
  }
  std::stable_sort(timed.begin(), timed.end(), [](const GemmAlgorithm& a, const GemmAlgorithm& b) {
    return a.microseconds < b.microseconds;
  });
  staging_.reset();
  algorithms = std::move(timed);
  return {};
}

}  // namespace rlx::cuda
