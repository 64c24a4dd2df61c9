"""Pictures of Gaussian processes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benthic.base.capabilities import to_numpy
from benthic.pictures.canvas import new_figure
from benthic.pictures.curves import loss_curve

_BLUE, _POINTS = "#3b71b5", "#333333"


def plot_regression(model: Any) -> Any:
    """A curve with its interval for one column; leave-one-out predictions for more; the loss of minibatches."""
    if model.method_ == "exact" and model.X_train_.shape[1] == 1 and model._single:
        return _curve(model, to_numpy(model.X_train_)[:, 0])
    if model.method_ == "exact":
        return _left_out(model)
    if model.method_ == "svgp":
        return loss_curve(model.history_, title="GaussianProcessRegressor: minus the bound, a row")
    return _scales(model)


def _curve(model: Any, x: np.ndarray) -> Any:
    figure, axes = new_figure(6.0, 3.4)
    margin = 0.1 * (np.ptp(x) or 1.0)
    grid = np.linspace(x.min() - margin, x.max() + margin, 300)
    tensor = model.X_train_.new_tensor(grid)[:, None]
    mean = to_numpy(model._prediction(tensor))
    half = 1.645 * to_numpy(model._variance(tensor).sqrt())[:, 0]
    y = to_numpy(model.y_train_ * model._y_std + model._y_mean)[:, 0]
    axes.fill_between(grid, mean - half, mean + half, color=_BLUE, alpha=0.2, linewidth=0, label="90 % interval")
    axes.plot(grid, mean, color=_BLUE, label="mean")
    axes.plot(x, y, ".", color=_POINTS, markersize=4)
    axes.set(title="GaussianProcessRegressor", xlabel="x", ylabel="y")
    axes.legend(frameon=False, fontsize="small")
    return figure


def _left_out(model: Any) -> Any:
    found = model.leave_one_out()
    mean, std = (np.reshape(to_numpy(part), (len(model.X_train_), -1)) for part in (found.mean, found.std))
    y = to_numpy(model.y_train_ * model._y_std + model._y_mean)
    figure, axes = new_figure(4.6, 4.2)
    for column in range(y.shape[1]):
        error = 1.645 * std[:, column]
        axes.errorbar(mean[:, column], y[:, column], xerr=error, fmt=".", markersize=4, linewidth=0.5, alpha=0.7)
    ends = [float(y.min()), float(y.max())]
    axes.plot(ends, ends, color="0.6", linewidth=0.8, linestyle="--")
    axes.set(title="GaussianProcessRegressor", xlabel="predicted from the other rows, 90 %", ylabel="target")
    return figure


def _scales(model: Any) -> Any:
    """The learned parameters as bars, on a logarithmic axis."""
    return plot_parameters({"": model.kernel_}, type(model).__name__)


def plot_parameters(kernels: dict[str, Any], title: str) -> Any:
    """The parameters of kernels as points, on a logarithmic axis."""
    figure, axes = new_figure(6.0, 3.4)
    for label, kernel in kernels.items():
        names = [
            f"{name}[{i}]" if value.ndim else name for name, value in kernel.tensors() for i in range(value.numel())
        ]
        axes.plot(range(len(names)), kernel.theta.exp().numpy(), "o", markersize=4, label=label or None)
        axes.set_xticks(range(len(names)), names, rotation=90 if len(names) > 5 else 0, fontsize="small")
    axes.set_yscale("log")
    axes.set(title=title, ylabel="learned value")
    if len(kernels) > 1:
        axes.legend(frameon=False, fontsize="small")
    return figure


def plot_classification(model: Any) -> Any:
    """The most probable class over the plane, paler where it is unsure; learned parameters for other widths."""
    if model.method_ != "laplace" or model.X_train_.shape[1] != 2:
        kernels = model._kernels()
        labels = [str(label) for label in model.classes_] if len(kernels) > 1 else [""]
        return plot_parameters(dict(zip(labels, kernels, strict=True)), type(model).__name__)
    X = to_numpy(model.X_train_)
    low, high = X.min(0), X.max(0)
    low, high = low - 0.1 * (high - low), high + 0.1 * (high - low)
    first, second = np.meshgrid(*(np.linspace(a, b, 120) for a, b in zip(low, high, strict=True)))
    grid = model.X_train_.new_tensor(np.column_stack([first.ravel(), second.ravel()]))
    p = to_numpy(model._probabilities(grid))
    colors = np.array([[0.23, 0.44, 0.71], [0.93, 0.62, 0.18], [0.36, 0.62, 0.35], [0.70, 0.33, 0.45]])
    shade = 1 - (1 - colors[p.argmax(1) % 4]) * (p.max(1, keepdims=True) - 1 / p.shape[1]) / (1 - 1 / p.shape[1])
    figure, axes = new_figure(5.2, 4.2)
    axes.imshow(shade.reshape(120, 120, 3), origin="lower", extent=(low[0], high[0], low[1], high[1]), aspect="auto")
    axes.plot(*X.T, ".", color=_POINTS, markersize=3)
    axes.set(title="GaussianProcessClassifier", xlabel="first column", ylabel="second column")
    return figure
