#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the backend tests of single operators of the installed Python package onnx, which ships their code and not their data.

    python3 tests/onnx/make_suite.py FOLDER
    build/bin/rlx_onnx_suite --suite FOLDER [FILTER ...]
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import packages  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    args = parser.parse_args()
    packages.need("onnx")
    import onnx.backend.test.cmd_tools as tools
    from onnx.backend.test.case import node
    cases = node.collect_testcases(None)  # of all operators
    tools.model_test.collect_testcases = lambda: cases
    tools.generate_data(argparse.Namespace(output=args.folder))
    print(f"{len(cases)} tests in {args.folder}")


if __name__ == "__main__":
    main()
