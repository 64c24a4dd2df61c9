"""Large sparse chains: stationary laws by band, power and multigrid against closed forms and each other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import torch

from benthic.base.errors import InvalidInput
from benthic.samplers import MarkovChain
from benthic.samplers.markov.hitting import _solve_closed
from benthic.samplers.markov.multigrid import Multigrid

pytestmark = pytest.mark.spec("C-02")


def normalized(A) -> scipy.sparse.csr_matrix:
    A = scipy.sparse.csr_matrix(A)
    return scipy.sparse.csr_matrix(A.multiply(1 / A.sum(1)))


def web(n: int, seed: int = 0, damping: float = 0.85) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """PageRank with the jump made through one extra state, so that the matrix stays sparse."""
    rng = np.random.default_rng(seed)
    links = np.minimum((n * rng.random(8 * n) ** 3).astype(int), n - 1)  # few pages get most links
    A = scipy.sparse.coo_matrix((np.ones(8 * n), (np.repeat(np.arange(n), 8), links)), shape=(n, n))
    P = normalized(A)
    jump = scipy.sparse.csr_matrix(np.full((1, n), 1 / n))
    out = scipy.sparse.csr_matrix(np.full((n, 1), 1 - damping))
    return scipy.sparse.bmat([[damping * P, out], [jump, None]], format="csr"), P


def page_rank(P, damping: float = 0.85) -> np.ndarray:
    """The fixed point of r = damping r P + (1 - damping) / n, iterated until 0.85^200 = 1e-14 of the start is left."""
    n = P.shape[0]
    rank = np.full(n, 1 / n)
    for _ in range(220):
        rank = damping * (rank @ P) + (1 - damping) / n
    return rank


def grid(m: int, seed: int = 0) -> scipy.sparse.csr_matrix:
    """Symmetric random weights on the edges of an m by m square."""
    line = scipy.sparse.diags([np.ones(m - 1)], [1])
    half = scipy.sparse.csr_matrix(
        scipy.sparse.kron(scipy.sparse.eye(m), line) + scipy.sparse.kron(line, scipy.sparse.eye(m))
    )
    half.data = np.random.default_rng(seed).uniform(0.01, 1, half.nnz)
    return half + half.T


def tandem(m: int) -> scipy.sparse.csr_matrix:
    """Two queues in a row with room for m - 1 customers each; not reversible, a law over many decades."""
    place = np.arange(m * m).reshape(m, m)
    moves = [
        (place[:-1], place[1:], 0.25),
        (place[1:, :-1], place[:-1, 1:], 0.3),
        (place[:, 1:], place[:, :-1], 0.35),
    ]
    rows, columns = (np.concatenate([move[k].ravel() for move in moves]) for k in (0, 1))
    rates = np.concatenate([np.full(a.size, p) for a, _, p in moves])
    P = scipy.sparse.coo_matrix((rates, (rows, columns)), shape=(m * m, m * m)).tocsr()
    return scipy.sparse.csr_matrix(P + scipy.sparse.diags(1 - np.asarray(P.sum(1)).ravel()))


def check_web(n: int) -> None:
    Q, P = web(n)
    chain = MarkovChain(Q)
    report = chain.stationary_report()
    pages = report.law[:-1].numpy()
    assert report.residual < 1e-12
    np.testing.assert_allclose(pages / pages.sum(), page_rank(P), rtol=0, atol=2e-12)
    assert 0.5 * np.abs(pages / pages.sum() - page_rank(P)).sum() < 1e-11


def test_page_rank_of_ten_thousand_pages():
    check_web(10_000)


@pytest.mark.slow
def test_page_rank_of_a_million_pages():
    check_web(10**6)


def check_grid(m: int, method: str = "auto") -> None:
    A = grid(m)
    degree = np.asarray(A.sum(1)).ravel()
    report = MarkovChain(normalized(A)).stationary_report(method)
    assert 0.5 * np.abs(report.law.numpy() - degree / degree.sum()).sum() < 1e-11
    assert report.residual < 1e-13 and report.error < 1e-11


@pytest.mark.parametrize(("m", "method"), [(60, "band"), (60, "multigrid"), (150, "auto")])
def test_walk_on_a_square_has_the_law_of_its_degrees(m, method):
    check_grid(m, method)


@pytest.mark.slow
def test_walk_on_a_square_of_a_million_points():
    check_grid(1000)


@pytest.mark.slow
def test_birth_and_death_on_a_million_states():
    n = 10**6
    up = np.random.default_rng(0).uniform(0.2, 0.4, n - 1)
    P = scipy.sparse.diags([up, up], [1, -1]).tocsr()  # symmetric: the law is uniform
    P = P + scipy.sparse.diags(1 - np.asarray(P.sum(1)).ravel())
    chain = MarkovChain(P)
    np.testing.assert_allclose(chain.stationary(), np.full(n, 1 / n), rtol=1e-9)
    assert chain.ergodic and chain.reversible


def test_methods_agree_on_tandem_queues():
    chain = MarkovChain(tandem(30))
    exact = chain.stationary("band")
    assert float(exact.max() / exact.min()) > 1e6
    for method in ("gth", "lu", "power", "multigrid"):
        report = chain.stationary_report(method)
        assert report.method == method and report.residual < 1e-11
        distance = 0.5 * float((report.law - exact).abs().sum())
        assert distance < 1e-10
    assert not chain.reversible


def test_nearly_separate_parts_are_weighed_right():
    size, leak = 1500, 1e-6
    parts = [normalized(scipy.sparse.random(size, size, 4 / size, random_state=k) + _ring(size)) for k in range(2)]
    P = scipy.sparse.block_diag(parts).tolil()
    for i, j, p in ((0, size, leak), (size, 0, 2 * leak)):
        P[i] = P[i] * (1 - p)
        P[i, j] = p
    chain = MarkovChain(P.tocsr())
    law = chain.stationary("multigrid").numpy()
    np.testing.assert_allclose(law[0] * leak, law[size] * 2 * leak, rtol=1e-6)  # flows across balance


def test_parts_at_rest_by_themselves_are_weighed_right():
    # Uniform in each part is at rest but for a flow of 7e-13, far below what looks like convergence.
    rng, size, leak = np.random.default_rng(0), 700, 1e-9
    turns = [scipy.sparse.eye(size).tocsr()[rng.permutation(size)] for _ in range(8)]
    parts = [_ring(size) * 2 + sum(turns[k : k + 4]) * 0.15 for k in (0, 4)]
    P = scipy.sparse.block_diag(parts).tolil()
    for i, j, p in ((0, size, leak), (size, 0, 2 * leak)):
        P[i] = P[i] * (1 - p)
        P[i, j] = p
    report = MarkovChain(normalized(P)).stationary_report()
    np.testing.assert_allclose(float(report.law[:size].sum()), 2 / 3, rtol=1e-6)


def _ring(n: int):
    return scipy.sparse.coo_matrix((np.full(n, 0.2), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))


def test_multigrid_solves_a_poisson_equation():
    A = grid(50)
    A = scipy.sparse.csr_matrix(scipy.sparse.diags(np.asarray(A.sum(1)).ravel() + 1e-3) - A)
    b = np.random.default_rng(1).standard_normal(2500)
    x, residual = Multigrid(A).solve(b)
    np.testing.assert_allclose(x, scipy.sparse.linalg.spsolve(A.tocsc(), b), rtol=1e-7, atol=1e-7)
    assert residual <= 1e-12


@pytest.mark.parametrize("kind", ["scipy", "coo", "csr"])
def test_sparse_and_dense_give_the_same_answers(kind):
    P = normalized(scipy.sparse.random(60, 60, 0.1, random_state=0) + _ring(60))
    dense = MarkovChain(P.toarray())
    tensor = torch.tensor(P.toarray())
    chain = MarkovChain({"scipy": P, "coo": tensor.to_sparse_coo(), "csr": tensor.to_sparse_csr()}[kind])
    for ask in (
        lambda c: c.stationary(),
        lambda c: c.law(3, 5),
        lambda c: c.law(2, torch.full((4, 60), 1 / 60)),
        lambda c: c.n_step_matrix(4),
        lambda c: c.hitting_times([7, 9]),
        lambda c: c.hitting_probabilities(7),
        lambda c: c.total_variation([0, 3, 9]),
        lambda c: c.total_variation([0, 3, 9], start=1),
        lambda c: torch.tensor(float(c.mixing_time(start=4))),
        lambda c: torch.tensor(c.spectral_gap()),
        lambda c: c.log_prob(c.sample(5, 10, seed=1)),
        lambda c: c.sample(50, 8, seed=2),
        lambda c: c.time_reversal().law(2, 0),
        lambda c: c.lazy().law(2, 0),
    ):
        np.testing.assert_allclose(ask(chain), ask(dense), atol=1e-10)
    assert chain.periods == dense.periods and chain.reversible == dense.reversible


def test_hitting_times_on_a_long_line():
    n = 20_000  # a reflecting walk from 0 needs i^2 steps to i
    P = scipy.sparse.diags([np.full(n - 1, 0.5), np.full(n - 1, 0.5)], [1, -1]).tolil()
    P[0, 1], P[n - 1, n - 2] = 1, 1
    times = MarkovChain(P.tocsr()).hitting_times(n - 1).numpy()
    i = np.arange(n, dtype=float)
    np.testing.assert_allclose(times, (n - 1.0) ** 2 - i**2, rtol=1e-6)


def check_kac(m: int) -> None:
    A = grid(m)
    P, degree = normalized(A), np.asarray(A.sum(1)).ravel()
    times = MarkovChain(P).hitting_times(0).numpy()
    assert np.abs((times - 1 - P @ times)[1:]).max() < 1e-12 * times.max()
    np.testing.assert_allclose(1 + P[0] @ times, degree.sum() / degree[0], rtol=1e-8)  # Kac: mean return is 1 / pi


def test_mean_return_times_on_a_square():
    check_kac(60)


@pytest.mark.slow
def test_mean_return_times_on_a_square_too_wide_for_a_band():
    check_kac(320)


@pytest.mark.parametrize("matrix", [grid(25), tandem(25)])
def test_closed_multigrid_for_hitting_agrees_with_sparse_lu(matrix):
    P = normalized(matrix)
    A = scipy.sparse.csr_matrix((scipy.sparse.identity(625) - P)[1:][:, 1:])
    b = np.random.default_rng(0).random((624, 2))
    exact = scipy.sparse.linalg.splu(A.tocsc()).solve(b)
    np.testing.assert_allclose(_solve_closed(A, b), exact, rtol=1e-7, atol=1e-8 * exact.max())


def _product_walk(step: np.ndarray, d: int) -> scipy.sparse.csr_matrix:
    """One of d coordinates, picked at random, takes a step; eigenvalues are means of d eigenvalues of the step."""
    k = len(step)
    terms = [
        scipy.sparse.kron(scipy.sparse.kron(scipy.sparse.eye(k**i), step), scipy.sparse.eye(k ** (d - 1 - i)))
        for i in range(d)
    ]
    return scipy.sparse.csr_matrix(sum(terms) / d)


def test_gap_of_large_chains_by_arnoldi():
    cube = MarkovChain(_product_walk(np.full((2, 2), 0.5), 12))  # 4096 states, second eigenvalue 11/12
    np.testing.assert_allclose([cube.spectral_gap(), cube.spectral_gap(absolute=False)], 1 / 12, rtol=1e-8)
    turning = MarkovChain(_product_walk(0.5 * np.eye(3) + 0.5 * np.roll(np.eye(3), 1, 1), 7))  # 2187 states
    second = (6 + 0.5 + 0.5 * np.exp(2j * np.pi / 3)) / 7
    np.testing.assert_allclose(turning.spectral_gap(), 1 - abs(second), rtol=1e-8)
    np.testing.assert_allclose(turning.spectral_gap(absolute=False), 1 - second.real, rtol=1e-8)


def test_large_sparse_powers_stay_sparse_or_refuse():
    n = 10_000
    chain = MarkovChain(normalized(_ring(n) + _ring(n).T))
    entries = chain.n_step_matrix(4).to_sparse_coo().coalesce()
    at, row = entries.indices()[1], entries.values()[entries.indices()[0] == 50]
    assert at[entries.indices()[0] == 50].tolist() == [46, 48, 50, 52, 54]
    np.testing.assert_allclose(row, np.array([1, 4, 6, 4, 1]) / 16)
    with pytest.raises(InvalidInput, match="total_variation: a full 10000 by 10000 matrix .* give a start"):
        chain.total_variation(3)
    with pytest.raises(InvalidInput, match="'gth' fills a 10000 by 10000 matrix"):
        chain.stationary("gth")
