"""Documents of planted topics."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse


def plant(documents=400, tokens=60, topics=4, words=80, seed=0, alpha=0.15, sparsity=0.08):
    """Counts (documents, words), the topics (topics, words) and the shares (documents, topics)."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(words, sparsity), topics)
    shares = rng.dirichlet(np.full(topics, alpha), documents)
    counts = np.stack([rng.multinomial(tokens, law / law.sum()) for law in shares @ phi])
    return counts.astype(float), phi, shares


@pytest.fixture(scope="session")
def planted():
    return plant()


@pytest.fixture(scope="session")
def sparse_planted(planted):
    return scipy.sparse.csr_array(planted[0])


def matched(found, truth):
    """For each planted topic the total variation to the topic it is matched with (each once)."""
    from scipy.optimize import linear_sum_assignment

    apart = np.abs(found[:, None] - truth[None]).sum(2) / 2
    rows, columns = linear_sum_assignment(apart)
    return apart[rows, columns], rows, columns
