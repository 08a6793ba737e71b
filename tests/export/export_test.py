#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the models of export_models.py, compiles and runs them on the devices that are there, and compares with PyTorch in f64.
What must be refused is refused by name.

    python3 tests/export/export_test.py BUILD_BIN [--target vulkan|cuda|vulkan,cuda] [--arch sm_90a] [MODEL ...]

Exits 77, which counts as skipped, where PyTorch or a device is missing.
"""
import argparse
import copy
import importlib.util
import itertools
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SKIPPED = 77
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/export")]
try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"SKIPPED: {missing}; 0 failed")
    sys.exit(SKIPPED)

import export_models as models  # noqa: E402
import rlx_export  # noqa: E402

F = torch.nn.functional


def floats(*shape):
    return torch.randn(shape)


def integers(low, high, *shape, dtype=torch.int64):
    return torch.randint(low, high, shape, dtype=dtype)


def fixed(make, *inputs, **options):
    return dict(make=make, inputs=inputs, **options)


def boxes(count):
    """Boxes and scores, no two of which are nearly equal."""
    corner = torch.rand(count, 2) * 4
    return torch.cat([corner, corner + 1 + torch.rand(count, 2)], 1), torch.randperm(count) / count


def padding_mask(batch, count):
    return (torch.arange(count)[None] < torch.tensor([count - i for i in range(batch)])[:, None]).long()


def graph(nodes, edges):
    """Values of nodes, edges of which some lead from a node to itself, their weights and values. No two of what models.Edges writes to
    rows of its choice go to one row."""
    source = torch.arange(edges) % nodes
    return (floats(nodes, 3), torch.stack([source, (source * source + 1) % nodes]),
            torch.tensor([-1.0, 0.5, -0.75, 0.25, 1.0])[torch.arange(edges) % 5] * (torch.arange(edges) < nodes), floats(edges, 3))


def probabilities(rows):
    return torch.rand(rows, 7) * 5 + 0.2, floats(rows, 7), torch.rand(rows, 7) * 0.9 + 0.05


def heads(batch, count):
    """Queries, keys and values of half as many heads, and the documents that tokens belong to."""
    documents = (torch.arange(count) * 3 // count)[None].repeat(batch, 1)
    return floats(batch, 4, count, 8), floats(batch, 2, count, 8), floats(batch, 2, count, 8), documents


# Name: the model, its inputs, and options: dynamic dims and other sizes to bind them to, precision.
CASES = {
    "chosen": lambda: fixed(models.Chosen, floats(5, 7), *boxes(12)),
    "rows": lambda: fixed(models.Rows, floats(5, 4), *boxes(12)),
    "edges": lambda: fixed(models.Edges, *graph(5, 6)),
    "edges_dynamic": lambda: fixed(models.Edges, *graph(5, 6), dynamic={
        "x": {0: ("nodes", 4, 9)}, "edges": {1: ("edges", 2, 20)}, "weights": {0: ("edges", 2, 20)}, "rows": {0: ("edges", 2, 20)}},
                                   other=graph(7, 11), bind={"nodes": (5, 7), "edges": (6, 11)}),
    "durations": lambda: fixed(models.Durations, floats(5, 3), torch.tensor([2, 0, 3, 1, 1]), max_count=12),
    "known": lambda: fixed(models.Known, floats(2, 5, 4), dynamic={"x": {1: ("seq", 3, 9)}}, other=(floats(2, 8, 4),),
                           bind={"seq": (5, 8)}),
    "read_numbers": lambda: fixed(models.ReadNumbers, floats(4, 6), torch.tensor([1, 3, 2, 4])),
    "read_numbers_dynamic": lambda: fixed(models.ReadNumbers, floats(4, 6), torch.tensor([1, 3, 2, 4]),
                                          dynamic={"x": {0: ("batch", 2, 9)}, "lengths": {0: ("batch", 2, 9)}},
                                          other=(floats(7, 6), torch.arange(7) % 5), bind={"batch": (4, 7)}),
    "read_lengths": lambda: fixed(models.ReadLengths, floats(3, 6), torch.tensor([1, 4, 2]), max_count=5),
    "read_lengths_dynamic": lambda: fixed(models.ReadLengths, floats(3, 6), torch.tensor([1, 4, 2]), max_count=5,
                                          dynamic={"x": {0: ("batch", 2, 9), 1: ("len", 4, 9)}, "lengths": {0: ("batch", 2, 9)}},
                                          other=(floats(4, 5), torch.tensor([2, 0, 3, 1])), bind={"batch": (3, 4), "len": (6, 5)}),
    "bits": lambda: fixed(models.Bits, floats(3, 5), floats(3, 5), integers(-2, 3, 3, 5),
                          dynamic={"x": {0: ("rows", 2, 9)}, "other": {0: ("rows", 2, 9)}, "labels": {0: ("rows", 2, 9)}},
                          other=(floats(6, 5), floats(6, 5), integers(-2, 3, 6, 5)), bind={"rows": (3, 6)}),
    "tally": lambda: fixed(models.Tally, torch.tensor([3, 1, 3, 0, 5]), floats(5), max_count=8),
    "assumed": lambda: fixed(models.Assumed, floats(2, 6), torch.tensor([4, 2]), assume_values=True),
    "resnet": lambda: fixed(models.ResNet, floats(2, 3, 64, 64)),
    "resnet_dynamic": lambda: fixed(models.ResNet, floats(2, 3, 64, 64), dynamic={"x": {0: ("batch", 1, 8)}},
                                    other=(floats(5, 3, 64, 64),),
                                    bind={"batch": (2, 5)}),
    "mobilenet": lambda: fixed(models.MobileNet, floats(1, 3, 48, 56)),
    "mobilenet_f16": lambda: fixed(models.MobileNet, floats(1, 3, 48, 56), precision="f16", tolerance=2e-3),
    "unet": lambda: fixed(models.UNet, floats(1, 3, 32, 48)),
    "encoder": lambda: fixed(models.Encoder, integers(0, 50, 3, 12), padding_mask(3, 12),
                             dynamic={"ids": {0: ("batch", 1, 16), 1: ("seq", 2, 40)},
                                      "mask": {0: ("batch", 1, 16), 1: ("seq", 2, 40)}},
                             other=(integers(0, 50, 4, 7), padding_mask(4, 7)), bind={"batch": (3, 4), "seq": (12, 7)}),
    "cross": lambda: fixed(models.Cross, floats(5, 2, 24), floats(7, 2, 16), floats(7, 2, 20)),
    "decoder": lambda: fixed(models.Decoder, floats(5, 2, 24), floats(7, 2, 24), padding_mask(2, 7) == 0),
    "llama": lambda: fixed(models.Llama, integers(0, 61, 2, 9), dynamic={"ids": {1: ("seq", 2, 64)}},
                           other=(integers(0, 61, 2, 33),),
                           bind={"seq": (9, 33)}),
    "llama_bf16": lambda: fixed(models.Llama, integers(0, 61, 2, 9), precision="bf16", tolerance=1e-2),
    "masked": lambda: fixed(models.Masked, floats(2, 3, 6, 8), floats(2, 3, 6, 8), floats(2, 3, 6, 8)),
    "counter": lambda: fixed(models.Counter, floats(3, 4)),
    "branches": lambda: fixed(models.Branches, floats(2, 4), torch.tensor(3), max_iterations=5),
    "branches_none": lambda: fixed(models.Branches, floats(2, 4), torch.tensor(0), max_iterations=5),
    "scanned": lambda: fixed(models.Scanned, floats(2, 4), floats(6, 2, 4), floats(4)),
    "elementwise": lambda: fixed(models.Elementwise, floats(3, 5), floats(3, 5)),
    "integers": lambda: fixed(models.Integers, integers(-9, 9, 7), integers(1, 9, 7, dtype=torch.int32), floats(7)),
    "movement": lambda: fixed(models.Movement, floats(2, 3, 4, 6)),
    "reductions": lambda: fixed(models.Reductions, floats(2, 3, 4, 6)),
    "indexing": lambda: fixed(models.Indexing, floats(5, 4, 3), integers(0, 4, 2, 3), integers(0, 4, 5, 2, 3)),
    "spectra": lambda: fixed(models.Spectra, floats(2, 12), floats(2, 12)),
    "counting": lambda: fixed(models.Counting, floats(3, 4), torch.tensor([-1.0, -0.5, 0.25, 0.25, 1.5]), integers(0, 9, 3, 5),
                              torch.tensor([0, 4, 4])),
    "places_of_any_length": lambda: fixed(models.PlacesOfAnyLength, floats(2, 7, 4), dynamic={"x": {0: ("batch", 1, 5), 1: ("seq", 1, 20)}},
                                          other=(floats(3, 1, 4),), bind={"batch": (2, 3), "seq": (7, 1)}),
    "cut_at_any_length": lambda: fixed(models.CutAtAnyLength, floats(2, 9, 8), dynamic={"x": {0: ("batch", 1, 5), 1: ("seq", 2, 20)}},
                                       other=(floats(1, 2, 8),), bind={"batch": (2, 1), "seq": (9, 2)}),
    "diagonals": lambda: fixed(models.Diagonals, floats(3, 5, 6), dynamic={"x": {0: ("batch", 2, 5)}}, other=(floats(4, 5, 6),),
                               bind={"batch": (3, 4)}),
    "diagonals_fixed": lambda: fixed(models.Diagonals, floats(3, 5, 6)),
    "placing": lambda: fixed(models.Placing, floats(4, 5, 3), torch.tensor([0, 2, 3]), floats(3, 3)),
    "bags": lambda: fixed(models.Bags, integers(0, 20, 2, 4, 5), floats(2, 4, 5), torch.tensor([0, 9, 9])),
    "systems": lambda: fixed(models.Systems, floats(2, 4, 4), floats(2, 4, 3), floats(5, 3), tolerance=2e-5),
    "factors": lambda: fixed(models.Factors, floats(3, 5, 5), floats(2, 2), floats(6, 4), tolerance=3e-5,
                             dynamic={"a": {0: ("count", 1, 9)}}, other=(floats(5, 5, 5), floats(2, 2), floats(6, 4)), bind={"count": (3, 5)}),
    "probability": lambda: fixed(models.Probability, *probabilities(3), dynamic={name: {0: ("batch", 1, 9)} for name in "axp"},
                                 other=probabilities(5), bind={"batch": (3, 5)}, tolerance=4e-6),
    "flex_attention": lambda: fixed(models.FlexAttention, *heads(2, 12), dynamic={
        name: {0: ("batch", 1, 8), 2 if name != "document" else 1: ("seq", 2, 40)} for name in ("q", "k", "v", "document")},
                                    other=heads(3, 19), bind={"batch": (2, 3), "seq": (12, 19)}),
    "folded": lambda: fixed(models.Folded, floats(2, 4), floats(2, 3), tolerance=2e-5),
    "statistics": lambda: fixed(models.Statistics, floats(3, 5), floats(3, 5)),
    "divisors": lambda: fixed(models.Divisors, integers(-30, 30, 5, 4), integers(-30, 30, 4)),
    "renormed": lambda: fixed(models.Renormed, torch.tensor([[1, 3, 1], [0, 3, 3]]), floats(6, 4)),
    "rounded_up": lambda: fixed(models.RoundedUp, floats(2, 5), dynamic={"x": {1: ("length", 2, 17)}}, other=(floats(2, 8),),
                                bind={"length": (5, 8)}),
    "recurrent": lambda: fixed(models.Recurrent, floats(3, 7, 6)),
    "spatial": lambda: fixed(models.Spatial, floats(2, 4, 9, 8), torch.rand(2, 5, 6, 2) * 2.4 - 1.2),
    "dynamic_image": lambda: fixed(models.DynamicImage, floats(1, 3, 24, 32),
                                   dynamic={"image": {2: ("height", 8, 64, 4), 3: ("width", 8, 64, 4)}},
                                   other=(floats(1, 3, 16, 44),), bind={"height": (24, 16), "width": (32, 44)}),
    "dynamic": lambda: fixed(models.Dynamic, floats(2, 5, 8), floats(2, 8),
                             dynamic={"x": {0: ("batch", 1, 16), 1: ("seq", 4, 40)}, "y": {0: ("batch", 1, 16)}},
                             other=(floats(3, 6, 8), floats(3, 8)), bind={"batch": (2, 3), "seq": (5, 6)}),
    "own_weights": lambda: fixed(models.OwnWeights, floats(2, 4, 8, 7), floats(2, 6),
                                 dynamic={name: {0: ("batch", 1, 9)} for name in "xw"},
                                 other=(floats(5, 4, 8, 7), floats(5, 6)), bind={"batch": (2, 5)}),
    "any_length": lambda: fixed(models.AnyLength, floats(2, 6, 8), dynamic={"x": {0: ("batch", 1, 8), 1: ("seq", 2, 40)}},
                                other=(floats(3, 9, 8),), bind={"batch": (2, 3), "seq": (6, 9)}),
    "windows": lambda: fixed(models.Windows, floats(2, 4, 8), dynamic={"x": {0: ("batch", 1, 8), 1: ("seq", 1, 40)}},
                             other=(floats(3, 19, 8),), bind={"batch": (2, 3), "seq": (4, 19)}),
    "spectra_of_any_length": lambda: fixed(models.SpectraOfAnyLength, floats(2, 9), dynamic={"x": {0: ("batch", 1, 8), 1: ("seq", 6, 40)}},
                                           other=(floats(3, 14),), bind={"batch": (2, 3), "seq": (9, 14)}),
    "shared_sizes": lambda: fixed(models.SharedSizes, floats(2, 7, 8), floats(2, 7, 8),
                                  dynamic={name: {0: ("batch", 1, 8), 1: ("seq", 6, 40)} for name in "xy"},
                                  other=(floats(3, 10, 8), floats(3, 10, 8)), bind={"batch": (2, 3), "seq": (7, 10)}),
}


if importlib.util.find_spec("torchvision"):
    import torchvision  # noqa: F401  registers its operators
    CASES["detector_parts"] = lambda: fixed(models.DetectorParts, floats(1, 4, 16, 16), floats(1, 4, 8, 8), *boxes(12), tolerance=2e-5)
    CASES["regions"] = lambda: fixed(
        models.Regions, floats(2, 4, 9, 7), torch.tensor([[0, 1.0, 2, 9, 8], [1, -4.0, -3, 30, 12], [1, 3.0, 3, 3.5, 3.2]]),
        floats(2, 36, 5, 7), torch.rand(2, 18, 5, 7), floats(6, 2, 3, 3), tolerance=2e-5)


def random_weights(module):
    """Weights and statistics that nothing can be mistaken for: no ones, no zeros. Initial states are left as they are."""
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        with torch.no_grad():
            if name.endswith("running_var") or (tensor.dim() == 1 and name.endswith("weight")):
                tensor.uniform_(0.6, 1.4)
            elif name.endswith(("bias", "running_mean")):
                tensor.uniform_(-0.3, 0.3)


def call(command, wanted=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != wanted:
        raise AssertionError(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-3000:]}")
    return done


def save(folder, names, tensors):
    files = []
    for name, tensor in zip(names, tensors):
        array = tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()
        np.save(folder / f"{name}.npy", array)
        files.append(f"{name}={folder / name}.npy")
    return files


def load(path, wanted):
    array = np.load(path)
    if wanted.dtype == torch.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def flat(outputs):
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return list(outputs.values() if isinstance(outputs, dict) else outputs)


def error_of(got, eager, exact, tolerance):
    """The largest error over what is allowed; text where types, shapes, integers or special values differ."""
    if (got.dtype, got.shape) != (eager.dtype, eager.shape):
        return f"{got.dtype} {tuple(got.shape)}, PyTorch has {eager.dtype} {tuple(eager.shape)}"
    if not got.dtype.is_floating_point:
        return 0.0 if torch.equal(got, eager) else f"{int((got != eager).sum())} of {got.numel()} integers differ"
    got, exact = got.double(), exact.double()
    is_special = ~torch.isfinite(exact)
    if not torch.equal(got[is_special].nan_to_num(7, 8, 9), exact[is_special].nan_to_num(7, 8, 9)):
        return "special values differ"
    got, exact = got[~is_special], exact[~is_special]
    if got.numel() == 0:
        return 0.0
    ratio = float(((got - exact).abs() / (tolerance * (exact.abs() + exact.abs().max()) + 1e-12)).max())
    return ratio if ratio == ratio else "a result is not finite"


def check(case, name, args, folder):
    """The worst error of the case on each target, over what is allowed."""
    torch.manual_seed(sum(map(ord, name)))
    case = case()
    module = case["make"]().eval()
    random_weights(module)
    model = folder / f"{name}.rlxg"
    graph = rlx_export.export(module, case["inputs"], model, dynamic=case.get("dynamic"), precision=case.get("precision"),
                              rlxc=args.build_bin / "rlxc", max_iterations=case.get("max_iterations"),
                              max_count=case.get("max_count"), assume_values=case.get("assume_values", False))
    names = [row["name"] for row in graph.inputs]
    states = [row["outputs"][0] for row in graph.nodes if row["op"] == "state_write"]
    keep = ["--keep", ",".join(states)] if states else []
    worst = 0.0
    for size, inputs in enumerate([case["inputs"], case["other"]] if "other" in case else [case["inputs"]]):
        if "precision" in case:
            inputs = tuple(rlx_export.to_float(value, rlx_export.FLOATS[case["precision"]]) for value in inputs)
        wanted = expected(module, inputs)
        files = save(folder, names, inputs)
        for target, dims in itertools.product(args.targets, bindings_of(case, size)):
            plan = folder / f"{name}.{target}.plan"
            architecture = ["--arch", args.arch] if target == "cuda" and args.arch else []
            call([args.build_bin / "rlxc", model, "-o", plan, "--target", target, "-q", *dims, *architecture, *keep])
            call([args.build_bin / "rlxrun", plan, "--device", target.split("-")[0], "--inputs", *files, "--outputs",
                  folder / "out",
                  "--poison", 165])
            shown = [output for output in graph.outputs if not output.endswith(".count")]
            for output, (eager, exact) in zip([*shown, *states], wanted, strict=True):
                got = load(folder / "out" / f"{output}.npy", eager)
                if f"{output}.count" in graph.outputs:  # as many rows as count
                    got = got[:int(np.load(folder / "out" / f"{output}.count.npy"))]
                ratio = error_of(got, eager, exact, case.get("tolerance", 2e-6))
                assert isinstance(ratio, float) and ratio <= 1, f"{output} on {target}: {ratio}"
                worst = max(worst, ratio)
    return worst


def bindings_of(case, size):
    """The options of a plan for the dynamic dims of these inputs alone, and of one for all of them."""
    if "bind" not in case:
        return [[]]
    fixed_dims = [word for key, values in case["bind"].items() for word in ("--dim", f"{key}={values[size]}")]
    ranges = {row[0]: ":".join(map(str, row[1:])) for axes in case["dynamic"].values() for row in axes.values()}
    return [fixed_dims, [word for key, values in ranges.items() for word in ("--dim", f"{key}={values}")]]


def expected(module, inputs):
    """Each output, and each buffer that the run changed, as PyTorch gives it and in f64; by copies of the module."""
    runs = []
    for run, values in ((copy.deepcopy(module), inputs),
                        (copy.deepcopy(module).double(), [rlx_export.to_float(value, torch.float64) for value in inputs])):
        before = {name: tensor.clone() for name, tensor in run.named_buffers()}
        with torch.no_grad():
            outputs = [tensor.clone() for tensor in flat(run(*values))]
        runs.append(outputs + [tensor for name, tensor in run.named_buffers() if not torch.equal(tensor, before[name])])
    return list(zip(*runs, strict=True))


# ---- what must be refused

class Refused(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), Picker())

    def forward(self, x):
        return (self.inner(x).sum() + torch.linalg.eigvalsh(x.T @ x).sum() + torch.special.bessel_j0(x).sum() + torch.polygamma(2, x).sum() +
                torch.linalg.det(x.repeat(9, 9)))


class ReadsNumbers(torch.nn.Module):
    """Numbers of the data where a graph file wants known ones."""

    def forward(self, x):
        number = x[0, :2].argmax().item()
        slope = x[0, 0].item()
        return (x.triu(number), torch.nn.functional.leaky_relu(x, slope), torch.nn.functional.elu(x, slope), x.kthvalue(number + 1, 1).values,
                torch.arange(number), x[:, x[0, :2].argmin():])


class NearMisses(torch.nn.Module):
    """What is refused beside what is not."""
    def forward(self, q, table):
        flex = torch.nn.attention.flex_attention.flex_attention
        scores = {"sum": lambda score, b, h, i, j: score + table[h].sum(), "part": lambda score, b, h, i, j: score + table[h][:1].min()}
        return flex(q, q, q, score_mod=scores[self.kind])


class Picker(torch.nn.Module):
    def forward(self, x):
        return x[x > 0].flip(0)


class Remembering(torch.nn.Module):
    """Keeps what it made for a size, and takes squares alone."""
    def __init__(self):
        super().__init__()
        self.scale, self.made = torch.nn.Parameter(torch.ones(8)), {}

    def forward(self, x):
        assert x.shape[0] == x.shape[1]
        size = x.shape[1]
        if size not in self.made:
            self.made[size] = self.scale[:size] * 2
        return x * self.made[size]


def check_module_after(args, folder):
    """The module runs on behind an export, also where it keeps tensors of a run in a dictionary."""
    module, x = Remembering().eval(), floats(4, 4)
    rlx_export.export(module, (x,), folder / "remembering.json")
    assert not module.made and torch.equal(module(x), 2 * x), "what the trace made is kept"


def check_refusals(args, folder):
    def refusal(module, inputs, **options):
        try:
            rlx_export.export(module, inputs, folder / "refused.json", **options)
        except rlx_export.ExportError as error:
            return str(error)
        raise AssertionError(f"{type(module).__name__} was exported")
    text = refusal(Refused(), (floats(4, 4),))
    for words in ("inner.1 (Picker)", "export_test.py:", "the run decides how many rows count", "aten._linalg_eigh", "aten.special_bessel_j0",
                  "polygamma of order 2", "a determinant of a matrix of 36 x 36"):
        assert words in text, f"{words} is not in: {text}"
    text = refusal(ReadsNumbers(), (floats(4, 4),))
    for words in ("aten.triu.default: a number that the model reads from a tensor", "aten.leaky_relu", "aten.elu", "aten.kthvalue",
                  "say how many there are at most with --max-count", "rows from where a tensor's number says to the end"):
        assert words in text, f"{words} is not in: {text}"
    for kind, words in (("sum", "aten.sum.default for each score"), ("part", "aten.min.default for each score")):
        module = NearMisses()
        module.kind = kind
        text = refusal(module, (floats(1, 2, 3, 4), floats(2, 5)))
        assert words in text and "score_mod=scores[self.kind]" in text, f"{words} is not in: {text}"
    text = refusal(Remembering(), (floats(4, 3),))
    assert "export_test.py:" in text and "assert x.shape[0] == x.shape[1]" in text, f"the model's line is not in: {text}"
    real = rlx_export.run_decompositions
    for broken, words in ((lambda program: program.no_such_method(), "cannot take its own program apart"),
                          (lambda program: torch.export.export(torch.nn.Identity(), (floats(2, 4),)),
                           "takes its own program apart wrongly")):
        rlx_export.run_decompositions = broken
        text = refusal(torch.nn.Identity(), (floats(3, 4),))
        rlx_export.run_decompositions = real
        assert words in text and "try another version of pytorch" in text.lower(), text
    assert "torch.export" in refusal(models.ResNet(), (floats(2, 3, 64, 64),), dynamic={"x": {1: "channels"}})
    assert "no input" in refusal(models.Counter(), (floats(2, 4),), dynamic={"y": {0: "batch"}})
    for option in ("max_iterations", "max_count"):
        assert f"{option} is -1, wanted at least 1" in refusal(torch.nn.Identity(), (floats(3, 4),), **{option: -1})
    assert not (folder / "refused.json").exists(), "a refused model left a file"


def check_plain_cache(args, folder):
    """What is assigned to a buffer by way of another object is a state all the same."""
    graph = rlx_export.export(models.PlainCache(), (floats(1, 4),), folder / "cache.json")
    writes = [row["inputs"][0] for row in graph.nodes if row["op"] == "state_write"]
    assert sorted(writes) == sorted(graph.states) == ["count", "rows"], f"states {list(graph.states)}, written {writes}"


def check_draws(args, folder):
    """Random numbers are of the same distribution as PyTorch's."""
    graph = rlx_export.export(models.Draws(), (floats(2, 3),), folder / "draws.json")
    call([args.build_bin / "rlxc", folder / "draws.json", "-o", folder / "draws.plan", "--target", args.targets[0], "-q"])
    call([args.build_bin / "rlxrun", folder / "draws.plan", "--seeded", "--outputs", folder])
    uniform, normal, like, whole, _, waits = (np.load(folder / f"{name}.npy") for name in graph.outputs)
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.08, "rand"
    assert abs(normal.mean()) < 0.25 and abs(normal.std() - 1) < 0.2, "randn"
    assert like.shape == (2, 3) and like.min() != like.max(), "rand_like"
    assert whole.dtype == np.int64 and set(whole) == set(range(3, 9)), "randint"
    assert waits.min() >= 0 and abs(waits.mean() - 0.5) < 0.1 and abs(waits.std() - 0.5) < 0.15, "exponential"


