# SPDX-License-Identifier: Apache-2.0
"""rlx: models compiled ahead of time, and replayed on Vulkan and CUDA.

    import numpy as np
    import rlx

    plan = rlx.compile("model.onnx", target=["vulkan", "cuda"], dims={"batch": (1, 32)}, output="m.plan")
    with rlx.Session(plan, device="vulkan") as session:
        y = session(ids=np.zeros((4, 128), np.int64))

What there is; help() of each says more:

    compile(model, ...)       a model file to a plan; CompileError holds every diagnostic
    Plan(path or bytes)       entries, symbols, states, memory
    Session(plan, device)     call it with arrays: NumPy, PyTorch, CuPy, JAX; states, queued runs, profile
    devices()                 the devices of this machine, and missing_devices() why a kind is missing

    rlx.onnxruntime           InferenceSession with the names and habits of onnxruntime
    rlx.language              LanguageModel: replies in a conversation, token by token; Tokenizer: that of any plan which has one
    rlx.torch                 compile(module, example_inputs): PyTorch modules

Errors are rlx.Error, and ValueError, TypeError, OSError or MemoryError as well where Python has the word.
"""
from ._compile import compile  # noqa: A004  the verb that users look for
from ._core import version as _version
from ._errors import (ArgumentError, AssertionFailed, CompileError, CompileWarning, DeviceError, Diagnostic, DtypeError, Error,
                      FileError, IndexOutOfRange, OutOfMemory, PlanError, StateError, TrustError)
from ._runtime import (DeviceInfo, Entry, EntryInfo, Memory, Plan, Profile, Session, StepTime, Symbol, TensorInfo, devices,
                       missing_devices)

__version__ = _version()
__all__ = ["ArgumentError", "AssertionFailed", "CompileError", "CompileWarning", "DeviceError", "DeviceInfo", "Diagnostic",
           "DtypeError", "Entry", "EntryInfo", "Error", "FileError", "IndexOutOfRange", "Memory", "OutOfMemory", "Plan", "PlanError", "Profile", "Session",
           "StateError", "StepTime", "Symbol", "TensorInfo", "TrustError", "compile", "devices", "missing_devices"]
