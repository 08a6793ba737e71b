// SPDX-License-Identifier: Apache-2.0
#include "tools/embed/embed.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string_view>

#include "runtime/base/output_file.h"
#include "runtime/include/rlx.h"

namespace rlx {
namespace {

constexpr uint64_t kPlanBytesLimit = uint64_t{1} << 31;
constexpr size_t kBytesPerLine = 32;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The name of an entry as a part of a C name.
std::string c_name(std::string_view text) {
  std::string name(text);
  for (char& c : name) {
    if (!is_letter(c) && !is_digit(c)) c = '_';
  }
  return name;
}

// A name inside a comment.
std::string comment_text(std::string_view text) {
  std::string shown(text);
  for (char& c : shown) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0 || c == '\\') c = '?';
  }
  return shown;
}

struct Closer {
  void operator()(rlx_plan* plan) const { rlx_plan_close(plan); }
};
using OwnedPlan = std::unique_ptr<rlx_plan, Closer>;

std::string tensor_text(const rlx_tensor_info& info, const std::vector<rlx_dim_info>& dims,
                        const rlx_plan* plan) {
  std::string text = comment_text(info.name) + " " + rlx_dtype_name(info.dtype) + "[";
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    text += axis == 0 ? "" : ",";
    auto symbol = RLX_INIT(rlx_symbol_info);
    if (dims[axis].is_free != 0 && dims[axis].symbol != RLX_NO_SYMBOL &&
        rlx_plan_get_symbol(plan, dims[axis].symbol, &symbol) == RLX_OK) {
      text += comment_text(symbol.name);
    } else {
      text += (dims[axis].is_free != 0 ? "up to " : "") + std::to_string(dims[axis].maximum);
    }
  }
  return text + "]";
}

// "//   input x f32[batch,3]" for each tensor of an entry.
template <class GetTensor, class GetDim>
std::string tensors_text(const rlx_plan* plan, uint32_t entry, uint32_t count,
                         const std::string& kind, GetTensor* get_tensor, GetDim* get_dim) {
  std::string text;
  for (uint32_t i = 0; i < count; ++i) {
    auto info = RLX_INIT(rlx_tensor_info);
    if (get_tensor(plan, entry, i, &info) != RLX_OK) continue;
    std::vector<rlx_dim_info> dims(info.rank, RLX_INIT(rlx_dim_info));
    for (uint32_t axis = 0; axis < info.rank; ++axis) get_dim(plan, entry, i, axis, &dims[axis]);
    text += "  //   " + kind + " " + tensor_text(info, dims, plan) + "\n";
  }
  return text;
}

// One number for each entry, with what it takes and gives.
std::string entries_text(const rlx_plan* plan, const std::string& name) {
  auto info = RLX_INIT(rlx_plan_info);
  if (rlx_plan_get_info(plan, &info) != RLX_OK) return "";
  std::string text = "// Entries, for rlx_session_run and its like.\nenum " + name + "_entry {\n";
  std::vector<std::string> taken;
  for (uint32_t entry = 0; entry < info.entry_count; ++entry) {
    auto row = RLX_INIT(rlx_entry_info);
    if (rlx_plan_get_entry(plan, entry, &row) != RLX_OK) continue;
    std::string own = name + "_entry_" + c_name(row.name);
    if (std::find(taken.begin(), taken.end(), own) != taken.end())
      own += "_" + std::to_string(entry);
    taken.push_back(own);
    text += tensors_text(plan, entry, row.input_count, "input", rlx_plan_get_input,
                         rlx_plan_get_input_dim);
    text += tensors_text(plan, entry, row.output_count, "output", rlx_plan_get_output,
                         rlx_plan_get_output_dim);
    text += "  " + own + " = " + std::to_string(entry) + ",\n";
  }
  return text + "};\n";
}

