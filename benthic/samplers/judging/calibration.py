r"""Does a sampler draw from the posterior it claims? Simulation-based calibration.

Draw parameters from the prior, data from the parameters, and the posterior of that data: the rank of the true value
among its posterior draws is uniform when everything is right. Talts, Betancourt, Simpson, Vehtari and Gelman, 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as trees

from benthic.base.errors import InvalidInput
from benthic.base.quiet import quiet
from benthic.base.seeds import derive, generator, seed_of
from benthic.samplers.judging import diagnostics
from benthic.samplers.judging.draws import Draws, entries
from benthic.samplers.judging.uniformity import ecdf_band, ecdf_p_value, histogram_p_value


def calibrate(
    prior: Callable[[int, torch.Generator], Any],
    simulate: Callable[[Any, torch.Generator], Any],
    infer: Callable[[Any, int], Any],
    *,
    simulations: int = 200,
    levels: int = 63,
    together: bool = False,
    seed: int | None = None,
) -> Calibration:
    """Simulation-based calibration of ``infer``.

    prior: (count, generator) -> parameters with a leading dimension count: a tensor or a dict of tensors.
    simulate: (parameters, generator) -> data with the same leading dimension: a tensor, dict or tuple.

    infer: (data, seed) -> ``Draws``, or name -> (chains, draws, ...), for one set of data without the leading
    dimension. With ``together=True`` it gets all sets at once and gives one chain a set, (simulations, draws, ...).

    levels: how many posterior draws the truth is ranked among. They are taken evenly from all draws, which should
    be many more, since ranks are uniform only among independent draws.

    >>> def prior(count, generator):
    ...     return torch.randn(count, generator=generator, dtype=torch.float64)
    >>> def simulate(mean, generator):
    ...     return mean + torch.randn(len(mean), generator=generator, dtype=torch.float64)
    >>> def exact(data, seed):  # the posterior is N(data / 2, 1 / 2)
    ...     noise = torch.randn(len(data), 63, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    ...     return {"x": data[:, None] / 2 + noise / 2**0.5}
    >>> calibrate(prior, simulate, exact, simulations=500, together=True, seed=0).calibrated()
    True
    >>> def narrow(data, seed):
    ...     return {"x": data[:, None] / 2 + (exact(data, seed)["x"] - data[:, None] / 2) / 2}
    >>> calibrate(prior, simulate, narrow, simulations=500, together=True, seed=0).calibrated()
    False
    """
    if simulations < 2 or levels < 1:
        raise InvalidInput(f"calibrate: simulations is {simulations} and levels {levels}; take at least 20 and 15")
    root = seed_of(seed)
    truth = prior(simulations, generator(root, "prior"))
    named = dict(truth) if isinstance(truth, Mapping) else {"x": truth}
    for name, value in named.items():
        if not isinstance(value, Tensor) or not value.ndim or len(value) != simulations:
            raise InvalidInput(f"calibrate: the prior gave {name!r} without a leading dimension of {simulations}")
    data = simulate(truth, generator(root, "data"))
    # Chains of different data disagree, and effective sizes are judged below.
    with quiet(message=".*chains disagree"):
        if together:
            ranks, sizes = _ranks_together(
                named, _named(infer(data, derive(root, "infer"))), levels, generator(root, "ties")
            )
        else:
            ranks, sizes = _ranks_in_turn(named, data, infer, levels, root)
    return Calibration(ranks, levels, sizes)


class Calibration:
    """Ranks of true values among posterior draws.

    ranks: name -> (simulations, ...) integers in 0 .. levels. sizes: (simulations,) smallest effective sample size
    of each posterior, where known.
    """

    def __init__(self, ranks: Mapping[str, Tensor], levels: int, sizes: Tensor | None = None) -> None:
        self.ranks, self.levels, self.sizes = dict(ranks), levels, sizes
        self.simulations = len(next(iter(self.ranks.values())))

    @property
    def names(self) -> list[str]:
        """One name a scalar."""
        return [entry for name, value in self.ranks.items() for entry in entries(name, value.shape[1:])]

    def columns(self) -> dict[str, Tensor]:
        """Entry name -> (simulations,) ranks."""
        flat = [column for value in self.ranks.values() for column in value.reshape(self.simulations, -1).T]
        return dict(zip(self.names, flat, strict=True))

    def p_values(self, method: str = "ecdf") -> dict[str, float]:
        """Entry name -> p-value of uniform ranks, by the largest departure of the ECDF or by chi-square of bins."""
        tests = {"ecdf": ecdf_p_value, "chi2": histogram_p_value}
        if method not in tests:
            raise InvalidInput(f"Calibration.p_values: method is {method!r}; it must be 'ecdf' or 'chi2'")
        return {name: tests[method](column, self.levels) for name, column in self.columns().items()}

    def calibrated(self, level: float = 0.01, method: str = "ecdf") -> bool:
        """Whether no entry departs from uniform ranks; level: chance of a false alarm over all entries together."""
        found = self.p_values(method)
        return min(found.values()) >= level / len(found)

    def summary(self) -> str:
        """P-values of every entry and what the shape of its ranks says."""
        ecdf, chi2 = self.p_values(), self.p_values("chi2")
        lines = [f"{self.simulations} simulations, ranks among {self.levels} draws"]
        side = max(map(len, self.names))
        lines.append(f"{'':{side}}  p (ecdf)  p (chi2)")
        for name, column in self.columns().items():
            said = _shape(column, self.levels)
            lines.append(f"{name:{side}}  {ecdf[name]:8.3f}  {chi2[name]:8.3f}" + (f"  {said}" if said else ""))
        if self.sizes is not None:
            few = int((self.sizes < self.levels / 2).sum())
            if few > 0.05 * self.simulations:
                lines.append(
                    f"- {few} sets of draws are worth fewer than {self.levels / 2:g} independent ones: autocorrelated "
                    "draws make ranks uneven at the ends; take more"
                )
        return "\n".join(lines)

    def plot(self, kind: str = "ecdf") -> Any:
        """A figure: "ecdf" (its difference from uniform with a 95 % band for all of it) or "histogram"."""
        from benthic.samplers.judging.uniformity import picture

        if kind not in ("ecdf", "histogram"):
            raise InvalidInput(f"Calibration.plot: kind is {kind!r}; it must be 'ecdf' or 'histogram'")
        return picture(self.columns(), self.levels, kind)

    def band(self, share: float = 0.95) -> tuple[Tensor, Tensor]:
        """Lower and upper ends (levels,) between which the whole ECDF lies with that probability."""
        return ecdf_band(self.simulations, self.levels, share)


def _named(drawn: Any) -> dict[str, Tensor]:
    return (drawn if isinstance(drawn, Draws) else Draws(drawn)).values


def _ranks_together(
    truth: Mapping[str, Tensor], drawn: Mapping[str, Tensor], levels: int, ties: torch.Generator
) -> tuple[dict[str, Tensor], Tensor]:
    _check_names(truth, drawn)
    ranks, sizes = {}, []
    for name, value in truth.items():
        x = drawn[name]  # (simulations, draws, ...)
        if len(x) != len(value):
            raise InvalidInput(
                f"calibrate: infer gave {len(x)} chains of {name!r}; together=True needs one a simulation"
            )
        ranks[name] = _rank(value, _evenly(x.movedim(1, 0), levels, name), ties)
        if x.shape[1] >= 4:
            size = diagnostics.ess_bulk(x.movedim(0, 1)[None])  # one chain, simulations as entries
            sizes.append(size.reshape(len(x), -1).amin(1))
    return ranks, torch.stack(sizes).amin(0).cpu() if sizes else torch.full((len(x),), math.nan)


def _ranks_in_turn(
    truth: Mapping[str, Tensor], data: Any, infer: Callable[[Any, int], Any], levels: int, root: int
) -> tuple[dict[str, Tensor], Tensor]:
    parts, ties = [], generator(root, "ties")
    for i in range(len(next(iter(truth.values())))):
        one = trees.tree_map(lambda leaf, i=i: leaf[i], data)
        drawn = _named(infer(one, derive(root, "infer", i)))
        parts.append(_ranks_of_one({name: value[i] for name, value in truth.items()}, drawn, levels, ties))
    ranks = {name: torch.stack([rank[name] for rank, _ in parts]) for name in truth}
    return ranks, torch.stack([size for _, size in parts])


def _ranks_of_one(
    truth: Mapping[str, Tensor], drawn: Mapping[str, Tensor], levels: int, ties: torch.Generator
) -> tuple[dict[str, Tensor], Tensor]:
    _check_names(truth, drawn)
    ranks, least = {}, torch.tensor(math.inf, dtype=torch.float64)
    for name, value in truth.items():
        x = drawn[name]
        # Draw by draw over the chains, so that an even choice takes from all of them.
        ranks[name] = _rank(value, _evenly(x.movedim(1, 0).flatten(0, 1), levels, name), ties)
        if x.shape[1] >= 4:
            least = torch.minimum(least, diagnostics.ess_bulk(x).amin().double().cpu())
    return ranks, least


def _check_names(truth: Mapping[str, Tensor], drawn: Mapping[str, Tensor]) -> None:
    missing = [name for name in truth if name not in drawn]
    if missing:
        raise InvalidInput(f"calibrate: infer gave {[*drawn]}; the prior's {missing[0]!r} is not among them")


def _evenly(x: Tensor, levels: int, name: str) -> Tensor:
    """So many of the first dimension, as far from each other as can be."""
    if len(x) < levels:
        raise InvalidInput(f"calibrate: infer gave {len(x)} draws of {name!r}; {levels} are needed (levels)")
    return x[torch.linspace(0, len(x) - 1, levels, dtype=torch.float64).round().long()]


def _rank(truth: Tensor, drawn: Tensor, ties: torch.Generator) -> Tensor:
    """How many of drawn (levels, ...) lie below truth (...), ties broken at random."""
    if drawn.shape[1:] != truth.shape:
        raise InvalidInput(
            f"calibrate: infer gave draws of shape {tuple(drawn.shape[1:])}, truths {tuple(truth.shape)}"
        )
    drawn, truth = drawn.cpu(), truth.cpu()
    below, equal = (drawn < truth).sum(0), (drawn == truth).sum(0)
    return below + (torch.rand(equal.shape, generator=ties, dtype=torch.float64) * (equal + 1)).floor().long()


def _shape(ranks: Tensor, levels: int) -> str:
    """What ranks that are not uniform look like."""
    n = len(ranks)
    u = (ranks.double() + 0.5) / (levels + 1)
    lean = float((u.mean() - 0.5) * math.sqrt(12 * n))
    # The variance of (u - 1/2)^2 under uniform u is 1/180.
    bowl = float(((u - 0.5).square().mean() - 1 / 12) * math.sqrt(180 * n))
    if abs(lean) > 3.5:
        return "posteriors lie too low" if lean > 0 else "posteriors lie too high"
    if abs(bowl) > 3.5:
        return "posteriors are too narrow" if bowl > 0 else "posteriors are too wide"
    return ""
