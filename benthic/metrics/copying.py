"""Whether a model hands back its training rows: nearer to those than to rows it never saw, or than they are to each
other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import generator
from benthic.kernels.neighbors import search
from benthic.metrics.overlap import gaps, radii_without
from benthic.metrics.samples import Features, at_least, grouped, jackknife, left_out, pair, rows_of, subset

_NEAR = 10  # neighbors kept, so that one is left when a group is taken out
_TIED = 16  # rows at the same least distance that share a generated row
_KEYS = 1 << 23  # random numbers held at once


class Memorization(NamedTuple):
    """How much nearer generated rows are to the training rows than to held-out ones.

    ratio: of the mean distances to the nearest, 1 if nothing is memorized and 0 for copies. share: of generated rows
    whose nearest real row is a training row. expected: that share if nothing is memorized. p_value: the chance of so
    large a share then.
    """

    ratio: Estimate
    share: Estimate
    expected: float
    p_value: float


def memorization(
    train: Any,
    held_out: Any,
    generated: Any,
    *,
    features: Features | None = None,
    permutations: int = 999,
    groups: int = 10,
    seed: int = 0,
) -> Memorization:
    r"""Distances from generated rows to training rows against those to held-out rows of the same law.

    .. math:: \frac{\sum_j \min_i \|y_j - t_i\|}{\sum_j \min_i \|y_j - h_i\|}

    with equally many training rows t and held-out rows h (the larger set is cut at random). The test uses all rows. If
    the model did not see which rows were training rows, their labels may be exchanged: the p-value counts, over random
    exchanges, how often the share of generated rows that are nearest to a "training" row is at least that observed.
    It is exact however much the generated rows crowd together; rows at equal distance share alike. In the manner of
    Meehan et al., 2020. Errors are jackknives over all samples.

    train: (n, d) or images. held_out: (h, d). generated: (m, d). features: a function of the samples. permutations:
    exchanges of labels, by seed.

    >>> X = torch.randn(120, 2, generator=torch.Generator().manual_seed(0))
    >>> found = memorization(X[:50], X[50:100], X[:50] + 0.001)
    >>> found.ratio.value < 0.1, found.p_value
    (True, 0.001)
    """
    where = "memorization"
    samples = {"train": train, "held_out": held_out, "generated": generated}
    rows = {name: rows_of(where, sample, name, features) for name, sample in samples.items()}
    made = rows["generated"]
    for name in ("train", "held_out"):
        pair(where, rows[name], made, None, (name, "generated"))
    train, held = rows["train"], rows["held_out"]
    at_least(where, 2, "to find a nearest one", train=train, held_out=held)
    if permutations < 1:
        raise InvalidInput(f"{where}: permutations is {permutations}; at least 1 is needed, 999 are useful")
    size = min(len(train), len(held))
    near = [subset(side, size, seed, where) for side in (train, held)]
    return Memorization(_ratio(*near, made, groups, seed), *_exchanged(train, held, made, permutations, seed))


def authenticity(
    train: Any, generated: Any, *, features: Features | None = None, groups: int = 10, seed: int = 0
) -> Estimate:
    r"""The share of generated rows that are farther from their nearest training row than that is from any other.

    .. math:: \frac1m \sum_j \big[\|y_j - t_{i(j)}\| > \min_{l \ne i(j)} \|t_{i(j)} - t_l\|\big], \qquad
        i(j) = \arg\min_i \|y_j - t_i\|

    Alaa et al., 2022. Copies and rows close to one training row are not authentic. Rows of the same law as the training
    rows score about one half, less in few dimensions: compare with the score of held-out rows. The error is a
    jackknife over both samples, NaN if one is too small for it.

    train: (n, d) or images. generated: (m, d). features: a function of the samples.

    >>> X = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    >>> authenticity(X, X).value
    0.0
    """
    where = "authenticity"
    X, Y = pair(where, train, generated, features, ("train", "generated"))
    at_least(where, 3, "to have neighbors", train=X)
    groups = _possible(groups, len(X), len(Y))
    own, others = (grouped(len(side), groups, seed, X.device) for side in (X, Y))
    index, square = _nearest_without(Y, X, own, groups)
    reach = radii_without(X, own, 1, groups)
    authentic = (square > reach[index, torch.arange(1 + groups, device=X.device)]).double()  # (m, 1 + G)
    if groups == 1:
        return Estimate(float(authentic[:, 0].mean()), math.nan)
    return jackknife(authentic[:, 0].mean(), authentic[:, 1:].mean(0), left_out(authentic[:, 0], others, groups))


def _possible(groups: int, *sizes: int) -> int:
    """The groups to leave out, or 1, which gives no error, for samples too small for that."""
    return groups if min(sizes) >= 2 * groups else 1


def _nearest_without(Y: Tensor, X: Tensor, own: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """For rows Y their nearest rows of X and the squared distances, (m, 1 + G): of all, and without each group."""
    wanted = min(len(X), _NEAR)
    _, index = search(Y, X, wanted)
    rows = torch.arange(len(Y), device=Y.device).repeat_interleave(wanted)
    squares = gaps(Y, X, rows, index.reshape(-1)).reshape(len(Y), wanted)
    squares, order = squares.sort(dim=1, stable=True)
    index = index.gather(1, order)
    places = [torch.zeros_like(index[:, 0])]
    for g in range(groups):
        kept = own[index] != g
        # the farthest stands in for the case, one in billions, that all of them are left out
        places.append(torch.where(kept.any(1), kept.int().argmax(1), wanted - 1))
    place = torch.stack(places, 1)
    return index.gather(1, place), squares.gather(1, place)


def _ratio(train: Tensor, held: Tensor, made: Tensor, groups: int, seed: int) -> Estimate:
    """The ratio of mean distances, jackknifed over the three samples."""
    groups = _possible(groups, len(train), len(held), len(made))
    to_train, to_held = (
        _nearest_without(made, side, grouped(len(side), groups, seed, side.device), groups)[1].sqrt()
        for side in (train, held)
    )
    top, bottom = to_train.mean(0), to_held.mean(0)  # (1 + G,)
    value = _quotient(top[0], bottom[0])
    if groups == 1:
        return Estimate(float(value), math.nan)
    of_made = grouped(len(made), groups, seed, made.device)
    parts = (left_out(side[:, 0], of_made, groups) for side in (to_train, to_held))
    return jackknife(value, _quotient(top[1:], bottom[0]), _quotient(top[0], bottom[1:]), _quotient(*parts))


def _quotient(top: Tensor, bottom: Tensor) -> Tensor:
    """Top over bottom, and 1 where both are zero: copies of rows that are in both sets tell nothing."""
    return torch.where((top == 0) & (bottom == 0), 1.0, top / bottom)


def _exchanged(
    train: Tensor, held: Tensor, made: Tensor, permutations: int, seed: int
) -> tuple[Estimate, float, float]:
    """The share of generated rows nearest to a training row, what is expected, and the exact p-value."""
    n, total = len(train), len(train) + len(held)
    weight = _nearest_weights(torch.cat([train, held]), made)  # (n + h,), sums to one
    share = weight[:n].sum()
    label = (torch.arange(total, device=made.device) < n).double()
    # generated rows with the same nearest row are one draw
    spread = math.sqrt(float((weight * (label - share)).square().sum()) * total / (total - 1))
    source, reached = generator(seed, "exchange", device=made.device), 0
    step = max(1, _KEYS // total)
    for start in range(0, permutations, step):
        keys = torch.rand(min(step, permutations - start), total, generator=source, device=made.device)
        chosen = keys <= keys.kthvalue(n, dim=1, keepdim=True).values
        reached += int((chosen.double() @ weight >= share - 1e-12).sum())
    return Estimate(float(share), spread), n / total, (1 + reached) / (1 + permutations)


def _nearest_weights(real: Tensor, made: Tensor) -> Tensor:
    """The share of generated rows that each real row is nearest to; rows at the same distance share one."""
    wanted = min(len(real), _TIED)
    distance, index = search(made, real, wanted)
    tied = (distance <= distance[:, :1] * (1 + 1e-12)).double()
    part = tied / tied.sum(1, keepdim=True) / len(made)
    return real.new_zeros(len(real)).index_add_(0, index.reshape(-1), part.reshape(-1))
