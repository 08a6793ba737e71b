# SPDX-License-Identifier: Apache-2.0
"""What NumPy, PyTorch, CuPy and JAX each want to be asked in their own words: dense copies, raw bits of element types that NumPy lacks,
new arrays beside given ones. The extension calls this; it is imported with the first array."""
import sys

import numpy as np
from numpy import ndarray  # noqa: F401  for the extension

# By rlx_dtype's numbers. NumPy has no bf16 and no f8: ml_dtypes has them.
NAMES = ("f32", "f16", "bf16", "f64", "i8", "u8", "i16", "i32", "u32", "i64", "bool", "c64", "f8e4m3", "f8e5m2")
_NUMPY_NAMES = {0: "float32", 1: "float16", 3: "float64", 4: "int8", 5: "uint8", 6: "int16", 7: "int32", 8: "uint32", 9: "int64",
                10: "bool", 11: "complex64"}
_NUMPY = {number: np.dtype(name) for number, name in _NUMPY_NAMES.items()}
_EXTENDED = {2: "bfloat16", 12: "float8_e4m3fn", 13: "float8_e5m2"}
_TORCH = {0: "float32", 1: "float16", 2: "bfloat16", 3: "float64", 4: "int8", 5: "uint8", 6: "int16", 7: "int32", 8: "uint32",
          9: "int64", 10: "bool", 11: "complex64", 12: "float8_e4m3fn", 13: "float8_e5m2"}
_CUDA = 2  # DLPack's kind of device
_empty = np.empty


def numpy_dtype(number):
    """NumPy's dtype of an rlx_dtype. TypeError where only ml_dtypes has it and is not installed."""
    dtype = _NUMPY.get(number)
    if dtype is not None:
        return dtype
    if number not in _EXTENDED:
        raise TypeError(f"element type {number} of a plan has no counterpart in NumPy")
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"NumPy has no {NAMES[number]}: install ml_dtypes, or give PyTorch's tensors") from None
    dtype = _NUMPY[number] = np.dtype(getattr(ml_dtypes, _EXTENDED[number]))
    return dtype


def number_of(dtype):
    """The rlx_dtype of NumPy's dtype."""
    for number, name in (*_NUMPY_NAMES.items(), *_EXTENDED.items()):
        if dtype.name == name:
            return number
    raise TypeError(f"a plan has no element type {dtype.name}")


def library(value):
    """"torch", "cupy", "jax" or "" by the array's type."""
    root = type(value).__module__.partition(".")[0]
    if root in ("torch", "cupy"):
        return root
    if root in ("jax", "jaxlib"):
        return "jax"
    torch = sys.modules.get("torch")  # subclasses: torch.nn.Parameter, a user's own
    return "torch" if torch is not None and isinstance(value, torch.Tensor) else ""


def dense(value, what):
    """A contiguous array in the machine's byte order with the elements of `value`; None for what is no array."""
    name = library(value)
    if name == "torch":
        return value.detach().resolve_conj().resolve_neg().contiguous()
    if name == "cupy":
        return sys.modules["cupy"].ascontiguousarray(value)
    if not isinstance(value, np.ndarray):
        if isinstance(value, np.generic):
            return np.asarray(value)
        if not hasattr(value, "__dlpack_device__"):
            return None
        if int(value.__dlpack_device__()[0]) not in (1, 3):
            raise ValueError(f"{what} lies in device memory and is not contiguous")
        value = np.from_dlpack(value)
    if value.dtype.hasobject or value.dtype.fields:
        return None
    return np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("=")).reshape(value.shape)


def raw(value):
    """(array of unsigned integers over the same bytes, number of the dtype) for NumPy's arrays of ml_dtypes; None for others."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "V":
        return None
    for number, name in _EXTENDED.items():
        if value.dtype.name == name:
            return value.view(np.uint16 if value.dtype.itemsize == 2 else np.uint8), number
    return None


def deliver(array, like):
    """What a caller gets of an array that allocate() made: JAX's array over the same memory for memory of rlx's own."""
    return sys.modules["jax"].dlpack.from_dlpack(array) if library(like) == "jax" else array


def allocate(shape, number, like):
    """A new array, of the library and on the device of `like`, or NumPy's."""
    name = "" if like is None else library(like)
    if name == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, _TORCH[number]), device=like.device)
    if name == "cupy":
        cupy = sys.modules["cupy"]
        with like.device:
            return cupy.empty(shape, dtype=numpy_dtype(number))
    if name == "jax":
        kind, ordinal = (int(part) for part in like.__dlpack_device__())
        if kind == _CUDA:  # JAX's arrays are not written to: this becomes one when its values are there
            from ._cuda import DeviceArray
            return DeviceArray(shape, numpy_dtype(number), ordinal)
    return _empty(shape, _NUMPY.get(number) or numpy_dtype(number))
