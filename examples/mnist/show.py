#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a few images with what the network read in them, and the accuracy over all. Needs no package.

    python3 show.py images.npy labels.npy digits.npy [least accuracy, default 0.97]
"""
import array
import ast
import math
import sys

SHADES = " .:-=+*#%@"
TYPES = {"u1": "B", "i1": "b", "i4": "i", "i8": "q"}  # NumPy's codes and those of the module array


def read_npy(path):
    """The shape and the integers of a .npy file in C order."""
    with open(path, "rb") as file:
        preamble = file.read(8)
        if preamble[:6] != b"\x93NUMPY":
            raise ValueError("it does not begin as a .npy file does")
        header = ast.literal_eval(file.read(int.from_bytes(file.read(2 if preamble[6] == 1 else 4), "little")).decode())
        if header["descr"][1:] not in TYPES or header["descr"][0] == ">" or header["fortran_order"]:
            raise ValueError(f"its type {header['descr']} is none of little-endian integers in C order")
        values = array.array(TYPES[header["descr"][1:]], file.read())
    if len(values) != math.prod(header["shape"]):
        raise ValueError(f"it holds {len(values)} values, its shape is {header['shape']}")
    return header["shape"], values


def drawn(image, width):
    """Lines of text, each for two rows of pixels."""
    rows = [image[start:start + width] for start in range(0, len(image), width)]
    return ["".join(SHADES[(above + below) * 9 // 510] for above, below in zip(*pair)) for pair in zip(rows[::2], rows[1::2])]


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    (_, _, height, width), images = read_npy(sys.argv[1])
    _, labels = read_npy(sys.argv[2])
    _, digits = read_npy(sys.argv[3])
    least = float(sys.argv[4]) if len(sys.argv) > 4 else 0.97
    few = [drawn(images[i * height * width:(i + 1) * height * width], width) for i in range(4)]
    print("\n".join("  ".join(lines) for lines in zip(*few)))
    print("predicted " + " ".join(str(digit) for digit in digits[:25]))
    print("written   " + " ".join(str(label) for label in labels[:25]))
    accuracy = sum(digit == label for digit, label in zip(digits, labels)) / len(labels)
    print(f"accuracy {accuracy:.4f} over {len(labels)} images")
    if len(digits) != len(labels) or accuracy < least:
        sys.exit(f"error: accuracy {accuracy:.4f} is below {least}, or not all of the images were read")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, SyntaxError, KeyError) as error:
        sys.exit(f"show.py: error: {error}")
