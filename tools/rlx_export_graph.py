# SPDX-License-Identifier: Apache-2.0
"""The graph that rlx_export writes: weights, symbols and nodes as schema/README.md has them, and the scope in which the
handlers of ATen operators add nodes."""
import dataclasses
import itertools
import json
import math
import pathlib
import struct

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv

DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.int8: "i8",
          torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32", torch.uint32: "u32", torch.int64: "i64",
          torch.bool: "bool", torch.complex64: "c64", torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}
SAFETENSORS_NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64",
                     torch.int8: "I8", torch.uint8: "U8", torch.int16: "I16", torch.int32: "I32", torch.uint32: "U32",
                     torch.int64: "I64", torch.bool: "BOOL", torch.complex64: "C64", torch.float8_e4m3fn: "F8_E4M3",
                     torch.float8_e5m2: "F8_E5M2"}
END = 2**63 - 1  # the far end of an axis, in slices


READ_NUMBER = "a number that the model reads from a tensor, where a graph file wants one that is known; leave it a tensor, or fix it"


class Unsupported(Exception):
    """Why one node cannot be exported."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A value of the graph. shape holds ints and torch.SymInts."""
    name: str
    dtype: torch.dtype
    shape: tuple

    @property
    def rank(self):
        return len(self.shape)

    def refuse(self, *_):
        """For what computes with a number that a graph file wants to be known."""
        raise Unsupported(READ_NUMBER)

    __index__ = __int__ = __float__ = __neg__ = __abs__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __pow__ = __lt__ = __le__ = __gt__ = __ge__ = refuse


def expression(dim):
    """A dim, an index or a count as a sympy expression."""
    if isinstance(dim, Tensor):
        raise Unsupported(READ_NUMBER)
    value = dim.node.expr if isinstance(dim, (torch.SymInt, torch.SymFloat, torch.SymBool)) else sympy.sympify(dim)
    return with_whole_quotients(value)


def with_whole_quotients(value):
    """A quotient that is rounded up or down (math.ceil, math.floor) as one of whole numbers."""
    def is_rounded(part):
        return type(part).__name__ in ("CeilToInt", "FloorToInt") and type(part.args[0]).__name__ == "IntTrueDiv" and (
            part.args[0].args[1].is_Integer and part.args[0].args[1] > 0)

    def whole(part):
        number, divisor = part.args[0].args
        return FloorDiv(number + (divisor - 1 if type(part).__name__ == "CeilToInt" else 0), divisor)
    return value.replace(is_rounded, whole)


def without_negative_quotients(value):
    """Where a negative number is divided, minus the quotient of the positive one, rounded up: a size that a plan computes is never negative."""
    def is_negative(part):
        return (type(part).__name__ in ("FloorDiv", "CleanDiv") and part.args[0].could_extract_minus_sign()
                and part.args[1].is_Integer and part.args[1] > 0)
    return value.replace(is_negative, lambda part: -part.func(part.args[1] - 1 - part.args[0], part.args[1]))


def known(dim):
    """The dim as an int, or None where it depends on a symbol."""
    value = expression(dim)
    return int(value) if value.is_Integer else None


def same(a, b):
    return expression(a) == expression(b)


def dtype_name(dtype):
    if dtype not in DTYPES:
        raise Unsupported(f"rlx has no element type {dtype}".replace("torch.", ""))
    return DTYPES[dtype]


