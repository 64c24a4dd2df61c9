"""Regression by weighted means of all examples."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from benthic.base.capabilities import Predicts
from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimator import Estimator
from benthic.base.settings import is_number
from benthic.base.settings import whole as whole_number
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.neighbors.common import taken, whole
from benthic.neighbors.shapes import check_shape, log_weights, normalized
from benthic.neighbors.smoothing import best_scale, best_scales, held, predicted, row_blocks, spread

_FARTHEST = 1e150  # of points in units of the bandwidth, so that squared distances are finite
_LEARNED = ("loo", "loo-each")


class NadarayaWatson(Predicts, Estimator):
    r"""The mean of all targets, weighted by a kernel of the distance and divided by the sum of the weights.

    .. math:: \hat y(x) = \frac{\sum_i w_i K\bigl((x - x_i) / h\bigr)\, y_i}{\sum_i w_i K\bigl((x - x_i) / h\bigr)}

    Nadaraya, 1964; Watson, 1964. Weights are normalized as logarithms, so that far from all examples a Gaussian kernel
    tends to the nearest one instead of 0/0. Kernels that end give weight to nobody there: then the nearest examples
    (all at the same distance, if several) share the answer.

    kernel: ``"gaussian"``, ``"exponential"``, ``"epanechnikov"``, ``"biweight"``, ``"triweight"``, ``"tricube"``,
    ``"triangular"``, ``"cosine"``, ``"box"``, or a kernel of :mod:`benthic.kernels`, applied to x / h.
    bandwidth: h in the units of the columns, a number or (d,); ``"loo"`` learns one multiple of the standard
    deviations by the least squared leave-one-out error, ``"loo-each"`` then one number for each column by gradients.
    max_loo_rows: rows that are left out in turn to learn it; more rows than that are sampled evenly.

    bandwidth_: (d,). loo_error_: mean squared leave-one-out error where the bandwidth was learned, else None.

    >>> NadarayaWatson(bandwidth=1.0, kernel="box").fit([[0.0], [1.0], [5.0]], [0.0, 2.0, 7.0]).predict([[0.4], [9.0]])
    array([1., 7.])
    """

    def __init__(self, kernel: Any = "gaussian", *, bandwidth: Any = "loo", max_loo_rows: int = 1000) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.max_loo_rows = max_loo_rows

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Store rows (n, d) and targets, (n,) or (n, t), and learn the bandwidth; or ``fit(path, 'column')``.

        sample_weight: (n,) how often each row counts.
        """
        with speaking(self, "fit"):
            self._check_settings()
        with whole(self):
            batch, intake = taken(self, X, y, "numbers", sample_weight)
            with speaking(self, "fit"):
                self._learn(batch, intake.origin.kind == "torch")
        return self

    def _check_settings(self) -> None:
        check_shape(self.kernel)
        whole_number("max_loo_rows", self.max_loo_rows, 2)
        if isinstance(self.bandwidth, str) and self.bandwidth not in _LEARNED:
            hint = nearest(self.bandwidth, _LEARNED)
            raise InvalidInput(
                f"bandwidth is {self.bandwidth!r}{hint}; use a number, numbers (d,), 'loo' or 'loo-each'"
            )
        if isinstance(self.bandwidth, bool) or self.bandwidth is None:
            raise InvalidInput(f"bandwidth is {self.bandwidth!r}; use a number, numbers (d,), 'loo' or 'loo-each'")

    def _given(self, width: int, like: Tensor) -> Tensor:
        """The bandwidth that the user gave, as (d,)."""
        values = torch.as_tensor(np.asarray(self.bandwidth, dtype=np.float64)).to(like)
        if values.ndim > 1 or values.numel() not in (1, width):
            raise InvalidInput(f"bandwidth has shape {tuple(values.shape)}; it must be a number or ({width},)")
        if not bool((torch.isfinite(values) & (values > 0)).all()):
            raise InvalidInput(f"bandwidth is {self.bandwidth!r}; it must be positive and finite")
        return values.reshape(-1).expand(width).clone()

    def _learn(self, batch: Batch, as_tensors: bool) -> None:
        rows, targets = batch.X.double(), batch.y.double().to(batch.X.device)
        mass = torch.ones(len(rows), dtype=rows.dtype, device=rows.device)
        if batch.weight is not None:
            mass = batch.weight.double()
            counts = mass > 0
            rows, targets, mass = rows[counts], targets[counts], mass[counts]
        self.loo_error_ = None
        flat = targets.reshape(len(targets), -1)
        if not isinstance(self.bandwidth, str):
            scale = self._given(rows.shape[1], rows)
            _check_range(rows / scale)
        elif float(mass.sum()) <= 1:
            scale = spread(rows, mass)  # one row: nothing can be left out
        else:
            data = held(rows, flat, mass, int(self.max_loo_rows))
            scale = best_scale(self.kernel, data)
            if self.bandwidth == "loo-each":
                scale = best_scales(self.kernel, data, scale)
            self.loo_error_ = _mean_error(self.kernel, data, scale)

        def kept(tensor: Tensor) -> Any:
            tensor = tensor.clone().contiguous()
            return tensor if as_tensors else tensor.cpu().numpy()

        self._X, self._y, self._mass = kept(rows), kept(targets), kept(mass)
        self.bandwidth_ = kept(scale)

    # -- answers ---------------------------------------------------------------------------------------

    def _parts(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Scaled queries and examples, targets (m, t), logarithms of masses; where the queries are, in float64."""
        rows, targets, mass, scale = (
            torch.as_tensor(part).to(X.device, torch.float64)
            for part in (self._X, self._y, self._mass, self.bandwidth_)
        )
        queries, rows = X.double() / scale, rows / scale
        with speaking(self, "predict"):
            _check_range(queries)
        return queries, rows, targets.reshape(len(targets), -1), mass.log()

    def _weights(self, A: Tensor, B: Tensor, log_mass: Tensor) -> Tensor:
        """Normalized weights (b, m) of all examples."""
        log_weight, square = log_weights(self.kernel, A, B)
        return normalized(log_weight + log_mass, square, log_mass)

    def _shaped(self, values: Tensor) -> Tensor:
        return values if len(self._y.shape) > 1 else values[:, 0]

    @torch.no_grad()
    def _prediction(self, X: Tensor) -> Tensor:
        A, B, targets, log_mass = self._parts(X)
        out = targets.new_empty(len(A), targets.shape[1])
        for part in row_blocks(len(A), len(B)):
            out[part] = self._weights(A[part], B, log_mass) @ targets
        return self._shaped(out)

    def predict_interval(self, X: Any, level: float = 0.9) -> Any:
        r"""Interval that holds the target with about probability ``level``: (n, 2), or (n, t, 2) for t targets.

        Normal, with the local variance and that of the mean itself:

        .. math:: s^2 = \frac{\sum_i a_i (y_i - \hat y)^2}{1 - \sum_i a_i^2}, \qquad
            \hat y \pm z\, s \sqrt{1 + \textstyle\sum_i a_i^2}

        where the :math:`a_i` are the normalized weights. Where one example has nearly all the weight there is no local
        variance, and that of all targets stands for it.
        """
        if not is_number(level) or not 0 < level < 1:
            raise self._fail("predict_interval", f"level is {level}; a probability lies between 0 and 1")
        tensor, origin = self._arrive(X, "predict_interval")
        return origin.mirror(self._interval(tensor, float(level)))

    @torch.no_grad()
    def _interval(self, X: Tensor, level: float) -> Tensor:
        A, B, targets, log_mass = self._parts(X)
        out = targets.new_empty(len(A), targets.shape[1], 2)
        mass = log_mass.exp()
        mean = (mass @ targets) / mass.sum()
        overall = (mass @ (targets - mean).square()) / mass.sum()
        z = float(torch.special.ndtri(torch.tensor((1 + level) / 2, dtype=torch.float64)))
        for part in row_blocks(len(A), len(B)):
            weight = self._weights(A[part], B, log_mass)
            center = weight @ targets
            around = (weight @ (targets - mean).square() - (center - mean).square()).clamp_min(0)
            single = (weight.square() / mass).sum(1, keepdim=True).clamp_max(1)  # a mass of 2 is two rows
            variance = torch.where(single < 0.99, around / (1 - single).clamp_min(0.01), overall)
            reach = z * (variance * (1 + single)).sqrt()
            out[part] = torch.stack([center - reach, center + reach], -1)
        return out if len(self._y.shape) > 1 else out[:, 0]

    # -- words and pictures ----------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        scale = np.asarray(torch.as_tensor(self.bandwidth_).cpu())
        low, high = float(scale.min()), float(scale.max())
        facts: dict[str, Any] = {
            "rows stored": len(self._X),
            "kernel": str(self.kernel),
            "bandwidth": f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}",
        }
        if self.loo_error_ is not None:
            facts["leave-one-out error"] = self.loo_error_
        return facts

    def plot(self, *, feature: int = 0, level: float = 0.9) -> Any:
        """Targets against one encoded column, the prediction along it and its interval, others at their medians."""
        from sklearn.utils.validation import check_is_fitted

        from benthic.neighbors.picture import plot_slice

        check_is_fitted(self)
        return plot_slice(self, torch.as_tensor(self._X), torch.as_tensor(self._y), feature, level)


def _check_range(points: Tensor) -> None:
    """Refuse points in units of the bandwidth (n, d) whose squared distances overflow."""
    if len(points) and not float(points.abs().amax()) < _FARTHEST / math.sqrt(points.shape[1]):
        raise InvalidInput(
            "X is so far apart in units of the bandwidth that squared distances overflow; take a larger bandwidth, or "
            "KNeighborsRegressor(1) for the nearest row"
        )


@torch.no_grad()
def _mean_error(kernel: Any, data: Any, scale: Tensor) -> float:
    """The mean squared leave-one-out error in the units of the targets."""
    total = 0.0
    for part in row_blocks(len(data.rows), len(data.X)):
        error = data.Y[data.rows[part]] - predicted(kernel, data, scale, part)
        total += float(data.share[part] @ error.square().mean(1))
    return total / float(data.share.sum())
