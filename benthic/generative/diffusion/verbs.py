"""What a fitted diffusion model is asked for: samples, likelihoods, codes, gaps filled, pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Encodes, HasDensity, Samples
from benthic.base.condition import Condition, Conditional
from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Likelihood
from benthic.base.progress import Bar
from benthic.base.seeds import derive, generator
from benthic.base.validation import speaking
from benthic.generative.diffusion.bounds import continuous_bound
from benthic.generative.diffusion.conditioning import edit, inpaint, start_of
from benthic.generative.diffusion.conditions import encode_condition
from benthic.generative.diffusion.denoiser import Clipped, Denoising, Guided, first_time
from benthic.generative.diffusion.fast import fast_call
from benthic.generative.diffusion.flow_density import flow_likelihood
from benthic.generative.diffusion.grids import levels_between, time_grid
from benthic.generative.diffusion.picture import diffusion_picture
from benthic.generative.diffusion.processes import AddedNoise
from benthic.generative.diffusion.sampling import drawing, grid_for
from benthic.generative.diffusion.sampling import sample as draw_samples
from benthic.generative.diffusion.solvers import sampler_of
from benthic.generative.diffusion.solvers.controlled import ODE, follow
from benthic.generative.flows.network import rademacher
from benthic.generative.vae.conditions import Given, parse_given
from benthic.nets.embedding import null_condition
from benthic.nets.evaluate import device_of, in_type
from benthic.training.trainer import Trainer
from benthic.uses.verbs import Uses, conditions

EXACT_COLUMNS = 16  # up to so many the trace of the flow's Jacobian is summed exactly
_PROBES = 4
_BOUND_DRAWS = 16
_WAY = 41  # times along the probability flow at which codes are followed
_IMPUTE_CHAINS, _IMPUTE_STEPS, _REPEATS = 8, 40, 5
_NUMBERS_AT_ONCE = {"cpu": 1 << 19, "cuda": 1 << 21}  # entries of pictures that go through the network together
_ROWS_AT_ONCE = 1 << 14

_with_exact_trace: Callable[[Callable[..., Any]], Any] = available_if(lambda model: model._exact)


class DiffusionVerbs(Uses, Encodes, Samples, HasDensity, Conditional):
    """The verbs of a model with a trained network, a process and an objective."""

    network_: Any
    scales_: Any
    process_: Any
    condition_kind_: Any
    _width: int

    # -- the denoiser ----------------------------------------------------------------------------------

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
        scale, interval = _parse_guidance(guidance)
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

    # -- samples ---------------------------------------------------------------------------------------

    def _check_sampling(self, sampler: Any, steps: Any) -> None:
        sampler_of(sampler)
        if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 2:
            raise InvalidInput(f"steps is {steps!r}; sampling takes a whole number of at least 2")

    @torch.no_grad()
    def sample(
        self,
        n: int = 1,
        *,
        given: Any = None,
        seed: Any = None,
        steps: int | None = None,
        sampler: Any = None,
        guidance: Any = None,
        times: Any = None,
    ) -> Any:
        """``n`` new examples.

        given: labels or vectors, one or ``n``; or rows with NaN (one or ``n``) whose gaps are drawn given the rest; or
        a dict ``{"y": ..., "X": ...}`` of both. steps, sampler: instead of the model's own. guidance: exaggerates the
        condition: 1 is the conditional model, 0 ignores it, 2 or 3 are usual; a triple (scale, low, high) acts between
        two noise levels σ/α. times: of the steps, ``uniform``, ``karras``, ``log_snr`` or falling times. Gaps are drawn
        by ancestral steps, whatever the sampler, since going back to more noise needs steps that forget.
        """
        self._check_draws(n)
        seed = self._sampling_seed(seed)
        steps = self._setting("steps") if steps is None else steps
        sampler = self._setting("sampler") if sampler is None else sampler
        with speaking(self, "sample"):
            self._check_sampling(sampler, steps)
            found = self._parse_given(given)
        options = {"steps": int(steps), "sampler": sampler, "guidance": guidance, "times": times}
        if found.X is not None:
            return self._sample_gaps(n, found, seed, options)
        drawn = self._draw(n, found.y, seed, **options)
        return self._data_out(self.scales_.inverse(drawn.flatten(1)))

    def _parse_given(self, given: Any) -> Given:
        if self.condition_kind_.kind == "none" and given is not None:
            return parse_given(given, "labels")
        return parse_given(given, self.condition_kind_.kind)

    def _draw(
        self, n: int, y: Any, seed: int, *, steps: int, sampler: Any, guidance: Any = None, times: Any = None
    ) -> Tensor:
        """Samples in the units of the network, (n, *event)."""
        function, noise = self._function(torch.float32, True), self._noise(seed)
        condition = self._condition(y, n, torch.float32, "sample")
        parts, sizes = [], self._blocks(n)
        bar = Bar(type(self).__name__, steps * len(sizes), Trainer.of(self.trainer).verbose, "steps")
        begin = 0
        try:
            for size in sizes:
                some = None if condition is None else condition[begin : begin + size]
                with speaking(self, "sample"):
                    parts.append(
                        draw_samples(
                            self._guided(function, some, guidance, y is not None),
                            (size, *self._event),
                            sampler=sampler,
                            steps=steps,
                            times=times,
                            generator=noise,
                            dtype=torch.float32,
                            device=device_of(self.network_),
                            progress=lambda *_: bar.tick(),
                        )
                    )
                begin += size
        finally:
            bar.close()
        return torch.cat(parts)

    def _sample_gaps(self, n: int, found: Given, seed: int, options: dict[str, Any]) -> Any:
        known, origin = self._arrive(found.X, "sample", missing=True)
        with speaking(self, "sample"):
            known = conditions(known, n)
        options["sampler"] = "ancestral"  # going back to a higher noise level needs steps that forget
        condition = self._condition(found.y, n, torch.float32, "sample")
        drawn = self._fill(known, generator(derive(seed, "gaps")), condition, found.y is not None, **options)
        rows = torch.where(torch.isnan(known), drawn.to(known), known)
        return self._data_out(rows, replace(origin, index=None))  # new rows have no labels

    def _fill(
        self,
        X: Tensor,
        noise: torch.Generator,
        condition: Tensor | None,
        told: bool = False,
        *,
        steps: int,
        sampler: Any = "ancestral",
        guidance: Any = None,
        times: Any = None,
    ) -> Tensor:
        """A draw of the gaps of rows in data units; told: whether the condition was given."""
        device = device_of(self.network_)
        rows = self.scales_.transform(X.to(device)).float()
        mask = ~torch.isnan(rows)
        function = self._function(torch.float32, True)
        parts, begin = [], 0
        for size in self._blocks(len(X)):
            part = slice(begin, begin + size)
            shape = (size, *self._event)
            some = None if condition is None else condition[part]
            known, where = torch.nan_to_num(rows[part]).reshape(shape), mask[part].reshape(shape)
            settings = {"steps": steps, "times": times, "generator": noise}
            with speaking(self, "sample"):
                denoiser = self._guided(function, some, guidance, told)
                if self.process_.gaussian:
                    drawn = inpaint(denoiser, known, where, sampler=sampler, repeats=_REPEATS, **settings)
                else:
                    drawn = _replaced(denoiser, known, where, **settings)
            parts.append(drawn.flatten(1))
            begin += size
        filled: Tensor = self.scales_.inverse(torch.cat(parts))
        return filled

    def impute(self, X: Any, given: Any = None) -> Any:
        """``X`` with every NaN replaced by its expectation given the rest of its row, and its condition if known."""
        if given is None:
            return super().impute(X)
        tensor, origin = self._arrive(X, "impute", missing=True)
        return self._data_out(torch.where(torch.isnan(tensor), self._impute(tensor, given).to(tensor), tensor), origin)

    @torch.no_grad()
    def _impute(self, X: Tensor, given: Any = None) -> Tensor:
        steps = min(self._setting("steps"), _IMPUTE_STEPS)
        condition = self._condition(given, len(X), torch.float32, "impute")
        if condition is not None:
            condition = condition.repeat(_IMPUTE_CHAINS, *[1] * (condition.ndim - 1))
        rows = X.repeat(_IMPUTE_CHAINS, 1)
        drawn = self._fill(rows, generator(0, "impute"), condition, given is not None, steps=steps)
        return drawn.reshape(_IMPUTE_CHAINS, *X.shape).mean(0)  # the same gaps, the same answer

    def edit(
        self, X: Any, strength: float = 0.5, *, given: Any = None, seed: Any = None, steps: int | None = None
    ) -> Any:
        """Examples like ``X``: each is noised and denoised again (Meng et al., 2022).

        strength: how far, in (0, 1]; 1 leaves nothing of it. given: the condition under which it is denoised. steps:
        from there to the data, as many as of ``sample`` or, on a chain, as there are.
        """
        tensor, origin = self._arrive(X, "edit")
        rows = self.scales_.transform(tensor.to(device_of(self.network_))).float().reshape(-1, *self._event)
        condition = self._condition(given, len(rows), torch.float32, "edit")
        with speaking(self, "edit"), torch.no_grad():
            start = start_of(self.process_, strength)
            if steps is None:
                steps = min(self._setting("steps"), levels_between(self.process_, start))
            found = edit(
                self._guided(self._function(torch.float32, True), condition, None, given is not None),
                rows,
                t_start=start,
                steps=steps,
                sampler=self._setting("sampler"),
                seed=derive(self._sampling_seed(seed), "edit"),
            )
        return self._data_out(self.scales_.inverse(found.flatten(1)), origin)

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

    def _encode(self, X: Tensor) -> Tensor:
        times, how = self._way(), ODE("rk4")
        rows = self.scales_.transform(X)
        codes = self._through(rows, lambda d, x: follow(d, x, times, how)[-1].flatten(1), None, "encode")
        return codes / float(self.process_.prior_scale())

    def _decode(self, Z: Tensor) -> Tensor:
        times, how = self._way()[::-1], ODE("rk4")
        points = Z * self.process_.prior_scale()
        points = self._through(points, lambda d, z: follow(d, z, times, how)[-1].flatten(1), None, "decode")
        data: Tensor = self.scales_.inverse(points)
        return data

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
    def log_prob(self, X: Any) -> Any:
        """Log-density of each row, (n,), to the tolerance of the solver; absent where the trace is estimated."""
        return self.likelihood(X, "exact").value

    def bits_per_dim(self, X: Any, method: str | None = None, *, level: float = 1 / 256, given: Any = None) -> Any:
        """Bits for each number of pictures whose values lie ``level`` apart, (n,), by uniform dequantization.

        Each value is moved by a random part of a level; what comes out is, in expectation, an upper bound of the bits
        that the discrete pictures take under this model.
        """
        tensor, origin = self._arrive(X, "bits_per_dim")
        if not _is_number(level) or not 0 < level < float("inf"):
            raise self._fail("bits_per_dim", f"level is {level!r}; the distance between values must be positive")
        spread = torch.rand(tensor.shape, generator=generator(0, "dequantize"), dtype=tensor.dtype)
        value = self._likelihood(tensor + level * spread.to(tensor.device), method, given).value
        bits = -(value / self._width + np.log(level)) / np.log(2)
        return origin.mirror(bits)

    def grad_log_prob(self, X: Any, t: Any = None) -> Any:
        """The score of the data, noised up to time ``t`` (by default the least the network knows), like ``X``."""
        tensor, origin = self._arrive(X, "grad_log_prob")
        time = self.process_.t_min if t is None else t
        low, high = self.process_.t_min, self.process_.t_max
        if not _is_number(time) or not low <= time <= high:
            raise self._fail("grad_log_prob", f"t is {t!r}; give one time, between {low:g} and {high:g}")
        time = float(time)
        rows = self.scales_.transform(tensor)
        with torch.no_grad():
            found = self._through(rows, lambda d, x: d.score(x, time).flatten(1), None, "grad_log_prob")
        scale = torch.as_tensor(self.scales_.scale).to(found)
        return origin.mirror((found / scale).reshape(len(tensor), *self._event))

    # -- pictures --------------------------------------------------------------------------------------

    def plot(self) -> Any:
        """The loss over training, the loss by noise level, and a few samples of pictures or of two columns."""
        check_is_fitted(self)
        return diffusion_picture(self)


def _replaced(
    denoiser: Denoising, known: Tensor, mask: Tensor, *, steps: int, times: Any, generator: torch.Generator
) -> Tensor:
    """Samples along the flow whose known numbers are put back, with noise, after every step (Song et al., 2021)."""
    process, heun = denoiser.process, sampler_of("heun")
    grid = grid_for(process, heun, steps, times, None, True, denoiser.t_first)
    noise = process.draw_noise(known.shape, known, generator)  # of the known numbers, the same all the way
    x = process.draw_prior(known.shape, known, generator)
    for here, there in pairwise(grid):
        x = torch.where(mask, process.mix(known, noise, here.t), x)
        x, _ = heun.step(denoiser, here, there, x, None, drawing(generator))
    x = torch.where(mask, process.mix(known, noise, grid[-1].t), x)
    return torch.where(mask, known, denoiser.data(x, grid[-1].t))


def _parse_guidance(guidance: Any) -> tuple[float | None, tuple[float, float]]:
    if guidance is None:
        return None, (0.0, float("inf"))
    parts = tuple(guidance) if isinstance(guidance, (tuple, list)) else (guidance, 0.0, float("inf"))
    if len(parts) != 3 or not all(_is_number(part) for part in parts):
        raise InvalidInput(f"guidance is {guidance!r}; give a number of at least 0, or (scale, low, high)")
    scale, low, high = (float(part) for part in parts)
    if not 0 <= scale < float("inf") or not 0 <= low < high:
        raise InvalidInput(
            f"guidance is {guidance!r}; the scale must be at least 0, and noise levels rise from low to high"
        )
    return scale, (low, high)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
