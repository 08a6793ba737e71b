# SPDX-License-Identifier: Apache-2.0
"""Custom operators of PyTorch that a registered extension of rlx computes: torch.ops.NAMESPACE.OP is NAMESPACE.OP of
extension.json. Tensors of the schema are the op's inputs, in order; its other arguments are attributes of the same names."""
import json
import pathlib

from rlx_export_aten import HANDLERS
from rlx_export_graph import Tensor, Unsupported


def add_extension(folder):
    """Makes the ops of an extension's folder known for the rest of the process."""
    path = pathlib.Path(folder) / "extension.json"
    try:
        description = json.loads(path.read_text())
        ops = {f"{description['namespace']}.{op['name']}": op for op in description["ops"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unsupported(f"--extension {folder}: {type(error).__name__}: {error}") from error
    for name, op in ops.items():
        HANDLERS[f"{name}.default"] = handler_of(name, op)


def handler_of(name, op):
    attributes = {row["name"] for row in op.get("attributes", [])}
    names = {"self": "x", "s": "s_"}  # as the exporter's arguments are called

    def handler(s, **given):
        tensors, words = [], {}
        for slot in s.node.target._schema.arguments:
            value = given.get(names.get(slot.name, slot.name))
            if isinstance(value, Tensor):
                tensors.append(value)
            elif value is not None and slot.name not in attributes:
                raise Unsupported(f"argument {slot.name} is no attribute of {name}; it has {', '.join(sorted(attributes)) or 'none'}")
            elif value is not None:
                words[slot.name] = value
        results = s.node.meta["val"]
        types = [(value.dtype, tuple(value.shape)) for value in (results if isinstance(results, (tuple, list)) else [results])]
        made = s.emit_many(name, tensors, types, **{key + "_" * (key in ("op", "inputs", "types")): value for key, value in words.items()})
        return made if isinstance(results, (tuple, list)) else made[0]

    return handler
