# SPDX-License-Identifier: Apache-2.0
"""Plans, devices and sessions."""
import os
import pathlib
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _core
from ._errors import ArgumentError, DeviceError, FileError

Array = Any  # NumPy's, or whatever speaks DLPack


class TensorInfo(NamedTuple):
    """An input, output or state. shape: per axis a number, the name of a free symbol, or None where the size is computed from
    symbols; max_shape: with every free symbol at its maximum; size_bytes: at max_shape. dtype: "f32", "i64", "bool", ..."""

    name: str
    dtype: str
    shape: Tuple[Union[int, str, None], ...]
    size_bytes: int
    max_shape: Tuple[int, ...]

    def __str__(self):
        return f"{self.name}: {self.dtype}[{', '.join('?' if dim is None else str(dim) for dim in self.shape)}]"


class Symbol(NamedTuple):
    """A symbol of a plan's shapes: a run may give it any multiple of multiple_of from minimum to maximum where it is free."""

    name: str
    minimum: int
    maximum: int
    multiple_of: int
    is_free: bool


class EntryInfo(NamedTuple):
    """An entry of a plan: its inputs and outputs in order."""

    name: str
    inputs: Tuple[TensorInfo, ...]
    outputs: Tuple[TensorInfo, ...]

    def __str__(self):
        return f"{self.name}({', '.join(map(str, self.inputs))}) -> {', '.join(map(str, self.outputs))}"


class Memory(NamedTuple):
    """Bytes that one session takes; weights are shared by the sessions of a plan on one device. host: in host memory."""

    weights: int
    state: int
    arena: int
    io: int
    index_errors: int
    host: int

    @property
    def device(self) -> int:
        """On the device, all together."""
        return self.weights + self.state + self.arena + self.io + self.index_errors

    def __str__(self):
        rows = [*self._asdict().items(), ("device, all", self.device)]
        return "\n".join(f"{name:<12} {size:>15,} bytes" for name, size in rows)


class DeviceInfo(NamedTuple):
    """A device of this machine. id: what Session takes, as "vulkan:0". available_bytes: 0 where the driver does not say."""

    id: str
    name: str
    driver: str
    memory_bytes: int
    available_bytes: int
    architecture: int


def devices() -> List[DeviceInfo]:
    """The devices of this machine. No device is no error; missing_devices() says why."""
    return [DeviceInfo(**row) for row in _core.devices()[0]]


def missing_devices() -> str:
    """Why a kind of device is missing, naming the package that helps; "" if none is."""
    return _core.devices()[1]


def _policy(path):
    """The text of a file of keys or digests; None for None."""
    if path is None:
        return None
    try:
        return pathlib.Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{os.fspath(path)!r} cannot be read: {error}") from None


