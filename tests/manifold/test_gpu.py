"""Projections on CUDA: the same answers as on the CPU, on the device of the rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from benthic.manifold import PCA, TSNE, Isomap, LinearDiscriminantAnalysis
from benthic.manifold.tsne_device import repel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.spec("H-04"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_repulsion_is_that_of_all_pairs():
    rng = torch.Generator().manual_seed(0)
    for n in (1, 100, 1001):
        places = 5 * torch.randn(2, n, generator=rng)
        here, there = repel(places.double()), repel(places.cuda())
        torch.testing.assert_close(there[0].cpu().double(), here[0], rtol=1e-4, atol=1e-4)
        assert float(there[1]) == pytest.approx(float(here[1]), rel=1e-4, abs=1e-2)


@pytest.mark.parametrize("make", [lambda: PCA(5), lambda: LinearDiscriminantAnalysis(3)], ids=["pca", "lda"])
def test_codes_agree_with_the_cpu(make):
    X, y = load_digits(return_X_y=True)
    X = X[:, X.std(0) > 0.5]
    here = make().fit(X, y).transform(X)
    rows = torch.tensor(X, device="cuda")
    there = make().fit(rows, torch.tensor(y, device="cuda")).transform(rows)
    assert there.is_cuda
    np.testing.assert_allclose(np.abs(there.cpu().numpy()), np.abs(here), atol=1e-6)


def test_maps_are_made_on_the_device():
    X = torch.tensor(load_digits().data[:400], device="cuda")
    model = TSNE(perplexity=20, max_iter=400, random_state=0).fit(X)
    here = TSNE(perplexity=20, max_iter=400, random_state=0).fit(X.cpu())
    assert model.embedding_.is_cuda and model.kl_divergence_ < here.kl_divergence_ + 0.05
    again = TSNE(perplexity=20, max_iter=400, random_state=0).fit(X)
    torch.testing.assert_close(again.embedding_, model.embedding_, rtol=0, atol=0)
    assert Isomap(2, n_neighbors=8).fit(X).embedding_.is_cuda
