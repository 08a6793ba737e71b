// SPDX-License-Identifier: Apache-2.0
// The neutral Program of one entry: buffers, kernel instances and steps. Nothing here names a
// target.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/dispatch/device_model.h"
#include "compiler/dispatch/form_choice.h"
#include "compiler/dispatch/library_gemm.h"
#include "compiler/dispatch/target_kind.h"
#include "compiler/ir/graph.h"
#include "schema/kernel_params.h"

namespace rlx {

enum class KernelId : uint16_t {
#define RLX_KERNEL(name, params, determinism, targets, needs) name,
#include "schema/kernels.def"
#undef RLX_KERNEL
};

// What some profiles of a target have, and some kernels need.
enum class TargetFeature : uint8_t { Nothing, CooperativeMatrices };

struct KernelRow {
  std::string_view name;
  std::string_view params;  // its struct of kernel_params.h
  uint32_t params_bytes;
  bool order_dependent;
  TargetSet targets;  // that have a source for it
  TargetFeature needs;
};
const KernelRow& kernel_row(KernelId id);

// A row of params_words.def: a number of one or two words in a params struct that is no pointer.
struct ParamsWord {
  enum class Unit : uint8_t { Bytes, Elements };
  // The pointer that it bounds.
  struct Bound {
    uint32_t pointer;
    Unit unit;
  };
  std::string_view params;  // struct
  uint32_t position;
  uint32_t words;
  std::optional<Bound> bound;
};
std::span<const ParamsWord> all_params_words();

enum class BufferId : uint32_t {};
enum class KernelInstanceId : uint32_t {};

enum class Segment : uint8_t { Weights, State, Arena, Io, IndexErrors };
enum class AccessMode : uint8_t { Read = 1, Write = 2, ReadWrite = 3 };

// A piece of device memory with one lifetime. A Weights or State buffer stands for the whole weight
// or state.
struct Buffer {
  std::string name;
  TensorType type;  // dense contents
  Dim size_bytes;
  Segment segment = Segment::Arena;
  std::optional<WeightId> weight;
  std::optional<StateId> state;
  std::optional<uint32_t> input_index;   // Io: which graph input
  std::optional<uint32_t> output_index;  // Io: which graph output
  // IndexErrors: what is told of a run in which it is not 0; empty: that indices lie outside.
  std::string assertion = {};
};

// A strided tensor inside a buffer. Elements are at offset_bytes + element_bytes * sum(index_i *
// strides_i).
struct TensorRef {
  BufferId buffer{};
  Dim offset_bytes;
  TensorType type;
  Strides strides;

  [[nodiscard]] const Shape& shape() const { return type.shape; }
  [[nodiscard]] DType dtype() const { return type.dtype; }
  [[nodiscard]] bool dense() const { return is_dense(type.shape, strides); }
  // Largest power of two up to 256 that divides the address of element 0; Io buffers are aligned to
  // 16 bytes only.
  [[nodiscard]] uint32_t alignment_bytes(Segment segment) const;
  // First byte and byte count of the smallest range that holds every element; count 0 for an empty
  // tensor.
  struct ByteRange {
    Dim offset_bytes;
    Dim length_bytes;
  };
  [[nodiscard]] ByteRange byte_range() const;
};

struct Extent3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
  bool operator==(const Extent3&) const = default;
  auto operator<=>(const Extent3&) const = default;
};

// Workgroups along each axis.
struct Grid {
  Dim x = 1;
  Dim y = 1;
  Dim z = 1;
};

// How pixels follow each other in a copy that moves pixels in place of a box (plan.fbs).
struct PixelWindow {
  int32_t begin_w = 0;
  int32_t begin_h = 0;
  int32_t end_w = 0;
  int32_t end_h = 0;
  uint32_t stride_w = 1;
  uint32_t stride_h = 1;
  auto operator<=>(const PixelWindow&) const = default;
};

// A dim of a map that a run gives. In a Specialization each symbol stands for the word of the
// params whose position is the symbol's index, before for the module's.
struct MapSize {
  uint32_t dim = 0;
  Dim size;
  // By the expression as it is written: the code's contract holds that.
  bool operator==(const MapSize& other) const { return *this <=> other == 0; }
  std::strong_ordering operator<=>(const MapSize& other) const;
};

