"""What a fitted diffusion model says of examples: likelihoods, scores, codes along the probability flow."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Encodes, HasDensity
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator
from benthic.base.settings import is_number, is_real
from benthic.base.validation import speaking
from benthic.generative.diffusion.as_denoiser import AsDenoiser
from benthic.generative.diffusion.bounds import continuous_bound
from benthic.generative.diffusion.denoiser import Denoising, first_time
from benthic.generative.diffusion.flow_density import flow_likelihood
from benthic.generative.diffusion.grids import time_grid
from benthic.generative.diffusion.likelihood import grad_log_prob as stein_score
from benthic.generative.diffusion.processes import AddedNoise
from benthic.generative.diffusion.solvers.controlled import ODE, follow
from benthic.generative.flows.network import rademacher
from benthic.nets.evaluate import device_of

EXACT_COLUMNS = 16  # up to so many the trace of the flow's Jacobian is summed exactly
_PROBES = 4
_BOUND_DRAWS = 16
_SCORE_NOISE = 0.03  # σ/α under which the error of a network, over the noise, drowns the score
_WAY = 41  # times along the probability flow at which codes are followed

_with_exact_trace: Callable[[Callable[..., Any]], Any] = available_if(lambda model: model._exact)


class DensityVerbs(AsDenoiser, Encodes, HasDensity):
    """``likelihood`` and its relatives, ``encode`` and ``decode``."""

    # -- codes -----------------------------------------------------------------------------------------

    def _through(self, X: Tensor, function: Callable[[Denoising, Tensor], Tensor], given: Any, method: str) -> Tensor:
        """``function(denoiser, points)`` over blocks of rows in the units of the network, in the type of ``X``."""
        network = self._function(X.dtype, False)
        condition = self._condition(given, len(X), X.dtype, method)
        parts, begin = [], 0
        for size in self._blocks(len(X)):
            part = slice(begin, begin + size)
            points = X[part].to(device_of(self.network_)).reshape(size, *self._event)
            some = None if condition is None else condition[part]
            with speaking(self, method):
                parts.append(function(self._denoising(network, some), points))
            begin += size
        return torch.cat(parts)

    def _way(self) -> list[float]:
        """Times from data to noise, closer where there is little noise; the same for all rows."""
        process = self.process_
        if isinstance(process, AddedNoise):
            return [float(t) for t in time_grid(process, _WAY, "karras").flip(0)]
        last = first_time(process, self._setting("target"))
        return [float(process.t_min + (last - process.t_min) * u**2) for u in np.linspace(0, 1, _WAY)]

    def _encode(self, X: Tensor, given: Any = None) -> Tensor:
        times, how = self._way(), ODE("rk4")
        rows = self.scales_.transform(X)
        codes = self._through(rows, lambda d, x: follow(d, x, times, how)[-1].flatten(1), given, "encode")
        return codes / float(self.process_.prior_scale())

    def _decode(self, Z: Tensor, given: Any = None) -> Tensor:
        times, how = self._way()[::-1], ODE("rk4")
        points = Z * self.process_.prior_scale()
        points = self._through(points, lambda d, z: follow(d, z, times, how)[-1].flatten(1), given, "decode")
        data: Tensor = self.scales_.inverse(points)
        return data

    def encode(self, X: Any, given: Any = None) -> Any:
        """Where the probability flow takes each row, in units of the noise it ends in; given: conditions, one or n."""
        tensor, origin = self._arrive(X, "encode")
        return origin.mirror(self._encode(tensor, given))

    def decode(self, Z: Any, given: Any = None) -> Any:
        """The example of each code, back along the probability flow; given: conditions, one or one a row."""
        codes, origin = self._arrive_codes(Z, "decode")
        return self._data_out(self._decode(codes, given), origin)

    def reconstruct(self, X: Any, given: Any = None) -> Any:
        """``decode(encode(X))``, given the same conditions."""
        tensor, origin = self._arrive(X, "reconstruct")
        return self._data_out(self._decode(self._encode(tensor, given), given), origin)

    # -- likelihood ------------------------------------------------------------------------------------

    @property
    def _exact(self) -> bool:
        """Whether likelihoods are exact to the tolerance of the solver by default."""
        return getattr(self, "_width", 0) <= EXACT_COLUMNS and not self._has_categories

    @property
    def _has_categories(self) -> bool:
        schema = getattr(self, "schema_", None)
        return schema is not None and any(column.kind in ("category", "boolean") for column in schema.columns)

    def likelihood(self, X: Any, method: str | None = None, *, given: Any = None) -> Likelihood:
        """Log-likelihood of each row in nats and data units, given its condition where there is one.

        method: ``ode``, along the probability flow, with the trace exact up to 16 columns and else by 4 random probes;
        ``exact`` or ``hutchinson(k)`` choose that; ``elbo`` or ``elbo(k)``, the variational bound by k draws. Without
        ``given`` a conditional model answers for the data as a whole.
        """
        tensor, origin = self._arrive(X, "likelihood")
        found = self._likelihood(tensor, method, given)
        return replace(found, value=origin.mirror(found.value), stderr=origin.mirror(found.stderr))

    def _likelihood(self, X: Tensor, method: str | None, given: Any = None) -> Likelihood:
        if self._has_categories:
            raise self._fail("likelihood", "categories have no density here; use a VAE or a mixture for them")
        kind, count = self._parse_method(method)
        if kind == "elbo" and not self.process_.gaussian:
            name = type(self.process_).__name__
            raise self._fail("likelihood", f"{name} has no normal steps and so no bound; use 'ode' or 'hutchinson(k)'")
        kept: list[Likelihood] = []

        def one(denoiser: Denoising, x: Tensor) -> Tensor:
            if kind == "elbo":
                found = continuous_bound(denoiser, x, samples=count, seed=0).likelihood()
            else:
                signs = None if kind == "exact" else rademacher((count, *x.shape), x, generator(0, "likelihood"))
                found = flow_likelihood(denoiser, x, self._way(), signs)
            kept.append(found)
            return torch.stack([found.value, found.stderr], 1)

        both = self._through(self.scales_.transform(X), one, given, "likelihood")
        return replace(kept[0], value=both[:, 0] + self.scales_.log_jacobian(), stderr=both[:, 1])

    def _parse_method(self, method: str | None) -> tuple[str, int]:
        """The kind, ``exact``, ``hutchinson`` or ``elbo``, and how many draws."""
        if method in (None, "ode"):
            return ("exact", 0) if self._exact else ("hutchinson", _PROBES)
        match = re.fullmatch(r"(exact|hutchinson|elbo)(?:\((\d+)\))?", str(method))
        if match is None or match[2] == "0" or (match[1] == "exact" and match[2]):
            raise self._fail(
                "likelihood", f"method {method!r} is unknown; use 'ode', 'exact', 'hutchinson(k)' or 'elbo(k)'"
            )
        return match[1], int(match[2] or (_BOUND_DRAWS if match[1] == "elbo" else _PROBES))

    @_with_exact_trace
    def log_prob(self, X: Any, given: Any = None) -> Any:
        """Log-density of each row, (n,), to the tolerance of the solver; absent where the trace is estimated."""
        return self.likelihood(X, "exact", given=given).value

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood per row in nats; of a conditional model, with ``y`` that of the rows given it."""
        check_is_fitted(self)
        return self.likelihood(X, given=None if self.condition_kind_.kind == "none" else y).mean()

    def bits_per_dim(self, X: Any, method: str | None = None, *, level: float = 1 / 256, given: Any = None) -> Any:
        """Bits for each number of pictures whose values lie ``level`` apart, (n,), by uniform dequantization.

        Each value is moved by a random part of a level; what comes out is, in expectation, an upper bound of the bits
        that the discrete pictures take under this model.
        """
        tensor, origin = self._arrive(X, "bits_per_dim")
        if not is_real(level) or not level > 0:
            raise self._fail("bits_per_dim", f"level is {level!r}; the distance between values must be positive")
        spread = torch.rand(tensor.shape, generator=generator(0, "dequantize"), dtype=tensor.dtype)
        value = self._likelihood(tensor + level * spread.to(tensor.device), method, given).value
        bits = -(value / self._width + np.log(level)) / np.log(2)
        return origin.mirror(bits)

    def grad_log_prob(self, X: Any, t: Any = None, *, given: Any = None) -> Any:
        """The score of the data, noised up to time ``t``, like ``X``; given: conditions, one or one a row.

        Without ``t`` there is noise of 3 % of a standard deviation, or the least that the network knows: below, its
        error divided by the noise is larger than the score. The score of Poisson flow with few added dimensions hangs
        on how the answer changes with the noise, and is of use only for larger ``t``.
        """
        tensor, origin = self._arrive(X, "grad_log_prob")
        low, high = self.process_.t_min, self.process_.t_max
        time = self._least_time() if t is None else t
        if not is_number(time) or not low <= time <= high:
            raise self._fail("grad_log_prob", f"t is {t!r}; give one time, between {low:g} and {high:g}")
        time = float(time)
        rows = self.scales_.transform(tensor)
        found = self._through(rows, lambda d, x: stein_score(d, x, time).flatten(1), given, "grad_log_prob")
        scale = torch.as_tensor(self.scales_.scale).to(found)
        return origin.mirror((found / scale).reshape(len(tensor), *self._event))

    def _least_time(self) -> float:
        """The least noise at which the score is asked for where no time is said."""
        process = self.process_
        if float(process.noise_level(process.t_min).exp()) >= _SCORE_NOISE:
            return float(process.t_min)
        return float(process.snap(process.time_of_noise(_SCORE_NOISE)))
