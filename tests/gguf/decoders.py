# SPDX-License-Identifier: Apache-2.0
"""A small model for each architecture, and its logits in f64: all tokens at once, no cache."""
import math

import numpy as np

from gguf_file import F32, encode

WIDTH, HIDDEN, VOCABULARY, CONTEXT, CHUNK = 64, 96, 80, 48, 16

# What an architecture does, by the words of its papers. Sizes are of the small model.
PLAIN = dict(layers=2, heads=4, kv_heads=2, head=16, pairs="halves", act="silu", norms="before", qk_norm=None, tied=False, bias=False,
             packed=False, experts=0, used=0, window=0, period=1, base=10000.0, local_base=None, attention_cap=0.0, logit_cap=0.0,
             embedding_scale=1.0, residual_scale=1.0, logit_divisor=1.0, attention_scale=None, rope_free=0, factors=None, stretch=1.0,
             yarn=None, magnitude=1.0, temperature=0.0, original=CONTEXT, sinks=False, local_stretch=False, mix=None, keys={})
MODELS = {
    "llama": dict(arch="llama", pairs="neighbours", factors="rope_freqs", bias=True, base=500000.0),
    "mixtral": dict(arch="llama", pairs="neighbours", tied=True, experts=4, used=2),
    "qwen2": dict(arch="qwen2", bias=True, tied=True, base=1e6),
    "qwen3": dict(arch="qwen3", head=32, qk_norm="heads"),
    "qwen3moe": dict(arch="qwen3moe", head=32, qk_norm="heads", experts=4, used=3),
    "gemma2": dict(arch="gemma2", act="gelu", norms="both", tied=True, window=5, period=2, attention_cap=50.0, logit_cap=30.0,
                   embedding_scale=math.sqrt(WIDTH)),
    "gemma3": dict(arch="gemma3", act="gelu", norms="both", tied=True, window=5, period=2, base=1e6, local_base=10000.0, kv_heads=1,
                   qk_norm="heads", stretch=8.0, embedding_scale=math.sqrt(WIDTH),
                   keys={"rope.scaling.type": "linear", "rope.scaling.factor": F32(8), "attention.sliding_window_pattern": 2}),
    "phi3": dict(arch="phi3", packed=True, factors="rope_factors_long", magnitude=1.19, original=16,
                 keys={"rope.scaling.attn_factor": F32(1.19), "rope.scaling.original_context_length": 16}),
    "smollm3": dict(arch="smollm3", layers=4, pairs="neighbours", rope_free=4, tied=True),
    "mistral3": dict(arch="mistral3", pairs="neighbours", stretch=4.0, yarn=(32.0, 1.0), temperature=0.1, original=8,
                     keys={"rope.scaling.type": "yarn", "rope.scaling.factor": F32(4), "rope.scaling.original_context_length": 8,
                           "rope.scaling.yarn_log_multiplier": F32(1), "attention.temperature_scale": F32(0.1)}),
    "olmo2": dict(arch="olmo2", norms="after", qk_norm="rows"),
    "granite": dict(arch="granite", pairs="neighbours", tied=True, embedding_scale=12.0, residual_scale=0.22, logit_divisor=8.0,
                    attention_scale=0.1, keys={"embedding_scale": F32(12), "residual_scale": F32(0.22), "logit_scale": F32(8),
                                               "attention.scale": F32(0.1)}),
    "gpt-oss": dict(arch="gpt-oss", bias=True, act="clamped", window=5, period=2, experts=4, used=2, sinks=True, local_stretch=True,
                    mix=["mxfp4", "q8_0"], stretch=32.0, yarn=(32.0, 1.0), magnitude=0.1 * math.log(32) + 1, original=16, base=150000.0,
                    keys={"rope.scaling.type": "yarn", "rope.scaling.factor": F32(32), "rope.scaling.original_context_length": 16}),
}
# Of matrices, in turn; one-dimensional tensors are f32.
MIX = ["q8_0", "f16", "q4_0", "f32", "q4_1", "q8_0", "q4_0"]


