#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The values of a seeded-random record {"distribution": "uniform"} (Philox4x32-10), bit for bit as a device fills them.

Written over an array namespace: NumPy, or torch with a device, so that gigabytes are made where they are needed.
"""
import dataclasses

import numpy as np

LOW32 = 0xFFFFFFFF
BLOCKS_AT_ONCE = 1 << 22  # 16 Mi elements; temporaries of 32 MiB


def fnv1a(text):
    """FNV-1a-32 of UTF-8: the stream of a tensor without one of its own."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & LOW32
    return value


def philox_words(xp, first_block, block_count, stream, seed, **placement):
    """The words w0..w3 of blocks [first_block, first_block + block_count) as int64 [block_count, 4]. Products of 32-bit
    numbers wrap in int64; the mask after the arithmetic shift gives their upper halves all the same."""
    block = xp.arange(first_block, first_block + block_count, dtype=xp.int64, **placement)
    c0, c1 = block & LOW32, block >> 32
    c2, c3 = xp.zeros_like(block), xp.full_like(block, stream)
    key0, key1 = seed & LOW32, seed >> 32
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = ((p1 >> 32) & LOW32) ^ c1 ^ key0, p1 & LOW32, ((p0 >> 32) & LOW32) ^ c3 ^ key1, p0 & LOW32
        key0, key1 = (key0 + 0x9E3779B9) & LOW32, (key1 + 0xBB67AE85) & LOW32
    return xp.stack((c0, c1, c2, c3), 1)


def bf16_bits(values):
    """The bf16 nearest to each f32, ties to even, as u16."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    half_word = np.uint64(16)  # NumPy 1 takes no u64 and int together
    return ((bits + np.uint64(0x7FFF) + ((bits >> half_word) & np.uint64(1))) >> half_word).astype(np.uint16)


def from_bf16_bits(bits):
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def round_to(dtype, values):
    """f32 values rounded to f32, f16 or bf16, as f32 (NumPy)."""
    values = np.asarray(values, np.float32)
    if dtype == "f16":
        return values.astype(np.float16).astype(np.float32)
    return from_bf16_bits(bf16_bits(values)) if dtype == "bf16" else values


def largest_below(dtype, high):
    """The largest value of the dtype below `high`; what an element that rounding lifts to `high` becomes."""
    held = round_to(dtype, high)
    if held < np.float32(high):
        return held
    if dtype == "f32":
        return np.nextafter(held, np.float32(-np.inf))
    bits = held.astype(np.float16).view(np.uint16) if dtype == "f16" else bf16_bits(held)
    bits = np.uint16(0x8001) if bits & 0x7FFF == 0 else bits + np.uint16(1) if bits & 0x8000 else bits - np.uint16(1)
    return bits.view(np.float16).astype(np.float32) if dtype == "f16" else from_bf16_bits(np.asarray(bits))


@dataclasses.dataclass(frozen=True)
class Uniform:
    """A record of [low, high) for a tensor of this name, dtype (f32, f16, bf16) and shape."""

    name: str
    dtype: str
    shape: tuple
    low: float
    high: float
    seed: int

    def record(self):
        return {"random": {"distribution": "uniform", "low": self.low, "high": self.high, "seed": self.seed}}

    def count(self):
        return int(np.prod(self.shape, dtype=np.int64))

    def limits(self):
        """low, high - low, high and the largest value below high: the f32 numbers from which elements are computed."""
        low, high = np.float32(self.low), np.float32(self.high)
        return [float(v) for v in (low, np.float32(high - low), high, largest_below(self.dtype, high))]

    def numpy(self):
        """f32 array whose values the dtype holds."""
        low, span, high, below = (np.float32(v) for v in self.limits())
        flat = np.empty(self.count(), np.float32)
        for start, words in self._chunks(np):
            unit = (words >> 8).astype(np.float32) * np.float32(2**-24)
            held = round_to(self.dtype, low + span * unit)
            flat[start : start + len(words)] = np.where((held >= high) & (high > low), below, held)
        return flat.reshape(self.shape)

    def torch(self, device="cuda"):
        """Tensor of the dtype on the device."""
        import torch

        low, span, high, below = self.limits()
        dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[self.dtype]
        flat = torch.empty(self.count(), dtype=dtype, device=device)
        for start, words in self._chunks(torch, device=device):
            unit = (words >> 8).to(torch.float32) * 2**-24
            # Product and sum round one after the other: two kernels, never one fused multiply-add.
            held = (unit * span + low).to(dtype)
            reached = (held.to(torch.float32) >= high) & (high > low)
            flat[start : start + len(words)] = held.masked_fill(reached, below)
        return flat.reshape(self.shape)

    def _chunks(self, xp, **placement):
        blocks = (self.count() + 3) // 4
        for first in range(0, blocks, BLOCKS_AT_ONCE):
            words = philox_words(xp, first, min(BLOCKS_AT_ONCE, blocks - first), fnv1a(self.name), self.seed, **placement)
            yield 4 * first, words.reshape(-1)[: self.count() - 4 * first]
