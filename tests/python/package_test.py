#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package rlx of a build tree: plans, sessions, arrays, states, queued runs, errors, and the compiler.

    python3 tests/python/package_test.py BUILD_DIR

Exits 77, which counts as skipped, where the package was not built (no nanobind). Tests that need a device skip without one.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build").resolve() / "python"
if not list(PACKAGE.glob("rlx/_core*.so")):
    print("SKIPPED: the package rlx was not built; it needs a Python with headers, and nanobind (pip install nanobind)")
    sys.exit(SKIPPED)
sys.path.insert(0, str(PACKAGE))
try:
    import numpy as np
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(SKIPPED)
import rlx  # noqa: E402

HAS_VULKAN = any(device.id.startswith("vulkan") for device in rlx.devices())


def tensor(name, dtype, *shape):
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def node(op, inputs, *outputs, **attributes):
    return {"op": op, "name": outputs[0], "inputs": inputs, "outputs": list(outputs), "attributes": attributes}


def compiled(graph, **options):
    return rlx.compile(json.dumps({"rlx_graph": 1, "name": "tests", **graph}).encode(), cache=False, **options)


def relu(dtype="f32", *shape):
    return {"inputs": [tensor("x", dtype, *shape)], "nodes": [node("relu", ["x"], "y")], "outputs": ["y"]}


def free_relu():
    """x f32[batch, 3] -> y, batch 1 to 8."""
    return compiled({"symbols": [{"name": "batch", "min": 1, "max": 100}], **relu("f32", "batch", 3)}, dims={"batch": (1, 8)})


def totals():
    """Entry "add" adds x f32[4] to the state "total" and gives it; "get" only gives it."""
    add = {"name": "add", "inputs": [tensor("x", "f32", 4)], "outputs": ["new"],
           "nodes": [node("add", ["total", "x"], "sum"), node("state_write", ["total", "sum"], "new")]}
    return {"states": [{**tensor("total", "f32", 4), "init": "zeros"}],
            "entries": [add, {"name": "get", "nodes": [], "outputs": ["total"]}]}


