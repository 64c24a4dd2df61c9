"""What every measure does at its door: labels become codes, scores and weights are checked, and one derivative
gives each number its standard error.

Arrays, lists and series are worked on as float64 tensors of the CPU; tensors stay on their device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import from_numpy
from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate


def estimate(value: Tensor | float, deviations: Tensor, weights: Tensor) -> Estimate:
    r"""A value with the standard error of its influence function over weighted rows.

    .. math:: s^2 = \frac{n}{n - 1} \sum_i \Bigl(\frac{w_i r_i}{W}\Bigr)^2

    deviations: (n,) influence :math:`r_i` of each row, of weighted mean zero; for a mean it is the row minus the
    mean. weights: (n,). Rows of weight zero do not count. Efron, 1982, chapter 6.
    """
    n = int((weights > 0).sum())
    if n < 2:
        return Estimate(float(value), math.nan)
    squares = ((weights / weights.sum() * deviations) ** 2).sum()
    return Estimate(float(value), math.sqrt(float(squares) * n / (n - 1)))


def weighted_mean(values: Tensor, weights: Tensor) -> Estimate:
    """The weighted mean of one number a row; values: (n,), weights: (n,)."""
    mean = (weights * values).sum() / weights.sum()
    return estimate(mean, values - mean, weights)


def of_means(function: Callable[[Tensor], Tensor], rows: Tensor, weights: Tensor) -> Estimate:
    """A smooth function of weighted column means, with its error by the delta method; rows: (n, m)."""
    means = (weights[:, None] * rows).sum(0) / weights.sum()  # (m,)
    value, slope = with_slope(function, means)
    return estimate(value, (rows - means) @ slope, weights)


def of_cells(
    function: Callable[[Tensor], Tensor], cells: Tensor, shape: tuple[int, ...], weights: Tensor
) -> tuple[Tensor, Tensor]:
    """A function of a weighted table of counts that a common factor leaves alone, and its influence.

    cells: (n,) the flat cell each row falls in. shape: that of the table. Returns the value and (n,) the
    influence of every row; NaN where the function is constant by convention.
    """
    table = torch.bincount(cells, weights, minlength=math.prod(shape)).reshape(shape)
    value, slope = with_slope(function, table)
    return value, weights.sum() * slope.reshape(-1)[cells]


def with_slope(function: Callable[[Tensor], Tensor], point: Tensor) -> tuple[Tensor, Tensor]:
    """The value of a scalar function at a point, and its gradient (NaN if it does not depend on the point)."""
    with torch.inference_mode(False), torch.enable_grad():
        point = point.detach().clone().requires_grad_()
        value = function(point)
        if not value.requires_grad:
            return value, torch.full_like(point, math.nan)
        (slope,) = torch.autograd.grad(value, point)
    return value.detach(), slope


def device_of(*arrays: Any) -> torch.device:
    """Where the first tensor lies; the CPU if there is none."""
    return next((array.device for array in arrays if isinstance(array, Tensor)), torch.device("cpu"))


def mirror(found: Tensor, *inputs: Any) -> Any:
    """A tensor when one of the inputs was a tensor, else NumPy."""
    found = found.detach()
    return found if any(isinstance(item, Tensor) for item in inputs) else found.cpu().numpy()


def plain(values: Any) -> np.ndarray:
    """Tensors, series and lists as NumPy."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def numbers(values: Any, where: str, name: str, device: torch.device, infinite: bool = False) -> Tensor:
    """An array of real numbers as a float64 tensor; NaN, and infinities unless allowed, are refused."""
    if not isinstance(values, Tensor):
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            try:
                array = array.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise InvalidInput(f"{where}: {name} must be numbers, but its type is {array.dtype}") from error
        values = from_numpy(np.ascontiguousarray(array, dtype=np.float64))
    found = values.detach().to(device=device, dtype=torch.float64)
    wrong = found.isnan() if infinite else ~found.isfinite()
    if bool(wrong.any()):
        kind = "NaN" if infinite else "NaN or infinite values"
        raise InvalidInput(f"{where}: {name} has {int(wrong.sum())} {kind}; leave those rows out, or fix the model")
    return found


def weights_of(sample_weight: Any, n: int, where: str, device: torch.device) -> Tensor:
    """Weights (n,): ones if None; they must be non-negative, finite and not all zero."""
    if sample_weight is None:
        return torch.ones(n, dtype=torch.float64, device=device)
    found = numbers(sample_weight, where, "sample_weight", device)
    if found.shape != (n,):
        raise InvalidInput(
            f"{where}: sample_weight has shape {tuple(found.shape)}; one weight a row, ({n},), is needed"
        )
    if bool((found < 0).any()):
        raise InvalidInput(f"{where}: sample_weight has a negative value; weights must be zero or more")
    if not bool((found > 0).any()):
        raise InvalidInput(f"{where}: all of sample_weight is zero, so no row counts; at least one must be positive")
    return found


