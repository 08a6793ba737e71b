# SPDX-License-Identifier: Apache-2.0
"""Networks of the soak: many kernels of one plan on the device at once."""
from graph import Graph

CONTEXT = (77, 768)  # tokens and width of the text that cross-attention reads


def attention(g, x, name, context, wide, heads, wide_context):
    """Projections without bias, attention, output with bias."""
    q = g.linear(x, f"{name}.q", wide, wide, bias=False)
    k, v = (g.linear(context, f"{name}.{part}", wide_context, wide, bias=False) for part in "kv")
    attended = g.node("attention", [q, k, v], f"{name}.attended", num_heads=heads, head_dim=wide // heads, q_layout="bsd",
                      kv_layout="bsd")
    return g.linear(attended, f"{name}.o", wide, wide)


def cross_attention(name="cross", batch=2, pixels=4096, wide=320, heads=8):
    """The part of the block below in which the race of 2026-11-22 lay: the products of k and v join to one of 154 lines."""
    g = Graph(name, "f16")
    x, context = g.input("x", [batch, pixels, wide]), g.input("context", [batch, *CONTEXT])
    y = attention(g, g.norm("layer_norm", x, "norm", wide), "cross", context, wide, heads, CONTEXT[1])
    g.output(g.node("add", [y, x], "y"))
    return g


def residual_part(g, x, wide, time_wide, batch):
    """Two convolutions, the time embedding added between them."""
    y = g.conv(g.node("silu", [g.norm("group_norm", x, "norm1", wide, num_groups=32)], "norm1.silu"), "conv1", wide, wide, 3)
    time = g.linear(g.node("silu", [g.input("time", [batch, time_wide])], "time.silu"), "time.projection", time_wide, wide)
    y = g.node("add", [y, g.node("reshape", [time], "time.image", shape=[batch, wide, 1, 1])], "timed")
    y = g.conv(g.node("silu", [g.norm("group_norm", y, "norm2", wide, num_groups=32)], "norm2.silu"), "conv2", wide, wide, 3)
    return g.node("add", [y, x], "residual")


def feed_forward(g, x, name, wide):
    """GEGLU: half of the widened values gate the other half."""
    both = g.linear(x, f"{name}.up", wide, 8 * wide)
    value, gate = (g.node("narrow", [both], f"{name}.{part}", axis=-1, start=start, len=4 * wide)
                   for part, start in (("value", 0), ("gate", 4 * wide)))
    gated = g.node("mul", [value, g.node("gelu", [gate], f"{name}.gelu")], f"{name}.gated")
    return g.linear(gated, f"{name}.down", 4 * wide, wide)


def transformer_part(g, x, batch, size, wide, heads):
    rows = g.conv(g.norm("group_norm", x, "norm3", wide, num_groups=32), "projection_in", wide, wide, 1)
    rows = g.node("transpose", [g.node("reshape", [rows], "pixels", shape=[batch, wide, size * size])], "rows", perm=[0, 2, 1])
    normed = g.norm("layer_norm", rows, "norm4", wide)
    rows = g.node("add", [attention(g, normed, "self", normed, wide, heads, wide), rows], "self.sum")
    context = g.input("context", [batch, *CONTEXT])
    attended = attention(g, g.norm("layer_norm", rows, "norm5", wide), "cross", context, wide, heads, CONTEXT[1])
    rows = g.node("add", [attended, rows], "cross.sum")
    rows = g.node("add", [feed_forward(g, g.norm("layer_norm", rows, "norm6", wide), "feed", wide), rows], "feed.sum")
    image = g.node("reshape", [g.node("transpose", [rows], "columns", perm=[0, 2, 1])], "image", shape=[batch, wide, size, size])
    return g.node("add", [g.conv(image, "projection_out", wide, wide, 1), x], "y")


def unet_block(name="block", batch=2, size=64, wide=320, heads=8):
    """The first block of a diffusion U-Net: residual part and transformer part."""
    g = Graph(name, "f16")
    x = residual_part(g, g.input("x", [batch, wide, size, size]), wide, 4 * wide, batch)
    g.output(transformer_part(g, x, batch, size, wide, heads))
    return g


def encoder(name="encoder", dtype="f16", batch=3, tokens=77, wide=384, heads=12, layers=2):
    """Post-norm layers as of BERT, with odd numbers of tokens."""
    g = Graph(name, dtype)
    x = g.input("x", [batch, tokens, wide])
    for i in range(layers):
        attended = attention(g, x, f"{i}.attention", x, wide, heads, wide)
        x = g.norm("layer_norm", g.node("add", [attended, x], f"{i}.attention.sum"), f"{i}.norm1", wide)
        up = g.node("gelu", [g.linear(x, f"{i}.up", wide, 4 * wide)], f"{i}.gelu")
        down = g.linear(up, f"{i}.down", 4 * wide, wide)
        x = g.norm("layer_norm", g.node("add", [down, x], f"{i}.sum"), f"{i}.norm2", wide)
    g.output(x)
    return g


