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


def without_output_size(own):
    """repeat_interleave that is not told how long its result is where a number of repeats says it: PyTorch takes it from the example."""
    def run(x, repeats, *args, output_size=None, **kwargs):
        return own(x, repeats, *args, **kwargs, **({} if isinstance(repeats, int) else {"output_size": output_size}))
    return run


def distances(own):
    """cdist, whose way of computing it chooses by sizes: as for the example."""
    def run(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
        rows = [x.shape[-2] for x in (x1, x2)]
        if compute_mode == "use_mm_for_euclid_dist_if_necessary" and any(isinstance(count, torch.SymInt) for count in rows):
            are_many = any((count.node.hint or 0) > 25 if isinstance(count, torch.SymInt) else count > 25 for count in rows)
            compute_mode = "use_mm_for_euclid_dist" if are_many else "donot_use_mm_for_euclid_dist"
        return own(x1, x2, p, compute_mode)
    return run


def distances_of_pairs(input, p=2.0):
    """pdist, of which no program has another form."""
    first, second = torch.triu_indices(input.shape[0], input.shape[0], 1)
    return torch.linalg.vector_norm(input[first] - input[second], p, dim=-1)


def covariance(own):
    """torch.cov asks, of a number that no data decide, whether it is 0."""
    def run(input, *, correction=1, fweights=None, aweights=None):
        if fweights is not None or aweights is not None or input.ndim > 2:
            return own(input, correction=correction, fweights=fweights, aweights=aweights)
        rows = input if input.ndim == 2 else input.reshape(1, -1)
        apart = rows - rows.mean(1, keepdim=True)
        return (apart @ apart.mH / max(rows.shape[1] - correction, 0)).squeeze()
    return run


def correlation(covariance):
    def run(input):
        together = covariance(input)
        if together.ndim == 0:
            return together / together
        spread = together.diagonal().real.sqrt()
        shares = together / spread[:, None] / spread
        return shares if shares.is_complex() else shares.clamp(-1, 1)
    return run


@contextlib.contextmanager
def any_size():
    meta, refs = torch._meta_registrations, torch._refs
    changes = [(torch._VF, name, any_length(name, getattr(torch._VF, name))) for name in RECURRENT]
    changes += [(owner, "repeat_interleave", without_output_size(owner.repeat_interleave)) for owner in (torch, torch.Tensor)]
    changes.append((torch, "cdist", distances(torch.cdist)))
    changes += [(owner, "pdist", distances_of_pairs) for owner in (torch, torch.nn.functional)]
    own_covariance = covariance(torch.cov)
    for owner in (torch, torch.Tensor):
        changes += [(owner, "cov", own_covariance), (owner, "corrcoef", correlation(own_covariance))]
    changes.append((torch._C, "_infer_size", torch.broadcast_shapes))  # distributions ask it, and it takes numbers alone
    if hasattr(meta, "div_rtn"):  # it asks whether there is a rest
        changes.append((meta, "div_rtn", lambda x, y: x // y))
    if hasattr(refs, "_reshape_view_helper_core_alg") and hasattr(torch._subclasses.fake_impls, "_compute_stride"):
        changes.append((refs, "_reshape_view_helper_core_alg", viewed))
    own = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    for owner, name, function in changes:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for owner, name, function in own:
            setattr(owner, name, function)
