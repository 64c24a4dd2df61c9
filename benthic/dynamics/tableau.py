"""Runge–Kutta methods as data: a table of coefficients and two orders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from benthic.base.errors import InvalidInput, nearest

Row = tuple[float, ...]


@dataclass(frozen=True)
class Tableau:
    r"""An explicit Runge–Kutta method, or one whose stages, but the first, are implicit by the same number γ.

    .. math::
        k_i = f\Big(t + c_i h,\; y + h \sum_{j<i} a_{ij} k_j + h \gamma k_i\Big), \qquad
        y(t + h) \approx y + h \sum_i b_i k_i

    Butcher, 1964. order: of the solution that is kept. a: row i has i numbers. b: weights of the stages.
    diagonal: γ, 0 for an explicit method.
    error: b minus the weights of the embedded solution, None for a method without one. error_order: order of
    that embedded solution. dense: row i holds the coefficients of θ, θ², ... by which stage i enters
    y(t + θh); without it a cubic through values and slopes is used.

    >>> DORMAND_PRINCE.stages, DORMAND_PRINCE.reuses_last
    (7, True)
    """

    name: str
    order: int
    a: tuple[Row, ...]
    b: Row
    error: Row | None = None
    error_order: int = 0
    dense: tuple[Row, ...] | None = None
    diagonal: float = 0.0

    @cached_property
    def c(self) -> Row:
        """Where in the step each stage is evaluated: the sums of the rows of a, with γ."""
        return tuple(sum(row) + (self.diagonal if i else 0.0) for i, row in enumerate(self.a))

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.b)

    @cached_property
    def reuses_last(self) -> bool:
        """Whether the last stage is the first one of the next step."""
        return self.a[-1] == self.b[:-1] and self.b[-1] == self.diagonal

    @property
    def adaptive(self) -> bool:
        """Whether the method estimates its own error."""
        return self.error is not None


EULER = Tableau("euler", 1, ((),), (1.0,))
MIDPOINT = Tableau("midpoint", 2, ((), (1 / 2,)), (0.0, 1.0))
HEUN = Tableau("heun", 2, ((), (1.0,)), (1 / 2, 1 / 2), error=(-1 / 2, 1 / 2), error_order=1)
RK4 = Tableau("rk4", 4, ((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6))

# Bogacki & Shampine, 1989.
BOGACKI_SHAMPINE = Tableau(
    "bogacki_shampine",
    3,
    ((), (1 / 2,), (0.0, 3 / 4), (2 / 9, 1 / 3, 4 / 9)),
    (2 / 9, 1 / 3, 4 / 9, 0.0),
    error=(2 / 9 - 7 / 24, 1 / 3 - 1 / 4, 4 / 9 - 1 / 3, -1 / 8),
    error_order=2,
    dense=((1.0, -4 / 3, 5 / 9), (0.0, 1.0, -2 / 3), (0.0, 4 / 3, -8 / 9), (0.0, -1.0, 1.0)),
)

# Dormand & Prince, 1980; the interpolant of order 4 is that of Shampine, 1986.
DORMAND_PRINCE = Tableau(
    "dormand_prince",
    5,
    (
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    ),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0),
    error=(71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40),
    error_order=4,
    dense=(
        (1.0, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432),
        (0.0, 0.0, 0.0, 0.0),
        (0.0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799),
        (0.0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072),
        (0.0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632),
        (0.0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844),
        (0.0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423),
    ),
)


def _quartic(scale: float, first: float, second: float) -> Row:
    """scale · θ² (θ − first)(θ − second) as coefficients of θ, θ², θ³, θ⁴."""
    return (0.0, scale * first * second, -scale * (first + second), scale)


# Tsitouras, 2011, with its interpolant of order 4.
TSITOURAS = Tableau(
    "tsitouras",
    5,
    (
        (),
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383),
        (0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774),
    ),
    (0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774, 0.0),
    error=(
        0.00178001105222577714,
        0.0008164344596567469,
        -0.007880878010261995,
        0.1447110071732629,
        -0.5823571654525552,
        0.45808210592918697,
        -0.015151515151515152,
    ),
    error_order=4,
    dense=(
        (1.0, -2.763706197274826, 2.9132554618219126, -1.0530884977290216),
        (0.0, 0.1317, -0.2234, 0.1017),
        (0.0, 3.9302962368947516, -5.941033872131505, 2.490627285651253),
        _quartic(-16.54810288924490272, 1.21712927295533244, 0.61620406037800089),
        _quartic(47.37952196281928122, 1.203071208372362603, 0.658047292653547382),
        _quartic(-34.87065786149660974, 1.2, 2 / 3),
        _quartic(2.5, 1.0, 0.6),
    ),
)

# Kværnø, 2004: L-stable and stiffly accurate, as is its embedded solution.
_ROW_6 = (0.13855640231268224, 0.0, -0.04245337201752043, 0.02446657898003141, 0.61943039072480676)
_ROW_7 = (
    0.13659751177640291,
    0.0,
    -0.05496908796538376,
    -0.04118626728321046,
    0.62993304899016403,
    0.06962479448202728,
)
_GAMMA = 0.26
KVAERNO = Tableau(
    "kvaerno",
    5,
    (
        (),
        (_GAMMA,),
        (0.13, 0.84033320996790809),
        (0.22371961478320505, 0.47675532319799699, -0.06470895363112615),
        (0.16648564323248321, 0.10450018841591720, 0.03631482272098715, -0.13090704451073998),
        _ROW_6,
        _ROW_7,
    ),
    (*_ROW_7, _GAMMA),
    error=tuple(b - c for b, c in zip((*_ROW_7, _GAMMA), (*_ROW_6, _GAMMA, 0.0), strict=True)),
    error_order=4,
    diagonal=_GAMMA,
)

# The three stages of Radau IIA depend on each other; its coefficients stand where they are solved for.
RADAU = Tableau("radau", 5, ((), (), ()), (0.0, 0.0, 0.0), error=(0.0, 0.0, 0.0), error_order=3, diagonal=1.0)

TABLEAUX = {
    tableau.name: tableau
    for tableau in (EULER, MIDPOINT, HEUN, RK4, BOGACKI_SHAMPINE, DORMAND_PRINCE, TSITOURAS, KVAERNO)
}
ALIASES = {
    "dopri5": "dormand_prince",
    "tsit5": "tsitouras",
    "bosh3": "bogacki_shampine",
    "adaptive_heun": "heun",
    "kvaerno5": "kvaerno",
}


METHODS = {**TABLEAUX, RADAU.name: RADAU}


def tableau_of(method: str | Tableau) -> Tableau:
    """A method by its name, or a ``Tableau`` as it is.

    >>> tableau_of("dopri5").order
    5
    """
    if isinstance(method, Tableau):
        return method
    name = ALIASES.get(method, method)
    if name not in METHODS:
        known = [*METHODS, *ALIASES]
        raise InvalidInput(f"method {method!r} is unknown{nearest(str(method), known)}; there are {', '.join(known)}")
    return METHODS[name]
