"""Fitting the laws of a network to complete rows, one variable at a time: the likelihood splits that way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import derive, seed_of, streams
from benthic.data.batch import Batch
from benthic.distributions.tables import as_float_tensor
from benthic.samplers.networks.conditionals import Conditional, Given, LinearGaussian, Table
from benthic.training.feed import ArrayFeed
from benthic.training.gradient import GradientLearner, Player
from benthic.training.loop import Loop
from benthic.training.trainer import Trainer

DEFAULTS = {"epochs": 60, "batch_size": 256, "lr": 1e-2, "optimizer": "adam", "schedule": "cosine"}


def fit_nodes(
    nodes: Mapping[str, Conditional],
    rows: Mapping[str, Tensor],
    smoothing: float,
    weight: Any,
    trainer: Any,
    seed: int | None,
) -> dict[str, Conditional]:
    """The laws that make the rows most likely; laws without parameters stay as they are."""
    n = _rows(nodes, rows)
    if not smoothing >= 0:
        raise InvalidInput(f"BayesianNetwork.fit: smoothing is {smoothing}; it must not be negative")
    weights = None if weight is None else as_float_tensor(weight)
    if weights is not None and (weights.shape != (n,) or bool((weights < 0).any()) or float(weights.sum()) <= 0):
        raise InvalidInput(f"BayesianNetwork.fit: weight must be ({n},), not negative, and not all zero")
    base = seed_of(seed)
    fitted: dict[str, Conditional] = {}
    for name, law in nodes.items():
        parents = [rows[parent] for parent in law.given]
        fitted[name] = law
        if isinstance(law, Table):
            fitted[name] = fit_table(law, rows[name], parents, smoothing, weights)
        elif isinstance(law, LinearGaussian):
            fitted[name] = fit_linear(law, name, rows[name], parents, weights)
        elif isinstance(law, Given) and law.module is not None:
            train(law, name, rows[name], parents, weights, trainer, derive(base, name))
    return fitted


def fit_table(
    law: Table, value: Tensor, parents: Sequence[Tensor], smoothing: float = 0.0, weight: Tensor | None = None
) -> Table:
    r"""Shares of counts, the maximum of the likelihood, or its smoothed form.

    .. math:: \hat p(k \mid j) = \frac{N_{jk} + \alpha}{\sum_l (N_{jl} + \alpha)}

    A combination of parents that never occurs gets equal probabilities.
    """
    shape = law.probs.shape
    flat = torch.zeros_like(value)
    for column, size in zip((*parents, value), shape, strict=True):
        flat = flat * size + column
    counts = torch.bincount(flat, weights=None if weight is None else weight.to(flat.device), minlength=shape.numel())
    counts = counts.to(torch.float64).reshape(shape) + smoothing
    total = counts.sum(-1, keepdim=True)
    probs = torch.where(total > 0, counts / total.clamp(min=torch.finfo(torch.float64).tiny), 1 / shape[-1])
    return Table(probs.to(law.probs), law.given, law.labels)


def fit_linear(
    law: LinearGaussian, name: str, value: Tensor, parents: Sequence[Tensor], weight: Tensor | None = None
) -> LinearGaussian:
    """Weighted least squares, and the root of the mean squared residual as the scale."""
    y = value.double()
    design = torch.stack([torch.ones_like(y), *[parent.double() for parent in parents]], -1)  # (n, 1 + parents)
    w = torch.ones_like(y) if weight is None else weight.to(y)
    root = w.sqrt()
    solution = (
        torch.linalg.lstsq((root[:, None] * design).cpu(), (root * y)[:, None].cpu(), driver="gelsd")
        .solution[:, 0]
        .to(y)
    )
    variance = float((w * (y - design @ solution).square()).sum() / w.sum())
    if not variance > 1e-24 * float(y.square().mean()) + 1e-300:
        raise InvalidInput(
            f"BayesianNetwork.fit: {name!r} is an exact linear function of its parents in these rows; its scale would "
            "be zero, so give more rows or leave the variable out"
        )
    return LinearGaussian(solution[1:].to(law.weights), float(solution[0]), math.sqrt(variance), law.given)


def train(
    law: Given,
    name: str,
    value: Tensor,
    parents: Sequence[Tensor],
    weight: Tensor | None,
    trainer: Any,
    seed: int,
) -> None:
    """Raise the log-likelihood of a network's law by gradients, in place."""
    settings = Trainer.of({"verbose": False} if trainer is None else trainer, **DEFAULTS)
    device = next(law.module.parameters()).device
    columns = [column.to(device) for column in (value, *parents)]

    def loss(batch: Batch) -> Tensor:
        index = batch.X[:, 0]
        term = -law.log_prob(columns[0][index], [column[index] for column in columns[1:]])
        return (term if batch.weight is None else term * batch.weight).sum()

    data = Batch(torch.arange(len(value))[:, None], None, None if weight is None else weight.float())
    with streams(seed, device):
        law.module.train()
        seen = Batch(value, None, torch.stack([column.double() for column in parents]).T if parents else None)
        feed = ArrayFeed(data, origin=seen, batch_size=settings.batch_size, seed=seed, device=device, shuffle=True)
        learner = GradientLearner({"fit": Player(law.module, loss, settings)}, settings)
        Loop(learner, feed, settings, seed=seed, device=device, title=name).run()


def _rows(nodes: Mapping[str, Conditional], rows: Mapping[str, Tensor]) -> int:
    missing = [name for name in nodes if name not in rows]
    if missing:
        raise InvalidInput(f"BayesianNetwork.fit: {missing} have no data; complete rows are needed")
    lengths = {name: len(column) for name, column in rows.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"BayesianNetwork.fit: the columns have lengths {lengths}; they must be the same")
    for name, column in rows.items():
        if not bool(torch.isfinite(column).all()):
            raise InvalidInput(
                f"BayesianNetwork.fit: {name!r} has missing or infinite values; complete rows are needed"
            )
    return next(iter(lengths.values()))
