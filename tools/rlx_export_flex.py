# SPDX-License-Identifier: Apache-2.0
"""flex_attention as the attention operator, while a module is traced: its mask is what mask_mod says, its bias and its soft cap are what
score_mod does. A score_mod that does something else is written out, between the scores' product and a softmax."""
import contextlib
import math
import sys

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from rlx_export_aten import aten
from rlx_export_graph import Unsupported
from rlx_export_nn import attended
from rlx_export_sizes import LIBRARY

ATEN = torch.ops.aten
OF_ONE_NUMBER = (ATEN._to_copy, ATEN.clone, ATEN.new_ones, ATEN.new_zeros, ATEN.new_full, ATEN.floor_divide, ATEN.where)
READS = (ATEN.index, ATEN.select)

LIBRARY.define("attention(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? bias, float scale, float softcap) -> "
               "(Tensor, Tensor)")


@torch.library.register_fake("rlx::attention", lib=LIBRARY)
def results_of(query, key, value, mask, bias, scale, softcap):
    return query.new_empty([*query.shape[:-1], value.shape[-1]]), query.new_empty(query.shape[:-1], dtype=wide_type(query))


@aten("rlx.attention.default")
def attention(s, query, key, value, mask, bias, scale, softcap):
    wants_sums = any(user.args[1] == 1 for user in s.node.users)  # passes see masks of attention that gives none
    y, *sums = attended(s, query, key, value, mask, bias, scale=scale, softcap=softcap, with_lse=wants_sums)
    return [y, *(s.cast(lse, s.node.meta["val"][1].dtype) for lse in sums)]


