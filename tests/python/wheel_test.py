#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A wheel in a clean environment: a model is compiled and run, on the null device where there is no other, and rlxc is there.

    python3 tests/python/wheel_test.py examples/mnist
"""
import importlib.metadata
import pathlib
import subprocess
import sys

import numpy as np
import rlx

folder = pathlib.Path(sys.argv[1])
found = {name for name in (each.metadata["Name"] for each in importlib.metadata.distributions()) if name not in ("pip", "setuptools")}
assert found == {"numpy", "rlx"}, f"more than NumPy is installed: {found}"
images = np.load(folder / "images.npy")
plan = rlx.compile(folder / "mnist.json", dims={"batch": (1, 100)})
with rlx.Session(plan, None if rlx.devices() else "null") as session:
    right = float((session(images=images)["digits"] == np.load(folder / "labels.npy")).mean())
    assert right > 0.9 or session.device.id == "null", right
rlxc = pathlib.Path(sys.executable).with_name("rlxc")
told = subprocess.run([rlxc, "--version"], capture_output=True, text=True, check=True).stdout.strip()
print(f"wheel: {told}, Python {sys.version.split()[0]}, mnist on {session.device.id}: {100 * right:.0f} % right")
