"""R-hat, effective sizes and errors: against loops written from the formulas, known chains, and ArviZ."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from benthic.base.errors import InvalidInput
from benthic.samplers.judging import diagnostics
from benthic.samplers.judging.summary import wandering

pytestmark = pytest.mark.spec("C-03")


def autoregressive(rho, chains, draws, seed=0, entries=()):
    """Stationary chains x_t = rho x_{t-1} + sqrt(1 - rho^2) e_t of variance 1."""
    noise = torch.randn(draws, chains, *entries, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    noise[1:] *= math.sqrt(1 - rho**2)
    for t in range(1, draws):
        noise[t] += rho * noise[t - 1]
    return noise.transpose(0, 1)


def halves(x):
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def slow_rhat(x):
    n = x.shape[1]
    within = np.mean([np.var(chain, ddof=1) for chain in x])
    between = n * np.var([chain.mean() for chain in x], ddof=1)
    return math.sqrt(((n - 1) / n * within + between / n) / within)


def scores(x):
    return stats.norm.ppf((stats.rankdata(x).reshape(x.shape) - 3 / 8) / (x.size + 1 / 4))


def slow_ess(x):
    """Sums written out: Vehtari et al., 2021, equations 10 to 13, with Geyer's initial monotone sequence."""
    n = x.shape[1]
    covariances = [
        np.mean([np.sum((c[: n - t] - c.mean()) * (c[t:] - c.mean())) / n for c in x]) for t in range(n)
    ]  # biased, mean over chains
    within = covariances[0] * n / (n - 1)
    total = within * (n - 1) / n + np.var([c.mean() for c in x], ddof=1)
    rho = [1.0] + [1 - (within - covariances[t]) / total for t in range(1, n)]
    pairs, smallest, k = 0.0, math.inf, 0
    while k < (n - 3) // 2 and rho[2 * k] + rho[2 * k + 1] > 0:  # the last lags rest on too few products
        smallest = min(smallest, rho[2 * k] + rho[2 * k + 1])
        pairs += smallest
        k += 1
    tau = -1 + 2 * pairs + max(rho[2 * k], 0)
    return x.size / max(tau, 1 / math.log10(x.size))


def kinds():
    yield "smooth", autoregressive(0.7, 3, 60)
    yield "alternating", autoregressive(-0.6, 4, 51)
    yield "heavy", torch.tan(autoregressive(0.5, 3, 60).clamp(-1.5, 1.5))
    yield "tied", autoregressive(0.8, 4, 80).round()
    yield "drifting", autoregressive(0.3, 3, 70) + torch.arange(70) / 10


@pytest.mark.parametrize(("name", "x"), list(kinds()))
def test_against_loops_written_from_the_formulas(name, x):
    a = x.numpy()
    h = halves(a)
    assert diagnostics.split_rhat(x).item() == pytest.approx(slow_rhat(h), rel=1e-10)
    expected = max(slow_rhat(scores(h)), slow_rhat(scores(np.abs(h - np.median(h)))))
    assert diagnostics.rhat(x).item() == pytest.approx(expected, rel=1e-10)
    assert diagnostics.ess(x).item() == pytest.approx(slow_ess(h), rel=1e-9)
    assert diagnostics.ess_bulk(x).item() == pytest.approx(slow_ess(scores(h)), rel=1e-9)
    tails = [slow_ess(halves((a <= np.quantile(a, q)).astype(float))) for q in (0.05, 0.95)]
    assert diagnostics.ess_tail(x).item() == pytest.approx(min(tails), rel=1e-9)
    assert diagnostics.mcse_mean(x).item() == pytest.approx(a.std(ddof=1) / math.sqrt(slow_ess(h)), rel=1e-9)


