"""The space in which samples are compared, learned from rows that neither fit nor judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput, nearest
from benthic.leaderboard.contest.labels import choose, is_labeled, learned
from benthic.leaderboard.contest.material import Material
from benthic.leaderboard.contest.protocol import Split
from benthic.metrics.features import ModuleFeatures, RandomConvolution

NAMES = ("raw", "pca", "random", "classifier")
_AXES = 32  # principal axes kept at most
_ROWS_AN_AXIS = 8  # judged rows for every axis at least
_LEARNED = "a classifier of the labels"


@dataclass(frozen=True, eq=False)
class Space:
    """From rows (n, width) to features (n, k), float64.

    name: for people. see: rows to what a network or projection makes of them. center, axes: the projection after it,
    (d,) and (d, k). reason: why this one, where nobody asked for it.
    """

    name: str
    see: Callable[[np.ndarray], Tensor]
    center: Tensor
    axes: Tensor
    reason: str = ""

    def __call__(self, rows: np.ndarray) -> Tensor:
        """Features (n, k) of rows (n, width)."""
        return (self.see(rows).double() - self.center) @ self.axes


def space_of(features: Any, material: Material, split: Split, seed: int = 0) -> Space:
    """The feature space: of columns in standard units for tables, of a classifier or of random filters for pictures.

    Of pictures, a classifier's features are chosen where there are many labels and it has learned more from them than a
    line could: one that knows little sees little, and would let anything pass.

    features: None for that choice; ``raw`` numbers; ``pca``, their principal axes; ``random`` filters, for pictures;
    ``classifier``, which needs labels; or a network or function of batches shaped as the data are.
    """
    _check_name(features, material)
    reason, known = "", None
    if features is None and len(material.shape) == 3:
        choice = choose(split, seed)
        features, reason, known = choice.features, choice.reason, choice.see
    name, see = _seeing(features, material, split, seed) if known is None else (_LEARNED, known)
    return replace(_projected(name, see, material, split), reason=reason)


def _projected(name: str, see: Callable[[np.ndarray], Tensor], material: Material, split: Split) -> Space:
    """The space with its axes, from what is seen in the rows for features."""
    seen = see(split.features).double()
    if not bool(torch.isfinite(seen).all()):
        raise InvalidInput("compare: the features hold NaN or infinite values; the network has to give finite numbers")
    if seen.shape[1] <= 1 and len(torch.unique(seen)) == 1:
        raise InvalidInput("compare: the features are the same for all rows; they have to tell rows apart")
    center = seen.mean(0)
    if name == "columns":
        spread = seen.std(0).clamp_min(1e-12)
        marks = torch.as_tensor(material.categorical)
        scale = torch.where(marks, 1.0, torch.where(spread > 1e-9, 1 / spread, 0.0))
        axes = torch.diag(scale)
        if seen.shape[1] <= max(2, split.n // _ROWS_AN_AXIS):
            return Space("columns in standard units", see, center, axes)
        return Space(
            "principal axes of standard columns", see, center, axes @ _principal((seen - center) @ axes, split)
        )
    return Space(name, see, center, _principal(seen - center, split))


def _check_name(features: Any, material: Material) -> None:
    if isinstance(features, str) and features not in NAMES:
        raise InvalidInput(
            f"compare: features is {features!r}{nearest(features, NAMES)}; use {', '.join(NAMES)}, or a network"
        )
    if features == "random" and len(material.shape) != 3:
        raise InvalidInput("compare: features='random' are filters of pictures, and these data are a table; use 'pca'")
    if features == "classifier" and material.y is None:
        raise InvalidInput("compare: features='classifier' needs labels; pass y (or target), or use 'random' or 'pca'")


def _seeing(features: Any, material: Material, split: Split, seed: int) -> tuple[str, Callable[[np.ndarray], Tensor]]:
    if features is not None and not isinstance(features, str):
        return _given(features, material)
    if features == "classifier":
        return _LEARNED, _classifier(split, seed)
    if features == "random":
        channels, height, width = material.shape
        return "random filters", RandomConvolution((channels, height, width), seed=seed)
    return {"raw": "raw numbers", "pca": "principal axes"}.get(features or "", "columns"), _numbers


def _numbers(rows: np.ndarray) -> Tensor:
    return torch.as_tensor(np.asarray(rows, dtype=np.float64))


def _given(features: Any, material: Material) -> tuple[str, Callable[[np.ndarray], Tensor]]:
    """A person's network or function, checked on rows of the right shape."""
    if not callable(features):
        raise InvalidInput(f"compare: features is {features!r:.60}; use {', '.join(NAMES)}, or a network")
    ours = features if not isinstance(features, nn.Module) else ModuleFeatures(features)

    def see(rows: np.ndarray) -> Tensor:
        try:
            found = ours(
                torch.as_tensor(np.asarray(material.give(rows, "image" if len(material.shape) == 3 else "flat")))
            )
        except InvalidInput as error:
            raise InvalidInput(f"compare: features: {error}") from error
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise InvalidInput(
                f"compare: features do not take rows of shape {material.shape} ({str(error).splitlines()[0]})"
            ) from error
        tensor = found if isinstance(found, Tensor) else torch.as_tensor(np.asarray(found))
        if tensor.ndim == 0 or len(tensor) != len(rows):
            raise InvalidInput(f"compare: features gave shape {tuple(tensor.shape)} for {len(rows)} rows")
        return tensor.detach().reshape(len(rows), -1).cpu()

    return getattr(features, "name", type(features).__name__), see


def _classifier(split: Split, seed: int) -> Callable[[np.ndarray], Tensor]:
    """What a small network sees before it tells the labels apart."""
    if not is_labeled(split):
        raise InvalidInput(
            f"compare: features='classifier' needs a few rows of each of at least two classes among the "
            f"{len(split.features)} rows for features; use 'random' or 'pca'"
        )
    return learned(split.features, split.features_y, seed)


def _principal(centered: Tensor, split: Split) -> Tensor:
    """Axes (d, k) of the largest spread, scaled so that all of them together have spread k."""
    k = max(1, min(_AXES, split.n // _ROWS_AN_AXIS, centered.shape[1], len(centered) - 1))
    _, S, Vh = torch.linalg.svd(centered, full_matrices=False)
    k = max(1, min(k, int(S.gt(1e-7 * S.max()).sum())))
    total = float(S[:k].square().sum()) / max(len(centered) - 1, 1)
    scale = float(k / max(total, 1e-300)) ** 0.5
    axes: Tensor = Vh[:k].T * scale
    return axes
