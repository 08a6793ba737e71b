// SPDX-License-Identifier: Apache-2.0
// Errors of rlx.hpp as the exceptions of rlx._errors.
#pragma once

#include <nanobind/nanobind.h>

#include "runtime/include/rlx.hpp"

namespace rlx::python {

// Makes an exception of this type, with sentence and status, Python's present one.
inline void raise_as(const nanobind::object& type, const Error& error) {
  const nanobind::object made = type(error.what(), static_cast<int>(error.status()));
  PyErr_SetObject(made.type().ptr(), made.ptr());
}

// The type that rlx._errors has for the status.
inline void raise_by_status(const Error& error) {
  const nanobind::module_ errors = nanobind::module_::import_("rlx._errors");
  raise_as(errors.attr("by_status")(static_cast<int>(error.status())), error);
}

}  // namespace rlx::python