def residual_network(name="resnet", dtype="f16", batch=1, size=97, wide=64, classes=997):
    """Stem and three stages of bottlenecks as of ResNet-50, over images of an odd size."""
    g = Graph(name, dtype)
    x = g.node("relu", [g.conv(g.input("image", [batch, 3, size, size]), "stem", 3, wide, 7, stride=2)], "stem.relu")
    channels = wide
    for stage in range(3):
        inner = wide << stage
        y = g.node("relu", [g.conv(x, f"{stage}.reduce", channels, inner, 1)], f"{stage}.reduce.relu")
        y = g.node("relu", [g.conv(y, f"{stage}.spatial", inner, inner, 3, stride=2)], f"{stage}.spatial.relu")
        y = g.conv(y, f"{stage}.expand", inner, 4 * inner, 1)
        x = g.node("relu", [g.node("add", [y, g.conv(x, f"{stage}.shortcut", channels, 4 * inner, 1, stride=2)], f"{stage}.sum")],
                   f"{stage}.relu")
        channels = 4 * inner
    pooled = g.node("reduce_mean", [x], "pooled", axes=[2, 3])
    g.output(g.linear(pooled, "classes", channels, classes))
    return g


def decoder(name, dtype="bf16", tokens=1, past=1000, wide=1024, heads=16, kv_heads=4, head=64, ffn=2731, layers=2, rows=1100):
    """Layers as of Llama. With `past` tokens it holds them in states and appends its own; without, it is causal."""
    g = Graph(name, dtype)
    x = g.input("x", [1, tokens, wide])
    for part in ("cos", "sin"):
        g.weight(part, [rows, head // 2], -1.0, 1.0, dtype="f32")
    positions = [g.input("position", [], "i32")] if past else []
    if past:
        g.node("add", ["position", g.input("held", [], "i32")], "rows_held")
    for i in range(layers):
        x = decoder_layer(g, x, f"{i}", tokens, past, wide, heads, kv_heads, head, ffn, rows, positions)
    g.output(x)
    return g


def decoder_layer(g, x, layer, tokens, past, wide, heads, kv_heads, head, ffn, rows, positions):
    def rms_norm(value, name):
        return g.node("rms_norm", [value, g.weight(f"{name}.weight", [wide], 0.8, 1.2)], name, eps=1e-5)

    def heads_of(value, part, count):
        flat = g.linear(value, f"{layer}.{part}", wide, count * head, bias=False)
        return g.node("reshape", [flat], f"{layer}.{part}.heads", shape=[1, tokens, count, head])

    def turned(value):
        return g.node("rope", [value, "cos", "sin", *positions], f"{value}.turned", head_dim=head)

    def appended(value, cache):
        g.states.append({"name": cache, "dtype": g.dtype, "shape": [1, kv_heads, rows, head], "init": "ones"})
        lines = g.node("transpose", [value], f"{value}.lines", perm=[0, 2, 1, 3])
        return g.node("state_write", [cache, g.node("kv_append", [cache, lines, *positions], f"{cache}.grown", axis=2)], f"{cache}.new")

    normed = rms_norm(x, f"{layer}.norm1")
    q, k, v = turned(heads_of(normed, "q", heads)), turned(heads_of(normed, "k", kv_heads)), heads_of(normed, "v", kv_heads)
    operands, layout = [q, k, v], "bshd"
    if past:
        operands, layout = [q, appended(k, f"{layer}.k_cache"), appended(v, f"{layer}.v_cache"), None, None, "rows_held"], "bhsd"
    attended = g.node("attention", operands, f"{layer}.attention", num_heads=heads, num_kv_heads=kv_heads, head_dim=head,
                      q_layout="bshd", kv_layout=layout, causal=not past)
    flat = g.node("reshape", [attended], f"{layer}.attended", shape=[1, tokens, heads * head])
    x = g.node("add", [g.linear(flat, f"{layer}.o", heads * head, wide, bias=False), x], f"{layer}.attention.sum")
    normed = rms_norm(x, f"{layer}.norm2")
    gate, up = (g.linear(normed, f"{layer}.{part}", wide, ffn, bias=False) for part in ("gate", "up"))
    gated = g.node("mul", [g.node("silu", [gate], f"{layer}.silu"), up], f"{layer}.gated")
    return g.node("add", [g.linear(gated, f"{layer}.down", ffn, wide, bias=False), x], f"{layer}.sum")


def loops(name="loops", dtype="f16", rows=128, wide=1024, trips=5):
    """A loop that its count and what it carries end, whose body has products and norms; behind it a branch. What the body's grids
    read must have been written by the trip before, and none may begin before it ends."""
    g, body, then, other = (Graph(part, dtype) for part in (name, "body", "then", "else"))
    x = g.input("x", [rows, wide])
    normed = body.norm("layer_norm", "carried", "norm", wide, axis=-1)
    hidden = body.node("gelu", [body.linear(normed, "up", wide, 2 * wide)], "hidden")
    body.node("add", [body.linear(hidden, "down", 2 * wide, wide), "carried"], "next")
    body.node("reduce_max", ["next"], "largest", axes=[0, 1])
    body.node("lt", ["limit", "largest"], "on")
    g.input("limit", [])
    y, count = g.control("loop", [g.input("count", [], "i64"), None, x], ["y", "trips"],
                         {"body": (["trip", "going", "carried"], body, ["on", "next"])}, max_iterations=trips)
    then.node("softmax", [y], "soft", axis=-1)
    other.linear(y, "other", wide, wide)
    z, = g.control("if", [g.input("taken", [], "bool")], ["z"], {"then": ([], then, ["soft"]), "else": ([], other, ["other"])})
    for value in (y, z):
        g.output(value)
    return g


def small_loops(name="small-loops", dtype="f32", wide=64, trips=100):
    """Loops of small steps, whose trips are decided of in groups: one that its count ends, and one that computes trips ahead."""
    g, body, on, step = (Graph(part, dtype) for part in (name, "body", "cond", "step"))
    x = g.input("x", [1, wide])
    count = g.node("mul", [g.input("count", [], "i64"), g.node("fill", [], "nine", shape=[], value=9, dtype="i64")], "counted")
    sums = body.node("cumsum", [body.linear("carried", "counting", wide, wide)], "sums", axis=1)
    body.node("softmax", [sums], "next", axis=-1)
    y, = g.control("loop", [count, None, x], ["y"], {"body": (["trip", "going", "carried"], body, ["going", "next"])}, max_iterations=trips)
    limit = g.node("affine", [g.node("abs", [g.input("limit", [])], "positive")], "limited", mul=60.0)
    begin = g.node("fill", [], "begin", shape=[], value=0, dtype=dtype)
    on.node("lt", ["at", limit], "on")
    step.node("affine", ["now"], "later", add=1.0)
    step.node("cumsum", [step.node("tanh", [step.linear("held", "running", wide, wide)], "bent")], "more", axis=1)
    _, z = g.control("while", [begin, y], ["reached", "z"],
                     {"cond": (["at", "seen"], on, ["on"]), "body": (["now", "held"], step, ["later", "more"])}, max_iterations=10 * trips)
    for value in (y, "reached", z):
        g.output(value)
    return g


def copies(name="copy", mebibytes=64, rounds=4):
    """What runs beside the others: grids bound by memory, each over `mebibytes` twice, and a small output."""
    g = Graph(name, "f32")
    x = g.weight("rows", [mebibytes * 256, 1024], -1.0, 1.0)
    scale = g.input("scale", [1])
    for i in range(rounds):
        x = g.node("rms_norm", [g.node("mul", [x, scale], f"{i}.scaled")], f"{i}.normed", eps=1e-5)
    g.output(g.node("reduce_sum", [x], "sums", axes=[1]))
    return g


def all_networks():
    return [cross_attention(), unet_block(), encoder(), encoder("encoder-f32", "f32", batch=1, tokens=113), residual_network(),
            residual_network("resnet-b3", "bf16", batch=3, size=65), decoder("decode"), decoder("decode-f16", "f16", past=17, rows=40),
            decoder("prefill", tokens=191, past=0), unet_block("block-small", batch=1, size=17, wide=160, heads=4), loops(), small_loops(),
            copies()]


def small_networks():
    """The same forms in sizes for a CPU."""
    return [cross_attention("cross", batch=1, pixels=33, wide=64, heads=2), unet_block("block", batch=1, size=7, wide=64, heads=2),
            decoder("decode", "f32", wide=64, heads=4, kv_heads=2, head=16, ffn=86, rows=33, past=20, layers=1),
            loops(dtype="f32", rows=5, wide=64), small_loops(), copies("copy", mebibytes=1, rounds=2)]
