// SPDX-License-Identifier: Apache-2.0
// rlx.h: library and plans.
#include <bit>
#include <cstddef>
#include <iterator>

#include "runtime/api/handles.h"
#include "runtime/base/dtype.h"
#include "runtime/device/choose_profile.h"
#include "runtime/plan/free_sizes.h"
#include "runtime/plan/profiles.h"
#include "runtime/plan/target_row.h"

namespace rlx {
namespace {

constexpr const char* kStatusNames[] = {
    "ok",
    "invalid argument",
    "invalid state",
    "io error",
    "invalid plan",
    "unsupported version",
    "unsuitable device",
    "no device",
    "out of host memory",
    "out of device memory",
    "device lost",
    "timeout",
    "driver error",
    "internal error",
    "index out of range",
    "untrusted plan",
    "assertion failed",
};
static_assert(std::size(kStatusNames) == RLX_ASSERTION_FAILED + 1);

// The public numbers are those of dtype.def.
enum class DTypeNumber : int {
#define RLX_DTYPE(name, block_elements, block_bytes, kind) name,
#include "schema/dtype.def"
#undef RLX_DTYPE
};
static_assert(static_cast<int>(DTypeNumber::f32) == RLX_F32 &&
              static_cast<int>(DTypeNumber::f16) == RLX_F16);
static_assert(static_cast<int>(DTypeNumber::bf16) == RLX_BF16 &&
              static_cast<int>(DTypeNumber::f64) == RLX_F64);
static_assert(static_cast<int>(DTypeNumber::i8) == RLX_I8 &&
              static_cast<int>(DTypeNumber::u8) == RLX_U8);
static_assert(static_cast<int>(DTypeNumber::i16) == RLX_I16 &&
              static_cast<int>(DTypeNumber::i32) == RLX_I32);
static_assert(static_cast<int>(DTypeNumber::u32) == RLX_U32 &&
              static_cast<int>(DTypeNumber::i64) == RLX_I64);
static_assert(static_cast<int>(DTypeNumber::bool_) == RLX_BOOL &&
              static_cast<int>(DTypeNumber::c64) == RLX_C64);
static_assert(static_cast<int>(DTypeNumber::f8e4m3) == RLX_F8E4M3 &&
              static_cast<int>(DTypeNumber::f8e5m2) == RLX_F8E5M2);
static_assert(RLX_MAX_RANK == kMaxRank);
static_assert(static_cast<int>(fb::Segment::Io) == RLX_IO &&
              static_cast<int>(fb::Segment::IndexErrors) == RLX_INDEX_ERRORS &&
              static_cast<int>(fb::StepKind::Fill) == RLX_STEP_FILL &&
              static_cast<int>(fb::StepKind::Skip) == RLX_STEP_SKIP);

Status check_entry(const rlx_plan* plan, uint32_t entry) {
  if (plan == nullptr) return null_argument("plan");
  if (entry < plan->view->entry_count()) return {};
  return {RLX_INVALID_ARGUMENT,
          text_of("there is no entry ", entry, ", the plan has ", plan->view->entry_count())};
}

rlx_plan_info describe_header(const PlanHeader& header) {
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  info.name = "";
  info.producer = "";
  info.precision = "";
  info.format_major = header.major;
  info.format_minor = header.minor;
  info.file_bytes = header.file_bytes;
  info.weights_bytes = header.weights_bytes;
  info.state_bytes = header.state_bytes;
  info.arena_bytes = header.arena_bytes;
  info.io_bytes = header.io_bytes;
  info.index_error_bytes = header.index_error_bytes;
  info.host_bytes = header.host_bytes;
  info.target_count = static_cast<uint32_t>(std::popcount(programs_of(header)));
  info.vulkan_api_version = header.vulkan.present != 0 ? header.vulkan.api_version : 0;
  info.vulkan_features = header.vulkan.present != 0 ? header.vulkan.features : 0;
  const uint32_t ptx = header.cuda.ptx_architecture != 0 ? 1 : 0;
  info.cuda_architecture_count =
      header.cuda.present != 0 ? header.cuda.architecture_count + ptx : 0;
  return info;
}

Status get_port(const rlx_plan* plan, uint32_t entry, std::string_view what, uint32_t index,
                const flatbuffers::Vector<uint32_t>* (fb::Entry::*list)() const,
                rlx_tensor_info* info) {
  RLX_RETURN_IF_ERROR(check_entry(plan, entry));
  RLX_RETURN_IF_ERROR(check_room(info, "info"));
  const fb::Entry& record = plan->view->entry(entry);
  const flatbuffers::Vector<uint32_t>& values = *(record.*list)();
  if (index >= values.size()) return missing_index(what, index, values.size());
  give_struct(describe_value(PlanView::value(record, values.Get(index))), info);
  return {};
}

// A dim of an input or output, and what it depends on.
Status get_dim(const rlx_plan* plan, uint32_t entry, std::string_view what, uint32_t index,
               const flatbuffers::Vector<uint32_t>* (fb::Entry::*list)() const, uint32_t axis,
               rlx_dim_info* info) {
  RLX_RETURN_IF_ERROR(check_entry(plan, entry));
  RLX_RETURN_IF_ERROR(check_room(info, "info"));
  const fb::Entry& record = plan->view->entry(entry);
  const flatbuffers::Vector<uint32_t>& values = *(record.*list)();
  if (index >= values.size()) return missing_index(what, index, values.size());
  const uint32_t value = values.Get(index);
  const auto& dims = *PlanView::value(record, value).dims();
  if (axis >= dims.size()) {
    return {RLX_INVALID_ARGUMENT,
            text_of("there is no axis ", axis, ", the ", what, " has ", dims.size())};
  }
  rlx_dim_info filled = RLX_INIT(rlx_dim_info);
  filled.maximum = dims.Get(axis);
  filled.is_free = find_patch(record, fb::PatchField::ValueDim, value, axis) != nullptr ? 1 : 0;
  filled.symbol = symbol_of_dim(record, value, axis).value_or(RLX_NO_SYMBOL);
  give_struct(filled, info);
  return {};
}

static_assert(static_cast<int>(Trust::Known) == RLX_TRUST_KNOWN &&
              static_cast<int>(Trust::Signed) == RLX_TRUST_SIGNED);

// A text that one policy needs, and that no other takes.
Status take_policy_text(const char* given, std::string_view name, bool is_wanted,
                        std::string& text) {
  if (is_wanted != (given != nullptr)) {
    return {RLX_INVALID_ARGUMENT, text_of("options.", name, is_wanted ? " is NULL" : " is given",
                                          ", which goes with the policy in options.trust only")};
  }
  if (given != nullptr) text = given;
  return {};
}

Status take_trust(const rlx_plan_options& taken, TrustPolicy& trust) {
  if (taken.trust > RLX_TRUST_SIGNED || taken.reserved != 0) {
    return {RLX_INVALID_ARGUMENT,
            text_of("options.trust is ", taken.trust, " and options.reserved is ", taken.reserved,
                    ", wanted an rlx_trust and 0")};
  }
  trust.kind = static_cast<Trust>(taken.trust);
  RLX_RETURN_IF_ERROR(take_policy_text(taken.public_keys, "public_keys",
                                       trust.kind == Trust::Signed, trust.public_keys));
  return take_policy_text(taken.known_code, "known_code", trust.kind == Trust::Known,
                          trust.known_code);
}

Status take_plan_options(const rlx_plan_options* given, PlanOptions& options) {
  if (given == nullptr) return {};
  rlx_plan_options taken{};
  RLX_RETURN_IF_ERROR(take_struct(given, "options", taken, offsetof(rlx_plan_options, trust)));
  if (taken.check_weights > 1 || taken.copy_memory > 1) {
    return {RLX_INVALID_ARGUMENT,
            text_of("options.check_weights is ", taken.check_weights,
                    " and options.copy_memory is ", taken.copy_memory, ", each must be 0 or 1")};
  }
  options = {.check_weights = taken.check_weights == 1,
             .copy_memory = taken.copy_memory == 1,
             .weights_folder = taken.weights_folder == nullptr ? "" : taken.weights_folder};
  return take_trust(taken, options.trust);
}

std::vector<rlx_target_info> describe_targets(const PlanHeader& header) {
  std::vector<rlx_target_info> targets;
  for (const TargetRow& row : target_rows()) {
    if (!row.is_in(header)) continue;
    rlx_target_info info = RLX_INIT(rlx_target_info);
    info.target = static_cast<uint32_t>(row.kind);
    const std::vector<uint32_t> profiles = profiles_of(header, row.kind);
    for (const uint32_t profile : profiles) {
      info.name = header.profiles[profile].name;
      info.features = header.profiles[profile].vulkan.features;
      info.for_processors =
          header.profiles[profile].device_type == static_cast<uint32_t>(DeviceType::Processor);
      targets.push_back(info);
    }
    if (!profiles.empty()) continue;
    info.name = row.flag.data();
    info.features = row.kind == fb::TargetKind::Vulkan ? header.vulkan.features : 0;
    targets.push_back(info);
  }
  return targets;
}

const char* text_or_empty(const flatbuffers::String* string) {
  return string == nullptr ? "" : string->c_str();
}

}  // namespace

LastError& last_error() noexcept {
  thread_local LastError error;
  return error;
}

}  // namespace rlx

