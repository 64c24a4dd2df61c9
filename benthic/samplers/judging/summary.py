"""A table of draws, and the sentences a person should read before believing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from benthic.samplers.judging import diagnostics

if TYPE_CHECKING:
    from benthic.samplers.judging.draws import Draws

GOOD_RHAT = 1.01
FAR_RHAT = 1.1
FEWEST_EFFECTIVE = 400
LEAST_BFMI = 0.3
_ROWS = 40


class Summary(NamedTuple):
    """Numbers of every entry and what to worry about; as text it is a table.

    names: one a row. columns: title -> (rows,) on the CPU. warnings: sentences. head: one line about the run.
    """

    names: list[str]
    columns: dict[str, Tensor]
    warnings: list[str]
    head: str

    def __str__(self) -> str:
        body = [self.head, *_table(self.names[:_ROWS], self.columns)]
        if len(self.names) > _ROWS:
            body.append(f"... and {len(self.names) - _ROWS} more")
        return "\n".join([*body, *(f"- {sentence}" for sentence in self.warnings)])

    def __repr__(self) -> str:
        return str(self)

    def row(self, name: str) -> dict[str, float]:
        """The numbers of one entry."""
        place = self.names.index(name)
        return {title: float(column[place]) for title, column in self.columns.items()}


def summarize(draws: Draws, probs: Sequence[float] = (0.05, 0.5, 0.95)) -> Summary:
    """Mean, sd, error of the mean, quantiles, effective sizes, R-hat, and warnings.

    >>> from benthic.samplers.judging.draws import Draws
    >>> x = torch.randn(4, 500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> print(summarize(Draws({"x": x})))
    4 chains of 500 draws
          mean      sd     mcse      5%       50%    95%  ess_bulk  ess_tail   rhat
    x  0.01013  0.9941  0.02276  -1.602  0.000162  1.592      1909      2002  0.999
    """
    work: dict[str, Callable[[Tensor], Tensor]] = {
        "mean": lambda x: x.mean((0, 1)),
        "sd": lambda x: x.flatten(0, 1).std(0),
        "mcse": diagnostics.mcse_mean,
    }
    levels = [f"{100 * prob:g}%" for prob in probs]
    judged = {"ess_bulk": diagnostics.ess_bulk, "ess_tail": diagnostics.ess_tail, "rhat": diagnostics.rhat}
    columns: dict[str, list[Tensor]] = {title: [] for title in [*work, *levels, *judged]}
    for value in draws.values.values():
        x = value if value.dtype == torch.float64 else value.double()
        enough = draws.draws >= 4
        for title, function in (work | judged).items():
            known = enough or title in ("mean", "sd")
            columns[title].append(function(x) if known else torch.full(x.shape[2:], torch.nan, dtype=x.dtype))
        for title, level in zip(levels, diagnostics.quantiles(x, probs), strict=True):
            columns[title].append(level)
    table = {title: torch.cat([part.flatten().cpu() for part in parts]) for title, parts in columns.items()}
    return Summary(draws.names, table, list(_warnings(draws, table)), _head(draws))


def wandering(x: Any) -> Tensor:
    r"""Whether chains keep moving away, as on a target that is not a law.

    The typical distance between draws m apart settles once m exceeds the memory of a stationary chain; where
    nothing holds the chains it grows without end, as :math:`\sqrt m` for a random walk. The median distance at
    half the run is compared with that at a sixteenth (a random walk makes it 2.8 times as large; above 1.8 is
    called wandering, which finds 95 of 100 random walks of four chains).
    Chains that are merely far too short for their memory look the same.

    x: (chains, draws, ...), at least 16 draws. Returns (...) of bool.

    >>> steps = torch.randn(8, 1000, generator=torch.Generator().manual_seed(0))
    >>> wandering(steps), wandering(steps.cumsum(1))
    (tensor(False), tensor(True))
    """
    x = torch.as_tensor(x)
    chains, n = x.shape[:2]
    flat = x.reshape(chains, n, -1).double()
    near, far = (_distance(flat, n // part) for part in (16, 2))
    return (far > 1.8 * near).reshape(x.shape[2:])


def _distance(flat: Tensor, lag: int) -> Tensor:
    return (flat[:, lag:] - flat[:, :-lag]).abs().flatten(0, 1).median(0).values


def _head(draws: Draws) -> str:
    parts = [f"{draws.chains} chain{'s' * (draws.chains != 1)} of {draws.draws} draw{'s' * (draws.draws != 1)}"]
    if "accepted" in draws.info:
        parts.append(f"acceptance {draws.info['accepted'].double().mean():.2f}")
    if "steps" in draws.info:
        parts.append(f"{draws.info['steps'].double().mean():.3g} steps a draw")
    if "divergent" in draws.info:
        parts.append(f"{draws.divergences} divergence{'s' * (draws.divergences != 1)}")
    seconds = draws.meta.get("seconds")
    if isinstance(seconds, dict):
        parts.append(f"{sum(seconds.values()):.3g} s")
    return "; ".join(parts)


def _table(names: Sequence[str], columns: dict[str, Tensor]) -> list[str]:
    cells = {
        title: [_number(title, value) for value in column[: len(names)].tolist()] for title, column in columns.items()
    }
    widths = {title: max(len(title), *map(len, texts)) if texts else len(title) for title, texts in cells.items()}
    side = max(map(len, names), default=0)
    lines = [" " * side + "".join(f"  {title:>{widths[title]}}" for title in cells)]
    for i, name in enumerate(names):
        lines.append(f"{name:<{side}}" + "".join(f"  {texts[i]:>{widths[title]}}" for title, texts in cells.items()))
    return lines


def _number(title: str, value: float) -> str:
    if title.startswith("ess"):
        return f"{value:.0f}"
    return f"{value:.3f}" if title == "rhat" else f"{value:.4g}"


def _warnings(draws: Draws, table: dict[str, Tensor]) -> Iterator[str]:
    yield from _about_steps(draws)
    yield from _about_energy(draws)
    if draws.draws < 4:
        yield f"there are {draws.draws} draws a chain; at least 4 are needed to judge them"
        return
    yield from _about_values(draws)
    yield from _about_mixing(draws, table)
    if draws.chains == 1:
        yield "there is one chain: R-hat compares only its halves and cannot see what other starts would find"


def _about_steps(draws: Draws) -> Iterator[str]:
    total = draws.chains * draws.draws
    if draws.divergences:
        yield (
            f"{draws.divergences} of {total} transitions diverged: the law is sharper somewhere than the step "
            "resolves and that part is missing; raise the target acceptance, or rewrite the model (non-centered)"
        )
    if "accepted" in draws.info:
        low = (draws.info["accepted"].double().mean(1) < 0.01).nonzero().flatten().tolist()
        if low:
            yield f"{_listed('chain', low)} accepted hardly any proposal; use a smaller step or a better proposal"


def _about_energy(draws: Draws) -> Iterator[str]:
    if "energy" not in draws.info or draws.draws < 4:
        return
    low = (diagnostics.bfmi(draws.info["energy"]) < LEAST_BFMI).nonzero().flatten().tolist()
    if low:
        yield (
            f"{_listed('chain', low)} changed energy too slowly (BFMI below {LEAST_BFMI}): the tails are heavy or "
            "funnel-shaped; rewrite the model, for example with standardized parameters"
        )


def _about_values(draws: Draws) -> Iterator[str]:
    names = draws.names
    flat = [value.flatten(2) if value.ndim > 2 else value[:, :, None] for value in draws.values.values()]
    broken = torch.cat([(~value.isfinite()).any(1).any(0).cpu() for value in flat])
    if broken.any():
        yield f"{_some(names, broken)}: draws are not finite; the target may not be a law, or its density overflows"
    still = torch.cat([(value == value[:1, :1]).all(1).all(0).cpu() for value in flat])
    if still.any():
        yield f"{_some(names, still)}: the same in every draw, so R-hat is undefined"


def _about_mixing(draws: Draws, table: dict[str, Tensor]) -> Iterator[str]:
    names, rhat = draws.names, table["rhat"]
    bad = rhat > GOOD_RHAT
    if bad.any():
        yield (
            f"R-hat is above {GOOD_RHAT} for {_some(names, bad, rhat)}: the chains do not agree yet; run longer, "
            "or look for several modes"
        )
    if (rhat > FAR_RHAT).any() and draws.draws >= 16:
        away = torch.cat([wandering(value).flatten().cpu() for value in draws.values.values()]) & (rhat > FAR_RHAT)
        if away.any():
            yield (
                f"{_some(names, away)}: the chains still move away from where they were; either they are far too "
                "short, or the target is improper: a density without a finite integral (a missing prior)"
            )
    size = torch.minimum(table["ess_bulk"], table["ess_tail"])
    few = size < FEWEST_EFFECTIVE
    if few.any():
        yield (
            f"the effective sample size is below {FEWEST_EFFECTIVE} for {_some(names, few, -size)}: means and "
            "quantiles are rough; take more draws"
        )


def _listed(noun: str, places: list[int]) -> str:
    if len(places) == 1:
        return f"{noun} {places[0]}"
    shown = ", ".join(map(str, places[:5]))
    return f"{noun}s {shown}{f' and {len(places) - 5} more' if len(places) > 5 else ''}"


def _some(names: Sequence[str], chosen: Tensor, order: Tensor | None = None) -> str:
    """Up to three names, the worst (largest of ``order``) first, and how many more."""
    places = chosen.nonzero().flatten()
    if order is not None:
        places = places[order[places].argsort(descending=True, stable=True)]
    shown = ", ".join(names[int(place)] for place in places[:3])
    return shown if len(places) <= 3 else f"{shown} and {len(places) - 3} more"
