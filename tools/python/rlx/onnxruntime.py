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

What has no counterpart is refused by name, with an error that is rlx.Error and AttributeError or ValueError: session and run options that
would change results or files, sparse tensors, sequences, training.
"""
import concurrent.futures
import ctypes
import hashlib
import json
import math
import os
import sys
import threading
import time
import types
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import __version__
from . import _arrays, _core
from ._compile import compile as _compile_model
from ._cuda import DeviceArray
from ._errors import ArgumentError, CompileError, Error
from ._runtime import Plan, Session, devices

Fail = InvalidArgument = InvalidGraph = NoSuchFile = RuntimeException = Error
_EXCEPTIONS = {name: Error for name in ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NoModel", "NoSuchFile", "NotImplemented",
                                        "RuntimeException")}
capi = types.SimpleNamespace(onnxruntime_pybind11_state=types.SimpleNamespace(**_EXCEPTIONS))
_PROVIDERS = {"CUDAExecutionProvider": "cuda", "TensorrtExecutionProvider": "cuda", "VulkanExecutionProvider": "vulkan",
              "CPUExecutionProvider": ""}
_TYPES = {"f32": "float", "f16": "float16", "bf16": "bfloat16", "f64": "double", "i8": "int8", "u8": "uint8", "i16": "int16",
          "i32": "int32", "u32": "uint32", "i64": "int64", "bool": "bool", "c64": "complex64", "f8e4m3": "float8e4m3fn",
          "f8e5m2": "float8e5m2"}


# By ONNX's numbers of element types, those that rlx has.
_ELEMENTS = {1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool", 10: "float16",
             11: "double", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8e4m3fn",
             19: "float8e5m2"}


class NoCounterpart(ArgumentError, AttributeError):
    """What onnxruntime has and rlx has not."""


def _refuse_names(owner, names):
    """A __getattr__ that refuses these of onnxruntime's names, and knows no other."""
    names = frozenset(names.split())

    def refuse(*arguments):
        name = arguments[-1]
        if name in names:
            raise NoCounterpart(f"{owner}.{name} has no counterpart in rlx", 1)
        raise AttributeError(f"{owner} has no attribute {name!r}")
    return refuse


__getattr__ = _refuse_names("onnxruntime", """
    AdapterFormat LoraAdapter ModelCompiler ModelPackage OrtAllocatorType OrtArenaCfg OrtCompileApiFlags OrtDevice OrtEpDevice
    OrtExecutionProviderDevicePolicy OrtHardwareDevice OrtMemType OrtMemoryInfo OrtSyncStream SparseTensor copy_tensors
    create_and_register_allocator create_and_register_allocator_v2 get_ep_devices quantization register_execution_provider_library
    set_default_logger_callback set_global_thread_pool_sizes set_seed tools training transformers unregister_execution_provider_library""")


def get_version_string() -> str:
    """rlx's version."""
    return __version__


def get_build_info() -> str:
    """What this is."""
    return f"rlx {__version__}"


def preload_dlls(*_, **__) -> None:
    """Nothing is to be loaded before: the driver is opened with the first session."""


def disable_telemetry_events() -> None:
    """There is no telemetry."""


def enable_telemetry_events() -> None:
    """Taken and without effect: there is no telemetry."""


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


class ExecutionOrder:
    """Of SessionOptions.execution_order. Steps run as the plan's waves say, under each."""

    DEFAULT, PRIORITY_BASED, MEMORY_EFFICIENT = 0, 1, 2