def test_hand_worked_values():
    # Half chains (0, 1), (2, 3), (4, 5), (6, 7): W = 1/2 and the variance of means 20/3.
    assert diagnostics.split_rhat(torch.arange(8.0).reshape(2, 4)).item() == pytest.approx(math.sqrt(83 / 6))
    # Changes 2, -1, 3: mean square 14/3; values 0, 2, 1, 4 have variance 35/12.
    assert diagnostics.bfmi([[0.0, 2.0, 1.0, 4.0]]).item() == pytest.approx(14 / 3 / (35 / 12))
    # Deviations -1, 0, 1: lag 1 has 0, lag 2 has -1, over a sum of squares of 2.
    assert diagnostics.autocorrelation([[1.0, 2.0, 3.0]])[0].tolist() == pytest.approx([1.0, 0.0, -0.5])


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_effective_size_of_autoregressive_chains_is_the_known_one(rho):
    # N (1 - rho) / (1 + rho); chains of 4000 estimate tau to a few percent, the mean of 25 to about 1 %.
    x = autoregressive(rho, 4, 4000, entries=(25,))
    expected = 16000 * (1 - rho) / (1 + rho)
    for function in (diagnostics.ess, diagnostics.ess_bulk):
        assert float(function(x).mean()) == pytest.approx(expected, rel=0.06)


def test_errors_of_mean_sd_and_quantile_cover_the_truth():
    # 400 repetitions: each z has variance 1 up to 3.5 * sqrt(2 / 400) = 0.25, and a little for the estimated error.
    x = autoregressive(0.6, 4, 500, entries=(400,))
    wide = x.flatten(0, 1)
    cases = [
        (wide.mean(0), 0.0, diagnostics.mcse_mean(x)),
        (wide.std(0), 1.0, diagnostics.mcse_sd(x)),
        (wide.quantile(0.9, 0), stats.norm.ppf(0.9), diagnostics.mcse_quantile(x, 0.9)),
    ]
    for estimate, truth, error in cases:
        z = (estimate - truth) / error
        assert abs(float(z.mean())) < 0.25
        assert 0.75 < float(z.square().mean()) < 1.35


def test_entries_are_independent_and_keep_shape_dtype_and_order():
    x = autoregressive(0.5, 4, 100, entries=(3, 2)) * torch.tensor([1.0, 5.0])
    for function in (diagnostics.rhat, diagnostics.ess_bulk, diagnostics.ess_tail, diagnostics.mcse_sd):
        both = function(x)
        assert both.shape == (3, 2) and both.dtype == torch.float64
        torch.testing.assert_close(both[1, 1], function(x[:, :, 1, 1]))
        assert function(x.float()).dtype == torch.float32
    assert diagnostics.quantiles(x, [0.1, 0.9]).shape == (2, 3, 2)
    torch.testing.assert_close(diagnostics.quantiles(x, [0.1]), x.flatten(0, 1).quantile(0.1, 0)[None])


def test_blocks_of_entries_change_nothing(monkeypatch):
    x = autoregressive(0.5, 2, 50, entries=(7,))
    whole = diagnostics.rhat(x)
    monkeypatch.setattr(diagnostics, "_BLOCK", 250)
    assert torch.equal(diagnostics.rhat(x), whole)


def test_chains_that_disagree_are_seen():
    x = autoregressive(0.0, 4, 500)
    away, wide, drift = x.clone(), x.clone(), x + torch.arange(500) / 250
    away[0] += 1
    wide[0] *= 4
    assert diagnostics.rhat(x) < 1.01
    assert diagnostics.rhat(away) > 1.05 and diagnostics.split_rhat(away) > 1.05
    assert diagnostics.rhat(wide) > 1.05 > 1.02 > diagnostics.split_rhat(wide)  # only folding sees the scale
    assert diagnostics.rhat(drift) > 1.05
    assert diagnostics.rhat(drift[:1]) > 1.05  # halves of one chain show drift


def test_infinite_variance_is_no_problem_for_ranks():
    x = torch.tan(math.pi * (torch.rand(4, 1000, generator=torch.Generator().manual_seed(3)).double() - 0.5))
    assert diagnostics.rhat(x) < 1.01
    assert diagnostics.ess_bulk(x) > 3000


