// SPDX-License-Identifier: Apache-2.0
// Errors of rlx.hpp as the exceptions of rlx._errors.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>

#include "runtime/include/rlx.hpp"
#include "tools/python/arrays.h"

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

// Every module of the package has this one: the first that is asked answers for all of them.
inline void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const DtypeError& error) {
    raise_as(nanobind::module_::import_("rlx._errors").attr("DtypeError"), error);
  } catch (const Error& error) {
    raise_by_status(error);
  }
}

}  // namespace rlx::python