def same_rows(where: str, **arrays: Any) -> int:
    """The common number of rows of the arrays, or one clear sentence."""
    shapes = {name: _shape(array) for name, array in arrays.items()}
    said = " and ".join(f"{name} has shape {shape}" for name, shape in shapes.items())
    if any(not shape for shape in shapes.values()) or len({shape[0] for shape in shapes.values()}) > 1:
        raise InvalidInput(f"{where}: {said}; rows must match")
    n = next(iter(shapes.values()))[0]
    if not n:
        raise InvalidInput(f"{where}: there are no rows to judge")
    return n


def _shape(array: Any) -> tuple[int, ...]:
    """The shape; rows of unequal length count as rows."""
    if hasattr(array, "shape"):
        return tuple(array.shape)
    try:
        return tuple(np.shape(array))
    except ValueError:
        return (len(array),)


def coded(where: str, labels: Sequence[Any] | None = None, **arrays: Any) -> tuple[np.ndarray, list[Tensor]]:
    """All labels that occur, and each array as places among them.

    labels: come first and in this order, whether they occur or not; the rest follow sorted. Without them all
    are sorted. Returns the classes as NumPy and one integer tensor an array, of its shape.
    """
    device = device_of(*arrays.values())
    tables = [_label_array(array, where, name) for name, array in arrays.items()]
    listed = None if labels is None else _listed(labels, where)
    kinds = {_kind(table) for table in (*tables, *([] if listed is None else [listed]))}
    if len(kinds) > 1:
        raise InvalidInput(f"{where}: labels mix {' and '.join(sorted(kinds))}; use one type of label everywhere")
    if kinds == {"numbers"} and device.type != "cpu":
        return _coded_there(tables, listed, device)
    flat = [plain(table).reshape(-1) for table in tables]
    try:
        known, places = np.unique(np.concatenate(flat), return_inverse=True)
    except TypeError as error:
        raise InvalidInput(f"{where}: labels of different types cannot be put in order; use one type") from error
    if listed is not None:
        known, places = _listed_first(known, places, listed)
    parts = np.split(places, np.cumsum([len(part) for part in flat])[:-1])
    codes = [torch.as_tensor(part, device=device).reshape(np.shape(t)) for part, t in zip(parts, tables, strict=True)]
    return known, codes


def _listed_first(known: np.ndarray, places: np.ndarray, listed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = {label: k for k, label in enumerate(listed.tolist())}
    extra = [label for label in known.tolist() if label not in order]
    order.update({label: len(order) + k for k, label in enumerate(extra)})
    moved = np.array([order[label] for label in known.tolist()], dtype=np.int64)
    classes = np.array([*listed.tolist(), *extra], dtype=np.result_type(listed, known) if extra else listed.dtype)
    return classes, moved[places]


def _coded_there(tables: list[Any], listed: Any, device: torch.device) -> tuple[np.ndarray, list[Tensor]]:
    """The same for numeric labels that lie on a device; only the distinct ones leave it."""
    there = [(table if isinstance(table, Tensor) else from_numpy(table)).to(device) for table in tables]
    known, places = torch.unique(torch.cat([table.reshape(-1) for table in there]), return_inverse=True)
    classes = known.cpu().numpy()
    if listed is not None:
        classes, moved = _listed_first(classes, np.arange(len(classes)), listed)
        places = torch.as_tensor(moved, device=device)[places]
    parts = places.split([table.numel() for table in there])
    return classes, [part.reshape(table.shape) for part, table in zip(parts, there, strict=True)]


def _listed(labels: Sequence[Any], where: str) -> np.ndarray:
    found = plain(labels)
    if found.ndim != 1 or not len(found) or len(set(found.tolist())) != len(found):
        raise InvalidInput(f"{where}: the listed labels must be a sequence of different labels, at least one")
    return found


def _label_array(values: Any, where: str, name: str) -> Any:
    """Labels as a tensor or NumPy array; NaN, missing and fractional ones are refused."""
    table = values.detach() if isinstance(values, Tensor) else np.asarray(values)
    if isinstance(table, np.ndarray) and table.dtype.kind == "O":
        if any(item is None or item != item for item in table.reshape(-1).tolist()):
            raise InvalidInput(f"{where}: {name} has missing labels; leave those rows out")
        if _kind(table) == "objects":
            return table
        table = np.array(table.reshape(-1).tolist()).reshape(table.shape)
    fractional = table.dtype.is_floating_point if isinstance(table, Tensor) else table.dtype.kind == "f"
    if fractional and not bool((table == table.round()).all()):
        raise InvalidInput(f"{where}: {name} has numbers that are not whole (or NaN); labels are needed, not scores")
    return table


def _kind(table: Any) -> str:
    if isinstance(table, Tensor) or table.dtype.kind in "biuf":
        return "numbers"
    if table.dtype.kind == "O" and not all(isinstance(item, str) for item in table.reshape(-1).tolist()):
        numeric = all(isinstance(item, (bool, int, float, np.generic)) for item in table.reshape(-1).tolist())
        return "numbers" if numeric else "objects"
    return "strings"
