# SPDX-License-Identifier: Apache-2.0
"""Graphs of one kernel each, for every CUDA kernel that uses clusters, asynchronous copies or early starts: sizes one less and one
more than a tile's, primes, and depths that are shared out over a cluster; and for regions whose functions are called, not inlined.
Beside the kernel lies a grid bound by memory, in the same wave of the plan; a step before it and one after it start and end while
it runs.

The compiler chooses kernels; `Case.kernel`, `Case.clusters` and `Case.define` say what it must have chosen, so that a case whose
choice moves on is noticed (make.py)."""
import dataclasses
import typing

from graph import Graph

BESIDE = (8192, 1024)  # f32 that the grid beside the kernel reads: 32 MiB


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    graph: typing.Callable[[], Graph]
    kernel: str  # that one of the plan's steps runs
    clusters: bool = False  # whether that step's workgroups form clusters
    precision: str = "f32"  # as --precision
    define: str = ""  # that the step's specialization must have


def with_grid_beside(g):
    """Another output, of rows that are read while the kernel runs."""
    rows = g.weight("beside", BESIDE, -1.0, 1.0, dtype="f32")
    scaled = g.node("mul", [rows, g.input("beside.scale", [1], "f32")], "beside.scaled")
    g.output(g.node("reduce_sum", [scaled], "beside.sums", axes=[1]))
    return g


def product(name, dtype, m, n, k, bias=False, residual=False, activation=None, trans_b=True, batch=()):
    """y[m, n] = act(relu(x)[m, k] * w + bias) + residual, and a sum over its rows behind it."""
    g = Graph(name, dtype)
    x = g.node("relu", [g.input("x", [*batch, m, k])], "x.relu")
    weight = g.scaled("w", [*batch, n, k] if trans_b else [*batch, k, n], k**-0.5)
    y = g.node("matmul", [x, weight], "product", trans_b=trans_b)
    if bias:
        y = g.node("add", [y, g.scaled("bias", [n], 0.1)], "biased")
    if activation:
        y = g.node(activation, [y], "activated")
    if residual:
        y = g.node("add", [y, g.input("residual", [*batch, m, n])], "summed")
    g.output(y)
    g.output(g.node("reduce_max", [y], "largest", axes=[-1]))
    return with_grid_beside(g)


def gated(name, dtype, m, n, k, norm=False):
    """silu(x w1) * (x w2), where asked for behind an rms_norm."""
    g = Graph(name, dtype)
    x = g.node("relu", [g.input("x", [m, k])], "x.relu")
    if norm:
        x = g.node("rms_norm", [x, g.weight("gamma", [k], 0.8, 1.2)], "normed", eps=1e-5)
    gate, up = (g.linear(x, part, k, n, bias=False) for part in ("gate", "up"))
    g.output(g.node("mul", [g.node("silu", [gate], "silu"), up], "y"))
    return with_grid_beside(g)


def gated_side_by_side(name, dtype, m, n, k, count):
    """`count` gated pairs with biases in one wave, of so few depths that a tile is over as soon as its copies are there."""
    g = Graph(name, dtype)
    for i in range(count):
        operands = [g.input(f"x{i}", [m, k]), *(g.scaled(f"{part}{i}", [n, k], k**-0.5) for part in ("gate", "up"))]
        biases = [g.scaled(f"{part}.bias{i}", [n], 0.1) for part in ("gate", "up")]
        gate, up = (g.node("add", [g.node("matmul", [operands[0], weight], f"{weight}.product", trans_b=True), bias], f"{weight}.sum")
                    for weight, bias in zip(operands[1:], biases))
        g.output(g.node("mul", [g.node("silu", [gate], f"silu{i}"), up], f"y{i}"))
    return with_grid_beside(g)


def normed_product(name, dtype, m, n, k):
    g = Graph(name, dtype)
    x = g.node("rms_norm", [g.input("x", [m, k]), g.weight("gamma", [k], 0.8, 1.2)], "normed", eps=1e-5)
    g.output(g.node("add", [g.linear(x, "product", k, n, bias=False), g.input("residual", [m, n])], "y"))
    return with_grid_beside(g)


def norm(name, dtype, op, rows, wide):
    g = Graph(name, dtype)
    x = g.node("relu", [g.input("x", [rows, wide])], "x.relu")
    g.output(g.node(op, [x, g.weight("gamma", [wide], 0.8, 1.2)], "y", eps=1e-5))
    return with_grid_beside(g)


