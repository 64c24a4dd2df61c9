"""The law of the codes that an encoder gives to the data, fitted after training."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from benthic.base.quiet import quiet
from benthic.nets.prior import FullMixturePrior

ROWS = 10_000  # codes that are looked at
_A_COORDINATE = 3  # codes for each coordinate of a component
_MOST = 20  # components
_STEPS = 50  # of expectation maximization
_FLOOR = 1e-4  # added to variances of codes, which are about 1


def fitted_prior(codes: Tensor, most: int, seed: int) -> FullMixturePrior:
    """A mixture of normals with the law of codes (n, d); it has as many components as codes allow, ``most`` at most.

    The prior under which the bound is largest is the mean of the posteriors over the data (Hoffman & Johnson, 2016):
    draws from them, one a row, are what it is fitted to.
    """
    from benthic.mixture.gaussian import GaussianMixture

    found = codes.detach().double().cpu()
    size = found.shape[1]
    count = max(1, min(most, _MOST, len(found) // (_A_COORDINATE * size)))
    model = GaussianMixture(
        count, reg_covar=_FLOOR, max_iter=_STEPS, trainer={"device": "cpu", "verbose": False}, random_state=seed
    )
    with quiet():  # that steps ran out is no matter here
        model.fit(found.numpy())
    prior = FullMixturePrior(size, count)
    weights = np.maximum(np.asarray(model.weights_, dtype=np.float64), 1e-12)
    prior.log_weights.copy_(torch.from_numpy(np.log(weights / weights.sum())))
    prior.means.copy_(torch.from_numpy(np.asarray(model.means_, dtype=np.float64)))
    prior.factors.copy_(torch.linalg.cholesky(torch.from_numpy(np.asarray(model.covariances_, dtype=np.float64))))
    return prior.to(codes)
