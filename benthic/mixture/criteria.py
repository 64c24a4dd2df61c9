"""How many components: criteria that weigh the likelihood against the number of parameters."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.capabilities import to_numpy
from benthic.data.scan import as_source, scan

CRITERIA = ("bic", "icl")


def criterion(name: str, model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
    r"""A criterion of a fitted mixture on rows; lower is better.

    .. math:: \mathrm{BIC} = -2 \log p(X) + m \log n, \qquad
        \mathrm{ICL} = \mathrm{BIC} - 2 \sum_{i,k} r_{ik} \log r_{ik}

    Schwarz, 1978; Biernacki, Celeux & Govaert, 2000. m counts free parameters, n rows (or their weights).
    """
    total, likelihood, vague = 0.0, 0.0, 0.0
    for rows, weight in _blocks(model, X, y, sample_weight):
        joint = model._log_joint(rows).double()
        log = torch.logsumexp(joint, 1)
        share = torch.softmax(joint, 1)
        weight = torch.ones_like(log) if weight is None else weight.to(log)
        total += float(weight.sum())
        likelihood += float(log @ weight)
        vague -= float(torch.special.xlogy(share, share).sum(1) @ weight)
    cost = -2 * likelihood + int(model._n_parameters()) * math.log(total)
    return cost + 2 * vague if name == "icl" else cost


def _blocks(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    source = scan(X, target=y) if isinstance(X, (str, Path)) else as_source(X)
    if source is None:
        rows, _ = model._arrive(X, "fit")
        weight: Tensor | None = None
        if sample_weight is not None:
            weight = torch.as_tensor(np.asarray(to_numpy(sample_weight), dtype=np.float64))
        yield rows, weight
        return
    for block, _ in source.open(0, 0, batch_size=1 << 14, shuffle=False, seed=0):
        yield torch.from_numpy(np.ascontiguousarray(block, dtype=np.float64)), None
