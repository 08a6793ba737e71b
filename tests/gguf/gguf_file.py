# SPDX-License-Identifier: Apache-2.0
"""GGUF files by hand: keys, tensors of seeded numbers, and the values that their blocks stand for."""
import struct

import numpy as np

# Numbers of types in the file, and of a block: its elements and its bytes.
TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q8_0": (8, 32, 34), "mxfp4": (39, 32, 17)}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # codes of mxfp4, their signs in bit 3


class F32(float):
    """A real that is written as f32."""


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value_bytes(value):
    """A key's type and its bytes; whole numbers as u32, where they fit."""
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return (4, struct.pack("<I", value)) if 0 <= value < 2**32 else (11, struct.pack("<q", value))
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, text(value)
    items = [value_bytes(item) for item in value]
    return 9, struct.pack("<IQ", items[0][0], len(items)) + b"".join(raw for _, raw in items)


def encode(values, dtype):
    """Bytes of the tensor in that type, and the values that they stand for. Blocks take the nearest codes."""
    if dtype in ("f32", "f16"):
        stored = values.astype({"f32": "<f4", "f16": "<f2"}[dtype])
        return stored.tobytes(), stored.astype(np.float64)
    blocks = values.reshape(-1, 32)
    largest = np.abs(blocks).max(axis=1, keepdims=True)
    if dtype == "mxfp4":
        scale = np.ceil(np.log2(largest / 6)).astype(np.int64)
        shares = np.abs(blocks) / 2.0**scale
        codes = np.abs(shares[..., None] - E2M1).argmin(axis=-1).astype(np.uint8) | (blocks < 0).astype(np.uint8) << 3
        packed = codes[:, :16] | codes[:, 16:] << 4
        decoded = np.where(codes & 8, -1, 1) * E2M1[codes & 7] * 2.0**scale
        raw = [bytes([int(s) + 127]) + p.tobytes() for s, p in zip(scale[:, 0], packed)]
        return b"".join(raw), decoded.reshape(values.shape)
    if dtype == "q8_0":
        scale = (largest / 127).astype("<f2")
        codes = np.clip(np.rint(blocks / scale.astype(np.float64)), -127, 127).astype(np.int8)
        raw = [s.tobytes() + c.tobytes() for s, c in zip(scale, codes)]
        return b"".join(raw), (codes * scale.astype(np.float64)).reshape(values.shape)
    shift = 8 if dtype == "q4_0" else 0
    least = np.zeros_like(largest).astype("<f2") if shift else blocks.min(axis=1, keepdims=True).astype("<f2")
    scale = (largest / 8 if shift else (blocks.max(axis=1, keepdims=True) - least) / 15).astype("<f2")
    codes = np.clip(np.rint((blocks - least) / scale.astype(np.float64)) + shift, 0, 15).astype(np.uint8)
    packed = codes[:, :16] | codes[:, 16:] << 4
    raw = [s.tobytes() + (b"" if shift else m.tobytes()) + p.tobytes() for s, m, p in zip(scale, least, packed)]
    decoded = (codes.astype(np.float64) - shift) * scale.astype(np.float64) + least.astype(np.float64)
    return b"".join(raw), decoded.reshape(values.shape)


def write(path, keys, tensors, version=3, alignment=32):
    """`tensors`: name to (shape, type, bytes), shapes outermost first."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)))
    for key, value in keys.items():
        number, raw = value_bytes(value)
        out += text(key) + struct.pack("<I", number) + raw
    data = bytearray()
    for name, (shape, dtype, raw) in tensors.items():
        data += bytes(-len(data) % alignment)
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        out += struct.pack("<IQ", TYPES[dtype][0], len(data))
        data += raw
    out += bytes(-len(out) % alignment)
    path.write_bytes(bytes(out + data))
