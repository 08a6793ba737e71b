#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a graph that renders splats and compares the picture with another one, and where the splats begin.

    python3 make_model.py FOLDER --splats 2000 --width 128 --height 96
"""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")
import numpy  # noqa: E402


def camera(distance=4.0, fov=40.0):
    """Position, target, up, field of view, near, far, background; eight numbers that nothing reads."""
    return [0, 0, -distance, 0, 0, 0, 0, -1, 0, fov, 0.1, 100, 0, 0, 0] + [0] * 8


def start(count, width, height, seed):
    """Small splats all over the plane that the camera looks at."""
    draw = numpy.random.default_rng(seed)
    reach = 4.0 * numpy.tan(numpy.radians(20.0))
    positions = draw.uniform(-1, 1, (count, 3)) * [reach * width / height, reach, 0.05]
    size = numpy.log(1.1 * reach * numpy.sqrt(width / height / count))
    return {
        "positions": positions,
        "scales": numpy.full((count, 3), size) + draw.normal(0, 0.1, (count, 3)),
        "rotations": draw.normal(0, 1, (count, 4)),
        "opacities": numpy.full(count, 0.5),
        "colors": draw.uniform(0.3, 0.7, (count, 3)),
    }


def graph(count, width, height, list_entries):
    shapes = {"positions": [count, 3], "scales": [count, 3], "rotations": [count, 4], "opacities": [count], "colors": [count, 3]}
    params = [{"name": name, "dtype": "f32", "shape": shape, "data": {"npy": name + ".npy"}} for name, shape in shapes.items()]
    nodes = [
        {"op": "splat.render", "inputs": [*shapes, "sh", "meta"], "outputs": ["seen"],
         "attributes": {"width": width, "height": height, "max_list_entries": list_entries, "output": "linear", "color_source": "colors"}},
        {"op": "narrow", "inputs": ["seen"], "outputs": ["picture"], "attributes": {"axis": 2, "start": 0, "len": 3}},
        {"op": "sub", "inputs": ["picture", "wanted"], "outputs": ["error"]},
        {"op": "square", "inputs": ["error"], "outputs": ["squares"]},
        {"op": "reduce_mean", "inputs": ["squares"], "outputs": ["loss"]},
    ]
    return {
        "rlx_graph": 1,
        "name": "splats",
        "params": params,
        "constants": [{"name": "sh", "dtype": "f32", "shape": [count, 0, 3], "data": {"values": []}},
                      {"name": "meta", "dtype": "f32", "shape": [23], "data": {"values": camera()}}],
        "inputs": [{"name": "wanted", "dtype": "f32", "shape": [height, width, 3]}],
        "nodes": nodes,
        "outputs": ["loss", "picture"],
    }


def wanted(width, height):
    """A deterministic picture: a disc and a ring before a gradient."""
    y, x = numpy.mgrid[0:height, 0:width]
    picture = numpy.stack([x / width, y / height, 0.4 + 0 * x], axis=2)
    radius = numpy.hypot(x - 0.35 * width, y - 0.5 * height)
    picture[radius < 0.25 * height] = [0.95, 0.8, 0.1]
    ring = numpy.hypot(x - 0.7 * width, y - 0.5 * height)
    picture[(ring > 0.2 * height) & (ring < 0.3 * height)] = [0.9, 0.1, 0.2]
    return picture.astype(numpy.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--splats", type=int, default=2000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--height", type=int, default=96)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, values in start(options.splats, options.width, options.height, options.seed).items():
        numpy.save(options.folder / f"{name}.npy", values.astype(numpy.float32))
    numpy.save(options.folder / "wanted.npy", wanted(options.width, options.height))
    tiles = -(-options.width // 16) * -(-options.height // 16)
    model = graph(options.splats, options.width, options.height, options.splats * min(tiles, 16))
    (options.folder / "splats.json").write_text(json.dumps(model))


if __name__ == "__main__":
    main()
