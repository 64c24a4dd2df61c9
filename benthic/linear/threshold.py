"""The threshold unit: the first model of a nerve cell, and which Boolean functions one can compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.linear.separation import widest_margin


@dataclass(frozen=True)
class ThresholdUnit:
    r"""Fires when the weighted sum of its binary inputs reaches a threshold and nothing inhibits it.

    .. math:: f(x) = 1 \; \text{if} \; \sum_j w_j x_j \ge \theta \; \text{and no inhibitory input is on, else} \; 0

    McCulloch & Pitts, 1943, where every weight is one; weights of any size are the later form.

    weights: (d,) of the inputs. threshold: θ. inhibitory: positions of inputs any one of which keeps it silent.

    >>> xor = [ThresholdUnit((1, 1), 1), ThresholdUnit((1, 1), 2)]  # one of them, both of them
    >>> x = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> ThresholdUnit((1, 0), 1, inhibitory=(1,))(torch.stack([unit(x) for unit in xor], 1))
    tensor([0, 1, 1, 0])
    """

    weights: tuple[float, ...]
    threshold: float
    inhibitory: tuple[int, ...] = ()

    @classmethod
    def all_of(cls, n: int) -> Self:
        """AND of n inputs."""
        return cls((1.0,) * n, float(n))

    @classmethod
    def any_of(cls, n: int) -> Self:
        """OR of n inputs."""
        return cls((1.0,) * n, 1.0)

    @classmethod
    def none_of(cls, n: int) -> Self:
        """NOT for one input, NOR for more: fires unless one of the inputs is on."""
        return cls((0.0,) * n, 0.0, tuple(range(n)))

    def __call__(self, x: Any) -> Tensor:
        """The answers 0 or 1 to binary inputs (..., d)."""
        given = torch.as_tensor(x)
        if given.ndim == 0 or given.shape[-1] != len(self.weights):
            raise InvalidInput(
                f"ThresholdUnit: inputs have shape {tuple(given.shape)}; expected (..., {len(self.weights)})"
            )
        if not bool(((given == 0) | (given == 1)).all()):
            raise InvalidInput("ThresholdUnit: inputs must be 0 or 1; a threshold unit is a Boolean function")
        x = given.double()
        fires: Tensor = x @ torch.tensor(self.weights, dtype=torch.float64, device=x.device) >= self.threshold
        if self.inhibitory:
            fires = fires & ~x[..., list(self.inhibitory)].bool().any(-1)
        return fires.long()


def find_unit(truth: Sequence[int] | Any) -> ThresholdUnit | None:
    """A threshold unit that computes a Boolean function, or None if no single one can.

    A function can be computed exactly if a hyperplane separates the inputs it is true for from the others, which
    is decided by the widest margin; XOR has none (Minsky & Papert, 1969).

    truth: the 2ᵈ answers to inputs in the order 0…00, 0…01, 0…10, ….

    >>> find_unit([0, 1, 1, 0]) is None
    True
    >>> find_unit([0, 0, 0, 1])(torch.tensor([[0, 1], [1, 1]]))
    tensor([0, 1])
    """
    answers = np.asarray(truth)
    d = len(answers).bit_length() - 1
    if answers.ndim != 1 or d < 1 or len(answers) != 2**d or not np.isin(answers, (0, 1)).all():
        raise InvalidInput(f"find_unit: truth has shape {answers.shape}; expected 2, 4, 8, ... answers of 0 or 1")
    inputs = np.array(list(product((0.0, 1.0), repeat=d)))  # (2^d, d)
    if answers.min() == answers.max():
        return ThresholdUnit((0.0,) * d, 0.0 if answers[0] else 1.0)
    rows = np.column_stack([inputs, np.ones(len(inputs))]) * np.where(answers == 1, 1.0, -1.0)[:, None]
    found = widest_margin(rows)
    if not found.separable:
        return None
    weights = np.round(found.direction / np.abs(found.direction).max(), 12)
    return ThresholdUnit(tuple(weights[:-1].tolist()), float(-weights[-1]))
