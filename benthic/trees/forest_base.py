"""What forests share: growing, averaging, rows out of the bag, error bars."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.progress import Bar
from benthic.base.seeds import np_generator, seed_of
from benthic.base.settings import is_whole, number, one_of, whole
from benthic.base.threads import Crew, threads
from benthic.trees import forest_growth as fg
from benthic.trees.binning import MOST, bin_codes, find_bins, named_codes
from benthic.trees.forest_jackknife import jackknife_std
from benthic.trees.forest_trees import ForestPlan, gain_importances, grow_forest, sample_counts
from benthic.trees.histogram_intake import (
    Table,
    column_names,
    columns_asked,
    features,
)
from benthic.trees.histogram_predict import add_up, add_up_on_device, add_up_unseen, join, leaves
from benthic.trees.settings import MOST_TREES


class _RandomForest(Estimator):
    """What forests share: growing, averaging, rows out of the bag, error bars."""

    accepts_missing = True
    _criteria: dict[str, int]
    trees_: dict[str, np.ndarray]

    # -- learning --------------------------------------------------------------------------------------

    def _check(self) -> None:
        given = self.get_params(deep=False)
        whole("n_estimators", given["n_estimators"], most=MOST_TREES)
        for name, least in (("min_samples_leaf", 1), ("min_samples_split", 2), ("max_bins", 2)):
            whole(name, given[name], least)
        for name, least in (("max_depth", 1), ("max_leaf_nodes", 2)):
            whole(name, given[name], least, optional=True)
        if given["max_bins"] > MOST:
            raise InvalidInput(f"max_bins is {given['max_bins']}; a bin is a byte, so at most {MOST}")
        number("min_impurity_decrease", given["min_impurity_decrease"])
        number("min_weight_fraction_leaf", given["min_weight_fraction_leaf"], 0, 0.5, ends="[]")
        one_of("criterion", given["criterion"], self._criteria)
        if given["oob_score"] and not given["bootstrap"]:
            raise InvalidInput("oob_score needs bootstrap=True: without it no row is out of a tree's bag")
        if given["max_samples"] is not None and not given["bootstrap"]:
            raise InvalidInput("max_samples is the size of a bootstrap sample; set bootstrap=True or max_samples=None")

    def _draws(self, n: int) -> int:
        given = self.get_params(deep=False)
        size = given["max_samples"]
        if not given["bootstrap"]:
            return 0
        if size is None:
            return n
        if is_whole(size):
            return int(whole("max_samples", size))
        return max(round(n * number("max_samples", size, 0, 1, ends="(]")), 1)

    def _plan(self, table: Table, y: np.ndarray, targets: np.ndarray, weights: np.ndarray, crew: Crew) -> ForestPlan:
        given = self.get_params(deep=False)
        n, p = table.X.shape
        leaves_limit = given["max_leaf_nodes"]
        if leaves_limit is not None and leaves_limit > n:
            raise InvalidInput(f"max_leaf_nodes is {leaves_limit}, more than the {n} rows; use None for no limit")
        bins = find_bins(table.X, table.categorical, given["max_bins"], crew)
        classes = table.classes is not None
        whole = [
            columns_asked(given["max_features"], p),
            given["min_samples_split"],
            given["min_samples_leaf"],
            given["max_depth"] or n + 1,
            leaves_limit or n + 1,
            self._criteria[given["criterion"]],
            len(table.classes) if table.classes is not None else targets.shape[1],
            int(classes),
        ]
        self._categories = list(bins.categories)
        total = float(weights.sum())
        unit = np.log(2.0) if whole[fg.CRITERION] == fg.ENTROPY else 1.0  # scikit-learn's entropy is in bits
        return ForestPlan(
            bin_codes(table.X, bins, crew),
            bins,
            y,
            targets,
            weights,
            np.array(whole, dtype=np.int64),
            np.array([given["min_impurity_decrease"] * total * unit, given["min_weight_fraction_leaf"] * total]),
            self._draws(n),
        )

    def _seeds(self, count: int) -> np.ndarray:
        return np_generator(self._seed, "trees").integers(0, 2**62, size=count)

    def _grow(self, plan: ForestPlan, kept: dict[str, np.ndarray] | None, crew: Crew) -> None:
        count = int(self.get_params(deep=False)["n_estimators"])
        have = 0 if kept is None else len(kept["start"]) - 1
        if count < have:
            raise InvalidInput(f"n_estimators is {count}, fewer than the {have} trees that warm_start keeps")
        bar = Bar(type(self).__name__, count - have, bool(self.get_params(deep=False)["verbose"]), "trees")
        try:
            new = [grow_forest(plan, self._seeds(count)[have:], crew, bar)] if count > have else []
        finally:
            bar.close()
        self.trees_ = join([*([] if kept is None else [kept]), *new])
        self._rows, self._sample = plan.codes.shape[1], plan.draws

    def _start(self) -> dict[str, np.ndarray] | None:
        """The trees that ``warm_start`` keeps; without it a new seed is drawn."""
        given = self.get_params(deep=False)
        if given["warm_start"] and hasattr(self, "trees_"):
            return self.trees_
        self._seed = seed_of(given["random_state"])
        return None

    # -- rows out of the bag --------------------------------------------------------------------------

    def _unseen(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean answer (n, k) of the trees that did not see a row, and whether there was one; NaN where not.

        X: rows of ``fit``, categories as positions.
        """
        rows = np.ascontiguousarray(named_codes(X, self._categories))
        total, votes = np.zeros((len(X), self.trees_["value"].shape[1])), np.zeros(len(X), dtype=np.int64)
        for t, seed in enumerate(self._seeds(len(self.trees_["start"]) - 1)):
            counts = sample_counts(int(seed), self._rows, self._sample)
            add_up_unseen(self.trees_, t, rows, counts, total, votes)
        with np.errstate(invalid="ignore"):
            return total / votes[:, None], votes > 0

    # -- answers -----------------------------------------------------------------------------------------

    def _mean(self, X: Tensor) -> Tensor:
        """Mean of the trees' answers, (n, k)."""
        rows, count = features(self, X), len(self.trees_["start"]) - 1
        width = self.trees_["value"].shape[1]
        if rows.device.type != "cpu":
            return add_up_on_device(self.trees_, rows, width) / count
        out = np.zeros((len(rows), width))
        with Crew(threads(self.get_params(deep=False)["n_jobs"]) if len(rows) > 2000 else 1) as crew:
            add_up(self.trees_, np.ascontiguousarray(rows.numpy()), out, crew)
        return torch.from_numpy(out / count)

    def apply(self, X: Any) -> np.ndarray:
        """The leaf in which each row ends in each tree, (n, n_estimators), counted within the tree."""
        tensor, _ = self._arrive(X, "apply")
        rows = np.ascontiguousarray(features(self, tensor.cpu()).numpy())
        return leaves(self.trees_, rows) - self.trees_["start"][:-1].astype(np.int32)

    def predict_std(self, X: Any) -> Any:
        r"""Standard error of the forest's answer, by the infinitesimal jackknife: (n,), or (n, k) for k answers.

        .. math:: \hat V(x) = \sum_i \mathrm{Cov}_b[N_{bi}, t_b(x)]^2 - \frac{n}{B^2} \sum_b (t_b(x) - \bar t(x))^2

        N is how often row i is in the sample of tree b. It tells how much another training set of this size would
        move the answer, not how far targets scatter around it. The second term corrects for the B trees being few;
        where they are too few (fewer than about n) what is left is the error of a mean over B trees, a lower bound.
        Wager, Hastie & Efron, 2014.
        """
        tensor, origin = self._arrive(X, "predict_std")
        if not self._sample:
            raise self._fail("predict_std", "the trees saw all rows (bootstrap=False); fit with bootstrap=True")
        rows = np.ascontiguousarray(features(self, tensor.cpu()).numpy())
        seeds = self._seeds(len(self.trees_["start"]) - 1)
        counts = np.stack([sample_counts(int(seed), self._rows, self._sample) for seed in seeds])
        std = jackknife_std(self.trees_["value"], leaves(self.trees_, rows), counts, self._sample)
        std = std[:, 0] if std.shape[1] == 1 else std
        return origin.mirror(torch.from_numpy(std).to(tensor.device))

    # -- words and pictures --------------------------------------------------------------------------------

    @property
    def feature_importances_(self) -> np.ndarray:
        """(p,) share of the gain of all cuts that each column brought, averaged over trees; they add up to one."""
        return gain_importances(self.trees_, len(column_names(self)), by_tree=True)

    def _facts(self) -> dict[str, Any]:
        start = self.trees_["start"]
        shares, names = self.feature_importances_, column_names(self)
        facts: dict[str, Any] = {
            "trees": len(start) - 1,
            "leaves per tree": float((self.trees_["left"] < 0).sum() / (len(start) - 1)),
            "most telling": ", ".join(f"{names[j]} {shares[j]:.3f}" for j in np.argsort(-shares)[:3]),
        }
        if hasattr(self, "oob_score_"):
            facts["out-of-bag score"] = float(self.oob_score_)
        return facts

    def plot(self, ax: Any = None) -> Any:
        """The columns by the gain they brought, with the spread over trees."""
        from benthic.trees.importance import draw_importances

        p, start = len(column_names(self)), self.trees_["start"]
        each = np.zeros((len(start) - 1, p))
        inner = np.flatnonzero(self.trees_["feature"] >= 0)
        tree = np.searchsorted(start, inner, side="right") - 1
        np.add.at(each, (tree, self.trees_["feature"][inner]), self.trees_["gain"][inner])
        each /= np.maximum(each.sum(1, keepdims=True), 1e-300)
        label = "share of the gain (bars: standard deviation over trees)"
        return draw_importances(each.mean(0), each.std(0), column_names(self), label, ax)
