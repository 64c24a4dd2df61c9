r"""Over-relaxed Sinkhorn: steps longer than one, once the iterations are in their linear regime.

Near the answer an iteration shrinks the error by a factor :math:`\eta`. Updating with

.. math:: f \leftarrow (1 - \omega) f + \omega f_{\text{Sinkhorn}}, \qquad \omega = \frac{2}{1 + \sqrt{1 - \eta}}

shrinks it by :math:`\omega - 1`, as successive over-relaxation does for linear systems: from 0.99 to 0.82
(Thibault et al., 2021; Lehmann et al., 2022). The factor is measured on the way.
"""

from __future__ import annotations

import torch
from torch import Tensor

_WAIT = 4  # looks with plain steps before the rate is believed
_HIGHEST = 0.9999  # rate


class Relaxation:
    """The relaxation omega (B,) of every problem, from the errors seen at each look."""

    def __init__(self, like: Tensor) -> None:
        self.omega = torch.ones_like(like)
        self._error, self._calm = torch.full_like(like, float("inf")), torch.zeros_like(like)

    def look(self, error: Tensor, steps: int) -> None:
        """Learn from the error (B,) after so many more iterations; back to plain steps where it grew."""
        fell = error < self._error
        rate = (error / self._error).clamp(1e-8, _HIGHEST).nan_to_num(_HIGHEST) ** (1 / steps)
        self._calm = torch.where(fell, self._calm + 1, 0.0)
        believed = fell & (self._calm >= _WAIT)
        # the relation of rates with and without relaxation (Young, 1971); a rate below omega - 1 says nothing new
        plain = ((rate + self.omega - 1) ** 2 / (rate * self.omega**2)).clamp(0.0, _HIGHEST)
        better = 2 / (1 + (1 - plain).sqrt())
        longer = torch.where(believed & (rate > self.omega - 1), torch.maximum(better, self.omega), self.omega)
        self.omega = torch.where(fell, longer, 1.0)
        self._error = error

    def blend(self, old: Tensor, new: Tensor) -> Tensor:
        """A scaling (B, r) moved from old through new and beyond."""
        omega = self.omega.unsqueeze(-1)
        positive = (old > 0) & (new > 0)
        ratio = torch.where(positive, new, 1.0) / torch.where(positive, old, 1.0)
        return torch.where(positive, new * ratio ** (omega - 1), new)