using rlx::guarded;
using rlx::null_argument;
using rlx::PlanView;
using rlx::Status;

const char* rlx_version(void) {
  return RLX_VERSION;
}

void rlx_plan_format(uint32_t* major, uint32_t* minor) {
  if (major != nullptr) *major = rlx::kPlanMajor;
  if (minor != nullptr) *minor = rlx::kPlanMinor;
}

const char* rlx_last_error(void) {
  return rlx::last_error().text();
}

const char* rlx_status_name(int status) {
  const auto number = static_cast<size_t>(status);
  return number < std::size(rlx::kStatusNames) ? rlx::kStatusNames[number] : "unknown status";
}

const char* rlx_dtype_name(uint32_t dtype) {
  const rlx::DTypeRow* row = rlx::dtype_row(dtype);
  return row == nullptr ? nullptr : row->name;
}

uint64_t rlx_dtype_bytes(uint32_t dtype, uint64_t count) {
  const rlx::DTypeRow* row = rlx::dtype_row(dtype);
  if (row == nullptr || count % row->block_elements != 0) return 0;
  const uint64_t blocks = count / row->block_elements;
  return blocks <= UINT64_MAX / row->block_bytes ? blocks * row->block_bytes : 0;
}

rlx_status rlx_plan_open_file(const char* path, const rlx_plan_options* options, rlx_plan** plan) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan");
    *plan = nullptr;
    if (path == nullptr) return null_argument("path");
    rlx::PlanOptions taken;
    RLX_RETURN_IF_ERROR(rlx::take_plan_options(options, taken));
    auto opened = std::make_unique<rlx_plan>();
    RLX_RETURN_IF_ERROR(PlanView::open_file(path, taken, opened->view));
    *plan = opened.release();
    return {};
  });
}

