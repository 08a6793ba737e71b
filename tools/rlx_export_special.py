# SPDX-License-Identifier: Apache-2.0
"""ATen's functions of probability as operators of rlx. See rlx_export_aten.py."""
import torch

from rlx_export_aten import aten, table, unary
from rlx_export_graph import Unsupported

table({"lgamma.default": "lgamma", "digamma.default": "digamma", "erfinv.default": "erfinv", "special_erfcx.default": "erfcx",
       "special_ndtri.default": "ndtri", "special_i0e.default": "i0e", "special_i1e.default": "i1e"}, unary)


@aten("polygamma.default")
def polygamma(s, n, x):
    if n > 1:
        raise Unsupported(f"polygamma of order {n}; 0 and 1 can be exported")
    return s.emit("trigamma" if n == 1 else "digamma", [s.cast(x, s.out.dtype)])


@aten("i0.default", "special_i1.default")
def bessel(s, x):
    """The scaled function times e^|x|."""
    x = s.cast(x, s.out.dtype)
    scaled = s.emit("i1e" if "i1" in str(s.node.target) else "i0e", [x])
    return s.emit("mul", [scaled, s.emit("exp", [s.emit("abs", [x])])])


@aten("erfc.default")
def erfc(s, x):
    """Above 1/2 as erfcx(x) e^(-x^2), of which something is left where 1 - erf(x) is 0."""
    dtype = s.out.dtype
    x = s.cast(x, dtype)
    is_tail = s.emit("gt", [x, s.operand(0.5, dtype)], dtype=torch.bool)
    tail = s.emit("mul", [s.emit("erfcx", [x]), s.emit("exp", [s.emit("neg", [s.emit("square", [x])])])])
    return s.emit("where", [is_tail, tail, s.emit("sub", [s.operand(1.0, dtype), s.emit("erf", [x])])])
