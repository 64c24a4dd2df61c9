"""Polynomial features: products of columns, so that linear models follow curves."""

from __future__ import annotations

from itertools import chain, combinations, combinations_with_replacement
from math import comb
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Encodes
from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.settings import is_whole
from benthic.base.validation import speaking
from benthic.linear.keeping import keeping
from benthic.training.intake import Intake

_MANY = 60  # products from which their names no longer fit under the picture
_LIMIT = 5_000_000  # products beyond which the request is a mistake


class PolynomialFeatures(Encodes, Estimator):
    r"""All products of columns up to a degree.

    .. math:: x \mapsto \Bigl( \prod_j x_j^{p_j} : \; a \le \sum_j p_j \le b \Bigr)

    degree: b, or the pair (a, b). interaction_only: no column more than once in a product. include_bias: with the
    product of no columns, a column of ones. The order of products is scikit-learn's.

    powers_: (products, d) the exponents. n_output_features_: products. ``inverse_transform`` reads the columns
    back from the products of one, and is absent in effect when there are none (a > 1).

    >>> PolynomialFeatures(2).fit_transform(np.array([[2.0, 3.0]]))
    array([[1., 2., 3., 4., 6., 9.]])
    """

    def __init__(self, degree: Any = 2, *, interaction_only: bool = False, include_bias: bool = True) -> None:
        self.degree = degree
        self.interaction_only = interaction_only
        self.include_bias = include_bias

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the number and names of the columns; y: ignored, or for a file the name of a column to leave out."""
        with keeping(self):
            with speaking(self, "fit"):
                low, high = self._degrees()
            width = Intake(self, X, y if isinstance(X, (str, Path)) else None).width
            with speaking(self, "fit"):
                products = self._products(width, low, high)
                if not products:
                    raise InvalidInput("degree 0 without include_bias leaves no column; set include_bias=True")
            powers = np.zeros((len(products), width), dtype=np.int64)
            for row, product in enumerate(products):
                np.add.at(powers[row], list(product), 1)
            self.powers_ = powers
            self._factors = _padded(products, width)
            self.n_output_features_ = self._n_features_out = len(products)
        return self

    def _degrees(self) -> tuple[int, int]:
        given = self.degree if isinstance(self.degree, (tuple, list)) else (0, self.degree)
        if len(given) != 2 or not all(map(is_whole, given)) or not 0 <= given[0] <= given[1]:
            raise InvalidInput(f"degree is {self.degree!r}; it must be a whole number >= 0 or a pair of them, in order")
        return int(given[0]), int(given[1])

    def _products(self, d: int, low: int, high: int) -> list[tuple[int, ...]]:
        degrees = range(max(low, 1), high + 1)
        alone = self.interaction_only
        count = sum(comb(d, k) if alone else comb(d + k - 1, k) for k in degrees)
        if count > _LIMIT:
            raise InvalidInput(f"degree {self.degree!r} of {d} columns gives {count} products, more than {_LIMIT}")
        pick = combinations if alone else combinations_with_replacement
        return [*([()] if self.include_bias else []), *chain.from_iterable(pick(range(d), k) for k in degrees)]

    def _encode(self, X: Tensor) -> Tensor:
        padded = torch.cat([X, X.new_ones(len(X), 1)], 1)  # (n, d + 1): the last column is the empty factor
        factors = torch.as_tensor(self._factors, device=X.device)
        out = padded[:, factors[:, 0]]
        for position in range(1, factors.shape[1]):
            rows = (factors[:, position] < X.shape[1]).nonzero()[:, 0]
            out[:, rows] *= padded[:, factors[rows, position]]
        return out

    def _decode(self, Z: Tensor) -> Tensor:
        alone = np.flatnonzero(self.powers_.sum(1) == 1)
        if len(alone) != self.powers_.shape[1]:
            raise self._fail(
                "inverse_transform", "the columns themselves are not among the products (degree starts later)"
            )
        return Z[:, torch.as_tensor(alone, device=Z.device)]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the products: ``x0^2 x1`` and the like; 1 for the column of ones."""
        check_is_fitted(self)
        encoded = getattr(getattr(self, "schema_", None), "encoded_names", None)
        if encoded is not None and input_features is None and len(encoded) == self.powers_.shape[1]:
            names = list(encoded)
        else:
            names = list(_check_feature_names_in(self, input_features))
        return np.array([_name(row, names) for row in self.powers_], dtype=object)

    def _facts(self) -> dict[str, Any]:
        low, high = self._degrees()
        kinds = "distinct columns" if self.interaction_only else "columns"
        return {"products": self.n_output_features_, "of": f"{max(low, 0)} to {high} {kinds}"}

    def plot(self, ax: Any = None) -> Any:
        """The exponents as a map: a row a column of the data, a column a product."""
        from benthic.pictures.canvas import new_figure

        check_is_fitted(self)
        if ax is None:
            _, ax = new_figure(7.2, 3.2)
        image = ax.imshow(self.powers_.T, aspect="auto", cmap="Blues", interpolation="nearest")
        ax.figure.colorbar(image, ax=ax, label="exponent")
        if len(self.powers_) <= _MANY:
            ax.set_xticks(range(len(self.powers_)), self.get_feature_names_out(), rotation=90, fontsize="small")
        ax.set_xlabel("product")
        ax.set_ylabel("column")
        return ax.figure


def _padded(products: list[tuple[int, ...]], d: int) -> np.ndarray:
    """The columns of every product, (products, largest degree), filled up with d."""
    width = max(1, max(map(len, products)))
    return np.array([[*product, *[d] * (width - len(product))] for product in products], dtype=np.int64)


def _name(powers: np.ndarray, names: list[str]) -> str:
    parts = [names[j] if powers[j] == 1 else f"{names[j]}^{powers[j]}" for j in np.flatnonzero(powers)]
    return " ".join(parts) if parts else "1"
