"""What a fitted autoregression can answer: likelihoods, forecasts, draws, and what gaps held."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator
from benthic.base.sequences import Ragged, SequenceEstimator, SequenceOrigin
from benthic.base.settings import is_number
from benthic.chains.autoregressive_fits import TRENDS
from benthic.chains.autoregressive_gaps import kalman, smooth
from benthic.chains.autoregressive_process import Process, conditional_log_prob, errors, exact_log_prob
from benthic.chains.forecast import State, completed, continues, forecasts, new_series, state_after
from benthic.uses.verbs import OddSequences


class ProcessEstimator(OddSequences, SequenceEstimator):
    """Base of linear Gaussian processes: everything that follows from the fitted law."""

    # what a subclass sets, and learns
    trend: str
    order_: int
    coefficients_: np.ndarray
    intercept_: np.ndarray
    slope_: np.ndarray
    covariance_: np.ndarray
    radius_: float
    is_stationary_: bool
    _heads: np.ndarray
    _length: int
    _tails: dict[str, Any] | None

    def _can_continue(self, process: Process, series: Ragged) -> bool:
        """Whether the last p steps of every series are there, or can be filled in under a stationary law."""
        ends = [part[max(len(part) - process.order, 0) :] for part in series.split()]
        return process.stationary_law or all(
            len(end) == process.order and not bool(torch.isnan(end).any()) for end in ends
        )

    def _process(self, device: torch.device | str = "cpu") -> Process:
        """The fitted law in float64."""
        trend = np.stack([self.intercept_, self.slope_])[: TRENDS[self.trend]]
        parts = (torch.as_tensor(part).to(device) for part in (self.coefficients_, trend, self.covariance_))
        return Process(*parts)

    # -- how likely ------------------------------------------------------------------------------------

    def likelihood(self, X: Any, method: str | None = None) -> Likelihood:
        """Log-density of each series in nats.

        method: ``"exact"``, of whole series under the stationary law, gaps integrated out; ``"conditional"``, of the
        steps after the first p given those; None is the first where the process is stationary, else the second.
        """
        value, origin, kind = self._likelihood_of(X, "likelihood", method)
        zeros = origin.mirror(torch.zeros_like(value))
        return Likelihood(origin.mirror(value), zeros, kind, "exact", "density")

    def _likelihood_of(self, X: Any, verb: str, method: str | None = None) -> tuple[Tensor, SequenceOrigin, str]:
        series, origin = self._arrive_sequences(X, verb, missing=True)
        if method not in (None, "exact", "conditional"):
            raise self._fail(verb, f"method {method!r} is unknown; use 'exact' or 'conditional'")
        kind = method or ("exact" if self.is_stationary_ else "conditional")
        values, gaps = series.values.double(), bool(torch.isnan(series.values).any())
        process = self._process(values.device)
        if kind == "exact" and not self.is_stationary_:
            raise self._fail(verb, f"{self._wild()} and no exact likelihood; use method='conditional'")
        if gaps and kind == "conditional":
            raise self._fail(verb, "X has gaps (NaN), which only the exact likelihood of a stationary model fills")
        if gaps:
            value = kalman(process, series.replace(values).padded(torch.nan)[0]).log_prob
        else:
            find = exact_log_prob if kind == "exact" else conditional_log_prob
            value = find(process, values, series.lengths)
        return value, origin, kind

    def _wild(self) -> str:
        return f"the process is not stationary (radius {self.radius_:.4g}): it has no stationary law"

    def log_prob(self, X: Any) -> Any:
        """``likelihood(X).value``, (n,): of whole series, or after their first p steps if not stationary."""
        value, origin, _ = self._likelihood_of(X, "log_prob")
        return origin.mirror(value)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of a series in nats."""
        return self.likelihood(X).mean()

    def innovations(self, X: Any) -> Any:
        """The errors of one-step predictions, for each series its steps after the first p; NaN beside gaps."""
        series, origin = self._arrive_sequences(X, "innovations", missing=True)
        if bool((series.lengths <= self.order_).any()):
            short = int((series.lengths <= self.order_).nonzero()[0])
            raise self._fail("innovations", f"sequence {short} has no step after the first {self.order_}")
        values = series.values.double()
        found = errors(self._process(values.device), values, series.lengths)
        return self._sequences_out(Ragged(found, series.lengths - self.order_), origin, data=True)

    # -- what comes next -------------------------------------------------------------------------------

    def forecast(self, h: int = 1, given: Any = None) -> Any:
        """The expectation of the next ``h`` steps of each series, (n, h, d), or as ``X`` was given.

        given: series to continue; those of ``fit`` by default. Gaps near the end are filled by Kalman's filter.
        """
        mean, _, origin = self._ahead("forecast", h, given)
        return self._sequences_out(list(mean), origin, data=True)

    def forecast_interval(self, h: int = 1, level: float = 0.9, given: Any = None) -> Any:
        r"""Central intervals that hold each future number with probability ``level``: (n, h, d, 2), low and high.

        The covariance h steps ahead is :math:`\sum_{j<h} \Psi_j S \Psi_j^\top` with the weights Ψ of past shocks; that
        the coefficients are estimates is not added.
        """
        if not is_number(level) or not 0 < level < 1:
            raise self._fail("forecast_interval", f"level is {level!r}; a probability lies between 0 and 1")
        mean, covariance, origin = self._ahead("forecast_interval", h, given)
        reach = float(torch.special.ndtri(torch.tensor(0.5 + 0.5 * float(level), dtype=torch.float64)))
        half = reach * covariance.diagonal(dim1=-2, dim2=-1).sqrt()
        return self._sequences_out(list(torch.stack([mean - half, mean + half], -1)), origin, data=True)

    def _ahead(self, method: str, h: Any, given: Any) -> tuple[Tensor, Tensor, SequenceOrigin]:
        check_is_fitted(self)
        self._check_request(method, h=h)
        state, origin = self._state(method, given)
        mean, covariance = forecasts(self._process(state.tail.device), state, int(h))
        return mean, covariance, origin

    def _state(self, method: str, given: Any) -> tuple[State, SequenceOrigin]:
        if given is not None:
            series, origin = self._arrive_sequences(given, method, missing=True)
            series = series.replace(series.values.double())
            process = self._process(series.values.device)
            if not self._can_continue(process, series):
                raise self._fail(method, f"a series lacks some of its last {self.order_} steps, and {self._wild()}")
            return state_after(process, series), origin
        if self._tails is None:
            raise self._fail(method, f"a series of fit lacks some of its last steps, and {self._wild()}; pass given")
        kept = {name: None if part is None else torch.as_tensor(part) for name, part in self._tails.items()}
        return State(kept["tail"], kept["time"], kept["covariance"]), self._sequence_origin

    def sample(self, n: int = 1, *, length: int | None = None, given: Any = None, seed: Any = None) -> Any:
        """``n`` new series of ``length`` steps, by default the median length of those of ``fit``.

        given: one series or ``n`` whose gaps (NaN) are drawn given the rest, which is kept; a ``length`` beyond the end
        of a series continues it. Without it a series starts from the stationary law, or from the first p steps of a
        series of ``fit`` where there is none.
        """
        check_is_fitted(self)
        self._check_request("sample", n=n, **({} if length is None else {"length": length}))
        noise = generator(self._sampling_seed(seed), "sample")
        if given is not None:
            return self._sample_given(n, length, given, noise)
        if not self.is_stationary_ and not len(self._heads):
            raise self._fail("sample", f"{self._wild()}; pass given, series to continue")
        heads = None if self.is_stationary_ else torch.as_tensor(self._heads)
        drawn = new_series(self._process(), n, self._length if length is None else length, noise, heads)
        return self._sequences_out(list(drawn), self._sequence_origin, data=True)

    def _sample_given(self, n: int, length: int | None, given: Any, noise: torch.Generator) -> Any:
        series, origin = self._arrive_sequences(given, "sample", missing=True)
        if len(series) not in (1, n):
            raise self._fail("sample", f"given has {len(series)} series for {n} draws; pass one series or {n}")
        if length is not None and length < int(series.lengths.max()):
            raise self._fail("sample", f"length {length} is below that of given, {int(series.lengths.max())} steps")
        process, drawn = self._process(series.values.device), []
        for part in series.split():
            known = part.double()
            if length is not None:
                known = torch.cat([known, known.new_full((length - len(known), process.width), torch.nan)])
            if not self.is_stationary_ and not continues(process, known):
                raise self._fail("sample", f"given has gaps that are not at its end, and {self._wild()}")
            drawn += list(completed(process, known, n // len(series), noise))
        return self._sequences_out(drawn, origin, data=True)

    def impute(self, X: Any) -> Any:
        """The series with every NaN replaced by its expectation given the rest, by Kalman's smoother."""
        series, origin = self._arrive_sequences(X, "impute", missing=True)
        gaps = torch.isnan(series.values)
        if not bool(gaps.any()):
            return self._sequences_out(series, origin, data=True)
        if not self.is_stationary_:
            raise self._fail("impute", f"{self._wild()} to fill gaps from")
        wide, mask = series.replace(series.values.double()).padded(torch.nan)
        filled = smooth(self._process(wide.device), wide)[mask].to(series.values)
        return self._sequences_out(series.replace(torch.where(gaps, filled, series.values)), origin, data=True)