class Plan:
    """A compiled model, verified when it is opened.

        plan = rlx.Plan("m.plan")          # or bytes
        print(plan)                        # entries, symbols, memory
        with plan.session("vulkan") as s:
            y = s(ids=x)

    source: a path, or the bytes of a plan (which are copied). weights_folder: of the files of a plan compiled with external weights
    (default: the plan's own folder). check_weights: also check the checksum of the weights.

    Whose kernel code may run: anybody's, unless one of these is given. signed_by: a file of Ed25519 public keys in PEM form, as `rlxc
    keygen` writes it; the plan must be signed with one of them (`rlxc sign`). known: a file of digests, as `rlxc inspect --known` prints
    them; all code of the plan must be among them.

    Raises FileError (an OSError), PlanError (a ValueError) for what is no sound plan, and of these TrustError for a sound one that may not
    run. Threads may share a plan.
    """

    def __init__(self, source: Union[str, os.PathLike, bytes, bytearray, memoryview], *,
                 weights_folder: Union[str, os.PathLike, None] = None, check_weights: bool = False,
                 signed_by: Union[str, os.PathLike, None] = None, known: Union[str, os.PathLike, None] = None):
        if signed_by is not None and known is not None:
            raise ArgumentError("signed_by and known are two policies: give one of them")
        folder = None if weights_folder is None else os.fspath(weights_folder)
        if isinstance(source, (bytes, bytearray, memoryview)):
            self._core = _core.Plan.from_bytes(bytes(source), folder, check_weights, _policy(signed_by), _policy(known))
        elif isinstance(source, (str, os.PathLike)):
            self._core = _core.Plan.from_file(os.fspath(source), folder, check_weights, _policy(signed_by), _policy(known))
        else:
            raise TypeError(f"a plan is opened from a path or bytes, not from {type(source).__name__}")
        info = self._core.info()
        self.name: str = info["name"]
        self.producer: str = info["producer"]
        self.precision: str = info["precision"]
        self.format: Tuple[int, int] = info["format"]
        self.file_bytes: int = info["file_bytes"]
        self.targets: Tuple[str, ...] = tuple(kind for kind in ("cuda", "vulkan") if info[f"has_{kind}"])
        self.memory = Memory(*(info[f"{name}_bytes"] for name in Memory._fields))
        self.entries: Dict[str, EntryInfo] = {
            name: EntryInfo(name, tuple(TensorInfo(*row) for row in inputs), tuple(TensorInfo(*row) for row in outputs))
            for name, inputs, outputs in self._core.entries()}
        self.symbols: Dict[str, Symbol] = {row[0]: Symbol(*row) for row in self._core.symbols()}
        self.states: Dict[str, TensorInfo] = {row[0]: TensorInfo(*row) for row in self._core.states()}

    @property
    def inputs(self) -> Tuple[TensorInfo, ...]:
        """Of the first entry."""
        return next(iter(self.entries.values())).inputs

    @property
    def outputs(self) -> Tuple[TensorInfo, ...]:
        """Of the first entry."""
        return next(iter(self.entries.values())).outputs

    def session(self, device: Optional[str] = None, **options) -> "Session":
        """Session(self, device, **options)."""
        return Session(self, device, **options)

    def close(self) -> None:
        """Sessions on the plan go on working."""
        self._core.close()

    def __enter__(self) -> "Plan":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self):
        return f"<rlx.Plan {self.name!r} for {', '.join(self.targets) or 'no target'}: {', '.join(self.entries)}>"

    def __str__(self):
        free = [f"{s.name}: {s.minimum} to {s.maximum}, multiple of {s.multiple_of}" for s in self.symbols.values() if s.is_free]
        rows = [f"plan {self.name!r} by {self.producer}, {self.precision}, for {', '.join(self.targets)}",
                *(f"entry {entry}" for entry in self.entries.values()), *(f"symbol {text}" for text in free),
                *(f"state {state}" for state in self.states.values()), str(self.memory)]
        return "\n".join(rows)


class StepTime(NamedTuple):
    """A step of a profile: where it comes from, its device time, least traffic of the device's memory, operations."""

    step: int
    node: str
    op: str
    kernel: str
    wave: int
    microseconds: float
    bytes: int
    flops: int
    code: str