rlx_status rlx_plan_open_memory(const void* data, size_t size_bytes,
                                const rlx_plan_options* options, rlx_plan** plan) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan");
    *plan = nullptr;
    if (data == nullptr) return null_argument("data");
    rlx::PlanOptions taken;
    RLX_RETURN_IF_ERROR(rlx::take_plan_options(options, taken));
    auto opened = std::make_unique<rlx_plan>();
    RLX_RETURN_IF_ERROR(PlanView::open_memory({static_cast<const std::byte*>(data), size_bytes},
                                              taken, opened->view));
    *plan = opened.release();
    return {};
  });
}

void rlx_plan_close(rlx_plan* plan) {
  delete plan;
}

rlx_status rlx_plan_get_info(const rlx_plan* plan, rlx_plan_info* info) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan");
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    const rlx::fb::Plan& index = plan->view->index();
    rlx_plan_info filled = rlx::describe_header(plan->view->header());
    filled.name = rlx::text_or_empty(index.name());
    filled.producer = rlx::text_or_empty(index.producer());
    filled.precision = rlx::text_or_empty(index.precision());
    filled.entry_count = plan->view->entry_count();
    rlx::give_struct(filled, info);
    return {};
  });
}

rlx_status rlx_plan_preflight(const void* first_page, size_t size_bytes, const rlx_device* device,
                              rlx_plan_info* info) {
  return guarded([&]() -> Status {
    if (first_page == nullptr) return null_argument("first_page");
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    rlx::PlanHeader header{};
    RLX_RETURN_IF_ERROR(
        PlanView::open_header({static_cast<const std::byte*>(first_page), size_bytes}, header));
    rlx::give_struct(rlx::describe_header(header), info);
    return device == nullptr ? Status() : rlx::check_any_suits(header, *device->shared->device);
  });
}

rlx_status rlx_plan_get_target(const rlx_plan* plan, uint32_t target, rlx_target_info* info) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan");
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    const std::vector<rlx_target_info> targets = rlx::describe_targets(plan->view->header());
    if (target >= targets.size()) {
      return {RLX_INVALID_ARGUMENT,
              rlx::text_of("there is no target ", target, ", the plan has ", targets.size())};
    }
    rlx::give_struct(targets[target], info);
    return {};
  });
}

rlx_status rlx_plan_get_entry(const rlx_plan* plan, uint32_t entry, rlx_entry_info* info) {
  return guarded([&]() -> Status {
    RLX_RETURN_IF_ERROR(rlx::check_entry(plan, entry));
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    const rlx::fb::Entry& record = plan->view->entry(entry);
    rlx_entry_info filled = RLX_INIT(rlx_entry_info);
    filled.name = record.name()->c_str();
    filled.input_count = record.inputs()->size();
    filled.output_count = record.outputs()->size();
    rlx::give_struct(filled, info);
    return {};
  });
}

