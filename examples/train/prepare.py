#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unpacks MNIST's 10,000 test images and labels for this example: images.u8 and labels.u8, raw bytes.

    python3 prepare.py DIR OUT    # DIR holds t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz
    python3 prepare.py OUT        # the 100 images of examples/mnist instead
"""
import gzip
import pathlib
import sys

MNIST = pathlib.Path(__file__).resolve().parent.parent / "mnist"


def npy_data(path):
    """The array's bytes: an .npy file is 10 bytes, of which the last two are the header's length, the header, the data."""
    data = path.read_bytes()
    return data[10 + int.from_bytes(data[8:10], "little"):]


def main():
    out = pathlib.Path(sys.argv[-1])
    out.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 2:
        folder = pathlib.Path(sys.argv[1])
        images = gzip.open(folder / "t10k-images-idx3-ubyte.gz").read()[16:]
        labels = gzip.open(folder / "t10k-labels-idx1-ubyte.gz").read()[8:]
    else:
        images, labels = npy_data(MNIST / "images.npy"), npy_data(MNIST / "labels.npy")
    (out / "images.u8").write_bytes(images)
    (out / "labels.u8").write_bytes(labels)


if __name__ == "__main__":
    main()
