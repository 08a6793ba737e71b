# SPDX-License-Identifier: Apache-2.0
"""Checkpoint folders by hand: config.json and safetensors of the small models of decoders.py, and the values that they stand for."""
import json
import math
import struct

import numpy as np

import decoders

SCALING = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}
GELU = "gelu_pytorch_tanh"
LONG_FACTORS = [1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
# Models as decoders.py describes them, and what config.json says besides sizes.
MODELS = {
    "llama": (dict(arch="llama", factors="rope_freqs", base=500000.0), {"rope_theta": 500000.0, "rope_scaling": SCALING}),
    "qwen2": (dict(arch="qwen2", bias=True, tied=True, base=1e6, stretch=4.0, yarn=(32.0, 1.0), original=8,
                   magnitude=1 + 0.1 * math.log(4)), {"rope_theta": 1e6, "tie_word_embeddings": True, "rope_scaling": YARN}),
    "qwen3": (dict(arch="qwen3", head=32, qk_norm="heads", base=1e6),
              {"head_dim": 32, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}, "attention_bias": False}),
    "mixtral": (dict(decoders.MODELS["mixtral"], pairs="halves", window=5, period=0),
                {"model_type": "mixtral", "tie_word_embeddings": True, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5}),
    "qwen3_moe": (decoders.MODELS["qwen3moe"],
                  {"model_type": "qwen3_moe", "head_dim": 32, "num_experts": 4, "num_experts_per_tok": 3, "norm_topk_prob": True,
                   "mlp_only_layers": [], "decoder_sparse_step": 1, "moe_intermediate_size": decoders.HIDDEN}),
    "mistral": (dict(arch="llama", window=5, period=0), {"model_type": "mistral", "sliding_window": 5}),
    "gemma2": (dict(decoders.MODELS["gemma2"], attention_scale=0.2, logit_cap=0.0),
               {"head_dim": 16, "hidden_activation": GELU, "sliding_window": 5, "query_pre_attn_scalar": 25, "final_logit_softcapping": None}),
    "gemma3_text": (dict(decoders.MODELS["gemma3"], attention_scale=0.25),
                    {"model_type": "gemma3_text", "head_dim": 16, "hidden_activation": GELU, "sliding_window": 5, "query_pre_attn_scalar": 16,
                     "rope_theta": 1e6, "rope_local_base_freq": 10000.0, "layer_types": ["sliding_attention", "full_attention"],
                     "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
    "phi3": (dict(decoders.MODELS["phi3"], magnitude=math.sqrt(1 + math.log(3) / math.log(16)), window=9, period=0),
             {"original_max_position_embeddings": 16, "sliding_window": 9,
              "rope_scaling": {"type": "longrope", "short_factor": [1.5] * 8, "long_factor": LONG_FACTORS}}),
    "granite": (decoders.MODELS["granite"] | dict(pairs="halves"),
                {"tie_word_embeddings": True, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0,
                 "attention_multiplier": 0.1}),
    "olmo2": (decoders.MODELS["olmo2"], {}),
    "smollm3": (decoders.MODELS["smollm3"] | dict(pairs="halves"), {"no_rope_layers": [1, 1, 1, 0], "no_rope_layer_interval": 4}),
}
NORMS = {"before": {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"},
         "both": {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
                  "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"},
         "after": {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}}
NAMES = {"attn_qkv": "self_attn.qkv_proj", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
# Where experts are, and the gate's, up's and down's matrix of each.
EXPERTS = {"mixtral": ("block_sparse_moe", {"gate": "w1", "up": "w3", "down": "w2"}),
           "qwen3_moe": ("mlp", {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"})}
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def model_of(name):
    return {**decoders.PLAIN, **MODELS[name][0]}


def name_of(ours, model):
    *block, stem, part = ours.split(".")
    packed = {"ffn_up": "mlp.gate_up_proj"} if model["packed"] else {}
    names = {**NAMES, **NORMS[model["norms"]], **packed}
    return f"model.layers.{block[1]}.{names[stem]}.{part}" if block else f"{OUTER[stem]}.{part}"


def expert_names(ours, name, count):
    """Of a stack, the tensors that it is made of; of what chooses among them, one."""
    place, matrices = EXPERTS[name]
    block, stem = ours.split(".")[1:3]
    if stem == "ffn_gate_inp":
        return [f"model.layers.{block}.{place}.gate.weight"]
    return [f"model.layers.{block}.{place}.experts.{i}.{matrices[stem.split('_')[1]]}.weight" for i in range(count)]


def config_of(name):
    model = model_of(name)
    return {"model_type": model["arch"], "architectures": ["ForCausalLM"], "hidden_size": decoders.WIDTH, "vocab_size": decoders.VOCABULARY,
            "intermediate_size": decoders.HIDDEN, "num_hidden_layers": model["layers"], "num_attention_heads": model["heads"],
            "num_key_value_heads": model["kv_heads"], "max_position_embeddings": decoders.CONTEXT, "rms_norm_eps": 1e-5,
            "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": [2, 3], **MODELS[name][1]}


def slowed(scaling, base, dims):
    """By what llama3's scaling divides the angles of each pair, as its authors' code has it."""
    factors = []
    for i in range(dims // 2):
        length = 2 * math.pi * base ** (2 * i / dims)
        original = scaling["original_max_position_embeddings"]
        low, high = original / scaling["low_freq_factor"], original / scaling["high_freq_factor"]
        smooth = (original / length - scaling["low_freq_factor"]) / (scaling["high_freq_factor"] - scaling["low_freq_factor"])
        between = 1 / ((1 - smooth) / scaling["factor"] + smooth)
        factors.append(1.0 if length < high else scaling["factor"] if length > low else between)
    return np.array(factors)


def encode(values, dtype):
    """Bytes in the type, and what they stand for; bf16 by cutting."""
    if dtype == "BF16":
        cut = values.astype("<f4").view("<u4") >> 16
        return cut.astype("<u2").tobytes(), (cut << 16).astype("<u4").view("<f4").astype(np.float64)
    stored = values.astype({"F32": "<f4", "F16": "<f2"}[dtype])
    return stored.tobytes(), stored.astype(np.float64)


def safetensors(tensors):
    """`tensors`: name to (dtype, shape, bytes)."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def write(folder, name, seed, dtypes, shards):
    """A checkpoint in `folder`; tensors take the types in turn, norms too. Returns the values."""
    model, random = model_of(name), np.random.default_rng(seed)
    tensors, values = {}, {}
    for i, (ours, shape) in enumerate(decoders.shapes_of(model).items()):
        if ours.startswith("rope_"):
            values[ours] = slowed(SCALING, model["base"], model["head"]) if ours.startswith("rope_freqs") else np.array(LONG_FACTORS)
            continue
        offset = 1.0 if model["norms"] == "both" and ours.endswith("norm.weight") else 0.0
        drawn = random.uniform(0.5, 1.5, shape) if ours.endswith("norm.weight") else random.normal(0, 0.15, shape)
        dtype = dtypes[i % len(dtypes)]
        raw, stored = encode(drawn - offset, dtype)
        values[ours] = stored + offset
        if "_exps." in ours or "ffn_gate_inp" in ours:
            names = expert_names(ours, name, model["experts"])
            size = len(raw) // len(names)
            one = shape if len(names) == 1 else shape[1:]
            tensors.update({key: (dtype, one, raw[i * size:(i + 1) * size]) for i, key in enumerate(names)})
            continue
        tensors[name_of(ours, model)] = (dtype, shape, raw)
    (folder / "config.json").write_text(json.dumps(config_of(name)))
    if shards == 1:
        (folder / "model.safetensors").write_bytes(safetensors(tensors))
        return values
    places = {key: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, key in enumerate(tensors)}
    for file in set(places.values()):
        (folder / file).write_bytes(safetensors({key: t for key, t in tensors.items() if places[key] == file}))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": places}))
    return values
