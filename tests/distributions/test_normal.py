"""The multivariate normal law against Bayes' rule, sampling, SciPy and pointwise products."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from benthic.base.errors import InvalidInput
from benthic.distributions import MultivariateNormal

pytestmark = pytest.mark.spec("B-01")
RNG = np.random.default_rng(0)


def random_law(d, seed=0, batch=()):
    g = torch.Generator().manual_seed(seed)
    root = torch.randn(*batch, d, d, generator=g, dtype=torch.float64)
    return MultivariateNormal(
        torch.randn(*batch, d, generator=g, dtype=torch.float64), root @ root.mT + 0.1 * torch.eye(d)
    )


def test_density_marginal_and_entropy_agree_with_scipy():
    law = random_law(4)
    x = torch.tensor(RNG.standard_normal((7, 4)))
    ref = stats.multivariate_normal(law.loc, law.covariance_matrix)
    np.testing.assert_allclose(law.log_prob(x), ref.logpdf(x), rtol=1e-11)
    np.testing.assert_allclose(law.entropy(), ref.entropy(), rtol=1e-12)
    part = law.marginal([2, 0])
    ref = stats.multivariate_normal(law.loc[[2, 0]], law.covariance_matrix[[2, 0]][:, [2, 0]])
    np.testing.assert_allclose(part.log_prob(x[:, [2, 0]]), ref.logpdf(x[:, [2, 0]]), rtol=1e-11)


@pytest.mark.parametrize("known", [[0], [3, 1], [-1]])
def test_joint_is_marginal_times_conditional(known):
    law = random_law(4, seed=1)
    x = torch.tensor(RNG.standard_normal((6, 4)))
    places = [i % 4 for i in known]
    free = [i for i in range(4) if i not in places]
    rest = law.conditional(known, x[:, places])
    assert rest.batch_shape == (6,)
    joint = law.marginal(known).log_prob(x[:, places]) + rest.log_prob(x[:, free])
    torch.testing.assert_close(joint, law.log_prob(x), rtol=1e-10, atol=1e-10)


def test_affine_maps_have_the_density_of_the_inverse_map():
    law = random_law(3, seed=2)
    A = torch.tensor(RNG.standard_normal((3, 3)))
    b = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    x = torch.tensor(RNG.standard_normal((5, 3)))
    moved = law.affine(A, b).log_prob(x @ A.T + b)
    torch.testing.assert_close(moved + torch.linalg.slogdet(A).logabsdet, law.log_prob(x), rtol=1e-9, atol=1e-9)


def test_a_sum_is_the_affine_map_of_the_pair():
    p, q = random_law(2, 3), random_law(2, 4)
    pair = MultivariateNormal(torch.cat([p.loc, q.loc]), torch.block_diag(p.covariance_matrix, q.covariance_matrix))
    whole = pair.affine(torch.cat([torch.eye(2), torch.eye(2)], 1))
    torch.testing.assert_close((p + q).covariance_matrix, whole.covariance_matrix)
    torch.testing.assert_close((p + q).loc, whole.loc)
    torch.testing.assert_close((p + 3.0).loc, p.loc + 3)


def test_products_of_densities_are_normal_times_a_constant():
    p, q = random_law(3, 5), random_law(3, 6)
    both, constant = p.product(q)
    x = torch.tensor(RNG.standard_normal((9, 3)))
    torch.testing.assert_close(p.log_prob(x) + q.log_prob(x), both.log_prob(x) + constant, rtol=1e-9, atol=1e-9)


def test_batches_and_float32():
    law = random_law(3, 7, batch=(4,))
    assert law.marginal([0, 1]).batch_shape == (4,)
    assert law.conditional([2], torch.zeros(4, 1)).loc.shape == (4, 2)
    small = MultivariateNormal(torch.zeros(2), torch.eye(2))
    assert small.affine(torch.ones(1, 2)).loc.dtype == torch.float32
    wide = small.expand([5])
    assert isinstance(wide, MultivariateNormal) and wide.batch_shape == (5,)


def test_gradients_reach_mean_and_covariance():
    x = torch.tensor([0.3, -0.2], dtype=torch.float64)

    def f(loc, root):
        law = MultivariateNormal(loc, root @ root.T + torch.eye(3))
        return law.conditional([0], loc.new_ones(1)).log_prob(x)

    loc = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    root = torch.tensor(RNG.standard_normal((3, 3)), requires_grad=True)
    assert torch.autograd.gradcheck(f, (loc, root))


def test_a_singular_law_lives_on_its_subspace():
    C = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]], dtype=torch.float64)
    law = MultivariateNormal(torch.zeros(3, dtype=torch.float64), C, allow_singular=True)
    ref = stats.multivariate_normal(np.zeros(3), C, allow_singular=True)
    x = torch.tensor([[0.5, 0.5, -1.0], [0.5, -0.5, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(law.log_prob(x[0]), torch.tensor(ref.logpdf(x[0])))
    assert float(law.log_prob(x[1])) == -torch.inf
    np.testing.assert_allclose(law.entropy(), ref.entropy(), rtol=1e-12)
    drawn = law.sample((50,))
    torch.testing.assert_close(drawn[:, 0], drawn[:, 1], atol=1e-7, rtol=0)
    assert float(law.conditional([0], [0.5]).loc[0]) == pytest.approx(0.5)
    # a regular covariance is not changed by the permission
    assert not MultivariateNormal([0.0], [[1.0]], allow_singular=True).singular


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"covariance_matrix": [[1.0, 2.0], [0.0, 1.0]]}, "not symmetric"),
        ({"covariance_matrix": [[1.0, 1.0], [1.0, 1.0]]}, "singular.*allow_singular=True"),
        ({"covariance_matrix": [[1.0, 2.0], [2.0, 1.0]]}, "not positive definite"),
        ({"precision_matrix": [[1.0, 2.0], [2.0, 1.0]]}, "precision_matrix is not positive definite"),
        ({"covariance_matrix": [[1.0]]}, "needs a matrix of 2 by 2"),
        ({"covariance_matrix": [[1.0, float("nan")], [0.0, 1.0]]}, "not finite"),
        ({"scale_tril": [[1.0, 1.0], [0.0, 1.0]]}, "lower triangular"),
        ({}, "no matrix given"),
    ],
)
def test_wrong_parameters_get_one_sentence(arguments, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        MultivariateNormal([0.0, 0.0], **arguments)


def test_wrong_questions_get_one_sentence():
    law = random_law(3)
    for call, sentence in [
        (lambda: law.marginal([3]), "between 0 and 2"),
        (lambda: law.marginal([0, 0]), "different"),
        (lambda: law.conditional([0], [1.0, 2.0]), "last size must be 1"),
        (lambda: law.conditional([0, 1, 2], [1.0, 2.0, 3.0]), "leave one free"),
        (lambda: law.affine(torch.ones(1, 2)), "3 columns"),
        (lambda: law + random_law(2), "same"),
        (lambda: law.affine(torch.ones(2, 3)), "singular"),
    ]:
        with pytest.raises(InvalidInput, match=sentence):
            call()
