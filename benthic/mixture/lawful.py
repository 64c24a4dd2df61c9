"""What a mixture of laws does once it is fitted: densities, draws, imputation, pictures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.arrays import FLOATS, Origin
from benthic.base.capabilities import to_numpy
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator
from benthic.base.validation import speaking
from benthic.mixture.common import choose, column_names
from benthic.mixture.estimator import MixtureEstimator
from benthic.mixture.law import Law
from benthic.mixture.law_em import Components, log_joint
from benthic.mixture.margins import draw_margins
from benthic.uses.verbs import conditions

_BLOCK_ROWS = 1 << 15


class LawMixtureEstimator(MixtureEstimator):
    """Base of mixtures whose components are products of laws; a subclass says which."""

    @abstractmethod
    def _fitted(self, device: torch.device | str = "cpu") -> tuple[tuple[Law, ...], Components]:
        """The fitted laws and components, in float64."""

    @abstractmethod
    def _refuse_outsiders(self, X: Tensor, method: str) -> None:
        """An error for values that a law does not allow."""

    def _arrive(
        self, X: Any, method: str, *, reset: bool = False, missing: bool | None = None
    ) -> tuple[Tensor, Origin]:
        tensor, origin = super()._arrive(X, method, reset=reset, missing=missing)
        if not reset:
            self._refuse_outsiders(tensor, method)
        return tensor, origin

    # -- components ----------------------------------------------------------------------------------------

    def _log_joint(self, X: Tensor) -> Tensor:
        """(n, k)."""
        laws, components = self._fitted(X.device)
        return torch.cat([log_joint(laws, components, rows).T for rows in X.split(_BLOCK_ROWS)])

    def _n_parameters(self) -> int:
        laws, components = self._fitted()
        k = len(components.weights.value)
        return k * sum(law.freedom for law in laws) + k - 1

    # -- density -------------------------------------------------------------------------------------------

    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        masses = all(law.measure == "mass" for law in self._fitted()[0])
        return replace(super()._likelihood(X, method), measure="mass" if masses else "density")

    @property
    def grad_log_prob(self) -> Any:
        """Gradient of the log-density with respect to each complete row (the Stein score), like ``X``.

        Absent where a column has a mass and no density, for its values cannot move a little.
        """
        check_is_fitted(self)
        jumpy = next((law.jumpy for law in self._fitted()[0] if law.jumpy), None)
        if jumpy:
            raise AttributeError(
                f"{type(self).__name__}.grad_log_prob: the {jumpy} has a mass and no density, so there is no gradient; "
                "use laws with densities for every column"
            )
        return super().grad_log_prob

    # -- draws ---------------------------------------------------------------------------------------------

    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new rows; given: rows with NaN (one or ``n``) whose gaps are drawn given the rest, exactly."""
        self._check_draws(n)
        noise = generator(self._sampling_seed(seed), "sample")
        laws, components = self._fitted()
        if given is None:
            chosen = choose(components.weights.value.expand(n, -1), noise)
            return self._rows_out(laws, self._drawn(laws, components, chosen, noise, None), self._fit_origin)
        known, origin = self._arrive(given, "sample")
        origin = origin if len(known) == n else replace(origin, index=None)  # one label does not name n rows
        with speaking(self, "sample"):
            known = conditions(known, n)
        chosen = choose(torch.softmax(self._log_joint(known), 1).cpu(), noise)
        drawn = self._drawn(laws, components, chosen, noise, known.cpu()).to(known)
        return self._rows_out(laws, torch.where(torch.isnan(known), drawn, known), origin)

    def _drawn(
        self, laws: Sequence[Law], components: Components, chosen: Tensor, noise: Any, known: Tensor | None
    ) -> Tensor:
        width = sum(len(law.columns) for law in laws)
        rows = torch.empty(len(chosen), width, dtype=torch.float64)
        for law, parameters in zip(laws, components.parameters, strict=True):
            rows[:, law.columns] = law.draw(chosen, parameters, noise, known)
        return rows

    def _rows_out(self, laws: Sequence[Law], rows: Tensor, origin: Origin) -> Any:
        """Rows in the type they go out in, which may round them to the end of an open support."""
        rows = rows.to(FLOATS[origin.dtype]).clone()
        for law in laws:
            rows[:, law.columns] = law.pull_in(rows[:, law.columns])
        return self._data_out(rows, origin)

    def _impute(self, X: Tensor) -> Tensor:
        laws, components = self._fitted(X.device)
        shares = torch.softmax(self._log_joint(X), 1)
        filled = X.clone()
        for law, parameters in zip(laws, components.parameters, strict=True):
            expected = law.expect(X, shares, parameters).to(X.dtype)
            filled[:, law.columns] = law.pull_in(expected)
        return filled

    # -- pictures ------------------------------------------------------------------------------------------

    def plot(self, X: Any = None, *, features: Sequence[int] | None = None) -> Any:
        """The density or mass of each column, and what each component adds to it.

        X: rows to show under it. features: which variables, by default the first six.
        """
        check_is_fitted(self)
        points = None if X is None else to_numpy(self._arrive(X, "plot")[0])
        laws, components = self._fitted()
        with speaking(self, "plot"):
            return draw_margins(laws, components, points, features, column_names(self, self._width()))

    def _width(self) -> int:
        return sum(len(law.columns) for law in self._fitted()[0])
