# SPDX-License-Identifier: Apache-2.0
"""Numbers that a model asks tensors for while it runs: `if mask.any():`, `arange(int(lengths.max()))`. A program of torch.export
has no branches of Python's and no sizes that such a number gives. Where the user says that the example inputs are typical (--assume-values),
the module runs with them once, and what it is answered then it is answered again while it is traced. Every answer is told."""
import ast
import collections
import contextlib
import copy
import functools
import operator
import os
import pathlib
import sys

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental import proxy_tensor, symbolic_shapes
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

ASKING = {getattr(torch.Tensor, name): name for name in ("item", "tolist", "__bool__", "__int__", "__float__", "__index__")}
TORCH_FOLDER = str(pathlib.Path(torch.__file__).parent) + os.sep


class Asked(TorchFunctionMode):
    """What a tensor answers is noted, by the place that asks."""

    def __init__(self):
        super().__init__()
        self.answers = collections.defaultdict(list)  # (file, line, name of the method): answers, in their order

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function in ASKING:
            file, line, name = asking_place(function)
            self.answers[file, line, "item" if name == "tolist" else name] += elements(result)
        return result


class Answered(TorchFunctionMode):
    """Tensors answer what they answered before. The module may be traced more than once: behind the last answer comes the first."""

    def __init__(self, answers):
        super().__init__()
        self.answers, self.given = answers, collections.Counter()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        place = asking_place(function) if function in ASKING else None
        if not self.answers.get(place):
            return function(*args, **(kwargs or {}))
        answers = self.answers[place]
        answer = answers[self.given[place] % len(answers)]
        self.given[place] += 1
        return answer

    def told(self):
        """A line for each answer that was used, as "net.py:12: item() is False"."""
        lines = []
        for (file, line, name), count in self.given.items():
            answers = list(dict.fromkeys(map(str, self.answers[file, line, name][:count])))
            shown = ", then ".join(answers[:4]) + (", ..." if len(answers) > 4 else "")
            lines.append(f"{pathlib.Path(file).name}:{line}: {name.strip('_')} of a tensor is {shown}")
        return lines


class Known(TorchFunctionMode):
    """Tensors that buffers and constants alone decide answer themselves: `if self.is_set:`, `torch.arange(1, x.ndim).tolist()`. What a check
    of the data asks is answered as it wants to have it. told: a set that gets the places of such checks."""

    def __init__(self, module, told):
        super().__init__()
        self.told = told
        self.module, self.values = module, {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self.asked = set()  # names of buffers

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in ASKING:
            with torch._C.DisableTorchFunction():
                value = self.value_of(args[0])
                if value is not None:
                    with _disable_current_modes():
                        return function(value)
            file, line, name = asking_place(function)
            wanted = wanted_by_check(file, line) if name == "__bool__" else None
            if wanted is not None:
                self.told.add(f"{pathlib.Path(file).name}:{line}: the check holds")
                return wanted
        return function(*args, **(kwargs or {}))

    def value_of(self, tensor):
        """The value of a tensor that is being traced, or None where more decides it than buffers and constants."""
        mode = proxy_tensor.get_proxy_mode()
        slot = None if mode is None else proxy_tensor.get_proxy_slot(tensor, mode.tracer, None)
        if slot is None or not isinstance(tensor, FakeTensor):
            return None
        names = {}
        for name, part in [*self.module.named_parameters(), *self.module.named_buffers()]:
            known = proxy_tensor.get_proxy_slot(part, mode.tracer, None)
            if known is not None:
                names.setdefault(known.proxy.node, name)
        with torch.no_grad(), _disable_current_modes():
            return self.computed(slot.proxy.node, names, mode.tracer.root)

    def computed(self, last, names, root):
        pending, values, used = [last], {}, set()
        while pending and len(values) < MOST_NODES:
            node = pending[-1]
            unknown = [part for part in node.all_input_nodes if part not in values and node not in names]
            pending += unknown
            if unknown:
                continue
            pending.pop()
            if node in values:
                continue
            if node in names:
                used.add(names[node])
                values[node] = self.values[names[node]].detach().clone()
            elif node.op == "get_attr" and type(getattr(root, node.target, None)) is torch.Tensor:
                values[node] = getattr(root, node.target).clone()
            elif node.op == "call_function" and is_repeatable(node.target):
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.get)
                values[node] = node.target(*args, **kwargs)
            else:
                return None
        if last not in values:
            return None
        self.asked |= used
        return values[last]


