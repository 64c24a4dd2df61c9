"""``impute`` and ``anomaly`` for any model with a likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import Origin
from benthic.base.errors import InvalidInput
from benthic.base.schema import is_frame
from benthic.base.validation import speaking
from benthic.uses.strangeness import anomaly

if TYPE_CHECKING:
    from benthic.base.capabilities import HasDensity as _Host
else:
    _Host = object


class Uses(_Host):
    """Adds ``impute`` and ``anomaly``; a subclass gives ``_impute(X)`` for rows with NaN.

    One that gives ``_fill(X, noise)`` with a ``draw`` of the gaps also has ``_draw_gaps`` for its ``sample``.
    """

    def _impute(self, X: Tensor) -> Tensor:
        raise NotImplementedError

    def impute(self, X: Any) -> Any:
        """``X`` with every NaN replaced by its expectation given the rest of its row."""
        tensor, origin = self._arrive(X, "impute", missing=True)
        gaps = torch.isnan(tensor)
        if not bool(gaps.any()):
            return self._data_out(tensor, origin)
        filled = self._impute(tensor).to(tensor)
        return self._data_out(torch.where(gaps, filled, tensor), origin)

    def _draw_gaps(self, given: Any, n: int, noise: torch.Generator) -> Any:
        """``n`` rows like ``given`` (one or ``n``), their gaps drawn given the rest by ``_fill(rows, noise).draw``."""
        known, origin = self._known_rows(given, n)
        drawn = self._fill(known, noise).draw
        rows = torch.where(torch.isnan(known), drawn.to(known), known)
        return self._data_out(rows, replace(origin, index=None))  # new rows have no labels

    def _known_rows(self, given: Any, n: int) -> tuple[Tensor, Origin]:
        """Rows with NaN to fill, one for each of ``n`` draws, and where they came from."""
        if not is_frame(given) and (isinstance(given, Mapping) or _dimensions(given) < 2):
            raise self._fail(
                "sample",
                f"given is {given!r:.40}, not rows (1 or n, columns), and the model knows no other conditions; pass "
                "rows with NaN in their gaps",
            )
        known, origin = self._arrive(given, "sample", missing=True)
        with speaking(self, "sample"):
            return conditions(known, n), origin

    def anomaly(self, X: Any, *, kind: str | None = None, reference: Any = None) -> Any:
        """How strange each row is, (n,): its negative log-likelihood; larger is stranger.

        kind: ``log_prob``, that; ``typicality``, how far it lies from what is usual, to either side; or
        ``reconstruction``, how badly the row is rebuilt (see ``benthic.uses.anomaly``). reference: rows known to be
        good, which say what is usual instead of the model's own draws.
        """
        return anomaly(self, X, kind, reference=reference)

    def _surprise(self, X: Any, **given: Any) -> Any:
        return -self.likelihood(X, **given).value


class OddSequences(_Host):
    """Adds ``anomaly`` to a model of sequences with a likelihood."""

    def anomaly(self, X: Any, *, kind: str | None = None) -> Any:
        """How strange each sequence is, (n,): minus its log-likelihood; larger is stranger.

        kind: ``log_prob``, that; or ``typicality``, how far it lies from that of the model's draws of the same length.
        """
        return anomaly(self, X, kind)

    def _surprise(self, X: Any, **given: Any) -> Any:
        return -self.likelihood(X, **given).value


def _dimensions(value: Any) -> int:
    return int(value.ndim) if hasattr(value, "ndim") else np.asarray(value, dtype=object).ndim


def conditions(given: Tensor, n: int) -> Tensor:
    """Rows with NaN to fill, one for each of ``n`` draws; a single row is repeated."""
    if len(given) not in (1, n):
        raise InvalidInput(f"given has {len(given)} rows for {n} draws; pass one row or {n}")
    return given.expand(n, -1) if len(given) == 1 else given