@contextlib.contextmanager
def traceable():
    """flex_attention calls what stands here, and no compiler, whatever name a module knows it by. Only where its own module is loaded."""
    flex = sys.modules.get("torch.nn.attention.flex_attention")
    ours = {"flex_attention_hop": flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True, "_warn_once": lambda *_, **__: None}
    before = {name: getattr(flex, name) for name in ours if hasattr(flex, name)}
    for name in before:
        setattr(flex, name, ours[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(flex, name, value)


def drop_unread(program):
    """What makes a BlockMask: mask_mod says the same."""
    graph = program.graph_module.graph
    if any(node.target is torch.ops.rlx.attention.default for node in graph.nodes):
        for node in [node for node in graph.nodes if "_assert_tensor_metadata" in str(node.target)]:
            graph.erase_node(node)
        graph.eliminate_dead_code()


def flex_attention(query, key, value, score_mod, block_mask, scale, kernel_options, *_):
    """The output, and the logarithm of its sums and the largest scores, both over ln 2."""
    batch, heads, queries, keys = *query.shape[:3], key.shape[2]
    places = [torch.arange(size, device=query.device).view([-1 if i == axis else 1 for i in range(4)])
              for axis, size in enumerate((batch, heads, queries, keys))]
    zeros = [query.new_zeros((), dtype=torch.int32) for _ in range(4)]
    score = Function(score_mod, [query.new_zeros(()), *zeros], [None, *places])
    mask = Function(block_mask[-1], zeros, places)
    form = None if (kernel_options or {}).get("OUTPUT_MAX") else score.form()
    if form is None:
        return written_out(query, key, value, score, mask, scale)
    conditions, terms, softcap, factors = form
    bias = None
    for term, is_added in terms:
        part = real(score.value(term), torch.float32)
        part = part if is_added else -part
        bias = part if bias is None else bias + part
    for factor, is_multiplied in factors:
        number = score.number(factor)
        if number is None:  # of each query, which then stands for it
            part = real(score.value(factor), query.dtype)
            query = (query * part if is_multiplied else query / part).to(query.dtype)
        else:
            scale = scale * number if is_multiplied else scale / number
    y, lse = torch.ops.rlx.attention(query, key, value, mask_of(mask, score, conditions), bias, scale, softcap)
    return y, lse / math.log(2), query.new_empty(0)


def mask_of(mask, score, conditions):
    """Where mask_mod and the conditions hold, or None for everywhere."""
    parts = [] if mask.number(mask.result) else [mask.value(mask.result)]
    for condition, wanted in conditions:
        parts.append(score.value(condition) if wanted else ~score.value(condition))
    result = None
    for part in parts:
        part = part.view([1] * 4) if part.dim() == 0 else part
        result = part if result is None else result & part
    return result


def real(value, dtype):
    value = value.view([1] * 4) if value.dim() == 0 else value
    return value if value.is_floating_point() else value.to(dtype)


def wide_type(x):
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def written_out(query, key, value, score, mask, scale):
    wide = wide_type(query)
    q, k, v = (x.to(wide) for x in (query, repeated(query, key), repeated(query, value)))
    score.values[score.inputs[0]] = (q @ k.transpose(2, 3)) * scale
    scores = real(score.value(score.result), wide)
    allowed = mask_of(mask, score, [])
    scores = scores if allowed is None else torch.where(allowed, scores, -math.inf)
    largest = scores.amax(3, keepdim=True)
    shares = (scores - torch.where(largest == -math.inf, 0.0, largest)).exp()  # a row of -inf gives 0
    total = shares.sum(3, keepdim=True)
    y = (shares / torch.where(total == 0, 1.0, total)) @ v
    return y.to(query.dtype), (total.log() + largest).squeeze(3) / math.log(2), largest.squeeze(3) / math.log(2)


def repeated(query, x):
    """A head of keys or values for each head of queries, and a batch."""
    batch, heads = query.shape[:2]
    own = x.shape[1]
    x = x[:, :, None].expand(batch, own, heads // own, *x.shape[2:])
    return x.reshape(batch, heads, *x.shape[3:])


def packet(node):
    return getattr(getattr(node, "target", None), "overloadpacket", None)


class Elements(TorchFunctionMode):
    """Tensors of one number as indices stay such, and are not asked for their numbers."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.__getitem__:
            indices = args[1] if isinstance(args[1], tuple) else (args[1],)
            if all(isinstance(index, torch.Tensor) for index in indices):
                return ATEN.index.Tensor(args[0], list(indices))
        return function(*args, **(kwargs or {}))


class Function:
    """score_mod or mask_mod: a graph of single numbers, evaluated for all scores at once. What varies has the axes batch, head, query and
    key, each as long as it has to be."""

    def __init__(self, function, examples, varying):
        with _disable_current_modes(), Elements():
            self.module = make_fx(function)(*examples)
        nodes = list(self.module.graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        self.values = dict(zip(self.inputs, varying, strict=True))
        self.varying = dependents(nodes, self.inputs)
        self.scored = dependents(nodes, self.inputs[:1] if varying[0] is None else [])
        self.keyed = dependents(nodes, self.inputs[4:5] if varying[0] is None else [])
        result = nodes[-1].args[0]
        self.result = result[0] if isinstance(result, (tuple, list)) else result

    def number(self, node):
        """What a node is where the graph says it, else None."""
        if not isinstance(node, torch.fx.Node):
            return node if isinstance(node, (bool, int, float)) else None
        if packet(node) in (ATEN.scalar_tensor, ATEN._to_copy, ATEN.clone, ATEN.lift_fresh_copy):
            return self.number(node.args[0])
        if packet(node) in (ATEN.full, ATEN.new_full) and not node.args[-2]:
            return self.number(node.args[-1])
        return 1 if packet(node) is ATEN.new_ones and not node.args[1] else None

    def value(self, node):
        if isinstance(node, (list, tuple)):
            return [self.value(part) for part in node]
        if not isinstance(node, torch.fx.Node):
            return node
        if node not in self.values:
            self.values[node] = self.evaluated(node)
        return self.values[node]

    def evaluated(self, node):
        if node.op == "get_attr":  # a tensor that the function holds is the module's own
            return getattr(self.module, node.target)
        if node in self.varying:
            if packet(node) in READS:
                return self.read(node)
            is_plain = torch.Tag.pointwise in getattr(node.target, "tags", ()) or packet(node) in OF_ONE_NUMBER
            if not is_plain or node.meta["val"].dim() > 0:
                raise Unsupported(f"flex_attention whose score_mod or mask_mod has {node.target} for each score: it can have operators "
                                  "of single numbers, and elements of tensors")
        return node.target(*self.value(node.args), **{key: self.value(part) for key, part in node.kwargs.items()})

    def read(self, node):
        """An element of a tensor that does not vary, index after index."""
        indices, source = [], node
        while source in self.varying and packet(source) in READS:
            is_index = packet(source) is ATEN.index
            indices[:0] = self.value(source.args[1]) if is_index else [source.args[2]]
            source = source.args[0] if is_index or source.args[1] == 0 else None
        rank = None if source is None or source in self.varying else self.value(source).dim()
        if rank != len(indices) or any(index is None for index in indices):
            raise Unsupported("flex_attention whose score_mod or mask_mod takes a part of a tensor for each score; take single elements")
        table = self.value(source)
        return ATEN.index.Tensor(table, [torch.as_tensor(index, device=table.device) for index in indices])

    # score_mod as where(mask, c tanh(factors score / c) + bias, -inf)

    def form(self):
        """(conditions, terms, softcap, factors): nodes that have to be true, or false where a pair says so; nodes that are added, or
        subtracted; nodes that the score is multiplied or divided by, which know no key. None where score_mod is something else."""
        conditions, terms, x = [], [], self.result
        while (step := self.outer_step(x)) is not None:
            x, condition, term = step
            conditions += condition
            terms += term
        softcap, x = self.capped(x)
        factors = []
        while x is not self.inputs[0]:
            if packet(x) not in (ATEN.mul, ATEN.div) or len(x.args) != 2:
                return None
            first, second = x.args if x.args[0] in self.scored else x.args[::-1]
            if second in self.scored or second in self.keyed or (packet(x) is ATEN.div and first is not x.args[0]):
                return None
            factors.append((second, packet(x) is ATEN.mul))
            x = first
        return conditions, terms, softcap, factors

    def outer_step(self, x):
        """What a mask or an addend is put on, and that."""
        if packet(x) is ATEN.where and x.args[0] not in self.scored:
            condition, chosen, other = x.args
            for kept, out, wanted in ((chosen, other, True), (other, chosen, False)):
                if self.number(out) == -math.inf and kept in self.scored:
                    return kept, [(condition, wanted)], []
        if packet(x) in (ATEN.add, ATEN.sub) and len(x.args) == 2 and not x.kwargs:
            first, second = x.args
            if first in self.scored and second not in self.scored:
                return first, [], [(second, packet(x) is ATEN.add)]
            if packet(x) is ATEN.add and second in self.scored and first not in self.scored:
                return second, [], [(first, True)]
        return None

    def capped(self, x):
        """c and s of c tanh(s / c); 0 and x elsewhere."""
        if packet(x) is not ATEN.mul:
            return 0.0, x
        for curve, cap in (x.args, x.args[::-1]):
            cap = self.number(cap)
            if cap is None or packet(curve) is not ATEN.tanh:
                continue
            inner = curve.args[0]
            number = self.number(inner.args[1]) if packet(inner) in (ATEN.mul, ATEN.div) else None
            if number and math.isclose(number if packet(inner) is ATEN.div else 1 / number, cap, rel_tol=1e-6):
                return float(cap), inner.args[0]
        return 0.0, x


def dependents(nodes, sources):
    found = set(sources)
    for node in nodes:
        if any(source in found for source in node.all_input_nodes):
            found.add(node)
    return found
