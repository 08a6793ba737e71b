// SPDX-License-Identifier: Apache-2.0
#include "tools/python/arrays.h"

#include <array>
#include <optional>

#include "tools/python/exchange.h"

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

// nullopt: DLPack has no such type.
std::optional<nb::dlpack::dtype> dtype_for_array(uint32_t dtype) {
  for (const DtypePair& pair : kDtypes) {
    if (pair.dtype == dtype)
      return nb::dlpack::dtype{static_cast<uint8_t>(pair.code), pair.bits, 1};
  }
  return std::nullopt;
}

bool is_contiguous(const nb::dlpack::dltensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t stride = 1;
  for (int32_t axis = tensor.ndim; axis-- > 0;) {
    if (tensor.shape[axis] == 0) return true;
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != stride) return false;
    stride *= tensor.shape[axis];
  }
  return true;
}

// The type of NumPy's arrays and the module that knows the other ones.
struct Helpers {
  nb::object ndarray;
  nb::object dense;     // (value, what) -> a contiguous array in the machine's byte order
  nb::object raw;       // (value) -> (array, dtype's number) or None
  nb::object allocate;  // (dims, dtype's number, like) -> array
  nb::object deliver;   // (array, like) -> what a caller gets
};
// Lives as long as the process: Python's objects are not freed after it.
const Helpers& helpers() {
  static const Helpers* const made = [] {
    const nb::module_ arrays = nb::module_::import_("rlx._arrays");
    return new Helpers{arrays.attr("ndarray"), arrays.attr("dense"), arrays.attr("raw"),
                       arrays.attr("allocate"), arrays.attr("deliver")};
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

// An array as it was found. `keep` holds what nobody else does.
struct Found {
  nb::dlpack::dltensor tensor;
  nb::ndarray<nb::ro> keep;
};

// DLPack's numbers 0 and 1 are both CUDA's default stream.
bool is_same_stream(uint64_t a, uint64_t b) {
  return a == b || (a <= 1 && b <= 1);
}

// By the library's C functions; nullopt where it has none, or works on another stream, which
// `__dlpack__` puts in order with the session's.
std::optional<Found> describe_array(nb::handle value, const std::string& what,
                                    const CudaPlace& place) {
  const std::optional<Exchange> exchange = Exchange::of(value);
  if (!exchange) return std::nullopt;
  const std::optional<nb::dlpack::dltensor> tensor = exchange->describe(value);
  if (!tensor) return std::nullopt;
  check_place(tensor->device.device_type, tensor->device.device_id, what, place);
  if (is_cuda_memory(tensor->device.device_type)) {
    const std::optional<uint64_t> stream = exchange->stream(tensor->device);
    if (!stream || !is_same_stream(*stream, place.stream)) return std::nullopt;
  }
  return Found{.tensor = *tensor, .keep = {}};
}

template <class AnyArray>
std::optional<Found> cast_array(nb::handle value) {
  AnyArray array;
  if (!nb::try_cast(value, array, false)) return std::nullopt;
  nb::dlpack::dltensor tensor;
  tensor.data = const_cast<void*>(static_cast<const void*>(array.data()));
  tensor.device = {array.device_type(), array.device_id()};
  tensor.ndim = static_cast<int32_t>(array.ndim());
  tensor.dtype = array.dtype();
  tensor.shape = const_cast<int64_t*>(array.shape_ptr());
  tensor.strides = const_cast<int64_t*>(array.stride_ptr());
  return Found{.tensor = tensor, .keep = nb::ndarray<nb::ro>(array.handle())};
}

// The array with the producer's work on it done, or in order on the session's stream.
template <class AnyArray>
std::optional<Found> find_array(nb::handle value, const std::string& what, const CudaPlace& place) {
  if (is_numpy_array(value)) return cast_array<AnyArray>(value);
  if (std::optional<Found> described = describe_array(value, what, place)) return described;
  if (!nb::hasattr(value, "__dlpack_device__")) return cast_array<AnyArray>(value);
  const nb::object device = value.attr("__dlpack_device__")();
  const int device_type = nb::cast<int>(nb::int_(nb::object(device[0])));
  check_place(device_type, nb::cast<int>(nb::int_(nb::object(device[1]))), what, place);
  if (!is_cuda_memory(device_type)) return cast_array<AnyArray>(value);
  return cast_array<AnyArray>(value.attr("__dlpack__")(nb::arg("stream") = place.stream));
}

ArrayMemory memory_of(Found found, uint32_t dtype, nb::object source) {
  const nb::dlpack::dltensor& tensor = found.tensor;
  ArrayMemory memory{.data = tensor.data,
                     .dims = {tensor.shape, tensor.shape + tensor.ndim},
                     .size_bytes = tensor.dtype.bits / 8U,
                     .dtype = dtype,
                     .on_cuda = is_cuda_memory(tensor.device.device_type),
                     .source = std::move(source),
                     .keep = std::move(found.keep)};
  for (const uint64_t dim : memory.dims) memory.size_bytes *= dim;
  return memory;
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

TensorArgument take_array(nb::handle value, const std::string& what, const CudaPlace& place) {
  using Array = nb::ndarray<nb::ro>;
  nb::object source = nb::borrow(value);
  std::optional<uint32_t> dtype;
  std::optional<Found> found = find_array<Array>(value, what, place);
  if (found) dtype = dtype_of_array(found->tensor.dtype);
  const bool is_copied = !found || !is_contiguous(found->tensor);
  if (is_copied) {
    source = helpers().dense(value, what);
    if (source.is_none()) refuse_type(value, what);
    const nb::object raw = helpers().raw(source);
    found = find_array<Array>(raw.is_none() ? source : nb::object(raw[0]), what, place);
    if (!found) refuse_type(value, what);
    dtype = raw.is_none() ? dtype_of_array(found->tensor.dtype)
                          : std::optional(nb::cast<uint32_t>(nb::object(raw[1])));
  }
  if (!dtype) refuse_type(value, what);
  return {memory_of(std::move(*found), *dtype, std::move(source)), is_copied,
          is_numpy_array(value)};
}

nb::object make_array(std::span<const uint64_t> dims, uint32_t dtype, nb::handle like) {
  const std::optional<Exchange> exchange = like.is_valid() ? Exchange::of(like) : std::nullopt;
  const std::optional<nb::dlpack::dtype> type = dtype_for_array(dtype);
  if (exchange && type) {
    const std::optional<nb::dlpack::dltensor> beside = exchange->describe(like);
    nb::object made = beside ? exchange->allocate(dims, *type, beside->device) : nb::object();
    if (made.is_valid()) return made;
  }
  const nb::object shape = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t axis = 0; axis < dims.size(); ++axis)
    PyTuple_SetItem(shape.ptr(), static_cast<Py_ssize_t>(axis),
                    PyLong_FromUnsignedLongLong(dims[axis]));
  return helpers().allocate(shape, dtype, like.is_valid() ? nb::borrow(like) : nb::none());
}

nb::object delivered(nb::object array, nb::handle like) {
  if (!like.is_valid() || Exchange::of(like) || is_numpy_array(array)) return array;
  return helpers().deliver(array, like);
}

nb::object wrap_memory(uint64_t address, const std::vector<size_t>& dims, uint32_t dtype,
                       std::optional<int> cuda_ordinal, const nb::object& owner) {
  const std::optional<nb::dlpack::dtype> type = dtype_for_array(dtype);
  if (!type)
    throw DtypeError(RLX_INVALID_ARGUMENT,
                     "there is no element type " + std::to_string(dtype) + " in DLPack");
  const int device_type = cuda_ordinal ? nb::device::cuda::value : nb::device::cpu::value;
  return nb::cast(
      nb::ndarray<nb::array_api>(reinterpret_cast<void*>(address), dims.size(), dims.data(),
                                 owner.is_none() ? nb::handle() : nb::handle(owner), nullptr, *type,
                                 device_type, cuda_ordinal.value_or(0)),
      nb::rv_policy::reference);
}

ArrayMemory take_writable(nb::handle value, const std::string& what, const CudaPlace& place) {
  std::optional<Found> found = find_array<nb::ndarray<>>(value, what, place);
  std::optional<uint32_t> dtype;
  if (found) {
    dtype = dtype_of_array(found->tensor.dtype);
  } else if (const nb::object raw = helpers().raw(value); !raw.is_none()) {
    found = find_array<nb::ndarray<>>(nb::object(raw[0]), what, place);
    dtype = nb::cast<uint32_t>(nb::object(raw[1]));
  }
  if (!found && nb::hasattr(value, "flags") && nb::hasattr(value.attr("flags"), "writeable") &&
      !nb::cast<bool>(value.attr("flags").attr("writeable")))
    throw Error(RLX_INVALID_ARGUMENT, what + " is to be written to an array that is read-only");
  if (!found) refuse_type(value, what + " (which is written to)");
  if (!dtype) refuse_type(value, what);
  if (!is_contiguous(found->tensor))
    throw Error(RLX_INVALID_ARGUMENT,
                what + " is to be written to an array that is not contiguous");
  return memory_of(std::move(*found), *dtype, nb::borrow(value));
}

}  // namespace rlx::python
