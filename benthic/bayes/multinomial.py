"""Naive Bayes with features that count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.bayes.estimator import _CountingBayes
from benthic.bayes.tally import Sums, Tally, members, observed
from benthic.data.batch import Batch


class MultinomialNB(_CountingBayes):
    r"""Classes whose counts (of words, say) are draws from a list of chances.

    .. math:: p(x \mid c) \propto \prod_j p_{cj}^{x_j}, \qquad
              p_{cj} = \frac{n_{cj} + \alpha_j}{\sum_l (n_{cl} + \alpha_l)}

    n sums the counts of the rows of a class; shares, as tf-idf gives, work too. Missing counts (NaN) are passed
    over: a class's count of a feature is then that of its observed rows, scaled to all of them, and a row is judged
    by its observed counts with the chances of those features alone, which sum to one again.

    alpha: added to every count, one number or one for each feature; 0 is taken as 1e-10. fit_prior: whether classes
    have the priors of their shares, or equal ones. class_prior: (k,) priors to use instead. trainer: device and
    block size (``Trainer``).

    feature_log_prob_: (k, d) log p. feature_count_: (k, d) n. class_count_, class_log_prior_: (k,).

    >>> X = [[3, 0, 1], [2, 0, 0], [0, 2, 1]]
    >>> MultinomialNB().fit(X, ["a", "a", "b"]).predict([[1, 0, 0]]).tolist()
    ['a']
    """

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        fit_prior: bool = True,
        class_prior: Any = None,
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.alpha = alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.random_state = random_state
        self.trainer = trainer

    def _check_rows(self, X: Tensor) -> None:
        if bool((X < 0).any()):
            column = int((X < 0).any(0).nonzero()[0])
            raise InvalidInput(
                f"Negative values in data passed to MultinomialNB (input X), the first in column {column}; it models "
                "counts, use GaussianNB for numbers of any sign"
            )

    def _tally(self, classes: int) -> Tally:
        def count(batch: Batch, sums: Mapping[str, Tensor]) -> Sums:
            member = members(batch, classes)
            values, seen, _ = observed(batch.X, member)
            return {"class": member.sum(0), "observed": seen, "counts": member.T @ values}

        return Tally((("count", count),))

    def _finish(self, sums: Mapping[str, Tensor]) -> None:
        alpha = self._smoothing(sums["counts"].shape[1])
        share = torch.where(sums["observed"] > 0, sums["class"][:, None] / sums["observed"], 1.0)
        counts = sums["counts"] * share
        smoothed = counts + alpha
        self.feature_count_ = counts.numpy()
        self.feature_log_prob_ = (smoothed.log() - smoothed.sum(1, keepdim=True).log()).numpy()

    def _log_joint(self, X: Tensor) -> Tensor:
        chances, prior = self._table("feature_log_prob_", X), self._table("class_log_prior_", X)
        seen = ~torch.isnan(X)
        values = torch.where(seen, X, 0.0).double()
        joint = prior + values @ chances.T
        holed = (~seen).any(1)
        if bool(holed.any()):
            left = (seen[holed].double() @ chances.exp().T).clamp(min=torch.finfo(torch.float64).tiny)
            joint[holed] -= values[holed].sum(1, keepdim=True) * left.log()
        return joint

    def plot(self, ax: Any = None) -> Any:
        """The share of each feature in the counts of a class, as a map of classes by features."""
        return self._map(ax, "share of the counts")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True  # on numbers that are not counts
        return tags
