// SPDX-License-Identifier: Apache-2.0
// A plan as a part of a program: C source or an object file with its bytes, and a header with what
// opens it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace rlx {

// What is wrong with `name`, which becomes the beginning of C names, or with `output`, whose ending
// says what is written (.c or .o); nothing where all is well.
std::optional<std::string> find_embed_misuse(const std::string& name, const std::string& output);

// The name of the header that stands beside `output`: its stem and ".h".
std::string embed_header_path(const std::string& output);

// Writes `output` and its header. RLX_INVALID_PLAN for bytes that are no sound plan; RLX_IO_ERROR
// where a file cannot be written; RLX_INVALID_ARGUMENT for a plan of 2 GiB or more, which no code
// of a program can address, and for an object file on a machine whose format is not known here.
// Precondition: find_embed_misuse found nothing.
Status write_embedded(std::span<const std::byte> plan, const std::string& name,
                      const std::string& output);

// The object file's bytes: ELF of this machine with the symbols NAME_plan and NAME_plan_bytes in
// .rodata.
Status make_object(std::span<const std::byte> plan, const std::string& name,
                   std::vector<std::byte>& object);

}  // namespace rlx
