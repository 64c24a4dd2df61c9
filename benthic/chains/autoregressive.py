"""The autoregressive model of one or many series, as an estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from benthic.base.errors import InvalidInput, nearest
from benthic.base.sequences import Ragged
from benthic.base.settings import is_whole, one_of, whole
from benthic.base.validation import speaking
from benthic.chains.autoregressive_estimator import ProcessEstimator
from benthic.chains.autoregressive_fits import (
    CRITERIA,
    METHODS,
    TRENDS,
    Moments,
    criteria,
    fitted,
    in_units,
    moments,
    solve_moments,
    units,
)
from benthic.chains.autoregressive_process import Process
from benthic.chains.forecast import State, state_after

_RECENT = 100  # steps of the first series that are kept for the picture


class AutoRegressive(ProcessEstimator):
    r"""Every step is a linear function of the last p steps and Gaussian noise: AR(p), and vector AR for wider steps.

    .. math:: y_t = c + \delta t + \sum_{l=1}^p A_l\, y_{t-l} + \varepsilon_t, \qquad \varepsilon_t \sim N(0, S)

    Box & Jenkins, 1970; Lütkepohl, 2005. Series come as an array (n, t, d) or (n, t), or as a list of (t_i, d) or
    (t_i,); one long series is a list of one. They share one law, and time starts with 0 in each.

    order: p, or ``"aic"``, ``"bic"`` or ``"hq"``, which choose it among 0 to ``max_order`` on the same steps.
    trend: ``"n"`` none, ``"c"`` a constant, ``"ct"`` a constant and a slope. method: ``"least-squares"``, the most
    likely given the first p steps of each series, which skips windows with a gap (NaN); ``"yule-walker"``, always
    stationary; and for one number a step ``"burg"``, and ``"exact"``, the most likely stationary process.
    max_order: by default :math:`12\,(t/100)^{1/4}` for series of t steps (Schwert, 1989).

    ``likelihood`` is the density of a whole series where the process is stationary (kind ``"exact"``, the first p
    steps under the stationary law, gaps integrated out by Kalman's filter), else that of the steps after the first p
    given those (kind ``"conditional"``); ask for either by ``method``.

    order_, coefficients_: (p, d, d). intercept_: (d,), slope_: (d,). covariance_: (d, d) of the noise, the mean square
    of the errors. modes_: eigenvalues of the companion matrix, the inverses of the characteristic roots; the process
    is stationary if ``radius_``, the largest of their absolute values, is below 1. criteria_: values for orders
    0, 1, ..., where an order was chosen. n_windows_: steps that were fitted.

    >>> rng = np.random.default_rng(0)
    >>> y = np.zeros(2000)
    >>> for t in range(1, 2000):
    ...     y[t] = 2.0 + 0.8 * y[t - 1] + rng.normal()
    >>> model = AutoRegressive("bic").fit([y])
    >>> model.order_, model.coefficients_.round(1).ravel().tolist(), model.is_stationary_
    (1, [0.8], True)
    >>> model.forecast_interval(200, level=0.95)[0][-1].round()  # far ahead: the stationary law
    array([ 7., 13.])
    """

    def __init__(
        self,
        order: int | str = 1,
        *,
        trend: str = "c",
        method: str = "least-squares",
        max_order: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.order = order
        self.trend = trend
        self.method = method
        self.max_order = max_order
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from series X; NaN is a gap, which ``method="least-squares"`` passes over."""
        with speaking(self, "fit"):
            self._check_settings()
        before = dict(self.__dict__)
        try:
            series, _ = self._arrive_sequences(X, "fit", reset=True, missing=True)
            with speaking(self, "fit"):
                self._learn(Ragged(series.values.double(), series.lengths))
        except (ValueError, TypeError):
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from more series: the sums of least squares add up, so parts give what all at once would.

        The order is a number here. ``forecast`` then continues the series of the last call.
        """
        with speaking(self, "partial_fit"):
            self._check_settings()
            if isinstance(self.order, str) or self.method != "least-squares":
                raise InvalidInput("partial_fit needs a whole number as order and method 'least-squares'")
        before = dict(self.__dict__)
        try:
            fresh = getattr(self, "_sums", None) is None
            if fresh:
                self.criteria_ = None
            series, _ = self._arrive_sequences(X, "partial_fit", reset=fresh, missing=True)
            with speaking(self, "partial_fit"):
                self._add(Ragged(series.values.double(), series.lengths), int(self.order))
        except (ValueError, TypeError):
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _add(self, series: Ragged, order: int) -> None:
        """Add the sums of these series to those before, and solve."""
        kept, q, device = getattr(self, "_sums", None), TRENDS[self.trend], series.values.device
        if kept is None:
            mean, spread = units(series.values, q)
            more = None
        else:
            mean, spread = (torch.as_tensor(kept[name]).to(device) for name in ("mean", "spread"))
            parts = [torch.as_tensor(kept[name]).to(device) for name in ("gram", "cross", "square")]
            more = Moments(kept["count"], *parts)
        sums = moments((series.values - mean) / spread, series.lengths, order, q)
        if more is not None and more.gram.shape != sums.gram.shape:
            raise InvalidInput("order or trend has changed since the last call; use fit to start anew")
        sums = sums if more is None else more + sums
        self.n_windows_ = sums.count
        self._check_count(series, order)
        found = {"count": sums.count, "gram": sums.gram, "cross": sums.cross, "square": sums.square}
        found |= {"mean": mean, "spread": spread}
        self._sums = {k: v if isinstance(v, int) else v.cpu().numpy() for k, v in found.items()}
        self._keep(in_units(solve_moments(sums, order, q), mean, spread), series)

    def _check_count(self, series: Ragged, order: int) -> None:
        if self.n_windows_ < 1:
            raise InvalidInput(
                f"order {order} needs a series with {order + 1} steps in a row and no gap; the longest of the "
                f"{len(series)} series has {int(series.lengths.max())} steps"
            )

    def _check_settings(self) -> None:
        for name, known in (("trend", TRENDS), ("method", METHODS)):
            one_of(name, getattr(self, name), known)
        if isinstance(self.order, str):
            if self.order not in CRITERIA:
                hint = nearest(self.order, CRITERIA)
                raise InvalidInput(f"order is {self.order!r}{hint}; use a whole number, 'aic', 'bic' or 'hq'")
        elif not is_whole(self.order, 0):
            raise InvalidInput(f"order is {self.order!r}; it must be a whole number of at least 0, or a criterion")
        whole("max_order", self.max_order, 0, optional=True)
        if self.trend == "ct" and self.method != "least-squares":
            raise InvalidInput(f"trend 'ct' goes with method 'least-squares', not with {self.method!r}")

    def _check_series(self, series: Ragged) -> None:
        if self.method != "least-squares" and bool(torch.isnan(series.values).any()):
            raise InvalidInput(f"Input X contains NaN; method {self.method!r} takes no gaps, 'least-squares' does")
        if self.method in ("burg", "exact") and series.values.shape[1] > 1:
            raise InvalidInput(
                f"method {self.method!r} is for one number a step and X has {series.values.shape[1]}; "
                "use 'least-squares' or 'yule-walker'"
            )

    def _learn(self, series: Ragged) -> None:
        self._check_series(series)
        values, lengths, q = series.values, series.lengths, TRENDS[self.trend]
        self.criteria_ = None
        order = self.order
        if isinstance(order, str):
            most = self._most(series) if self.max_order is None else int(self.max_order)
            center = values.nanmean(0) if q else torch.zeros_like(values[0])
            self.criteria_ = {name: np.array(v) for name, v in criteria(values - center, lengths, most, q).items()}
            order = int(self.criteria_[order].argmin())
        order, self._sums = int(order), None
        if self.method == "least-squares":
            self._add(series, order)
            return
        self.n_windows_ = int((lengths - order).clamp(min=0).sum())
        self._check_count(series, order)
        self._keep(fitted(self.method, values, lengths, order, q), series)

    def _most(self, series: Ragged) -> int:
        """The largest order tried by default; at least a third of the steps stays to compare them by."""
        longest, d = int(series.lengths.max()), series.values.shape[1]
        return max(0, min(int(12 * (longest / 100) ** 0.25), longest // 3, (len(series.values) // 3) // d))

    def _keep(self, process: Process, series: Ragged) -> None:
        d = process.width
        trend = torch.cat([process.trend, process.trend.new_zeros(2 - len(process.trend), d)])
        self.order_, self.coefficients_ = process.order, process.coefficients.cpu().numpy()
        self.intercept_, self.slope_ = trend[0].cpu().numpy(), trend[1].cpu().numpy()
        self.covariance_ = process.covariance.cpu().numpy()
        self.modes_ = process.modes().cpu().numpy()
        self.radius_, self.is_stationary_ = process.radius, process.stationary_law
        heads = series.lengths >= process.order
        whole = [part[: process.order] for part, long in zip(series.split(), heads.tolist(), strict=True) if long]
        whole = [part for part in whole if not bool(torch.isnan(part).any())][:1000]
        self._heads = torch.stack(whole).cpu().numpy() if whole else np.zeros((0, process.order, d))
        self._length = int(series.lengths.double().median())
        self._recent = series.split()[0][-_RECENT:].cpu().numpy()
        known = self._can_continue(process, series)
        self._tails = self._keep_state(state_after(process, series)) if known else None

    def _keep_state(self, state: State) -> dict[str, Any]:
        spread = None if state.covariance is None else state.covariance.cpu().numpy()
        return {"tail": state.tail.cpu().numpy(), "time": state.time.cpu().numpy(), "covariance": spread}

    # -- words and pictures ----------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        chosen = f", by {self.order.upper()}" if isinstance(self.order, str) else ""
        kind = "stationary" if self.is_stationary_ else "not stationary"
        noise = np.sqrt(np.diag(self.covariance_))
        return {
            "order": f"{self.order_}{chosen}",
            "trend": {"n": "none", "c": "constant", "ct": "constant and slope"}[self.trend],
            "fitted": f"by {self.method} on {self.n_windows_} steps",
            "largest mode": f"{self.radius_:.4g}, {kind}",
            "noise": ", ".join(f"{value:.4g}" for value in noise[:6]) + (", ..." if len(noise) > 6 else ""),
        }

    def plot(self, X: Any = None, *, h: int = 20, level: float = 0.9) -> Any:
        """The end of a series and the fan of its forecast, one panel for each number of a step, at most four.

        X: series of which the first is shown; the first of ``fit`` by default.
        """
        from benthic.chains.autoregressive_picture import draw_fan

        check_is_fitted(self)
        recent = self._recent if X is None else self._arrive_sequences(X, "plot", missing=True)[0].split()[0]
        given = None if X is None else [recent]
        mean, covariance, _ = self._ahead("plot", h, given)
        recent = np.asarray(torch.as_tensor(recent).cpu())[-_RECENT:]
        spread = covariance[0].diagonal(dim1=-2, dim2=-1).sqrt()
        return draw_fan(recent, mean[0].cpu().numpy(), spread.cpu().numpy(), level, f"AR({self.order_})")
