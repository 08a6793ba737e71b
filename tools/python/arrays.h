// SPDX-License-Identifier: Apache-2.0
// Arrays of Python as tensors: NumPy's, and whatever speaks DLPack, on the host or on a CUDA
// device.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/include/rlx.hpp"

namespace rlx::python {

namespace nb = nanobind;

// A wrong element type, with the library's sentence: becomes a TypeError.
class DtypeError : public Error {
 public:
  using Error::Error;
};

// Dense and row-major memory of an array. It lives as long as this does.
struct ArrayMemory {
  void* data = nullptr;
  std::vector<uint64_t> dims;
  uint64_t size_bytes = 0;
  uint32_t dtype = 0;  // rlx_dtype
  bool on_cuda = false;
  nb::object source;         // whose memory it is: what was given, or a dense copy of that
  nb::ndarray<nb::ro> keep;  // DLPack's hold of it, where there is one
};

struct TensorArgument : ArrayMemory {
  bool was_copied = false;  // it was not contiguous, or in another byte order
  bool is_numpy = true;
};

// Where CUDA tensors must lie, and the stream on which they are used, as DLPack numbers it.
struct CudaPlace {
  bool is_cuda = false;  // of the session
  int ordinal = 0;
  uint64_t stream = 1;
  std::string device;  // "vulkan:0", for messages
};

// Takes `value`, which was given for `what` ("input \"x\""). Throws DtypeError for what is no array
// or has an element type that rlx has not, Error with RLX_INVALID_ARGUMENT for a tensor of another
// device or one on a device that is not contiguous.
TensorArgument take_array(nb::handle value, const std::string& what, const CudaPlace& place);

// An array to read into, as `like` is made: a NumPy array or, for a tensor of PyTorch or CuPy, one
// of these on the same device, for one of JAX on a CUDA device memory of rlx's own. `like` may be
// null: NumPy.
nb::object make_array(std::span<const uint64_t> dims, uint32_t dtype, nb::handle like);

// What a caller gets of an array that make_array made, once its values are there: the array, or for
// memory of rlx's own an array of the library that `like` is of.
nb::object delivered(nb::object array, nb::handle like);

// The caller's memory as an array that speaks DLPack: on CUDA's device of that ordinal, or the host
// where there is none. It keeps `owner`; with None nobody keeps the memory but the caller.
nb::object wrap_memory(uint64_t address, const std::vector<size_t>& dims, uint32_t dtype,
                       std::optional<int> cuda_ordinal, const nb::object& owner);

// The memory of an array that make_array made or the caller gave for an output.
ArrayMemory take_writable(nb::handle value, const std::string& what, const CudaPlace& place);

}  // namespace rlx::python