def wanted_by_check(file, line):
    """What `assert TENSOR` or `if TENSOR: raise ...` at this place wants to hear so that the model goes on; None where it is no check."""
    for node in ast.walk(parsed(file)):
        is_raise = isinstance(node, ast.If) and not node.orelse and all(isinstance(part, ast.Raise) for part in node.body)
        if (isinstance(node, ast.Assert) or is_raise) and node.test.lineno <= line <= node.test.end_lineno:
            test, wanted = node.test, isinstance(node, ast.Assert)
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                test, wanted = test.operand, not wanted
            # Each tensor of the test hears the same: not where one of them is turned round.
            return None if any(isinstance(part, (ast.Not, ast.Is, ast.IsNot)) for part in ast.walk(test)) else wanted
    return None


@functools.cache
def parsed(file):
    try:
        return ast.parse(pathlib.Path(file).read_text())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


MOST_NODES = 1000  # of what decides an answer


def is_repeatable(target):
    is_operator = isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded not in target.tags
    return is_operator or target is operator.getitem  # of an operator's results


def asking_place(function):
    """Where the model asks, and by which method."""
    frame = innermost(sys._getframe(2))
    return frame.f_code.co_filename, frame.f_lineno, ASKING[function]


def innermost(frame):
    """The innermost frame outside PyTorch and this file."""
    while frame.f_code.co_filename.startswith((TORCH_FOLDER, __file__)) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def elements(value):
    """Of a list of lists, what torch.export asks for one by one."""
    return [part for row in value for part in elements(row)] if isinstance(value, list) else [value]


def answers_of(module, args, kwargs):
    """What the module asks of tensors when it runs with these inputs. Its buffers are as before afterwards."""
    buffers = {name: tensor.clone() for name, tensor in module.named_buffers()}
    with torch.no_grad(), Asked() as asked:
        module(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    with torch.no_grad():
        for name, tensor in module.named_buffers():
            if name in buffers:
                tensor.copy_(buffers[name])
    return dict(asked.answers)


def advice(error):
    """What helps where a model asks a tensor for a value, as a further line of torch.export's error."""
    if not isinstance(error, symbolic_shapes.GuardOnDataDependentSymNode):
        return ""
    return ("\n  The model asks a tensor for a value and goes on by it, as `if mask.any():` does. Where the value is always the same, "
            "export(..., assume_values=True) (--assume-values) takes that of the example inputs, and tells it; else write it with "
            "torch.where or torch.cond")


# ---- whether there are rows

COUNTS = (1, 2, 3, 1000)


@contextlib.contextmanager
def rows_are_there(told):
    """Code such as `if boxes.numel() == 0: return boxes` asks whether the data leave anything. Results that are as long as the data
    decide have room for their most rows here, of which some count, or none: what follows is right for none too. So the answer is that
    there are rows. told: a set that gets the places that asked."""
    symbolic_shapes.uninteresting_files().add(__file__)  # so that PyTorch sees the model's line, and whether it is an assertion
    env_type = symbolic_shapes.ShapeEnv
    if not all(hasattr(env_type, name) for name in ("_evaluate_expr", "create_unbacked_symint")):
        yield  # a PyTorch that names them otherwise: the question stays an error
        return
    ask, make = env_type._evaluate_expr, env_type.create_unbacked_symint
    sizes = set()  # symbols that the data give; of them, those that are no number read from a tensor

    def note(env, *args, **kwargs):
        made = make(env, *args, **kwargs)
        if sys._getframe(1).f_code.co_name != "local_scalar_dense":
            sizes.add(made.node.expr)
        return made

    def answer(env, question, *args, **kwargs):
        try:
            return ask(env, question, *args, **kwargs)
        except symbolic_shapes.GuardOnDataDependentSymNode:
            counts = sorted(question.free_symbols, key=str)
            if not isinstance(question, sympy.core.relational.Relational) or not set(counts) <= sizes:
                raise
            answers = {question.subs({symbol: count + i for i, symbol in enumerate(counts)}) for count in COUNTS}
            if len(answers) > 1:  # how many there are matters
                raise
            told.add(f"{model_place()}: there are rows, as many as the data decide")
            return answers.pop()

    env_type._evaluate_expr, env_type.create_unbacked_symint = answer, note
    try:
        yield
    finally:
        env_type._evaluate_expr, env_type.create_unbacked_symint = ask, make


def model_place():
    frame = innermost(sys._getframe(2))
    return f"{pathlib.Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
