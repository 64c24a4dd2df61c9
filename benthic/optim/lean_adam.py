"""Adam whose step on a CPU goes straight to the fused kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class LeanAdam(torch.optim.Adam):
    """torch's Adam, with the lists that its fused kernel takes kept from step to step.

    Before each step torch sorts parameters by device and type and looks at every option, which for a small network on
    a CPU takes a third as long as the arithmetic. Once all parameters have gradients and states, and nothing but rate,
    betas, epsilon and weight decay is set, that is not needed. Nor does it load torch's compiler, which a plain
    optimizer does only to switch it off: more than half a second of every process. The numbers are the same to the
    last bit, the state is torch's, and every other case is left to torch.

    >>> x = torch.nn.Parameter(torch.zeros(2))
    >>> adam = LeanAdam([x], lr=0.1, eps=0.0, fused=True)
    >>> for _ in range(2):
    ...     x.grad = torch.ones(2)
    ...     adam.step()
    >>> x.data
    tensor([-0.2000, -0.2000])
    """

    _lists: list[_Lists] | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """One step; see ``torch.optim.Adam.step``."""
        if closure is not None or not self._ready():
            return super().step(closure)
        for group, lists in zip(self.param_groups, self._lists or (), strict=True):
            lists.step(group)
        return None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """See torch."""
        _bare(torch.optim.Optimizer.zero_grad)(self, set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """See torch."""
        found: dict[str, Any] = _bare(torch.optim.Optimizer.state_dict)(self)
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See torch; the lists are made anew."""
        _bare(torch.optim.Optimizer.load_state_dict)(self, state_dict)
        self._lists = None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """See torch; the lists are made anew."""
        _bare(torch.optim.Optimizer.add_param_group)(self, param_group)
        self._lists = None

    def _ready(self) -> bool:
        if self._lists is None:
            held = [p for group in self.param_groups for p in group["params"]]
            if not all(map(_plain, held)) or not all(map(_usual, self.param_groups)):
                return False
            if not all(p in self.state or _has_gradient(p) for p in held):
                return False
            self._begin(held)
            self._lists = [_Lists(self, group["params"]) for group in self.param_groups]
        return all(lists.current(self) for lists in self._lists)

    def _begin(self, parameters: list[Tensor]) -> None:
        """States for parameters that have none yet, as torch makes them."""
        for p in parameters:
            if not self.state[p]:
                self.state[p] = {
                    "step": torch.zeros((), dtype=torch.float32),
                    "exp_avg": torch.zeros_like(p, memory_format=torch.preserve_format),
                    "exp_avg_sq": torch.zeros_like(p, memory_format=torch.preserve_format),
                }


class _Lists:
    """Parameters of a group with their states, as the fused kernel takes them."""

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: list[Tensor]) -> None:
        states = [optimizer.state[p] for p in parameters]
        self.parameters = list(parameters)
        self.means = [state["exp_avg"] for state in states]
        self.squares = [state["exp_avg_sq"] for state in states]
        self.counts = [state["step"] for state in states]

    def current(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether every parameter has a dense gradient and the first one's state is still the one held here."""
        first = optimizer.state.get(self.parameters[0], {})
        return first.get("exp_avg") is self.means[0] and all(map(_has_gradient, self.parameters))

    def step(self, group: dict[str, Any]) -> None:
        """Count, and call the kernel."""
        torch._foreach_add_(self.counts, 1)
        torch._fused_adam_(
            self.parameters,
            [p.grad for p in self.parameters],
            self.means,
            self.squares,
            [],
            self.counts,
            amsgrad=False,
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )


def _bare(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method without the decorator that keeps torch's compiler away from it, and loads that to do so."""
    found: Callable[..., Any] = getattr(method, "__wrapped__", method)
    return found


def _has_gradient(parameter: Tensor) -> bool:
    return parameter.grad is not None and parameter.grad.layout is torch.strided


def _plain(parameter: Tensor) -> bool:
    return parameter.device.type == "cpu" and parameter.dtype in (torch.float32, torch.float64)


def _usual(group: dict[str, Any]) -> bool:
    numbers = (group["lr"], *group["betas"], group["weight_decay"], group["eps"])
    flags = ("amsgrad", "maximize", "differentiable", "decoupled_weight_decay")
    types = len({p.dtype for p in group["params"]})
    return (
        types == 1
        and bool(group["fused"])
        and not any(group.get(flag) for flag in flags)
        and not any(isinstance(number, Tensor) for number in numbers)
    )