def model_of(name):
    return {**PLAIN, **MODELS[name]}


def f32(value):
    return float(np.float32(value))


def shapes_of(model):
    """Tensors of the small model by name, shapes outermost first."""
    q, k = model["heads"] * model["head"], model["kv_heads"] * model["head"]
    shapes = {"token_embd.weight": (VOCABULARY, WIDTH), "output_norm.weight": (WIDTH,)}
    if not model["tied"]:
        shapes["output.weight"] = (VOCABULARY, WIDTH)
    if model["factors"]:
        shapes[model["factors"] + ".weight"] = (model["head"] // 2,)
    if model["factors"] == "rope_factors_long":
        shapes["rope_factors_short.weight"] = (model["head"] // 2,)
    for i in range(model["layers"]):
        layer = {}
        if model["norms"] != "after":
            layer.update({"attn_norm.weight": (WIDTH,), "ffn_norm.weight": (WIDTH,)})
        if model["norms"] != "before":
            layer.update({"post_attention_norm.weight": (WIDTH,), "post_ffw_norm.weight": (WIDTH,)})
        if model["packed"]:
            layer["attn_qkv.weight"] = (q + 2 * k, WIDTH)
        else:
            layer.update({"attn_q.weight": (q, WIDTH), "attn_k.weight": (k, WIDTH), "attn_v.weight": (k, WIDTH)})
        if model["bias"]:
            layer.update({"attn_q.bias": (q,), "attn_k.bias": (k,), "attn_v.bias": (k,)})
        if model["sinks"]:
            layer.update({"attn_sinks.weight": (model["heads"],), "attn_output.bias": (WIDTH,), "post_attention_norm.weight": (WIDTH,)})
            del layer["ffn_norm.weight"]
        if model["qk_norm"]:
            rows = model["qk_norm"] == "rows"
            layer.update({"attn_q_norm.weight": (q if rows else model["head"],), "attn_k_norm.weight": (k if rows else model["head"],)})
        layer["attn_output.weight"] = (WIDTH, q)
        if model["experts"]:
            n = model["experts"]
            layer.update({"ffn_gate_inp.weight": (n, WIDTH), "ffn_gate_exps.weight": (n, HIDDEN, WIDTH),
                          "ffn_up_exps.weight": (n, HIDDEN, WIDTH), "ffn_down_exps.weight": (n, WIDTH, HIDDEN)})
            if model["bias"]:
                layer.update({"ffn_gate_inp.bias": (n,), "ffn_gate_exps.bias": (n, HIDDEN), "ffn_up_exps.bias": (n, HIDDEN),
                              "ffn_down_exps.bias": (n, WIDTH)})
        elif model["packed"]:
            layer.update({"ffn_up.weight": (2 * HIDDEN, WIDTH), "ffn_down.weight": (WIDTH, HIDDEN)})
        else:
            layer.update({"ffn_gate.weight": (HIDDEN, WIDTH), "ffn_up.weight": (HIDDEN, WIDTH), "ffn_down.weight": (WIDTH, HIDDEN)})
        shapes.update({f"blk.{i}.{name}": shape for name, shape in layer.items()})
    return shapes


def seeded_tensors(model, seed):
    """Tensors for the file, and the values that they stand for."""
    random = np.random.default_rng(seed)
    tensors, values = {}, {}
    for i, (name, shape) in enumerate(shapes_of(model).items()):
        if name.startswith("rope_"):
            drawn = random.uniform(1, 4, shape)
        elif name.endswith("norm.weight"):
            drawn = random.uniform(0.5, 1.5, shape)
        else:
            drawn = random.normal(0, 1 if name.startswith("token") else 0.15, shape)
        mix = model["mix"] or MIX
        dtype = "f32" if len(shape) == 1 or "gate_inp" in name or name.endswith("bias") else mix[i % len(mix)]
        raw, values[name] = encode(drawn, dtype)
        tensors[name] = (shape, dtype, raw)
    return tensors, values


def keys_of(model):
    arch = model["arch"]
    keys = {"general.architecture": arch, "general.name": f"small {arch}", "general.alignment": 32}
    own = {"context_length": CONTEXT, "embedding_length": WIDTH, "block_count": model["layers"], "feed_forward_length": HIDDEN,
           "attention.head_count": model["heads"], "attention.head_count_kv": model["kv_heads"],
           "attention.layer_norm_rms_epsilon": F32(1e-5), "rope.freq_base": F32(model["base"]),
           "attention.key_length": model["head"], "attention.value_length": model["head"], "rope.dimension_count": model["head"]}
    if model["window"]:
        own["attention.sliding_window"] = model["window"]
    if model["experts"]:
        own.update({"expert_count": model["experts"], "expert_used_count": model["used"]})
    own.update(model["keys"])
    keys.update({f"{arch}.{name}": value for name, value in own.items()})
    return keys


# ---- the model in f64 ----


def rms(x, gamma):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + f32(1e-5)) * gamma


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gated(gate, up, kind):
    if kind == "clamped":
        gate, up = np.minimum(gate, 7), np.clip(up, -7, 7)
        return gate / (1 + np.exp(-1.702 * gate)) * (up + 1)
    return activate(gate, kind) * up


def activate(x, kind):
    if kind == "silu":
        return x / (1 + np.exp(-x))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def angles_of(model, values, positions, local):
    """Angles [tokens, pairs] and what cos and sin are multiplied by."""
    d = model["head"]
    base = model["local_base"] if local and model["local_base"] else model["base"]
    speed = base ** (-np.arange(0, d, 2, dtype=np.float64) / d)
    if model["factors"]:
        speed = speed / values[model["factors"] + ".weight"]
    slow = speed if local and not model["local_stretch"] else speed / model["stretch"]
    if model["yarn"] and (not local or model["local_stretch"]):
        turn = lambda beta: d * math.log(model["original"] / (beta * 2 * math.pi)) / (2 * math.log(base))
        low, high = max(0, math.floor(turn(model["yarn"][0]))), min(d - 1, math.ceil(turn(model["yarn"][1])))
        keep = 1 - np.clip((np.arange(d // 2) - low) / max(0.001, high - low), 0, 1)
        slow = slow * (1 - keep) + speed * keep
    return positions[:, None] * slow[None], f32(model["magnitude"])


def turn(x, angle, size, pairs):
    """x [tokens, heads, d] with its pairs turned."""
    cos, sin = np.cos(angle)[:, None] * size, np.sin(angle)[:, None] * size
    half = x.shape[-1] // 2
    a, b = (x[..., 0::2], x[..., 1::2]) if pairs == "neighbours" else (x[..., :half], x[..., half:])
    turned = a * cos - b * sin, b * cos + a * sin
    return np.stack(turned, axis=-1).reshape(x.shape) if pairs == "neighbours" else np.concatenate(turned, axis=-1)


def attention(model, values, p, i, h):
    tokens, d = len(h), model["head"]
    counts = (model["heads"], model["kv_heads"], model["kv_heads"])
    if model["packed"]:
        rows = np.split(h @ values[p + "attn_qkv.weight"].T, np.cumsum([n * d for n in counts])[:2], axis=1)
    else:
        rows = [h @ values[f"{p}attn_{n}.weight"].T + values.get(f"{p}attn_{n}.bias", 0) for n in "qkv"]
    if model["qk_norm"] == "rows":
        rows[0], rows[1] = rms(rows[0], values[p + "attn_q_norm.weight"]), rms(rows[1], values[p + "attn_k_norm.weight"])
    q, k, v = (r.reshape(tokens, n, d) for r, n in zip(rows, counts))
    if model["qk_norm"] == "heads":
        q, k = rms(q, values[p + "attn_q_norm.weight"]), rms(k, values[p + "attn_k_norm.weight"])
    local = model["window"] > 0 and (model["period"] == 0 or i % model["period"] < model["period"] - 1)
    positions = np.arange(tokens)
    if not model["rope_free"] or (i + 1) % model["rope_free"]:
        angle, size = angles_of(model, values, positions, local)
        q, k = turn(q, angle, size, model["pairs"]), turn(k, angle, size, model["pairs"])
    if model["temperature"]:
        q = q * (1 + f32(model["temperature"]) * np.log(positions // model["original"] + 1))[:, None, None]
    k, v = (np.repeat(x, model["heads"] // model["kv_heads"], axis=1) for x in (k, v))
    scale = f32(model["attention_scale"]) if model["attention_scale"] else 1 / math.sqrt(d)
    scores = np.einsum("qhd,khd->hqk", q, k) * scale
    if model["attention_cap"]:
        scores = model["attention_cap"] * np.tanh(scores / model["attention_cap"])
    behind = positions[:, None] - positions[None]
    hidden = (behind < 0) | (local & (behind >= model["window"]))
    scores = np.where(hidden[None], -np.inf, scores)
    if model["sinks"]:
        sinks = np.broadcast_to(values[p + "attn_sinks.weight"][:, None, None], (model["heads"], tokens, 1))
        shares = softmax(np.concatenate([scores, sinks], axis=-1))[..., :-1]
    else:
        shares = softmax(scores)
    mixed = np.einsum("hqk,khd->qhd", shares, v)
    return mixed.reshape(tokens, -1) @ values[p + "attn_output.weight"].T + values.get(p + "attn_output.bias", 0)


def feed_forward(model, values, p, h):
    if model["experts"]:
        shares = softmax(h @ values[p + "ffn_gate_inp.weight"].T + values.get(p + "ffn_gate_inp.bias", 0))
        bias = lambda part, e: values[f"{p}ffn_{part}_exps.bias"][e] if model["bias"] else 0
        out = np.zeros_like(h)
        for t, row in enumerate(shares):
            best = np.argsort(-row, kind="stable")[:model["used"]]
            for e in best:
                gate, up = (values[f"{p}ffn_{part}_exps.weight"][e] @ h[t] + bias(part, e) for part in ("gate", "up"))
                y = values[p + "ffn_down_exps.weight"][e] @ gated(gate, up, model["act"]) + bias("down", e)
                out[t] += row[e] / row[best].sum() * y
        return out
    if model["packed"]:
        gate, up = np.split(h @ values[p + "ffn_up.weight"].T, 2, axis=1)
    else:
        gate, up = h @ values[p + "ffn_gate.weight"].T, h @ values[p + "ffn_up.weight"].T
    return gated(gate, up, model["act"]) @ values[p + "ffn_down.weight"].T


def logits_of(model, values, ids):
    """f64 [tokens, vocabulary]."""
    x = values["token_embd.weight"][ids] * f32(model["embedding_scale"])
    for i in range(model["layers"]):
        p = f"blk.{i}."
        for norm, post, block in (("attn_norm", "post_attention_norm", lambda h: attention(model, values, p, i, h)),
                                  ("post_attention_norm" if model["sinks"] else "ffn_norm", "post_ffw_norm", lambda h: feed_forward(model, values, p, h))):
            y = block(x if model["norms"] == "after" else rms(x, values[f"{p}{norm}.weight"]))
            if model["norms"] != "before":
                y = rms(y, values[f"{p}{post}.weight"])
            x = x + y * f32(model["residual_scale"])
    head = values["token_embd.weight" if model["tied"] else "output.weight"]
    logits = rms(x, values["output_norm.weight"]) @ head.T / f32(model["logit_divisor"])
    cap = model["logit_cap"]
    return cap * np.tanh(logits / cap) if cap else logits
