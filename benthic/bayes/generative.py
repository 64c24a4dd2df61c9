"""New rows, and how likely rows are, from classes with independent features."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Samples, to_numpy
from benthic.base.condition import Condition, Conditional
from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator
from benthic.base.validation import speaking
from benthic.bayes.estimator import _codes
from benthic.uses.verbs import conditions

if TYPE_CHECKING:
    from benthic.bayes.estimator import _NaiveBayes as _Host
else:
    _Host = object


class DrawsRows(Samples, Conditional, _Host):
    """``sample`` by a class and its features; a subclass gives ``_draw(codes, noise)``."""

    @property
    def condition_(self) -> Condition:
        """The classes; without one it is drawn as often as it was seen."""
        check_is_fitted(self)
        return Condition("labels", tuple(self.classes_.tolist()))

    def _draw(self, codes: Tensor, noise: torch.Generator) -> Tensor:
        """Rows (n, width) of the data space for classes (n,), float64 on the CPU."""
        raise NotImplementedError

    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` rows. given: labels, one or ``n``, or rows with NaN whose gaps are drawn given the rest, exactly."""
        self._check_draws(n)
        noise = generator(self._sampling_seed(seed), "sample")
        rows, origin = None, self._fit_origin
        with speaking(self, "sample"):
            if given is None:
                chance = torch.as_tensor(self.class_log_prior_).exp()[None].expand(n, -1)
            elif np.ndim(to_numpy(given)) < 2:
                chance = self._of_labels(np.atleast_1d(np.asarray(to_numpy(given))), n)
            else:
                rows, origin = self._arrive(given, "sample")
                rows = conditions(rows, n)
                self._check_rows(rows)
                chance = torch.softmax(self._log_joint(rows), 1).cpu()
        drawn = self._draw(torch.multinomial(chance, 1, generator=noise)[:, 0], noise)
        if rows is not None:
            drawn = torch.where(torch.isnan(rows).cpu(), drawn, rows.cpu().double())
        return self._data_out(drawn, replace(origin, index=None))  # new rows have no labels

    def _of_labels(self, labels: np.ndarray, n: int) -> Tensor:
        if len(labels) not in (1, n):
            raise InvalidInput(f"given has {len(labels)} labels for {n} draws; pass one or {n}")
        codes = _codes(np.broadcast_to(labels, n), self.classes_, n)
        return torch.nn.functional.one_hot(codes, len(self.classes_)).double()


class HasMass(_Host):
    """Exact probabilities of rows whose features are discrete."""

    def likelihood(self, X: Any, method: str | None = None) -> Likelihood:
        """Log-probability of what is observed of each row, in nats; method: None or ``"exact"``."""
        if method not in (None, "exact"):
            raise self._fail("likelihood", f"method {method!r} is unknown; this model's likelihood is 'exact'")
        value = self._mass(X, "likelihood")
        return Likelihood(value, 0 * value, "exact", "exact", "mass")

    def log_prob(self, X: Any) -> Any:
        """Log-probability of what is observed of each row, (n,)."""
        return self._mass(X, "log_prob")

    def _mass(self, X: Any, verb: str) -> Any:
        tensor, origin = self._arrive(X, verb)
        self._check_rows(tensor)
        return origin.mirror(torch.logsumexp(self._log_joint(tensor), 1))