def check_chances(args, folder):
    """What is drawn by a probability comes as often as that says, and never where it is 0."""
    graph = rlx_export.export(models.Chances(), (torch.full((4, 5000), 0.5),), folder / "chances.json")
    call([args.build_bin / "rlxc", folder / "chances.json", "-o", folder / "chances.plan", "--target", args.targets[0], "-q"])
    p = np.repeat(np.array([[0.0], [0.2], [0.7], [1.0]], np.float32), 5000, 1)
    np.save(folder / "p.npy", p)
    call([args.build_bin / "rlxrun", folder / "chances.plan", "--inputs", folder / "p.npy", "--seed", "3", "--outputs", folder])
    own, quarter, most, drawn, pairs, one = (np.load(folder / f"{name}.npy") for name in graph.outputs)
    for got, wanted in ((own, p[:, 0]), (quarter, 0.25), (most, 0.75)):
        assert set(np.unique(got)) <= {0.0, 1.0} and np.abs(got.mean(1) - wanted).max() < 0.03, "bernoulli"
    assert (own[0] == 0).all() and (own[3] == 1).all() and (own[1] != own[2]).any(), "bernoulli of certain things"
    shares = np.stack([np.bincount(row, minlength=4) / 4000 for row in drawn])
    assert np.abs(shares - [[0.125, 0, 0.375, 0.5], [0.5, 0.5, 0, 0]]).max() < 0.03, "multinomial with replacement"
    assert shares[0, 1] == 0 and shares[1, 2:].sum() == 0, "multinomial of what cannot be"
    assert pairs.shape == (3000, 2) and (pairs[:, 0] != pairs[:, 1]).all() and (pairs != 1).all(), "multinomial without replacement"
    first = np.bincount(pairs[:, 0], minlength=4) / 3000
    assert np.abs(first - [0.125, 0, 0.375, 0.5]).max() < 0.03, "the first of two without replacement"
    assert one.dtype == np.int64 and one[0] in (0, 1), "multinomial of one row"


