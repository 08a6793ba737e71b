// SPDX-License-Identifier: Apache-2.0
// Kernel table, buffers and views of a program, and its text form.
#include "compiler/dispatch/program.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "compiler/dispatch/builder.h"
#include "compiler/dispatch/size_words.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"
#include "schema/plan_header.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

enum class Determinism : uint8_t { BitExact, OrderDependent };

// The sets of targets as kernels.def names them.
struct KernelTargets {
  using enum TargetSet;
  static constexpr std::array kRows = {
#define RLX_KERNEL(name, params, determinism, targets, needs)                        \
  KernelRow{#name,          #params,                                                 \
            sizeof(params), Determinism::determinism == Determinism::OrderDependent, \
            targets,        TargetFeature::needs},
#include "schema/kernels.def"
#undef RLX_KERNEL
  };
};

constexpr ParamsWord kParamsWords[] = {
#define RLX_PARAMS_COUNT(params, field, words, pointer, unit) \
  ParamsWord{#params, offsetof(params, field), words,         \
             ParamsWord::Bound{offsetof(params, pointer), ParamsWord::Unit::unit}},
#define RLX_PARAMS_VALUE(params, field) ParamsWord{#params, offsetof(params, field), 1, {}},
#include "schema/params_words.def"
#undef RLX_PARAMS_COUNT
#undef RLX_PARAMS_VALUE
};

// Of the parts in which instances of one kernel differ most.
size_t hash_of(const Specialization& specialization) {
  size_t hash = static_cast<size_t>(specialization.kernel);
  const auto add = [&hash](const std::string& text) {
    hash = hash * 31 + std::hash<std::string>()(text);
  };
  for (const auto& [name, text] : specialization.defines) add(text);
  for (const auto& [name, text] : specialization.generated) add(text);
  return hash;
}

constexpr int64_t kMaxGridAxis = 65535;  // guaranteed maxComputeWorkGroupCount of Vulkan

}  // namespace

bool are_exclusive(const Step& a, const Step& b) {
  if (!a.served || !b.served) return false;
  const auto below = [](const ServedSizes& low, const ServedSizes& high) {
    return low.most && high.above && *low.most <= *high.above;
  };
  return (below(*a.served, *b.served) || below(*b.served, *a.served)) &&
         to_string(a.served->size) == to_string(b.served->size);
}

std::strong_ordering KernelReach::operator<=>(const KernelReach& other) const {
  if (position != other.position) return position <=> other.position;
  return to_string(bytes) <=> to_string(other.bytes);
}

std::strong_ordering MapSize::operator<=>(const MapSize& other) const {
  if (dim != other.dim) return dim <=> other.dim;
  return to_string(size) <=> to_string(other.size);
}

const KernelRow& kernel_row(KernelId id) {
  return KernelTargets::kRows.at(static_cast<size_t>(id));
}

std::span<const ParamsWord> all_params_words() {
  return kParamsWords;
}

uint32_t TensorRef::alignment_bytes(Segment segment) const {
  uint64_t base = kArenaAlignmentBytes;
  if (segment == Segment::Io) base = kIoAlignmentBytes;
  if (segment == Segment::IndexErrors) base = kIndexErrorBytes;
  const auto factor = static_cast<uint64_t>(offset_bytes.known_factor());
  return static_cast<uint32_t>(std::gcd(base, factor == 0 ? base : factor));
}

