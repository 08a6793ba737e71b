# SPDX-License-Identifier: Apache-2.0
"""Models to plans."""
import os
import sys
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import ArgumentError, CompileError, CompileWarning, Diagnostic
from ._runtime import Plan

Path = Union[str, os.PathLike]
Dim = Union[int, Tuple[int, int], Tuple[int, int, int], List[Tuple[int, ...]]]


def compile(model: Union[Path, bytes], *, target: Union[str, Sequence[str]] = ("vulkan",), output: Optional[Path] = None,  # noqa: A001
            dims: Optional[Mapping[str, Dim]] = None, input_shapes: Optional[Mapping[str, Sequence[int]]] = None,
            constants: Optional[Mapping[str, Any]] = None, states: Optional[Mapping[str, str]] = None,
            max_iterations: Optional[int] = None, max_count: Union[int, Mapping[str, int], None] = None, control: Optional[str] = None,
            entries: Optional[Mapping[str, Mapping[str, Any]]] = None,
            arch: Sequence[str] = (), precision: Optional[str] = None, optimisation: int = 2, context: Optional[int] = None,
            chunks: Sequence[int] = (), tokenizer: Optional[Path] = None, keep: Union[Sequence[str], bool] = (), auto_promote: bool = False,
            external_weights: bool = False, debug: bool = True, without: Sequence[str] = (), prefer: Sequence[str] = (),
            disabled_passes: Sequence[str] = (), recompute: bool = False, serial: bool = False,
            kernels: Optional[Path] = None, nvrtc: Optional[Path] = None, cache: Union[bool, Path] = True, jobs: int = 0,
            progress: Union[bool, Callable[[str, float], None], None] = None) -> Plan:
    """Compiles a model to a Plan.

        plan = rlx.compile("model.onnx", target=["vulkan", "cuda"], dims={"batch": (1, 32)}, output="m.plan")

    model: a graph file (.json, .rlxg, .onnx), a language model (.gguf, or a checkpoint's folder), or the bytes of such a file.
    target: "vulkan", a profile of it as "vulkan-khr-coop" or "vulkan-nvidia", "cuda", or several. output: the plan's file; None: the plan stays in memory.
    dims: symbols by name: a number fixes one; (least, most) or (least, most, multiple) leaves it to each run; a list of these makes a
    program for each range. input_shapes, constants: of inputs of ONNX models. states: {input: the output that is its next
    value}, which the plan keeps. max_iterations, max_count: bounds of ONNX loops and of results as long as the data decide, of all or by
    name. control: "unrolled", "auto" or "regions". entries: {name: {"source": entry, dim: number, ...}},
    as rlxc --entry. arch: CUDA's, as "sm_90a". precision: "f32", "tf32", "f16", "bf16" or "mixed". context, chunks: of a language
    model. tokenizer: a tokenizer.json or vocab.txt, the folder of one, or a GGUF file, which the plan is to carry (rlx.language.Tokenizer).
    keep: names of inner values that become outputs, or True for all. cache: a folder for compiled kernels, True for the usual
    one, False for none. progress: True, False, a function of (phase, seconds), or None: on a terminal and in notebooks.

    Raises CompileError (a ValueError), whose `diagnostics` hold all that was found: code, file, node, message, hint. Warns by
    CompileWarning. ArgumentError for an unknown option's value.
    """
    from . import _compiler
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _compile_bytes(bytes(model), {k: v for k, v in locals().items() if k not in ("model", "_compiler")})
    show = _Progress(progress)
    request = dict(
        model=os.fspath(model), targets=[target] if isinstance(target, str) else list(target), dims=_dims(dims or {}),
        input_shapes={name: list(map(int, shape)) for name, shape in (input_shapes or {}).items()},
        constants={name: _constant(value) for name, value in (constants or {}).items()}, states=dict(states or {}),
        max_iterations=_bound("max_iterations", max_iterations), max_counts=_max_counts(max_count), control=control, entries=_entries(entries or {}),
        architectures=list(arch), precision=precision, optimisation=optimisation, context=context, chunks=list(chunks),
        tokenizer="" if tokenizer is None else os.fspath(tokenizer),
        keep=[] if isinstance(keep, bool) else list(keep), keep_all=keep is True, auto_promote=auto_promote,
        external_weights=external_weights, debug=debug, without=list(without), prefer=list(prefer),
        recompute=recompute, serial=serial, disabled_passes=list(disabled_passes),
        kernels="" if kernels is None else os.fspath(kernels), nvrtc="" if nvrtc is None else os.fspath(nvrtc),
        cache=cache if isinstance(cache, bool) else os.fspath(cache), jobs=jobs)
    with show:
        try:
            done, diagnostics = _compiler.compile(request, None if output is None else os.fspath(output), show.step)
        except ValueError as error:
            raise ArgumentError(str(error), 1) from None
    found = [Diagnostic(*row) for row in diagnostics]
    if done is None:
        raise CompileError(found)
    for each in found:
        if each.severity != "note":
            import warnings
            warnings.warn(str(each), CompileWarning, stacklevel=2)
    return Plan(done if output is None else output)