def test_what_is_not_finite_or_constant():
    x = autoregressive(0.5, 2, 40, entries=(3,)).clone()
    x[0, 3, 0] = math.nan
    x[:, :, 1] = 7.0
    found = diagnostics.rhat(x)
    assert found[0].isnan() and found[1].isnan() and found[2].isfinite()
    size = diagnostics.ess_bulk(x)
    assert size[0].isnan() and size[1] == 80
    x[0, 3, 0] = math.inf
    assert diagnostics.mcse_mean(x)[0].isnan()


def test_chains_that_never_move_have_an_infinite_rhat():
    x = torch.arange(4.0)[:, None].expand(4, 100)
    assert diagnostics.rhat(x).isinf()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(10), r"rhat: x has shape \(10,\)"),
        (torch.zeros(4, 3), "4 chains of 3 draws; at least 4"),
        (torch.zeros(0, 10), "0 chains"),
        (torch.zeros(2, 10, dtype=torch.complex64), "complex"),
    ],
)
def test_bad_shapes(x, message):
    with pytest.raises(InvalidInput, match=message):
        diagnostics.rhat(x)


def test_bad_probabilities_and_energies():
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        diagnostics.mcse_quantile(torch.zeros(2, 10), 1.5)
    with pytest.raises(InvalidInput, match="bfmi: energy has shape"):
        diagnostics.bfmi([1.0, 2.0])


def test_lists_arrays_and_integers_are_taken():
    x = np.random.default_rng(0).integers(0, 5, (4, 50))
    expected = diagnostics.ess(torch.as_tensor(x).double())
    for given in (x, x.tolist(), torch.as_tensor(x)):
        torch.testing.assert_close(diagnostics.ess(given), expected)


def test_wandering_is_told_from_slow_mixing_and_separate_modes():
    walk = autoregressive(0.0, 4, 1000, entries=(20,)).cumsum(1)
    assert float(wandering(walk).double().mean()) > 0.8
    assert not wandering(autoregressive(0.95, 4, 1000, entries=(20,))).any()
    modes = autoregressive(0.3, 4, 1000) + 10 * torch.arange(4.0)[:, None]
    assert not bool(wandering(modes))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(("name", "x"), list(kinds()))
@pytest.mark.parametrize("draws", [8, 9, 10, 11, 50])
def test_against_arviz(name, x, draws):
    arviz = pytest.importorskip("arviz", reason="ArviZ is not installed")
    if not hasattr(arviz, "mcse") or int(arviz.__version__.split(".")[0]) >= 1:
        pytest.skip("compared with ArviZ 0.x")
    arviz.Numba.disable_numba()  # its compiled path does not run on current NumPy
    x = x[:, :draws]
    a = x.numpy()
    same = {
        "rhat": arviz.rhat(a),
        "split_rhat": arviz.rhat(a, method="split"),
        "ess": arviz.ess(a, method="mean"),
        "ess_bulk": arviz.ess(a),
        "ess_tail": arviz.ess(a, method="tail"),
        "mcse_mean": arviz.mcse(a),
        "mcse_sd": arviz.mcse(a, method="sd"),
    }
    for function, expected in same.items():
        assert getattr(diagnostics, function)(x).item() == pytest.approx(float(expected), rel=1e-6, nan_ok=True), (
            function
        )
    for prob in (0.05, 0.5, 0.9):
        expected = float(arviz.mcse(a, method="quantile", prob=prob))
        assert diagnostics.mcse_quantile(x, prob).item() == pytest.approx(expected, rel=1e-6)
    x = x + torch.linspace(0, 1, draws)  # no chain is constant, for which ArviZ divides by zero
    a = x.numpy()
    np.testing.assert_allclose(diagnostics.bfmi(x).numpy(), arviz.bfmi(a), rtol=1e-6)
