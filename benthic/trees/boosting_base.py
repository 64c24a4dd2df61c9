"""What classifiers and regressors by boosting share: checking, holding out, rounds, scores by stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.progress import Bar
from benthic.base.seeds import np_generator, seed_of
from benthic.base.settings import number, positive, whole
from benthic.base.threads import Crew, threads
from benthic.trees.binning import MOST, bin_codes, find_bins
from benthic.trees.boosting_objective import Objective
from benthic.trees.boosting_rounds import Held, RoundRules, Rounds
from benthic.trees.forest_trees import gain_importances
from benthic.trees.histogram_grower import GrowthRules, HistogramGrower
from benthic.trees.histogram_intake import (
    Table,
    column_names,
    columns_asked,
    features,
    monotone_signs,
)
from benthic.trees.histogram_predict import add_up, add_up_on_device
from benthic.trees.settings import MOST_TREES

_MANY_ROWS = 10_000  # above which early_stopping="auto" stops early
_DEFAULT_LEAVES = 31


class _GradientBoosting(Estimator):
    """What boosting shares: checking, holding out, rounds, scores by stages."""

    accepts_missing = True
    trees_: dict[str, np.ndarray]

    # -- learning --------------------------------------------------------------------------------------

    def _check(self) -> None:
        given = self.get_params(deep=False)
        whole("max_iter", given["max_iter"], most=MOST_TREES)
        for name, least in (("min_samples_leaf", 1), ("max_bins", 2), ("n_iter_no_change", 1)):
            whole(name, given[name], least)
        for name, least in (("max_leaf_nodes", 2), ("max_depth", 1)):
            whole(name, given[name], least, optional=True)
        positive("learning_rate", given["learning_rate"])
        number("l2_regularization", given["l2_regularization"])
        number("tol", given["tol"])
        number("subsample", given["subsample"], 0, 1, ends="(]")
        positive("validation_fraction", given["validation_fraction"], optional=True)
        if given["max_bins"] > MOST:
            raise InvalidInput(f"max_bins is {given['max_bins']}; a bin is a byte, so at most {MOST}")
        if given["growth"] not in ("leaf", "depth"):
            raise InvalidInput(f"growth is {given['growth']!r}; use 'leaf' (the best leaf first) or 'depth'")
        if given["early_stopping"] not in (True, False, "auto"):
            raise InvalidInput(f"early_stopping is {given['early_stopping']!r}; use True, False or 'auto'")

    def _growth(self, table: Table) -> GrowthRules:
        given = self.get_params(deep=False)
        n, p = table.X.shape
        most = given["max_leaf_nodes"]
        if most is not None and most > max(n, _DEFAULT_LEAVES):
            raise InvalidInput(f"max_leaf_nodes is {most}, more than the {n} rows; use None for no limit")
        asked = columns_asked(given["max_features"], p)
        return GrowthRules(
            max_leaf_nodes=most,
            max_depth=given["max_depth"],
            min_samples_leaf=given["min_samples_leaf"],
            l2=float(given["l2_regularization"]),
            growth=given["growth"],
            max_features=asked if asked < p else None,
            monotonic=monotone_signs(given["monotonic_cst"], table),
        )

    def _objective(self, y: np.ndarray, weight: np.ndarray, crew: Crew) -> Objective:
        raise NotImplementedError

    def _boost(self, table: Table, weight: np.ndarray) -> None:
        """Learn from checked rows."""
        given = self.get_params(deep=False)
        kept = self._kept()
        train, held = self._hold_out(table, weight)
        with Crew(_jobs(given["n_jobs"])) as crew:
            y = table.y if train is None else table.y[train]
            weight = weight if train is None or len(weight) == 1 else weight[train]
            objective = self._objective(y, weight, crew)
            growth = self._growth(table)
            bins = find_bins(table.X, table.categorical, given["max_bins"], crew, train)
            self._categories = list(bins.categories)
            rules = self._rules(held is not None, len(table.X))
            if kept is None:
                self._baseline = objective.start()
            bar = Bar(type(self).__name__, given["max_iter"], bool(given["verbose"]), "rounds")
            rounds = Rounds(
                HistogramGrower(bin_codes(table.X, bins, crew, train), bins, growth, not objective.flat, crew),
                bins,
                growth,
                rules,
                objective,
                np.ascontiguousarray(self._reached(table.X, kept, crew, train).T),
                crew,
                self._seed,
                held and Held(self._features(held.X), held.y, held.weight),
                held and self._reached(held.X, kept, crew),
                [] if kept is None else list(self.history_),
            )
            try:
                found = rounds.run(kept, bar)
            finally:
                bar.close()
        if found is None:
            raise InvalidInput("max_iter leaves no round to make")
        self.trees_, self.history_ = found, rounds.history
        self.n_iter_ = (len(found["start"]) - 1) // objective.columns

    def _kept(self) -> dict[str, np.ndarray] | None:
        given = self.get_params(deep=False)
        if given["warm_start"] and hasattr(self, "trees_"):
            if given["max_iter"] < self.n_iter_:
                raise InvalidInput(
                    f"max_iter is {given['max_iter']}, fewer than the {self.n_iter_} rounds already made"
                )
            return self.trees_
        self._seed = seed_of(given["random_state"])
        return None

    def _rules(self, held: bool, n: int) -> RoundRules:
        given = self.get_params(deep=False)
        stops = self._stops_early(n)
        return RoundRules(
            float(given["learning_rate"]),
            given["max_iter"],
            float(given["subsample"]),
            given["n_iter_no_change"] if stops else None,
            float(given["tol"]),
        )

    def _stops_early(self, n: int) -> bool:
        asked = self.get_params(deep=False)["early_stopping"]
        return n > _MANY_ROWS if asked == "auto" else bool(asked)

    def _hold_out(self, table: Table, weight: np.ndarray) -> tuple[np.ndarray | None, Held | None]:
        """The indices of rows to learn from (None for all), and the rows held out (of every class its share)."""
        n, fraction = len(table.X), self.get_params(deep=False)["validation_fraction"]
        if not self._stops_early(n) or fraction is None:
            return None, None
        count = round(fraction * n) if fraction < 1 else int(fraction)
        if not 1 <= count < n:
            raise InvalidInput(
                f"validation_fraction={fraction!r} holds out {count} of {n} rows; leave rows on both sides"
            )
        order = np_generator(self._seed, "hold-out").permutation(n)
        if table.classes is not None:  # spread every class evenly over the order
            rank = np.empty(n)
            for code in range(len(table.classes)):
                mine = order[table.y[order] == code]
                rank[mine] = (np.arange(len(mine)) + 0.5) / len(mine)
            order = order[np.argsort(rank[order], kind="stable")]
        out, rest = np.sort(order[:count]), np.sort(order[count:])
        if table.classes is not None and len(np.unique(table.y[rest])) < len(table.classes):
            raise InvalidInput("holding out rows leaves a class without any; use early_stopping=False or more rows")
        return rest, Held(table.X[out], table.y[out], weight[out] if len(weight) > 1 else weight)

    # -- answers -----------------------------------------------------------------------------------------

    def _features(self, X: np.ndarray) -> np.ndarray:
        """Rows of ``fit``, already folded, as trees read them."""
        from benthic.trees.binning import named_codes

        return named_codes(X, self._categories)

    def _reached(
        self, X: np.ndarray, kept: dict[str, np.ndarray] | None, crew: Crew, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """Scores (n, K) of folded rows, or of some of them, after the trees that are kept."""
        out = np.tile(self._baseline, (len(X) if rows is None else len(rows), 1))
        if kept is not None:
            add_up(kept, self._features(X if rows is None else X[rows]), out, crew)
        return out

    def _scores(self, X: Tensor) -> Tensor:
        """Scores (n, K)."""
        rows = features(self, X)
        if rows.device.type != "cpu":
            start = torch.as_tensor(self._baseline, device=rows.device)
            return start + add_up_on_device(self.trees_, rows, len(self._baseline))
        out = np.tile(self._baseline, (len(rows), 1))
        with Crew(_jobs(self.get_params(deep=False)["n_jobs"]) if len(rows) > 20_000 else 1) as crew:
            add_up(self.trees_, np.ascontiguousarray(rows.numpy()), out, crew)
        return torch.from_numpy(out)

    def _staged_scores(self, X: Tensor) -> Iterator[Tensor]:
        K = len(self._baseline)
        rows = np.ascontiguousarray(features(self, X.cpu()).numpy())
        out = np.tile(self._baseline, (len(rows), 1))
        for step in range(self.n_iter_):
            add_up(self.trees_, rows, out, None, step * K, (step + 1) * K)
            yield torch.from_numpy(out.copy()).to(X.device)

    # -- words and pictures --------------------------------------------------------------------------------

    @property
    def feature_importances_(self) -> np.ndarray:
        """(p,) share of the gain of all cuts that each column brought; they add up to one."""
        return gain_importances(self.trees_, len(column_names(self)), by_tree=False)

    def _facts(self) -> dict[str, Any]:
        shares, names = self.feature_importances_, column_names(self)
        facts: dict[str, Any] = {
            "rounds": self.n_iter_,
            "leaves per tree": float((self.trees_["left"] < 0).sum() / (len(self.trees_["start"]) - 1)),
            "loss": float(self.history_[self.n_iter_]["loss"]),
        }
        if "val_loss" in self.history_[-1]:
            facts["held-out loss"] = float(self.history_[self.n_iter_]["val_loss"])
        facts["most telling"] = ", ".join(f"{names[j]} {shares[j]:.3f}" for j in np.argsort(-shares)[:3])
        return facts

    def plot(self) -> Any:
        """Training loss, and held-out loss where rows were held out, against the rounds."""
        from benthic.pictures.curves import loss_curve

        figure = loss_curve(self.history_, title=type(self).__name__)
        axes = figure.axes[0]
        axes.set_xlabel("rounds")
        if "val_loss" in self.history_[-1]:
            axes.axvline(self.n_iter_, color="0.6", linewidth=0.8, linestyle="--")
        return figure


def _jobs(n_jobs: int | None) -> int:
    """Threads: as many as torch may use unless a number is given."""
    return threads(n_jobs, torch.get_num_threads())
