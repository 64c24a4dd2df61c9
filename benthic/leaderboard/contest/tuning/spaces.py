"""Where good settings of each family are looked for, as plain values.

A space names the settings that matter most to a family and the range that people tune them in; everything else stays
as the contestant has it. Names are those of ``set_params``, so that ``trainer__lr`` is the learning rate of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Between:
    """A number from low to high; on a scale of factors if log."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Whole:
    """A whole number from low to high, both included; on a scale of factors if log."""

    low: int
    high: int
    log: bool = False


class OneOf:
    """One of several values of any kind."""

    def __init__(self, *options: Any) -> None:
        self.options = options

    def __repr__(self) -> str:
        return f"OneOf{self.options!r}"


Choice = Between | Whole | OneOf
Space = Mapping[str, Choice]

_LR = Between(3e-4, 1e-2, log=True)
_WIDTHS = OneOf((64,), (128,), (256,), (64, 64), (128, 128), (256, 128))
_WIDE = OneOf((64, 64), (128, 128), (256, 128), (256, 256), (512, 256))
_TREE: Space = {
    "max_depth": OneOf(None, 3, 5, 8, 12),
    "min_samples_leaf": Whole(1, 30, log=True),
    "ccp_alpha": OneOf(0.0, 1e-4, 1e-3, 1e-2),
}
_FOREST: Space = {
    "n_estimators": OneOf(100, 200, 400),
    "max_features": OneOf("sqrt", 0.3, 0.6, 1.0),
    "min_samples_leaf": Whole(1, 20, log=True),
}
_BOOSTING: Space = {
    "learning_rate": Between(0.02, 0.3, log=True),
    "max_iter": Whole(50, 500, log=True),
    "max_leaf_nodes": Whole(4, 63, log=True),
    "min_samples_leaf": Whole(3, 60, log=True),
    "l2_regularization": Between(1e-6, 10.0, log=True),
}
_NEIGHBORS: Space = {"n_neighbors": Whole(1, 50, log=True), "weights": OneOf("uniform", "distance"), "p": OneOf(1, 2)}
_NETWORK: Space = {
    "hidden_layer_sizes": _WIDTHS,
    "alpha": Between(1e-6, 1e-1, log=True),
    "dropout": OneOf(0.0, 0.1, 0.3),
    "trainer__lr": _LR,
}
_BAYESIAN: Space = {"hidden_layer_sizes": OneOf((20,), (50,), (100,)), "activation": OneOf("relu", "tanh")}
_NEURAL_ODE: Space = {
    "width": OneOf(32, 64, 128),
    "hidden_layer_sizes": OneOf((64,), (128,), (64, 64)),
    "solver_steps": Whole(1, 4),
    "trainer__lr": _LR,
}
_KERNEL_MACHINE: Space = {"C": Between(1e-2, 1e3, log=True), "gamma": OneOf("scale", 1e-3, 1e-2, 0.1, 1.0)}
_PROCESS: Space = {"kernel": OneOf("rbf", "matern32", "matern52"), "ard": OneOf(False, True)}
_VAE: Space = {
    "latent_dim": Whole(2, 32, log=True),
    "hidden_layer_sizes": _WIDE,
    "beta": Between(0.3, 1.5),
    "kl_warmup": OneOf(0.0, 0.2),
    "trainer__lr": _LR,
}
_GAN: Space = {
    "latent_dim": Whole(4, 64, log=True),
    "hidden_layer_sizes": _WIDE,
    "generator_lr": Between(1e-4, 2e-3, log=True),
    "critic_lr": Between(1e-4, 2e-3, log=True),
}
_DIFFUSION: Space = {"hidden": OneOf(128, 256, 384), "depth": Whole(2, 5), "trainer__lr": Between(2e-4, 5e-3, log=True)}
_MIXTURE: Space = {"n_components": Whole(1, 40, log=True), "n_init": OneOf(1, 3)}
_FLOW_WIDTHS = OneOf((32, 32), (64, 64), (128, 128))

