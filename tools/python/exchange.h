// SPDX-License-Identifier: Apache-2.0
// Arrays of libraries that hand out DLPack's C functions: described and made without a call of
// Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <span>

namespace rlx::python {

namespace nb = nanobind;

// What a type offers as `__dlpack_c_exchange_api__` (DLPack 1.3; PyTorch 2.10 and later). The
// interpreter's lock is held in all calls.
class Exchange {
 public:
  // Of the value's type; nullopt where it offers nothing, or another major version.
  static std::optional<Exchange> of(nb::handle value);

  // The array's memory, for as long as the caller holds the array and does not resize it; nullopt
  // where memory alone does not say what the array is. The library's work on it may be under way.
  [[nodiscard]] std::optional<nb::dlpack::dltensor> describe(nb::handle value) const;

  // The stream on which the library works at present; nullopt: it does not say.
  [[nodiscard]] std::optional<uint64_t> stream(nb::dlpack::device device) const;

  // A new array; not valid where the library refuses.
  [[nodiscard]] nb::object allocate(std::span<const uint64_t> dims, nb::dlpack::dtype dtype,
                                    nb::dlpack::device device) const;

  struct Functions;  // DLPack's table

 private:
  Exchange(const Functions& functions, bool may_negate)
      : functions_(functions), may_negate_(may_negate) {}

  const Functions& functions_;  // the library's, for ever
  bool
      may_negate_;  // PyTorch's views of other elements' negatives, which their memory does not say
};

}  // namespace rlx::python
