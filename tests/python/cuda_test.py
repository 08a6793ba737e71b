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
import unittest.mock
import weakref

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


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Functions(ctypes.Structure):
    """DLPack's table of C functions, version 1.3."""

    ALLOCATE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(DLTensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p)
    TAKE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    DESCRIBE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
    STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.c_void_p), ("allocate", ALLOCATE),
                ("export", TAKE), ("take", TAKE), ("describe", DESCRIBE), ("stream", STREAM)]


class FastTensor(Tensor):
    """One whose library offers DLPack's C functions, as PyTorch does from 2.10 on."""

    made, stream, negative, is_described = [], 0, False, True

    def is_neg(self):
        return self.negative

    def contiguous(self):
        return FastTensor(np.ascontiguousarray(self.array))

    def describe(self, out):
        if not self.is_described:
            return -1  # and no exception, which is as good
        kind = self.array.__array_interface__
        sizes = ctypes.c_int64 * max(self.array.ndim, 1)
        self.kept = sizes(*self.array.shape), sizes(*(stride // self.array.itemsize for stride in self.array.strides))
        out[0] = DLTensor(kind["data"][0] - 4, 2, self.ordinal, self.array.ndim, {"f": 2, "i": 0}[self.array.dtype.kind],
                          8 * self.array.itemsize, 1, *self.kept, 4)
        return 0

    @staticmethod
    def current(device_type, device_id, out):
        out[0] = FastTensor.stream
        return 0

    @staticmethod
    def allocate(prototype, managed, context, set_error):
        shape = prototype[0].shape[:prototype[0].ndim]
        FastTensor.made.append(FastTensor(np.zeros(shape, np.float32)))
        managed[0] = len(FastTensor.made)
        return 0

    @staticmethod
    def take(managed, out):
        tensor = FastTensor.made[managed - 1]
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
        out[0] = id(tensor)
        return 0


FUNCTIONS = Functions(1, 3, None, Functions.ALLOCATE(FastTensor.allocate), Functions.TAKE(), Functions.TAKE(FastTensor.take),
                      Functions.DESCRIBE(FastTensor.describe), Functions.STREAM(FastTensor.current))
NEWER = Functions(2, 0, ctypes.addressof(FUNCTIONS))
NAME = b"dlpack_exchange_api"
ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
FastTensor.__dlpack_c_exchange_api__ = ctypes.pythonapi.PyCapsule_New(ctypes.addressof(NEWER), NAME, None)
Tensor.__module__ = FastTensor.__module__ = "torch"
sys.modules["torch"] = types.SimpleNamespace(
    Tensor=Tensor, float32=np.float32, empty=lambda shape, dtype, device: Tensor(np.zeros(shape, dtype)))


class JaxArray(Tensor):
    """As JAX's: nobody writes to it, so its outputs are made of memory of rlx's own."""

    @staticmethod
    def from_dlpack(memory):
        made = JaxArray(np.zeros(0, np.float32))
        made.source, made.capsule, made.shape = weakref.ref(memory), memory.__dlpack__(), memory.shape
        api = ctypes.pythonapi
        tensor = ctypes.cast(api.PyCapsule_GetPointer(made.capsule, b"dltensor"), ctypes.POINTER(DLTensor))[0]
        assert tensor.device_type == 2 and tensor.data == memory.data_ptr()
        size = memory.nbytes
        made.array = np.frombuffer((ctypes.c_char * size).from_address(tensor.data), np.float32).reshape(made.shape)
        return made


JaxArray.__module__ = "jaxlib"
sys.modules["jax"] = types.SimpleNamespace(dlpack=types.SimpleNamespace(from_dlpack=JaxArray.from_dlpack))


def copying_plan(**options):
    """x f32[batch, 4] -> x: one copy on the device, no kernel."""
    graph = {"rlx_graph": 1, "name": "copy", "symbols": [{"name": "batch", "min": 1, "max": 100}],
             "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 4]}], "nodes": [], "outputs": ["x"]}
    return rlx.compile(json.dumps(graph).encode(), target="cuda", dims={"batch": (1, 8)}, cache=False, **options)


def numbers(batch):
    return np.random.default_rng(batch).random((batch, 4), np.float32)


class Cuda(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = os.path.join(cls.folder.name, "a.plan")
        cls.plan = copying_plan(output=cls.file)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.session = rlx.Session(self.plan, "cuda")
        Tensor.streams.clear()

    def test_arrays_of_jax_in_and_out(self):
        with rlx.Session(self.file, "cuda") as session:
            for batch in (3, 8):
                x = JaxArray(numbers(batch))
                y = session(x=x)
                self.assertIsInstance(y, JaxArray)
                np.testing.assert_array_equal(y.array, x.array)
            given = Tensor(np.zeros((3, 4), np.float32))
            other = JaxArray(numbers(3))
            self.assertIs(session.run({"x": other}, out={"x": given})["x"], given)
            np.testing.assert_array_equal(given.array, other.array)
            self.assertEqual(session.copies, NO_COPIES)
        np.testing.assert_array_equal(y.array, x.array)  # memory that lives as long as what was made of it
        source = y.source
        self.assertIsNotNone(source())
        del y
        self.assertIsNone(source())

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

    def test_libraries_with_c_functions_are_not_called_in_python(self):
        FastTensor.made.clear()
        for batch in (3, 8):
            x, y = FastTensor(numbers(batch)), FastTensor(np.zeros((batch, 4), np.float32))
            self.session.run({"x": x}, out={"x": y})
            made = self.session(x=x)
            self.assertIs(made, FastTensor.made[-1])
            for each in (y, made):
                np.testing.assert_array_equal(each.array, x.array)
        self.assertEqual((Tensor.streams, self.session.copies), ([], NO_COPIES))

    def test_what_memory_alone_does_not_say_is_asked_of_the_library(self):
        x = numbers(2)
        for changed in ({"stream": DRIVER.stream()}, {"negative": True}, {"is_described": False}):
            Tensor.streams.clear()
            with unittest.mock.patch.multiple(FastTensor, **changed):
                np.testing.assert_array_equal(self.session(x=FastTensor(x)).array, x)
            self.assertIn(1, Tensor.streams, changed)
        with self.assertRaisesRegex(ValueError, "lies on cuda:1, the session runs on cuda:0"):
            self.session(x=FastTensor(x, 0, 1))
        strided = FastTensor(numbers(8))
        strided.array = strided.array[::2]
        np.testing.assert_array_equal(self.session(x=strided).array, strided.array)
        self.assertEqual(self.session.copies, {**NO_COPIES, "on_host": 1})

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
        session = ort.InferenceSession(self.file, providers=[("CUDAExecutionProvider", {"device_id": 0})])
        self.assertEqual(session.get_providers(), ["CUDAExecutionProvider"])
        x, y = Tensor(numbers(4)), Tensor(np.zeros((4, 4), np.float32))
        binding = session.io_binding()
        binding.bind_input("x", "cuda", 0, np.float32, (4, 4), x.array.ctypes.data)
        binding.bind_output("x", "cuda", 0, np.float32, (4, 4), y.array.ctypes.data)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(y.array, x.array)

    def test_onnxruntime_s_values_lie_on_the_device(self):
        import rlx.onnxruntime as ort
        session = ort.InferenceSession(self.file, providers=["CUDAExecutionProvider"])
        x = numbers(4)
        given = ort.OrtValue.ortvalue_from_numpy(x, "cuda", 0)
        self.assertEqual((given.device_name(), given.shape(), given.data_type()), ("cuda", [4, 4], "tensor(float)"))
        np.testing.assert_array_equal(given.numpy(), x)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", given)
        binding.bind_output("x", "cuda")
        session.run_with_iobinding(binding)
        first = binding.get_outputs()[0]
        given.update_inplace(2 * x)
        session.run_with_iobinding(binding)
        self.assertEqual((first.device_name(), binding.get_outputs()[0].device_name()), ("cuda", "cuda"))
        np.testing.assert_array_equal(first.numpy(), x)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], 2 * x)
        kept = ort.OrtValue.ortvalue_from_shape_and_type((4, 4), np.float32, "cuda", 0)
        binding.bind_ortvalue_output("x", kept)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(kept.numpy(), 2 * x)
        self.assertEqual(next(iter(session._sessions.values())).copies, NO_COPIES)
        many = np.arange((9 << 20) // 4, dtype=np.int32)  # more than goes at once
        np.testing.assert_array_equal(ort.OrtValue.ortvalue_from_numpy(many, "cuda").numpy(), many)
        with self.assertRaisesRegex(ValueError, "wanted float32"):
            given.update_inplace(x.astype(np.float64))

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