// A dense-rowed tensor as the copy engine of the target's newer devices sees it, at the address of
// a pointer of the params (plan.fbs).
struct TensorMap {
  uint32_t position = 0;  // of the pointer
  DType dtype{};
  std::vector<uint64_t> dims;              // elements, innermost first
  std::vector<uint64_t> strides;           // bytes, of dims 1 and up
  std::vector<uint32_t> box;               // elements per dim that one copy moves
  uint32_t swizzle_bytes = 0;              // in shared memory: 0, 32, 64 or 128
  std::optional<PixelWindow> window = {};  // with it dims are [C, W, H, N], box [channels, pixels]
  std::vector<MapSize> sizes = {};         // of dims that are 0; ascending
  auto operator<=>(const TensorMap&) const = default;
};

// Of the bytes behind the begin of its range a kernel touches as many at most: a size of which each
// symbol stands for the word of the params whose position is the symbol's index.
struct KernelReach {
  uint32_t position = 0;  // of the pointer
  Dim bytes;
  // By the expression as it is written: the code's contract holds that.
  bool operator==(const KernelReach& other) const { return *this <=> other == 0; }
  std::strong_ordering operator<=>(const KernelReach& other) const;
};

// A kernel with everything the compiler fixed: #defines, generated include files, and the
// workgroup. Two steps with equal specializations share one instance, thus one piece of code.
struct Specialization {
  KernelId kernel{};
  std::map<std::string, std::string>
      defines;  // name -> text; RLX_BLOCK_X/Y/Z come from `workgroup`
  std::map<std::string, std::string>
      generated;  // "generated/body.inc" -> text valid in GLSL and CUDA C++
  Extent3 workgroup;
  std::vector<TensorMap> maps =
      {};  // that the kernel takes behind its params; the define RLX_MAPS counts them
  std::vector<uint32_t> size_positions = {};  // of the words of free sizes in its params
  std::vector<KernelReach> reaches = {};      // of pointers to ranges of free sizes
  auto operator<=>(const Specialization&) const = default;
};

// A pointer field of the params, and at once the declaration of the access (hazards, lifetimes,
// relocation).
struct Access {
  uint32_t position = 0;  // byte position of the rlx_ptr in the params; Copy: 0 source, 8
                          // destination; Fill: 0; LibraryGemm: a GemmOperand
  BufferId buffer{};
  Dim offset_bytes;        // where the pointer points, in the buffer
  Dim range_offset_bytes;  // accessed range; starts before offset_bytes for negative strides
  Dim range_bytes;
  uint32_t alignment_bytes = 1;  // that the kernel relies on
  uint32_t element_bytes = 1;    // of the tensor; of block types a byte
  AccessMode mode = AccessMode::Read;
};

// A word of the params that holds the value of a free symbol.
struct SizeWord {
  uint32_t position = 0;
  uint32_t symbol = 0;  // of the module's
};

// What a table of kernels says of one problem: a row of it (ops/lowering/offers.h).
struct OfferNote {
  std::string kernel;       // or who else computes it: "library"
  std::string refusal;      // why it does not take the problem; empty where it does
  double microseconds = 0;  // expected, where it takes the problem
  bool is_bound = false;    // it takes at least that long
  uint8_t rank =
      0;  // of the rows that take the problem, the fastest of the lowest rank computes it
  bool taken = false;
  auto operator<=>(const OfferNote&) const = default;
};

// A kernel, with a grid, that a dispatch runs in place of its own where a size is at most `most`.
// It takes the step's params and touches what the step does.
struct StepForm {
  Dim size;
  int64_t most = 0;
  KernelInstanceId kernel{};
  Grid grid;
};

// The sizes at which a step runs: those above `above` and up to `most`.
struct ServedSizes {
  Dim size;
  std::optional<int64_t> above = {};
  std::optional<int64_t> most = {};

  [[nodiscard]] bool at_bound() const { return !most; }
};

enum class StepKind : uint8_t { Dispatch, Copy, Fill, LibraryGemm };

