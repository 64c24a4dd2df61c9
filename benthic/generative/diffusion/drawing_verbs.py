"""What a fitted diffusion model draws: samples, the gaps of rows, examples like others."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from benthic.base.capabilities import Samples
from benthic.base.progress import Bar
from benthic.base.seeds import derive, generator
from benthic.base.settings import whole
from benthic.base.validation import speaking
from benthic.generative.diffusion.as_denoiser import AsDenoiser
from benthic.generative.diffusion.conditioning import edit, inpaint, start_of
from benthic.generative.diffusion.denoiser import Denoising
from benthic.generative.diffusion.grids import levels_between
from benthic.generative.diffusion.sampling import drawing, first_points, grid_for
from benthic.generative.diffusion.sampling import sample as draw_samples
from benthic.generative.diffusion.solvers import sampler_of
from benthic.generative.diffusion.solvers.base import Watch, clean
from benthic.generative.vae.conditions import Given, parse_given
from benthic.nets.evaluate import device_of
from benthic.training.trainer import Trainer
from benthic.uses.strangeness import anomaly
from benthic.uses.verbs import Uses, conditions

_IMPUTE_CHAINS, _IMPUTE_STEPS, _REPEATS = 8, 40, 5


class DrawingVerbs(AsDenoiser, Uses, Samples):
    """``sample``, ``impute`` and ``edit``."""

    def _check_sampling(self, sampler: Any, steps: Any) -> None:
        sampler_of(sampler)
        whole("steps", steps, 2)

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

    def anomaly(self, X: Any, given: Any = None, *, kind: str | None = None, reference: Any = None) -> Any:
        """How strange each row is, (n,): its negative log-likelihood, given its condition if that is known.

        kind, reference: as of ``benthic.uses.anomaly``.
        """
        return anomaly(self, X, kind, reference=reference, given=given)

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
            self._check_sampling(self._setting("sampler"), steps)
            found = edit(
                self._guided(self._function(torch.float32, True), condition, None, given is not None),
                rows,
                t_start=start,
                steps=int(steps),
                sampler=self._setting("sampler"),
                seed=derive(self._sampling_seed(seed), "edit"),
            )
        return self._data_out(self.scales_.inverse(found.flatten(1)), origin)


def _replaced(
    denoiser: Denoising, known: Tensor, mask: Tensor, *, steps: int, times: Any, generator: torch.Generator
) -> Tensor:
    """Samples along the flow whose known numbers are put back, with noise, after every step (Song et al., 2021)."""
    process, heun = denoiser.process, sampler_of("heun")
    grid = grid_for(process, heun, steps, times, None, True, denoiser.t_first)
    noise = process.draw_noise(known.shape, known, generator)  # of the known numbers, the same all the way
    x = first_points(process, known.shape, grid[0], known, generator)
    watch = Watch(len(grid))
    for here, there in pairwise(grid):
        x = torch.where(mask, process.mix(known, noise, here.t), x)
        x, _ = heun.step(denoiser, here, there, x, None, drawing(generator))
        watch.after(there, x)
    x = torch.where(mask, process.mix(known, noise, grid[-1].t), x)
    x = torch.where(mask, known, denoiser.data(x, grid[-1].t))
    watch.after(clean(len(grid)), x)
    watch.check()
    return x
