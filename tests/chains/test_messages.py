"""Messages along chains against the sum over every path."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.chains.messages import log_partition, marginals, sample_paths, viterbi

pytestmark = pytest.mark.spec("H-05")


def potentials(n, t, k, kind, seed=0, zeros=False):
    generator = torch.Generator().manual_seed(seed)
    unary = 2 * torch.randn(n, t, k, generator=generator, dtype=torch.float64)
    shape = {"shared": (k, k), "by step": (t - 1, k, k), "by chain": (n, t - 1, k, k)}[kind]
    pairwise = 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)
    if zeros:
        pairwise[..., 0, 1] = pairwise[..., 2, 0] = -torch.inf
    return unary, pairwise


def enumerate_paths(unary, pairwise):
    """Every path of one chain (t, k) with its log-potential; pairwise (t - 1, k, k)."""
    t, k = unary.shape
    paths = list(product(range(k), repeat=t))
    values = [
        sum(unary[i, s] for i, s in enumerate(p)) + sum(pairwise[i, p[i], p[i + 1]] for i in range(t - 1))
        for p in paths
    ]
    return np.array(paths), np.array([float(v) for v in values])


def chain_of(unary, pairwise, i, length):
    n, t, k = unary.shape
    return unary[i, :length], pairwise.expand(n, t - 1, k, k)[i, : length - 1]


@pytest.mark.parametrize("method", ["loops", "torch"])
@pytest.mark.parametrize("kind", ["shared", "by step", "by chain"])
@pytest.mark.parametrize("zeros", [False, True])
def test_sums_maxima_and_marginals_are_those_of_all_paths(method, kind, zeros):
    unary, pairwise = potentials(3, 5, 3, kind, zeros=zeros)
    lengths = [5, 1, 3]
    total = log_partition(unary, pairwise, lengths, method=method)
    found = marginals(unary, pairwise, lengths, method=method)
    best, score = viterbi(unary, pairwise, lengths, method=method)
    torch.testing.assert_close(found.log_partition, total, rtol=1e-13, atol=1e-13)
    for i, length in enumerate(lengths):
        paths, values = enumerate_paths(*chain_of(unary, pairwise, i, length))
        assert float(total[i]) == pytest.approx(np.logaddexp.reduce(values), abs=1e-12)
        p = np.exp(values - np.logaddexp.reduce(values))
        for step, state in product(range(length), range(3)):
            assert float(found.single[i, step, state]) == pytest.approx(p[paths[:, step] == state].sum(), abs=1e-13)
        for step, a, b in product(range(length - 1), range(3), range(3)):
            both = (paths[:, step] == a) & (paths[:, step + 1] == b)
            assert float(found.pairs[i, step, a, b]) == pytest.approx(p[both].sum(), abs=1e-13)
        assert best[i, :length].tolist() == paths[values.argmax()].tolist()
        assert float(score[i]) == pytest.approx(values.max(), abs=1e-12)
        assert (best[i, length:] == -1).all() and (found.single[i, length:] == 0).all()


@pytest.mark.parametrize("method", ["loops", "torch"])
@pytest.mark.parametrize("kind", ["shared", "by chain"])
def test_gradients(method, kind):
    unary, pairwise = potentials(2, 4, 3, kind)
    inputs = (unary.requires_grad_(), pairwise.requires_grad_())
    assert torch.autograd.gradcheck(lambda u, v: log_partition(u, v, [4, 2], method=method), inputs)
    if method == "torch":
        assert torch.autograd.gradgradcheck(lambda u, v: log_partition(u, v, [4, 2], method=method), inputs)
        assert torch.autograd.gradcheck(lambda u, v: marginals(u, v, [4, 2], method=method)[1], inputs)


def test_impossible_moves_have_finite_gradients():
    unary, pairwise = potentials(2, 4, 3, "shared", zeros=True)
    grads = []
    for method in ("loops", "torch"):
        leaves = unary.clone().requires_grad_(), pairwise.clone().requires_grad_()
        grads.append(torch.autograd.grad(log_partition(*leaves, method=method).sum(), leaves))
    for ours, other in zip(*grads, strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-12, atol=1e-14)


def test_chains_without_a_possible_path():
    unary = torch.zeros(2, 3, 2, dtype=torch.float64)
    unary[1, 1] = -torch.inf
    for method in ("loops", "torch"):
        found = marginals(unary, torch.zeros(2, 2), method=method)
        assert found.log_partition[0] == pytest.approx(3 * np.log(2)) and found.log_partition[1] == -torch.inf
        assert (found.single[1] == 0).all() and (found.single[0] - 0.5).abs().max() < 1e-15
    with pytest.raises(InvalidInput, match="chain 1 has no possible path"):
        sample_paths(unary, torch.zeros(2, 2))


def test_evidence_that_turns_late_is_not_lost():
    """Two states that never mix: early steps speak for one beyond the range of floats, later ones for the other."""
    unary = torch.zeros(1, 90, 2, dtype=torch.float64)
    unary[0, :30, 1] = -50.0
    unary[0, 30:, 0] = -50.0
    never = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]], dtype=torch.float64)
    found = marginals(unary, never)
    assert float(found.log_partition) == pytest.approx(-1500.0)
    assert (found.single[0, :, 1] == 1.0).all()
    nearly = torch.tensor([[0.0, -2000.0], [-2000.0, 0.0]], dtype=torch.float64)
    assert float(log_partition(unary, nearly)) == pytest.approx(-1500.0)
    single = marginals(unary, nearly).single[0, :, 1]
    assert (single > 1 - 1e-12).all()


def test_long_chains_stay_stable():
    unary, pairwise = potentials(1, 20_000, 3, "shared", seed=3)
    quick = log_partition(1e3 * unary, pairwise)
    slow = log_partition(1e3 * unary, pairwise.expand(19_999, 3, 3).clone(), method="torch")
    assert float(quick) == pytest.approx(float(slow), rel=20_000 * 2.3e-16)
    assert torch.isfinite(marginals(1e3 * unary, pairwise).single).all()


def test_draws_follow_the_marginals():
    unary, pairwise = potentials(1, 4, 3, "by step", seed=2, zeros=True)
    n = 20_000
    drawn = sample_paths(unary.expand(n, 4, 3), pairwise, generator=torch.Generator().manual_seed(0))
    truth = marginals(unary, pairwise)
    shares = torch.nn.functional.one_hot(drawn, 3).double().mean(0)
    assert (shares - truth.single[0]).abs().max() < 5 * 0.5 / n**0.5
    moves = torch.zeros(3, 3, 3, dtype=torch.float64)
    for i in range(3):
        moves[i].view(-1).index_add_(0, 3 * drawn[:, i] + drawn[:, i + 1], torch.full((n,), 1 / n, dtype=torch.float64))
    assert (moves - truth.pairs[0]).abs().max() < 5 * 0.5 / n**0.5


def test_one_chain_and_single_precision():
    unary, pairwise = potentials(1, 6, 4, "shared")
    one = log_partition(unary[0].float(), pairwise.float())
    assert one.shape == () and one.dtype == torch.float32
    assert float(one) == pytest.approx(float(log_partition(unary, pairwise)[0]), rel=1e-6)
    assert float(log_partition(unary[0].numpy(), pairwise.numpy())) == pytest.approx(float(one), rel=1e-6)


@pytest.mark.parametrize(
    ("unary", "pairwise", "lengths", "says"),
    [
        (torch.zeros(2, 0, 3), torch.zeros(3, 3), None, "none of them 0"),
        (torch.zeros(2, 4, 3), torch.zeros(2, 2), None, r"must be one of \(3, 3\)"),
        (torch.zeros(2, 4, 3), torch.zeros(3, 3), [4, 0], "from 1 to 4"),
        (torch.zeros(2, 4, 3), torch.zeros(3, 3), [4], "2 whole numbers"),
        (torch.full((2, 4, 3), torch.nan), torch.zeros(3, 3), None, "unary contains NaN"),
        (torch.zeros(2, 4, 3), torch.full((3, 3), torch.inf), None, "pairwise contains NaN or plus"),
    ],
)
def test_bad_input(unary, pairwise, lengths, says):
    with pytest.raises(InvalidInput, match=says):
        log_partition(unary, pairwise, lengths)


def test_a_method_is_named():
    with pytest.raises(InvalidInput, match="did you mean 'torch'"):
        viterbi(torch.zeros(2, 2), torch.zeros(2, 2), method="torhc")