struct Step {
  StepKind kind = StepKind::Dispatch;
  std::optional<KernelInstanceId> kernel;  // Dispatch
  std::optional<LibraryGemm> gemm;         // LibraryGemm
  std::vector<std::byte> params;           // Dispatch: pointers and sizes zero
  std::vector<SizeWord> sizes;             // in the params
  std::vector<Access> accesses;
  Grid grid;
  uint32_t fill_pattern = 0;  // Fill: repeated 32-bit word
  std::string node;           // source node
  std::string op;
  std::string source;
  std::string reason;                  // why this kernel and specialization
  std::vector<OfferNote> offers = {};  // among which its kernel was chosen, if it was
  Dim bytes_moved;                     // least device-memory traffic
  Dim flops;
  // Microseconds that the kernel's cost model expects of this step, as it was chosen, on any
  // device; none: its bytes at the memory's rate.
  std::function<double(const DeviceModel&)> estimate;
  // Input buffer whose bytes the (only) output may take over: the step reads each element before
  // the same thread writes it.
  std::optional<BufferId> in_place_input;
  // The same of states that are inputs, where an output becomes their new value.
  std::vector<BufferId> in_place_states = {};
  // None or one: another way to do the same, for a tuner to decide on. It reads and writes what
  // this step does; a library's workspace is this step's alone.
  std::vector<Step> alternatives;
  // For smaller sizes of a run, ascending by `most`, each below the bound of its size.
  std::vector<StepForm> forms;
  // Where other steps compute the same at other sizes (ops/lowering/alternates.h); none: it always
  // runs.
  std::optional<ServedSizes> served = {};

  [[nodiscard]] bool runs_at_bound() const { return !served || served->at_bound(); }
};

// Whether no run has both steps: they serve other sizes.
bool are_exclusive(const Step& a, const Step& b);

struct Program {
  std::string entry;
  std::vector<GraphRange> ranges = {};  // of the entry's graph
  std::vector<Dim> requirements = {};   // of the entry's graph
  // Defines of every kernel: what the device asks of all of them.
  std::map<std::string, std::string> defines = {};
  // Whether runs may check indices; the init program, whose indices are weights, runs once unasked.
  bool counts_index_errors = true;
  std::vector<Buffer> buffers;
  std::vector<Specialization> kernels;
  std::vector<Step> steps;
  std::vector<BufferId> inputs;   // in the order of the entry's inputs
  std::vector<BufferId> outputs;  // in the order of the entry's outputs, all distinct Io buffers
  std::vector<FormChoice> form_choices = {};  // that its lowering met, in order

  std::unordered_map<size_t, std::vector<KernelInstanceId>> kernels_by_hash = {};  // of `kernels`

  BufferId add_buffer(Buffer buffer);
  KernelInstanceId intern(const Specialization& specialization);
  // A fresh word in which one step, for this node, counts indices that lie outside their tensor,
  // or, with a text, how often something that must hold does not.
  TensorRef add_index_errors(const std::string& node, std::string assertion);
  [[nodiscard]] const Buffer& buffer(BufferId id) const { return buffers.at(index_of(id)); }
};

// Of the params of every step that runs it.
uint32_t params_bytes(const Specialization& specialization);

// Calls visit(step) for the program's steps and, behind each, for its alternatives.
template <typename Visit>
void for_each_step(const Program& program, const Visit& visit) {
  for (const Step& step : program.steps) {
    visit(step);
    for (const Step& other : step.alternatives) visit(other);
  }
}

// Calls visit(kernel, step) for each kernel that a dispatch may run: its own and those of its
// forms; behind each step for those of its alternatives.
template <typename Visit>
void for_each_kernel(const Program& program, const Visit& visit) {
  for_each_step(program, [&visit](const Step& step) {
    if (!step.kernel) return;
    visit(*step.kernel, step);
    for (const StepForm& form : step.forms) visit(form.kernel, step);
  });
}

// Stable text form, one line per buffer, kernel and step.
std::string print(const Program& program);

// Params struct of each kernel, for typed building.
template <KernelId>
struct KernelTraits;
#define RLX_KERNEL(name, params, determinism, targets, needs) \
  template <>                                                 \
  struct KernelTraits<KernelId::name> {                       \
    using Params = params;                                    \
    static_assert(sizeof(params) <= 128);                     \
  };
#include "schema/kernels.def"
#undef RLX_KERNEL

}  // namespace rlx
