// SPDX-License-Identifier: Apache-2.0
#include "tools/python/exchange.h"

#include <vector>

namespace rlx::python {

// DLPackExchangeAPI of dlpack.h. Functions give 0, or -1 and leave an exception of Python.
struct Exchange::Functions {
  uint32_t major_version;
  uint32_t minor_version;
  const Functions* older;
  int (*allocate)(nb::dlpack::dltensor* prototype, void** managed, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*export_managed)(void* array, void** managed);
  int (*import_managed)(void* managed, void** array);  // takes the tensor
  int (*describe)(void* array, nb::dlpack::dltensor* tensor);
  int (*current_stream)(int device_type, int32_t device_id, void** stream);
};

namespace {

constexpr uint32_t kMajorVersion = 1;

bool is_complex(nb::dlpack::dtype dtype) {
  return dtype.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Complex);
}

uint64_t element_count(const nb::dlpack::dltensor& tensor) {
  uint64_t count = 1;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis)
    count *= static_cast<uint64_t>(tensor.shape[axis]);
  return count;
}

}  // namespace

std::optional<Exchange> Exchange::of(nb::handle value) {
  const nb::handle type = value.type();
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (capsule.is_none()) return std::nullopt;
  const auto* functions =
      static_cast<const Functions*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (functions == nullptr) PyErr_Clear();
  while (functions != nullptr && functions->major_version != kMajorVersion)
    functions = functions->older;
  if (functions == nullptr || functions->describe == nullptr) return std::nullopt;
  return Exchange(*functions, nb::hasattr(type, "is_neg"));
}

std::optional<nb::dlpack::dltensor> Exchange::describe(nb::handle value) const {
  nb::dlpack::dltensor tensor;
  if (functions_.describe(value.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const bool lies_nowhere = tensor.data == nullptr && element_count(tensor) != 0;
  if (lies_nowhere || is_complex(tensor.dtype)) return std::nullopt;  // complex: conjugates
  if (may_negate_ && nb::cast<bool>(value.attr("is_neg")())) return std::nullopt;
  tensor.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  tensor.byte_offset = 0;
  return tensor;
}

std::optional<uint64_t> Exchange::stream(nb::dlpack::device device) const {
  void* stream = nullptr;
  if (functions_.current_stream(device.device_type, device.device_id, &stream) == 0)
    return reinterpret_cast<uint64_t>(stream);
  PyErr_Clear();
  return std::nullopt;
}

nb::object Exchange::allocate(std::span<const uint64_t> dims, nb::dlpack::dtype dtype,
                              nb::dlpack::device device) const {
  std::vector<int64_t> shape(dims.begin(), dims.end());
  nb::dlpack::dltensor prototype;
  prototype.device = device;
  prototype.ndim = static_cast<int32_t>(shape.size());
  prototype.dtype = dtype;
  prototype.shape = shape.data();
  void* managed = nullptr;
  const auto ignore = [](void*, const char*, const char*) {};
  if (functions_.allocate(&prototype, &managed, nullptr, ignore) != 0) return {};
  void* array = nullptr;
  if (functions_.import_managed(managed, &array) == 0)
    return nb::steal(static_cast<PyObject*>(array));
  PyErr_Clear();
  return {};
}

}  // namespace rlx::python