def check_command_line(args, folder):
    """The command as a user types it, a saved program, and its errors."""
    command = [sys.executable, ROOT / "tools/rlx_export.py"]
    place = f"{ROOT / 'tests/export/export_models.py'}:Llama"
    common = ["--rlxc", args.build_bin / "rlxc", "-o", folder / "cli.rlxg"]
    call([*command, place, "--kwargs", '{"layers": 1}', "--input", "ids=1x4:i64", "--dynamic", "ids.0=batch:1:4",
          "ids.1=seq:5:60:5",
          "--precision", "f16", *common])
    call([args.build_bin / "rlxc", folder / "cli.rlxg", "-o", folder / "cli.plan", "--dim", "batch=2", "--dim", "seq=5", "-q"])
    torch.export.save(torch.export.export(models.ResNet().eval(), (floats(1, 3, 64, 64),)), str(folder / "saved.pt2"))
    call([*command, folder / "saved.pt2", *common])
    call([args.build_bin / "rlxc", folder / "cli.rlxg", "-o", folder / "cli.plan", "-q"])
    (folder / "syntax.py").write_text("class Net(\n")
    (folder / "broken.py").write_text("import torch\n\n\ndef make():\n    raise ValueError('no such width')\n\n\nnumber = 7\n")
    (folder / "bad.pt2").write_bytes(b"no program")
    (folder / "bad.pt").write_bytes(b"no weights")
    for words, message in (([folder / "syntax.py:Net"], "syntax.py:Net: SyntaxError"),
                           ([folder / "broken.py:make"], "broken.py:make: ValueError: no such width: "),
                           ([folder / "broken.py:number"], "TypeError: 'int' object is not callable"),
                           ([folder / "bad.pt2"], "bad.pt2: "),
                           ([place, "--weights", folder / "bad.pt"], "--weights"),
                           ([place, "--input", "ids=99999999x99999999:i64"], "--input: RuntimeError"),
                           ([place, "--input", "ids=1x4:i64", "ids=1x4:i64"], "names an input twice"),
                           ([place, "--dynamic", "ids.0=a", "ids.0=b"], "names axis 0 of ids twice"),
                           ([place, "--dynamic", "ids.0=a:5:2"], "wanted MIN <= MAX"),
                           ([place, "-o", folder / "no.txt"], "a .json or a .rlxg"),
                           ([place, "-o", folder / "none/model.json"], "there is no folder"),
                           ([place, "--input", "x=1x4:i64"], "no parameter x"), ([place, "--input", "ids=4:i65"], "wanted NAME="),
                           (["nowhere:model"], "nowhere"), ([place, "--input", "ids=1x4:i64", "--dynamic", "ids.7=n"], "2 axes")):
        text = call([*command, *common, *words], wanted=2).stderr
        assert message in text, f"{message} is not in: {text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_bin", type=pathlib.Path)
    parser.add_argument("models", nargs="*", help="of: " + " ".join(CASES))
    parser.add_argument("--target", default="vulkan")
    parser.add_argument("--arch")
    args = parser.parse_intermixed_args()
    args.targets = args.target.split(",")
    args.build_bin = args.build_bin.resolve()
    devices = subprocess.run([args.build_bin / "rlxrun", "--list-devices"], capture_output=True, text=True).stdout
    for target in args.targets:
        if target.split("-")[0] not in devices:
            print(f"SKIPPED: no {target} device (package mesa-vulkan-drivers); 0 failed")
            return SKIPPED
    failed = 0
    checks = {name: (lambda folder, name=name: check(CASES[name], name, args, folder)) for name in args.models or CASES}
    if not args.models:
        checks["refusals"] = lambda folder: check_refusals(args, folder)
        checks["module after"] = lambda folder: check_module_after(args, folder)
        checks["plain cache"] = lambda folder: check_plain_cache(args, folder)
        checks["draws"] = lambda folder: check_draws(args, folder)
        checks["chances"] = lambda folder: check_chances(args, folder)
        checks["command line"] = lambda folder: check_command_line(args, folder)
    for name, run in checks.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                worst = run(pathlib.Path(folder))
                print(f"{name:16} right" + ("" if worst is None else f", {worst:.3f} of the bound"), flush=True)
            except (AssertionError, rlx_export.ExportError) as error:
                failed += 1
                print(f"{name:16} FAILED: {error}", flush=True)
    print(f"{len(checks) - failed} right, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