class _Options:
    """Named values: those with an effect, and those that only tune what rlx has not and change nothing."""

    _VALUES: Dict[str, Any] = {}

    def __init__(self):
        for name, value in self._VALUES.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_config", {})

    def __setattr__(self, name, value):
        kind = type(self).__name__
        if name not in self._VALUES:
            raise NoCounterpart(f"{kind}.{name} has no counterpart in rlx", 1)
        if name in self._ONLY and value not in self._ONLY[name]:
            raise ArgumentError(f"{kind}.{name} = {value!r} has no counterpart in rlx; it can be {self._ONLY[name][0]!r}", 1)
        object.__setattr__(self, name, value)

    # Of those that rlx has only in part, the values that can be.
    _ONLY: Dict[str, Tuple] = {}

    def _add(self, key, value, without_effect, only):
        if key in only and value != only[key]:
            raise ArgumentError(f"the config entry {key!r} can be {only[key]!r} in rlx, not {value!r}", 1)
        if key not in only and key not in without_effect:
            raise ArgumentError(f"the config entry {key!r} has no counterpart in rlx", 1)
        self._config[key] = value

    def _get(self, key):
        if key not in self._config:
            raise ArgumentError(f"no config entry {key!r} was added", 1)
        return self._config[key]


class SessionOptions(_Options):
    """Options of InferenceSession.

    graph_optimization_level, enable_profiling and profile_file_prefix mean what they do in onnxruntime; use_deterministic_compute is always
    so. Those that only tune its threads and arenas (intra_op_num_threads, inter_op_num_threads, enable_mem_pattern, enable_mem_reuse,
    enable_cpu_mem_arena, execution_mode, execution_order, use_per_session_threads) and its messages (log_severity_level,
    log_verbosity_level, logid) can be set and change nothing: there is nothing of that kind here. Config entries: "rlx.dims" and
    "rlx.precision"; onnxruntime's that tune threads, allocators and prepacking change nothing. Anything else is refused by name.
    """

    _VALUES = {"intra_op_num_threads": 0, "inter_op_num_threads": 0, "enable_mem_pattern": True, "enable_mem_reuse": True,
               "enable_cpu_mem_arena": True, "execution_mode": ExecutionMode.ORT_SEQUENTIAL, "execution_order": ExecutionOrder.DEFAULT,
               "use_per_session_threads": True, "use_deterministic_compute": True, "log_severity_level": -1, "log_verbosity_level": 0,
               "logid": "", "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL, "enable_profiling": False,
               "profile_file_prefix": "onnxruntime_profile_", "optimized_model_filepath": ""}
    _ONLY = {"optimized_model_filepath": ("",)}
    _WITHOUT_EFFECT = ("session.intra_op.allow_spinning", "session.inter_op.allow_spinning", "session.force_spinning_stop",
                       "session.intra_op_thread_affinities", "session.dynamic_block_base", "session.use_env_allocators",
                       "session.use_device_allocator_for_initializers", "session.disable_prepacking", "session.disable_cpu_ep_fallback")
    _ENTRIES = {"session.load_model_format": "ONNX", "session.set_denormal_as_zero": "0"}

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "_dims", {})
        object.__setattr__(self, "_named_providers", [])

    __getattr__ = _refuse_names("SessionOptions", """
        add_external_initializers add_external_initializers_from_files_in_memory add_free_dimension_override_by_denotation add_initializer
        add_provider_for_devices register_custom_ops_library set_ep_context_data_read_func set_load_cancellation_flag
        set_provider_selection_policy set_provider_selection_policy_delegate""")

    def add_session_config_entry(self, key: str, value: str) -> None:
        """"rlx.dims": as "batch=1:32,seq=8"; "rlx.precision": as rlxc --precision."""
        self._add(key, value, (*self._WITHOUT_EFFECT, "rlx.dims", "rlx.precision"), self._ENTRIES)
        if key == "rlx.dims":
            self._dims.update(_parse_dims(value))

    def get_session_config_entry(self, key: str) -> str:
        """What was added; ArgumentError for what was not."""
        return self._get(key)

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fixes a symbolic dim of the model."""
        self._dims[name] = int(value)

    def add_provider(self, name: str, options: Optional[Dict[str, Any]] = None) -> None:
        """A provider, in this order, of a session that is given none itself."""
        self._named_providers.append((name, dict(options or {})))

    def has_providers(self) -> bool:
        """Whether there is one of add_provider."""
        return bool(self._named_providers)


class RunOptions(_Options):
    """Options of a run. What tunes onnxruntime's messages and arenas can be set and changes nothing; a run cannot be terminated."""

    _VALUES = {"log_severity_level": -1, "log_verbosity_level": 0, "logid": "", "only_execute_path_to_fetches": False, "terminate": False}
    _ONLY = {"terminate": (False,)}
    _WITHOUT_EFFECT = ("memory.enable_memory_arena_shrinkage", "disable_synchronize_execution_providers", "gpu_graph_id")

    __getattr__ = _refuse_names("RunOptions", "add_active_adapter")

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Those of arenas and graphs change nothing: runs allocate nothing, and are replayed as graphs anyway."""
        self._add(key, value, self._WITHOUT_EFFECT, {})

    def get_run_config_entry(self, key: str) -> str:
        """What was added; ArgumentError for what was not."""
        return self._get(key)


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
    """A tensor: NumPy's on the CPU, memory of its own on a CUDA device, or any library's that speaks DLPack."""

    def __init__(self, value):
        self._value = value

    __getattr__ = _refuse_names("OrtValue", "as_sparse_tensor ort_value_from_sparse_tensor ortvalue_from_numpy_with_onnx_type")

    @staticmethod
    def ortvalue_from_numpy(numpy_obj, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        """On "cpu" over the array itself where it is contiguous, on "cuda" a copy."""
        array = np.ascontiguousarray(numpy_obj).reshape(np.shape(numpy_obj))
        if _is_cpu(device_type):
            return OrtValue(array)
        made = DeviceArray(array.shape, array.dtype, device_id)
        made.write(array)
        return OrtValue(made)

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        """On "cpu" zeros, on "cuda" memory as it comes. element_type: NumPy's, or ONNX's number."""
        dtype = _numpy_type(element_type)
        if _is_cpu(device_type):
            return OrtValue(np.zeros(shape, dtype))
        return OrtValue(DeviceArray(shape, dtype, device_id))

    @staticmethod
    def from_dlpack(data) -> "OrtValue":
        """Over the memory of a tensor that speaks DLPack."""
        if not hasattr(data, "__dlpack__"):
            raise TypeError(f"from_dlpack got {type(data).__name__}, wanted a tensor with __dlpack__")
        return OrtValue(data)

    def update_inplace(self, data) -> None:
        """Copies an array, or another OrtValue, into this one's memory."""
        array = data.numpy() if isinstance(data, OrtValue) else np.asarray(data)
        if isinstance(self._value, DeviceArray):
            self._value.write(array)
        elif list(array.shape) != self.shape():
            raise ArgumentError(f"update_inplace got {list(array.shape)}, wanted {self.shape()}", 1)
        elif isinstance(self._value, np.ndarray):
            self._value[...] = array
        elif _arrays.library(self._value) == "torch":
            self._value.copy_(sys.modules["torch"].from_numpy(np.ascontiguousarray(array)))
        else:
            raise ArgumentError(f"update_inplace cannot write to a {type(self._value).__name__}; write to it by its own library", 1)

    def numpy(self):
        """As a NumPy array; copied from a device."""
        return _to_numpy(self._value)

    def __array__(self, dtype=None, copy=None):
        array = self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)
        return array.copy() if copy else array

    def shape(self) -> List[int]:
        return list(self._value.shape)

    def data_type(self) -> str:
        return f"tensor({_element_name(self._value.dtype)})"

    def element_type(self) -> int:
        """ONNX's number."""
        name = _element_name(self._value.dtype)
        return next(number for number, each in _ELEMENTS.items() if each == name)

    def tensor_size_in_bytes(self) -> int:
        return int(self._value.nbytes)

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

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return False

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

    __getattr__ = _refuse_names("IOBinding", "get_outputs_as_ortvaluevector")

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
        """Without an address: new memory for each run, NumPy's or on that CUDA device."""
        if buffer_ptr is not None:
            if element_type is None or shape is None:
                raise ArgumentError(f"output {name!r} with buffer_ptr needs element_type and shape", 1)
            self._outputs[name] = _wrap(device_type, device_id, element_type, shape, buffer_ptr)
        else:
            self._outputs[name] = None if _is_cpu(device_type) else _NewOnDevice(device_type, int(device_id))

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
    dtype, dims = _numpy_type(element_type), [int(dim) for dim in shape]
    number = _arrays.number_of(dtype)
    if not _is_cpu(device_type):
        return _core.wrap_memory(int(address), dims, number, int(device_id))
    # Not by DLPack: older NumPys take what comes that way for read-only.
    memory = (ctypes.c_uint8 * (math.prod(dims) * dtype.itemsize)).from_address(int(address))
    return np.ndarray(dims, dtype, memory)


