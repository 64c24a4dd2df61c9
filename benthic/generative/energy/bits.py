"""What the zeros and ones of a row are: the values themselves, their chances, or whether they pass a threshold."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import is_number

Binarize = Any  # "auto", False, True or a threshold


def check_binarize(binarize: Binarize) -> None:
    """Refuse what is no way to make bits."""
    threshold = is_number(binarize) and not math.isnan(binarize)
    if isinstance(binarize, bool) or threshold or (isinstance(binarize, str) and binarize == "auto"):
        return
    raise InvalidInput(f"binarize is {binarize!r}; use 'auto', False, True or a number, the threshold of a one")


def thresholds_of(binarize: Binarize, rows: Tensor) -> np.ndarray | None:
    """Where each column is cut (width,), or None where values in [0, 1] are bits or their chances.

    rows: examples, by which ``auto`` decides: zeros and ones stay, values in [0, 1] are cut at a half, and others at
    the median of their column.
    """
    if isinstance(binarize, bool):
        return None
    if binarize != "auto":
        return np.full(rows.shape[1], float(binarize))
    if bool(((rows == 0) | (rows == 1)).all()):
        return None
    if bool(((rows >= 0) & (rows <= 1)).all()):
        return np.full(rows.shape[1], 0.5)
    warnings.warn(
        "X has values outside [0, 1], so a unit says whether its column is above its median; binarize=True takes "
        "values in [0, 1] as chances, False zeros and ones only, and both refuse others",
        stacklevel=5,
    )
    return np.asarray(np.median(rows.double().cpu().numpy(), 0))


def check_bits(X: Tensor, *, gray: bool) -> None:
    """Refuse rows that are not bits. gray: whether values between 0 and 1 are taken as chances."""
    outside = ((X < 0) | (X > 1)) & ~torch.isnan(X)
    if bool(outside.any()):
        raise InvalidInput(
            f"units are zeros and ones, but X has values such as {float(X[outside][0]):.4g}; scale X to [0, 1], or "
            "give binarize a threshold"
        )
    odd = (X != 0) & (X != 1) & ~torch.isnan(X)
    if not gray and bool(odd.any()):
        raise InvalidInput(
            f"units are zeros and ones, but X has values such as {float(X[odd][0]):.4g}; binarize it, for example "
            "X > 0.5 (in training binarize=True draws it afresh at every step)"
        )


def cut(X: Tensor, thresholds: np.ndarray | None) -> Tensor:
    """Rows whose values above the thresholds are ones and others zeros; gaps stay gaps."""
    if thresholds is None:
        return X
    bits = (torch.as_tensor(thresholds).to(X) < X).to(X.dtype)
    return torch.where(torch.isnan(X), X, bits)
