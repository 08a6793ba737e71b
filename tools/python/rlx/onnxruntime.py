# SPDX-License-Identifier: Apache-2.0
"""InferenceSession with the names and habits of onnxruntime's, so that a program changes one import:

    import rlx.onnxruntime as ort        # was: import onnxruntime as ort
    session = ort.InferenceSession("model.onnx", providers=["CUDAExecutionProvider"])
    outputs = session.run(None, {"input": x})

A model (a path or bytes) is compiled for the device at the first session and kept by its content, in the cache folder of rlxc or in
RLX_PLAN_CACHE; a .plan is opened as it is. Dims that the model leaves open must have a range: the session option
"rlx.dims" (`options.add_session_config_entry("rlx.dims", "batch=1:32,seq=1:512")`), or `dims={"batch": (1, 32)}` of InferenceSession;
without one, the session compiles when the sizes are first seen, and again for each other size.

Providers choose the device: CUDAExecutionProvider and TensorrtExecutionProvider a CUDA device (their option device_id), and
VulkanExecutionProvider a Vulkan device. CPUExecutionProvider means: any device of this machine. The first that can be had is taken, as
with onnxruntime; where providers are named and none can be had, the session is refused.

What has no counterpart is refused by name: session options that would change results or files, run options, training.
"""
import ctypes
import hashlib
import math
import os
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import __version__
from . import _arrays, _core
from ._compile import compile as _compile_model
from ._errors import ArgumentError, CompileError, Error
from ._runtime import Plan, Session, devices

Fail = InvalidArgument = InvalidGraph = NoSuchFile = RuntimeException = Error
_PROVIDERS = {"CUDAExecutionProvider": "cuda", "TensorrtExecutionProvider": "cuda", "VulkanExecutionProvider": "vulkan",
              "CPUExecutionProvider": ""}
_TYPES = {"f32": "float", "f16": "float16", "bf16": "bfloat16", "f64": "double", "i8": "int8", "u8": "uint8", "i16": "int16",
          "i32": "int32", "u32": "uint32", "i64": "int64", "bool": "bool", "c64": "complex64", "f8e4m3": "float8e4m3fn",
          "f8e5m2": "float8e5m2"}


def get_available_providers() -> List[str]:
    """Providers for which this machine has a device; CPUExecutionProvider last, which means any."""
    found = {device.id.partition(":")[0] for device in devices()}
    return [name for name, kind in _PROVIDERS.items() if kind in found and name != "TensorrtExecutionProvider"] + [
        "CPUExecutionProvider"]


def get_all_providers() -> List[str]:
    """Providers that InferenceSession knows."""
    return list(_PROVIDERS)


def get_device() -> str:
    """"GPU" where there is a CUDA device, else "CPU"."""
    return "GPU" if "CUDAExecutionProvider" in get_available_providers() else "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Taken and without effect: there are no messages but errors and warnings of Python."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """As set_default_logger_severity."""


class GraphOptimizationLevel:
    """Levels of SessionOptions.graph_optimization_level: as rlxc -O0, -O1, -O2, -O2."""

    ORT_DISABLE_ALL, ORT_ENABLE_BASIC, ORT_ENABLE_EXTENDED, ORT_ENABLE_ALL = 0, 1, 2, 99


class ExecutionMode:
    """Of SessionOptions.execution_mode. Steps run as the plan's waves say, under either."""

    ORT_SEQUENTIAL, ORT_PARALLEL = 0, 1


