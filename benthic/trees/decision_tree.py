"""Decision trees for classes and for numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import Bunch
from torch import Tensor

from benthic.base.capabilities import Classifies, Predicts
from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import np_generator, seed_of
from benthic.base.settings import is_whole, number, one_of
from benthic.base.validation import speaking
from benthic.training.intake import Intake
from benthic.trees.attributes import attribute_names
from benthic.trees.cart import grow_cart
from benthic.trees.multiway import Plan, grow_multiway, root_gains
from benthic.trees.multiway_kernels import CUT, GAIN, INFO, VALID
from benthic.trees.pruning import prune_by_cost, prune_by_errors, weakest_links
from benthic.trees.raising import prune_with_raising
from benthic.trees.settings import class_factors
from benthic.trees.structure import Tree
from benthic.trees.tree_estimator import _TreeEstimator, in_memory

_DEFAULT_CRITERION = {"cart": "gini", "id3": "entropy", "c4.5": "gain_ratio"}


class DecisionTreeClassifier(Classifies, _TreeEstimator):
    r"""A tree of questions that ends in class shares: CART, C4.5 or ID3.

    A split is worth the impurity it takes away; entropy and Gini's index of class shares :math:`p_k` are

    .. math:: H = -\sum_k p_k \log_2 p_k, \qquad G = \sum_k p_k (1 - p_k)

    ``"cart"`` (Breiman, Friedman, Olshen & Stone, 1984) asks yes or no: a number is at most a threshold, a category
    is in a set. Missing values go to the better side; where none was missing in training, to the side with more rows.
    ``"c4.5"`` (Quinlan, 1993) opens a branch for each category and two for numbers, chooses by gain ratio, lets rows
    without a value go down every branch in fractions, both in ``fit`` and in answers, and prunes by pessimistic
    errors. ``"id3"`` (Quinlan, 1986) knows categories only, chooses by information gain and does not prune.
    A category that ``fit`` never saw counts as missing.

    algorithm: ``"cart"``, ``"c4.5"`` or ``"id3"``. criterion: ``"gini"``, ``"entropy"``, and for the multi-way
    trees ``"gain_ratio"``: gain over split information, among attributes of at least average gain; None is gini,
    gain_ratio and entropy in turn. splitter: ``"best"``, or ``"random"`` for one random threshold a feature (cart).
    max_depth, min_samples_split, min_samples_leaf, min_weight_fraction_leaf, max_features, max_leaf_nodes,
    min_impurity_decrease, class_weight, ccp_alpha: as in scikit-learn; rows are counted, whatever their weight.
    In multi-way trees min_samples_leaf above 1 is the weight that two branches need (C4.5's own default is 2).
    categorical_features: columns of numbers that hold categories, by number, name or mask; categories of frames are
    known by their type. attribute_costs: what it costs to ask for a feature, ``{name: cost}`` or (d,), for multi-way
    trees; others cost 1. cost_measure: ``"tan"`` for S²/c or ``"nunez"`` for (2^S - 1)/(c + 1)^w with w =
    cost_weight, S being the gain or gain ratio. threshold_penalty: take log2(thresholds tried) / rows off the gain
    of a number, as C4.5 does since release 8 (Quinlan, 1996). pruning: ``"error"`` for C4.5's, by leaves and
    by raised branches (cart: leaves only), ``"replace"`` for leaves only, ``"none"``, or ``"auto"``: error for c4.5.
    confidence: of that pruning, less prunes more.

    classes_: (k,). tree_: the nodes as arrays. categories_: values of each attribute, None for numbers.
    feature_importances_: (d,) shares of the gain. attribute_gains_: of multi-way trees, for each attribute its gain,
    split_info and gain_ratio over all rows.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DecisionTreeClassifier(max_leaf_nodes=3).fit(X[:, 2:], y)
    >>> print(model.export_text())
    x0 <= 2.45: 0 (50)
    x0 > 2.45
    |   x1 <= 1.75: 1 (49 of 54)
    |   x1 > 1.75: 2 (45 of 46)
    """

    def __init__(
        self,
        *,
        algorithm: str = "cart",
        criterion: str | None = None,
        splitter: str = "best",
        max_depth: int | None = None,
        min_samples_split: float = 2,
        min_samples_leaf: float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        class_weight: Mapping[Any, float] | str | None = None,
        ccp_alpha: float = 0.0,
        categorical_features: Sequence[Any] | str | None = "from_dtype",
        attribute_costs: Mapping[Any, float] | Sequence[float] | None = None,
        cost_measure: str = "tan",
        cost_weight: float = 1.0,
        threshold_penalty: bool = False,
        pruning: str = "auto",
        confidence: float = 0.25,
        random_state: Any = None,
    ) -> None:
        self.algorithm = algorithm
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.class_weight = class_weight
        self.ccp_alpha = ccp_alpha
        self.categorical_features = categorical_features
        self.attribute_costs = attribute_costs
        self.cost_measure = cost_measure
        self.cost_weight = cost_weight
        self.threshold_penalty = threshold_penalty
        self.pruning = pruning
        self.confidence = confidence
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and labels, or from a file: ``fit(path, 'column')``. sample_weight: (n,) counts of rows."""
        with self._whole():
            self.__dict__.pop("attribute_gains_", None)
            with speaking(self, "fit"):
                criterion = self._check()
            missing = self.algorithm != "id3"
            intake = Intake(self, X, y, target="labels", sample_weight=sample_weight, missing=missing)
            classes = np.asarray(intake.classes)
            with speaking(self, "fit"):
                rows, codes, weight = in_memory(intake)
                weight = weight * class_factors(self.class_weight, classes, codes, weight)[codes]
                tree = self._prune(self._grow(rows, codes, weight, len(classes), criterion))
        self.classes_ = classes
        self._nodes = tree.arrays()
        return self

    def _check(self) -> str:
        """Check the settings that need no data; returns the criterion."""
        one_of("algorithm", self.algorithm, ("cart", "c4.5", "id3"))
        one_of("splitter", self.splitter, ("best", "random"))
        one_of("pruning", self.pruning, ("auto", "error", "replace", "none"))
        one_of("cost_measure", self.cost_measure, ("tan", "nunez"))
        number("ccp_alpha", self.ccp_alpha)
        number("confidence", self.confidence, 0, 1, ends="()")
        cart = self.algorithm == "cart"
        criteria = ("gini", "entropy") if cart else ("gain_ratio", "entropy", "gini")
        criterion = _DEFAULT_CRITERION[self.algorithm] if self.criterion is None else self.criterion
        if cart and criterion == "gain_ratio":
            raise InvalidInput("criterion 'gain_ratio' is for multi-way trees; use algorithm 'c4.5', or 'gini' here")
        if cart and self.attribute_costs is not None:
            raise InvalidInput("attribute_costs is for algorithm 'c4.5' or 'id3', but algorithm is 'cart'")
        if not cart and self.splitter == "random":
            raise InvalidInput(f"splitter 'random' is for algorithm 'cart', but algorithm is {self.algorithm!r}")
        return str(one_of("criterion", criterion, criteria))

    def _grow(self, X: Tensor, codes: np.ndarray, weight: np.ndarray, classes: int, criterion: str) -> Tree:
        columns, categories = self._learn_attributes(X, self.algorithm == "id3")
        keep = weight > 0
        columns, codes, weight = np.ascontiguousarray(columns[:, keep]), codes[keep], weight[keep]
        limits = self._common_limits(len(weight), len(columns))
        if self.algorithm == "cart":
            share = number("min_weight_fraction_leaf", self.min_weight_fraction_leaf, 0, 0.5, ends="[]")
            limits |= {"min_weight": share * float(weight.sum()), "random": self.splitter == "random"}
            return grow_cart(columns, categories, codes, weight, criterion, limits, self._seed_state(), classes)
        generator = np_generator(seed_of(self.random_state), "tree")
        plan, codes = self._plan(limits, criterion), codes.astype(np.int64)
        found = root_gains(columns, categories, codes, weight, classes, plan)
        self.attribute_gains_ = _gains(attribute_names(self), found, categories)
        tree = grow_multiway(columns, categories, codes, weight, classes, plan, generator)
        if self.pruning == "error" or (self.pruning == "auto" and plan.c45):
            tree = prune_with_raising(tree, columns, codes, weight, self.confidence, plan.entropy)
        return tree

    def _plan(self, limits: dict[str, Any], criterion: str) -> Plan:
        return Plan(
            **limits | {"min_leaf": limits["min_leaf"] if limits["min_leaf"] > 1 else 1e-12},
            c45=self.algorithm == "c4.5",
            entropy=criterion != "gini",
            ratio=criterion == "gain_ratio",
            penalty=bool(self.threshold_penalty),
            costs=self._costs(),
            power=None if self.cost_measure == "tan" else number("cost_weight", self.cost_weight),
        )

    def _costs(self) -> np.ndarray | None:
        """The cost of each attribute, (d,)."""
        if self.attribute_costs is None:
            return None
        names = attribute_names(self)
        costs = np.ones(len(names))
        if isinstance(self.attribute_costs, Mapping):
            for name, cost in self.attribute_costs.items():
                place = name if is_whole(name, 0, len(names) - 1) else None
                if place is None and str(name) not in names:
                    raise InvalidInput(
                        f"attribute_costs names {name!r}, which is no feature{nearest(str(name), names)}"
                    )
                costs[names.index(str(name)) if place is None else place] = number("a cost", cost)
        else:
            costs = np.asarray(self.attribute_costs, dtype=float)
        if costs.shape != (len(names),) or not np.isfinite(costs).all() or (costs <= 0).any():
            raise InvalidInput(f"attribute_costs needs {len(names)} positive costs, or a dict of features and costs")
        return costs

    def _prune(self, tree: Tree) -> Tree:
        if self.pruning == "replace" or (self.pruning == "error" and self.algorithm == "cart"):
            tree = prune_by_errors(tree, self.confidence)
        return prune_by_cost(tree, float(self.ccp_alpha))

    def cost_complexity_pruning_path(self, X: Any, y: Any, sample_weight: Any = None) -> Bunch:
        """The alphas at which pruning cuts more, and the impurity of the leaves then: ccp_alphas, impurities."""
        return _path(self, X, y, sample_weight)

    def _probabilities(self, X: Tensor) -> Tensor:
        tree = self.tree_
        shares = tree.value / tree.value.sum(1, keepdims=True)
        return tree.answer(self._attributes(X), shares)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithm of the probability of each class, (n, k)."""
        tensor, origin = self._arrive(X, "predict_log_proba")
        return origin.mirror(self._probabilities(tensor).log())

    def _facts(self) -> dict[str, Any]:
        return {"classes": len(self.classes_), "algorithm": self.algorithm, **super()._facts()}


class DecisionTreeRegressor(Predicts, _TreeEstimator):
    r"""A tree of yes-or-no questions that ends in means: CART (Breiman, Friedman, Olshen & Stone, 1984).

    A split is worth the decrease of the squared error around the means,

    .. math:: \frac{w_t}{w} \Big(\operatorname{Var}_t - \frac{w_l}{w_t} \operatorname{Var}_l
        - \frac{w_r}{w_t} \operatorname{Var}_r\Big)

    which is Friedman's improvement :math:`w_l w_r (\bar y_l - \bar y_r)^2 / (w_l + w_r)` as well. Categories are
    split by the set of least error, missing values go to the better side; where none was missing in training, to the
    side with more rows. A category that ``fit`` never saw counts as missing.

    algorithm: ``"cart"``; C4.5 and ID3 are for classes. criterion: ``"squared_error"`` or its other name,
    ``"friedman_mse"``. The other settings are those of ``DecisionTreeClassifier``. Several targets are split
    together, by the mean of their errors.

    tree_: the nodes as arrays. categories_: values of each attribute, None for numbers. feature_importances_: (d,).

    >>> model = DecisionTreeRegressor(max_depth=1).fit([[1.0], [2.0], [5.0], [6.0]], [0.0, 0.0, 3.0, 5.0])
    >>> model.predict([[1.5], [7.0]])
    array([0., 4.])
    """

    def __init__(
        self,
        *,
        algorithm: str = "cart",
        criterion: str = "squared_error",
        splitter: str = "best",
        max_depth: int | None = None,
        min_samples_split: float = 2,
        min_samples_leaf: float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        ccp_alpha: float = 0.0,
        categorical_features: Sequence[Any] | str | None = "from_dtype",
        random_state: Any = None,
    ) -> None:
        self.algorithm = algorithm
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.ccp_alpha = ccp_alpha
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and targets (n,) or (n, m), or from a file: ``fit(path, 'column')``.

        sample_weight: (n,) how often each row counts.
        """
        with self._whole():
            with speaking(self, "fit"):
                self._check()
            intake = Intake(self, X, y, target="numbers", sample_weight=sample_weight)
            with speaking(self, "fit"):
                rows, targets, weight = in_memory(intake)
                tree = self._grow(rows, targets.reshape(len(targets), -1), weight)
                tree = prune_by_cost(tree, float(self.ccp_alpha))
        self._one_target = targets.ndim == 1
        self._nodes = tree.arrays()
        return self

    def _check(self) -> None:
        if self.algorithm in ("c4.5", "id3"):
            raise InvalidInput(f"algorithm {self.algorithm!r} is for classes; use 'cart' to predict numbers")
        one_of("algorithm", self.algorithm, ("cart",))
        one_of("criterion", self.criterion, ("squared_error", "friedman_mse"))
        one_of("splitter", self.splitter, ("best", "random"))
        number("ccp_alpha", self.ccp_alpha)

    def _grow(self, X: Tensor, targets: np.ndarray, weight: np.ndarray) -> Tree:
        columns, categories = self._learn_attributes(X, False)
        keep = weight > 0
        limits = self._common_limits(int(keep.sum()), len(columns))
        share = number("min_weight_fraction_leaf", self.min_weight_fraction_leaf, 0, 0.5, ends="[]")
        limits |= {"min_weight": share * float(weight.sum()), "random": self.splitter == "random"}
        columns = np.ascontiguousarray(columns[:, keep])
        return grow_cart(columns, categories, targets[keep], weight[keep], "squared_error", limits, self._seed_state())

    def cost_complexity_pruning_path(self, X: Any, y: Any, sample_weight: Any = None) -> Bunch:
        """The alphas at which pruning cuts more, and the impurity of the leaves then: ccp_alphas, impurities."""
        return _path(self, X, y, sample_weight)

    def _prediction(self, X: Tensor) -> Tensor:
        tree = self.tree_
        found = tree.answer(self._attributes(X), tree.value)
        return found[:, 0] if self._one_target else found


def _gains(names: list[str], found: np.ndarray, categories: np.ndarray) -> dict[str, dict[str, float]]:
    table = {}
    for name, line, slots in zip(names, found, categories, strict=True):
        if line[VALID]:
            ratio = line[GAIN] / line[INFO] if line[INFO] > 0 else 0.0
            table[name] = {"gain": float(line[GAIN]), "split_info": float(line[INFO]), "gain_ratio": float(ratio)}
            table[name] |= {} if slots else {"threshold": float(line[CUT])}
    return table


def _path(model: Any, X: Any, y: Any, sample_weight: Any) -> Bunch:
    whole = clone(model).set_params(ccp_alpha=0.0).fit(X, y, sample_weight)
    _, alphas, impurities = weakest_links(whole.tree_)
    return Bunch(ccp_alphas=alphas, impurities=impurities)
