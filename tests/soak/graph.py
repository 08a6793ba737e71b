# SPDX-License-Identifier: Apache-2.0
"""A graph file under construction, by nothing but Python's own library: one node per layer, weights as seeded-random records,
so that the plan of a network is small and every device makes the same values."""
import json
import math

SEED = 2026


class Graph:
    """Floats are of `dtype` unless said otherwise."""

    def __init__(self, name, dtype):
        self.name, self.dtype = name, dtype
        self.params, self.states, self.inputs, self.nodes, self.outputs = [], [], [], [], []

    def input(self, name, shape, dtype=None):
        self.inputs.append({"name": name, "dtype": dtype or self.dtype, "shape": list(shape)})
        return name

    def weight(self, name, shape, low, high, dtype=None):
        """Uniform over [low, high)."""
        record = {"random": {"distribution": "uniform", "low": low, "high": high, "seed": SEED}}
        self.params.append({"name": name, "dtype": dtype or self.dtype, "shape": list(shape), "data": record})
        return name

    def scaled(self, name, shape, std):
        """A weight of mean 0: uniform over sqrt(3) standard deviations to either side."""
        return self.weight(name, shape, -math.sqrt(3) * std, math.sqrt(3) * std)

    def node(self, op, inputs, name, **attributes):
        node = {"name": name, "op": op, "inputs": list(inputs), "outputs": [name]}
        if attributes:
            node["attributes"] = attributes
        self.nodes.append(node)
        return name

    def control(self, op, inputs, names, bodies, **attributes):
        """A loop or branch. `bodies`: of each its inputs, the graph that holds its nodes and params, and its outputs."""
        node = {"name": names[0], "op": op, "inputs": list(inputs), "outputs": list(names), "attributes": attributes,
                "bodies": {name: {"inputs": list(given), "nodes": body.nodes, "outputs": list(outputs)}
                           for name, (given, body, outputs) in bodies.items()}}
        for _, body, _ in bodies.values():
            self.params += body.params
        self.nodes.append(node)
        return names

    def output(self, value):
        self.outputs.append(value)

    def linear(self, x, name, wide_in, wide_out, bias=True):
        """A layer as checkpoints hold it: [out, in]."""
        product = self.node("matmul", [x, self.scaled(f"{name}.weight", [wide_out, wide_in], 1 / math.sqrt(wide_in))],
                            f"{name}.product", trans_b=True)
        return self.node("add", [product, self.scaled(f"{name}.bias", [wide_out], 0.1)], name) if bias else product

    def conv(self, x, name, wide_in, wide_out, kernel, bias=True, stride=1, groups=1, dims=2):
        wide = wide_in // groups
        weight = self.scaled(f"{name}.weight", [wide_out, wide, *[kernel] * dims], 1 / math.sqrt(kernel ** dims * wide))
        operands = [x, weight] + ([self.scaled(f"{name}.bias", [wide_out], 0.1)] if bias else [])
        return self.node("conv", operands, name, stride=[stride] * dims, pads=[kernel // 2] * (2 * dims), groups=groups)

    def norm(self, op, x, name, wide, **attributes):
        """layer_norm or group_norm over `wide` channels."""
        gamma = self.weight(f"{name}.weight", [wide], 0.8, 1.2)
        return self.node(op, [x, gamma, self.scaled(f"{name}.bias", [wide], 0.1)], name, eps=1e-5, **attributes)

    def text(self):
        return json.dumps({"rlx_graph": 1, "name": self.name, "producer": "tests/soak", "params": self.params,
                           "states": self.states, "inputs": self.inputs, "nodes": self.nodes, "outputs": self.outputs},
                          indent=1) + "\n"
