# SPDX-License-Identifier: Apache-2.0
"""Memory on a CUDA device where no library gives it: what rlx.onnxruntime's OrtValue lies in, and outputs for JAX. Over the driver alone."""
import ctypes
import functools
import math
import threading

import numpy as np

from . import _arrays, _core
from ._errors import ArgumentError, DeviceError, OutOfMemory

_OUT_OF_MEMORY = 2
_DEFAULT_STREAM = ctypes.c_void_p(1)
_PIECE_BYTES = 4 << 20


class _Driver:
    """The driver with the context of one device, which librlx uses too."""

    def __init__(self, ordinal):
        self.ordinal = ordinal
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise DeviceError(f"there is no CUDA driver: {error}", 7) from None
        self.call("cuInit", 0)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.staging, self.lock = ctypes.c_void_p(), threading.Lock()  # pinned memory, through which copies go piece by piece
        with self:
            self.call("cuMemHostAlloc", ctypes.byref(self.staging), ctypes.c_size_t(_PIECE_BYTES), 0)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result == _OUT_OF_MEMORY:
            raise OutOfMemory(f"cuda:{self.ordinal}: {name}: out of memory", 9)
        if result != 0:
            raise DeviceError(f"cuda:{self.ordinal}: {name} failed with {result}", 12)

    def __enter__(self):
        self.call("cuCtxPushCurrent_v2", self.context)
        return self

    def __exit__(self, *_):
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


_driver = functools.lru_cache(maxsize=None)(_Driver)


class DeviceArray:
    """A dense array on a CUDA device, freed with the object. Speaks DLPack; shape and dtype are those of NumPy."""

    def __init__(self, shape, dtype, ordinal=0):
        self._address = ctypes.c_uint64()
        self.shape, self.dtype, self.ordinal = tuple(int(dim) for dim in shape), np.dtype(dtype), int(ordinal)
        self._number = _arrays.number_of(self.dtype)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        with _driver(self.ordinal) as driver:
            driver.call("cuMemAlloc_v2", ctypes.byref(self._address), ctypes.c_size_t(max(self.nbytes, 1)))

    def data_ptr(self):
        return self._address.value

    def write(self, array):
        """From an array on the host of the same shape and dtype."""
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ArgumentError(f"got {array.dtype}{list(array.shape)}, wanted {self.dtype}{list(self.shape)}", 1)
        array = np.ascontiguousarray(array)
        for driver, device, host, size in self._pieces(array):
            ctypes.memmove(driver.staging, host, size.value)
            driver.call("cuMemcpyHtoDAsync_v2", device, driver.staging, size, _DEFAULT_STREAM)
            driver.call("cuStreamSynchronize", _DEFAULT_STREAM)

    def numpy(self):
        """A copy on the host."""
        array = np.empty(self.shape, self.dtype)
        for driver, device, host, size in self._pieces(array):
            driver.call("cuMemcpyDtoHAsync_v2", driver.staging, device, size, _DEFAULT_STREAM)
            driver.call("cuStreamSynchronize", _DEFAULT_STREAM)
            ctypes.memmove(host, driver.staging, size.value)
        return array

    def _pieces(self, array):
        """(driver, address here, address in the array, bytes) of what goes through the staging memory at once."""
        driver = _driver(self.ordinal)
        with driver.lock, driver:
            for begin in range(0, self.nbytes, _PIECE_BYTES):
                size = min(_PIECE_BYTES, self.nbytes - begin)
                yield driver, ctypes.c_uint64(self._address.value + begin), array.ctypes.data + begin, ctypes.c_size_t(size)

    def __dlpack_device__(self):
        return 2, self.ordinal

    def __dlpack__(self, **_):
        return _core.wrap_memory(self._address.value, list(self.shape), self._number, self.ordinal, self).__dlpack__()

    def __del__(self):
        if self._address.value:
            with _driver(self.ordinal) as driver:
                driver.call("cuMemFree_v2", self._address)
            self._address.value = 0
