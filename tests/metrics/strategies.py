"""Random labels, scores with many ties, and weights for the tests of this folder, and what equal means there."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

few = settings(max_examples=25, deadline=None)
NAMES = np.array(["ant", "bee", "cat", "dog"])


def assert_same(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@st.composite
def generators(draw):
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


@st.composite
def answered(draw, classes=4, strings=True):
    """Labels, answers and weights; the classes may be rare or absent on either side."""
    rng = draw(generators())
    n, k = draw(st.integers(3, 40)), draw(st.integers(2, classes))
    y, predicted = rng.choice(k, n, p=rng.dirichlet(np.ones(k))), rng.integers(k, size=n)
    y[:2] = [0, 1]
    weights = draw(st.sampled_from([None, "whole", "real", "zeros"]))
    w = {
        None: None,
        "whole": rng.integers(1, 4, n).astype(float),
        "real": rng.exponential(size=n) + 0.01,
        "zeros": np.where(np.arange(n) < 2, 1.0, rng.integers(0, 3, n)),
    }[weights]
    if strings and draw(st.booleans()):
        y, predicted = NAMES[y], NAMES[predicted]
    return y, predicted, w


@st.composite
def scored(draw):
    """Truth values with both kinds, scores on few levels, weights."""
    rng = draw(generators())
    n, levels = draw(st.integers(2, 50)), draw(st.sampled_from([1, 2, 3, 7, 10**6]))
    y = rng.random(n) < rng.uniform(0.1, 0.9)
    y[:2] = [True, False]
    scores = rng.integers(-levels, levels, n) / levels
    w = draw(st.sampled_from([None, rng.integers(1, 4, n).astype(float), rng.exponential(size=n) + 0.01]))
    return y, scores, w


@st.composite
def tabled(draw):
    """Labels, a table of probabilities with ties, weights; every class occurs."""
    rng = draw(generators())
    k = draw(st.integers(2, 5))
    n = draw(st.integers(2 * k, 50))
    y = np.concatenate([np.arange(k), np.arange(k), rng.integers(k, size=n - 2 * k)])
    table = rng.integers(1, 6, (n, k)).astype(float)
    w = draw(st.sampled_from([None, rng.exponential(size=n) + 0.01]))
    return y, table / table.sum(1, keepdims=True), w