def _compile_bytes(data, options):
    """By way of a file; messages name it "<bytes>"."""
    import tempfile
    if options["external_weights"]:
        raise ArgumentError("external_weights leaves weights in the model's file; a model of bytes has none")
    with tempfile.TemporaryDirectory(prefix="rlx-") as folder:
        file = os.path.join(folder, "model")
        with open(file, "wb") as written:
            written.write(data)
        try:
            return compile(file, **options)
        except CompileError as error:
            rows = [(each.severity, each.code, each.file.replace(file, "<bytes>"), each.position, each.op, each.node,
                     each.message.replace(file, "<bytes>"), each.hint, str(each).replace(file, "<bytes>"))
                    for each in error.diagnostics]
            raise CompileError(Diagnostic(*row) for row in rows) from None


def _dims(dims: Mapping[str, Dim]) -> Dict[str, List[Tuple[int, int, int]]]:
    """Each symbol's ranges; a number is a range of its own."""
    return {name: _ranges(name, wanted) for name, wanted in dims.items()}


def _ranges(name, wanted):
    ranges = wanted if isinstance(wanted, list) else [wanted]
    made = []
    for each in ranges:
        numbers = (each, each) if isinstance(each, int) else tuple(each) if isinstance(each, (tuple, range)) else ()
        if not 2 <= len(numbers) <= 3 or not all(isinstance(number, int) for number in numbers):
            raise ArgumentError(f"dims {name!r}: {each!r} is no number, (least, most) or (least, most, multiple)", 1)
        low, high, multiple = (*numbers, 1)[:3]
        if low < 0 or high < low or multiple < 1 or max(high, multiple) >= 1 << 63:
            raise ArgumentError(f"dims {name!r}: {each!r} is no range", 1)
        if made and low <= made[-1][1]:
            raise ArgumentError(f"dims {name!r}: ranges must ascend, apart from each other; {each!r} follows {made[-1]!r}", 1)
        made.append((low, high, multiple))
    if not made:
        raise ArgumentError(f"dims {name!r}: no range", 1)
    return made


def _bound(option, most):
    if most is not None and (not isinstance(most, int) or most < 1):
        raise ArgumentError(f"{option} {most!r} is no number from 1 on", 1)
    return most


def _max_counts(asked) -> Dict[str, int]:
    """By the name of a node or its output; "" for all."""
    counts = asked if isinstance(asked, Mapping) else {} if asked is None else {"": asked}
    return {name: _bound("max_count", most) for name, most in counts.items()}


def _entries(entries: Mapping[str, Mapping[str, Any]]):
    return [(name, str(options.get("source", "")), {dim: int(value) for dim, value in options.items() if dim != "source"})
            for name, options in entries.items()]


def _constant(value):
    """As rlxc --const takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_constant(each) for each in value)}]"
    return value if isinstance(value, str) else repr(value)


class _Progress:
    """One line that the next phase overwrites."""

    def __init__(self, wanted):
        in_notebook = "ipykernel" in sys.modules
        shown = (in_notebook or sys.stderr is not None and sys.stderr.isatty()) if wanted is None else wanted
        self.step = shown if callable(shown) else self._show if shown else None
        self._is_line = shown is True

    def __enter__(self):
        if self._is_line:
            self._show("import", 0)
        return self

    def __exit__(self, *_):
        if self._is_line:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    @staticmethod
    def _show(phase, _seconds):
        sys.stderr.write(f"\r\033[Krlx: {phase}")
        sys.stderr.flush()