// True where the elements follow each other without gaps, whatever the order of the axes.
static bool holds_all_bytes(const Shape& shape, const Strides& strides) {
  std::vector<size_t> axes;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) axes.push_back(i);
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  Dim expected = 1;
  for (const size_t axis : axes) {
    if (strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

TensorRef::ByteRange TensorRef::byte_range() const {
  if (element_count(type.shape) == 0) return {offset_bytes, 0};
  if (block_elements(type.dtype) != 1) {
    RLX_CHECK(dense(), "strided view of a block type " + to_string(type));
    return {offset_bytes, byte_size(type)};
  }
  if (holds_all_bytes(type.shape, strides)) return {offset_bytes, byte_size(type)};
  // Distances: what a plan says of free sizes is never negative.
  Dim before = 0;
  Dim behind = 0;
  for (size_t i = 0; i < type.shape.size(); ++i) {
    const bool is_turned = strides[i] < 0;
    const Dim steps = max(type.shape[i], 1) - 1;
    (is_turned ? before : behind) += steps * (is_turned ? 0 - strides[i] : strides[i]);
  }
  const int64_t size = element_bytes(type.dtype);
  const Dim first = offset_bytes - before * size;
  RLX_CHECK(first >= 0, "view before its buffer");
  const Dim length = (before + behind + 1) * size;
  const Dim count = element_count(type.shape);
  return {first, count.range().least > 0 ? length : length * min(count, 1)};
}

BufferId Program::add_buffer(Buffer buffer) {
  buffers.push_back(std::move(buffer));
  return BufferId{narrow<uint32_t>(buffers.size() - 1)};
}

TensorRef Program::add_index_errors(const std::string& node, std::string assertion) {
  const TensorType word{.dtype = DType::u32, .shape = {1}};
  const BufferId buffer = add_buffer({.name = node + ".index_errors",
                                      .type = word,
                                      .size_bytes = kIndexErrorBytes,
                                      .segment = Segment::IndexErrors,
                                      .assertion = std::move(assertion)});
  return {.buffer = buffer, .type = word, .strides = {1}};
}

KernelInstanceId Program::intern(const Specialization& specialization) {
  std::vector<KernelInstanceId>& known = kernels_by_hash[hash_of(specialization)];
  for (const KernelInstanceId id : known) {
    if (kernels[index_of(id)] == specialization) return id;
  }
  known.push_back(KernelInstanceId{narrow<uint32_t>(kernels.size())});
  kernels.push_back(specialization);
  return known.back();
}

Access make_access(uint32_t position, const TensorRef& ref, AccessMode mode,
                   uint32_t alignment_bytes) {
  const TensorRef::ByteRange range = ref.byte_range();
  const bool plain = block_elements(ref.dtype()) == 1;
  return {.position = position,
          .buffer = ref.buffer,
          .offset_bytes = ref.offset_bytes,
          .range_offset_bytes = range.offset_bytes,
          .range_bytes = range.length_bytes,
          .alignment_bytes =
              alignment_bytes != 0 ? alignment_bytes : (plain ? element_bytes(ref.dtype()) : 2),
          .element_bytes = plain ? element_bytes(ref.dtype()) : 1,
          .mode = mode};
}

Dim checked_grid(const Dim& groups) {
  RLX_CHECK(groups >= 1 && groups <= kMaxGridAxis,
            "grid axis of " + to_string(groups) + " workgroups (use split_grid)");
  return groups;
}

Grid split_grid(const Dim& groups) {
  // Nothing to do at the largest sizes, but something at others: no plan says that. The number read
  // refuses it.
  if (groups.is_free() && groups < 1) return {.x = static_cast<int64_t>(groups)};
  // Kernels number their groups in 32 bits, and the grid may overshoot the count.
  RLX_CHECK(groups >= 1, "grid of " + to_string(groups) + " workgroups");
  if (groups >= int64_t{1} << 31)
    throw TooManyGroups("a kernel of it would be " + to_string(groups) +
                        " workgroups, of which there are less than 2^31");
  if (groups <= kMaxGridAxis) return {.x = groups};
  if (groups.is_free()) {
    // No axis is 0 unless there are no groups.
    return {.x = kMaxGridAxis,
            .y = min(ceil_div(groups, kMaxGridAxis), kMaxGridAxis),
            .z = ceil_div(groups, kMaxGridAxis * kMaxGridAxis)};
  }
  const Dim x = kMaxGridAxis;
  const Dim y = min(ceil_div(groups, kMaxGridAxis), kMaxGridAxis);
  return {.x = x, .y = y, .z = ceil_div(groups, x * y)};
}

namespace {

constexpr std::string_view kSymbolWord = "RLX_SYMBOL_";

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

bool fits_int(const Dim& size) {
  const DimRange range = size.range();
  if (range.least < -kMaxInt || range.most > kMaxInt) return false;
  const Dim::Expression* expression = size.expression();
  if (expression == nullptr || expression->op == Dim::Op::Symbol) return true;
  return fits_int(expression->a) && fits_int(expression->b);
}

std::string expression_text(const Dim& size, bool is_int) {
  const Dim::Expression* expression = size.expression();
  if (expression == nullptr) {
    const int64_t number = size.bound();
    if (fits_int(size)) return std::to_string(number);
    // GLSL takes no 64-bit literal in a define.
    return "((rlx_i64(" + std::to_string(number >> 32) + ") << 32) | rlx_i64(" +
           std::to_string(number & 0xFFFFFFFF) + "u))";
  }
  if (expression->op == Dim::Op::Symbol) {
    const std::string word =
        std::string(kSymbolWord) + std::to_string(expression->symbol.index) + "_";
    return is_int ? word : "rlx_i64(" + word + ")";
  }
  static constexpr const char* kSigns[] = {"", " + ", " - ", " * ", " / ", " % "};
  const std::string a = expression_text(expression->a, is_int);
  const std::string b = expression_text(expression->b, is_int);
  if (expression->op == Dim::Op::Min) return "min(" + a + ", " + b + ")";
  if (expression->op == Dim::Op::Max) return "max(" + a + ", " + b + ")";
  return "(" + a + kSigns[static_cast<size_t>(expression->op)] + b + ")";
}

// Calls with every symbol's word in the text, from its begin to behind its end, and the symbol.
template <typename Visit>
void for_each_word(const std::string& text, const Visit& visit) {
  for (size_t at = text.find(kSymbolWord); at != std::string::npos;
       at = text.find(kSymbolWord, at + 1)) {
    const size_t digits = at + kSymbolWord.size();
    const size_t end = text.find('_', digits);
    visit(at, end + 1, narrow<uint32_t>(std::stoul(text.substr(digits, end - digits))));
  }
}

std::string with_words(const std::string& text, const std::vector<uint32_t>& symbols) {
  std::string result;
  size_t done = 0;
  for_each_word(text, [&](size_t begin, size_t end, uint32_t symbol) {
    const auto slot = std::find(symbols.begin(), symbols.end(), symbol) - symbols.begin();
    result += text.substr(done, begin - done) + "RLX_FREE_SIZE(" + std::to_string(slot) + ")";
    done = end;
  });
  return result + text.substr(done);
}

template <typename Visit>
void for_each_text(Specialization& specialization, const Visit& visit) {
  for (auto& [name, text] : specialization.defines) visit(text);
  for (auto& [name, text] : specialization.generated) visit(text);
}

// What the texts name, and what pointers' ranges and maps depend on, in this order.
std::vector<uint32_t> symbols_of(Specialization& specialization, const Step& step) {
  std::vector<uint32_t> symbols;
  const auto add = [&symbols](uint32_t symbol) {
    if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end())
      symbols.push_back(symbol);
  };
  for_each_text(specialization, [&add](const std::string& text) {
    for_each_word(text, [&add](size_t, size_t, uint32_t symbol) { add(symbol); });
  });
  for (const Access& access : step.accesses) {
    for_each_symbol(access.range_bytes, [&add](const FreeSymbol& symbol) { add(symbol.index); });
  }
  for (const TensorMap& map : specialization.maps) {
    for (const MapSize& size : map.sizes)
      for_each_symbol(size.size, [&add](const FreeSymbol& symbol) { add(symbol.index); });
  }
  return symbols;
}

constexpr uint32_t kNoRoom = std::numeric_limits<uint32_t>::max();

// Where the words stand; kNoRoom where too many pointers are in their way. Behind the struct, or
// where it is as long as params may be, in pointers at its end that the step does not have.
uint32_t first_size_position(const Step& step, uint32_t bytes) {
  const auto end = narrow<uint32_t>(step.params.size());
  if (end + bytes <= kMaxParamsBytes) return end;
  constexpr uint32_t kPointer = sizeof(rlx_ptr);
  const uint32_t wanted = round_up(bytes, kPointer);
  uint32_t room = 0;
  for (uint32_t at = end; at >= kPointer && room < wanted; at -= kPointer) {
    const bool is_used =
        std::any_of(step.accesses.begin(), step.accesses.end(),
                    [&](const Access& access) { return access.position == at - kPointer; });
    room = is_used ? 0 : room + kPointer;
    if (room == wanted) return at - kPointer;
  }
  return kNoRoom;
}

// The values that the step gave its words, by symbol; they are no longer defines then.
std::map<uint32_t, uint32_t> take_words(Specialization& specialization) {
  std::map<uint32_t, uint32_t> values;
  for (uint32_t word = 0;; ++word) {
    const auto found = specialization.defines.find(size_word_define(word));
    if (found == specialization.defines.end()) return values;
    values[kFirstSizeWord + word] = narrow<uint32_t>(std::stoul(found->second));
    specialization.defines.erase(found);
  }
}

// The size with the words of the params in the places of its symbols.
Dim of_words(const Dim& size, const Specialization& specialization,
             const std::vector<uint32_t>& symbols) {
  return with_symbols(size, [&](const FreeSymbol& symbol) {
    const auto slot = static_cast<size_t>(std::find(symbols.begin(), symbols.end(), symbol.index) -
                                          symbols.begin());
    FreeSymbol word = symbol;
    word.index = specialization.size_positions.at(slot);
    word.name = "word " + std::to_string(slot);
    return Dim::of(word);
  });
}

void place_reaches(Specialization& specialization, const Step& step,
                   const std::vector<uint32_t>& symbols) {
  for (const Access& access : step.accesses) {
    // The distance of a pointer from the begin of its range is the kernel's own.
    static_cast<void>(static_cast<uint64_t>(access.offset_bytes - access.range_offset_bytes));
    if (!access.range_bytes.is_free()) continue;
    specialization.reaches.push_back(
        {.position = access.position,
         .bytes = of_words(access.range_bytes, specialization, symbols)});
  }
}

void place_map_sizes(Specialization& specialization, const std::vector<uint32_t>& symbols) {
  for (TensorMap& map : specialization.maps) {
    for (MapSize& size : map.sizes) size.size = of_words(size.size, specialization, symbols);
  }
}

}  // namespace

std::string size_text(const Dim& size) {
  return expression_text(size, fits_int(size));
}

uint32_t params_bytes(const Specialization& specialization) {
  uint32_t bytes = kernel_row(specialization.kernel).params_bytes;
  if (specialization.size_positions.empty()) return bytes;
  for (const uint32_t position : specialization.size_positions)
    bytes = std::max(bytes, position + narrow<uint32_t>(sizeof(uint32_t)));
  return round_up(bytes, narrow<uint32_t>(sizeof(uint64_t)));
}

void place_sizes(Specialization& specialization, Step& step) {
  const std::map<uint32_t, uint32_t> words = take_words(specialization);
  const std::vector<uint32_t> symbols = symbols_of(specialization, step);
  if (symbols.empty()) return;
  for_each_text(specialization,
                [&symbols](std::string& text) { text = with_words(text, symbols); });
  const auto bytes = narrow<uint32_t>(symbols.size() * sizeof(uint32_t));
  const uint32_t first = first_size_position(step, bytes);
  if (first == kNoRoom) {
    // Read as a number, a free size refuses the step.
    for (const Access& access : step.accesses)
      static_cast<void>(static_cast<int64_t>(access.range_bytes));
    return;
  }
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    const uint32_t position = first + i * narrow<uint32_t>(sizeof(uint32_t));
    if (!words.contains(symbols[i]))
      step.sizes.push_back({.position = position, .symbol = symbols[i]});
    specialization.size_positions.push_back(position);
  }
  specialization.defines["RLX_SIZES"] = std::to_string(symbols.size());
  specialization.defines["RLX_SIZES_AT"] = std::to_string(first / sizeof(uint32_t));
  if (first < step.params.size()) specialization.defines["RLX_SIZES_IN_POINTERS"] = "1";
  place_reaches(specialization, step, symbols);
  place_map_sizes(specialization, symbols);
  step.params.resize(std::max<size_t>(step.params.size(), params_bytes(specialization)));
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    const auto word = words.find(symbols[i]);
    if (word == words.end()) continue;
    std::memcpy(step.params.data() + specialization.size_positions[i], &word->second,
                sizeof word->second);
  }
  // This step's own ranges are what its words make of them.
  if (words.empty()) return;
  for (Access& access : step.accesses) access.range_bytes = access.range_bytes.bound();
}

}  // namespace rlx
