#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors in and out of the package rlx without a GPU: on the fake driver of tests/faults, with a library in PyTorch's place whose
tensors lie in its memory. What is counted: no copies. On a GPU: torch_test.py.

    python3 tests/python/cuda_test.py BUILD_DIR

Exits 77, which counts as skipped, where the package or the fake driver was not built.
"""
import ctypes
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
STAND_IN = BUILD / "lib/librlx_cuda_stand_in.so"
if not list(BUILD.glob("python/rlx/_core*.so")) or not STAND_IN.exists():
    print("SKIPPED: the package rlx (nanobind) or the fake driver was not built")
    sys.exit(SKIPPED)
if "RLX_FAKE_DRIVER" not in os.environ:  # the loader finds it when a process begins
    with tempfile.TemporaryDirectory() as folder:
        for name in ("libcuda.so.1", "libcublasLt.so.13"):
            os.symlink(STAND_IN, os.path.join(folder, name))
        environment = {**os.environ, "LD_LIBRARY_PATH": folder, "RLX_FAKE_DRIVER": folder}
        sys.exit(os.spawnve(os.P_WAIT, sys.executable, [sys.executable, *sys.argv], environment))
sys.path.insert(0, str(BUILD / "python"))
try:
    import numpy as np
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(SKIPPED)
import rlx  # noqa: E402

NO_COPIES = {"to_device": 0, "from_device": 0, "on_host": 0}


class Driver:
    """Memory and streams of the driver that rlx has opened too."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {result}")

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value

    def synchronize(self, stream):
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))


DRIVER = Driver()


class Tensor:
    """A CUDA tensor: what rlx asks PyTorch's for. The fake driver's memory is the host's."""

    streams = []  # on which it was asked to be ready

    def __init__(self, array, offset=0, ordinal=0):
        address = DRIVER.allocate(array.nbytes + 64) + offset
        memory = (ctypes.c_char * max(array.nbytes, 1)).from_address(address)
        self.array = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
        self.array[...] = array
        self.shape, self.dtype, self.device, self.ordinal = array.shape, array.dtype, f"cuda:{ordinal}", ordinal

    def __dlpack_device__(self):
        return 2, self.ordinal

    def __dlpack__(self, stream=None, **_):
        self.streams.append(stream)
        capsule = self.array.__dlpack__()
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        device = ctypes.cast(api.PyCapsule_GetPointer(capsule, b"dltensor") + 8, ctypes.POINTER(ctypes.c_int32))
        device[0], device[1] = self.__dlpack_device__()
        return capsule

    def detach(self):
        return self

    def contiguous(self):
        return Tensor(np.ascontiguousarray(self.array))

    resolve_conj = resolve_neg = detach


Tensor.__module__ = "torch"
sys.modules["torch"] = types.SimpleNamespace(
    Tensor=Tensor, float32=np.float32, empty=lambda shape, dtype, device: Tensor(np.zeros(shape, dtype)))


def copying_plan(**options):
    """x f32[batch, 4] -> x: one copy on the device, no kernel."""
    graph = {"rlx_graph": 1, "name": "copy", "symbols": [{"name": "batch", "min": 1, "max": 100}],
             "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 4]}], "nodes": [], "outputs": ["x"]}
    return rlx.compile(json.dumps(graph).encode(), target="cuda", dims={"batch": (1, 8)}, cache=False, **options)


def numbers(batch):
    return np.random.default_rng(batch).random((batch, 4), np.float32)


class Cuda(unittest.TestCase):
    def setUp(self):
        self.plan = copying_plan()
        self.session = rlx.Session(self.plan, "cuda")
        Tensor.streams.clear()

    def test_tensors_on_the_device_are_never_copied(self):
        kept = []
        for batch in (3, 8, 3, 1):
            x = Tensor(numbers(batch))
            y = self.session(x=x)
            kept.append((x, y))
            self.assertIsInstance(y, Tensor)
            self.assertEqual(self.session.symbols(), {"batch": batch})
            self.assertEqual(self.session.copies, NO_COPIES)
        for x, y in kept:
            np.testing.assert_array_equal(y.array, x.array)
        self.assertEqual(set(Tensor.streams), {1}, "the default stream, as DLPack numbers it")

    def test_host_and_device_take_turns(self):
        x = numbers(2)
        for given in (Tensor(x), x, Tensor(x), x):
            y = self.session(x=given)
            self.assertIs(type(y), type(given))
            np.testing.assert_array_equal(getattr(y, "array", y), x)
        self.assertEqual(self.session.copies, {"to_device": 2, "from_device": 2, "on_host": 0})

    def test_outputs_go_where_out_says(self):
        x, y = Tensor(numbers(4)), Tensor(np.zeros((4, 4), np.float32))
        self.assertIs(self.session.run({"x": x}, out={"x": y})["x"], y)
        np.testing.assert_array_equal(y.array, x.array)
        on_host = np.zeros((4, 4), np.float32)
        self.session.run({"x": x}, out={"x": on_host})
        np.testing.assert_array_equal(on_host, x.array)
        self.assertEqual(self.session.copies, {"to_device": 0, "from_device": 1, "on_host": 0})

    def test_runs_on_the_caller_s_stream(self):
        stream = DRIVER.stream()
        with rlx.Session(self.plan, "cuda", stream=types.SimpleNamespace(cuda_stream=stream), queue_depth=2) as session:
            x, y = Tensor(numbers(4)), Tensor(np.zeros((4, 4), np.float32))
            first = session.submit({"x": x}, out={"x": y})
            session.submit()
            DRIVER.synchronize(stream)  # without wait: the work is on that stream
            np.testing.assert_array_equal(y.array, x.array)
            self.assertTrue(session.wait(first) and session.wait())
            self.assertIn(stream, Tensor.streams)
            self.assertIs(session.read()["x"], y)
            with self.assertRaisesRegex(ValueError, "read it after wait"):
                session.submit({"x": x}, out={"x": np.zeros((4, 4), np.float32)})

    def test_onnxruntime_s_bindings_take_addresses(self):
        import rlx.onnxruntime as ort
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "a.plan")
            copying_plan(output=file)
            session = ort.InferenceSession(file, providers=[("CUDAExecutionProvider", {"device_id": 0})])
        self.assertEqual(session.get_providers(), ["CUDAExecutionProvider"])
        x, y = Tensor(numbers(4)), Tensor(np.zeros((4, 4), np.float32))
        binding = session.io_binding()
        binding.bind_input("x", "cuda", 0, np.float32, (4, 4), x.array.ctypes.data)
        binding.bind_output("x", "cuda", 0, np.float32, (4, 4), y.array.ctypes.data)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(y.array, x.array)

    def test_wrong_tensors_are_refused(self):
        for given, kind, words in ((Tensor(numbers(9)), ValueError, "batch"), (Tensor(numbers(2)[:, :3].copy()), ValueError, "wanted"),
                                   (Tensor(numbers(2).astype(np.float64)), TypeError, "got f64, wanted f32"),
                                   (Tensor(numbers(2).reshape(8)), ValueError, "rank"), (Tensor(numbers(2), 4), ValueError, "16"),
                                   (Tensor(numbers(2), 0, 1), ValueError, "lies on cuda:1, the session runs on cuda:0")):
            with self.assertRaisesRegex(kind, words):
                self.session(x=given)
        with self.assertRaisesRegex(ValueError, r"the given array \[3,4\]"):
            self.session.run({"x": Tensor(numbers(2))}, out={"x": Tensor(np.zeros((3, 4), np.float32))})
        x = numbers(2)
        np.testing.assert_array_equal(self.session(x=x), x)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
