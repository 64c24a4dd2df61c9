"""Probability distributions: densities beyond ``torch.distributions``, how to fit, combine and compare them.

Every law is a ``torch.distributions.Distribution``: torch's own class where it suffices, a subclass where it
lacks a distribution function, a quantile, an entropy or a clear error, and a new class for stable laws,
directions and counts with a random share.
"""

from __future__ import annotations

from benthic.base.lazy import lazy

_TORCH = (
    "Cauchy",
    "Chi2",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "HalfNormal",
    "Independent",
    "Laplace",
    "LogNormal",
    "Multinomial",
    "Normal",
    "TransformedDistribution",
    "Uniform",
)

_OURS = {
    "conjugate": (
        "DirichletMultinomial",
        "beta_posterior",
        "dirichlet_posterior",
        "dirichlet_predictive",
        "log_marginal_likelihood",
    ),
    "counts": ("Bernoulli", "Binomial", "Categorical", "Geometric", "Poisson"),
    "directional": ("VonMisesFisher", "bessel_ratio", "concentration_from_length"),
    "bessel": ("log_bessel_i",),
    "distances": ("frechet", "hausdorff", "mahalanobis"),
    "drawing": ("draw",),
    "information": (
        "Samples",
        "conditional_entropy",
        "cross_entropy",
        "entropy",
        "fisher_divergence",
        "hellinger",
        "joint_entropy",
        "js",
        "kl",
        "mutual_information",
        "total_variation",
    ),
    "fitting": ("mle",),
    "mixtures": ("Mixture", "mixture", "transformed"),
    "normal": ("MultivariateNormal",),
    "scalar": ("Beta", "Gamma", "Levy", "StudentT"),
    "special": ("betainc", "gammainc"),
    "stable": ("Stable",),
    "statistics": (
        "Bootstrap",
        "TTest",
        "bootstrap",
        "correlation",
        "covariance",
        "effect_size",
        "mean_interval",
        "moments",
        "monte_carlo",
        "paired_t_test",
        "t_test",
        "t_test_from_summary",
    ),
    "sums": ("SumDensity", "convolve", "sum_density"),
    "tails": ("TailIndex", "hill", "plot_tail", "survival", "tail_index"),
}

_EXPORTS = dict.fromkeys(_TORCH, "torch.distributions") | {
    name: f"benthic.distributions.{file}" for file, names in _OURS.items() for name in names
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