class Foreign:
    """Another library's array: nothing of it is known but DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**{name: value for name, value in options.items() if name != "stream"})

    def __dlpack_device__(self):
        return self.device


class Refusal(unittest.TestCase):
    """Tests that look at what is said."""

    def refused(self, kind, words, call, *args, **options):
        with self.assertRaises(kind) as caught:
            call(*args, **options)
        self.assertIn(words, str(caught.exception))
        self.assertIsInstance(caught.exception, rlx.Error)
        return caught.exception


class Plans(Refusal):
    def test_plan_says_what_it_is(self):
        plan = free_relu()
        self.assertEqual(list(plan.entries), ["main"])
        self.assertEqual(plan.inputs[0], rlx.TensorInfo("x", "f32", ("batch", 3), 8 * 3 * 4, (8, 3)))
        self.assertEqual(plan.symbols["batch"][:5], ("batch", 1, 8, 1, True))
        self.assertEqual(plan.targets, ("vulkan",))
        self.assertGreater(plan.memory.io, 0)
        self.assertIn("x: f32[batch, 3]", str(plan))

    def test_plan_of_a_file_is_that_of_its_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "a.plan")
            plan = compiled(relu("f32", 4), output=file)
            with rlx.Plan(file.read_bytes()) as same:
                self.assertEqual(str(plan), str(same))
            self.refused(ValueError, "the plan is closed", rlx.Session, same, "null")

    def test_what_is_no_plan_is_refused(self):
        self.refused(rlx.PlanError, "no plan", rlx.Plan, b"plan")
        self.assertIsInstance(self.refused(OSError, "/no/such.plan", rlx.Plan, "/no/such.plan"), rlx.FileError)
        with self.assertRaises(TypeError):
            rlx.Plan(3)


class Compiling(Refusal):
    def test_every_diagnostic_is_there(self):
        graph = {"inputs": [tensor("x", "f32", 4)], "outputs": ["y", "z"],
                 "nodes": [node("softmax", ["x"], "y", axis=3), node("no_such_op", ["x"], "z")]}
        error = self.refused(ValueError, "no_such_op", compiled, graph)
        self.assertIsInstance(error, rlx.CompileError)
        codes = {each.code: each for each in error.diagnostics}
        self.assertIn("unknown-op", codes)
        self.assertEqual(codes["unknown-op"].severity, "error")
        self.assertIn("<bytes>", codes["unknown-op"].file)
        self.assertNotIn("/rlx-", str(error))

    def test_options_are_checked(self):
        graph = relu("f32", 4)
        for options, words in (({"dims": {"batch": (3, 2)}}, "batch"), ({"dims": {"batch": "1:2"}}, "batch"),
                               ({"precision": "f8"}, "mixed"), ({"arch": ["sm_90a"]}, "cuda"), ({"without": ["magic"]}, "magic"),
                               ({"prefer": ["magic"]}, "magic"), ({"control": "magic"}, "regions"), ({"max_count": 0}, "max_count"),
                               ({"max_iterations": "two"}, "max_iterations"), ({"disabled_passes": ["magic"]}, "magic"), ({"optimisation": 9}, "optimisation")):
            with self.assertRaises(ValueError) as caught:
                compiled(graph, **options)
            self.assertIn(words, str(caught.exception))
        self.refused(rlx.CompileError, "abacus", compiled, graph, target="abacus")

    def test_an_input_becomes_a_state(self):
        graph = {"inputs": [tensor("x", "f32", 4), tensor("sum", "f32", 4)], "outputs": ["next"],
                 "nodes": [node("add", ["x", "sum"], "next")]}
        plan = compiled(graph, states={"sum": "next"}, serial=True, recompute=True, control="auto")
        self.assertEqual([port.name for port in plan.inputs], ["x"])
        self.assertEqual(list(plan.states), ["sum"])

    def test_progress_names_phases(self):
        phases = []
        compiled(relu("f32", 4), progress=lambda phase, seconds: phases.append(phase))
        self.assertGreater(len(phases), 2)


class Arrays(Refusal):
    def setUp(self):
        self.plan = compiled(relu("f32", 2, 3))
        self.session = rlx.Session(self.plan, "null")
        self.x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def copies(self, x):
        before = self.session.copies
        self.session(x=x)
        return {name: count - before[name] for name, count in self.session.copies.items()}

    def test_only_output_comes_alone_and_run_gives_a_dict(self):
        self.assertEqual(self.session(x=self.x).shape, (2, 3))
        self.assertEqual(list(self.session.run({"x": self.x})), ["y"])
        self.assertEqual(self.session["main"](x=self.x).dtype, np.float32)

    def test_dense_arrays_go_in_as_they_are(self):
        once = {"to_device": 1, "from_device": 1, "on_host": 0}
        frozen = self.x.copy()
        frozen.flags.writeable = False
        for x in (self.x, frozen, Foreign(self.x), np.vstack([self.x, self.x])[2:]):
            self.assertEqual(self.copies(x), once)

    def test_other_arrays_are_copied_first(self):
        for x in (np.asfortranarray(self.x), np.repeat(self.x, 2, axis=1)[:, ::2], self.x[::-1], self.x.astype(">f4")):
            self.assertEqual(self.copies(x)["on_host"], 1)

    def test_wrong_inputs_are_refused_in_the_library_s_words(self):
        self.refused(TypeError, "got f64[2,3], wanted f32[2,3]", self.session, x=self.x.astype(np.float64))
        self.refused(ValueError, "wanted f32[2,3]", self.session, x=self.x.T.copy())
        self.refused(ValueError, 'no input "z"', self.session, z=self.x)
        for value in ([1.0], "text", None, np.array(["a"]), np.zeros((2, 3), np.uint64)):
            self.refused(TypeError, 'input "x" got', self.session, x=value)
        self.refused(ValueError, "is closed", lambda: (self.session.close(), self.session(x=self.x)))

    def test_tensor_of_another_device_is_refused(self):
        self.refused(ValueError, 'input "x" lies on cuda:0, the session runs on null', self.session, x=Foreign(self.x, (2, 0)))
        self.refused(ValueError, "DLPack's type 10", self.session, x=Foreign(self.x, (10, 0)))
        self.refused(ValueError, "stream is for CUDA", rlx.Session, self.plan, "null", stream=3)

    def test_outputs_are_written_where_out_says(self):
        y = np.full((2, 3), 7, np.float32)
        self.assertIs(self.session.run({"x": self.x}, out={"y": y})["y"], y)
        self.assertTrue((y != 7).all())
        refuse = lambda kind, words, out: self.refused(kind, words, self.session.run, {"x": self.x}, out=out)  # noqa: E731
        refuse(ValueError, "the given array [3,2]", {"y": np.zeros((3, 2), np.float32)})
        refuse(TypeError, 'output "y" is f32, the given array is f64', {"y": np.zeros((2, 3))})
        refuse(ValueError, "not contiguous", {"y": np.zeros((3, 2), np.float32).T})
        refuse(ValueError, '"z"', {"z": y})
        self.refused(ValueError, 'the outputs are "y"', self.session.run, {"x": self.x}, outputs=["z"])

    def test_an_input_that_was_never_set_is_told(self):
        self.refused(rlx.StateError, '"x"', self.session)

    def test_every_dtype_goes_in_and_out(self):
        kinds = {"f32": "float32", "f16": "float16", "f64": "float64", "i8": "int8", "u8": "uint8", "i16": "int16", "i32": "int32",
                 "u32": "uint32", "i64": "int64", "bool": "bool", "c64": "complex64"}
        names = list(kinds)
        graph = {"inputs": [tensor(f"x_{name}", name, 2) for name in names], "nodes": [],
                 "outputs": [f"x_{name}" for name in names]}
        with rlx.Session(compiled(graph), "null") as session:
            given = {f"x_{name}": np.array([0, 1]).astype(dtype) for name, dtype in kinds.items()}
            for name, array in session(**given).items():
                self.assertEqual(array.dtype, given[name].dtype)

    def test_bf16_needs_ml_dtypes(self):
        with rlx.Session(compiled(relu("bf16", 2)), "null") as session:
            try:
                import ml_dtypes
            except ImportError:
                session.set_input("x", Bf16())
                with self.assertRaisesRegex(TypeError, "ml_dtypes"):
                    session()
            else:
                self.assertEqual(session(x=np.zeros(2, ml_dtypes.bfloat16)).dtype, ml_dtypes.bfloat16)

    def test_scalars_and_nothing(self):
        with rlx.Session(compiled(relu("f32")), "null") as session:
            self.assertEqual(session(x=np.float32(1)).shape, ())
            self.assertEqual(session(x=np.array(1, np.float32)).shape, ())


class Bf16(Foreign):
    """Two zeros of a type that NumPy has not."""

    def __init__(self):
        super().__init__(np.zeros(2, np.float16))

    def __dlpack__(self, **_):
        import ctypes
        capsule = self.array.__dlpack__()
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        # DLTensor: data, device, ndim at 16, then the code of the dtype.
        ctypes.cast(api.PyCapsule_GetPointer(capsule, b"dltensor") + 20, ctypes.POINTER(ctypes.c_uint8))[0] = 4
        return capsule


class Sessions(Refusal):
    def test_shapes_set_symbols(self):
        with rlx.Session(free_relu(), "null") as session:
            for batch in (1, 8, 3):
                self.assertEqual(session(x=np.ones((batch, 3), np.float32)).shape, (batch, 3))
            self.assertEqual(session.symbols(), {"batch": 3})
            self.assertEqual(session.outputs(), [("y", "f32", (3, 3))])
            session.set_symbol("batch", 5)
            self.assertEqual(session.inputs(), [("x", "f32", (5, 3))])
            self.refused(ValueError, "batch", session, x=np.ones((9, 3), np.float32))
            self.refused(ValueError, "seq", session.set_symbol, "seq", 1)

    def test_entries_are_found_by_name(self):
        with rlx.Session(compiled(totals()), "null") as session:
            self.assertEqual(session["add"](x=np.ones(4, np.float32)).shape, (4,))
            self.refused(ValueError, "the entries are add, get", session.run, {}, entry="sub")

    def test_states_are_read_and_written(self):
        plan = compiled(totals())
        self.assertEqual(plan.states["total"].shape, (4,))
        with rlx.Session(plan, "null") as session:
            self.assertEqual(session.read_state("total").tolist(), [0, 0, 0, 0])
            session.write_state("total", np.arange(4, dtype=np.float32))
            session.write_state("total", np.array([9], np.float32), axis=0, begin=2)
            self.assertEqual(session.read_state("total").tolist(), [0, 1, 9, 3])
            self.assertEqual(session.read_state("total", axis=0, begin=1, count=2).tolist(), [1, 9])
            self.refused(ValueError, '"total"', session.read_state, "sum")
            self.refused(TypeError, "f64", session.write_state, "total", np.zeros(4))
            self.refused(ValueError, "another session", session.copy_state, "total", session)
            session.reset_states()
            self.assertEqual(session.read_state("total").tolist(), [0, 0, 0, 0])

    def test_names_and_numbers_that_c_would_take_for_others(self):
        self.refused(ValueError, "is no range", compiled, relu("f32", "n"), dims={"n": (1, 1 << 63)})
        self.refused(ValueError, "character zero", rlx.Plan, "m.plan\0.txt")
        with rlx.Session(compiled(totals()), "null") as session:
            x = np.ones(4, np.float32)
            for call in (lambda: session.run({"x\0": x}), lambda: session.set_symbol("total\0", 1), lambda: session.read_state("total\0"),
                         lambda: session.write_state("total\0", x), lambda: session.run({"x": x}, outputs=["new\0"])):
                self.refused(ValueError, "character zero", call)
            self.assertRaisesRegex(TypeError, "names of inputs and outputs are str", session.run, {3: x})
            fixed = np.zeros(4, np.float32)
            fixed.flags.writeable = False
            self.refused(ValueError, "read-only", session.run, {"x": x}, out={"new": fixed})
            for count in (5, 1 << 62, (1 << 64) - 1):
                self.refused(ValueError, "has 4 at axis 0", session.read_state, "total", axis=0, begin=0, count=count)

    def test_queued_runs(self):
        with rlx.Session(compiled(totals()), "null", queue_depth=2) as session:
            first = session.submit({"x": np.ones(4, np.float32)})
            second = session.submit()
            self.assertEqual(second, first + 1)
            self.refused(rlx.StateError, "", session.submit)
            self.assertTrue(session.wait(first))
            self.assertTrue(session.wait(timeout=60))
            self.assertEqual(session.read()["new"].shape, (4,))

    def test_device_and_budget_are_checked(self):
        plan = compiled(relu("f32", 4))
        self.refused(rlx.Error, "abacus", rlx.Session, plan, "abacus")
        self.refused(MemoryError, "budget", rlx.Session, plan, "null", memory_budget=1)
        self.refused(rlx.StateError, "profile", lambda: rlx.Session(plan, "null").profile({"x": np.ones(4, np.float32)}))


@unittest.skipUnless(HAS_VULKAN, "no Vulkan device")
class Device(Refusal):
    @classmethod
    def setUpClass(cls):
        cls.plan = rlx.compile(ROOT / "examples/mnist/mnist.json", dims={"batch": (1, 100)}, cache=False)
        cls.images = np.load(ROOT / "examples/mnist/images.npy")
        cls.labels = np.load(ROOT / "examples/mnist/labels.npy")

    def test_mnist_reads_digits(self):
        with rlx.Session(self.plan) as session:
            outputs = session(images=self.images[:20])
            self.assertGreaterEqual(float((outputs["digits"] == self.labels[:20]).mean()), 0.95)
            self.assertEqual(set(outputs), {"digits", "probabilities", "logits"})
            some = session.run({"images": self.images[:7]}, outputs=["logits"])
            np.testing.assert_array_equal(some["logits"], outputs["logits"][:7])

    def test_states_add_up_and_fork(self):
        plan = compiled(totals())
        device = "vulkan"
        with rlx.Session(plan, device) as session:
            for _ in range(3):
                total = session(x=np.ones(4, np.float32))
            self.assertEqual(total.tolist(), [3, 3, 3, 3])
            session.write_state("total", np.full(4, 10, np.float32))
            run = session.submit({"x": np.ones(4, np.float32)})
            self.assertTrue(session.wait(run))
            self.assertEqual(session.read()["new"].tolist(), [11, 11, 11, 11])
            with plan.session(device) as other:
                other.copy_state("total", session)
                self.assertEqual(other["get"]().tolist(), [11, 11, 11, 11])

    def test_profile_is_a_table(self):
        with rlx.Session(self.plan, profile=True) as session:
            profile = session.profile({"images": self.images[:2]})
            self.assertIn("conv1", {step.node for step in profile})
            self.assertGreater(profile.microseconds, 0)
            self.assertIn("TFLOP/s", str(profile))
            self.assertIn("<table>", profile._repr_html_())
            session()
            self.assertGreater(session.last_run_microseconds, 0)

    def test_others_go_on_while_a_run_is_under_way(self):
        with rlx.Session(self.plan) as session:
            session(images=self.images[:40])
            started, refusals, counted = threading.Event(), [], 0

            def run():
                started.set()
                session()

            thread = threading.Thread(target=run)
            thread.start()
            started.wait()
            while thread.is_alive():
                counted += 1
                try:
                    session.symbols()
                except rlx.StateError as error:
                    refusals.append(str(error))
            thread.join()
            self.assertGreater(counted, 10)
            self.assertTrue(any("another thread" in text for text in refusals))


@unittest.skipUnless(HAS_VULKAN, "no Vulkan device")
class Onnxruntime(Refusal):
    """rlx.onnxruntime over a plan; over models it is compared with onnxruntime by onnxruntime_test.py."""

    def setUp(self):
        import rlx.onnxruntime as ort
        self.ort = ort
        self.folder = tempfile.TemporaryDirectory()
        self.file = str(pathlib.Path(self.folder.name, "a.plan"))
        compiled({"symbols": [{"name": "batch", "min": 1, "max": 100}], **relu("f32", "batch", 3)}, dims={"batch": (1, 8)},
                 output=self.file)

    def tearDown(self):
        self.folder.cleanup()

    def test_session_has_onnxruntime_s_habits(self):
        session = self.ort.InferenceSession(self.file, providers=["CPUExecutionProvider"])
        port = session.get_inputs()[0]
        self.assertEqual((port.name, port.type, port.shape), ("x", "tensor(float)", ["batch", 3]))
        x = np.array([[-1, 0, 2]], np.float32)
        self.assertEqual(session.run(None, {"x": x})[0].tolist(), [[0, 0, 2]])
        self.assertEqual(len(session.run(["y", "y"], {"x": x})), 2)
        binding, y = session.io_binding(), self.ort.OrtValue.ortvalue_from_shape_and_type([1, 3], np.float32)
        binding.bind_ortvalue_input("x", self.ort.OrtValue.ortvalue_from_numpy(x))
        binding.bind_output("y", "cpu", 0, np.float32, y.shape(), y.data_ptr())
        session.run_with_iobinding(binding)
        self.assertEqual(y.numpy().tolist(), [[0, 0, 2]])
        self.assertEqual(self.ort.InferenceSession(pathlib.Path(self.file).read_bytes()).get_outputs()[0].name, "y")
        self.assertEqual(session.run(None, {"x": [[-1, 0, 2]]})[0].tolist(), [[0, 0, 2]])
        self.assertTrue(session.get_modelmeta().producer_name.startswith("rlxc "))
        self.refused(ValueError, "no input 'z'; no value for input 'x'; its inputs are 'x'", session.run, None, {"z": x})
        self.refused(ValueError, "no value for input 'x'", session.run, None, {})

    def test_runs_tell_their_callback(self):
        session, told, all_told = self.ort.InferenceSession(self.file), [], threading.Event()

        def callback(results, user_data, error):
            told.append((user_data, error, [each.tolist() for each in results]))
            if len(told) == 4:
                all_told.set()
            if user_data == "raises":
                raise KeyError("the callback's own")

        raised = []
        with unittest.mock.patch("threading.excepthook", lambda arguments: raised.append(arguments.exc_type)):
            session.run_async(None, {"x": np.array([[-1, 0, 2]], np.float32)}, callback, "raises")
            session.run_async(["y"], {"x": np.array([[3, -4, 5]], np.float32)}, callback, 2, self.ort.RunOptions())
            session.run_async(None, {"x": np.zeros((9, 3), np.float32)}, callback, "too many")
            session.run_async(["z"], {"x": np.zeros((1, 3), np.float32)}, callback, "no such output")
            self.assertTrue(all_told.wait(60))
        self.assertEqual([(user_data, results) for user_data, _, results in told],
                         [("raises", [[[0, 0, 2]]]), (2, [[[3, 0, 5]]]), ("too many", []), ("no such output", [])])
        for (_, error, _), words in zip(told, ("", "", "batch", "no output"), strict=True):
            self.assertIn(words, error)
            self.assertEqual(bool(error), bool(words))
        self.assertEqual(raised, [KeyError])
        self.refused(ValueError, "no input 'z'", session.run_async, None, {"z": 1}, callback)

    def test_values_say_what_they_are(self):
        ort = self.ort
        value = ort.OrtValue.ortvalue_from_numpy(np.array([[1, 2, 3]], np.float32))
        self.assertEqual((value.element_type(), value.tensor_size_in_bytes(), np.asarray(value).tolist()), (1, 12, [[1, 2, 3]]))
        value.update_inplace(np.array([[4, 5, 6]], np.float32))
        self.assertEqual(value.numpy().tolist(), [[4, 5, 6]])
        self.assertEqual(ort.OrtValue.ortvalue_from_shape_and_type((2,), 7).data_type(), "tensor(int64)")
        self.assertEqual(ort.OrtValue.from_dlpack(np.ones(2, np.uint8)).element_type(), 2)
        self.refused(ValueError, "update_inplace got [2], wanted [1, 3]", value.update_inplace, np.zeros(2, np.float32))
        self.refused(ValueError, "element type 8 of ONNX (string)", ort.OrtValue.ortvalue_from_shape_and_type, (2,), 8)
        self.refused(ValueError, "device 'npu' has no counterpart", ort.OrtValue.ortvalue_from_numpy, np.zeros(1), "npu")

    def test_providers_have_options_and_steps_times(self):
        ort = self.ort
        options = ort.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, os.path.join(self.folder.name, "times")
        options.add_provider("CPUExecutionProvider", {"use_arena": 1})
        session = ort.InferenceSession(self.file, options)
        self.assertEqual((session.get_providers(), session.get_provider_options()),
                         (["CPUExecutionProvider"], {"CPUExecutionProvider": {"use_arena": "1"}}))
        session.run(None, {"x": np.zeros((1, 3), np.float32)})
        events = json.loads(pathlib.Path(session.end_profiling()).read_text())
        self.assertEqual([(each["name"], each["args"]["op_name"]) for each in events], [("y", "relu")])
        session.set_providers([("VulkanExecutionProvider", {"gpu_mem_limit": 1})])
        self.refused(MemoryError, "budget", session.run, None, {"x": np.zeros((1, 3), np.float32)})

    def test_what_has_no_counterpart_is_refused_by_name(self):
        ort = self.ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.refused(ValueError, "can be 'ONNX' in rlx", options.add_session_config_entry, "session.load_model_format", "ORT")
        self.refused(ValueError, "SessionOptions.register_custom_ops_library has no counterpart", getattr, options,
                     "register_custom_ops_library")
        self.refused(AttributeError, "no counterpart", getattr, ort.InferenceSession(self.file), "set_tuning_results")
        self.refused(AttributeError, "onnxruntime.OrtArenaCfg has no counterpart", getattr, ort, "OrtArenaCfg")
        with self.assertRaisesRegex(AttributeError, "has no attribute 'nonsense'"):
            ort.nonsense
        self.assertFalse(hasattr(options, "add_initializer"))
        with self.assertRaisesRegex(TypeError, "run_options got dict"):
            ort.InferenceSession(self.file).run(None, {"x": np.zeros((1, 3), np.float32)}, {})
        self.refused(ValueError, "optimized_model_filepath", setattr, options, "optimized_model_filepath", "a.onnx")
        self.refused(ValueError, "session.magic", options.add_session_config_entry, "session.magic", "1")
        self.refused(ValueError, "batch=1:x", options.add_session_config_entry, "rlx.dims", "batch=1:x")
        self.refused(ValueError, "terminate", setattr, ort.RunOptions(), "terminate", True)
        self.refused(ValueError, "no provider 'Abacus'", ort.InferenceSession, self.file, providers=["Abacus"])
        self.refused(ValueError, "trt_fp16_enable", ort.InferenceSession, self.file,
                     providers=[("TensorrtExecutionProvider", {"trt_fp16_enable": True})])
        self.refused(ValueError, "disabled_optimizers", ort.InferenceSession, self.file, disabled_optimizers=["x"])
        self.refused(ValueError, "no ONNX model", ort.InferenceSession, b"no model")


BIN = PACKAGE.parent / "bin"


@unittest.skipUnless((BIN / "rlxc").exists(), "no rlxc was built")
class Trust(Refusal):
    def test_signed_plans_open_with_their_key_and_known_code_with_its_list(self):
        with tempfile.TemporaryDirectory() as folder:
            plan, key, other = (str(pathlib.Path(folder, name)) for name in ("a.plan", "key", "other"))
            compiled(relu("f32", 4), output=plan)
            rlxc = lambda *arguments: subprocess.run([BIN / "rlxc", *arguments], check=True, capture_output=True, text=True).stdout
            known = pathlib.Path(folder, "known.txt")
            known.write_text(rlxc("inspect", plan, "--known"))
            for name in (key, other):
                rlxc("keygen", "-o", name)
            self.refused(rlx.TrustError, "is not signed", rlx.Plan, plan, signed_by=key + ".pub")
            rlxc("sign", plan, "--key", key)
            self.assertEqual(rlx.Plan(plan, signed_by=key + ".pub").inputs[0].name, "x")
            self.assertEqual(rlx.Plan(pathlib.Path(plan).read_bytes(), signed_by=key + ".pub").outputs[0].name, "y")
            self.assertEqual(rlx.Plan(plan, known=known).inputs[0].name, "x")
            self.refused(rlx.TrustError, "another key", rlx.Plan, plan, signed_by=other + ".pub")
            self.refused(ValueError, "hold a private one", rlx.Plan, plan, signed_by=key)
            self.refused(ValueError, "two policies", rlx.Plan, plan, signed_by=key, known=known)
            self.refused(OSError, "cannot be read", rlx.Plan, plan, signed_by=key + ".none")
            known.write_text("0" * 64 + "\n")
            self.refused(rlx.TrustError, "is not in the list of known code", rlx.Plan, plan, known=known)


@unittest.skipUnless(HAS_VULKAN and (BIN / "rlx_write_language_plan").exists(), "no Vulkan device, or no language model")
class Language(Refusal):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.plan = str(pathlib.Path(cls.folder.name, "tiny.plan"))
        subprocess.run([BIN / "rlx_write_language_plan", cls.plan], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_replies_are_those_of_rlxrun(self):
        from rlx.language import LanguageModel
        model = LanguageModel(self.plan, "vulkan")
        messages = [{"role": "system", "content": "Be"}, {"role": "user", "content": "hello"}]
        pieces = list(model.stream(messages, max_tokens=8))
        wanted = subprocess.run([BIN / "rlxrun", self.plan, "--device", "vulkan", "--chat", "hello", "--system", "Be", "-n", "8"],
                                check=True, capture_output=True, text=True).stdout
        self.assertEqual("".join(pieces) + "\n", wanted)
        self.assertEqual((model.finish_reason, model.reply_tokens), ("length", 8))
        self.assertEqual(model.reply(messages, max_tokens=8), "".join(pieces))
        self.assertEqual(model.kept_tokens, 0)  # no whole chunk
        keeping = LanguageModel(self.plan, "vulkan", cache="rows")
        for _ in range(2):
            self.assertEqual(keeping.reply(messages, max_tokens=8), "".join(pieces))
        self.assertGreater(keeping.kept_tokens, 0)
        drawn = [model.reply(messages, max_tokens=8, temperature=1.0, seed=7) for _ in range(2)]
        self.assertEqual(*drawn)

    def test_what_cannot_be_is_refused(self):
        from rlx.language import LanguageModel
        model = LanguageModel(self.plan, "vulkan")
        self.refused(ValueError, "the plan's context holds", model.reply, list(range(5)) * model.context)
        for share in (0, 1.5, float("nan")):
            self.refused(ValueError, "top_p is", model.reply, [1, 2], temperature=1.0, top_p=share)
        self.refused(ValueError, "cache is 'some'", LanguageModel, self.plan, "vulkan", cache="some")
        compiled(relu("f32", 4), output=self.plan + "2")
        self.refused(ValueError, "has no text section", LanguageModel, self.plan + "2", "vulkan")


class Tokens(Refusal):
    def test_a_plan_carries_the_tokenizer_that_it_is_given(self):
        from rlx.language import Tokenizer
        names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "night", "sky", "##s", "is", "dark", "?"]
        added = [{"id": number, "content": name, "special": True, "normalized": False, "lstrip": False, "rstrip": False,
                  "single_word": False} for number, name in enumerate(names[:4])]
        template = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
        with tempfile.TemporaryDirectory() as folder:
            words, plan = pathlib.Path(folder, "tokenizer.json"), os.path.join(folder, "a.plan")
            words.write_text(json.dumps({
                "added_tokens": added, "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
                "post_processor": {"type": "TemplateProcessing", "single": template, "pair": [],
                                   "special_tokens": {name: {"id": name, "ids": [names.index(name)], "tokens": [name]}
                                                      for name in ("[CLS]", "[SEP]")}},
                "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
                "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                          "vocab": {name: number for number, name in enumerate(names)}}}))
            compiled(relu("f32", 4), output=plan, tokenizer=words)
            tokenizer = Tokenizer(plan)
            self.assertEqual((len(tokenizer), tokenizer.begin, tokenizer.end), (11, 2, 3))
            ids = [2, 4, 5, 7, 6, 8, 1, 10, 3]
            self.assertEqual(tokenizer.encode("The nights sky is blue?"), ids)
            self.assertEqual(tokenizer.encode("The nights sky is blue?", add_special=False), ids[1:-1])
            self.assertEqual(tokenizer.encode("The nights sky is blue?", most=4), [2, 4, 5, 3])
            self.assertEqual(tokenizer.encode("The nights sky is blue?", add_special=False, most=2), [4, 5])
            self.assertEqual(tokenizer.encode("", most=2), [2, 3])
            self.assertEqual(tokenizer.decode(tokenizer.encode("the nights sky is dark?")), "the nights sky is dark?")
            self.refused(ValueError, "no room", tokenizer.encode, "the", most=1)
            self.refused(ValueError, "there is no token 11", tokenizer.decode, [11])
            compiled(relu("f32", 4), output=plan)
            self.refused(ValueError, "has no text section", Tokenizer, plan)
            words.write_text("{}")
            with self.assertRaises(rlx.CompileError):
                compiled(relu("f32", 4), output=plan, tokenizer=words)


class Words(unittest.TestCase):
    def test_help_is_enough_to_start(self):
        import pydoc
        text = pydoc.plain(pydoc.render_doc(rlx))
        for word in ("rlx.compile(", "rlx.Session(", "devices()", "CompileError"):
            self.assertIn(word, text)
        for name in rlx.__all__:
            self.assertTrue((getattr(rlx, name).__doc__ or "").strip(), f"{name} says nothing")
        for owner in (rlx.Session, rlx.Plan):
            for name, value in vars(owner).items():
                if not name.startswith("_") and callable(value):
                    self.assertTrue(value.__doc__ or owner is rlx.Plan and name == "close", f"{owner.__name__}.{name} says nothing")


if __name__ == "__main__":
    unittest.main()