def json_number(value):
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise Unsupported(f"{value}, a number that follows from dynamic dimensions, where a graph file wants one that is known")
    if isinstance(value, Tensor):
        raise Unsupported(READ_NUMBER)
    if isinstance(value, list):
        return [json_number(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    return value


def simpler_with_rest(number, divisor):
    """What has the same rest by the divisor: without rests by it, and without multiples of it."""
    def plain(term):
        factor, rest = term.as_coeff_Mul()
        is_rest = type(rest).__name__ in ("Mod", "PythonMod") and rest.args[1].is_Integer and rest.args[1] % divisor == 0
        return factor * rest.args[0] if is_rest and factor.is_Integer else term
    constant, others = sympy.Add(*map(plain, sympy.Add.make_args(number))).as_coeff_Add()
    return others if constant % divisor == 0 else constant + others


class Graph:
    """What a graph file holds. Values are known by name; every name is given once."""

    def __init__(self, name):
        self.name = name
        self.symbols = {}  # sympy symbol: {"name", "min", "max", "multiple_of"}
        self.params, self.constants, self.states = {}, {}, {}  # name: its JSON
        self.inputs, self.nodes, self.outputs = [], [], []
        self.tensors = {}  # name in the safetensors file: torch.Tensor
        self.names = set()
        self.stored = {}  # memory of a tensor: its name in the file
        self.parts = {}  # name of a complex value: its real and its imaginary part

    def unique(self, wanted):
        wanted = wanted[:200] or "value"
        name, count = wanted, 1
        while name in self.names:
            count += 1
            name = f"{wanted}_{count}"
        self.names.add(name)
        return name

    def dims(self, shape, what):
        """A shape as the file has it: numbers, symbols and expressions of symbols."""
        values = [without_negative_quotients(expression(dim)) for dim in shape]
        return [int(value) if value.is_Integer else self.written(value, what) for value in values]

    def written(self, value, what):
        """An expression of symbols as a graph file has it: + - * / and parentheses, where / rounds toward minus infinity."""
        if value.is_Integer:
            return str(value)
        if value in self.symbols:
            return self.symbols[value]["name"]
        def inner(part):
            text = self.written(part, what)
            return text if part.is_Integer or part in self.symbols else f"({text})"
        if value.is_Add or value.could_extract_minus_sign():
            terms = sorted(sympy.Add.make_args(value), key=lambda term: term.could_extract_minus_sign())
            text = "0" if terms[0].could_extract_minus_sign() else ""
            for term in terms:
                sign = " - " if term.could_extract_minus_sign() else " + " if text else ""
                text += sign + inner(-term if sign == " - " else term)
            return text
        if value.is_Mul:
            number, rest = value.as_coeff_Mul()  # a fraction stands where the division leaves no rest
            factors = ([str(number.p)] if number.p != 1 else []) + [inner(part) for part in sympy.Mul.make_args(rest)]
            return " * ".join(factors) if number.q == 1 else f"({' * '.join(factors)}) / {number.q}"
        if value.is_Pow and value.exp.is_Integer and value.exp > 0:
            return " * ".join([inner(value.base)] * int(value.exp))
        kind = type(value).__name__
        if kind in ("Max", "Min") and (part := self.decided(value, kind == "Max")) is not None:
            return self.written(part, what)
        if kind in ("FloorDiv", "CleanDiv"):
            return " / ".join(inner(part) for part in value.args)
        if kind in ("Mod", "PythonMod") and value.args[1].is_Integer and value.args[1] > 0:
            number, divisor = simpler_with_rest(*value.args), value.args[1]
            if number.is_Integer:
                return str(number % divisor)
            if not number.could_extract_minus_sign():
                return f"{inner(number)} - ({inner(number)} / {divisor}) * {divisor}"
            # What is missing to a whole multiple.
            return f"(({inner(-number)} + {divisor - 1}) / {divisor}) * {divisor} - {inner(-number)}"
        raise Unsupported(f"{what} has the dimension {self.text(value)}, which a graph file cannot express")

    def decided(self, value, largest):
        """The part of a Max or a Min that is it at the ends of all ranges, where the parts are linear; None where there is none."""
        symbols = sorted(value.free_symbols, key=str)
        if any(symbol not in self.symbols for symbol in symbols):
            return None
        if any(not part.is_polynomial(*symbols) or sympy.total_degree(part, *symbols) > 1 for part in value.args):
            return None
        places = self.ends(symbols)
        for part in value.args:
            rest = [other.subs(place) - part.subs(place) for other in value.args for place in places]
            if all(difference <= 0 if largest else difference >= 0 for difference in rest):
                return part
        return None

    def ends(self, symbols):
        """The symbols' values where each is its least or its largest."""
        ends = itertools.product(*((self.symbols[symbol]["min"], self.symbols[symbol]["max"]) for symbol in symbols))
        return [dict(zip(symbols, end)) for end in ends]

    def text(self, value):
        """An expression with the user's names of symbols."""
        return str(value.subs({symbol: sympy.Symbol(row["name"]) for symbol, row in self.symbols.items()}))

    def weight(self, kind, name, tensor):
        """A tensor in the weights file; one that shares its memory with another is stored once."""
        dtype = dtype_name(tensor.dtype)
        name = self.unique(name)
        memory = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() == 0 or memory not in self.stored:
            self.stored[memory] = name
            self.tensors[name] = tensor.detach().cpu().contiguous()
        data = {"safetensors": None, "tensor": self.stored[memory]}
        entry = {"name": name, "dtype": dtype, "shape": list(tensor.shape)}
        entry["init" if kind is self.states else "data"] = data
        kind[name] = entry
        return Tensor(name, tensor.dtype, tuple(tensor.shape))

    def splat(self, value, dtype, shape=()):
        """A constant of one value everywhere."""
        label = str(value).replace("-", "minus_").replace(".", "_").replace("+", "")
        key = (dtype, value if value == value else "nan", math.copysign(1, value), tuple(shape))
        if key not in self.stored:
            name = self.unique("_".join(["constant", dtype_name(dtype), label, *map(str, shape)]))
            self.stored[key] = name
            is_odd = isinstance(value, float) and not math.isfinite(value)
            data = {"values": [json_number(value)["float"]]} if is_odd else {"splat": value}
            if is_odd and shape:
                raise Unsupported(f"a constant tensor of {value}")
            self.constants[name] = {"name": name, "dtype": dtype_name(dtype), "shape": list(shape), "data": data}
        return Tensor(self.stored[key], dtype, tuple(shape))

    def indices(self, values):
        """A constant i64 vector."""
        name = self.unique(f"indices_{len(self.constants)}")
        self.constants[name] = {"name": name, "dtype": "i64", "shape": [len(values)], "data": {"values": list(values)}}
        return Tensor(name, torch.int64, (len(values),))

    def to_json(self, weights_file):
        def filled(rows, field):
            for row in rows.values():
                data = row[field]
                yield {**row, field: {**data, "safetensors": weights_file} if "safetensors" in data else data}
        return {"rlx_graph": 1, "name": self.name, "producer": f"rlx_export, torch {torch.__version__}",
                "symbols": list(self.symbols.values()), "params": list(filled(self.params, "data")),
                "constants": list(filled(self.constants, "data")), "states": list(filled(self.states, "init")),
                "inputs": self.inputs, "nodes": self.nodes, "outputs": self.outputs}

    def write_json(self, path, weights_file):
        pathlib.Path(path).write_text(json.dumps(self.to_json(weights_file), indent=1) + "\n")

    def write_weights(self, path):
        """The safetensors file; by the package of that name where it is installed, else by hand: u64 length of a JSON header,
        the header, and the tensors' bytes in its order."""
        try:
            from safetensors.torch import save_file
        except ImportError:
            write_safetensors(self.tensors, path)
            return
        # Views of one memory that are not the same view are told apart by a copy.
        owners, tensors = set(), {}
        for name, tensor in self.tensors.items():
            memory = tensor.untyped_storage().data_ptr()
            tensors[name] = tensor.clone() if memory in owners else tensor
            owners.add(memory)
        save_file(tensors, str(path))


def write_safetensors(tensors, path):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": SAFETENSORS_NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())


class Scope:
    """Where the handler of one node of the exported program adds its nodes."""

    def __init__(self, graph, node, source, counts=None):
        self.graph, self.node, self.source, self.counts = graph, node, source, counts
        self.added = []

    @property
    def out(self):
        """The node's result, or the first of several, as torch describes it."""
        value = self.node.meta["val"]
        return value[0] if isinstance(value, (tuple, list)) else value

    def emit(self, op, inputs, dtype=None, shape=None, **attributes):
        """Adds a node of one output, of the exported node's type and shape unless others are given."""
        return self.emit_many(op, inputs, [(dtype or self.out.dtype, self.out.shape if shape is None else shape)], **attributes)[0]

    def emit_many(self, op, inputs, types, **attributes):
        names = [self.graph.unique(f"{self.node.name}.{op}" + (f".{i}" if i else "")) for i in range(len(types))]
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        row = {"name": names[0], "op": op, "inputs": [None if x is None else x.name for x in inputs], "outputs": names}
        # shape_ and dtype_ are the attributes of these names.
        attributes = {key.rstrip("_"): json_number(value) for key, value in attributes.items() if value is not None}
        if attributes:
            row["attributes"] = attributes
        if self.source:
            row["source"] = self.source
        for dtype, _ in types:
            dtype_name(dtype)
        self.added.append(row)
        return [Tensor(name, dtype, tuple(shape)) for name, (dtype, shape) in zip(names, types)]

    def finish(self, results):
        """Adds the handler's nodes to the graph, and returns its results; a single one that the last of them gives gets the
        exported node's name."""
        self.graph.nodes += self.added
        if not isinstance(results, Tensor) or not self.added or self.added[-1]["outputs"] != [results.name]:
            return results
        name = self.graph.unique(self.node.name)
        self.added[-1].update(name=name, outputs=[name])
        if results.name in self.graph.parts:
            self.graph.parts[name] = self.graph.parts[results.name]
        return dataclasses.replace(results, name=name)

    # What many handlers need.

    def dims(self, shape):
        return self.graph.dims(shape, "a shape")

    def cast(self, x, dtype):
        if x.dtype == dtype:
            return x
        if x.dtype.is_complex:
            raise Unsupported(f"a complex number as {dtype_name(dtype)}: its imaginary part would be lost")
        return self.emit("cast", [x], dtype=dtype, shape=x.shape, to=dtype_name(dtype), overflow="wrap")

    def operand(self, value, dtype):
        """A tensor or a number, as a tensor of this dtype."""
        if isinstance(value, Tensor):
            return self.cast(value, dtype)
        if isinstance(value, (torch.SymInt, torch.SymFloat)) and known_number(value) is None:
            return self.cast(self.symbol_value(value), dtype)
        if isinstance(value, sympy.Basic) and not value.is_Integer:
            return self.cast(self.size_value(value), dtype)
        value = known_number(value)
        if dtype.is_complex:
            raise Unsupported("a complex number as an operand")
        if dtype == torch.bool:
            return self.graph.splat(bool(value), dtype)
        return self.graph.splat(float(value) if dtype.is_floating_point else int(value), dtype)

    def symbol_value(self, value):
        """An expression of symbols as a tensor of i64, or f32 where it is no whole number."""
        return self.real_value(expression(value)) if isinstance(value, torch.SymFloat) else self.size_value(value)

    def size_value(self, value):
        """The size of a tensor of that many elements, which is never made."""
        counted = self.emit("fill", [], dtype=torch.uint8, shape=[value], shape_=self.dims([value]), dtype_="u8")
        return self.emit("size_of", [counted], dtype=torch.int64, shape=())

    def real_value(self, value):
        kind, real = type(value).__name__, torch.float32
        if value.is_Number:
            return self.graph.splat(float(value), real)
        if kind == "ToFloat" or value in self.graph.symbols:
            return self.cast(self.size_value(value.args[0] if kind == "ToFloat" else value), real)
        op = {"Add": "add", "Mul": "mul", "FloatPow": "pow", "Pow": "pow", "IntTrueDiv": "div", "FloatTrueDiv": "div",
              "OpaqueUnaryFn_sqrt": "sqrt", "OpaqueUnaryFn_exp": "exp", "OpaqueUnaryFn_log": "log"}.get(kind)
        if op is None:
            raise Unsupported(f"the number {self.graph.text(value)}, which a graph file cannot express")
        first, *rest = (self.real_value(part) for part in value.args)
        if not rest:
            return self.emit(op, [first], dtype=real, shape=())
        for part in rest:
            first = self.emit(op, [first, part], dtype=real, shape=())
        return first

    def reshape(self, x, shape):
        if len(shape) == x.rank and all(same(a, b) for a, b in zip(shape, x.shape)):
            return x
        return self.emit("reshape", [x], dtype=x.dtype, shape=shape, shape_=self.dims(shape))

    def permute(self, x, perm):
        if list(perm) == list(range(x.rank)):
            return x
        return self.emit("transpose", [x], dtype=x.dtype, shape=[x.shape[axis] for axis in perm], perm=list(perm))

    def expand(self, x, shape):
        """Broadcast to the shape; dims that stay are written as -1, so that they may be any expression."""
        shape = list(shape)
        lead = len(shape) - x.rank
        full = [x.shape[i - lead] if i >= lead and expression(dim) == -1 else dim for i, dim in enumerate(shape)]
        if lead == 0 and all(same(a, b) for a, b in zip(full, x.shape)):
            return x
        dims = [-1 if i >= lead and same(dim, x.shape[i - lead]) else self.dims([dim])[0] for i, dim in enumerate(full)]
        return self.emit("expand", [x], dtype=x.dtype, shape=full, shape_=dims)

    def narrow(self, x, axis, start, count):
        shape = list(x.shape)
        shape[axis] = count
        first, size = self.dims([start, count])
        return self.emit("narrow", [x], dtype=x.dtype, shape=shape, axis=axis, start=first, len=size)

    def contraction(self, op, a, b, **attributes):
        if a.dtype.is_floating_point:
            return self.emit(op, [a, b], **attributes)
        if op == "matmul" and a.dtype in (torch.int32, torch.int64):
            return self.product_of_integers(a, b, **attributes)
        raise Unsupported(f"a product of {dtype_name(a.dtype)}; cast the operands to int32, int64 or a float type")

    def product_of_integers(self, a, b, trans_b=False):
        """A sum over products of elements, which are no value in memory: the sum's step computes them."""
        a = self.reshape(a, [1, *a.shape]) if a.rank == 1 else a
        b = self.reshape(b, [*b.shape, 1]) if b.rank == 1 else b
        if trans_b:
            b = self.permute(b, [*range(b.rank - 2), b.rank - 1, b.rank - 2])
        lead = list(torch.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2])))
        (rows, depth), columns = a.shape[-2:], b.shape[-1]
        operands = [self.reshape(a, [*a.shape, 1]), self.reshape(b, [*b.shape[:-2], 1, depth, columns])]
        product = self.emit("mul", operands, dtype=a.dtype, shape=[*lead, rows, depth, columns])
        total = self.emit("reduce_sum", [product], dtype=a.dtype, shape=[*lead, rows, columns], axes=[len(lead) + 1], keep_dims=False)
        return self.reshape(total, list(self.out.shape))


def known_number(value):
    """A Python number, also of a SymInt or SymFloat that is one; None where it depends on a symbol."""
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        number = expression(value)
        return None if number.free_symbols else float(number) if isinstance(value, torch.SymFloat) else int(number)
    return value
