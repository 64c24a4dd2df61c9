"""Compilation where it was asked for and a compiler is found."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor

# Graphs that torch keeps of one function before it goes on without compiling; networks of a class share its forward.
_MOST_GRAPHS = 64

# tanh(x) / x as a ratio of polynomials in x², for |x| up to the reach; a minimax fit in the relative error.
_REACH = 7.9
_ABOVE = (0.999999994, 0.134506226, 0.00357899443, 2.20232848e-05, 1.54280282e-08)
_BELOW = (1.0, 0.467839506, 0.0261922471, 0.000342365449, 8.59880268e-07)


def compiled(
    call: Callable[..., Any], device: torch.device, what: str, *, small: bool = False, **options: Any
) -> Callable[..., Any]:
    """The call, compiled; where no compiler is found it stays as it is, and a warning says that ``what`` goes on.

    small: the call is short and made often, so that its kernels too are started without Python. On the CPU
    single-precision tanh is a ratio of polynomials, right to three units of the last place, because the library's
    costs as much as the matrix products around it.
    """
    on_cpu = device.type == "cpu"
    if sys.platform == "win32" or (on_cpu and not any(shutil.which(c) for c in ("g++", "c++", "clang++"))):
        warnings.warn(f"compile=True, but no C++ compiler was found; {what} goes on uncompiled", stacklevel=3)
        return call
    if "recompile_limit" in signature(torch.compile).parameters:  # older versions of torch stay at eight
        options.setdefault("recompile_limit", _MOST_GRAPHS)
    faster: Callable[..., Any] = torch.compile(call, backend=_backend(device.type, small), **options)
    return faster


@cache
def _backend(kind: str, small: bool) -> Any:
    """Who makes code of a graph: one value for all calls, because torch does not share graphs among several."""
    return partial(_on_cpu, small) if kind == "cpu" else "inductor"


def fast_tanh(x: Tensor) -> Any:
    """tanh in single precision, elementwise; other precisions are left to the library (NotImplemented).

    >>> fast_tanh(torch.tensor([0.0, 1.0, -20.0]))
    tensor([ 0.0000,  0.7616, -1.0000])
    """
    if x.dtype != torch.float32:
        return NotImplemented
    x = x.clamp(-_REACH, _REACH)
    square = x * x
    above, below = _polynomial(_ABOVE, square), _polynomial(_BELOW, square)
    return x * above / below


def _polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def _on_cpu(small: bool, graph: Any, inputs: Any) -> Any:
    """Torch's own compiler, with the faster tanh where there is one; without it, its caches on disk hold the result."""
    from torch._functorch import config
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.decomposition import select_decomp_table

    patches = {"cpp_wrapper": small}
    parts = [part.graph for part in graph.modules() if isinstance(part, torch.fx.GraphModule)]
    if not any("tanh" in str(node.target) for part in parts for node in part.nodes):
        return compile_fx(graph, inputs, config_patches=patches)
    table = {**select_decomp_table(), torch.ops.aten.tanh.default: fast_tanh}
    with config.patch(enable_autograd_cache=False):  # that cache does not look at the table
        return compile_fx(graph, inputs, config_patches=patches, decompositions=table)