class _NewOnDevice(NamedTuple):
    """An output that gets new memory of a device with each run."""

    device_type: str
    device_id: int


def _is_cpu(device_type):
    if device_type.lower() not in ("cpu", "cuda"):
        raise ArgumentError(f"device {device_type!r} has no counterpart in rlx, which knows 'cpu' and 'cuda'", 1)
    return device_type.lower() == "cpu"


class InferenceSession:
    """A model ready to run; see the module. Threads may share a session: their runs take turns."""

    def __init__(self, path_or_bytes: Union[str, os.PathLike, bytes], sess_options: Optional[SessionOptions] = None,
                 providers: Optional[Sequence[Union[str, Tuple[str, Dict[str, Any]]]]] = None,
                 provider_options: Optional[Sequence[Dict[str, Any]]] = None, *, dims: Optional[Dict[str, Any]] = None, **others):
        others.pop("enable_fallback", None)  # no other provider takes over, so there is nothing to enable
        if others:
            raise ArgumentError(f"InferenceSession: {', '.join(sorted(others))} has no counterpart in rlx", 1)
        self._options = sess_options if sess_options is not None else SessionOptions()
        if not isinstance(self._options, SessionOptions):
            raise TypeError(f"sess_options got {type(self._options).__name__}, wanted rlx.onnxruntime.SessionOptions")
        self._choice = _choose(providers or self._options._named_providers, provider_options)
        self._begun_ns = time.monotonic_ns()
        self._source = bytes(path_or_bytes) if isinstance(path_or_bytes, (bytes, bytearray, memoryview)) else os.fspath(path_or_bytes)
        self._dims = {**self._options._dims, **(dims or {})}
        self._lock = threading.Lock()
        self._worker: Optional[concurrent.futures.Executor] = None
        self._sessions: Dict[Tuple, Session] = {}
        self._model = None if self._is_plan() else _model_ports(self._read())
        self._plan = self._open_plan()

    __getattr__ = _refuse_names("InferenceSession", """
        create_ortvalue_from_shape_and_type get_input_epdevices get_input_memory_infos get_output_memory_infos
        get_provider_graph_assignment_info get_tuning_results run_with_ortvaluevector set_ep_dynamic_options set_tuning_results""")

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
        return list(self._choice.options)

    def get_provider_options(self) -> Dict[str, Dict[str, str]]:
        """Options that were given, as texts."""
        return {name: {key: str(value) for key, value in options.items()} for name, options in self._choice.options.items()}

    def set_providers(self, providers=None, provider_options=None) -> None:
        """Chooses the device anew; the plan is compiled for it."""
        with self._lock:
            self._choice = _choose(providers, provider_options)
            self._sessions.clear()
            self._plan = self._open_plan()

    def enable_fallback(self) -> None:
        """Taken and without effect: no other provider takes over."""

    def disable_fallback(self) -> None:
        """As enable_fallback."""

    def get_session_options(self) -> SessionOptions:
        return self._options

    # ---- runs

    def run(self, output_names: Optional[Sequence[str]], input_feed: Dict[str, Any], run_options: Optional[RunOptions] = None) -> List:
        """Outputs of these names in this order, or all where None (or empty)."""
        _check_run_options(run_options)
        names = list(output_names) if output_names else [port.name for port in self.get_outputs()]
        feed = self._feed(input_feed)
        with self._lock:
            results = self._session_for(feed).run(feed, outputs=list(dict.fromkeys(names)))
        return [results[name] for name in names]

    def run_async(self, output_names: Optional[Sequence[str]], input_feed: Dict[str, Any],
                  callback: Callable[[List, Any, str], None], user_data: Any = None,
                  run_options: Optional[RunOptions] = None) -> None:
        """Runs on another thread, which then calls callback(outputs, user_data, error): error is "", or says why outputs is empty.

        Runs begin in the order of these calls. Names that the model does not have are refused at once. An exception of the callback goes to
        threading.excepthook.
        """
        _check_run_options(run_options)
        feed = self._feed(input_feed)
        with self._lock:
            if self._worker is None:
                self._worker = concurrent.futures.ThreadPoolExecutor(1, "rlx.onnxruntime")
        self._worker.submit(self._run_and_tell, output_names, feed, callback, user_data)

    def _run_and_tell(self, output_names, feed, callback, user_data):
        try:
            results, error = self.run(output_names, feed), ""
        except Exception as failure:  # whatever it is belongs to the callback
            results, error = [], str(failure) or type(failure).__name__
        try:
            callback(results, user_data, error)
        except Exception:
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))

    def run_with_ort_values(self, output_names, input_dict_ort_values, run_options=None) -> List[OrtValue]:
        return [OrtValue(value) for value in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Optional[RunOptions] = None) -> None:
        """Runs with what is bound; the outputs are those that were bound, all where none was."""
        _check_run_options(run_options)
        names = list(iobinding._outputs) or [port.name for port in self.get_outputs()]
        feed = self._feed(iobinding._inputs)
        with self._lock:
            session = self._session_for(feed)
            out = {name: value for name, value in iobinding._outputs.items() if value is not None}
            if any(isinstance(value, _NewOnDevice) for value in out.values()):
                for name, value in feed.items():
                    session.set_input(name, value)
                feed, shapes = {}, {name: (dtype, shape) for name, dtype, shape in session.outputs()}
                out = {name: _new_output(value, *shapes.get(name, ("f32", ()))) for name, value in out.items()}
            results = session.run(feed, outputs=names, out=out)
        iobinding._results = {name: results[name] for name in names}

    def get_profiling_start_time_ns(self) -> int:
        """When the session was made, by time.monotonic_ns()."""
        return self._begun_ns

    def end_profiling(self) -> str:
        """Times the steps at the last run's sizes, one after another, and writes them: the name of a file that chrome://tracing reads.

        Needs enable_profiling, and a run.
        """
        with self._lock:
            if not self._options.enable_profiling or not self._sessions:
                raise ArgumentError("end_profiling needs SessionOptions.enable_profiling, and a run", 1)
            steps = next(reversed(self._sessions.values())).profile()
        events, begin = [], 0.0
        for step in steps:
            events.append({"cat": "Node", "ph": "X", "pid": os.getpid(), "tid": 0, "name": step.node, "ts": begin, "dur": step.microseconds,
                           "args": {"op_name": step.op, "kernel": step.kernel, "provider": self.get_providers()[0]}})
            begin += step.microseconds
        file = time.strftime(f"{self._options.profile_file_prefix}_%Y-%m-%d_%H-%M-%S.json")
        with open(file, "w") as opened:
            json.dump(events, opened)
        return file

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
            session = self._sessions[key] = Session(plan, self._choice.device, profile=self._options.enable_profiling, check_indices=False,
                                                    memory_budget=self._choice.memory_budget, stream=self._choice.stream)
        return session

    def _compile(self, shapes, dims):
        kind = self._choice.device.partition(":")[0]
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


