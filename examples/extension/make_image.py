#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an image of 61 x 83 random numbers: make_image.py FILE.npy"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")
import numpy as np  # noqa: E402

np.save(sys.argv[1], np.random.default_rng(1).normal(size=(61, 83)).astype(np.float32))
