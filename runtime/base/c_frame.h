// SPDX-License-Identifier: Apache-2.0
// The frame of every function of a C interface: no exception leaves, errors become a code and a
// sentence, structs carry their size.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <type_traits>

#include "runtime/base/status.h"
#include "runtime/base/text.h"

namespace rlx {

// The sentence of a thread's last failed call, "" if its last call succeeded. Of fixed size, so
// that an error can be told when memory has run out.
class LastError {
 public:
  // Both return the code.
  rlx_status remember(const Status& status) noexcept {
    return remember(status.code(), status.message().c_str());
  }
  rlx_status remember(rlx_status code, const char* message) noexcept {
    std::snprintf(text_.data(), text_.size(), "%s", code == RLX_OK ? "" : message);
    return code;
  }
  [[nodiscard]] const char* text() const noexcept { return text_.data(); }

 private:
  static constexpr size_t kMostBytes = 4096;
  std::array<char, kMostBytes> text_{};
};

// Runs the body of a C function; what it returns or throws is remembered.
template <class Body>
rlx_status guarded(LastError& last_error, const Body& body) noexcept {
  try {
    return last_error.remember(body());
  } catch (const std::bad_alloc&) {
    return last_error.remember(RLX_OUT_OF_HOST_MEMORY, "out of host memory");
  } catch (const std::exception& error) {
    return last_error.remember(RLX_INTERNAL_ERROR, error.what());
  } catch (...) {
    return last_error.remember(RLX_INTERNAL_ERROR, "an unknown exception");
  }
}

inline Status null_argument(std::string_view name) {
  return {RLX_INVALID_ARGUMENT, text_of("argument ", name, " is NULL")};
}

// A struct this large was not made by any version of the header.
inline constexpr size_t kMaxStructBytes = 4096;

// A struct that the caller filled, as this version knows it.
//
// `first_size`: of the struct in the first header that had it; fields that a caller's header does
// not have yet are 0.
template <class Struct>
Status take_struct(const Struct* given, std::string_view name, Struct& taken,
                   size_t first_size = sizeof(Struct)) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (given == nullptr) return null_argument(name);
  if (given->struct_size < first_size || given->struct_size > kMaxStructBytes) {
    return {RLX_INVALID_ARGUMENT,
            text_of("argument ", name, " has struct_size ", given->struct_size, ", wanted ",
                    sizeof(Struct), "; set it with RLX_INIT")};
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const size_t known = std::min(sizeof(Struct), given->struct_size);
  const bool unknown_set = std::any_of(bytes + known, bytes + given->struct_size,
                                       [](unsigned char byte) { return byte != 0; });
  if (unknown_set) {
    return {
        RLX_INVALID_ARGUMENT,
        text_of("argument ", name, " sets a field that this version of the library does not know")};
  }
  std::memcpy(&taken, given, known);
  return {};
}

// Checks a struct that the library is to fill.
template <class Struct>
Status check_room(const Struct* out, std::string_view name) {
  if (out == nullptr) return null_argument(name);
  if (out->struct_size >= sizeof(Struct) && out->struct_size <= kMaxStructBytes) return {};
  return {RLX_INVALID_ARGUMENT, text_of("argument ", name, " has struct_size ", out->struct_size,
                                        ", wanted ", sizeof(Struct), "; set it with RLX_INIT")};
}

template <class Struct>
void give_struct(Struct filled, Struct* out) {
  filled.struct_size = out->struct_size;
  std::memcpy(out, &filled, sizeof(Struct));
}

}  // namespace rlx