class _Choice(NamedTuple):
    """The device, and what the session says of its providers."""

    device: str
    options: Dict[str, Dict[str, Any]]
    memory_budget: int
    stream: Optional[int]


# Of onnxruntime's CUDA and CPU providers, what tunes arenas, searches and streams of its own.
_NO_EFFECT_OF_PROVIDERS = frozenset("""
    arena_extend_strategy cudnn_conv_algo_search cudnn_conv_use_max_workspace cudnn_conv1d_pad_to_nc1d do_copy_in_default_stream
    enable_cuda_graph fuse_conv_bias has_user_compute_stream prefer_nhwc tunable_op_enable tunable_op_max_tuning_duration_ms
    tunable_op_tuning_enable use_arena use_ep_level_unified_stream use_tf32""".split())


def _choose(providers, provider_options):
    """The first provider's device that can be had."""
    named = [(each, {}) if isinstance(each, str) else tuple(each) for each in providers or ["CUDAExecutionProvider",
                                                                                          "CPUExecutionProvider"]]
    if provider_options is not None:
        if len(provider_options) != len(named):
            raise ArgumentError(f"{len(named)} providers, {len(provider_options)} provider_options", 1)
        named = [(name, options) for (name, _), options in zip(named, provider_options)]
    for name, options in named:
        if name not in _PROVIDERS:
            raise ArgumentError(f"there is no provider {name!r}; rlx has {', '.join(_PROVIDERS)}", 1)
        for unknown in options.keys() - {"device_id", "gpu_mem_limit", "user_compute_stream"} - _NO_EFFECT_OF_PROVIDERS:
            raise ArgumentError(f"{name}: the option {unknown} has no counterpart in rlx", 1)
    found = [device.id for device in devices()]
    for name, options in named:
        kind = _PROVIDERS[name]
        wanted = f"{kind}:{options['device_id']}" if "device_id" in options and kind else kind
        for device in found:
            if device == wanted or (wanted in ("cuda", "vulkan", "") and device.startswith(wanted)):
                taken = {each: given for each, given in named if each == name or each == "CPUExecutionProvider"}
                stream = int(options["user_compute_stream"]) if "user_compute_stream" in options else None
                return _Choice(device, taken, int(options.get("gpu_mem_limit", 0)), stream)
    from ._runtime import missing_devices
    raise ArgumentError(f"no device for {', '.join(name for name, _ in named)}. {missing_devices()}".rstrip(), 1)


