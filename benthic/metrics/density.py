"""How likely rows are under a model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate, mean_of
from benthic.base.likelihood import Likelihood
from benthic.metrics.rows import weighted_mean, weights_of


def log_likelihood(found: Likelihood, sample_weight: Any = None) -> Estimate:
    """Mean log-likelihood of the rows in nats, from what ``model.likelihood(X)`` returned.

    The error is over rows; that of a Monte-Carlo estimate of each row is inside it, because the rows are
    drawn apart.
    """
    values = found.value
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    if sample_weight is None:
        return mean_of(np.asarray(values))
    rows = torch.as_tensor(np.asarray(values, dtype=np.float64))
    return weighted_mean(rows, weights_of(sample_weight, len(rows), "log_likelihood", torch.device("cpu")))


def bits_per_dimension(nats: Estimate, dimensions: int, level: float = 1.0) -> Estimate:
    """A log-density in nats as bits a dimension of data that were rounded to steps of ``level``.

    Theis et al., 2016: for data made continuous by uniform noise as wide as a step, this bounds what a
    lossless code for the rounded data needs.

    >>> bits_per_dimension(Estimate(0.0, 0.0), 2, level=0.25).value
    2.0
    """
    if dimensions < 1 or not level > 0:
        raise InvalidInput(
            f"bits_per_dimension: dimensions is {dimensions} and level {level}; 1 or more and a positive step will do"
        )
    scale = dimensions * math.log(2)
    return Estimate(-nats.value / scale - math.log2(level), nats.stderr / scale)
