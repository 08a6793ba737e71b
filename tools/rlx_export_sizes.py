# SPDX-License-Identifier: Apache-2.0
"""Functions of PyTorch that stand still for sizes as they are in the example where any size would do: others that give the same take their
place while a module is traced."""
import contextlib

import torch

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
LIBRARY = torch.library.Library("rlx", "FRAGMENT")


def results_of(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Tensors of the shapes and types of a recurrent network's results."""
    states = hx if isinstance(hx, (list, tuple)) else [hx]
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    return input.new_empty([*input.shape[:-1], width]), *(torch.empty_like(state) for state in states)


def define(name):
    """rlx::NAME, with the schema of aten::NAME.input, whose tracing goes through the steps one by one."""
    own = getattr(torch.ops.aten, name).input
    LIBRARY.define(str(own._schema).replace(f"aten::{name}.input", name))
    LIBRARY.impl(name, own, "CompositeExplicitAutograd")
    torch.library.register_fake(f"rlx::{name}", results_of, lib=LIBRARY)


for name in RECURRENT:
    define(name)


def any_length(name, own):
    op = getattr(torch.ops.rlx, name).default

    def run(input, second, *rest):
        is_packed = isinstance(second, torch.Tensor) and isinstance(rest[0], (torch.Tensor, tuple))
        return own(input, second, *rest) if is_packed else op(input, second, *rest)

    return run


def viewed(x, shape, allow_copy):
    """x in another shape. PyTorch's own compares the sizes one by one and assumes what the example gives; of a view its strides alone
    depend on that, and here nothing depends on strides."""
    strides = torch._subclasses.fake_impls._compute_stride(x.shape, x.stride(), shape, size_oblivious=True)
    if strides is None and allow_copy:
        return torch._prims.reshape(x, shape)
    return torch.as_strided(x, shape, strides or torch._prims_common.make_contiguous_strides_for(shape))


@contextlib.contextmanager
def any_size():
    meta, refs = torch._meta_registrations, torch._refs
    own = {name: getattr(torch._VF, name) for name in RECURRENT}
    divide = getattr(meta, "div_rtn", None)
    view = getattr(refs, "_reshape_view_helper_core_alg", None)
    if not hasattr(torch._subclasses.fake_impls, "_compute_stride"):  # of a PyTorch that has it elsewhere
        view = None
    for name in RECURRENT:
        setattr(torch._VF, name, any_length(name, own[name]))
    if divide is not None:  # it asks whether there is a rest
        meta.div_rtn = lambda x, y: x // y
    if view is not None:
        refs._reshape_view_helper_core_alg = viewed
    try:
        yield
    finally:
        for name in RECURRENT:
            setattr(torch._VF, name, own[name])
        if divide is not None:
            meta.div_rtn = divide
        if view is not None:
            refs._reshape_view_helper_core_alg = view
