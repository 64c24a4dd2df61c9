"""How likely rows are to a normalizing flow: exactly, or by noise in the steps of grids, given labels or without."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.likelihood import Likelihood
from benthic.generative.flows.filling import FillingFlowEstimator
from benthic.generative.flows.model import FlowModel, without_labels

_DRAWS = 16  # of the noise of grids


class JudgingFlowEstimator(FillingFlowEstimator):
    """The part of ``NormalizingFlow`` that finds likelihoods."""

    @property
    def _exact(self) -> bool:
        """Whether there is a density: no column is discrete."""
        columns = getattr(self, "columns_", None)
        return columns is None or not columns.discrete

    def _joint(self, rows: Tensor, network: FlowModel, draws: int, exact: bool = True) -> Tensor:
        """log p(x, y) of every label, (draws, n, k), or log p(x), (draws, n, 1), without labels."""
        given: list[Any] = [None] if self.condition is None else self._every_label(len(rows), rows)
        found = [self._draws(rows, c, network, draws, exact) for c in given]
        joint = torch.stack(found, -1)
        if self.condition is None:
            return joint
        return joint + torch.as_tensor(np.log(self.class_prior_)).to(joint)

    def _draws(self, rows: Tensor, c: Tensor | None, network: FlowModel, draws: int, exact: bool = True) -> Tensor:
        """Estimates of log p, (draws, n); the noise of a row does not depend on the block that it is in."""
        first = 0

        def block(y: Tensor, given: Tensor | None) -> Tensor:
            nonlocal first
            first += len(y)
            return network.bounds(y, given, draws, first - len(y), exact).T

        return self._blocks(block, rows, c).T

    def _log_values(self, X: Tensor, c: Tensor | None, draws: int, exact: bool = True) -> Tensor:
        """Estimates (draws, n) of the log-likelihood in the units of the data; exact: see ``FlowModel.bounds``."""
        network = self._network(X)
        rows, log = self._rows_ready(X, network)
        if c is None and self.condition is not None:
            self._need_condition("likelihood")
            exact = exact or draws == 1 or not network.estimated
            joint = self._joint(rows, network, draws, exact)
            found = torch.logsumexp(joint, -1) if exact else without_labels(joint)
        else:
            found = self._draws(rows, c, network, draws, exact)
        return found + log

    def _judged(self, X: Tensor, c: Tensor | None, method: str | None) -> Likelihood:
        kind, draws = self._parse(method)
        found = self._log_values(X, c, draws, exact=kind != "elbo")  # a mean stays unbiased, others do not
        if kind in ("exact", "ode"):
            return Likelihood(found[0], torch.zeros_like(found[0]), kind, "exact", "density")
        measure: Any = self.columns_.measure
        spread = found.std(0) if draws > 1 else torch.full_like(found[0], math.nan)
        if kind == "elbo":
            return Likelihood(found.mean(0), spread / math.sqrt(draws), kind, "lower", measure)
        value = torch.logsumexp(found, 0) - math.log(draws)
        weights = torch.exp(found - value)
        error = weights.std(0) / math.sqrt(draws) if draws > 1 else spread
        return Likelihood(value, error, f"importance({draws})", "lower", measure)

    def _parse(self, method: str | None) -> tuple[str, int]:
        if self._exact:
            kind = "ode" if self.kind == "cnf" else "exact"
            if method not in (None, "exact", kind):
                raise self._fail("likelihood", f"method {method!r} is unknown; this flow's likelihood is {kind!r}")
            return kind, 1
        match = re.fullmatch(r"(elbo|importance)(?:\((\d+)\))?", method or "elbo")
        if match is None or match[2] == "0":
            raise self._fail(
                "likelihood", f"method {method!r} is unknown; with discrete columns use 'elbo' or 'importance(k)'"
            )
        return match[1], int(match[2] or _DRAWS)