def _check_run_options(options):
    if options is not None and not isinstance(options, RunOptions):
        raise TypeError(f"run_options got {type(options).__name__}, wanted rlx.onnxruntime.RunOptions")


def _new_output(value, dtype, shape):
    """The memory that an output is written to."""
    if not isinstance(value, _NewOnDevice):
        return value
    return DeviceArray(shape, _arrays.numpy_dtype(_arrays.NAMES.index(dtype)), value.device_id)


def _element_name(dtype):
    """onnxruntime's name of an element type, of NumPy's or another library's dtype."""
    name = str(dtype).rpartition(".")[2]
    return {"float32": "float", "float64": "double", "float8_e4m3fn": "float8e4m3fn", "float8_e5m2": "float8e5m2"}.get(name, name)


def _numpy_type(element_type):
    """NumPy's dtype of one of NumPy's types, or of ONNX's number."""
    if not isinstance(element_type, int):
        return np.dtype(element_type)
    name = _ELEMENTS.get(element_type)
    for number, each in enumerate(_arrays.NAMES):
        if _TYPES[each] == name:
            return _arrays.numpy_dtype(number)
    raise ArgumentError(f"rlx has no element type {element_type} of ONNX{f' ({name})' if name else ''}", 1)


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
    if isinstance(value, DeviceArray):
        return value.numpy()
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


def _model_ports(content):
    """(inputs, outputs) of an ONNX model: inputs without those that have initializers."""
    from . import _compiler
    ports = _compiler.onnx_ports(content)
    if ports is None:
        raise ArgumentError("the file is no ONNX model; a model of another kind is compiled by rlx.compile to a .plan", 1)
    inputs, outputs, metadata = ports
    return (*([NodeArg(name, f"tensor({_ELEMENTS.get(element, element)})", list(dims)) for name, element, dims in side]
              for side in (inputs, outputs)), metadata)
