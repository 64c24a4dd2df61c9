"""A fit that fails leaves the estimator as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def keeping(estimator: Any) -> Iterator[None]:
    """Put every attribute of the estimator back if the block raises.

    >>> class Model:
    ...     pass
    >>> model = Model()
    >>> try:
    ...     with keeping(model):
    ...         model.coef_ = 1
    ...         raise ValueError
    ... except ValueError:
    ...     hasattr(model, "coef_")
    False
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
