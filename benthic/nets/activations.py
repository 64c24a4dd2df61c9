"""Activation functions by name."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from benthic.base.errors import InvalidInput, nearest

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "logistic": nn.Sigmoid,
    "sigmoid": nn.Sigmoid,
    "identity": nn.Identity,
    "softplus": nn.Softplus,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


def activation(name: str, *, inplace: bool = False) -> nn.Module:
    """A fresh activation module; inplace: one that overwrites its input, where there is such a one.

    >>> activation("relu")
    ReLU()
    """
    if name not in ACTIVATIONS:
        raise InvalidInput(
            f"activation {name!r} is unknown{nearest(str(name), ACTIVATIONS)}; use one of {', '.join(ACTIVATIONS)}"
        )
    made = ACTIVATIONS[name]()
    if inplace and hasattr(made, "inplace"):
        made.inplace = True
    return made
