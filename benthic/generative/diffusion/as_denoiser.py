"""A fitted diffusion model as a denoiser: in which units, with which condition and guidance, in which parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.condition import Condition, Conditional
from benthic.base.errors import InvalidInput
from benthic.base.settings import is_number
from benthic.base.validation import speaking
from benthic.generative.diffusion.conditions import encode_condition
from benthic.generative.diffusion.denoiser import Clipped, Denoising, Guided
from benthic.generative.diffusion.fast import fast_call
from benthic.nets.embedding import null_condition
from benthic.nets.evaluate import device_of, in_type
from benthic.training.trainer import Trainer

_NUMBERS_AT_ONCE = {"cpu": 1 << 19, "cuda": 1 << 21}  # entries of pictures that go through the network together
_ROWS_AT_ONCE = 1 << 14


class AsDenoiser(Conditional):
    """A trained network, a process and an objective, and what they are asked with."""

    network_: Any
    scales_: Any
    process_: Any
    condition_kind_: Any
    _width: int
    _fail: Any
    _objective: Any
    _range: Any
    _setting: Any
    clip: bool
    condition_dropout: float
    trainer: Any

    def _function(self, dtype: torch.dtype, fast: bool) -> Callable[..., Any]:
        network: Callable[..., Any] = in_type(self.network_, dtype)
        if not fast or dtype == torch.float64:
            return network
        trainer = Trainer.of(self.trainer)
        device, how = device_of(self.network_), {"compile_": trainer.compile, "capture": trainer.capture}
        return fast_call(in_type(self.network_, dtype), device, precision=trainer.precision, **how)

    @property
    def _event(self) -> tuple[int, ...]:
        """The shape of an example."""
        return getattr(self, "_event_shape", None) or (self._width,)

    def denoiser(self, given: Any = None, *, n: int = 1, dtype: torch.dtype = torch.float32) -> Denoising:
        """The trained denoiser, in standard units; given: its condition, one or one for each of ``n`` rows."""
        check_is_fitted(self)
        return self._denoising(self._function(dtype, False), self._condition(given, n, dtype, "denoiser"))

    def _denoising(self, function: Callable[..., Any], condition: Tensor | None) -> Denoising:
        found: Denoising = self._objective().denoiser(function, condition)
        return found

    def _condition(self, given: Any, n: int, dtype: torch.dtype, method: str) -> Tensor | None:
        """What the network is told for each of ``n`` rows; nothing given is the null condition."""
        kind, device = self.condition_kind_, device_of(self.network_)
        if kind.kind == "none":
            if given is not None:
                raise self._fail(method, "given has a condition, but the model was fitted without y; fit(X, y) first")
            return None
        if given is None:
            if not self._knows_null:
                raise self._fail(
                    method,
                    f"the network learned only with its {kind.kind}; pass given=..., or fit with condition_dropout > 0",
                )
            return null_condition(kind.kind, kind.shape, n, torch.empty(0, dtype=dtype, device=device))
        with speaking(self, method):
            scales, classes = getattr(self, "condition_scales_", None), getattr(self, "classes_", None)
            found = encode_condition(given, kind, classes, scales, n).to(device)
        return found if kind.kind == "labels" else found.to(dtype)

    @property
    def condition_(self) -> Condition:
        """What ``y`` of ``fit`` was; it is needed where the network never learned without it."""
        check_is_fitted(self)
        kind, needed = self.condition_kind_, not self._knows_null
        if kind.kind == "labels":
            return Condition("labels", tuple(self.classes_.tolist()), needed=needed)
        return Condition(kind.kind, width=int(np.prod(kind.shape)) if kind.shape else 0, needed=needed)

    @property
    def _knows_null(self) -> bool:
        """Whether the network can be asked without a condition: there is none, or it learned without it too."""
        return self.condition_kind_.kind == "none" or self.condition_dropout > 0

    def _guided(self, function: Callable[..., Any], condition: Tensor | None, guidance: Any, given: bool) -> Denoising:
        """The denoiser of samples: guided where that is asked for, and clipped for pictures."""
        found = self._denoising(function, condition)
        scale, interval = parse_guidance(guidance)
        if scale is not None and scale != 1.0 and condition is not None:
            kind = self.condition_kind_
            if not given:
                raise InvalidInput("guidance goes with a condition; pass given=... too")
            if not self.condition_dropout:
                raise InvalidInput(
                    "guidance needs a network that also learned without its condition; fit with condition_dropout > 0"
                )
            null = null_condition(kind.kind, kind.shape, len(condition), condition)
            found = Guided(found, self._denoising(function, null.to(condition.dtype)), scale, interval)
        elif scale is not None and condition is None:
            raise InvalidInput("guidance needs a conditional model; fit(X, y) with labels or vectors first")
        if self._range is not None and self.clip:
            found = Clipped(found, *self._range)
        return found

    def _blocks(self, n: int) -> list[int]:
        """Sizes of the parts in which ``n`` rows go through the network."""
        most = _ROWS_AT_ONCE
        if len(self._event) == 3:
            numbers = _NUMBERS_AT_ONCE.get(device_of(self.network_).type, 1 << 19)
            most = max(16, min(most, numbers // self._width))
        return [most] * (n // most) + ([n % most] if n % most else [])


def parse_guidance(guidance: Any) -> tuple[float | None, tuple[float, float]]:
    """The scale of guidance, None for none, and the noise levels between which it acts."""
    if guidance is None:
        return None, (0.0, float("inf"))
    parts = tuple(guidance) if isinstance(guidance, (tuple, list)) else (guidance, 0.0, float("inf"))
    if len(parts) != 3 or not all(is_number(part) for part in parts):
        raise InvalidInput(f"guidance is {guidance!r}; give a number of at least 0, or (scale, low, high)")
    scale, low, high = (float(part) for part in parts)
    if not 0 <= scale < float("inf") or not 0 <= low < high:
        raise InvalidInput(
            f"guidance is {guidance!r}; the scale must be at least 0, and noise levels rise from low to high"
        )
    return scale, (low, high)