def packed_product(name, dtype, scheme, m, n, k):
    """x times weights in blocks."""
    g = Graph(name, dtype)
    x = g.node("relu", [g.input("x", [m, k])], "x.relu")
    g.output(g.node("dequant_matmul", [x, g.input("w", [n, k], scheme)], "y", scheme=scheme))
    return with_grid_beside(g)


def convolution(name, dtype, size, wide_in, wide_out, kernel=3, stride=1, images=1, residual=False, groups=1):
    g = Graph(name, dtype)
    x = g.node("relu", [g.input("x", [images, wide_in, *size])], "x.relu")
    y = g.node("silu", [g.conv(x, "conv", wide_in, wide_out, kernel, stride=stride, groups=groups, dims=len(size))], "silu")
    if residual:
        y = g.node("add", [y, g.input("residual", [images, wide_out, *(s // stride for s in size)])], "summed")
    g.output(y)
    return with_grid_beside(g)


def attention(name, dtype, queries, keys, heads, head, batch=1, kv_heads=None, causal=False):
    g = Graph(name, dtype)
    kv_heads = kv_heads or heads
    q = g.node("mul", [g.input("q", [batch, queries, heads, head]), g.input("scale", [1])], "q.scaled")
    k, v = (g.input(part, [batch, keys, kv_heads, head]) for part in "kv")
    g.output(g.node("attention", [q, k, v], "y", num_heads=heads, num_kv_heads=kv_heads, head_dim=head, causal=causal))
    return with_grid_beside(g)


def recurrent(name, dtype, op, gates, sequences, steps, hidden, direction="forward"):
    g = Graph(name, dtype)
    directions = 2 if direction == "bidirectional" else 1
    x = g.node("relu", [g.input("x", [sequences, steps, hidden])], "x.relu")
    weights = [g.scaled(part, [directions * gates * hidden * hidden], hidden**-0.5) for part in ("w_ih", "w_hh")]
    y = g.node(op, [x, *weights], "y", hidden_size=hidden, direction=direction)
    g.output(y)
    g.output(g.node("reduce_max", [y], "largest", axes=[-1]))
    return with_grid_beside(g)


def recurrent_side_by_side(name, dtype, op, gates, sequences, steps, hidden):
    """Two layers that do not wait for each other, each of which needs many multiprocessors at once."""
    g = Graph(name, dtype)
    for i in range(2):
        x = g.node("relu", [g.input(f"x{i}", [sequences, steps, hidden])], f"x.relu{i}")
        weights = [g.scaled(f"{part}{i}", [gates * hidden * hidden], hidden**-0.5) for part in ("w_ih", "w_hh")]
        g.output(g.node(op, [x, *weights], f"y{i}", hidden_size=hidden))
    return with_grid_beside(g)


def delta_rule(name, dtype, sequences, steps, heads, keys, columns):
    g = Graph(name, dtype)
    q = g.node("relu", [g.input("q", [sequences, steps, heads, keys])], "q.relu")
    k = g.node("l2_norm", [g.input("k", [sequences, steps, heads, keys])], "k.norm")
    v = g.input("v", [sequences, steps, heads, columns])
    gate = g.node("neg", [g.node("softplus", [g.input("g", [sequences, steps, heads])], "g.softplus")], "g.neg")
    beta = g.node("sigmoid", [g.input("beta", [sequences, steps, heads])], "beta.sigmoid")
    y = g.node("gated_deltanet", [q, k, v, gate, beta], "y", num_heads=heads)
    g.output(y)
    g.output(g.node("reduce_max", [y], "largest", axes=[-1]))
    return with_grid_beside(g)


def case(builder, name, *arguments, kernel, clusters=False, precision="f32", define="", **options):
    return Case(name, lambda: builder(name, *arguments, **options), kernel, clusters, precision, define)


def mma_cases():
    """matmul_mma: tiles of 16 to 128 lines and 32 to 128 columns; k of 2 to 8 workgroups."""
    mma, cases = "matmul_mma", []
    # m, n around tiles and primes; k, and whether it is shared out over clusters.
    for m, n, k, parts in [(154, 640, 768, {}), (77, 320, 2056, {"bias": True}), (63, 33, 4096, {"residual": True}),
                           (65, 31, 4104, {"bias": True, "activation": "gelu"}), (17, 127, 2048, {}), (15, 129, 8192, {"bias": True}),
                           (127, 97, 1544, {"residual": True}), (129, 95, 3080, {}), (33, 65, 2056, {"bias": True, "residual": True}),
                           (31, 63, 1032, {"activation": "silu"}), (191, 257, 2056, {}), (113, 191, 2040, {"residual": True})]:
        for dtype in ("f16", "bf16"):
            cases.append(case(product, f"mma-{dtype}-{m}x{n}x{k}", dtype, m, n, k, kernel=mma, clusters=True, **parts))
    for m, n, k, parts in [(154, 640, 768, {}), (77, 33, 1028, {"bias": True}), (31, 129, 2052, {"residual": True}),
                           (65, 95, 516, {"activation": "gelu"}), (127, 127, 1020, {})]:
        for precision in ("f32", "tf32"):
            cases.append(case(product, f"mma-{precision}-{m}x{n}x{k}", "f32", m, n, k, kernel=mma, clusters=True,
                              precision=precision, **parts))
    # Panels along the lines, and a product per batch entry.
    cases.append(case(product, "mma-f16-by-line-40x136x1024", "f16", 40, 136, 1024, kernel=mma, clusters=True, trans_b=False))
    cases.append(case(product, "mma-f16-batches-3x47x41x4096", "f16", 47, 41, 4096, kernel=mma, clusters=True, batch=(3,)))
    # Without clusters: copies and early starts alone.
    cases.append(case(product, "mma-f16-1023x33x128", "f16", 1023, 33, 128, kernel=mma))
    cases.append(case(product, "mma-f32-1023x65x64", "f32", 1023, 65, 64, kernel=mma))
    cases.append(case(product, "mma-f32-1027x520x264", "f32", 1027, 520, 264, kernel=mma))
    # Copies of 8, of 4 and of 2 bytes.
    for k, copied in [(1028, 8), (1030, 4), (1029, 2)]:
        cases.append(case(product, f"mma-f16-63x65x{k}", "f16", 63, 65, k, kernel=mma, define=f"RLX_A_COPY={copied}"))
    return cases


def wgmma_cases():
    """matmul_wgmma: tiles of 128 lines and 64 to 256 columns, in pairs of workgroups; and windows of images."""
    wgmma, cases = "matmul_wgmma", []
    for m, n, k, parts in [(2047, 2056, 520, {"activation": "silu"}), (1025, 2056, 1032, {"bias": True, "activation": "silu"}),
                           (4099, 2056, 520, {"activation": "silu", "residual": True}), (8191, 952, 312, {}),
                           (2045, 3080, 776, {"bias": True, "activation": "silu", "residual": True})]:
        for dtype in ("f16", "bf16"):
            cases.append(case(product, f"wgmma-{dtype}-{m}x{n}x{k}", dtype, m, n, k, kernel=wgmma, clusters=True, **parts))
    for m, n, k in [(1021, 1032, 520), (257, 2056, 264), (193, 4104, 328)]:
        cases.append(case(gated, f"wgmma-gated-{m}x{n}x{k}", "f16", m, n, k, kernel=wgmma, clusters=True))
    for dtype in ("f16", "bf16"):
        for m, n, k in [(200, 136, 104), (386, 264, 72)]:
            cases.append(case(gated_side_by_side, f"wgmma-{dtype}-12-gated-{m}x{n}x{k}", dtype, m, n, k, 12, kernel=wgmma, clusters=True))
    for size, wide_in, wide_out, options in [((65, 63), 256, 264, {"images": 2}), ((57, 57), 64, 72, {"images": 8, "residual": True}),
                                             ((113, 111), 128, 128, {}), ((65, 67), 512, 512, {"images": 2, "stride": 2})]:
        for dtype in ("f16", "bf16"):
            name = f"window-{dtype}-{size[0]}x{size[1]}-{wide_in}-{wide_out}"
            cases.append(case(convolution, name, dtype, size, wide_in, wide_out, kernel=wgmma, clusters=True, define="RLX_WINDOW=1", **options))
    return cases


def stream_cases():
    """matvec_stream: one to eight vectors, rings of bulk copies."""
    stream, cases = "matvec_stream", []
    for m, n, k in [(1, 1023, 2048), (1, 4099, 1032), (2, 320, 1280), (3, 513, 4096), (7, 1025, 1024), (8, 1027, 1032)]:
        for dtype in ("f16", "bf16"):
            cases.append(case(product, f"stream-{dtype}-{m}x{n}x{k}", dtype, m, n, k, kernel=stream, bias=True))
    cases.append(case(gated, "stream-gated-1x2731x1024", "f16", 1, 2731, 1024, kernel=stream))
    cases.append(case(gated, "stream-norm-gated-1x1367x2048", "bf16", 1, 1367, 2048, kernel=stream, norm=True))
    cases.append(case(normed_product, "stream-norm-1x1021x2048", "f16", 1, 1021, 2048, kernel=stream))
    return cases


def packed_cases():
    cases = []
    for scheme in ("q4_0", "q4_k", "q6_k", "q8_0"):
        for m, n, k in [(65, 127, 1024), (129, 33, 512), (255, 257, 768), (3, 1027, 2304), (8, 127, 4096)]:
            cases.append(case(packed_product, f"packed-{scheme}-{m}x{n}x{k}", "f16", scheme, m, n, k, kernel="dequant_mma"))
        for n, k in [(1027, 2304), (127, 4096), (4097, 512)]:
            cases.append(case(packed_product, f"packed-{scheme}-1x{n}x{k}", "f16", scheme, 1, n, k, kernel="dequant_mma"))
        cases.append(case(packed_product, f"packed-{scheme}-f32-3x1027x2304", "f32", scheme, 3, 1027, 2304, kernel="dequant_matvec"))
    return cases


def conv_cases():
    """conv_mma: rings with and without warpgroups, k shared out over clusters, volumes, and patches of few channels; windows by the
    copy engine."""
    conv, cases = "conv_mma", []
    for size, wide_in, wide_out, images in [((7, 7), 512, 512, 1), ((7, 9), 512, 72, 1), ((13, 11), 256, 136, 1),
                                            ((5, 3), 1024, 40, 1), ((9, 17), 320, 320, 1)]:
        for dtype in ("f16", "bf16"):
            name = f"conv-{dtype}-{size[0]}x{size[1]}-{wide_in}-{wide_out}"
            cases.append(case(convolution, name, dtype, size, wide_in, wide_out, kernel=conv, clusters=True, images=images))
    cases.append(case(convolution, "conv-tf32-7x9-512-72", "f32", (7, 9), 512, 72, kernel=conv, clusters=True, precision="tf32"))
    cases.append(case(convolution, "conv-f32-7x9-512-72", "f32", (7, 9), 512, 72, kernel=conv, clusters=True))
    cases.append(case(convolution, "conv-f32-61x67-64-72", "f32", (61, 67), 64, 72, kernel=conv, images=3))
    cases.append(case(convolution, "conv-f32-few-223x225-3-64", "f32", (223, 225), 3, 64, kernel=conv, stride=2))
    cases.append(case(convolution, "conv-f16-residual-7x7-512-128", "f16", (7, 7), 512, 128, kernel=conv, clusters=True, residual=True))
    cases.append(case(convolution, "conv-f16-61x67-64-72", "f16", (61, 67), 64, 72, kernel="matmul_wgmma", images=3,
                      define="RLX_WINDOW=1"))
    for groups in (4, 32):
        cases.append(case(convolution, f"conv-f16-31x33-128-128-groups-{groups}", "f16", (31, 33), 128, 128, kernel=conv, images=3,
                          groups=groups, define=f"RLX_BUNDLED={groups // 2}"))
    for dtype in ("f16", "f32"):
        cases.append(case(convolution, f"conv-{dtype}-3x5x7-256-72", dtype, (3, 5, 7), 256, 72, kernel=conv, clusters=True,
                          define="RLX_VOLUMES=1"))
    cases.append(case(convolution, "conv-f16-9x31x33-64-136", "f16", (9, 31, 33), 64, 136, kernel=conv, images=2, define="RLX_VOLUMES=1"))
    cases.append(case(convolution, "conv-f16-63x33-136-264", "f16", (63, 33), 136, 264, kernel="matmul_wgmma", images=2,
                      define="RLX_WINDOW=1"))
    cases.append(case(convolution, "conv-f16-few-223x225-3-64", "f16", (223, 225), 3, 64, kernel=conv, stride=2))
    return cases


def attention_cases():
    """attention_mma: keys shared out over warps and clusters, in registers and through stages."""
    mma, cases = "attention_mma", []
    for queries, keys, heads, head in [(1, 4097, 8, 64), (7, 1023, 8, 40), (16, 2049, 4, 128), (17, 1021, 8, 64), (3, 8191, 2, 80)]:
        for dtype in ("f16", "bf16"):
            cases.append(case(attention, f"attention-{dtype}-{queries}x{keys}-{heads}x{head}", dtype, queries, keys, heads, head,
                              kernel=mma, clusters=True))
    cases.append(case(attention, "attention-f32-5x2047-4x64", "f32", 5, 2047, 4, 64, kernel=mma, clusters=True))
    cases.append(case(attention, "attention-f16-grouped-1x4099-32x64", "f16", 1, 4099, 32, 64, kernel=mma, clusters=True, kv_heads=8))
    cases.append(case(attention, "attention-f16-1023x77-8x40", "f16", 1023, 77, 8, 40, kernel=mma, batch=2))
    cases.append(case(attention, "attention-f16-causal-1025x1025-8x64", "f16", 1025, 1025, 8, 64, kernel=mma, causal=True))
    for dtype in ("f16", "f32"):
        cases.append(case(attention, f"decode-{dtype}-1x4099-8x18", dtype, 1, 4099, 8, 18, kernel="attention_decode"))
    return cases


def recurrent_cases():
    """recurrence_cluster: weights in registers and in shared memory, states that workgroups send each other; recurrence_together: the same
    among workgroups that all run at once."""
    cluster, cases = "recurrence_cluster", []
    together = "recurrence_together"
    for op, gates, sequences, steps, hidden, direction in [("lstm", 4, 33, 65, 1024, "forward"), ("lstm", 4, 1, 67, 1000, "reverse"),
                                                           ("gru", 3, 19, 63, 1016, "bidirectional"), ("rnn", 1, 150, 33, 1536, "forward")]:
        for dtype in ("f16", "bf16"):
            cases.append(case(recurrent, f"{op}-{dtype}-{sequences}x{steps}x{hidden}-{direction}", dtype, op, gates, sequences, steps, hidden,
                              direction, kernel=together))
    cases.append(case(recurrent_side_by_side, "lstm-f16-pair-9x65x1024", "f16", "lstm", 4, 9, 65, 1024, kernel=together))
    for op, gates, sequences, steps, hidden, direction in [("lstm", 4, 1, 67, 512, "forward"), ("lstm", 4, 3, 65, 504, "reverse"),
                                                           ("lstm", 4, 7, 129, 248, "bidirectional"), ("gru", 3, 2, 63, 384, "forward"),
                                                           ("rnn", 1, 5, 127, 264, "bidirectional")]:
        for dtype in ("f16", "f32"):
            kernel = together if op == "lstm" and dtype == "f16" else cluster
            cases.append(case(recurrent, f"{op}-{dtype}-{sequences}x{steps}x{hidden}-{direction}", dtype, op, gates, sequences, steps, hidden,
                              direction, kernel=kernel, clusters=kernel == cluster))
    return cases


def state_cases():
    """linear_recurrence_mma: chunks of 64 steps, one after another, whole and cut; the last with several groups of columns to a workgroup."""
    return [case(delta_rule, f"delta-{dtype}-{sequences}x{steps}-{heads}x{keys}x{columns}", dtype, sequences, steps, heads, keys, columns,
                 kernel="linear_recurrence_mma")
            for dtype in ("f16", "bf16")
            for sequences, steps, heads, keys, columns in [(1, 1025, 8, 128, 128), (2, 511, 5, 64, 96), (3, 193, 4, 112, 48), (9, 129, 7, 64, 80)]]


def norm_cases():
    return [case(norm, f"{op}-{dtype}-{rows}x{wide}", dtype, op, rows, wide, kernel="norm")
            for op in ("layer_norm", "rms_norm") for dtype in ("f16", "f32") for rows, wide in [(1023, 1021), (129, 4099)]]


def chain(name, dtype, rows, cols):
    """Functions that cost more than one region inlines."""
    g = Graph(name, dtype)
    y = g.input("x", [rows, cols])
    for i, function in enumerate(["sin", "erf", "tan", "asinh"]):
        y = g.node(function, [y], f"y.{i}")
    g.output(y)
    g.output(g.node("reduce_max", [y], "largest", axes=[-1]))
    return with_grid_beside(g)


def call_cases():
    sizes = [("f32", 1021, 523), ("f32", 7, 65537), ("f16", 257, 1031), ("bf16", 64, 4096)]
    return [Case(f"calls_{dtype}_{rows}x{cols}", lambda d=dtype, r=rows, c=cols: chain(f"calls_{d}_{r}x{c}", d, r, c), "region",
                 define="RLX_CALLS=1") for dtype, rows, cols in sizes]


def all_cases():
    return [*mma_cases(), *wgmma_cases(), *stream_cases(), *packed_cases(), *conv_cases(), *attention_cases(), *recurrent_cases(),
            *state_cases(), *norm_cases(), *call_cases()]
