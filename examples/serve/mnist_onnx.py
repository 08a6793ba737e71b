# SPDX-License-Identifier: Apache-2.0
"""Writes the network of examples/mnist as ONNX, for onnxruntime in the frame of load_test.py. Needs onnx.

    python mnist_onnx.py OUT.onnx
"""
import json
import pathlib
import struct
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHTS = pathlib.Path(__file__).resolve().parent.parent / "mnist" / "mnist.safetensors"


def weights():
    data = WEIGHTS.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    for name, record in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            first, end = record["data_offsets"]
            yield numpy_helper.from_array(np.frombuffer(data[begin + first:begin + end], np.float32).reshape(record["shape"]), name)


def main():
    node = helper.make_node
    nodes = [node("Cast", ["images"], ["float"], to=TensorProto.FLOAT), node("Mul", ["float", "scale"], ["scaled"]),
             node("Conv", ["scaled", "conv1.weight", "conv1.bias"], ["conv1"], pads=[2] * 4), node("Relu", ["conv1"], ["relu1"]),
             node("MaxPool", ["relu1"], ["pool1"], kernel_shape=[2, 2], strides=[2, 2]),
             node("Conv", ["pool1", "conv2.weight", "conv2.bias"], ["conv2"], pads=[1] * 4), node("Relu", ["conv2"], ["relu2"]),
             node("MaxPool", ["relu2"], ["pool2"], kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", ["pool2"], ["flat"]),
             node("Gemm", ["flat", "fc1.weight", "fc1.bias"], ["fc1"], transB=1), node("Relu", ["fc1"], ["relu3"]),
             node("Gemm", ["relu3", "fc2.weight", "fc2.bias"], ["logits"], transB=1),
             node("ArgMax", ["logits"], ["best"], axis=-1, keepdims=0), node("Cast", ["best"], ["digits"], to=TensorProto.INT32)]
    graph = helper.make_graph(
        nodes, "mnist", [helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", 1, 28, 28])],
        [helper.make_tensor_value_info("digits", TensorProto.INT32, ["batch"])],
        [*weights(), numpy_helper.from_array(np.float32(1 / 255), "scale")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])


if __name__ == "__main__":
    main()
