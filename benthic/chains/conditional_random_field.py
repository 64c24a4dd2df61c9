"""The linear-chain conditional random field as an estimator: labels along sequences of features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base import symbols
from benthic.base.errors import InvalidInput
from benthic.base.sequences import Ragged, SequenceEstimator, SequenceOrigin
from benthic.base.settings import number, whole
from benthic.base.validation import speaking
from benthic.chains.crf import Loss, Weights, normalizers, path_scores, potentials, read_labels
from benthic.chains.messages import marginals, viterbi


class ConditionalRandomField(SequenceEstimator):
    r"""Labels of the steps of a sequence given their features, each label leaning on its neighbors.

    .. math:: p(y \mid x) = \frac{1}{Z(x)} \exp\Big(a_{y_1} + e_{y_T} + \sum_t (x_t^\top W_{y_t} + b_{y_t})
        + \sum_{t > 1} M_{y_{t-1} y_t}\Big)

    Lafferty, McCallum & Pereira, 2001. The loss is convex: L-BFGS with exact gradients by forward and backward
    messages. X is an array (n, t, d) or a list of (t_i, d), and y one label a step: (n, t), or a list of lists of
    numbers or strings, or of strings whose characters are the labels. Measure features in comparable units.

    alpha: half of it times the squared weights is added to the loss (those of single labels, ``intercept_``, are
    free). tol: the largest entry of the gradient, per step of the data, that counts as none. max_iter: of L-BFGS.

    classes_: (k,) labels, sorted. coef_: (k, d). intercept_: (k,). transitions_: (k, k) from row to column. start_,
    end_: (k,). loss_: at the end, n_iter_, converged_.

    >>> X = [[[1.0], [1.0], [-1.0]], [[-1.0], [1.0]]]
    >>> y = [["up", "up", "down"], ["down", "up"]]
    >>> model = ConditionalRandomField(alpha=0.1).fit(X, y)
    >>> model.predict([[[1.0], [-1.0]]])
    [['up', 'down']]
    >>> model.score(X, y)
    1.0
    """

    def __init__(self, alpha: float = 1.0, *, tol: float = 1e-6, max_iter: int = 500, random_state: Any = None) -> None:
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from sequences X and the labels y of their steps."""
        with speaking(self, "fit"):
            self._check_settings()
        before = dict(self.__dict__)
        try:
            series, _ = self._arrive_sequences(X, "fit", reset=True)
            with speaking(self, "fit"):
                self._learn(Ragged(series.values.double(), series.lengths), y)
        except (ValueError, TypeError):
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _check_settings(self) -> None:
        for name, value in (("alpha", self.alpha), ("tol", self.tol)):
            number(name, value, ends="[]")
        whole("max_iter", self.max_iter)

    def _labels(self, series: Ragged, y: Any) -> tuple[np.ndarray, str]:
        """Labels of all steps (total,), one for each step of X, and the form they came in."""
        values, lengths, style = read_labels(y)
        if len(lengths) != len(series):
            raise InvalidInput(
                f"Found input variables with inconsistent numbers of samples: [{len(series)}, {len(lengths)}]"
            )
        wrong = np.flatnonzero(lengths != series.lengths.numpy())
        if len(wrong):
            i = int(wrong[0])
            raise InvalidInput(f"sequence {i} has {int(series.lengths[i])} steps and {int(lengths[i])} labels in y")
        return values, style

    def _learn(self, series: Ragged, y: Any) -> None:
        from benthic.optim.minimizer import minimize

        values, self._label_style = self._labels(series, y)
        self.classes_, codes = np.unique(values, return_inverse=True)
        k, d = len(self.classes_), series.values.shape[1]
        if k < 2:
            raise InvalidInput(f"y has only one label, {self.classes_.tolist()[0]!r}; at least 2 are needed")
        device = series.values.device
        loss = Loss(series, torch.from_numpy(codes.astype(np.int64)).to(device), k, float(self.alpha))
        start = torch.zeros(d * k + 3 * k + k * k, dtype=torch.float64, device=device)
        seen, total = loss.seen().vector(), len(series.values)
        found = minimize(
            lambda x: tuple(part / total for part in loss(x, seen)),
            start,
            value_and_gradient=True,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
        )
        self._keep(Weights.of(found.point.detach().cpu(), d, k))
        self.loss_, self.n_iter_ = float(found.value) * total, int(found.iterations)
        self.converged_, self._steps = bool(found.converged), total
        if not np.isfinite(self.loss_):
            raise InvalidInput("the loss is not finite; rescale the columns of X, or raise alpha")

    def _keep(self, weights: Weights) -> None:
        self.coef_, self.intercept_ = weights.features.T.contiguous().numpy(), weights.labels.numpy().copy()
        self.start_, self.end_ = weights.first.numpy().copy(), weights.last.numpy().copy()
        self.transitions_ = weights.moves.numpy().copy()

    def _weights(self, device: torch.device | str = "cpu") -> Weights:
        kept = (self.coef_.T, self.intercept_, self.start_, self.end_, self.transitions_)
        return Weights(*(torch.as_tensor(np.ascontiguousarray(part)).to(device) for part in kept))

    # -- answers ---------------------------------------------------------------------------------------

    def _enter(self, X: Any, method: str) -> tuple[Ragged, SequenceOrigin, Tensor, Weights]:
        series, origin = self._arrive_sequences(X, method)
        series = series.replace(series.values.double())
        weights = self._weights(series.values.device)
        return series, origin, series.replace(potentials(weights, series)).padded()[0], weights

    def _codes(self, X: Any, method: str) -> tuple[list[Tensor], SequenceOrigin]:
        series, origin, wide, weights = self._enter(X, method)
        path, _ = viterbi(wide, weights.moves, series.lengths)
        return [row[:length] for row, length in zip(path, series.lengths.tolist(), strict=True)], origin

    def predict(self, X: Any) -> Any:
        """The most probable labels of each sequence as a whole (Viterbi), in the form that y had in ``fit``.

        An array (n, t, d) gives an array (n, t), a tensor with labels that are numbers a tensor.
        """
        codes, origin = self._codes(X, "predict")
        if origin.kind == "torch" and self.classes_.dtype.kind in "biuf":
            labels = torch.as_tensor(self.classes_)
            return self._sequences_out([labels[part.cpu()] for part in codes], origin)
        arrays = [part.cpu().numpy() for part in codes]
        style = self._label_style
        if origin.style == "array" and style != "strings":
            style = "array"
        elif style == "array":
            style = "arrays"
        return symbols.decode(arrays, self.classes_, style)

    def predict_proba(self, X: Any) -> Any:
        """The probability of each label at each step, (t_i, k) for every sequence, columns as in ``classes_``."""
        series, origin, wide, weights = self._enter(X, "predict_proba")
        single = marginals(wide, weights.moves, series.lengths).single
        mask = torch.arange(single.shape[1], device=single.device) < series.lengths.to(single.device)[:, None]
        return self._sequences_out(series.replace(single[mask]), origin)

    def label_log_prob(self, X: Any, y: Any) -> Any:
        """The log-probability of the labels y of each sequence given X, (n,)."""
        check_is_fitted(self)
        series, origin, _, weights = self._enter(X, "label_log_prob")
        codes = self._known(series, y, "label_log_prob").to(series.values.device)
        return origin.mirror(path_scores(weights, series, codes) - normalizers(weights, series))

    def _known(self, series: Ragged, y: Any, method: str) -> Tensor:
        with speaking(self, method):
            values, _ = self._labels(series, y)
            place = np.searchsorted(self.classes_, values).clip(max=len(self.classes_) - 1)
            unknown = self.classes_[place] != values
            if unknown.any():
                raise InvalidInput(
                    f"y holds {values[unknown][:1].tolist()[0]!r}, which fit never saw; labels are "
                    + ", ".join(map(repr, self.classes_[:8].tolist()))
                )
        return torch.from_numpy(place.astype(np.int64))

    def score(self, X: Any, y: Any) -> float:
        """The share of steps whose label is right."""
        check_is_fitted(self)
        series, _ = self._arrive_sequences(X, "score")
        with speaking(self, "score"):
            values, _ = self._labels(series, y)
        codes, _ = self._codes(X, "score")
        guesses = self.classes_[torch.cat(codes).cpu().numpy()]
        return float((guesses == values).mean())

    # -- words and pictures ----------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        shown = ", ".join(map(str, self.classes_[:8].tolist())) + (", ..." if len(self.classes_) > 8 else "")
        return {
            "labels": f"{len(self.classes_)}: {shown}",
            "steps": self._steps,
            "penalty": float(self.alpha),
            "loss": f"{self.loss_:.6g}, {self.loss_ / self._steps:.4g} nats a step",
            "iterations": f"{self.n_iter_}, {'converged' if self.converged_ else 'not converged: raise max_iter'}",
        }

    def plot(self) -> Any:
        """The weights of moves between labels, and those of the features."""
        from benthic.chains.crf_picture import draw_weights

        check_is_fitted(self)
        return draw_weights(self.transitions_, self.coef_, [str(label) for label in self.classes_.tolist()])
