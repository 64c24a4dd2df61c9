"""Checks of settings: each gives back the plain value that is meant, or says in one sentence what would work.

Whole numbers and numbers may be Python's or NumPy's, as a search over ``np.arange`` gives them; True and False are
neither. A method or class that speaks in front of the setting is part of its name: ``"Trainer: epochs"``.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Collection, Hashable, Mapping
from functools import cache
from numbers import Integral, Real
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput, nearest, shown

# what a declared type means in words; settings declared otherwise are checked where they are used
_LARGEST = int(sys.float_info.max)
_MOST = 2**31 - 1  # of what is counted, so that 32 bits hold it
_PLAIN = {"bool": "True or False", "int": "a whole number", "float": "a number", "str": "a word", "None": "None"}


def is_whole(value: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    """Whether a value is a whole number from ``least`` to ``most``.

    >>> is_whole(3), is_whole(np.int64(3), 1), is_whole(3.0), is_whole(True), is_whole(0, 1)
    (True, True, False, False, False)
    """
    return not isinstance(value, bool) and isinstance(value, Integral) and least <= int(value) <= most


def is_number(value: Any) -> bool:
    """Whether a value is one real number that a float can hold; infinity and NaN are such."""
    beyond = isinstance(value, Integral) and abs(int(value)) > _LARGEST
    return not isinstance(value, bool) and isinstance(value, Real) and not beyond


def is_real(value: Any) -> bool:
    """Whether a value is one finite number."""
    return is_number(value) and math.isfinite(value)


def check_plain(estimator: Any) -> None:
    """Refuse arrays, tensors, functions and numbers of more than 64 bits where a setting is declared as a plain value.

    So that no comparison meets an array, whose truth is ambiguous, and compiled code no number that it cannot hold.
    """
    for name, kinds in _plain_settings(estimator.__class__).items():
        value = getattr(estimator, name)
        if isinstance(value, Integral) and abs(int(value)) >= 2**63:
            raise InvalidInput(f"{name} is {shown(value)}; whole numbers go up to 2**63 - 1 = 9223372036854775807")
        if value is None or isinstance(value, (bool, str, Real, np.generic)):
            continue
        if not (getattr(value, "ndim", 1) == 0 or ("a mapping" in kinds and isinstance(value, Mapping))):
            raise InvalidInput(f"{name} is {shown(value)}; it must be {' or '.join(kinds)}")


@cache
def _plain_settings(cls: Any) -> dict[str, list[str]]:
    """The settings of a class that are declared as plain values or mappings, with what they must be in words."""
    found = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        declared = str(getattr(parameter.annotation, "__name__", parameter.annotation)).split(" | ")
        kinds = ["a mapping" if kind.startswith("Mapping[") else _PLAIN.get(kind, "") for kind in declared]
        if all(kinds):
            found[name] = kinds
    return found


def whole(name: str, value: Any, least: int = 1, *, most: int = _MOST, optional: bool = False) -> Any:
    """The whole number from ``least`` to ``most`` as an int; optional: None is given back as it is.

    >>> whole("epochs", np.int64(5))
    5
    >>> whole("epochs", 2.5)
    Traceback (most recent call last):
    benthic.base.errors.InvalidInput: epochs is 2.5; it must be a whole number of at least 1
    """
    if optional and value is None:
        return None
    if is_whole(value, least) and value > most:
        raise InvalidInput(f"{name} is {shown(value)}; it must be at most {most}")
    if not is_whole(value, least):
        raise InvalidInput(
            f"{name} is {shown(value)}; it must be a whole number of at least {least}{_or_none(optional)}"
        )
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
        raise InvalidInput(f"{name} is {shown(value)}; it must be {_interval(low, high, ends)}{_or_none(optional)}")
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
    if getattr(value, "ndim", 0) or not isinstance(value, Hashable) or value not in choices:
        words = [str(choice) for choice in choices]
        hint = nearest(value, words) if isinstance(value, str) else ""
        raise InvalidInput(f"{name} {shown(value)} is unknown{hint}; use {besides}{', '.join(words)}")
    return value


def flag(name: str, value: Any) -> bool:
    """True or False, Python's or NumPy's."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"{name} is {shown(value)}; it must be True or False")
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
        raise InvalidInput(f"{name} is {shown(value)}; give {many}whole numbers of at least 1")
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
