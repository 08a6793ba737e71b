#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/samplers.json: logits, sampling options, and the tokens that a reference in NumPy chooses: f64, sorted whole,
its own Philox4x32-10. Logits are multiples of 2^-8, so that they stand exactly in the file. Tests read only what is committed.

  tests/text/make_sampler_cases.py            writes the file
"""
import json
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = 200
CHOICES = 24


def philox(counter, key):
    c, k = [int(word) for word in counter], [int(word) for word in key]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def gumbel(seed, draw, token):
    words = philox([token // 4, draw >> 32, draw & 0xFFFFFFFF, 0], [seed & 0xFFFFFFFF, seed >> 32])
    v = (2 * (words[token % 4] >> 9) + 1) * 2.0**-24
    return -np.log(-np.log(v))


def probabilities(z):
    weights = np.where(np.isfinite(z), np.exp(z - z.max()), 0)
    return weights / weights.sum()


def keep(z, order, share):
    """Those first of `order` whose probabilities reach the share."""
    cumulative = np.cumsum(probabilities(z)[order])
    count = int(np.searchsorted(cumulative, share)) + 1
    out = np.full_like(z, -np.inf)
    out[order[:count]] = z[order[:count]]
    return out


def ranks(z):
    return np.lexsort((np.arange(z.size), -z))


def top_k(z, options):
    k = options.get("top_k", 0)
    if not 0 < k < np.isfinite(z).sum():
        return z
    out = np.full_like(z, -np.inf)
    out[ranks(z)[:k]] = z[ranks(z)[:k]]
    return out


def top_p(z, options):
    return keep(z, ranks(z), options["top_p"]) if 0 < options.get("top_p", 0) < 1 else z


def min_p(z, options):
    p = probabilities(z)
    return np.where(p >= options.get("min_p", 0) * p.max(), z, -np.inf)


def typical_p(z, options):
    if not 0 < options.get("typical_p", 0) < 1:
        return z
    p = probabilities(z)
    surprise = np.where(p > 0, -np.log(np.where(p > 0, p, 1)), np.inf)
    entropy = np.sum(p[p > 0] * surprise[p > 0])
    order = np.lexsort((np.arange(z.size), np.abs(surprise - entropy)))
    return keep(z, order, options["typical_p"])


def penalised(z, options, seen):
    last = seen[-options["penalty_tokens"]:] if options.get("penalty_tokens", 0) else []
    z = z.copy()
    for token in set(last):
        penalty = options.get("repetition_penalty", 0) or 1
        z[token] = z[token] / penalty if z[token] > 0 else z[token] * penalty
        z[token] -= last.count(token) * options.get("frequency_penalty", 0) + options.get("presence_penalty", 0)
    return z


def choose(logits, options, seen, draw):
    z = penalised(np.where(np.isnan(logits), -np.inf, logits), options, seen)
    temperature = options.get("temperature", 0)
    if temperature == 0:
        return int(np.argmax(z))
    if options.get("order", 0) == 0:
        z = typical_p(min_p(top_p(top_k(z / temperature, options), options), options), options)
    else:
        z = min_p(top_p(typical_p(top_k(z, options), options), options), options) / temperature
    scores = [z[token] + gumbel(options.get("seed", 0), draw, token) if z[token] > -np.inf else -np.inf for token in range(z.size)]
    return int(np.argmax(scores))


# f32 numbers, as the options are.
OPTIONS = [
    {}, {"repetition_penalty": 1.5, "penalty_tokens": 8}, {"presence_penalty": 2.5, "frequency_penalty": 0.5, "penalty_tokens": 64},
    {"temperature": 1}, {"temperature": 0.75, "seed": 7}, {"temperature": 2.5, "seed": (5 << 32) + 9},
    {"temperature": 1, "top_k": 5, "seed": 1}, {"temperature": 1.5, "top_k": 1, "seed": 1}, {"temperature": 1, "top_k": 1000, "seed": 2},
    {"temperature": 1, "top_p": 0.75, "seed": 3}, {"temperature": 1, "top_p": 0.125, "seed": 3}, {"temperature": 2, "min_p": 0.125, "seed": 4},
    {"temperature": 1, "typical_p": 0.5, "seed": 5}, {"temperature": 1.25, "top_k": 40, "top_p": 0.875, "min_p": 0.0625, "seed": 6},
    {"temperature": 1.25, "top_k": 40, "top_p": 0.875, "min_p": 0.0625, "seed": 6, "order": 1},
    {"temperature": 0.5, "top_k": 20, "typical_p": 0.75, "top_p": 0.875, "min_p": 0.03125, "seed": 8},
    {"temperature": 0.5, "top_k": 20, "typical_p": 0.75, "top_p": 0.875, "min_p": 0.03125, "seed": 8, "order": 1},
    {"temperature": 1.5, "top_p": 0.9375, "repetition_penalty": 1.25, "presence_penalty": 0.5, "frequency_penalty": -0.25,
     "penalty_tokens": 5, "seed": 10},
    {"temperature": 3, "typical_p": 0.25, "seed": 11, "order": 1},
]


def main():
    rng = np.random.default_rng(1)
    rows = np.round(rng.normal(0, 3, (4, TOKENS)) * 256) / 256
    rows[1] = np.round(rows[1])  # many equal ones
    rows[2, ::7] = -np.inf
    cases = []
    for options in OPTIONS:
        seen, chosen = [3, 3, 5], []
        for draw in range(CHOICES):
            chosen.append(choose(rows[draw % len(rows)], options, seen, draw))
            seen.append(chosen[-1])
        cases.append({"options": options, "chosen": chosen})
    values = [[None if np.isinf(value) else value for value in row] for row in rows.tolist()]
    data = {"logits": values, "accepted": [3, 3, 5], "cases": cases}
    (HERE / "data/samplers.json").write_text(json.dumps(data) + "\n")
    print(len(cases), "cases of", CHOICES, "choices")


if __name__ == "__main__":
    main()
