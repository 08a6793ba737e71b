# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules as plans, by way of torch.export:

    import rlx.torch
    fast = rlx.torch.compile(module, (x,), dynamic={"x": {0: ("batch", 1, 32)}})
    y = fast(x)                       # tensors, as the module gives them; on the GPU without copies
    fast.plan, fast.session           # rlx.Plan, rlx.Session

What of a module can be compiled, and what is refused how: tools/rlx_export.py and compiler/import/README.md.
"""
import os
import sys
import tempfile
from typing import Any, Dict, Mapping, Optional, Sequence

import torch  # PyTorch: this module's own name is rlx.torch

from ._compile import compile as _compile_model
from ._errors import ArgumentError, CompileError, Diagnostic
from ._runtime import Plan, Session

_EXPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_export")
if _EXPORT not in sys.path:
    sys.path.append(_EXPORT)
import rlx_export  # noqa: E402

__all__ = ["Compiled", "compile"]


class Compiled:
    """A module as a plan: called as the module is, with tensors of the example's dtypes and of its shapes or within its dynamic dims.

    Outputs have the structure of the module's, on the device of the inputs. A call reads no parameter of the module: weights are in
    the plan. Buffers that forward assigns are states of the session.
    """

    def __init__(self, plan: Plan, session: Session, names: Sequence[str], parameters: Sequence[str], structure, outputs: Sequence[str]):
        self.plan, self.session = plan, session
        self._names, self._parameters, self._structure, self._outputs = list(names), list(parameters), structure, list(outputs)

    def __call__(self, *args, **kwargs):
        values = dict(zip(self._parameters, args))
        for name in kwargs:
            if name in values:
                raise TypeError(f"{name} is given twice")
        values.update(kwargs)
        ordered = [values[name] for name in self._parameters if name in values] + [
            value for name, value in values.items() if name not in self._parameters]
        tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(ordered) if isinstance(leaf, torch.Tensor)]
        if len(tensors) != len(self._names) or len(args) > len(self._parameters):
            raise TypeError(f"got {len(tensors)} tensors, wanted {len(self._names)}: {', '.join(self._names)}")
        results = self.session.run(dict(zip(self._names, tensors)))
        leaves = [results.get(name) for name in self._outputs]
        return torch.utils._pytree.tree_unflatten(leaves, self._structure)

    def __repr__(self):
        return f"<rlx.torch.Compiled {self.session!r}>"


def compile(module: "torch.nn.Module", example_inputs: Any, *, kwargs: Optional[Mapping[str, Any]] = None,  # noqa: A001
            dynamic: Optional[Mapping[str, Mapping[int, Any]]] = None, device: Optional[str] = None, stream: Any = None,
            name: Optional[str] = None, output: Optional[str] = None, **options) -> Compiled:
    """Exports a module, compiles it and opens a session.

    example_inputs: a tensor or a tuple of forward's arguments, with `kwargs` by name. dynamic: {parameter of forward: {axis: (symbol,
    least, most) or (symbol, least, most, multiple)}}: sizes that calls may choose. device: as Session's; by default that of the
    example inputs if they are on CUDA. target: by default what the device is. output: file of the plan. Other options: rlx.compile's.
    The module is set to evaluation mode.

    Raises CompileError: with every operator that has no counterpart, or every diagnostic of the compiler.
    """
    args = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    dynamic = {key: dict(axes) for key, axes in (dynamic or {}).items()}
    dims: Dict[str, Any] = dict(options.pop("dims", None) or {})
    for axes in dynamic.values():
        for wanted in axes.values():
            if not isinstance(wanted, tuple) or len(wanted) not in (3, 4):
                raise ArgumentError(f"dynamic {wanted!r} is no (symbol, least, most) or (symbol, least, most, multiple)", 1)
            dims.setdefault(wanted[0], tuple(wanted[1:]))
    if device is None:
        tensors = [leaf for leaf in torch.utils._pytree.tree_leaves((args, dict(kwargs or {}))) if isinstance(leaf, torch.Tensor)]
        device = next((str(leaf.device) for leaf in tensors if leaf.is_cuda), None)
    options.setdefault("target", "cuda" if (device or "").startswith("cuda") else "vulkan")
    with tempfile.TemporaryDirectory(prefix="rlx-") as folder:
        file = os.path.join(folder, f"{name or type(module).__name__}.json")
        try:
            program, ranges = rlx_export.capture(module, args, kwargs, dynamic)
            graph = rlx_export.convert(program, file, dynamic, ranges, name or type(module).__name__)
        except (rlx_export.ExportError, rlx_export.Unsupported) as error:
            text = str(error)
            raise CompileError([Diagnostic("error", "unsupported-op", type(module).__name__, "", "", "", text, "", text)]) from error
        plan = _compile_model(file, dims=dims, output=output, **options)
    import inspect
    return Compiled(plan, Session(plan, device, stream=stream), [row["name"] for row in graph.inputs],
                    list(inspect.signature(module.forward).parameters), program.call_spec.out_spec, rlx_export.output_names(program))
