// SPDX-License-Identifier: Apache-2.0
#include "tools/python/arrays.h"

#include <array>
#include <optional>

namespace rlx::python {
namespace {

using Code = nb::dlpack::dtype_code;

struct DtypePair {
  Code code;
  uint8_t bits;
  rlx_dtype dtype;
};
constexpr std::array kDtypes = {DtypePair{Code::Float, 32, RLX_F32},
                                DtypePair{Code::Float, 16, RLX_F16},
                                DtypePair{Code::Bfloat, 16, RLX_BF16},
                                DtypePair{Code::Float, 64, RLX_F64},
                                DtypePair{Code::Int, 8, RLX_I8},
                                DtypePair{Code::UInt, 8, RLX_U8},
                                DtypePair{Code::Int, 16, RLX_I16},
                                DtypePair{Code::Int, 32, RLX_I32},
                                DtypePair{Code::UInt, 32, RLX_U32},
                                DtypePair{Code::Int, 64, RLX_I64},
                                DtypePair{Code::Bool, 8, RLX_BOOL},
                                DtypePair{Code::Complex, 64, RLX_C64},
                                DtypePair{Code::Float8_E4M3FN, 8, RLX_F8E4M3},
                                DtypePair{Code::Float8_E5M2, 8, RLX_F8E5M2}};

std::optional<uint32_t> dtype_of_array(nb::dlpack::dtype dtype) {
  for (const DtypePair& pair : kDtypes) {
    if (dtype.lanes == 1 && static_cast<uint8_t>(pair.code) == dtype.code &&
        pair.bits == dtype.bits)
      return pair.dtype;
  }
  return std::nullopt;
}

template <class AnyArray>
bool is_contiguous(const AnyArray& array) {
  int64_t stride = 1;
  for (size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) == 0) return true;
    if (array.shape(axis) != 1 && array.stride(axis) != stride) return false;
    stride *= static_cast<int64_t>(array.shape(axis));
  }
  return true;
}

// The type of NumPy's arrays and the module that knows the other ones.
struct Helpers {
  nb::object ndarray;
  nb::object dense;     // (value, what) -> a contiguous array in the machine's byte order
  nb::object raw;       // (value) -> (array, dtype's number) or None
  nb::object allocate;  // (dims, dtype's number, like) -> array
};
// Lives as long as the process: Python's objects are not freed after it.
const Helpers& helpers() {
  static const Helpers* const made = [] {
    const nb::module_ arrays = nb::module_::import_("rlx._arrays");
    return new Helpers{arrays.attr("ndarray"), arrays.attr("dense"), arrays.attr("raw"),
                       arrays.attr("allocate")};
  }();
  return *made;
}

bool is_numpy_array(nb::handle value) {
  return value.type().is(helpers().ndarray);
}

std::string name_of_type(nb::handle value) {
  return nb::cast<std::string>(nb::str(value.type().attr("__name__")));
}

constexpr bool is_cuda_memory(int device_type) {
  return device_type == nb::device::cuda::value || device_type == nb::device::cuda_managed::value;
}

void check_place(int device_type, int device_id, const std::string& what, const CudaPlace& place) {
  if (device_type == nb::device::cpu::value || device_type == nb::device::cuda_host::value) return;
  if (is_cuda_memory(device_type) && place.is_cuda && device_id == place.ordinal) return;
  const std::string where = is_cuda_memory(device_type)
                                ? "cuda:" + std::to_string(device_id)
                                : "a device of DLPack's type " + std::to_string(device_type);
  throw Error(RLX_INVALID_ARGUMENT, what + " lies on " + where + ", the session runs on " +
                                        place.device +
                                        "; bring it to host memory or to the session's device");
}

// The array with the producer's work on it done, or in order on the session's stream.
template <class AnyArray>
std::optional<AnyArray> import_array(nb::handle value, const std::string& what,
                                     const CudaPlace& place) {
  AnyArray array;
  if (is_numpy_array(value))
    return nb::try_cast(value, array, false) ? std::optional(array) : std::nullopt;
  if (!nb::hasattr(value, "__dlpack_device__"))
    return nb::try_cast(value, array, false) ? std::optional(array) : std::nullopt;
  const nb::object device = value.attr("__dlpack_device__")();
  const int device_type = nb::cast<int>(nb::int_(nb::object(device[0])));
  check_place(device_type, nb::cast<int>(nb::int_(nb::object(device[1]))), what, place);
  if (!is_cuda_memory(device_type))
    return nb::try_cast(value, array, false) ? std::optional(array) : std::nullopt;
  const nb::object capsule = value.attr("__dlpack__")(nb::arg("stream") = place.stream);
  return nb::try_cast(capsule, array, false) ? std::optional(array) : std::nullopt;
}

