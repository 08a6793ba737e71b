#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a few images with what the network read in them, and the accuracy over all.

    python3 show.py images.npy labels.npy digits.npy [least accuracy, default 0.97]
"""
import sys

import numpy as np

SHADES = " .:-=+*#%@"


def drawn(image):
    rows = image[0, ::2, :].astype(int) + image[0, 1::2, :]
    return ["".join(SHADES[value * 9 // 510] for value in row) for row in rows]


def main():
    images, labels, digits = (np.load(path) for path in sys.argv[1:4])
    least = float(sys.argv[4]) if len(sys.argv) > 4 else 0.97
    print("\n".join("  ".join(lines) for lines in zip(*(drawn(image) for image in images[:4]))))
    print("predicted " + " ".join(str(digit) for digit in digits[:25]))
    print("written   " + " ".join(str(label) for label in labels[:25]))
    accuracy = float((digits == labels).mean())
    print(f"accuracy {accuracy:.4f} over {len(labels)} images")
    if accuracy < least:
        raise SystemExit(f"error: accuracy {accuracy:.4f} is below {least}")


if __name__ == "__main__":
    main()