class Profile(List[StepTime]):
    """Steps with their times. str() is a table, slowest first; notebooks show it as one."""

    @property
    def microseconds(self) -> float:
        """Of all steps together."""
        return sum(step.microseconds for step in self)

    def _rows(self):
        total = self.microseconds or 1.0
        for s in sorted(self, key=lambda step: -step.microseconds):
            seconds = s.microseconds * 1e-6
            rate = f"{s.bytes / seconds / 1e9:.1f}" if seconds else "-"
            speed = f"{s.flops / seconds / 1e12:.3f}" if seconds else "-"
            yield (str(s.step), s.kernel, s.op, s.node, f"{s.microseconds:.1f}", f"{100 * s.microseconds / total:.1f}", rate, speed)

    _HEAD = ("step", "kernel", "op", "node", "us", "%", "GB/s", "TFLOP/s")

    def __str__(self):
        rows = [self._HEAD, *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self._HEAD))]
        lines = ["  ".join(cell.ljust(width) if i in (1, 2, 3) else cell.rjust(width)
                           for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]
        return "\n".join([*lines, f"{len(self)} steps, {self.microseconds:.1f} us"])

    def _repr_html_(self):
        import html
        head = "".join(f"<th>{name}</th>" for name in self._HEAD)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{len(self)} steps, {self.microseconds:.1f} us</p>"


def _choose_device(plan):
    """The first device of this machine for which the plan has code; CUDA before Vulkan."""
    found = devices()
    for target in plan.targets:
        for device in found:
            if device.id.startswith(target):
                return device.id
    there = ", ".join(device.id for device in found) or "none"
    raise DeviceError(f"the plan is for {', '.join(plan.targets)}; devices of this machine: {there}. {missing_devices()}".rstrip(), 7)


def _stream_number(stream):
    """A CUstream from a number, a torch.cuda.Stream or a cupy.cuda.Stream."""
    if stream is None or isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    raise TypeError(f"stream got {type(stream).__name__}, wanted a CUstream's number or a stream of PyTorch or CuPy")


class Entry:
    """One entry of a session, `session["decode"]`: called and run as the session itself is."""

    def __init__(self, session: "Session", index: int, info: EntryInfo):
        self._session, self._index, self.info = session, index, info
        self.name = info.name

    def __call__(self, **inputs: Array) -> Union[Array, Dict[str, Array]]:
        return self._session._core.run(self._index, inputs, None, None, True)

    def run(self, inputs: Mapping[str, Array], *, outputs: Optional[Iterable[str]] = None,
            out: Optional[Mapping[str, Array]] = None) -> Dict[str, Array]:
        """As Session.run."""
        return self._session.run(inputs, outputs=outputs, out=out, entry=self.name)

    def __repr__(self):
        return f"<rlx.Entry {self.info}>"


class Session:
    """A plan loaded on a device, ready to run.

        with rlx.Session("m.plan", device="vulkan") as s:
            y = s(ids=x)                                # one output: the array; several: a dict by name
            y = s.run({"input.1": x}, outputs=["y"])    # any names; always a dict
            y = s["decode"](ids=x)                      # another entry than the first

    plan: a Plan, or what Plan opens. device: "vulkan", "vulkan:1", "cuda", "cuda:0", "null" (which computes nothing), or None: the
    first device that the plan has code for, CUDA before Vulkan; `device` then says which.

    Arrays. Inputs are NumPy arrays or anything with __dlpack__ (PyTorch, CuPy, JAX), of the input's dtype and shape; free dims take
    their sizes from the shapes. Outputs are NumPy arrays, or tensors of PyTorch or CuPy, on the same device, where an input was one.
      - Host memory is copied to the device once, and outputs are read straight into new arrays; nothing is copied besides.
      - CUDA tensors of the session's device are used where they lie, in and out, without copies: they must be 16-byte aligned.
        The session keeps the last ones that it uses. JAX's come back as NumPy arrays unless `out` says where to.
      - An array that is not contiguous, or of another byte order, is copied first. `copies` counts all of it.
    An input that a call leaves out keeps what it was given before.

    Options. stream: CUDA stream on which all work is put in order: a number, a torch.cuda.Stream or a cupy.cuda.Stream (default: the
    default stream). profile: profile() and last_run_microseconds work. queue_depth: runs that may be under way at once (submit).
    check_indices: a run with an index outside its tensor raises IndexOutOfRange, one in which a loop reaches its bound or a branch is
    taken that cannot be at these sizes AssertionFailed (default: yes, unless queue_depth is more than 1).
    memory_budget: bytes; a plan that needs more is refused. pipeline_cache: file for the driver's compiled pipelines. jobs: threads
    that make pipelines. require_tuned: refuse library products that were not tuned. max_bindings: sizes that stay recorded.

    Errors. ArgumentError (ValueError) for a wrong name or shape, a closed session, a tensor of another device; DtypeError (TypeError);
    StateError, DeviceError, OutOfMemory, IndexOutOfRange, AssertionFailed. Each holds the library's sentence.

    Threads. One at a time; a second one is refused with StateError. Python's other threads go on while a run is under way.
    """

    def __init__(self, plan: Union[Plan, str, os.PathLike, bytes], device: Optional[str] = None, *, stream: Any = None,
                 profile: bool = False, queue_depth: int = 1, check_indices: Optional[bool] = None, memory_budget: int = 0,
                 pipeline_cache: Union[str, os.PathLike, None] = None, jobs: int = 0, require_tuned: bool = False,
                 max_bindings: int = 0):
        self.plan = plan if isinstance(plan, Plan) else Plan(plan)
        self._core = _core.Session.create(
            self.plan._core, _choose_device(self.plan) if device is None else device, jobs=jobs, profile=profile,
            pipeline_cache=None if pipeline_cache is None else os.fspath(pipeline_cache), memory_budget_bytes=memory_budget,
            stream=_stream_number(stream), require_tuned=require_tuned,
            check_indices=queue_depth == 1 if check_indices is None else check_indices, max_bindings=max_bindings,
            queue_depth=queue_depth)
        self._run = self._core.run
        self._index = {name: number for number, name in enumerate(self.plan.entries)}

    # ---- runs

    def __call__(self, /, **inputs: Array) -> Union[Array, Dict[str, Array]]:
        """Runs the first entry: the output, or a dict by name where there are several."""
        return self._run(0, inputs, None, None, True)

    def run(self, inputs: Mapping[str, Array], *, outputs: Optional[Iterable[str]] = None,
            out: Optional[Mapping[str, Array]] = None, entry: Optional[str] = None) -> Dict[str, Array]:
        """Runs an entry (default: the first) and gives the outputs of these names (default: all) by name.

        out: arrays, by output, that are written to: contiguous, of the output's dtype and shape; on the session's CUDA device without
        a copy.
        """
        return self._run(self._number(entry), dict(inputs), None if outputs is None else list(outputs), out, False)

    def __getitem__(self, entry: str) -> Entry:
        """The entry of that name."""
        return Entry(self, self._number(entry), self.plan.entries[entry])

    def prepare(self, entry: Optional[str] = None) -> None:
        """Records an entry at the present sizes, so that its first run takes no longer than later ones."""
        self._core.prepare(self._number(entry))

    # ---- queued runs

    def submit(self, inputs: Optional[Mapping[str, Array]] = None, *, out: Optional[Mapping[str, Array]] = None,
               entry: Optional[str] = None) -> int:
        """Starts a run and gives its number; at most `queue_depth` are under way, in the order of their submits.

        While one is, inputs cannot be set: later submits go without, and each run reads what states and bound CUDA tensors hold when
        it begins. out: CUDA tensors for outputs.
        """
        return self._core.submit(self._number(entry), dict(inputs or {}), out)

    def wait(self, run: Optional[int] = None, timeout: Optional[float] = None) -> bool:
        """Waits for a run, or for all; False after `timeout` seconds. Raises what a run failed of."""
        return self._core.wait(run, timeout)

    def read(self, outputs: Optional[Iterable[str]] = None, *, out: Optional[Mapping[str, Array]] = None,
             entry: Optional[str] = None) -> Dict[str, Array]:
        """Outputs of the last run, once none is under way."""
        return self._core.read(self._number(entry), None if outputs is None else list(outputs), out)

    # ---- inputs and sizes

    def set_input(self, name: str, value: Array, *, entry: Optional[str] = None) -> None:
        """Sets an input for all runs from now on."""
        self._core.set_input(self._number(entry), name, value)

    def set_symbol(self, name: str, value: int, *, entry: Optional[str] = None) -> None:
        """Sets a free symbol for the next runs; shapes of inputs do the same."""
        self._core.set_symbol(self._number(entry), name, value)

    def symbols(self, entry: Optional[str] = None) -> Dict[str, int]:
        """Present values of the free symbols."""
        number = self._number(entry)
        return {name: self._core.symbol(number, name) for name, symbol in self.plan.symbols.items() if symbol.is_free}

    def inputs(self, entry: Optional[str] = None) -> List[Tuple[str, str, Tuple[int, ...]]]:
        """(name, dtype, shape) of each input at the present symbols."""
        return self._core.present(self._number(entry), False)

    def outputs(self, entry: Optional[str] = None) -> List[Tuple[str, str, Tuple[int, ...]]]:
        """(name, dtype, shape) of each output at the present symbols."""
        return self._core.present(self._number(entry), True)

    # ---- states: what is kept from run to run

    def read_state(self, name: str, *, axis: Optional[int] = None, begin: int = 0, count: int = 0,
                   out: Optional[Array] = None) -> Array:
        """A state, or [begin, begin + count) of one axis of it, as a NumPy array or into `out`."""
        return self._core.read_state(name, axis, begin, count, out)

    def write_state(self, name: str, value: Array, *, axis: Optional[int] = None, begin: int = 0) -> None:
        """Sets a state, or from `begin` as many indices of one axis as the array has."""
        self._core.write_state(name, axis, begin, value)

    def copy_state(self, name: str, source: "Session") -> None:
        """Copies a state on the device from another session on the same Plan and device: forks a conversation, say."""
        self._core.copy_state(name, source._core)

    def bind_state(self, name: str, value: Optional[Array]) -> None:
        """Uses a CUDA tensor as the state from now on, aligned to 256 bytes; None: the session's own memory again."""
        self._core.bind_state(name, value)

    def reset_states(self) -> None:
        """Sets all states to their initial values."""
        self._core.reset_states()

    def set_seed(self, seed: int, step: int = 0) -> None:
        """Seed and step of the random numbers; only of a plan that draws some."""
        self._core.set_seed(seed, step)

    # ---- what a session tells

    @property
    def device(self) -> DeviceInfo:
        """The device that the session runs on."""
        return DeviceInfo(**self._core.device)

    @property
    def memory(self) -> Memory:
        """What the session takes; that of its plan."""
        return self.plan.memory

    @property
    def copies(self) -> Dict[str, int]:
        """How many tensors were copied so far: to_device, from_device, and on_host to be contiguous."""
        return dict(zip(("to_device", "from_device", "on_host"), self._core.copies))

    def profile(self, inputs: Optional[Mapping[str, Array]] = None, *, entry: Optional[str] = None) -> Profile:
        """Runs an entry with its steps one after another and gives the device time of each. Needs Session(..., profile=True).

        States are afterwards what they were before. inputs: as of run; by default those that were set last.
        """
        for name, value in (inputs or {}).items():
            self.set_input(name, value, entry=entry)
        return Profile(StepTime(*row) for row in self._core.profile(self._number(entry)))

    @property
    def last_run_microseconds(self) -> float:
        """Device time of the last run. Needs Session(..., profile=True)."""
        return self._core.last_run_microseconds()

    def close(self) -> None:
        """Waits for runs that are under way and frees the device's memory. Later calls raise ArgumentError."""
        self._core.close()

    def _number(self, entry):
        if entry is None:
            return 0
        number = self._index.get(entry)
        if number is None:
            raise ArgumentError(f"there is no entry {entry!r}; the entries are {', '.join(self._index)}", 1)
        return number

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self):
        where = f"on {self._core.device['id']}" if self._core.is_open else "closed"
        return f"<rlx.Session of {self.plan.name!r} {where}>"
