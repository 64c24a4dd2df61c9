"""Adam with optimism: a step counts twice, and half of it is taken back the next time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from benthic.base.errors import InvalidInput


class OptimisticAdam(Optimizer):
    r"""Adam for games: it goes on along its new direction as if that would come again.

    .. math::

        d_t = \hat m_t / (\sqrt{\hat v_t} + \epsilon), \qquad
        \theta_t = \theta_{t-1} - 2 \eta_t d_t + \eta_t d_{t-1}

    with Adam's averages :math:`\hat m`, :math:`\hat v` and :math:`d_0 = 0`. Daskalakis et al., 2018, algorithm 1.
    Counts lie on the device and nothing waits for it, so steps can be captured as CUDA graphs once one was made.

    params: tensors or groups of them. lr: η, a number or a tensor of no dimensions. betas: of the averages; those of
    the paper are the default. eps: ε. weight_decay: μ, which adds μθ to the gradient.

    >>> x = torch.nn.Parameter(torch.zeros(1))
    >>> adam = OptimisticAdam([x], lr=0.1, eps=0.0)
    >>> for _ in range(2):
    ...     x.grad = torch.ones(1)
    ...     adam.step()
    >>> x.data  # directions of a constant gradient are 1: - 0.2, then - 0.2 + 0.1
    tensor([-0.3000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.5, 0.9),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        for name, value, good in (
            ("lr", lr, isinstance(lr, Tensor) or lr >= 0),
            ("betas", betas, len(betas) == 2 and all(0 <= beta < 1 for beta in betas)),
            ("eps", eps, eps >= 0),
            ("weight_decay", weight_decay, weight_decay >= 0),
        ):
            if not good:
                raise InvalidInput(
                    f"OptimisticAdam: {name}={value!r}; nothing may be negative, and betas are two numbers below 1"
                )
        if isinstance(lr, Tensor) and lr.ndim:
            raise InvalidInput(f"OptimisticAdam: lr has shape {tuple(lr.shape)}; it is one number")
        # with ``capturable`` torch keeps counts on the device when it loads them
        options = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "capturable": True}
        super().__init__(params, options)

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
                self._move(held, group)
        return loss

    def _move(self, held: list[Tensor], group: dict[str, Any]) -> None:
        for p in held:
            if not self.state[p]:
                self._begin(p)
        counts, means, squares, lasts = (
            [self.state[p][name] for p in held] for name in ("step", "exp_avg", "exp_avg_sq", "direction")
        )
        gradients = [p.grad for p in held if p.grad is not None]
        if group["weight_decay"]:
            gradients = list(torch._foreach_add(gradients, held, alpha=group["weight_decay"]))
        beta1, beta2 = group["betas"]
        torch._foreach_add_(counts, 1.0)
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
        directions = _directions(counts, means, squares, beta1, beta2, group["eps"])
        # lasts become 2 d_t - d_{t-1} on the way, then d_t
        torch._foreach_neg_(lasts)
        torch._foreach_add_(lasts, directions, alpha=2.0)
        torch._foreach_mul_(lasts, group["lr"])
        torch._foreach_sub_(held, lasts)
        torch._foreach_copy_(lasts, directions)

    def _begin(self, p: Tensor) -> None:
        self.state[p] = {
            "step": torch.zeros((), dtype=torch.float32, device=p.device),
            "exp_avg": torch.zeros_like(p, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(p, memory_format=torch.preserve_format),
            "direction": torch.zeros_like(p, memory_format=torch.preserve_format),
        }


def _directions(
    counts: list[Tensor], means: list[Tensor], squares: list[Tensor], beta1: float, beta2: float, eps: float
) -> list[Tensor]:
    """Adam's directions, with the corrections of averages that began at zero."""
    shrunk = [_correction(counts, beta) for beta in (beta1, beta2)]
    roots = list(torch._foreach_div(squares, shrunk[1]))
    torch._foreach_sqrt_(roots)
    torch._foreach_add_(roots, eps)
    directions = list(torch._foreach_div(means, shrunk[0]))
    torch._foreach_div_(directions, roots)
    return directions


def _correction(counts: list[Tensor], beta: float) -> Any:
    """1 − β^t for every count t: numbers on the CPU, where reading is free, and tensors where that would wait.

    In float64 where the device has it: with β near 1 the difference is small.
    """
    if all(count.device.type == "cpu" for count in counts):
        return [1.0 - beta ** count.item() for count in counts]
    wide = [count.double() if count.device.type != "mps" else count for count in counts]
    powers = list(torch._foreach_pow(beta, wide))
    torch._foreach_neg_(powers)
    torch._foreach_add_(powers, 1.0)
    return powers
