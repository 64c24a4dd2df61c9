"""How sure a classifier is of each generated row, and how varied its answers are over all of them."""

from __future__ import annotations

from typing import Any

import torch

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate, mean_of
from benthic.metrics.rows import device_of, numbers
from benthic.metrics.samples import shuffled


def inception_score(probabilities: Any, splits: int = 1, *, seed: int = 0) -> Estimate:
    r"""The Inception-style score of generated rows from a classifier's probabilities: 1 at worst, the classes at best.

    .. math:: \exp\Big(\frac1n \sum_i \mathrm{KL}\big(p(y \mid x_i) \,\|\, p(y)\big)\Big), \qquad
        p(y) = \frac1n \sum_i p(y \mid x_i)

    Salimans et al., 2016, with any classifier. It sees neither the real data nor copies: a model that shows one good
    example of each class gets full marks. The error is over rows (delta method; p(y) adds nothing to first order).
    Few rows make the score too large by about (classes - 1)/(2n) of itself at most.

    probabilities: (n, classes), rows that sum to one. splits: parts, dealt by seed, whose scores are averaged, 10 as
    published; the error is then that of their mean.

    >>> inception_score([[1.0, 0.0], [0.0, 1.0]]).value
    2.0
    """
    where = "inception_score"
    table = numbers(probabilities, where, "probabilities", device_of(probabilities))
    if table.ndim != 2 or not table.numel():
        raise InvalidInput(f"{where}: probabilities have shape {tuple(table.shape)}; (n, classes) is needed")
    off = (table.sum(1) - 1).abs()
    if bool((table < -1e-12).any()) or bool((off > 1e-4).any()):
        row = int(off.argmax())
        raise InvalidInput(
            f"{where}: rows must be probabilities, zero or more and of sum one, but row {row} sums to "
            f"{float(table[row].sum()):.4g}; pass softmax(logits)"
        )
    table = table.clamp_min(0) / table.clamp_min(0).sum(1, keepdim=True)
    if not 1 <= splits <= len(table):
        raise InvalidInput(f"{where}: splits is {splits} with {len(table)} rows; take 1 to the number of rows")
    if splits == 1:
        return _score(table)
    parts = table[shuffled(len(table), seed, where).to(table.device)].tensor_split(splits)
    return mean_of([_score(part).value for part in parts])


def _score(table: torch.Tensor) -> Estimate:
    mean = table.mean(0)
    gain = (torch.special.xlogy(table, table) - torch.special.xlogy(table, mean)).sum(1)
    found = mean_of(gain.cpu())
    value = float(torch.tensor(found.value, dtype=torch.float64).exp())
    return Estimate(value, value * found.stderr)
