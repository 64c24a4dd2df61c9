"""Naive Bayes with features that are on or off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.bayes.estimator import _CountingBayes
from benthic.bayes.generative import DrawsRows, HasMass
from benthic.bayes.tally import Sums, Tally, members, observed
from benthic.data.batch import Batch


class BernoulliNB(DrawsRows, HasMass, _CountingBayes):
    r"""Classes with independent binary features.

    .. math:: p(x \mid c) = \prod_{j \, \text{observed}} p_{cj}^{x_j} (1 - p_{cj})^{1 - x_j}, \qquad
              p_{cj} = \frac{n_{cj} + \alpha}{N_{cj} + 2 \alpha}

    n is the weight of rows of the class with the feature on, N that of rows where it is observed (NaN is passed
    over).

    alpha: what is added to the counts of on and off (Laplace's rule is 1), one number or one for each feature; 0 is
    taken as 1e-10. binarize: values above it are on; None if the values are 0 and 1 already. fit_prior: whether
    classes have the priors of their shares, or equal ones. class_prior: (k,) priors to use instead. trainer: device
    and block size (``Trainer``).

    ``sample`` draws rows of zeros and ones; ``log_prob`` is that of the pattern of on and off.

    feature_log_prob_: (k, d) log p. feature_count_: (k, d) n. class_count_, class_log_prior_: (k,).

    >>> X = [[1, 0], [1, 1], [0, 1], [0, 1]]
    >>> BernoulliNB().fit(X, ["a", "a", "b", "b"]).predict([[1, 0]]).tolist()
    ['a']
    """

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        binarize: float | None = 0.0,
        fit_prior: bool = True,
        class_prior: Any = None,
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.alpha = alpha
        self.binarize = binarize
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.random_state = random_state
        self.trainer = trainer

    def _check_rows(self, X: Tensor) -> None:
        if self.binarize is None and not bool(((X == 0) | (X == 1) | torch.isnan(X)).all()):
            raise InvalidInput("binarize=None, but X has values other than 0 and 1; give the threshold between them")

    def _on(self, X: Tensor) -> Tensor:
        """Zeros and ones, NaN where missing."""
        if self.binarize is None:
            return X
        return torch.where(torch.isnan(X), X, (X - self.binarize > 0).to(X))

    def _tally(self, classes: int) -> Tally:
        def count(batch: Batch, sums: Mapping[str, Tensor]) -> Sums:
            member = members(batch, classes)
            values, seen, _ = observed(self._on(batch.X), member)
            return {"class": member.sum(0), "observed": seen, "on": member.T @ values}

        return Tally((("count", count),))

    def _finish(self, sums: Mapping[str, Tensor]) -> None:
        alpha = self._smoothing(sums["on"].shape[1])
        total = (sums["observed"] + 2 * alpha).log()
        self.feature_count_ = sums["on"].numpy().copy()
        self.feature_log_prob_ = ((sums["on"] + alpha).log() - total).numpy()
        self._off = ((sums["observed"] - sums["on"] + alpha).log() - total).numpy()

    def _log_joint(self, X: Tensor) -> Tensor:
        on, off, prior = (self._table(name, X) for name in ("feature_log_prob_", "_off", "class_log_prior_"))
        seen = ~torch.isnan(X)
        values = torch.where(seen, self._on(X), 0.0).double()
        return prior + values @ on.T + (seen.double() - values) @ off.T

    def _draw(self, codes: Tensor, noise: torch.Generator) -> Tensor:
        chance = torch.as_tensor(self.feature_log_prob_).exp()[codes]
        return torch.bernoulli(chance, generator=noise)

    def plot(self, ax: Any = None) -> Any:
        """The chance that a feature is on, as a map of classes by features."""
        return self._map(ax, "chance of being on")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on numbers of which only the sign is looked at
        return tags
