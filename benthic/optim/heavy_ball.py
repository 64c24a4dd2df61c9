"""Polyak's heavy ball as a torch optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from benthic.base.errors import InvalidInput


class HeavyBall(Optimizer):
    r"""Gradient descent that keeps a part of its last displacement.

    .. math:: \theta_{t+1} = \theta_t - \eta_t \nabla f(\theta_t) + \beta (\theta_t - \theta_{t-1})

    Polyak, 1964. With a constant rate this is ``torch.optim.SGD`` with momentum; with a schedule it is not, since
    SGD multiplies its whole velocity by the new rate and the ball keeps the displacement it had.

    params: tensors or groups of them. lr: η. momentum: β in [0, 1). weight_decay: μ, which adds μθ to the gradient.

    >>> x = torch.nn.Parameter(torch.tensor([1.0]))
    >>> ball = HeavyBall([x], lr=0.1, momentum=0.5)
    >>> for _ in range(2):
    ...     x.grad = x.detach().clone()
    ...     ball.step()
    >>> x.data  # 1 - 0.1 = 0.9, then 0.9 - 0.09 + 0.5 * (0.9 - 1)
    tensor([0.7600])
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, momentum: float = 0.9, weight_decay: float = 0.0
    ) -> None:
        for name, value, good in (
            ("lr", lr, lr >= 0),
            ("momentum", momentum, 0 <= momentum < 1),
            ("weight_decay", weight_decay, weight_decay >= 0),
        ):
            if not good:
                raise InvalidInput(f"HeavyBall: {name}={value!r}; it must not be negative, and momentum is below 1")
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """One step on the gradients that stand; closure: computes the loss and its gradients first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            held = [p for p in group["params"] if p.grad is not None]
            if held:
                self._move(held, group["lr"], group["momentum"], group["weight_decay"])
        return loss

    def _move(self, held: list[Tensor], lr: float, momentum: float, decay: float) -> None:
        for p in held:
            if "displacement" not in self.state[p]:
                self.state[p]["displacement"] = torch.zeros_like(p)
        displacements = [self.state[p]["displacement"] for p in held]
        gradients = [p.grad for p in held if p.grad is not None]
        if decay:
            gradients = list(torch._foreach_add(gradients, held, alpha=decay))
        torch._foreach_mul_(displacements, momentum)
        torch._foreach_add_(displacements, gradients, alpha=-lr)
        torch._foreach_add_(held, displacements)