class SessionOptions:
    """Options of InferenceSession.

    graph_optimization_level and enable_profiling mean what they do in onnxruntime. Those that only tune its threads and arenas
    (intra_op_num_threads, inter_op_num_threads, enable_mem_pattern, enable_mem_reuse, enable_cpu_mem_arena, execution_mode) and its
    messages (log_severity_level, log_verbosity_level, logid) can be set and change nothing: there is nothing of that kind here. Config
    entries: "rlx.dims" and "rlx.precision". Anything else is refused by name.
    """

    _NO_EFFECT = {"intra_op_num_threads": 0, "inter_op_num_threads": 0, "enable_mem_pattern": True, "enable_mem_reuse": True,
                  "enable_cpu_mem_arena": True, "execution_mode": ExecutionMode.ORT_SEQUENTIAL, "log_severity_level": -1,
                  "log_verbosity_level": 0, "logid": ""}

    def __init__(self):
        values = {**self._NO_EFFECT, "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL, "enable_profiling": False,
                  "_config": {}, "_dims": {}}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name, value):
        if name not in self._NO_EFFECT and name not in ("graph_optimization_level", "enable_profiling"):
            raise ArgumentError(f"SessionOptions.{name} has no counterpart in rlx", 1)
        object.__setattr__(self, name, value)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """"rlx.dims": as "batch=1:32,seq=8"; "rlx.precision": as rlxc --precision."""
        if key not in ("rlx.dims", "rlx.precision"):
            raise ArgumentError(f"the session config entry {key!r} has no counterpart in rlx", 1)
        if key == "rlx.dims":
            self._dims.update(_parse_dims(value))
        self._config[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """What was added; ArgumentError for what was not."""
        if key not in self._config:
            raise ArgumentError(f"no session config entry {key!r}", 1)
        return self._config[key]

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fixes a symbolic dim of the model."""
        self._dims[name] = int(value)


class RunOptions:
    """Accepted by run; only what tunes onnxruntime's messages can be set."""

    def __setattr__(self, name, value):
        if name not in ("log_severity_level", "log_verbosity_level", "logid"):
            raise ArgumentError(f"RunOptions.{name} has no counterpart in rlx", 1)
        object.__setattr__(self, name, value)


class NodeArg(NamedTuple):
    """An input or output: type as "tensor(float)", shape with numbers, and strings or None for what is open."""

    name: str
    type: str
    shape: List[Union[int, str, None]]


class ModelMetadata(NamedTuple):
    """What an ONNX model's file says of itself; of a .plan the name of its model and the compiler, as graph_name and producer_name."""

    custom_metadata_map: Dict[str, str]
    description: str
    domain: str
    graph_description: str
    graph_name: str
    producer_name: str
    version: int


class OrtValue:
    """A tensor: NumPy's on the CPU, or any library's that speaks DLPack."""

    def __init__(self, value):
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(array, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        """On the host; device memory comes from PyTorch or CuPy (OrtValue(tensor))."""
        if device_type != "cpu":
            raise ArgumentError(f"an OrtValue from NumPy lies on the CPU, not on {device_type}; give PyTorch's or CuPy's tensors", 1)
        return OrtValue(np.ascontiguousarray(array))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        """Zeros on the host."""
        return OrtValue.ortvalue_from_numpy(np.zeros(shape, element_type), device_type, device_id)

    def numpy(self):
        """As a NumPy array; copied from a device."""
        return _to_numpy(self._value)

    def shape(self) -> List[int]:
        return list(self._value.shape)

    def data_type(self) -> str:
        name = str(self._value.dtype).rpartition(".")[2]
        return f"tensor({ {'float32': 'float', 'float64': 'double'}.get(name, name)})"

    def element_type(self):
        return self._value.dtype

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._value.ctypes.data if isinstance(self._value, np.ndarray) else int(self._value.data_ptr())

    def device_name(self) -> str:
        on_host = isinstance(self._value, np.ndarray) or int(self._value.__dlpack_device__()[0]) == 1
        return "cpu" if on_host else "cuda"

    def has_value(self) -> bool:
        return True

    def is_tensor(self) -> bool:
        return True

    def __dlpack__(self, **options):
        return self._value.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._value.__dlpack_device__()


class IOBinding:
    """Inputs and outputs of run_with_iobinding: NumPy arrays, and tensors of PyTorch or CuPy, which are used where they lie."""

    def __init__(self, session: "InferenceSession"):
        self._session = session
        self._inputs: Dict[str, Any] = {}
        self._outputs: Dict[str, Any] = {}
        self._results: Dict[str, Any] = {}

    def bind_cpu_input(self, name: str, array) -> None:
        self._inputs[name] = np.asarray(array)

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        self._inputs[name] = value._value

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        self._outputs[name] = value._value

    def bind_input(self, name: str, device_type: str, device_id: int, element_type, shape: Sequence[int], buffer_ptr: int) -> None:
        """Memory by its address, on "cpu" or "cuda"."""
        self._inputs[name] = _wrap(device_type, device_id, element_type, shape, buffer_ptr)

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type=None, shape=None,
                    buffer_ptr: Optional[int] = None) -> None:
        """Without an address: a new NumPy array."""
        if buffer_ptr is not None:
            self._outputs[name] = _wrap(device_type, device_id, element_type, shape, buffer_ptr)
        elif device_type == "cpu":
            self._outputs[name] = None
        else:
            raise ArgumentError(f"output {name!r} on {device_type} needs a buffer: give buffer_ptr, or an OrtValue over a tensor", 1)

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Runs wait for their inputs by themselves."""

    def synchronize_outputs(self) -> None:
        """A run has ended when run_with_iobinding returns."""

    def get_outputs(self) -> List[OrtValue]:
        return [OrtValue(value) for value in self._results.values()]

    def copy_outputs_to_cpu(self) -> List[np.ndarray]:
        return [_to_numpy(value) for value in self._results.values()]


def _wrap(device_type, device_id, element_type, shape, address):
    """The caller's memory as an array, for as long as the caller keeps it."""
    if device_type not in ("cpu", "cuda"):
        raise ArgumentError(f"device {device_type!r} has no counterpart in rlx", 1)
    dtype, dims = np.dtype(element_type), [int(dim) for dim in shape]
    if device_type == "cuda":
        return _core.wrap_memory(int(address), dims, _arrays.number_of(dtype), int(device_id))
    # Not by DLPack: older NumPys take what comes that way for read-only.
    _arrays.number_of(dtype)
    memory = (ctypes.c_uint8 * (math.prod(dims) * dtype.itemsize)).from_address(int(address))
    return np.ndarray(dims, dtype, memory)


class InferenceSession:
    """A model ready to run; see the module. Threads may share a session: their runs take turns."""

    def __init__(self, path_or_bytes: Union[str, os.PathLike, bytes], sess_options: Optional[SessionOptions] = None,
                 providers: Optional[Sequence[Union[str, Tuple[str, Dict[str, Any]]]]] = None,
                 provider_options: Optional[Sequence[Dict[str, Any]]] = None, *, dims: Optional[Dict[str, Any]] = None, **others):
        if others:
            raise ArgumentError(f"InferenceSession: {', '.join(sorted(others))} has no counterpart in rlx", 1)
        self._options = sess_options if sess_options is not None else SessionOptions()
        if not isinstance(self._options, SessionOptions):
            raise TypeError(f"sess_options got {type(self._options).__name__}, wanted rlx.onnxruntime.SessionOptions")
        self._device, self._providers = _choose(providers, provider_options)
        self._source = bytes(path_or_bytes) if isinstance(path_or_bytes, (bytes, bytearray, memoryview)) else os.fspath(path_or_bytes)
        self._dims = {**self._options._dims, **(dims or {})}
        self._lock = threading.Lock()
        self._sessions: Dict[Tuple, Session] = {}
        self._model = None if self._is_plan() else _model_ports(self._read())
        self._plan = self._open_plan()

    # ---- what it has

    def get_inputs(self) -> List[NodeArg]:
        """Inputs in order."""
        return self._ports("inputs")

    def get_outputs(self) -> List[NodeArg]:
        """Outputs in order."""
        return self._ports("outputs")

    def get_modelmeta(self) -> ModelMetadata:
        """Names, version and the custom texts of the model's file."""
        if self._model is None:
            return ModelMetadata({}, "", "", "", self._plan.name, self._plan.producer, 0)
        return ModelMetadata(**self._model[2])

    def get_overridable_initializers(self) -> List[NodeArg]:
        return []

    def get_providers(self) -> List[str]:
        return list(self._providers)

    def get_session_options(self) -> SessionOptions:
        return self._options

    # ---- runs

    def run(self, output_names: Optional[Sequence[str]], input_feed: Dict[str, Any], run_options: Optional[RunOptions] = None) -> List:
        """Outputs of these names in this order, or all where None (or empty)."""
        names = list(output_names) if output_names else [port.name for port in self.get_outputs()]
        feed = self._feed(input_feed)
        with self._lock:
            results = self._session_for(feed).run(feed, outputs=list(dict.fromkeys(names)))
        return [results[name] for name in names]

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None) -> List[OrtValue]:
        return [OrtValue(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Optional[RunOptions] = None) -> None:
        """Runs with what is bound; the outputs are those that were bound, all where none was."""
        names = list(iobinding._outputs) or [port.name for port in self.get_outputs()]
        out = {name: value for name, value in iobinding._outputs.items() if value is not None}
        feed = self._feed(iobinding._inputs)
        with self._lock:
            results = self._session_for(feed).run(feed, outputs=names, out=out)
        iobinding._results = {name: results[name] for name in names}

    def end_profiling(self):
        """The times of the steps of the last run's sizes, as rlx.Profile. Needs enable_profiling."""
        with self._lock:
            if not self._options.enable_profiling or not self._sessions:
                raise ArgumentError("end_profiling needs SessionOptions.enable_profiling, and a run", 1)
            return next(reversed(self._sessions.values())).profile()

    # ---- plans and sessions

    def _ports(self, kind):
        if self._plan is None:
            return self._model[kind == "outputs"]
        return [NodeArg(port.name, f"tensor({_TYPES[port.dtype]})", list(port.shape)) for port in getattr(self._plan, kind)]

    def _feed(self, given):
        """Every input by name; what is no array (a list, a number) becomes one of the input's type, as with onnxruntime."""
        ports = {port.name: port for port in self.get_inputs()}
        unknown, missing = sorted(given.keys() - ports.keys()), [name for name in ports if name not in given]
        if unknown or missing:
            raise ArgumentError("; ".join(filter(None, [
                unknown and f"the model has no input {', '.join(map(repr, unknown))}",
                missing and f"no value for input {', '.join(map(repr, missing))}"])) + f"; its inputs are {', '.join(map(repr, ports))}", 1)
        feed = {}
        for name, value in given.items():
            value = value._value if isinstance(value, OrtValue) else value
            if not hasattr(value, "shape") and not hasattr(value, "__dlpack__"):
                value = np.asarray(value, _dtype_of(ports[name]))
            feed[name] = value
        return feed

    def _read(self):
        if isinstance(self._source, bytes):
            return self._source
        with open(self._source, "rb") as file:
            return file.read()

    def _is_plan(self):
        """A file by its name, bytes by their first."""
        return self._source[:8] == b"RLXPLAN\0" if isinstance(self._source, bytes) else self._source.endswith(".plan")

    def _open_plan(self):
        """The plan, where all open dims have ranges; None where each size needs one of its own."""
        if self._model is None:
            return Plan(self._source)
        dims = {dim for port in self._model[0] for dim in port.shape}
        if any(dim is None or isinstance(dim, str) and dim not in self._dims for dim in dims):
            return None
        return self._compile({}, self._dims)

    def _session_for(self, feed):
        if self._plan is not None:
            key = ()
            plan = self._plan
        else:
            key = tuple((name, tuple(value.shape)) for name, value in feed.items() if hasattr(value, "shape"))
            plan = None
        session = self._sessions.get(key)
        if session is None:
            if plan is None:
                plan = self._compile({port.name: dict(key)[port.name] for port in self._model[0]
                                      if port.name in dict(key) and any(not isinstance(dim, int) for dim in port.shape)}, self._dims)
            session = self._sessions[key] = Session(plan, self._device, profile=self._options.enable_profiling, check_indices=False)
        return session

    def _compile(self, shapes, dims):
        kind = self._device.partition(":")[0]
        level = min(int(self._options.graph_optimization_level), 2)
        precision = self._options._config.get("rlx.precision")
        options = dict(target="cuda" if kind == "cuda" else "vulkan", optimisation=level, precision=precision)
        kept = _cache_file(self._source, {**options, "shapes": shapes, "dims": dims})
        if kept is not None and os.path.exists(kept):
            try:
                return Plan(kept)
            except Error:  # of an older version, or damaged
                pass
        try:
            return _compile_model(self._source, dims=dims, input_shapes=shapes, output=kept, **options)
        except CompileError as error:  # a full disk, or another process that writes the same plan at this moment
            if kept is None or any(each.severity == "error" and each.code != "file-write" for each in error.diagnostics):
                raise
        return _compile_model(self._source, dims=dims, input_shapes=shapes, **options)


def _choose(providers, provider_options):
    """The device, and the providers that the session says it has."""
    named = [(each, {}) if isinstance(each, str) else tuple(each) for each in providers or ["CUDAExecutionProvider",
                                                                                          "CPUExecutionProvider"]]
    if provider_options is not None:
        if len(provider_options) != len(named):
            raise ArgumentError(f"{len(named)} providers, {len(provider_options)} provider_options", 1)
        named = [(name, options) for (name, _), options in zip(named, provider_options)]
    found = [device.id for device in devices()]
    for name, options in named:
        if name not in _PROVIDERS:
            raise ArgumentError(f"there is no provider {name!r}; rlx has {', '.join(_PROVIDERS)}", 1)
        unknown = set(options) - {"device_id"}
        if unknown:
            raise ArgumentError(f"{name}: the option {sorted(unknown)[0]} has no counterpart in rlx", 1)
        kind = _PROVIDERS[name]
        wanted = f"{kind}:{options['device_id']}" if "device_id" in options and kind else kind
        for device in found:
            if device == wanted or (wanted in ("cuda", "vulkan", "") and device.startswith(wanted)):
                taken = [each for each, _ in named if each == name or each == "CPUExecutionProvider"]
                return device, taken
    from ._runtime import missing_devices
    raise ArgumentError(f"no device for {', '.join(name for name, _ in named)}. {missing_devices()}".rstrip(), 1)


def _dtype_of(port):
    """NumPy's dtype of a port's type."""
    for number, name in enumerate(_arrays.NAMES):
        if port.type == f"tensor({_TYPES[name]})":
            return _arrays.numpy_dtype(number)
    raise ArgumentError(f"input {port.name!r} is a {port.type}, which rlx does not have", 1)


def _parse_dims(text):
    dims = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        numbers = value.split(":")
        if not name or not all(number.isdigit() for number in numbers) or len(numbers) > 3:
            raise ArgumentError(f"rlx.dims {part!r} is no NAME=NUMBER, NAME=MIN:MAX or NAME=MIN:MAX:STEP", 1)
        dims[name] = int(value) if len(numbers) == 1 else tuple(map(int, numbers))
    return dims


def _to_numpy(value):
    if isinstance(value, np.ndarray):
        return value
    name = _arrays.library(value)
    if name == "torch":
        return value.detach().cpu().numpy()
    if name == "cupy":
        return value.get()
    return np.from_dlpack(value)


def _cache_file(source, options):
    """Where the plan of this model under these options is kept; None where there is no such place."""
    folder = os.environ.get("RLX_PLAN_CACHE")
    is_default = folder is None
    if is_default:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(home, "rlx", "plans")
    if not folder:
        return None
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.stat(folder)
    except OSError:
        return None
    if is_default and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        import warnings
        warnings.warn(f"{folder} is not used: others may write to it, and plans are code; RLX_PLAN_CACHE names another folder", stacklevel=4)
        return None
    digest = hashlib.sha256(repr((__version__, sorted(options.items(), key=repr))).encode())
    if isinstance(source, bytes):
        digest.update(source)
    else:
        for file in _files_of(source):
            with open(file, "rb") as opened:
                for piece in iter(lambda: opened.read(1 << 20), b""):
                    digest.update(piece)
    return os.path.join(folder, digest.hexdigest() + ".plan")


def _files_of(model):
    """The model's file and what it may keep its weights in: files beside it whose names it holds."""
    folder = os.path.dirname(os.path.abspath(model))
    with open(model, "rb") as file:
        content = file.read()
    beside = sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name)))
    return [model, *(os.path.join(folder, name) for name in beside
                     if os.path.join(folder, name) != os.path.abspath(model) and name.encode() in content)]


# ---- the ports of an ONNX model

_ELEMENTS = {1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool", 10: "float16",
             11: "double", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8e4m3fn",
             19: "float8e5m2"}


def _model_ports(content):
    """(inputs, outputs) of an ONNX model: inputs without those that have initializers."""
    from . import _compiler
    ports = _compiler.onnx_ports(content)
    if ports is None:
        raise ArgumentError("the file is no ONNX model; a model of another kind is compiled by rlx.compile to a .plan", 1)
    inputs, outputs, metadata = ports
    return (*([NodeArg(name, f"tensor({_ELEMENTS.get(element, element)})", list(dims)) for name, element, dims in side]
              for side in (inputs, outputs)), metadata)
