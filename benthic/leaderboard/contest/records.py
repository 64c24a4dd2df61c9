"""What the parts of a comparison hand to each other, as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benthic.base.errors import InvalidInput, nearest
from benthic.base.likelihood import Bound, Likelihood, Measure
from benthic.base.settings import is_real

Origin = Literal["catalogue", "given", "baseline", "scikit-learn"]
Status = Literal["ok", "failed", "out of budget", "not finite"]
Better = Literal["lower", "higher"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_KINDS = ("seconds", "parameters", "evaluations")


@dataclass(frozen=True)
class Contestant:
    """A model that takes part: its name in the table, the unfitted estimator, and where it comes from."""

    name: str
    model: Any
    origin: Origin = "given"

    @property
    def kind(self) -> str:
        """The class of the model: what those of one kind need is loaded once."""
        return type(self.model).__name__


@dataclass(frozen=True)
class Budget:
    """What one fit may use.

    kind: ``seconds`` of wall-clock time, ``parameters`` of the model, or ``evaluations`` of its network (rows shown to
    it in training). amount: so many.

    >>> str(Budget.of("10m")), str(Budget.of({"parameters": 1e5}))
    ('10 min a fit', '100,000 parameters a fit')
    """

    kind: Literal["seconds", "parameters", "evaluations"] = "seconds"
    amount: float = 30.0

    @classmethod
    def of(cls, value: Any) -> Budget:
        """A budget from ``30s``, ``10m``, a number of seconds, ``{"parameters": n}`` or ``{"evaluations": n}``."""
        if isinstance(value, Budget):
            return cls(_kind(value.kind), _amount(value.amount, value))
        if isinstance(value, Mapping):
            if len(value) != 1:
                raise InvalidInput(f"compare: budget is {dict(value)!r}; one of {', '.join(_KINDS)} is needed")
            ((kind, amount),) = value.items()
            return cls(_kind(kind), _amount(amount, value))
        if isinstance(value, str):
            return cls("seconds", _seconds(value))
        return cls("seconds", _amount(value, value))

    def __str__(self) -> str:
        if self.kind != "seconds":
            return f"{int(self.amount):,} {self.kind} a fit"
        minutes = self.amount / 60
        if self.amount >= 60 and minutes == int(minutes):
            return f"{int(minutes)} min a fit"
        return f"{self.amount:g} s a fit"


def _kind(kind: Any) -> Any:
    if kind not in _KINDS:
        raise InvalidInput(f"compare: there is no budget of {kind!r}{nearest(str(kind), _KINDS)}; {', '.join(_KINDS)}")
    return kind


def _amount(amount: Any, value: Any) -> float:
    if not is_real(amount) or not amount > 0:
        raise InvalidInput(f"compare: budget is {value!r}; it must be above zero, as 30, '30s' or '10m'")
    return float(amount)


def _seconds(text: str) -> float:
    plain = text.strip().lower()
    number, unit = (plain[:-1], _UNITS[plain[-1]]) if plain[-1:] in _UNITS else (plain, 1.0)
    try:
        return _amount(float(number) * unit, text)
    except ValueError as error:
        raise InvalidInput(f"compare: budget is {text!r}; write it as '30s', '10m', '2h' or seconds") from error


@dataclass(frozen=True)
class Outcome:
    """How one fit ended: of one contestant with one seed.

    status: ``ok``, ``failed``, ``out of budget`` or ``not finite``; reason: a sentence where it is not ok. seconds:
    of the fit; sample_seconds: of sampling. memory: bytes the fit added to the process at its peak. parameters: of the
    fitted model, None where unknown. samples: rows like the data, (m, d), (m, c, h, w) or a frame, or None.
    likelihood: of the judged rows, or None with ``no_likelihood`` saying why. folder: with the saved model, if any.
    labels: (m,) that the samples were asked for, where the data have labels and the model takes them.
    """

    name: str
    seed: int
    status: Status = "ok"
    reason: str = ""
    seconds: float = math.nan
    sample_seconds: float = math.nan
    memory: float = math.nan
    parameters: int | None = None
    samples: Any = None
    likelihood: Likelihood | None = None
    no_likelihood: str = ""
    folder: Path | None = None
    labels: Any = None


@dataclass(frozen=True)
class Score:
    """One metric of one model, averaged over its seeds.

    stderr: over judged rows and seeds. floor: the same between two halves of real rows. baseline: of the baseline.
    normalized: (value - floor) / (baseline - floor), so that 0 is as good as real rows and 1 as bad as the baseline.
    """

    metric: str
    value: float
    stderr: float = math.nan
    floor: float = math.nan
    baseline: float = math.nan
    normalized: float = math.nan
    better: Better = "lower"


@dataclass(frozen=True)
class LikelihoodScore:
    """The mean log-likelihood of judged rows, in nats, ranked only among models of the same kind and measure.

    rank_low and rank_high: interval of ranks within that group of ``group_size`` models. wins: names of models of
    another kind that it certainly beats (a lower bound above an exact value).
    """

    value: float
    stderr: float
    kind: str
    bound: Bound
    measure: Measure
    rank_low: int | None = None
    rank_high: int | None = None
    p_best: float = math.nan
    group_size: int = 1
    wins: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """Whom it may be ranked with, such as ``exact density``."""
        return f"{self.kind} {self.measure}"

    @property
    def manner(self) -> str:
        """How it was found, and of what where that is no density, such as ``elbo, mass``."""
        return self.kind if self.measure == "density" else f"{self.kind}, {self.measure}"


@dataclass(frozen=True)
class Finding:
    """What there is to say of a model.

    kind: ``good``, ``best``, ``collapsed``, ``memorizes``, ``not finite``, ``failed``, ``out of budget``, ``unstable``
    or ``note``. text: a plain sentence.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Line:
    """One row of the table: a model over all its seeds.

    status: of its fits; ``ok`` if at least one was. ranked: whether it takes part in the ranking; reason: why not.
    rank_low, rank_high: the interval of its rank; p_best: probability of being best. quality: the mean of the
    normalized scores over the metrics that rank, with the interval quality_low to quality_high; lower is better.
    scores: by metric. extra: numbers that do not rank, such as precision or the memorization ratio.
    """

    name: str
    origin: Origin = "given"
    status: Status = "ok"
    ranked: bool = True
    reason: str = ""
    rank_low: int | None = None
    rank_high: int | None = None
    p_best: float = math.nan
    quality: float = math.nan
    quality_low: float = math.nan
    quality_high: float = math.nan
    scores: dict[str, Score] = field(default_factory=dict)
    likelihood: LikelihoodScore | None = None
    no_likelihood: str = ""
    seconds: float = math.nan
    sample_seconds: float = math.nan
    memory: float = math.nan
    parameters: int | None = None
    fits: int = 0
    findings: tuple[Finding, ...] = ()
    extra: dict[str, float] = field(default_factory=dict)

    @property
    def rank(self) -> str:
        """The interval of ranks as text: ``2``, ``1-3``, or a dash.

        >>> Line("VAE", rank_low=1, rank_high=3).rank
        '1-3'
        """
        if not self.ranked or self.rank_low is None:
            return "-"
        return f"{self.rank_low}" if self.rank_low == self.rank_high else f"{self.rank_low}-{self.rank_high}"


@dataclass(frozen=True)
class DataFacts:
    """The data compared on: a name, its size, and the kind ``table``, ``frame`` or ``image``.

    shape: of one row. target: name of the labels where there are any.
    """

    name: str
    rows: int
    columns: int
    kind: str = "table"
    shape: tuple[int, ...] = ()
    target: str | None = None
