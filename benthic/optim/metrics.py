"""What a quasi-Newton method knows of the curvature at one point, and the direction it makes of the gradient.

A metric has ``direction(gradient)``, which gives the direction and its slope; ``learn(point, before, gradient,
previous)`` after a step from one point and gradient to the next; ``reset()``; and ``fresh``, true while it knows
nothing.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from benthic.optim.lbfgs import Inverse, Memory
from benthic.optim.objective import Vector

CURVED = 1e-14  # a pair counts if <s, y> exceeds this part of |s||y|


def least_product(dtype: torch.dtype) -> float:
    """The smallest <s, y> whose inverse is of use."""
    return torch.finfo(dtype).tiny ** 0.75


class Metric(Protocol):
    """The interface above."""

    fresh: bool

    def direction(self, gradient: Vector) -> tuple[Vector, float]: ...

    def learn(self, point: Vector, before: Vector, gradient: Vector, previous: Vector) -> None: ...

    def reset(self) -> None: ...


class Limited:
    r"""The last pairs of steps and gradient changes, as one product with a matrix of all of them.

    .. math::

        H = \gamma I + \begin{pmatrix} S & \gamma Y \end{pmatrix}
        \begin{pmatrix} R^{-T} (D + \gamma Y^T Y) R^{-1} & -R^{-T} \\ -R^{-1} & 0 \end{pmatrix}
        \begin{pmatrix} S^T \\ \gamma Y^T \end{pmatrix}

    with R the upper triangle of :math:`S^T Y` and D its diagonal (Byrd, Nocedal & Schnabel, 1994, theorem 2.2).
    An iteration reads the pairs twice, once for all inner products and once for the direction; the algebra
    between is of the size of the memory and done on the host. The inverse of R grows by a column with every pair
    and loses a row and a column with the oldest, so nothing is solved or moved.

    Pair k lies in rows 2k and 2k + 1 of a ring of size + 1 places, the gradient in the row after the newest
    pair, so that the three newest rows are one block.
    """

    def __init__(self, start: Vector, size: int = 10) -> None:
        self.places = size + 1
        self._host = isinstance(start, np.ndarray)
        shape = (2 * self.places + 1, len(start))
        self.memory = np.zeros(shape) if self._host else start.new_zeros(shape)
        self._c = np.zeros(len(self.memory))
        self._least = least_product(torch.float64 if self._host else start.dtype)
        self.inverse_R = np.zeros((self.places, self.places))
        self.YY = np.zeros((self.places, self.places))
        self.D = np.zeros(self.places)
        self.reset()

    def reset(self) -> None:
        """Forget all pairs."""
        self.fresh, self.place, self.gamma = True, -1, 1.0
        for part in (self.inverse_R, self.YY, self.D):
            part[:] = 0.0

    def learn(self, point: Vector, before: Vector, gradient: Vector, previous: Vector) -> None:
        """Add the pair of the last step, if the function curved upwards along it."""
        k = (self.place + 1) % self.places
        self._products = products = self._write(k, point, before, gradient, previous)
        self._gradient_row = 2 * k + 2
        T, oldest = self.inverse_R, (k + 1) % self.places
        T[oldest] = T[:, oldest] = 0.0
        ss, sy, yy = products[2 * k, 0], products[2 * k, 1], products[2 * k + 1, 1]
        if not sy > max(CURVED * math.sqrt(ss * yy), self._least):
            return
        column = T.dot(products[:-1:2, 1])  # T S'y
        column /= -sy
        column[k] = 1.0 / sy
        T[:, k] = column
        self.YY[k] = self.YY[:, k] = products[1::2, 1]
        self.D[k], self.gamma = sy, sy / yy
        self.place, self.fresh = k, False

    def direction(self, gradient: Vector) -> tuple[Vector, float]:
        """Minus the inverse times the gradient that was learned last, and the slope along it."""
        if self.fresh:
            return -gradient, -float(gradient.dot(gradient))
        along, gamma, T, c = self._products[:, 2], self.gamma, self.inverse_R, self._c
        u = T.dot(along[:-1:2])
        w = self.YY.dot(u)
        w -= along[1::2]
        w *= gamma
        w += self.D * u
        c[:-1:2] = -w.dot(T)
        c[1::2] = gamma * u
        c[-1] = 0.0
        c[self._gradient_row] = -gamma
        slope = float(c.dot(along))
        if self._host:
            return c.dot(self.memory), slope
        return torch.from_numpy(c).to(self.memory) @ self.memory, slope

    def _write(self, k: int, point: Vector, before: Vector, gradient: Vector, previous: Vector) -> np.ndarray:
        """Put the newest rows in place; the inner products (rows, 3) of all with s, y and the gradient."""
        block = self.memory[2 * k : 2 * k + 3]
        subtract = np.subtract if self._host else torch.sub
        subtract(point, before, out=block[0])
        subtract(gradient, previous, out=block[1])
        block[2] = gradient
        if self._host:
            return self.memory.dot(block.T)
        return (self.memory @ block.T).double().cpu().numpy()


class Dense:
    r"""The whole inverse Hessian, by the update of Broyden, Fletcher, Goldfarb and Shanno (1970).

    .. math:: H_{i+1} = (I - \rho s y^T) H_i (I - \rho y s^T) + \rho s s^T, \qquad \rho = 1 / y^T s

    The first pair sets the scale of the identity it starts from (Nocedal & Wright, 2006, equation 6.20).
    """

    def __init__(self, start: Tensor) -> None:
        self.start = start
        self.reset()

    def reset(self) -> None:
        """Forget all pairs."""
        self.fresh = True
        self.H = torch.eye(len(self.start), dtype=self.start.dtype, device=self.start.device)

    def learn(self, point: Tensor, before: Tensor, gradient: Tensor, previous: Tensor) -> None:
        """Update by the pair of the last step, if the function curved upwards along it."""
        s, y = point - before, gradient - previous
        sy, yy, ss = torch.dot(s, y), torch.dot(y, y), torch.dot(s, s)
        if not float(sy) > max(CURVED * float(ss * yy) ** 0.5, least_product(s.dtype)):
            return
        if self.fresh:
            self.H *= sy / yy
            self.fresh = False
        Hy = self.H @ y
        left = torch.stack((s * ((1 + torch.dot(y, Hy) / sy) / sy) - Hy / sy, -s / sy), 1)  # (d, 2)
        self.H.addmm_(left, torch.stack((s, Hy)))

    def direction(self, gradient: Tensor) -> tuple[Tensor, float]:
        """Minus the inverse times the gradient, and the slope along it."""
        direction = (self.H @ gradient).neg_()
        return direction, float(torch.dot(gradient, direction))


class Preconditioned:
    """Limited memory on top of a given first inverse, by the two-loop recursion."""

    def __init__(self, inverse: Inverse, size: int, shape: torch.Size) -> None:
        self.inverse, self.size, self.shape = inverse, size, shape
        self.fresh = False
        self.reset()

    def reset(self) -> None:
        """Forget all pairs."""
        self.memory = Memory(self.size)

    def learn(self, point: Tensor, before: Tensor, gradient: Tensor, previous: Tensor) -> None:
        """Add the pair of the last step."""
        self.memory = self.memory.add(point - before, gradient - previous)

    def direction(self, gradient: Tensor) -> tuple[Tensor, float]:
        """Minus the inverse times the gradient, and the slope along it."""
        direction = -self.memory.inverse(gradient, self._start)
        return direction, float(torch.dot(gradient, direction))

    def _start(self, gradient: Tensor) -> Tensor:
        return self.inverse(gradient.view(self.shape)).reshape(-1)
