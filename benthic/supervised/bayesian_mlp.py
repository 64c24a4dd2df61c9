"""Bayesian fully connected networks as classifier and regressor: an average over the posterior of the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import Origin, from_numpy
from benthic.base.capabilities import Classifies, Predicts, to_numpy
from benthic.base.settings import whole
from benthic.base.validation import check_targets, speaking
from benthic.supervised.bayesian_estimator import Calibration, Uncertainty, _BayesianMLP
from benthic.supervised.bayesian_posterior import Classes, Normal
from benthic.training.intake import Intake
from benthic.training.network import scales_of, training_dtype


class BayesianMLPRegressor(Predicts, _BayesianMLP):
    r"""Fully connected network for numbers whose weights, prior and noise are averaged over their posterior.

    .. math:: p(y \mid x, D) = \int N\big(y; f_w(x), 1/\gamma\big)\, p(w, \lambda, \gamma \mid D)\, dw\, d\lambda\,
        d\gamma, \qquad w \sim N(0, 1/\lambda)

    Neal, 1996. Precisions of groups of weights and of the noise have Gamma laws and are sampled along.

    inference: ``hmc`` (Hamiltonian trajectories of the weights, Gibbs for the precisions), ``nuts`` (all of them by
    the no-U-turn sampler), ``sgld`` and ``sghmc`` (minibatch chains), or ``variational`` (independent normal laws with
    local reparametrization). chains: members of the family that run side by side. draws: kept of each.
    warmup, leapfrog_steps: of ``hmc``, and of ``nuts`` (the most, rounded up to a power of two); the others take steps,
    batch_size and lr from the trainer, and warm up for the first half. climb_steps: Adam steps that bring every chain
    near a mode first.
    prior_precision, noise_precision: numbers, or None to learn them (the noise in units of the target's spread).
    relevance: whether each input has a precision of its own, so that inputs without use are switched off.
    activation: ``relu``, ``tanh`` or ``logistic``.
    Inputs and targets are standardized inside; ``y`` may have several columns. ``hmc`` and ``nuts`` look at all rows at
    every step: from some ten thousand rows on, ``sghmc`` is the way.

    >>> import numpy as np
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = BayesianMLPRegressor((20,), draws=50, warmup=50, leapfrog_steps=20, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> low, high = model.predict_interval(X, 0.9).T
    >>> bool(((low < y) & (y < high)).mean() > 0.8)
    True
    """

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (50,),
        activation: str = "relu",
        *,
        inference: str = "hmc",
        chains: int = 4,
        draws: int = 100,
        warmup: int = 100,
        leapfrog_steps: int = 40,
        climb_steps: int = 300,
        prior_precision: float | None = None,
        noise_precision: float | None = None,
        relevance: bool = True,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            hidden_layer_sizes,
            activation,
            inference=inference,
            chains=chains,
            draws=draws,
            warmup=warmup,
            leapfrog_steps=leapfrog_steps,
            climb_steps=climb_steps,
            prior_precision=prior_precision,
            relevance=relevance,
            trainer=trainer,
            random_state=random_state,
        )
        self.noise_precision = noise_precision

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows ``X`` (array, frame, path or source) and their targets ``y``, (n,) or (n, k)."""
        with self._session(X) as session:
            self._check_settings()
            intake = Intake(self, X, y, target="numbers")
            self.scales_, self.target_scales_ = scales_of(intake), scales_of(intake, "y")
            batch = intake.sample(intake.rows, 0)
            if batch.y is None:
                raise self._fail("fit", "requires y to be passed, but the target y is None")
            self._squeeze = batch.y.ndim == 1
            targets = batch.y[:, None] if self._squeeze else batch.y
            kind = {"device": session.device, "dtype": training_dtype(session)}
            rows = self.scales_.transform(batch.X).to(**kind)
            self._infer(session, rows, self.target_scales_.transform(targets).to(**kind), targets.shape[1], Normal)
        return self

    # -- the predictive law ----------------------------------------------------------------------------

    def _units(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and spread of the targets, (k,)."""
        mean, scale = from_numpy(np.asarray(self.target_scales_.mean)), from_numpy(self.target_scales_.scale)
        return mean.to(like), scale.to(like)

    def _shaped(self, values: Tensor) -> Tensor:
        return values[:, 0] if self._squeeze else values

    def _prediction(self, X: Tensor) -> Tensor:
        outputs = self._each(X, lambda made: made.mean(0))
        return self._shaped(self.target_scales_.inverse(outputs))

    def uncertainty(self, X: Any) -> Uncertainty:
        """Variance of the prediction of each row, by the law of total variance, in squared units of the target.

        epistemic: variance over members of their means. aleatoric: mean over members of their noise.
        """
        tensor, origin = self._arrive(X, "uncertainty")
        epistemic = self._each(tensor, lambda made: made.var(0, correction=0))
        aleatoric = (1 / self.noise_precision_.to(epistemic)).mean(0).expand_as(epistemic)
        square = self._units(epistemic)[1].square()
        parts = [self._shaped(part * square) for part in (epistemic + aleatoric, epistemic, aleatoric)]
        return Uncertainty(*(origin.mirror(part) for part in parts))

    def predict_interval(self, X: Any, level: float = 0.9) -> Any:
        """Central interval that holds the target with probability ``level``: (n, 2), or (n, k, 2) for k targets.

        Its ends are quantiles of the mixture of the members' normal laws.
        """
        if not 0 < level < 1:
            raise self._fail("predict_interval", f"level is {level}; a probability lies between 0 and 1")
        tensor, origin = self._arrive(X, "predict_interval")
        sides = ((1 - level) / 2, (1 + level) / 2)
        ends = self._each(tensor, lambda made: torch.stack([self._quantile(made, p) for p in sides], -1))  # (n, k, 2)
        mean, scale = self._units(ends)
        return origin.mirror(self._shaped(ends * scale[:, None] + mean[:, None]))

    def _quantile(self, made: Tensor, p: float) -> Tensor:
        """(n, k) quantiles of mixtures of normal laws, by bisection."""
        spread = self.noise_precision_.to(made).rsqrt()[:, None]  # (members, 1, k)
        low: Tensor = (made - 8 * spread).amin(0)
        high: Tensor = (made + 8 * spread).amax(0)
        for _ in range(50):
            middle = 0.5 * (low + high)
            below = torch.special.ndtr((middle - made) / spread).mean(0) < p
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return 0.5 * (low + high)

    def log_likelihood(self, X: Any, y: Any) -> Any:
        """(n,) log density of targets under the predictive law, in nats and the target's units."""
        made, targets, scale, origin = self._laws(X, y, "log_likelihood")
        rows = Normal.rows(made, targets, self.noise_precision_.to(made))  # (members, n)
        return origin.mirror(rows.logsumexp(0) - math.log(len(made)) - scale.log().sum())

    def calibration(self, X: Any, y: Any, levels: Sequence[float] = tuple(np.linspace(0.05, 0.95, 19))) -> Calibration:
        """Share of targets inside central intervals of each level, beside the level."""
        made, targets, _, _ = self._laws(X, y, "calibration")
        spread = self.noise_precision_.to(made).rsqrt()[:, None]
        places = torch.special.ndtr((targets - made) / spread).mean(0)  # (n, k), uniform if the law is right
        wanted = np.asarray(levels, dtype=float)
        off = (2 * places - 1).abs().cpu().numpy()
        observed = np.array([(off <= level).mean() for level in wanted])
        return Calibration(wanted, observed, float(np.abs(observed - wanted).mean()))

    def _laws(self, X: Any, y: Any, method: str) -> tuple[Tensor, Tensor, Tensor, Origin]:
        """Outputs (members, n, k) and targets (n, k) in units of the targets' spread, that spread, and the origin."""
        tensor, origin = self._judged(X, y, method)
        made = self._each(tensor, lambda out: out.transpose(0, 1)).transpose(0, 1)
        with speaking(self, method):
            targets = check_targets(y, len(tensor)).to(made)
        mean, scale = self._units(made)
        targets = (targets[:, None] if targets.ndim == 1 else targets) - mean
        return made, targets / scale, scale, origin


class BayesianMLPClassifier(Classifies, _BayesianMLP):
    r"""Fully connected network for classes whose weights and prior are averaged over their posterior.

    .. math:: p(y \mid x, D) = \int \mathrm{softmax}(f_w(x))_y\; p(w, \lambda \mid D)\, dw\, d\lambda

    Neal, 1996. Parameters as in ``BayesianMLPRegressor``, without the noise.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesianMLPClassifier((10,), draws=30, warmup=30, leapfrog_steps=15, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> parts = model.uncertainty(X)
    >>> bool((parts.epistemic >= 0).all())
    True
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows ``X`` (array, frame, path or source) and their classes ``y``."""
        with self._session(X) as session:
            self._check_settings()
            intake = Intake(self, X, y, target="labels")
            batch, classes = intake.sample(intake.rows, 0), intake.classes
            if batch.y is None or classes is None:
                raise self._fail("fit", "requires y to be passed, but the target y is None")
            self.classes_, self.scales_ = classes, scales_of(intake)
            rows = self.scales_.transform(batch.X).to(session.device, training_dtype(session))
            self._infer(session, rows, batch.y.to(session.device), len(self.classes_), Classes)
        return self

    def _probabilities(self, X: Tensor) -> Tensor:
        return self._each(X, lambda made: torch.softmax(made, 2).mean(0))

    def uncertainty(self, X: Any) -> Uncertainty:
        """Entropy of the prediction of each row, in nats.

        aleatoric: mean entropy of the members. epistemic: the rest, the mutual information of class and weights.
        """
        tensor, origin = self._arrive(X, "uncertainty")

        def parts(made: Tensor) -> Tensor:
            logs = torch.log_softmax(made, 2)
            mean = logs.exp().mean(0)
            total = torch.special.entr(mean).sum(1)
            aleatoric = -(logs.exp() * logs).sum(2).mean(0)
            return torch.stack([total, (total - aleatoric).clamp(min=0), aleatoric], 1)

        found = self._each(tensor, parts)
        return Uncertainty(*(origin.mirror(part) for part in found.unbind(1)))

    def log_likelihood(self, X: Any, y: Any) -> Any:
        """(n,) log probability of the classes, in nats; -inf for a class that was never seen."""
        tensor, origin = self._judged(X, y, "log_likelihood")
        logs = self._probabilities(tensor).log()
        named = np.asarray(to_numpy(y))
        codes = np.searchsorted(self.classes_, named).clip(max=len(self.classes_) - 1)
        found = logs[torch.arange(len(logs)), from_numpy(codes).to(logs.device)]
        known = from_numpy(self.classes_[codes] == named).to(found.device)
        return origin.mirror(torch.where(known, found, -torch.inf))

    def calibration(self, X: Any, y: Any, bins: int = 10) -> Calibration:
        """Confidence in the predicted class beside how often it was right, in equal bins (Guo et al., 2017)."""
        whole(f"{type(self).__name__}.calibration: bins", bins)
        tensor, _ = self._judged(X, y, "calibration")
        confidence, chosen = self._probabilities(tensor).double().max(1)
        right = self.classes_[chosen.cpu().numpy()] == np.asarray(to_numpy(y))
        sure = confidence.cpu().numpy()
        at = np.minimum((sure * bins).astype(int), bins - 1)
        used = np.unique(at)
        expected = np.array([sure[at == b].mean() for b in used])
        observed = np.array([right[at == b].mean() for b in used])
        share = np.array([(at == b).mean() for b in used])
        return Calibration(expected, observed, float((share * np.abs(expected - observed)).sum()))