[[noreturn]] void refuse_type(nb::handle value, const std::string& what) {
  std::string shown = name_of_type(value);
  if (nb::hasattr(value, "dtype")) {
    const nb::object dtype = value.attr("dtype");
    shown += " of " + nb::cast<std::string>(nb::str(dtype));
  }
  throw DtypeError(RLX_INVALID_ARGUMENT,
                   what + " got " + shown +
                       ", wanted an array: NumPy's or one that speaks DLPack, of an element type "
                       "that rlx has");
}

}  // namespace

std::vector<uint64_t> TensorArgument::dims() const {
  std::vector<uint64_t> dims(array.ndim());
  for (size_t axis = 0; axis < dims.size(); ++axis) dims[axis] = array.shape(axis);
  return dims;
}

TensorArgument take_array(nb::handle value, const std::string& what, const CudaPlace& place) {
  TensorArgument taken;
  taken.source = nb::borrow(value);
  taken.is_numpy = is_numpy_array(value);
  std::optional<uint32_t> dtype;
  std::optional<Array> array = import_array<Array>(value, what, place);
  if (array) dtype = dtype_of_array(array->dtype());
  if (!array || !is_contiguous(*array)) {
    const nb::object dense = helpers().dense(value, what);
    if (dense.is_none()) refuse_type(value, what);
    taken.was_copied = true;
    const nb::object raw = helpers().raw(dense);
    array = import_array<Array>(raw.is_none() ? dense : nb::object(raw[0]), what, place);
    if (!array) refuse_type(value, what);
    dtype = raw.is_none() ? dtype_of_array(array->dtype())
                          : std::optional(nb::cast<uint32_t>(nb::object(raw[1])));
  }
  if (!dtype) refuse_type(value, what);
  taken.array = *array;
  taken.dtype = *dtype;
  taken.on_cuda = is_cuda_memory(array->device_type());
  return taken;
}

nb::object make_array(std::span<const uint64_t> dims, uint32_t dtype, nb::handle like) {
  const nb::object shape = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t axis = 0; axis < dims.size(); ++axis)
    PyTuple_SetItem(shape.ptr(), static_cast<Py_ssize_t>(axis),
                    PyLong_FromUnsignedLongLong(dims[axis]));
  return helpers().allocate(shape, dtype, like.is_valid() ? nb::borrow(like) : nb::none());
}

nb::object wrap_memory(uint64_t address, const std::vector<size_t>& dims, uint32_t dtype,
                       std::optional<int> cuda_ordinal) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.dtype != dtype) continue;
    const nb::dlpack::dtype type{static_cast<uint8_t>(pair.code), pair.bits, 1};
    const int device_type = cuda_ordinal ? nb::device::cuda::value : nb::device::cpu::value;
    return nb::cast(nb::ndarray<nb::array_api>(reinterpret_cast<void*>(address), dims.size(),
                                               dims.data(), nb::handle(), nullptr, type,
                                               device_type, cuda_ordinal.value_or(0)),
                    nb::rv_policy::reference);
  }
  throw DtypeError(RLX_INVALID_ARGUMENT,
                   "there is no element type " + std::to_string(dtype) + " in DLPack");
}

WritableArgument take_writable(nb::handle value, const std::string& what, const CudaPlace& place) {
  const nb::object raw = helpers().raw(value);
  const nb::object given = raw.is_none() ? nb::borrow(value) : nb::object(raw[0]);
  const auto array = import_array<nb::ndarray<>>(given, what, place);
  if (!array) refuse_type(value, what + " (which is written to)");
  const auto dtype = raw.is_none() ? dtype_of_array(array->dtype())
                                   : std::optional(nb::cast<uint32_t>(nb::object(raw[1])));
  if (!dtype) refuse_type(value, what);
  if (!is_contiguous(*array))
    throw Error(RLX_INVALID_ARGUMENT,
                what + " is to be written to an array that is not contiguous");
  return {.array = *array,
          .dtype = *dtype,
          .on_cuda = is_cuda_memory(array->device_type()),
          .source = nb::borrow(value)};
}

}  // namespace rlx::python
