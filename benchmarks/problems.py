"""Initial value problems that solvers are judged on: the non-stiff set of Hull and others, and three stiff ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

Slope = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Problem:
    """An initial value problem from time 0 to ``end``.

    field: f(t, y) on tensors (d,). start: (d,) numbers. exact: the solution at times (m,) as (m, d), where it has a
    closed form. small: how large a component that matters is beside 1, for absolute tolerances.
    """

    name: str
    field: Slope
    start: tuple[float, ...]
    end: float = 20.0
    exact: Callable[[np.ndarray], np.ndarray] | None = None
    small: float = 1.0

    def slope(self, t: float, y: np.ndarray) -> np.ndarray:
        """The field on NumPy arrays."""
        return self.field(torch.tensor(t, dtype=torch.float64), torch.as_tensor(y)).numpy()

    def times(self, count: int = 21) -> np.ndarray:
        """Evenly spaced times from 0 to the end."""
        return np.linspace(0.0, self.end, count)


@cache
def reference(problem: Problem, count: int = 21) -> np.ndarray:
    """The solution (count, d) at ``problem.times(count)``, from its closed form or by SciPy at tight tolerances."""
    times = problem.times(count)
    if problem.exact is not None:
        return problem.exact(times)
    if problem.name in STIFF:
        return by_scipy(problem, "Radau", 1e-12, times)
    return by_scipy(problem, "DOP853", 1e-13, times)


def by_scipy(problem: Problem, method: str, tolerance: float, times: np.ndarray) -> np.ndarray:
    """The solution (m, d) by a method of ``scipy.integrate.solve_ivp``."""
    from scipy.integrate import solve_ivp

    options = {"method": method, "rtol": tolerance, "atol": tolerance * problem.small, "t_eval": times}
    found = solve_ivp(problem.slope, (0.0, problem.end), problem.start, **options)
    if not found.success:
        raise RuntimeError(f"SciPy's {method} did not solve {problem.name}: {found.message}")
    return found.y.T


# -- class A: one equation ---------------------------------------------------------------------------------------------


def _scalar(name: str, field: Slope, start: float, exact: Callable[[np.ndarray], np.ndarray] | None = None) -> Problem:
    return Problem(name, field, (start,), exact=None if exact is None else lambda t: exact(t)[:, None])


CLASS_A = (
    _scalar("A1", lambda t, y: -y, 1.0, lambda t: np.exp(-t)),
    _scalar("A2", lambda t, y: -(y**3) / 2, 1.0, lambda t: 1 / np.sqrt(t + 1)),
    _scalar("A3", lambda t, y: y * torch.cos(t), 1.0, lambda t: np.exp(np.sin(t))),
    _scalar("A4", lambda t, y: y / 4 * (1 - y / 20), 1.0, lambda t: 20 / (1 + 19 * np.exp(-t / 4))),
    _scalar("A5", lambda t, y: (y - t) / (y + t), 4.0),
)

# -- class B: small systems --------------------------------------------------------------------------------------------


def _stack(*parts: Any) -> Tensor:
    return torch.stack(parts)


def _prey(t: Tensor, y: Tensor) -> Tensor:
    both = y[0] * y[1]
    return _stack(2 * (y[0] - both), both - y[1])


def _chemistry(t: Tensor, y: Tensor) -> Tensor:
    return _stack(-y[0] + y[1], y[0] - 2 * y[1] + y[2], y[1] - y[2])


def _reaction(t: Tensor, y: Tensor) -> Tensor:
    return _stack(-y[0], y[0] - y[1] ** 2, y[1] ** 2)


def _torus(t: Tensor, y: Tensor) -> Tensor:
    r = torch.hypot(y[0], y[1])
    return _stack(-y[1] - y[0] * y[2] / r, y[0] - y[1] * y[2] / r, y[0] / r)


def _rigid(t: Tensor, y: Tensor) -> Tensor:
    return _stack(y[1] * y[2], -y[0] * y[2], -0.51 * y[0] * y[1])


def _elliptic(t: np.ndarray) -> np.ndarray:
    """Euler's rigid body without forces turns by Jacobi's elliptic functions."""
    from scipy.special import ellipj

    sn, cn, dn, _ = ellipj(t, 0.51)
    return np.stack([sn, cn, dn], 1)


CLASS_B = (
    Problem("B1", _prey, (1.0, 3.0)),
    Problem("B2", _chemistry, (2.0, 0.0, 1.0), exact=lambda t: _linear(_chemistry, (2.0, 0.0, 1.0), t)),
    Problem("B3", _reaction, (1.0, 0.0, 0.0)),
    Problem("B4", _torus, (3.0, 0.0, 0.0)),
    Problem("B5", _rigid, (0.0, 1.0, 1.0), exact=_elliptic),
)

# -- class C: moderate systems -----------------------------------------------------------------------------------------


def _linear(field: Slope, start: tuple[float, ...], t: np.ndarray) -> np.ndarray:
    """The solution of a linear field with constant coefficients, by matrix exponentials."""
    from scipy.linalg import expm

    columns = torch.eye(len(start), dtype=torch.float64)
    matrix = np.stack([field(torch.zeros(()), column).numpy() for column in columns], 1)
    return np.stack([expm(time * matrix) @ np.array(start) for time in t])


def _chain(rates: tuple[float, ...]) -> Slope:
    """Each state decays into the next; the last one stays."""
    speed = torch.tensor([*rates, 0.0], dtype=torch.float64)

    def field(t: Tensor, y: Tensor) -> Tensor:
        lost = speed * y
        return torch.nn.functional.pad(lost[:-1], (1, 0)) - lost

    return field


def _heat(t: Tensor, y: Tensor) -> Tensor:
    padded = torch.nn.functional.pad(y, (1, 1))
    return padded[:-2] - 2 * y + padded[2:]


_GRAVITY, _SUN = 2.95912208286, 1.00000597682
_PLANETS = torch.tensor(
    [0.000954786104043, 0.000285583733151, 0.0000437273164546, 0.0000517759138449, 0.00000277777777778],
    dtype=torch.float64,
)
_POSITIONS = (
    (3.42947415189, 3.35386959711, 1.35494901715),
    (6.64145542550, 5.97156957878, 2.18231499728),
    (11.2630437207, 14.6952576794, 6.27960525067),
    (-30.1552268759, 1.65699966404, 1.43785752721),
    (-21.1238353380, 28.4465098142, 15.3882659679),
)
_VELOCITIES = (
    (-0.557160570446, 0.505696783289, 0.230578543901),
    (-0.415570776342, 0.365682722812, 0.169143213293),
    (-0.325325669158, 0.189706021964, 0.0877265322780),
    (-0.0240476254170, -0.287659532608, -0.117219543175),
    (-0.176860753121, -0.216393453025, -0.0148647893090),
)


def _five_bodies(t: Tensor, y: Tensor) -> Tensor:
    """The outer planets about the Sun, which stays at the origin."""
    x, v = y.reshape(2, 5, 3)
    pull = x / x.norm(dim=1, keepdim=True) ** 3  # (planet, 3), toward the Sun
    gap = x[None] - x[:, None]  # (j, k, 3): from planet j to planet k
    distance = gap.square().sum(-1).sqrt() + torch.eye(5, dtype=y.dtype)
    others = (_PLANETS[:, None] * (gap / distance[..., None] ** 3)).sum(1)
    shift = (_PLANETS[:, None] * pull).sum(0) - _PLANETS[:, None] * pull  # all but the planet's own
    force = -(_SUN + _PLANETS)[:, None] * pull + others - shift
    return torch.cat([v, _GRAVITY * force]).reshape(-1)


def _unit(size: int) -> tuple[float, ...]:
    return (1.0, *[0.0] * (size - 1))


def _linear_problem(name: str, field: Slope, size: int) -> Problem:
    start = _unit(size)
    return Problem(name, field, start, exact=lambda t: _linear(field, start, t))


CLASS_C = (
    _linear_problem("C1", _chain((1.0,) * 9), 10),
    _linear_problem("C2", _chain(tuple(map(float, range(1, 10)))), 10),
    _linear_problem("C3", _heat, 10),
    _linear_problem("C4", _heat, 51),
    Problem("C5", _five_bodies, tuple(x for part in (_POSITIONS, _VELOCITIES) for row in part for x in row)),
)

# -- class D: orbits ---------------------------------------------------------------------------------------------------


def _orbit(t: Tensor, y: Tensor) -> Tensor:
    return torch.cat([y[2:], -y[:2] / torch.hypot(y[0], y[1]) ** 3])


def _kepler(eccentricity: float, t: np.ndarray) -> np.ndarray:
    """The ellipse, from Kepler's equation u - e sin u = t solved by Newton's method."""
    u = t.copy()
    for _ in range(60):
        step = (u - eccentricity * np.sin(u) - t) / (1 - eccentricity * np.cos(u))
        u -= np.clip(step, -1.0, 1.0)
    minor, speed = math.sqrt(1 - eccentricity**2), 1 / (1 - eccentricity * np.cos(u))
    return np.stack([np.cos(u) - eccentricity, minor * np.sin(u), -np.sin(u) * speed, minor * np.cos(u) * speed], 1)


def _orbit_problem(number: int, eccentricity: float) -> Problem:
    start = (1 - eccentricity, 0.0, 0.0, math.sqrt((1 + eccentricity) / (1 - eccentricity)))
    return Problem(f"D{number}", _orbit, start, exact=lambda t: _kepler(eccentricity, t))


CLASS_D = tuple(_orbit_problem(i + 1, e) for i, e in enumerate((0.1, 0.3, 0.5, 0.7, 0.9)))

# -- class E: equations of higher order --------------------------------------------------------------------------------


def _bessel(t: Tensor, y: Tensor) -> Tensor:
    s = t + 1
    return _stack(y[1], -(y[1] / s + (1 - 0.25 / s**2) * y[0]))


def _half_bessel(t: np.ndarray) -> np.ndarray:
    """The Bessel function of order 1/2 and its derivative at t + 1."""
    s = t + 1
    value = np.sqrt(2 / (np.pi * s)) * np.sin(s)
    return np.stack([value, np.sqrt(2 / (np.pi * s)) * np.cos(s) - value / (2 * s)], 1)


def _van_der_pol(mu: float) -> Slope:
    return lambda t, y: _stack(y[1], mu * (1 - y[0] ** 2) * y[1] - y[0])


def _duffing(t: Tensor, y: Tensor) -> Tensor:
    return _stack(y[1], y[0] ** 3 / 6 - y[0] + 2 * torch.sin(2.78535 * t))


def _falling(t: Tensor, y: Tensor) -> Tensor:
    return _stack(y[1], 0.032 - 0.4 * y[1] ** 2)


def _fallen(t: np.ndarray) -> np.ndarray:
    limit, rate = math.sqrt(0.08), math.sqrt(0.0128)
    return np.stack([30 + np.log(np.cosh(rate * t)) / 0.4, limit * np.tanh(rate * t)], 1)


def _pursuit(t: Tensor, y: Tensor) -> Tensor:
    return _stack(y[1], torch.sqrt(1 + y[1] ** 2) / (25 - t))


def _pursued(t: np.ndarray) -> np.ndarray:
    """With s = (25 - t) / 25 the slope is sinh(-log s), and its integral elementary."""
    s = (25 - t) / 25
    return np.stack([12.5 * (s**2 / 2 - np.log(s) - 0.5), (1 / s - s) / 2], 1)


CLASS_E = (
    Problem("E1", _bessel, tuple(_half_bessel(np.zeros(1))[0].tolist()), exact=_half_bessel),
    Problem("E2", _van_der_pol(1.0), (2.0, 0.0)),
    Problem("E3", _duffing, (0.0, 0.0)),
    Problem("E4", _falling, (30.0, 0.0), exact=_fallen),
    Problem("E5", _pursuit, (0.0, 0.0), exact=_pursued),
)

# -- stiff -------------------------------------------------------------------------------------------------------------


def _robertson(t: Tensor, y: Tensor) -> Tensor:
    slow, fast = -0.04 * y[0] + 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return _stack(slow, -slow - fast, fast)


def _hires(t: Tensor, y: Tensor) -> Tensor:
    a, b, c, d, e, f, g, h = y
    light = 280 * f * h
    return _stack(
        -1.71 * a + 0.43 * b + 8.32 * c + 0.0007,
        1.71 * a - 8.75 * b,
        -10.03 * c + 0.43 * d + 0.035 * e,
        8.32 * b + 1.71 * c - 1.12 * d,
        -1.745 * e + 0.43 * f + 0.43 * g,
        -light + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g,
        light - 1.81 * g,
        -light + 1.81 * g,
    )


#: Hull, Enright, Fellen & Sedgwick, 1972: 25 non-stiff problems from 0 to 20.
NON_STIFF = {problem.name: problem for problem in (*CLASS_A, *CLASS_B, *CLASS_C, *CLASS_D, *CLASS_E)}
#: Hairer & Wanner, 1996, IV.10.
STIFF = {
    problem.name: problem
    for problem in (
        Problem("van der Pol 1000", _van_der_pol(1000.0), (2.0, 0.0), 2000.0),
        Problem("Robertson", _robertson, (1.0, 0.0, 0.0), 1e4, small=1e-4),
        Problem("HIRES", _hires, (1.0, 0, 0, 0, 0, 0, 0, 0.0057), 321.8122, small=1e-2),
    )
}
