#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scripts as onnxruntime's documentation has them, run as they are and with their one import changed: the same numbers.

    python3 tests/python/onnxruntime_test.py BUILD_DIR

Exits 77, which counts as skipped, where the package rlx, onnx, onnxruntime or a device is missing. What needs no onnxruntime is in
package_test.py.
"""
import os
import pathlib
import sys
import tempfile

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve() / "python"))
try:
    import numpy as np
    import onnx
    import onnxruntime  # noqa: F401
    import rlx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(SKIPPED)

# Beginning of each: the import that changes. What is compared: `results`.
SCRIPTS = {
    "load and predict": """
import numpy
import onnxruntime as rt

sess = rt.InferenceSession("mlp.onnx", providers=rt.get_available_providers())
input_name = sess.get_inputs()[0].name
print("input name", input_name)
input_shape = sess.get_inputs()[0].shape
input_type = sess.get_inputs()[0].type
output_name = sess.get_outputs()[0].name
x = numpy.random.default_rng(1).random((3, 16)).astype(numpy.float32)
res = sess.run([output_name], {input_name: x})
more = sess.run(None, {input_name: x[:2]})
meta = sess.get_modelmeta()
told = [meta.graph_name, meta.producer_name, meta.version, meta.description, meta.custom_metadata_map]
listed = sess.run(None, {input_name: x.tolist()})
results = [input_name, input_type, input_shape, output_name, res[0], more[0], listed[0], *told]
""",
    "session options and several outputs": """
import numpy
import onnxruntime

so = onnxruntime.SessionOptions()
so.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
so.intra_op_num_threads = 1
so.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
with open("conv.onnx", "rb") as file:
    session = onnxruntime.InferenceSession(file.read(), so, providers=["CPUExecutionProvider"])
x = numpy.random.default_rng(2).standard_normal((1, 3, 12, 12)).astype(numpy.float32)
outputs = session.run(["classes", "best"], {"image": x})
try:
    session.run(["nothing"], {"image": x})
    refused = False
except Exception:
    refused = True
try:
    session.run(None, {"image": x.astype(numpy.float64)})
    wrong_type = False
except Exception:
    wrong_type = True
results = [[o.name for o in session.get_outputs()], [o.type for o in session.get_outputs()], [o.shape for o in session.get_outputs()],
           outputs[0], outputs[1], refused, wrong_type]
""",
    "io binding and OrtValues": """
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("mlp.onnx", providers=["CPUExecutionProvider"])
x = np.random.default_rng(3).random((4, 16)).astype(np.float32)
io_binding = session.io_binding()
io_binding.bind_cpu_input("input", x)
io_binding.bind_output("output")
session.run_with_iobinding(io_binding)
first = io_binding.copy_outputs_to_cpu()[0]

x_ortvalue = onnxruntime.OrtValue.ortvalue_from_numpy(x)
y_ortvalue = onnxruntime.OrtValue.ortvalue_from_shape_and_type([4, 8], np.float32)
io_binding = session.io_binding()
io_binding.bind_input(name="input", device_type=x_ortvalue.device_name(), device_id=0, element_type=np.float32,
                      shape=x_ortvalue.shape(), buffer_ptr=x_ortvalue.data_ptr())
io_binding.bind_output(name="output", device_type=y_ortvalue.device_name(), device_id=0, element_type=np.float32,
                       shape=y_ortvalue.shape(), buffer_ptr=y_ortvalue.data_ptr())
session.run_with_iobinding(io_binding)
results = [first, y_ortvalue.numpy(), x_ortvalue.data_type(), y_ortvalue.shape(), io_binding.get_outputs()[0].numpy()]
""",
    "run_async, with options as servers set them": """
import threading
import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
options.use_deterministic_compute = True
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = onnxruntime.InferenceSession("conv.onnx", options, providers=[("CPUExecutionProvider", {})], enable_fallback=0)
run_options = onnxruntime.RunOptions()
run_options.log_severity_level = 3
run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
done, told = threading.Event(), []

class MyData:
    def save_results(self, results, err):
        told.extend([results[0], results[1], err])
        done.set()

def callback(results, user_data, err):
    user_data.save_results(results, err)

