"""The perceptron: learning from mistakes, with the margin and the bound that say how many there can be."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.arrays import Origin, from_numpy
from benthic.base.capabilities import to_numpy
from benthic.base.estimator import Estimator
from benthic.base.quiet import load
from benthic.base.seeds import np_generator, seed_of
from benthic.base.settings import flag, one_of, whole
from benthic.base.validation import speaking
from benthic.linear.keeping import keeping
from benthic.linear.separation import Separation, widest_margin
from benthic.training.intake import Intake

_VARIANTS = ("pocket", "averaged", "plain")


@dataclass
class _Run:
    """One class against the rest. dual: (n,) how often each row is in the weights, with its sign."""

    dual: np.ndarray
    updates: int
    passes: int
    converged: bool
    separation: Separation


class Perceptron(ClassifierMixin, Estimator):
    r"""A hyperplane moved by every row it gets wrong: :math:`w \leftarrow w + y x`.

    .. math:: \text{updates} \le \lceil R^2 / \gamma^2 \rceil, \qquad
              R = \max_i \|x_i\|, \qquad \gamma = \max_{\|w\| = 1} \min_i y_i\, w^T x_i

    Rosenblatt, 1958; the bound is Novikoff's, 1962. With an intercept all of this holds for (x, 1) and (w, b):
    R and γ are those of the rows with a one appended, and the norm is that of both together. More than two classes:
    one against the rest, each with its own numbers.

    variant: ``"pocket"`` keeps the weights with the fewest mistakes on all rows (Gallant, 1990), ``"averaged"`` the
    mean of the weights over all rows seen (Freund & Schapire, 1999), ``"plain"`` the last ones. max_iter: most
    passes. n_iter_no_change: on classes that cannot be separated, passes without fewer mistakes (in the pocket, or of
    a pass) after which to stop. shuffle: whether each pass takes the rows in a new order. random_state: decides it.

    coef_: (1, d) or (k, d). intercept_: (1,) or (k,). dual_coef_: the weights as a combination of the rows:
    ``coef_ = dual_coef_ @ X``, (1, n) or (k, n); ``intercept_`` is its sum. margin_: γ of the widest separating
    hyperplane, computed apart from the perceptron by the nearest point of a convex hull and attained by a hyperplane
    found (so never too large; below 1e-6 of R it may be some per cent too small); 0 if there is none.
    found_margin_: that of the learned hyperplane, 0 if it does not separate. radius_: R. updates_: made. bound_:
    ⌈R²/γ²⌉, infinite without separation. separable_: whether a hyperplane separates. Of these, all but ``radius_``
    are numbers for two classes and arrays (k,) for more. n_iter_: passes.

    >>> X = np.array([[2.0, 1.0], [1.0, 3.0], [-1.0, -1.0], [-2.0, 0.5]])
    >>> model = Perceptron(shuffle=False).fit(X, [1, 1, 0, 0])
    >>> model.separable_, model.updates_ <= model.bound_, model.score(X, [1, 1, 0, 0])
    (True, True, 1.0)
    """

    def __init__(
        self,
        *,
        variant: str = "pocket",
        fit_intercept: bool = True,
        max_iter: int = 1000,
        n_iter_no_change: int = 20,
        shuffle: bool = True,
        random_state: Any = None,
    ) -> None:
        self.variant = variant
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.n_iter_no_change = n_iter_no_change
        self.shuffle = shuffle
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows and labels, or from a file: ``fit(path, 'column')``, which is read into memory."""
        with keeping(self):
            with speaking(self, "fit"):
                self._check_settings()
            intake = Intake(self, X, y, target="labels")
            batch = intake.data or intake.sample(intake.rows, 0)
            if intake.classes is None or batch.y is None:
                raise self._fail("fit", "the data have no labels")
            self.classes_, codes = intake.classes, batch.y.cpu().numpy()
            with speaking(self, "fit"):
                seed = seed_of(self.random_state)
            rows = batch.X.cpu().double().numpy()
            if self.fit_intercept:
                rows = np.column_stack([rows, np.ones(len(rows))])
            positives = [1] if len(self.classes_) == 2 else range(len(self.classes_))
            signs = np.array([np.where(codes == c, 1.0, -1.0) for c in positives])
            runs = [self._learn(rows, sign, seed) for sign in signs]
            self._keep(runs, rows, signs, intake.origin)
            self._complain(runs)
        return self

    def _learn(self, rows: np.ndarray, sign: np.ndarray, seed: int) -> _Run:
        from benthic.linear.perceptron_kernel import one_pass

        Z = np.ascontiguousarray(rows * sign[:, None])
        n, d = Z.shape
        separation = widest_margin(Z)
        w, pocket = np.zeros(d), np.zeros(d)
        counts, moments, pocket_counts = np.zeros(n), np.zeros(n), np.zeros(n)
        state = np.array([0, 0, 0, 0, n + 1], dtype=np.int64)
        random, order = np_generator(seed, "perceptron"), np.arange(n)
        fewest, since, made, wrong = n + 1, 0, 0, n
        while made < self.max_iter and wrong:
            order = random.permutation(n) if self.shuffle else order
            wrong = int(one_pass(Z, order, w, counts, moments, state, pocket, pocket_counts))
            made += 1
            now = int(state[4]) if self.variant == "pocket" else wrong
            since = 0 if now < fewest else since + 1
            fewest = min(fewest, now)
            if not separation.separable and since >= self.n_iter_no_change:
                break
        if self.variant == "averaged":
            counts = counts - moments / max(int(state[0]), 1)
        elif self.variant == "pocket" and wrong:
            counts = pocket_counts
        return _Run(counts * sign, int(state[1]), made, wrong == 0, separation)

    def _keep(self, runs: list[_Run], rows: np.ndarray, signs: np.ndarray, origin: Origin) -> None:
        dual = np.array([run.dual for run in runs])
        theta = dual @ rows  # (r, d) or (r, d + 1)
        width = rows.shape[1] - int(self.fit_intercept)
        self._origin = origin
        self.coef_ = self._out(theta[:, :width], origin)
        self.intercept_ = self._out(theta[:, width] if self.fit_intercept else np.zeros(len(theta)), origin)
        self.dual_coef_ = self._out(dual, origin)
        self.radius_ = float(np.linalg.norm(rows, axis=1).max())
        margins = np.array([max(run.separation.margin, 0.0) for run in runs])
        with np.errstate(divide="ignore"):
            bounds = np.ceil(self.radius_**2 / margins**2)
        lengths = np.linalg.norm(theta, axis=1)
        found = ((rows @ theta.T).T * signs).min(1) / np.where(lengths > 0, lengths, 1.0)
        self.margin_, self.found_margin_ = self._numbers(margins), self._numbers(found.clip(min=0.0))
        self.bound_ = self._numbers(bounds)
        self.separable_ = self._numbers(margins > 0)
        self.updates_ = self._numbers(np.array([run.updates for run in runs]))
        self.converged_ = self._numbers(np.array([run.converged for run in runs]))
        self.n_iter_ = max(run.passes for run in runs)

    def _out(self, values: np.ndarray, origin: Origin) -> Any:
        dtype = np.float64 if origin.dtype == "float64" else np.float32
        return origin.mirror(from_numpy(np.ascontiguousarray(values.astype(dtype))))

    def _numbers(self, values: np.ndarray) -> Any:
        return values[0].item() if len(values) == 1 else values

    def _check_settings(self) -> None:
        one_of("variant", self.variant, _VARIANTS)
        for name in ("max_iter", "n_iter_no_change"):
            whole(name, getattr(self, name))
        for name in ("fit_intercept", "shuffle"):
            flag(name, getattr(self, name))

    def _complain(self, runs: list[_Run]) -> None:
        short = [run for run in runs if run.separation.separable and not run.converged]
        if short:
            most = max(math.ceil(self.radius_**2 / run.separation.margin**2) for run in short)
            text = f"{short[0].updates} updates did not yet separate the classes; up to {most:.3g} may be needed: "
            text += "raise max_iter, or scale the features for a wider margin"
        elif self.variant == "plain" and not all(run.converged for run in runs):
            text = "no hyperplane separates the classes, and the last weights are no better than others; "
            text += "use variant='pocket' or 'averaged'"
        else:
            return
        warnings.warn(f"Perceptron.fit: {text}", ConvergenceWarning, stacklevel=3)

    # -- answers -----------------------------------------------------------------------------------------

    def _scores(self, X: Tensor) -> Tensor:
        coef, intercept = (torch.as_tensor(part).to(X) for part in (self.coef_, self.intercept_))
        return torch.addmm(intercept, X, coef.T)

    def decision_function(self, X: Any) -> Any:
        """Signed score of the second of two classes, (n,), or of each class against the rest, (n, k)."""
        tensor, origin = self._arrive(X, "decision_function")
        found = self._scores(tensor)
        return origin.mirror(found[:, 0] if found.shape[1] == 1 else found)

    def predict(self, X: Any) -> Any:
        """The class of each row: by the side of the hyperplane, or by the highest score."""
        tensor, origin = self._arrive(X, "predict")
        found = self._scores(tensor)
        codes = (found[:, 0] > 0).long().cpu() if found.shape[1] == 1 else found.argmax(1).cpu()
        if origin.kind == "torch" and self.classes_.dtype.kind in "biuf":
            return torch.as_tensor(self.classes_)[codes].to(origin.device)
        return self.classes_[codes.numpy()]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy."""
        return float(
            load("sklearn.metrics").accuracy_score(
                to_numpy(y), to_numpy(self.predict(X)), sample_weight=to_numpy(sample_weight)
            )
        )

    # -- words and pictures --------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        return {
            "classes": len(self.classes_),
            "variant": f"{self.variant}, {self.n_iter_} passes",
            "separable": self.separable_,
            "radius": self.radius_,
            "margin": self.margin_,
            "updates": self.updates_,
            "bound": self.bound_,
        }

    def plot(self, ax: Any = None) -> Any:
        """The weights as a picture: a bar a feature for two classes, a map of classes by features else."""
        from benthic.linear.picture import plot_effects

        check_is_fitted(self)
        names = getattr(getattr(self, "schema_", None), "encoded_names", None)
        if names is None:
            names = getattr(self, "feature_names_in_", None)
        coef = to_numpy(self.coef_)
        labels = [str(name) for name in (range(coef.shape[1]) if names is None else names)]
        classes = [str(label) for label in self.classes_]
        return plot_effects(coef, labels, None, ax, what=f"score of {classes[-1]}", names=classes)
