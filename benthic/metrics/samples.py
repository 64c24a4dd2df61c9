"""Two samples at the door of a generative metric, and the error of a number computed from both."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import from_numpy
from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import generator
from benthic.kernels.points import as_points

Features = Callable[[Any], Any]


def rows_of(where: str, X: Any, name: str, features: Features | None = None) -> Tensor:
    """A sample as float64 rows (n, d) without gradient: through ``features``, and flattened where it has more axes."""
    X = X if features is None else features(X)
    if not isinstance(X, Tensor):
        X = _tensor(where, X, name)
    if X.ndim > 2 and len(X):
        X = X.flatten(1)
    if X.dtype in (torch.float16, torch.bfloat16):
        X = X.float()
    return as_points(where, X.detach(), name).double()


def _tensor(where: str, X: Any, name: str) -> Tensor:
    """An array, list or frame of numbers as a tensor."""
    array = np.asarray(X)
    if array.dtype.kind not in "biuf":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"{where}: {name} holds values that are not numbers; encode categories first, or compare tables with "
                "marginal_distances and association_distances"
            ) from error
    return from_numpy(np.ascontiguousarray(array))


def pair(
    where: str, real: Any, generated: Any, features: Features | None = None, names: tuple[str, str] | None = None
) -> tuple[Tensor, Tensor]:
    """Two samples of the same width on one device, (n, d) and (m, d)."""
    first, second = names or ("real", "generated")
    X, Y = rows_of(where, real, first, features), rows_of(where, generated, second, features)
    if X.shape[1] != Y.shape[1]:
        raise InvalidInput(
            f"{where}: {first} has {X.shape[1]} columns and {second} has {Y.shape[1]}; both need the same features"
        )
    if X.device != Y.device:
        raise InvalidInput(f"{where}: {first} is on {X.device} and {second} on {Y.device}; move one of them")
    return X, Y


def at_least(where: str, least: int, why: str, **samples: Tensor) -> None:
    """Refuse samples of fewer rows than this; why: the end of the sentence."""
    for name, rows in samples.items():
        if len(rows) < least:
            raise InvalidInput(f"{where}: {name} has {len(rows)} rows; at least {least} are needed {why}")


def subset(X: Tensor, size: int, seed: int, name: str) -> Tensor:
    """So many rows at random, all of them in their order if there are no more."""
    return X if len(X) <= size else X[shuffled(len(X), seed, name)[:size].to(X.device)]


def shuffled(n: int, seed: int, name: str) -> Tensor:
    """A permutation of n rows, the same on every device."""
    return torch.randperm(n, generator=generator(seed, name))


def grouped(n: int, groups: int, seed: int, device: torch.device) -> Tensor:
    """A random group from 0 on for every row, (n,); sizes differ by at most one."""
    return (shuffled(n, seed, "groups") % groups).to(device)


def left_out(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """The mean of values (n,) over all rows but those of each group, (groups,)."""
    values = values.double()
    sums = values.new_zeros(groups).index_add_(0, group, values)
    counts = torch.bincount(group, minlength=groups)
    return (values.sum() - sums) / (len(values) - counts)


def jackknife(value: Tensor | float, *left: Tensor) -> Estimate:
    r"""A value with the error of independent samples from its values with one group of rows left out.

    .. math:: s^2 = \sum_{\text{samples}} \frac{G - 1}{G} \sum_g (\theta_{(g)} - \bar\theta_{(\cdot)})^2

    Shao & Wu, 1989: with whole groups left out this holds for numbers that are not smooth in the rows, too.
    left: for every sample, (G,) values without each group.
    """
    variance = sum(float((part - part.mean()).square().sum()) * (len(part) - 1) / len(part) for part in left)
    return Estimate(float(value), math.sqrt(variance))


def from_influences(value: Tensor | float, *influences: Tensor) -> Estimate:
    """A value with the error of independent samples from the influence of every row on it, (n,) each (Efron, 1982)."""
    if any(len(part) < 2 for part in influences):
        return Estimate(float(value), math.nan)
    return Estimate(float(value), math.sqrt(sum(float(part.var()) / len(part) for part in influences)))