x = np.random.default_rng(4).standard_normal((1, 3, 12, 12)).astype(np.float32)
session.run_async(["classes", "best"], {"image": x}, callback, MyData(), run_options)
assert done.wait(120)
value = onnxruntime.OrtValue.ortvalue_from_numpy(x)
told += [value.element_type(), value.tensor_size_in_bytes(), np.asarray(value), session.get_provider_options(), session.get_providers()]
value.update_inplace(2 * x)
results = [*told, *(each.numpy() for each in session.run_with_ort_values(None, {"image": value}))]
""",
}


def save(folder, name, nodes, inputs, outputs, weights):
    graph = helper.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(array, key) for key, array in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="the test",
                              model_version=3, doc_string="tells of itself")
    helper.set_model_props(model, {"names": "{0: 'cat', 1: 'dog'}"})
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")


def make_models(folder):
    numbers = np.random.default_rng(0)
    value, node = helper.make_tensor_value_info, helper.make_node
    save(folder, "mlp", [node("MatMul", ["input", "w"], ["m"]), node("Add", ["m", "b"], ["a"]), node("Softmax", ["a"], ["output"], axis=-1)],
         [value("input", TensorProto.FLOAT, ["batch", 16])], [value("output", TensorProto.FLOAT, ["batch", 8])],
         {"w": numbers.standard_normal((16, 8)).astype(np.float32), "b": numbers.standard_normal(8).astype(np.float32)})
    save(folder, "conv", [node("Conv", ["image", "k"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]),
                          node("GlobalAveragePool", ["r"], ["p"]), node("Flatten", ["p"], ["classes"]),
                          node("ArgMax", ["classes"], ["best"], axis=1, keepdims=0)],
         [value("image", TensorProto.FLOAT, [1, 3, 12, 12])],
         [value("classes", TensorProto.FLOAT, [1, 6]), value("best", TensorProto.INT64, [1])],
         {"k": numbers.standard_normal((6, 3, 3, 3)).astype(np.float32)})


def results_of(script):
    names = {"print": lambda *_: None}
    exec(compile(script, "script", "exec"), names)  # noqa: S102  the scripts above
    return names["results"]


def changed(script):
    """The script with its one import changed."""
    for line, instead in (("import onnxruntime as rt\n", "import rlx.onnxruntime as rt\n"),
                          ("import onnxruntime\n", "import rlx.onnxruntime as onnxruntime\n")):
        script = script.replace(line, instead)
    return script


def differences(script):
    theirs, ours = results_of(script), results_of(changed(script))
    for number, (wanted, got) in enumerate(zip(theirs, ours, strict=True)):
        if isinstance(wanted, np.ndarray):
            if wanted.dtype != got.dtype or wanted.shape != got.shape or not np.allclose(wanted, got, rtol=1e-5, atol=1e-6):
                yield f"result {number}: {wanted!r} became {got!r}"
        elif wanted != got:
            yield f"result {number}: {wanted!r} became {got!r}"


def check_cache(folder):
    """A cache that cannot be written costs time alone; a usual one that others may write to is not used."""
    import fcntl
    import warnings
    script = changed(SCRIPTS["load and predict"])
    wanted = results_of(script)[4]
    os.environ["RLX_PLAN_CACHE"] = str(folder / "busy")
    results_of(script)
    plan = next((folder / "busy").iterdir())
    plan.unlink()
    with open(f"{plan}.partial", "wb") as other:  # as another process that writes the plan holds it
        fcntl.flock(other, fcntl.LOCK_EX)
        if not np.array_equal(results_of(script)[4], wanted):
            yield "another result without the cache"
        if plan.exists():
            yield "the plan was written although another process held it"
    del os.environ["RLX_PLAN_CACHE"]
    os.environ["XDG_CACHE_HOME"] = str(folder)
    (folder / "rlx/plans").mkdir(parents=True)
    (folder / "rlx/plans").chmod(0o777)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        results_of(script)
    if not any("others may write" in str(each.message) for each in told) or list((folder / "rlx/plans").iterdir()):
        yield "a cache that others may write to is used"


def main():
    if not rlx.devices():
        print("SKIPPED: no device; mesa-vulkan-drivers is one")
        sys.exit(SKIPPED)
    faults = []
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["RLX_PLAN_CACHE"] = os.path.join(scratch, "plans")
        os.chdir(scratch)
        make_models(pathlib.Path(scratch))
        for name, script in SCRIPTS.items():
            faults += [f"{name}: {text}" for text in differences(script)]
        made = len(os.listdir("plans"))
        results_of(changed(SCRIPTS["load and predict"]))
        if made == 0 or len(os.listdir("plans")) != made:
            faults.append(f"the cache of plans had {made} files and has {len(os.listdir('plans'))} after a model that it knew")
        faults += check_cache(pathlib.Path(scratch))
        os.chdir(ROOT)
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(SCRIPTS)} scripts give the same numbers with one import changed")


if __name__ == "__main__":
    main()
