"""Linear systems: forward by the matrix exponential, backward from data to the matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.linalg import least_squares, matrix_exp, matrix_log


class LinearSystem:
    r"""The system of a square matrix, which is a field and has its flow in closed form.

    .. math:: \dot z = A z, \qquad z(t) = e^{A (t - t_0)} z(t_0)

    A: (d, d). Two tanks of 100 liters that exchange 3 liters a minute, fertilizer in the second only:

    >>> tanks = LinearSystem([[-0.03, 0.03], [0.03, -0.03]])
    >>> tanks.flow([0.0, 100.0], 2.0)
    tensor([ 5.6540, 94.3460], dtype=torch.float64)
    """

    def __init__(self, A: Any) -> None:
        A = A if isinstance(A, Tensor) else torch.tensor(A, dtype=torch.float64)
        if A.dim() != 2 or A.shape[0] != A.shape[1] or not len(A):
            raise InvalidInput(f"LinearSystem: A has shape {tuple(A.shape)}; a square matrix is needed")
        self.A = A

    def __call__(self, t: Tensor, z: Tensor) -> Tensor:
        """The field: A z for states (..., d)."""
        return z @ self.A.mT

    def flow(self, z: Any, t: Any) -> Tensor:
        """The states after times t (...) from z (d,), as (..., d); negative times go back."""
        z = torch.as_tensor(z, dtype=self.A.dtype, device=self.A.device)
        t = torch.as_tensor(t, dtype=self.A.dtype, device=self.A.device)
        if z.shape != self.A.shape[:1]:
            raise InvalidInput(f"LinearSystem.flow: z has shape {tuple(z.shape)}; {tuple(self.A.shape[:1])} is needed")
        return matrix_exp(self.A * t[..., None, None]) @ z

    @classmethod
    def recover(cls, t: Any, z: Any) -> LinearSystem:
        """The system that data came from: states z (m, d) at equally spaced times t (m,), m > d of them.

        Least squares for the matrix that takes each state to the next, then its principal logarithm. It is the
        answer if no eigenvalue turns by more than half a circle between two times.

        >>> t = torch.linspace(0, 4, 9, dtype=torch.float64)
        >>> system = LinearSystem([[0.5, 1.0], [-2.0, -0.1]])
        >>> LinearSystem.recover(t, system.flow([1.0, 0.0], t)).A.round(decimals=6)
        tensor([[ 0.5000,  1.0000],
                [-2.0000, -0.1000]], dtype=torch.float64)
        """
        z = z if isinstance(z, Tensor) else torch.tensor(z, dtype=torch.float64)
        t = torch.as_tensor(t, dtype=z.dtype, device=z.device)
        if z.dim() != 2 or t.shape != z.shape[:1] or len(z) <= z.shape[1]:
            raise InvalidInput(
                f"LinearSystem.recover: states {tuple(z.shape)} at times {tuple(t.shape)}; more states (m, d) than "
                "dimensions are needed, each with its time"
            )
        gaps = t.diff()
        if not bool(((gaps - gaps[0]).abs() <= 1e-6 * gaps[0].abs()).all()) or not bool(gaps[0] != 0):
            raise InvalidInput("LinearSystem.recover: the times must be equally spaced; read states off a solution")
        found = least_squares(z[:-1], z[1:])
        if int(found.rank) < z.shape[1]:
            raise InvalidInput("LinearSystem.recover: the states span too few directions; add data from another start")
        return cls(matrix_log(found.solution.mT) / gaps[0])
