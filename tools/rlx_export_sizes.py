# SPDX-License-Identifier: Apache-2.0
"""Functions of PyTorch that stand still for sizes as they are in the example where any size would do: others that give the same take their
place while a module is traced."""
import contextlib
import math

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


def evenly_spaced(own):
    """linspace, which takes how many numbers there are from the example. As PyTorch's the second half counts from the end."""
    def run(start, end, steps, *, out=None, dtype=None, **kwargs):
        dtype = dtype or torch.get_default_dtype()
        if not isinstance(steps, torch.SymInt) or out is not None or not dtype.is_floating_point:
            return own(start, end, steps, out=out, dtype=dtype, **kwargs)
        places = torch.arange(steps, dtype=dtype, **kwargs)
        gaps = torch.arange(1, dtype=dtype, **kwargs) + (steps - 1)
        step = (end - start) / gaps.clamp(min=1)
        is_near_start = (places < steps // 2) | (places == 0)
        return torch.where(is_near_start, start + places * step, end - (steps - 1 - places) * step)
    return run


def powers_evenly_spaced(own):
    def run(start, end, steps, base=10.0, *, out=None, dtype=None, **kwargs):
        if not isinstance(steps, torch.SymInt) or out is not None:
            return own(start, end, steps, base, out=out, dtype=dtype, **kwargs)
        return base ** torch.linspace(start, end, steps, dtype=dtype, **kwargs)
    return run


def frequencies(own, is_half):
    """fftfreq and rfftfreq, which take their number from the example."""
    def run(n, d=1.0, *, out=None, dtype=None, **kwargs):
        if not isinstance(n, torch.SymInt) or out is not None:
            return own(n, d, out=out, dtype=dtype, **kwargs)
        places = torch.arange(n // 2 + 1 if is_half else n, dtype=dtype or torch.get_default_dtype(), **kwargs)
        signed = places if is_half else torch.where(places < (n + 1) // 2, places, places - n)
        return signed / (n * d)
    return run


def example(size):
    return size.node.hint if isinstance(size, torch.SymInt) else size


def pieces(x, each, dim):
    """Parts of one size, the last one smaller or not, as many as of the example; None where the sizes of the example are not known."""
    size = x.shape[dim]
    if not isinstance(size, torch.SymInt) or example(size) is None or not example(each):
        return None
    last = max(-(-example(size) // example(each)) - 1, 0) * each
    torch._check(last < size)
    torch._check(size <= last + each)
    begins = [i * each for i in range(example(last) // example(each))]
    return *(x.narrow(dim, begin, each) for begin in begins), x.narrow(dim, last, size - last)


PART_NAMES = {"input": "x", "tensor": "x", "chunks": "number", "split_size": "number", "split_size_or_sections": "number"}


def parts(own, each_of):
    """chunk or split, which count the parts by a division whose result PyTorch takes from the example."""
    def run(*args, **kwargs):
        given = {**dict(zip(("x", "number", "dim"), args)), **{PART_NAMES.get(name, name): value for name, value in kwargs.items()}}
        x, number, dim = (given.get(name, 0) for name in ("x", "number", "dim"))
        if isinstance(number, (int, torch.SymInt)) and example(number) and isinstance(dim, int):
            made = pieces(x, each_of(x.shape[dim], number), dim)
            if made is not None:
                return made
        return own(*args, **kwargs)
    return run


def square_root(own):
    """math.sqrt, which takes a size from the example."""
    return lambda x: torch._sym_sqrt(x) if isinstance(x, (torch.SymInt, torch.SymFloat)) else own(x)


def shape_environment(values):
    """Where conditions on the sizes among these are gathered; None where all of them are numbers."""
    for value in values:
        if isinstance(value, torch.SymInt):
            return value.node.shape_env
        parts = value.shape if isinstance(value, torch.Tensor) else value if isinstance(value, (list, tuple)) else ()
        if (found := shape_environment(parts)) is not None:
            return found
    return None


# What in PyTorch asks how a tensor lies in memory.
STRIDES = ((torch._subclasses.fake_impls, "_compute_stride"), (torch._prims_common, "check_contiguous_sizes_strides"),
           (torch._prims_common, "is_channels_last_contiguous_2d"), (torch._prims_common, "is_channels_last_contiguous_3d"),
           (torch._meta_registrations, "_exec_fft"))


def unasked(own):
    """A question about strides, answered as for the example: nothing here depends on strides, so that other sizes need not have the
    same answer."""
    def run(*args, **kwargs):
        environment = shape_environment(args)
        with environment.suppress_guards() if environment is not None else contextlib.nullcontext():
            return own(*args, **kwargs)
    return run


@contextlib.contextmanager
def any_size():
    meta, refs = torch._meta_registrations, torch._refs
    changes = [(torch._VF, name, any_length(name, getattr(torch._VF, name))) for name in RECURRENT]
    changes += [(owner, "repeat_interleave", without_output_size(owner.repeat_interleave)) for owner in (torch, torch.Tensor)]
    changes += [(torch, "cdist", distances(torch.cdist)), (torch, "linspace", evenly_spaced(torch.linspace)),
                (torch, "logspace", powers_evenly_spaced(torch.logspace)), (math, "sqrt", square_root(math.sqrt)),
                (torch.fft, "fftfreq", frequencies(torch.fft.fftfreq, False)), (torch.fft, "rfftfreq", frequencies(torch.fft.rfftfreq, True))]
    changes += [(owner, "pdist", distances_of_pairs) for owner in (torch, torch.nn.functional)]
    for owner in (torch, torch.Tensor):
        changes.append((owner, "chunk", parts(owner.chunk, lambda size, count: (size + count - 1) // count)))
        changes.append((owner, "split", parts(owner.split, lambda size, each: each)))
    own_covariance = covariance(torch.cov)
    for owner in (torch, torch.Tensor):
        changes += [(owner, "cov", own_covariance), (owner, "corrcoef", correlation(own_covariance))]
    changes.append((torch._C, "_infer_size", torch.broadcast_shapes))  # distributions ask it, and it takes numbers alone
    if hasattr(meta, "div_rtn"):  # it asks whether there is a rest
        changes.append((meta, "div_rtn", lambda x, y: x // y))
    if hasattr(refs, "_reshape_view_helper_core_alg") and hasattr(torch._subclasses.fake_impls, "_compute_stride"):
        changes.append((refs, "_reshape_view_helper_core_alg", viewed))
    for owner, name in STRIDES:
        if hasattr(owner, name):
            changes.append((owner, name, unasked(getattr(owner, name))))
    own = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    for owner, name, function in changes:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for owner, name, function in own:
            setattr(owner, name, function)
