"""Naive Bayes with a normal law for every feature in every class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Classifies, HasExactDensity, to_numpy
from benthic.base.settings import number
from benthic.base.validation import speaking
from benthic.bayes.estimator import _NaiveBayes
from benthic.bayes.generative import DrawsRows
from benthic.bayes.tally import Sums, Tally, members, observed
from benthic.data.batch import Batch
from benthic.uses.verbs import Uses


class GaussianNB(DrawsRows, _NaiveBayes, Uses, HasExactDensity):
    r"""Classes with independent normal features, which is also a density: a mixture with known parts.

    .. math:: p(c \mid x) \propto p(c) \prod_{j \, \text{observed}} N(x_j; \mu_{cj}, \sigma^2_{cj}), \qquad
              p(x) = \sum_c p(c) \prod_j N(x_j; \mu_{cj}, \sigma^2_{cj})

    Means and variances are taken over the values observed (NaN is passed over); a feature that a class never shows
    has the law of all rows there. Files and several processes: two passes. ``partial_fit`` merges (Chan, Golub &
    LeVeque, 1979) and equals one ``fit``.

    priors: (k,) of the classes instead of their shares. var_smoothing: share of the largest variance of a feature
    that is added to all variances. trainer: device and block size (``Trainer``).

    theta_: (k, d) means. var_: (k, d) variances. class_prior_, class_count_: (k,). epsilon_: what was added.
    ``log_prob`` and ``likelihood`` are those of x alone; ``sample(given=labels)`` draws from classes.

    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = GaussianNB().fit(X, [0, 0, 1, 1])
    >>> model.predict([[-0.5], [3.0]]).tolist(), model.theta_.ravel().tolist()
    ([0, 1], [-1.5, 1.5])
    """

    def __init__(
        self, *, priors: Any = None, var_smoothing: float = 1e-9, random_state: Any = None, trainer: Any = None
    ) -> None:
        self.priors = priors
        self.var_smoothing = var_smoothing
        self.random_state = random_state
        self.trainer = trainer

    # -- learning --------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        number("var_smoothing", self.var_smoothing)

    def _priors(self) -> Any:
        return self.priors

    def _tally(self, classes: int) -> Tally:
        def look(batch: Batch, sums: Mapping[str, Tensor]) -> Sums:
            member = members(batch, classes)
            values, count, _ = observed(batch.X, member)
            return {"class": member.sum(0), "count": count, "total": member.T @ values}

        def spread(batch: Batch, sums: Mapping[str, Tensor]) -> Sums:
            member, mean = members(batch, classes), _ratio(sums["total"], sums["count"]).to(batch.X.device)
            codes = member.argmax(1) if batch.y is None else batch.y.long()
            gap = (batch.X.double() - mean[codes]).nan_to_num(0.0)
            return {"square": member.T @ gap.square()}

        return Tally((("look", look), ("spread", spread)))

    def _merge(self, old: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> dict[str, Tensor]:
        merged = {name: old[name] + new[name] for name in ("class", "count", "total")}
        gap = _ratio(new["total"], new["count"]) - _ratio(old["total"], old["count"])
        between = _ratio(old["count"] * new["count"], merged["count"]) * gap.square()
        return {**merged, "square": old["square"] + new["square"] + between}

    def _finish(self, sums: Mapping[str, Tensor]) -> None:
        count, mean = sums["count"], _ratio(sums["total"], sums["count"])
        everyone = count.sum(0)
        center = _ratio(sums["total"].sum(0), everyone)
        whole = _ratio((sums["square"] + count * (mean - center).square()).sum(0), everyone)
        largest = float(whole.max())
        self.epsilon_ = float(self.var_smoothing) * (largest if largest > 0 else 1.0)
        var = _ratio(sums["square"], count)
        none = count == 0  # this class never shows the feature: the law of all rows
        mean, var = torch.where(none, center, mean), torch.where(none, whole, var)
        floor = torch.finfo(torch.float64).tiny ** 0.5
        self.theta_, self.var_ = mean.numpy(), (var + self.epsilon_).clamp(min=floor).numpy()
        self.class_prior_ = np.exp(self.class_log_prior_)

    # -- answers -----------------------------------------------------------------------------------------

    def _parameters(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = (self.class_log_prior_, self.theta_, self.var_)
        prior, mean, var = (torch.as_tensor(part).to(X.device, torch.float64) for part in parts)
        return prior, mean, var

    def _log_joint(self, X: Tensor) -> Tensor:
        prior, means, variances = self._parameters(X)
        seen = ~torch.isnan(X)
        wide = torch.where(seen, X, 0.0).double()
        columns = []
        for log_prior, mean, var in zip(prior, means, variances, strict=True):
            terms = (wide - mean).square() / var + torch.log(2 * math.pi * var)
            columns.append(log_prior - 0.5 * torch.where(seen, terms, 0.0).sum(1))
        return torch.stack(columns, 1)

    def _log_prob(self, X: Tensor) -> Tensor:
        return torch.logsumexp(self._log_joint(X), 1)

    def impute(self, X: Any, given: Any = None) -> Any:
        """``X`` with every NaN replaced by its expectation given the rest of its row, or by the mean of its class.

        given: labels, one or one a row.
        """
        if given is None:
            return super().impute(X)
        tensor, origin = self._arrive(X, "impute", missing=True)
        with speaking(self, "impute"):
            shares = self._of_labels(np.atleast_1d(np.asarray(to_numpy(given))), len(tensor)).to(tensor)
        mean = shares @ self._parameters(tensor)[1].to(tensor)
        return self._data_out(torch.where(torch.isnan(tensor), mean, tensor), origin)

    def _impute(self, X: Tensor) -> Tensor:
        _, mean, _ = self._parameters(X)
        return torch.softmax(self._log_joint(X), 1) @ mean

    def _draw(self, codes: Tensor, noise: torch.Generator) -> Tensor:
        mean, spread = torch.as_tensor(self.theta_), torch.as_tensor(self.var_).sqrt()
        shape = (len(codes), mean.shape[1])
        return mean[codes] + spread[codes] * torch.randn(shape, generator=noise, dtype=torch.float64)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy."""
        return Classifies.score(self, X, y, sample_weight)

    # -- words and pictures --------------------------------------------------------------------------------

    def plot(self, X: Any = None, *, features: Any = None) -> Any:
        """The law of each class in some columns. features: positions to show, else the six that tell most."""
        from benthic.bayes.picture import plot_laws

        check_is_fitted(self)
        rows = None if X is None else to_numpy(self._arrive(X, "plot")[0])
        names = self._names(self.theta_.shape[1])
        return plot_laws(
            self.theta_, self.var_, self.class_prior_, names, [str(c) for c in self.classes_], rows, features
        )


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """above / below, and zero where nothing was counted."""
    return torch.where(below > 0, above / below.clamp(min=torch.finfo(torch.float64).tiny), 0.0)
