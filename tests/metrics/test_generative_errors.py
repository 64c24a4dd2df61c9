"""The standard errors of generative metrics against the spread over samples drawn again."""

from __future__ import annotations

import numpy as np
import pytest

from benthic import metrics

pytestmark = pytest.mark.spec("I-03")
REPEATS, N = 32, 150


def samples(seed, scale, shift):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, 3)), scale * rng.normal(size=(N, 3)) + shift, rng.normal(size=(N, 3)), rng


def all_of(seed, scale, shift):
    """Every metric of one draw, by name."""
    X, Y, held, rng = samples(seed, scale, shift)
    logits = np.concatenate([Y, -Y], 1)
    table = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    balls, memory = metrics.prdc(X, Y), metrics.memorization(X, held, Y, permutations=1)
    labels = {3: "category"}
    mixed = [np.column_stack([part, (part[:, 0] + part[:, 1] > rng.normal(size=N)).astype(float)]) for part in (X, Y)]
    return {
        "frechet_distance": metrics.frechet_distance(X, Y),
        "frechet_infinite": metrics.frechet_distance(X, Y, infinite=True),
        "kernel_distance": metrics.kernel_distance(X, Y),
        "kernel_blocks": metrics.kernel_distance(X, Y, block_size=15),
        "inception_score": metrics.inception_score(table),
        **balls._asdict(),
        "sliced_wasserstein": metrics.sliced_wasserstein(X, Y, directions=30, seed=seed),
        "sliced_first_order": metrics.sliced_wasserstein(X, Y, 1, directions=30, seed=seed),
        "exact_wasserstein": metrics.exact_wasserstein(X, Y),
        "memorization_ratio": memory.ratio,
        "memorization_share": memory.share,
        "authenticity": metrics.authenticity(X, Y),
        "marginal_mean": metrics.marginal_distances(*mixed, kinds=labels).mean,
        "association_mean": metrics.association_distances(*mixed, kinds=labels).mean,
    }


@pytest.fixture(scope="module", params=[(1.0, 0.0), (1.5, 1.0)], ids=["same", "wide"])
def draws(request):
    found = [all_of(1000 + seed, *request.param) for seed in range(REPEATS)]
    assert tuple(found[0]) == NAMES  # none is left out
    return found


NAMES = (
    *("frechet_distance", "frechet_infinite", "kernel_distance", "kernel_blocks", "inception_score"),
    *("precision", "recall", "density", "coverage"),
    *("sliced_wasserstein", "sliced_first_order", "exact_wasserstein"),
    *("memorization_ratio", "memorization_share", "authenticity", "marginal_mean", "association_mean"),
)


@pytest.mark.parametrize("name", NAMES)
def test_error_is_the_spread_over_new_samples(draws, name):
    """From three quarters to twice and a half the spread; the spread of 32 draws is itself known to an eighth.

    Above one are the jackknives, which err upward (Efron & Stein, 1981), and distances at zero, where the first order
    vanishes.
    """
    values, errors = (np.array([getattr(found[name], part) for found in draws]) for part in ("value", "stderr"))
    spread, error = values.std(ddof=1), np.sqrt(np.mean(errors**2))
    if spread < 0.004:  # a share that hardly leaves 1
        assert error < 0.05
        return
    assert 0.7 * spread < error < 2.6 * spread


def test_intervals_cover_the_truth_of_gaussians():
    """Two standard errors around the extrapolated Fréchet distance hold the closed form in about 95 of 100 draws."""
    inside = 0
    for seed in range(100):
        X, Y, _, _ = samples(seed, 1.5, 1.0)
        found = metrics.frechet_distance(X, Y, infinite=True)
        inside += abs(found.value - (3 * 0.5**2 + 3)) < 2 * found.stderr
    assert inside >= 87  # fewer in less than one of a thousand cases for a true 95


def test_intervals_of_the_kernel_distance_cover_its_truth():
    """With a linear kernel the truth is the squared distance of the means."""
    inside = 0
    for seed in range(100):
        X, Y, _, _ = samples(seed, 1.5, 1.0)
        found = metrics.kernel_distance(X, Y, degree=1, gamma=1.0)
        inside += abs(found.value - 3) < 2 * found.stderr
    assert inside >= 87