std::string header_text(const rlx_plan* plan, const std::string& name) {
  auto info = RLX_INIT(rlx_plan_info);
  const bool known = rlx_plan_get_info(plan, &info) == RLX_OK;
  const std::string guard = name + "_plan_h";
  std::string text = "// The plan \"" + (known ? comment_text(info.name) : "") +
                     "\" as a part of the program; written by rlxc --embed.\n";
  text += "#ifndef " + guard + "\n#define " + guard + "\n\n#include <rlx.h>\n\n";
  text += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
  text += "extern const unsigned char " + name + "_plan[];\nextern const size_t " + name +
          "_plan_bytes;\n\n";
  text += entries_text(plan, name);
  text +=
      "\n// Opens and verifies the plan where it lies: nothing is copied but what goes to the "
      "device.\nstatic inline rlx_status " +
      name + "_open(rlx_plan** plan) {\n  return rlx_plan_open_memory(" + name + "_plan, " + name +
      "_plan_bytes, NULL, plan);\n}\n\n";
  return text + "#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
}

std::string source_text(std::span<const std::byte> plan, const std::string& name,
                        const std::string& header) {
  std::string text = "// Written by rlxc --embed.\n#include \"" + header + "\"\n\nconst size_t " +
                     name + "_plan_bytes = " + std::to_string(plan.size()) +
                     ";\n_Alignas(64) const unsigned char " + name + "_plan[] = {";
  text.reserve(text.size() + plan.size() * 4);
  for (size_t i = 0; i < plan.size(); ++i) {
    text += i % kBytesPerLine == 0 ? "\n" : "";
    text += std::to_string(std::to_integer<unsigned>(plan[i])) + ",";
  }
  return text + "\n};\n";
}

// A file that is there once it is committed.
Status write_uncommitted(const std::string& path, std::span<const std::byte> bytes,
                         OutputFile& file) {
  RLX_RETURN_IF_ERROR(OutputFile::create(path, OutputUse::Result, file));
  return file.write_at(0, bytes);
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

std::optional<std::string> find_embed_misuse(const std::string& name, const std::string& output) {
  const bool is_name =
      !name.empty() && is_letter(name.front()) &&
      std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
  if (!is_name) {
    return "--embed \"" + name +
           "\" is no C name: letters, digits and _, the first no digit; it begins the names of "
           "what the program sees";
  }
  if (output.ends_with(".c") || output.ends_with(".o")) return std::nullopt;
  return "--embed writes C source or an object file: -o \"" + output +
         "\" ends in neither .c nor .o";
}

std::string embed_header_path(const std::string& output) {
  return output.substr(0, output.size() - 2) + ".h";
}

Status write_embedded(std::span<const std::byte> plan, const std::string& name,
                      const std::string& output) {
  if (plan.size() >= kPlanBytesLimit) {
    return {RLX_INVALID_ARGUMENT,
            "the plan has " + std::to_string(plan.size()) +
                " bytes; code addresses less than 2 GiB of its own program: open the plan's file"};
  }
  rlx_plan* opened = nullptr;
  const rlx_status status = rlx_plan_open_memory(plan.data(), plan.size(), nullptr, &opened);
  if (status != RLX_OK) return {status, rlx_last_error()};
  const OwnedPlan owned(opened);
  const std::string header = embed_header_path(output);
  const std::string include = header.substr(header.find_last_of('/') + 1);
  std::vector<std::byte> object;
  std::string source;
  if (output.ends_with(".c")) {
    source = source_text(plan, name, include);
  } else {
    RLX_RETURN_IF_ERROR(make_object(plan, name, object));
  }
  // Neither takes its place where there is no room for the other.
  OutputFile header_file;
  OutputFile file;
  RLX_RETURN_IF_ERROR(write_uncommitted(header, bytes_of(header_text(opened, name)), header_file));
  RLX_RETURN_IF_ERROR(write_uncommitted(output, object.empty() ? bytes_of(source) : object, file));
  RLX_RETURN_IF_ERROR(header_file.commit());
  return file.commit();
}

}  // namespace rlx
