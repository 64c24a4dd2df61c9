"""Errors that say what was wrong, where, and what would work."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class InvalidInput(ValueError):
    """The data or a setting cannot be used; the message says why and what would work."""


class ModelFileError(ValueError):
    """A model file or checkpoint is truncated, damaged, foreign or too new."""


class NonFiniteLoss(RuntimeError):
    """Training met a loss that is not a number; the message names step, cause and last good checkpoint."""


class Interrupted(KeyboardInterrupt):
    """Training was stopped by the user after its state was saved; the message says how to go on."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "interrupted"


def brief(error: BaseException, most: int = 200) -> str:
    """The message of an error in one line, with its type where it does not explain itself.

    >>> brief(KeyError("mean"))
    "KeyError: 'mean'"
    """
    text = " ".join(str(error).split())
    text = text if len(text) <= most else f"{text[:most]} ..."
    return text if isinstance(error, (ModelFileError, InvalidInput)) else f"{type(error).__name__}: {text}"


def shown(value: Any, most: int = 80) -> str:
    """A value that a person gave, short and on one line, to stand in a message.

    >>> shown("age"), shown([1, 2]), shown(10**5000)
    ("'age'", '[1, 2]', 'a whole number of more than 4300 digits')
    """
    if isinstance(value, int) and abs(value).bit_length() > 14_000:
        return "a whole number of more than 4300 digits"  # which Python does not print
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[:most]}..."


def nearest(name: str, choices: Iterable[str]) -> str:
    """A hint for a misspelled name, ready to append to a message.

    >>> nearest("GausianMixture", ["VAE", "GaussianMixture"])
    "; did you mean 'GaussianMixture'?"
    >>> nearest("zebra", ["VAE"])
    ''
    """
    options = list(choices)
    folded = {option.lower(): option for option in options}
    close = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.6)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""
