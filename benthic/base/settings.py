"""Checks of settings: each gives back the plain value that is meant, or says in one sentence what would work.

Whole numbers and numbers may be Python's or NumPy's, as a search over ``np.arange`` gives them; True and False are
neither. A method or class that speaks in front of the setting is part of its name: ``"Trainer: epochs"``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from numbers import Integral, Real
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput, nearest


def is_whole(value: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    """Whether a value is a whole number from ``least`` to ``most``.

    >>> is_whole(3), is_whole(np.int64(3), 1), is_whole(3.0), is_whole(True), is_whole(0, 1)
    (True, True, False, False, False)
    """
    return not isinstance(value, bool) and isinstance(value, Integral) and least <= int(value) <= most


def is_number(value: Any) -> bool:
    """Whether a value is one real number; infinity and NaN are such."""
    return not isinstance(value, bool) and isinstance(value, Real)


def is_real(value: Any) -> bool:
    """Whether a value is one finite number."""
    return is_number(value) and math.isfinite(value)


def whole(name: str, value: Any, least: int = 1, *, optional: bool = False) -> Any:
    """The whole number of at least ``least`` as an int; optional: None is given back as it is.

    >>> whole("epochs", np.int64(5))
    5
    >>> whole("epochs", 2.5)
    Traceback (most recent call last):
    benthic.base.errors.InvalidInput: epochs is 2.5; it must be a whole number of at least 1
    """
    if optional and value is None:
        return None
    if not is_whole(value, least):
        raise InvalidInput(f"{name} is {value!r}; it must be a whole number of at least {least}{_or_none(optional)}")
    return int(value)


def number(
    name: str, value: Any, low: float = 0.0, high: float = math.inf, *, ends: str = "[)", optional: bool = False
) -> Any:
    """The number of an interval as a float; optional: None is given back as it is.

    ends: whether low and high belong to it, as ``"[)"``; with high infinite, ``]`` takes infinity too.

    >>> number("alpha", np.float32(0.5)), number("C", math.inf, ends="(]"), number("ema", None, 0, 1, optional=True)
    (0.5, inf, None)
    >>> number("dropout", 1.0, 0, 1)
    Traceback (most recent call last):
    benthic.base.errors.InvalidInput: dropout is 1.0; it must be a number in [0, 1)
    """
    if optional and value is None:
        return None
    inside = is_number(value) and low <= value <= high
    if not inside or (value == low and ends[0] == "(") or (value == high and ends[1] == ")"):
        raise InvalidInput(f"{name} is {value!r}; it must be {_interval(low, high, ends)}{_or_none(optional)}")
    return float(value)


def positive(name: str, value: Any, *, optional: bool = False) -> Any:
    """The finite number above 0 as a float; optional: None is given back as it is.

    >>> positive("lr", 1)
    1.0
    """
    return number(name, value, ends="()", optional=optional)


def one_of(name: str, value: Any, choices: Collection[Any], besides: str = "") -> Any:
    """A value out of a list of words; besides: what else would work, said before them.

    >>> one_of("solver", "newtn", ("newton", "lbfgs"))
    Traceback (most recent call last):
    benthic.base.errors.InvalidInput: solver 'newtn' is unknown; did you mean 'newton'?; use newton, lbfgs
    """
    if not isinstance(value, Hashable) or value not in choices:
        words = [str(choice) for choice in choices]
        raise InvalidInput(f"{name} {value!r} is unknown{nearest(str(value), words)}; use {besides}{', '.join(words)}")
    return value


def flag(name: str, value: Any) -> bool:
    """True or False, Python's or NumPy's."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"{name} is {value!r}; it must be True or False")
    return bool(value)


def sizes(name: str, value: Any, *, empty: bool = False) -> tuple[int, ...]:
    """One size, or several in a list, a tuple or an array, as a tuple of ints; empty: none at all will do too.

    >>> sizes("hidden_layer_sizes", 64), sizes("hidden_layer_sizes", np.array([64, 32]))
    ((64,), (64, 32))
    """
    try:
        several = tuple(value)
    except TypeError:  # one size
        several = (value,)
    if not all(is_whole(size, 1) for size in several) or not (several or empty):
        many = "" if empty else "one or more "
        raise InvalidInput(f"{name} is {value!r}; give {many}whole numbers of at least 1")
    return tuple(map(int, several))


def _interval(low: float, high: float, ends: str) -> str:
    if math.isfinite(high):
        if ends in ("[]", "()"):
            return f"a number {'strictly ' if ends == '()' else ''}between {low:g} and {high:g}"
        return f"a number in {ends[0]}{low:g}, {high:g}{ends[1]}"
    if not math.isfinite(low):
        return "a number"
    if ends[0] == "[":
        return f"a number of at least {low:g}"
    return "positive" if low == 0 else f"a number above {low:g}"


def _or_none(optional: bool) -> str:
    return " or None" if optional else ""
