"""What bagged classifiers and regressors share: draws, threads, rows left out, error bars."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from torch import Tensor

from benthic.base.arrays import Origin, is_tensor
from benthic.base.capabilities import to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.schema import is_frame
from benthic.base.seeds import derive, np_generator, seed_of
from benthic.base.settings import flag, is_real, is_whole, whole
from benthic.base.threads import Crew, threads
from benthic.trees.attributes import forget_unknown
from benthic.trees.settings import MOST_TREES, count_or_share

_BLOCK = 1 << 24  # numbers held at once for error bars
_TRIES = 100  # draws of rows before giving up on seeing two classes


class _Bagging(Estimator):
    """The models get parts of what the user passes, so frames keep their categories and tensors their device."""

    accepts_missing = True
    estimators_: list[Any]
    estimators_features_: list[np.ndarray]
    _answers: int

    def _arrive(
        self, X: Any, method: str, *, reset: bool = False, missing: bool | None = None
    ) -> tuple[Tensor, Origin]:
        schema = getattr(self, "schema_", None)
        if not reset and schema is not None and is_frame(X):
            X = forget_unknown(X, schema)  # the models see the frame itself and treat unknown values in their own way
        return super()._arrive(X, method, reset=reset, missing=missing)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Leave the model as it was if learning fails."""
        before = dict(vars(self))
        try:
            yield
        except Exception:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    # -- learning --------------------------------------------------------------------------------------

    def _check(self) -> None:
        get: Any = self.get_params(deep=False).get
        whole("n_estimators", get("n_estimators"), most=MOST_TREES)
        for name in ("bootstrap", "bootstrap_features", "oob_score"):
            flag(name, get(name))
        if get("oob_score") and not get("bootstrap"):
            raise InvalidInput("oob_score needs bootstrap=True: without it no rows are left out")
        model = get("estimator")
        if model is not None and not (hasattr(model, "fit") and hasattr(model, "predict")):
            raise InvalidInput(f"estimator is {model!r:.60}; it must have fit and predict")

    def _fit_all(self, X: Any, n: int, targets: np.ndarray, default: Any) -> None:
        """Draw rows and columns, and fit a clone of the estimator to each draw."""
        get: Any = self.get_params(deep=False).get
        base = default if get("estimator") is None else get("estimator")
        self._seed = seed_of(get("random_state"))
        width = int(self.n_features_in_)
        n_rows = count_or_share("max_samples", get("max_samples"), 1, n)
        n_columns = _drawn("max_features", get("max_features"), width)
        if n_rows > n and not get("bootstrap"):
            raise InvalidInput(f"max_samples is {n_rows}, but there are {n} rows; draw fewer or use bootstrap=True")
        self._draw = (n, n_rows, bool(get("bootstrap")))
        self._redrawn = [0] * int(get("n_estimators"))
        source = self._native(X, base)

        def one(b: int) -> tuple[Any, np.ndarray]:
            rows = self._two_classes(b, targets)
            generator = np_generator(self._seed, "columns", b)
            columns = np.sort(generator.choice(width, n_columns, replace=bool(get("bootstrap_features"))))
            model = _seeded(clone(base), derive(self._seed, "model", b))
            return model.fit(self._part(source, rows, columns), targets[rows]), columns

        found = self._map(one, range(int(get("n_estimators"))))
        self.estimators_ = [model for model, _ in found]
        self.estimators_features_ = [columns for _, columns in found]

    def _two_classes(self, b: int, targets: np.ndarray) -> np.ndarray:
        """The rows of a resample; for labels, drawn again until there are two classes."""
        for attempt in range(_TRIES):
            self._redrawn[b] = attempt
            rows = self._sample(b)
            if not hasattr(self, "classes_") or len(np.unique(targets[rows])) > 1:
                return rows
        raise InvalidInput(
            f"{_TRIES} resamples of {self._draw[1]} rows had one class only; raise max_samples, or add rows of the "
            "rarest class"
        )

    def _sample(self, b: int) -> np.ndarray:
        n, n_rows, bootstrap = self._draw
        generator = np_generator(self._seed, "rows", b, self._redrawn[b])
        return generator.choice(n, n_rows, replace=bootstrap)

    @property
    def estimators_samples_(self) -> list[np.ndarray]:
        """The rows each model was fitted to, drawn anew from the seed."""
        return [self._sample(b) for b in range(len(self.estimators_))]

    def _map(self, function: Any, items: Any) -> list[Any]:
        """Apply a function to all items, on as many threads as ``n_jobs`` says."""
        found: list[Any] = [None] * len(items)

        def one(place: int) -> None:
            found[place] = function(items[place])

        with Crew(min(threads(self.get_params(deep=False)["n_jobs"]), len(items))) as crew:
            crew.each(one, range(len(items)))
        return found

    # -- parts of the data ---------------------------------------------------------------------------------

    def _native(self, X: Any, base: Any) -> Any:
        """What the models are given: frames as they are; tensors for models of this library, arrays for others."""
        if is_frame(X):
            X = X.collect() if hasattr(X, "collect") else X
            return X.to_pandas() if type(X).__module__.startswith("pyarrow") else X
        if is_tensor(X):
            return X.detach() if isinstance(base, Estimator) else to_numpy(X.detach().float())
        return np.asarray(X, dtype=getattr(X, "dtype", None) if _is_float(X) else np.float64)

    @staticmethod
    def _part(X: Any, rows: np.ndarray | None, columns: np.ndarray) -> Any:
        if is_tensor(X):
            part = X if rows is None else X[torch.as_tensor(rows, device=X.device)]
            return part[:, torch.as_tensor(columns, device=X.device)]
        if is_frame(X) and len(np.unique(columns)) < len(columns):
            columns = np.unique(columns)  # a frame has each column once
        part = X if rows is None else _safe_indexing(X, rows)
        return part if is_frame(X) and len(columns) == X.shape[1] else _safe_indexing(part, columns, axis=1)

    # -- answers -----------------------------------------------------------------------------------------

    def _one(self, model: Any, X: Any) -> Tensor:
        raise NotImplementedError

    def _each(self, X: Any) -> list[Tensor]:
        """The answer (n, m) of every model."""
        source = self._native(X, self.estimators_[0])
        pairs = list(zip(self.estimators_, self.estimators_features_, strict=True))
        return self._map(lambda pair: self._one(pair[0], self._part(source, None, pair[1])), pairs)

    def _average(self, X: Any) -> Tensor:
        return torch.stack(self._each(X)).mean(0)

    def standard_error(self, X: Any) -> Any:
        r"""How far the answers would move with another sample of training rows: (n,), or (n, k) for classes.

        .. math:: \hat V = \sum_i \operatorname{Cov}_b(N_{bi}, t_b)^2 - \frac{n_s}{B^2} \sum_b (t_b - \bar t)^2

        The infinitesimal jackknife for bagging, with its Monte-Carlo bias taken off (Wager, Hastie & Efron, 2014);
        :math:`N_{bi}` is how often row i is in resample b and :math:`t_b` the answer of model b. Needs bootstrapped
        rows and some hundred models; the answer is never less than the error by the finite number of models.
        """
        _, origin = self._arrive(X, "standard_error")
        n, n_rows, bootstrap = self._draw
        models = len(self.estimators_)
        if not bootstrap or models < 2:
            raise self._fail("standard_error", "it needs bootstrap=True and at least 2 models")
        answers = torch.stack(self._each(X))  # (B, q, m)
        counts = np.array([np.bincount(rows, minlength=n) for rows in self.estimators_samples_])
        draws = torch.as_tensor(counts - n_rows / n, dtype=answers.dtype, device=answers.device)  # (B, n)
        size = max(_BLOCK // (n * answers.shape[2]), 1)
        error = torch.cat([_jackknife(part, draws, n_rows) for part in answers.split(size, dim=1)])
        return origin.mirror(error[:, 0] if getattr(self, "_one_target", False) else error)

    def _out_of_bag(self, X: Any) -> np.ndarray:
        """Mean answer (n, m) of the models that did not see each row; NaN where all did."""
        n = self._draw[0]
        total, votes = np.zeros((n, self._answers)), np.zeros(n)
        for answer, rows in zip(self._each(X), self.estimators_samples_, strict=True):
            left = np.bincount(rows, minlength=n) == 0
            total[left] += answer.cpu().numpy()[left]
            votes[left] += 1
        if (votes == 0).any():
            warnings.warn(
                f"{type(self).__name__}.fit: {int((votes == 0).sum())} rows are in every resample and cannot be judged "
                "out of bag; raise n_estimators",
                UserWarning,
                stacklevel=3,
            )
        return np.where(votes[:, None] > 0, total / np.maximum(votes, 1)[:, None], np.nan)

    # -- words and pictures --------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "models": f"{len(self.estimators_)} x {type(self.estimators_[0]).__name__}",
            "rows each": f"{self._draw[1]} of {self._draw[0]}",
        }
        return facts | ({"out of bag": self.oob_score_} if hasattr(self, "oob_score_") else {})

    def plot(self, ax: Any = None) -> Any:
        """A picture: what each feature contributes over the models, or how often each was drawn."""
        from benthic.trees.picture import plot_bags

        return plot_bags(self, ax)


def _jackknife(answers: Tensor, draws: Tensor, n_rows: int) -> Tensor:
    """Standard errors (q, m) of the mean of ``answers`` (B, q, m). draws: (B, n) counts of rows less their mean."""
    models = len(answers)
    centered = answers - answers.mean(0)
    covariance = torch.einsum("bi,bqm->iqm", draws, centered) / models
    square = centered.square().sum(0)
    by_chance = square / (models * (models - 1))
    return torch.maximum(covariance.square().sum(0) - n_rows / models**2 * square, by_chance).sqrt()


def _is_float(X: Any) -> bool:
    return getattr(getattr(X, "dtype", None), "kind", "") == "f"


def _drawn(name: str, value: Any, d: int) -> int:
    if is_whole(value, 1, d):
        return int(value)
    if not is_whole(value) and is_real(value) and 0 < value <= 1:
        return max(1, int(value * d))
    raise InvalidInput(f"{name} is {value!r}; it must be a whole number from 1 to {d} or a share in (0, 1]")


def _seeded(model: Any, seed: int) -> Any:
    """A model with every random state in it set."""
    state = {name: seed % 2**32 for name in model.get_params() if name.split("__")[-1] == "random_state"}
    return model.set_params(**state) if state else model