rlx_status rlx_plan_find_entry(const rlx_plan* plan, const char* name, uint32_t* entry) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan");
    if (name == nullptr) return null_argument("name");
    if (entry == nullptr) return null_argument("entry");
    std::vector<std::string_view> names;
    for (uint32_t i = 0; i < plan->view->entry_count(); ++i) {
      names.push_back(PlanView::text(plan->view->entry(i).name()));
      if (names.back() != name) continue;
      *entry = i;
      return {};
    }
    return {RLX_INVALID_ARGUMENT, rlx::text_of("the plan has no entry ", rlx::quoted(name),
                                               "; its entries are ", rlx::list_text(names))};
  });
}

rlx_status rlx_plan_get_input(const rlx_plan* plan, uint32_t entry, uint32_t input,
                              rlx_tensor_info* info) {
  return guarded(
      [&] { return rlx::get_port(plan, entry, "input", input, &rlx::fb::Entry::inputs, info); });
}

rlx_status rlx_plan_get_output(const rlx_plan* plan, uint32_t entry, uint32_t output,
                               rlx_tensor_info* info) {
  return guarded(
      [&] { return rlx::get_port(plan, entry, "output", output, &rlx::fb::Entry::outputs, info); });
}

uint32_t rlx_plan_symbol_count(const rlx_plan* plan) {
  return plan == nullptr ? 0 : plan->view->index().symbols()->size();
}

rlx_status rlx_plan_get_symbol(const rlx_plan* plan, uint32_t index, rlx_symbol_info* info) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan");
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    const auto& symbols = *plan->view->index().symbols();
    if (index >= symbols.size()) {
      return {RLX_INVALID_ARGUMENT,
              rlx::text_of("there is no symbol ", index, ", the plan has ", symbols.size())};
    }
    const rlx::fb::Symbol& symbol = *symbols.Get(index);
    const bool is_free = !symbol.bound().has_value();
    rlx_symbol_info filled = RLX_INIT(rlx_symbol_info);
    filled.name = symbol.name()->c_str();
    filled.minimum = symbol.bound().value_or(symbol.minimum());
    filled.maximum = symbol.bound().value_or(symbol.maximum());
    filled.multiple_of = is_free ? symbol.multiple_of() : 1;
    filled.is_free = is_free ? 1 : 0;
    rlx::give_struct(filled, info);
    return {};
  });
}

uint64_t rlx_plan_text_bytes(const rlx_plan* plan) {
  return plan == nullptr ? 0 : plan->view->text_section_bytes();
}

rlx_status rlx_plan_read_text(const rlx_plan* plan, void* data, size_t size_bytes) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan");
    if (data == nullptr && size_bytes != 0) return null_argument("data");
    return plan->view->read_text({static_cast<std::byte*>(data), size_bytes});
  });
}

uint32_t rlx_plan_state_count(const rlx_plan* plan) {
  return plan == nullptr ? 0 : plan->view->index().states()->size();
}

rlx_status rlx_plan_get_state(const rlx_plan* plan, uint32_t index, rlx_tensor_info* info) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return null_argument("plan");
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    const auto& states = *plan->view->index().states();
    if (index >= states.size()) {
      return {RLX_INVALID_ARGUMENT,
              rlx::text_of("there is no state ", index, ", the plan has ", states.size())};
    }
    const rlx::fb::State& state = *states.Get(index);
    rlx_tensor_info filled = RLX_INIT(rlx_tensor_info);
    filled.name = state.name()->c_str();
    filled.dtype = state.dtype();
    filled.rank = state.dims()->size();
    std::copy(state.dims()->begin(), state.dims()->end(), filled.dims);
    filled.size_bytes = state.size_bytes();
    filled.segment = RLX_STATE;
    rlx::give_struct(filled, info);
    return {};
  });
}

rlx_status rlx_plan_get_input_dim(const rlx_plan* plan, uint32_t entry, uint32_t input,
                                  uint32_t axis, rlx_dim_info* info) {
  return guarded([&] {
    return rlx::get_dim(plan, entry, "input", input, &rlx::fb::Entry::inputs, axis, info);
  });
}

rlx_status rlx_plan_get_output_dim(const rlx_plan* plan, uint32_t entry, uint32_t output,
                                   uint32_t axis, rlx_dim_info* info) {
  return guarded([&] {
    return rlx::get_dim(plan, entry, "output", output, &rlx::fb::Entry::outputs, axis, info);
  });
}
