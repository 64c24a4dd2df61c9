"""How likely rows are under a model."""

from __future__ import annotations

import math

import numpy as np

from benthic.base.estimate import Estimate, mean_of
from benthic.base.likelihood import Likelihood


def log_likelihood(found: Likelihood) -> Estimate:
    """Mean log-likelihood of the rows in nats, from what ``model.likelihood(X)`` returned.

    The error is over rows; that of a Monte-Carlo estimate of each row is inside it, because the rows are
    drawn apart.
    """
    values = found.value
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return mean_of(np.asarray(values))


def bits_per_dimension(nats: Estimate, dimensions: int, level: float = 1.0) -> Estimate:
    """A log-density in nats as bits a dimension of data that were rounded to steps of ``level``.

    Theis et al., 2016: for data made continuous by uniform noise as wide as a step, this bounds what a
    lossless code for the rounded data needs.

    >>> bits_per_dimension(Estimate(0.0, 0.0), 2, level=0.25).value
    2.0
    """
    scale = dimensions * math.log(2)
    return Estimate(-nats.value / scale - math.log2(level), nats.stderr / scale)
