"""The network of a fitted model as samplers call it: compiled, captured, in the precision it was trained in."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.compiling import compiled
from benthic.nets.unet import UNet, channels_last

_COMPILED: list[tuple[nn.Module, Callable[..., Any]]] = []  # the last few, newest at the end
_KEPT = 4
_EAGER = 3  # calls of a kind before it is captured, so that libraries have chosen their kernels
_KINDS = 4  # shapes that are captured, or compiled for


def fast_call(
    network: nn.Module, device: torch.device, *, compile_: bool, capture: bool, precision: str
) -> Callable[..., Any]:
    """The network as a function. compile_: compiled, once for each network. capture: on CUDA and not compiled, replayed
    as a CUDA graph. precision: ``bf16`` runs it in bfloat16, with answers in the type of the input.
    """
    call: Callable[..., Any] = network
    if compile_:
        call = _compiled(network, device)
    if precision == "bf16":
        call = _in_bfloat16(call, device)
    if capture and not compile_ and device.type == "cuda":
        call = CapturedCall(call)
    return call


def _compiled(network: nn.Module, device: torch.device) -> Callable[..., Any]:
    for known, call in _COMPILED:
        if known is network:
            return call
    if any(isinstance(part, UNet) for part in network.modules()):
        channels_last(network)  # what compiled convolutions read fastest
    made: Callable[..., Any] = WholeCalls(compiled(network, device, "sampling", dynamic=False), network)
    _COMPILED[:] = [*_COMPILED, (network, made)][-_KEPT:]
    return made


def _in_bfloat16(call: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    def lowered(x: Tensor, *rest: Any) -> Any:
        with torch.autocast(device.type, torch.bfloat16):
            found = call(x, *rest)
        return tuple(part.to(x.dtype) for part in found) if isinstance(found, tuple) else found.to(x.dtype)

    return lowered


class WholeCalls:
    """A compiled function of rows that is compiled for few numbers of rows, each of which takes as long as the first.

    The last block of samples is mostly a smaller one. Half as many rows as were compiled for, or more, are filled up
    with copies of the first; fewer go through the plain function.
    """

    def __init__(self, fast: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self._fast, self._plain = fast, plain
        self._sizes: list[int] = []  # rising

    def __call__(self, x: Tensor, *rest: Tensor) -> Any:
        """The answer for rows x (n, ...) and what belongs to them, (n, ...) each."""
        n = len(x)
        size = next((size for size in self._sizes if size >= n), None)
        if size is None and len(self._sizes) < _KINDS:
            self._sizes.append(n)
            size = n
        if size is None or size > 2 * n:
            return self._plain(x, *rest)
        found = self._fast(*(_filled(part, size) for part in (x, *rest)))
        return tuple(part[:n] for part in found) if isinstance(found, tuple) else found[:n]


def _filled(rows: Tensor, size: int) -> Tensor:
    """The rows (n, ...) with copies of the first up to (size, ...), in the usual layout: others are compiled anew."""
    missing = size - len(rows)
    return torch.cat([rows, rows[:1].expand(missing, *rows.shape[1:])]) if missing else rows.contiguous()


class CapturedCall:
    """A function of tensors without gradients, replayed as a CUDA graph once a kind of input has been seen often."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call, self._able = call, True
        self._seen: dict[Any, int] = {}
        self._graphs: dict[Any, tuple[Any, list[Tensor], Any]] = {}

    def __call__(self, *inputs: Any) -> Any:
        """The answer, in tensors of its own."""
        if torch.is_grad_enabled() or not all(isinstance(value, Tensor) for value in inputs):
            return self._call(*inputs)
        kind = tuple((value.shape, value.dtype) for value in inputs)
        if kind not in self._graphs and not self._ready(kind, inputs):
            return self._call(*inputs)
        graph, places, answer = self._graphs[kind]
        for place, value in zip(places, inputs, strict=True):
            place.copy_(value)
        graph.replay()
        return tuple(part.clone() for part in answer) if isinstance(answer, tuple) else answer.clone()

    def _ready(self, kind: Any, inputs: tuple[Tensor, ...]) -> bool:
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if not self._able or self._seen[kind] <= _EAGER or len(self._graphs) >= _KINDS:
            return False
        places = [value.clone() for value in inputs]
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                answer = self._call(*places)
        except RuntimeError as error:
            self._able = False
            cause = str(error).splitlines()[0]
            warnings.warn(f"the network is not captured as a CUDA graph, which is slower: {cause}", stacklevel=2)
            return False
        self._graphs[kind] = (graph, places, answer)
        return True
