#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says how far a rendered picture is from the wanted one, and writes it as PNG.

    python3 show.py WANTED.npy BEFORE.npy AFTER.npy PICTURE.png
"""
import pathlib
import struct
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402

packages.need("numpy")
import numpy  # noqa: E402


def write_png(path, picture):
    """Eight bits of red, green and blue a pixel, from numbers of 0 to 1."""
    height, width, _ = picture.shape
    rows = numpy.rint(numpy.clip(picture, 0, 1) * 255).astype(numpy.uint8)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b""))


def main():
    wanted, before, after = (numpy.load(path) for path in sys.argv[1:4])
    errors = [float(numpy.mean((picture - wanted) ** 2)) for picture in (before, after)]
    write_png(sys.argv[4], numpy.concatenate([wanted, after], axis=1))
    print(f"mean square error {errors[0]:.5f} before, {errors[1]:.5f} after; {sys.argv[4]}: what was wanted, what the splats show")
    if not errors[1] < 0.5 * errors[0]:
        sys.exit("the splats did not come near the picture")


if __name__ == "__main__":
    main()
