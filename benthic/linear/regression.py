"""Linear regression, plain and ridge: closed forms through sums over the rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import MultiOutputMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.arrays import Origin
from benthic.base.capabilities import Predicts
from benthic.base.errors import InvalidInput
from benthic.base.settings import flag
from benthic.base.validation import check_targets, check_weights, speaking
from benthic.data.batch import Batch
from benthic.linear.keeping import keeping
from benthic.linear.least_squares import Solution, gram_of, solve_gram, solve_positive, solve_rows
from benthic.linear.moments import Moments, Summing, joined
from benthic.training.estimator import Session, TrainedEstimator
from benthic.training.intake import Intake

_BLOCK = 1 << 22  # numbers in a block of rows of a file


class _LinearPredictor(Predicts, MultiOutputMixin, TrainedEstimator):
    """Base of regressions whose statistics are the moments of the rows; ``_learn`` solves from rows or moments."""

    coef_: Any
    intercept_: Any
    fit_intercept: bool

    # -- what a model adds -----------------------------------------------------------------------------

    @abstractmethod
    def _check_settings(self) -> None:
        """Refuse settings that make no sense."""

    @abstractmethod
    def _from_rows(self, A: Tensor, Y: Tensor, gram: Tensor | None, weight: float, precision: float) -> Tensor:
        """Coefficients (d, k) from centered rows, scaled by the roots of their weights. gram: AᵀA, for n >= d."""

    @abstractmethod
    def _from_moments(self, moments: Moments, features: int) -> Tensor:
        """Coefficients (d, k) from moments."""

    def _streamed(self, features: int) -> Summing:
        """What sums over rows that stream."""
        return Summing(features)

    def _from_stream(self, learner: Summing, features: int) -> Tensor:
        """Coefficients from what was summed over rows that stream."""
        return self._from_moments(self._about(learner.moments), features)

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and numbers, or from a file or source: ``fit(path, 'column')``.

        y: (n,) or (n, k) targets. sample_weight: (n,) how often each row counts.
        """
        with self._session(X) as session:
            with speaking(self, "fit"):
                self._check_settings()
            intake = Intake(self, X, y, target="numbers", sample_weight=sample_weight)
            for name in ("_moments", "_columns"):
                self.__dict__.pop(name, None)
            with speaking(self, "fit"):
                if intake.data is not None and session.world.size == 1:
                    self._fit_rows(intake.data.map(lambda t: t.to(session.device)), intake.origin)
                else:
                    self._fit_stream(intake, session)
        return self

    def _fit_rows(self, batch: Batch, origin: Origin) -> None:
        rows, weight = joined(batch), batch.weight
        d, flat = batch.X.shape[1], batch.y is not None and batch.y.ndim == 1
        if weight is not None:
            rows, weight = rows[weight > 0], weight[weight > 0].double()
        total = float(len(rows)) if weight is None else float(weight.sum())
        mean = rows.mean(0) if weight is None else weight @ rows / total
        rows = rows - mean if self.fit_intercept else rows
        if weight is not None:
            rows = rows * weight.sqrt()[:, None]
        gram = None
        if len(rows) >= d:
            scatter = gram_of(rows)
            gram = scatter[:d, :d].contiguous()
            if not self.fit_intercept:
                scatter = scatter - total * torch.outer(mean, mean)
            self._moments = Moments(total, mean, scatter).to_tree()
        self._columns = (d, flat)
        coef = self._from_rows(rows[:, :d], rows[:, d:], gram, total, torch.finfo(batch.X.dtype).eps)
        self._keep(coef, mean if self.fit_intercept else torch.zeros_like(mean), origin)

    def _fit_stream(self, intake: Intake, session: Session) -> None:
        learner = self._streamed(intake.width)
        size = session.trainer.batch_size or max(_BLOCK // (intake.width + 1), 256)
        feed = intake.feed(batch_size=size, seed=session.seed, device=session.device, world=session.world)
        self._train(learner, feed, replace(session, trainer=replace(session.trainer, batch_size=size)))
        flat = intake.data is None or (intake.data.y is not None and intake.data.y.ndim == 1)
        self._columns, self._moments = (intake.width, flat), learner.moments.to_tree()
        self._keep(self._from_stream(learner, intake.width), self._about(learner.moments).mean, intake.origin)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows: the result is that of one ``fit`` on all rows seen so far, to rounding.

        It is solved from sums alone, so that its error grows with the square of the features' condition number.
        """
        with keeping(self):
            first = not hasattr(self, "coef_")
            with speaking(self, "partial_fit"):
                self._check_settings()
                if getattr(self, "positive", False):
                    raise InvalidInput("positive=True needs all rows at once; use fit")
                if not first and not hasattr(self, "_moments"):
                    raise InvalidInput(
                        "the last fit had fewer rows than columns and kept no sums to add to; begin with partial_fit "
                        "on a new model"
                    )
            tensor, origin = self._arrive(X, "partial_fit", reset=first)
            with speaking(self, "partial_fit"):
                targets = check_targets(y, len(tensor)).to(tensor.device)
                batch = Batch(tensor, targets, check_weights(sample_weight, tensor))
                moments = Moments.of(joined(batch).cpu(), None if batch.weight is None else batch.weight.cpu())
                if not first:
                    self._check_width(moments)
                    moments = Moments.from_tree(self._moments).merge(moments)
            self._columns, self._moments = (tensor.shape[1], targets.ndim == 1), moments.to_tree()
            about = self._about(moments)
            self._keep(
                self._from_moments(about, tensor.shape[1]), about.mean, self._fit_origin if not first else origin
            )
        return self

    def _check_width(self, moments: Moments) -> None:
        targets, now = (len(mean) - self._columns[0] for mean in (self._moments["mean"], moments.mean))
        if targets != now:
            raise InvalidInput(f"y has {now} targets, but the rows before had {targets}")

    def _about(self, moments: Moments) -> Moments:
        return moments if self.fit_intercept else moments.about_zero()

    def _keep(self, coef: Tensor, mean: Tensor, origin: Origin) -> None:
        """Coefficients and intercept in scikit-learn's shapes, as arrays like those they were learned from."""
        d, flat = self._columns
        if not bool(torch.isfinite(coef).all()):
            raise InvalidInput("X is so small beside y that coefficients overflow; rescale the columns of X")
        self._origin = origin = replace(origin, dtype=origin.dtype if origin.dtype == "float64" else "float32")
        intercept = mean[d:].to(coef) - mean[:d].to(coef) @ coef
        self.coef_ = origin.mirror((coef[:, 0] if flat else coef.T).contiguous())
        self.intercept_ = float(intercept[0]) if flat else origin.mirror(intercept)

    # -- answers -----------------------------------------------------------------------------------------

    def _theta(self, device: Any, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """Coefficients (k, d) and intercepts (k,)."""
        coef = torch.as_tensor(self.coef_).to(device, dtype)
        intercept = torch.as_tensor(self.intercept_, dtype=dtype).to(device)
        return coef.reshape(-1, coef.shape[-1]), intercept.reshape(-1)

    def _prediction(self, X: Tensor) -> Tensor:
        coef, intercept = self._theta(X.device, X.dtype)
        answers = torch.addmm(intercept, X, coef.T)
        return answers[:, 0] if self._columns[1] else answers

    # -- words and pictures --------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        names = getattr(getattr(self, "schema_", None), "encoded_names", None)
        if names is None:
            names = getattr(self, "feature_names_in_", None)
        return [str(name) for name in (range(self._columns[0]) if names is None else names)]

    def plot(self, ax: Any = None) -> Any:
        """The coefficients as a picture: bars for one target, with their standard errors if known, else a map."""
        from benthic.linear.picture import plot_effects

        check_is_fitted(self)
        coef = self._theta("cpu")[0].numpy()
        error = getattr(self, "stderr_", None)
        error = None if error is None else np.asarray(torch.as_tensor(error).cpu()).reshape(coef.shape)
        return plot_effects(coef, self._names(), error, ax)

    def _check_flags(self, *names: str) -> None:
        for name in names:
            flag(name, getattr(self, name))


class LinearRegression(_LinearPredictor):
    r"""Least squares, with standard errors and predictive intervals.

    .. math:: \min_{w, b} \; \sum_i w_i (y_i - x_i^T w - b)^2

    Rows in memory: centered, then normal equations with one correction by the residuals if the features are well
    conditioned, else QR and the singular values of R; of several minima the shortest, as LAPACK's ``gelsd`` gives.
    Files, several processes: sums of two passes, then passes that correct the solution by residuals (Björck,
    1987). ``partial_fit``: sums alone.

    fit_intercept: whether b is free or zero. positive: only coefficients >= 0 (Lawson & Hanson, 1974); rows in
    memory. trainer: device and block size (``Trainer``).

    coef_: (d,) or (k, d). intercept_: number or (k,). rank_: of the features. singular_: their singular values.
    stderr_: standard errors of ``coef_`` if the noise is independent and of one size (in directions the data do not
    determine: of the shortest solution). sigma_: estimate of the noise's standard deviation. dof_: rows (total
    weight) less free parameters. r2_: share of the variance explained; the last two a number or (k,).

    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = LinearRegression().fit(X, [1.0, 3.0, 5.0, 7.0])
    >>> model.coef_.round(6), round(model.intercept_, 6)
    (array([2.]), 1.0)
    """

    r2_: Any
    sigma_: Any

    def __init__(
        self, *, fit_intercept: bool = True, positive: bool = False, random_state: Any = None, trainer: Any = None
    ) -> None:
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.random_state = random_state
        self.trainer = trainer

    def _check_settings(self) -> None:
        self._check_flags("fit_intercept", "positive")

    def _from_rows(self, A: Tensor, Y: Tensor, gram: Tensor | None, weight: float, precision: float) -> Tensor:
        zero = A.new_zeros(Y.shape[1])
        solved = solve_rows(A, Y, zero, precision, gram)
        if self.positive:
            solved = solved._replace(coef=solve_positive(A, Y, zero))
        self._judge(solved, (Y - A @ solved.coef).square().sum(0), Y.square().sum(0), weight)
        return solved.coef

    def _from_moments(self, moments: Moments, features: int) -> Tensor:
        gram, right, squares = moments.split(features)
        solved, _ = solve_gram(gram, right, right.new_zeros(right.shape[1]))
        left = squares - (solved.coef * (2 * right - gram @ solved.coef)).sum(0)
        self._judge(solved, left.clamp(min=0.0), squares, moments.weight)
        return solved.coef

    def _streamed(self, features: int) -> Summing:
        if self.positive:
            raise InvalidInput("positive=True needs rows in memory and one process")

        def answer(moments: Moments) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
            gram, right, _ = self._about(moments).split(features)
            solved, again = solve_gram(gram, right, right.new_zeros(right.shape[1]))
            return solved.coef, again

        return Summing(features, answer, centered=self.fit_intercept)

    def _from_stream(self, learner: Summing, features: int) -> Tensor:
        moments = self._about(learner.moments)
        gram, right, squares = moments.split(features)
        solved, _ = solve_gram(gram, right, right.new_zeros(right.shape[1]))
        self._judge(solved._replace(coef=learner.coef), learner.squares, squares, moments.weight)
        return learner.coef

    def _judge(self, solved: Solution, left: Tensor, squares: Tensor, weight: float) -> None:
        """Noise, standard errors and share of variance explained. left: (k,) squared residuals."""
        flat = self._columns[1]
        self.rank_, self.singular_ = solved.rank, solved.singular.cpu().numpy()
        self.dof_ = max(weight - solved.rank - int(self.fit_intercept), 0.0)
        sigma = (left / self.dof_).sqrt() if self.dof_ > 0 else torch.full_like(left, torch.nan)
        error = solved.root.norm(dim=1)[:, None] * sigma  # (d, k)
        r2 = torch.where(squares > 0, 1 - left / squares, 1.0)
        self.sigma_ = float(sigma[0]) if flat else sigma.cpu().numpy()
        self.r2_ = float(r2[0]) if flat else r2.cpu().numpy()
        self.stderr_ = (error[:, 0] if flat else error.T).cpu().numpy().copy()
        self._root, self._weight = solved.root.cpu().numpy().copy(), float(weight)

    def predict_interval(self, X: Any, level: float = 0.9) -> Any:
        r"""Central interval that holds a new target with probability ``level``: (n, 2), or (n, k, 2) for k targets.

        .. math:: \hat y \pm t_{\nu}\, \hat\sigma \sqrt{1 + 1/W + (x - \bar x)^T (A^T A)^+ (x - \bar x)}

        exact for independent normal noise of one size; ν is ``dof_``, A the centered features.
        """
        from scipy.stats import t

        if not 0 < level < 1:
            raise self._fail("predict_interval", f"level is {level!r}; a probability lies between 0 and 1")
        tensor, origin = self._arrive(X, "predict_interval")
        if self.positive or not self.dof_ > 0:
            why = "positive=True has no such law" if self.positive else "there are no more rows than parameters"
            raise self._fail("predict_interval", f"{why}; use a plain model on more rows than columns")
        wide = tensor.double()
        d = self._columns[0]
        mean = torch.as_tensor(self._mean[:d]).to(wide)
        reach = ((wide - mean) @ torch.as_tensor(self._root).to(wide)).square().sum(1)
        reach = (1 + reach + (1 / self._weight if self.fit_intercept else 0.0)).sqrt()
        sigma = torch.as_tensor(self.sigma_, dtype=torch.float64).reshape(-1).to(wide)
        half = float(t.ppf(0.5 + level / 2, self.dof_)) * reach[:, None] * sigma  # (n, k)
        middle = self._prediction(wide).reshape(len(wide), -1)
        ends = torch.stack([middle - half, middle + half], -1)
        return origin.mirror(ends[:, 0] if self._columns[1] else ends)

    def _keep(self, coef: Tensor, mean: Tensor, origin: Origin) -> None:
        super()._keep(coef, mean, origin)
        self._mean = mean.cpu().numpy()

    def _facts(self) -> dict[str, Any]:
        flat = self._columns[1]
        facts: dict[str, Any] = {
            "rows": f"{self._weight:g}, {self.dof_:g} degrees of freedom, rank {self.rank_}",
            "R2": self.r2_ if flat else ", ".join(f"{r:.4f}" for r in self.r2_),
            "noise": self.sigma_ if flat else ", ".join(f"{s:.4g}" for s in self.sigma_),
        }
        if flat and not math.isnan(self.sigma_):
            coef = self._theta("cpu")[0][0].numpy()
            error = np.asarray(self.stderr_)
            with np.errstate(divide="ignore", invalid="ignore"):
                order = np.argsort(-np.nan_to_num(np.abs(coef / error), nan=0.0))[:10]
            names = self._names()
            facts |= {names[j]: f"{coef[j]:.5g} ± {error[j]:.2g}" for j in order}
        return facts