SPACES: dict[str, Space] = {
    # linear models and naive Bayes
    "LogisticRegression": {"C": Between(1e-3, 1e3, log=True), "l1_ratio": OneOf(0.0, 0.5, 1.0)},
    "LinearRegression": {"positive": OneOf(False, True)},
    "Ridge": {"alpha": Between(1e-4, 1e3, log=True)},
    "Lasso": {"alpha": Between(1e-4, 10.0, log=True)},
    "ElasticNet": {"alpha": Between(1e-4, 10.0, log=True), "l1_ratio": Between(0.05, 0.95)},
    "LinearDiscriminantAnalysis": {"shrinkage": OneOf(None, "auto", 0.1, 0.3, 0.6)},
    "GaussianNB": {"var_smoothing": Between(1e-12, 1e-1, log=True)},
    "BernoulliNB": {"alpha": Between(1e-3, 10.0, log=True)},
    "CategoricalNB": {"alpha": Between(1e-3, 10.0, log=True)},
    "MultinomialNB": {"alpha": Between(1e-3, 10.0, log=True)},
    # kernels and neighbors
    "SVC": _KERNEL_MACHINE,
    "SVR": {**_KERNEL_MACHINE, "epsilon": Between(1e-3, 1.0, log=True)},
    "LinearSVC": {"C": Between(1e-3, 1e3, log=True)},
    "KNeighborsClassifier": _NEIGHBORS,
    "KNeighborsRegressor": _NEIGHBORS,
    "NadarayaWatson": {"kernel": OneOf("gaussian", "epanechnikov"), "bandwidth": OneOf("loo", 0.1, 0.3, 1.0)},
    "GaussianProcessRegressor": {**_PROCESS, "normalize_y": OneOf(False, True)},
    "GaussianProcessClassifier": _PROCESS,
    # trees
    "DecisionTreeClassifier": _TREE,
    "DecisionTreeRegressor": _TREE,
    "RandomForestClassifier": _FOREST,
    "RandomForestRegressor": _FOREST,
    "GradientBoostingClassifier": _BOOSTING,
    "GradientBoostingRegressor": _BOOSTING,
    # networks
    "MLPClassifier": _NETWORK,
    "MLPRegressor": _NETWORK,
    "BayesianMLPClassifier": _BAYESIAN,
    "BayesianMLPRegressor": _BAYESIAN,
    "NeuralODEClassifier": _NEURAL_ODE,
    "NeuralODERegressor": _NEURAL_ODE,
    # clusters and mixtures
    "KMeans": {"n_clusters": Whole(2, 30, log=True), "n_init": OneOf(1, 5, 10)},
    "GaussianMixture": {**_MIXTURE, "covariance_type": OneOf("full", "tied", "diag", "spherical")},
    "Mixture": _MIXTURE,
    "ExponentialFamilyMixture": _MIXTURE,
    "VaDE": {"n_clusters": Whole(2, 20), "latent_dim": Whole(2, 20, log=True), "trainer__lr": _LR},
    # generators
    "VAE": _VAE,
    "ConditionalVAE": _VAE,
    "ImportanceWeightedVAE": {"latent_dim": Whole(2, 32, log=True), "hidden_layer_sizes": _WIDE, "trainer__lr": _LR},
    "HierarchicalVAE": {
        "level_dims": OneOf((8, 4), (16, 8), (32, 16), (16, 8, 4)),
        "hidden_layer_sizes": _WIDE,
        "trainer__lr": _LR,
    },
    "GAN": _GAN,
    "WGAN": {**_GAN, "critic_steps": Whole(1, 5)},
    "ConditionalGAN": _GAN,
    "InfoGAN": _GAN,
    "DCGAN": {name: choice for name, choice in _GAN.items() if name != "hidden_layer_sizes"},
    "NormalizingFlow": {
        "transforms": Whole(2, 8),
        "hidden_layer_sizes": _FLOW_WIDTHS,
        "bins": OneOf(4, 8, 16),
        "trainer__lr": _LR,
    },
    "ContinuousFlow": {
        "hidden_layer_sizes": _FLOW_WIDTHS,
        "regularization": OneOf(0.0, 0.01, 0.1),
        "trainer__lr": _LR,
    },
    "DDPM": _DIFFUSION,
    "EDM": _DIFFUSION,
    "FlowMatching": _DIFFUSION,
    "ScoreSDE": _DIFFUSION,
    "NCSN": _DIFFUSION,
    "PoissonFlow": _DIFFUSION,
    "VariationalDiffusion": _DIFFUSION,
    "EnergyModel": {"hidden_layer_sizes": _WIDE, "chain_steps": Whole(5, 40, log=True), "trainer__lr": _LR},
    "BernoulliRBM": {"n_components": Whole(16, 256, log=True), "trainer__lr": Between(1e-3, 0.1, log=True)},
    "PCA": {"n_components": Between(0.5, 0.999)},
    "PairwiseMarkovField": {"bins": OneOf(4, 8, 16), "alpha": Between(0.01, 10.0, log=True)},
}

# estimators of scikit-learn under another name
_ALIKE = {
    "HistGradientBoostingClassifier": "GradientBoostingClassifier",
    "HistGradientBoostingRegressor": "GradientBoostingRegressor",
    "ExtraTreesClassifier": "RandomForestClassifier",
    "ExtraTreesRegressor": "RandomForestRegressor",
}


def space_of(model: Any) -> Space | None:
    """The space of a model by the name of its class, of the last step of a pipeline; None where there is none.

    scikit-learn's estimators have the spaces of ours, as far as they have the settings.

    >>> from sklearn.svm import SVC
    >>> sorted(space_of(SVC()))
    ['C', 'gamma']
    """
    last, prefix = last_step(model)
    name = type(last).__name__
    space = SPACES.get(_ALIKE.get(name, name))
    if space is None:
        return None
    known = last.get_params(deep=False)
    kept = {key: choice for key, choice in space.items() if key.partition("__")[0] in known}
    return {prefix + key: choice for key, choice in kept.items()} or None


def last_step(model: Any) -> tuple[Any, str]:
    """The estimator that answers, and the beginning of the names of its settings.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> last_step(make_pipeline(SVC()))[1]
    'svc__'
    """
    from sklearn.pipeline import Pipeline

    if not isinstance(model, Pipeline) or not model.steps:
        return model, ""
    name, last = model.steps[-1]
    inner, prefix = last_step(last)
    return inner, f"{name}__{prefix}"
