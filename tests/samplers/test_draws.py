"""Draws: names, selections, tables and their warnings, pictures, files, ArviZ."""

from __future__ import annotations

import builtins
import sys
import types

import numpy as np
import pytest
import torch

from benthic.base.errors import InvalidInput
from benthic.samplers import Draws, posterior_predictive, predictive_p_value
from benthic.samplers.judging import diagnostics

pytestmark = pytest.mark.spec("C-03")


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def draws():
    energy = noise(4, 200, seed=1)
    return Draws(
        {"tau": noise(4, 200).exp(), "theta": noise(4, 200, 2, 3, seed=2)},
        {"accepted": torch.full((4, 200), 0.8), "divergent": torch.zeros(4, 200, dtype=torch.bool), "energy": energy},
    )


def test_names_and_entries(draws):
    assert draws.names[:3] == ["tau", "theta[0,0]", "theta[0,1]"] and len(draws.names) == 7
    assert torch.equal(draws["theta[1,2]"], draws.values["theta"][:, :, 1, 2])
    assert draws.flat("theta").shape == (800, 2, 3)
    assert [*draws.scalars("theta", limit=2)] == ["theta[0,0]", "theta[0,1]"]
    assert repr(draws) == "Draws(4 chains of 200 draws: tau, theta (2, 3))"


def test_trees_and_bare_tensors_get_names():
    nested = Draws({"a": {"b": torch.zeros(1, 5)}, "c": (torch.zeros(1, 5), torch.zeros(1, 5, 1))})
    assert nested.names == ["a.b", "c.0", "c.1[0]"]
    assert Draws(np.zeros((2, 5))).names == ["x"]


def test_select_thin_and_combine(draws):
    some = draws.select("tau", chains=[0, 3], draws=slice(100, None))
    assert some.names == ["tau"] and torch.equal(some["tau"], draws["tau"][[0, 3], 100:])
    assert torch.equal(some.info["energy"], draws.info["energy"][[0, 3], 100:])
    assert draws.select(["theta[0,1]"]).names == ["theta[0,1]"]
    assert torch.equal(draws.thin(50)["tau"], draws["tau"][:, [0, 50, 100, 150]])
    again = draws.select(chains=[0]).combine(draws.select(chains=slice(1, None)))
    assert torch.equal(again["theta"], draws["theta"]) and torch.equal(again.info["energy"], draws.info["energy"])
    longer = draws.select(draws=slice(0, 50)).combine(draws.select(draws=slice(50, None)), along="draws")
    assert torch.equal(longer["tau"], draws["tau"])


def test_numbers_are_those_of_all_draws(draws):
    flat = draws.flat("theta")
    torch.testing.assert_close(draws.mean()["theta"], flat.mean(0))
    torch.testing.assert_close(draws.sd()["theta"], flat.std(0))
    torch.testing.assert_close(
        draws.quantiles([0.25, 0.5])["theta"], flat.quantile(torch.tensor([0.25, 0.5]).double(), 0)
    )
    torch.testing.assert_close(draws.rhat()["theta"], diagnostics.rhat(draws["theta"]))
    assert draws.ess("tail")["tau"].shape == () and draws.mcse()["theta"].shape == (2, 3)


def test_summary_of_good_chains_has_numbers_and_no_warnings(draws):
    summary = draws.summary()
    assert summary.names == draws.names and not summary.warnings
    row = summary.row("theta[0,0]")
    assert row["mean"] == pytest.approx(float(draws["theta[0,0]"].mean()))
    assert row["5%"] == pytest.approx(float(draws.flat("theta[0,0]").quantile(0.05)))
    assert row["ess_bulk"] == pytest.approx(float(diagnostics.ess_bulk(draws["theta[0,0]"])))
    text = str(summary).splitlines()
    assert text[0] == "4 chains of 200 draws; acceptance 0.80; 0 divergences"
    assert text[1].split() == ["mean", "sd", "mcse", "5%", "50%", "95%", "ess_bulk", "ess_tail", "rhat"]
    assert len(text) == 9 and len({len(line) for line in text[1:]}) == 1


def warnings_of(values, info=None):
    return "\n".join(Draws(values, info).summary().warnings)


def test_summary_warns_of_divergences_and_slow_energies():
    bad = torch.zeros(4, 200, dtype=torch.bool)
    bad[0, :7] = True
    said = warnings_of(noise(4, 200), {"divergent": bad, "energy": noise(4, 200).cumsum(1)})
    assert "7 of 800 transitions diverged" in said and "non-centered" in said
    assert "chains 0, 1, 2, 3 changed energy too slowly (BFMI below 0.3)" in said


def test_summary_warns_of_chains_that_disagree_and_names_the_worst():
    x = noise(4, 400, 6)
    x[0, :, 3] += 0.7
    x[0, :, 5] += 3
    said = warnings_of({"x": x})
    assert "R-hat is above 1.01 for x[5], x[3]:" in said
    assert "improper" not in said
    assert "effective sample size is below 400 for x[5], x[3]:" in said


def test_summary_suspects_an_improper_target():
    said = warnings_of({"a": noise(4, 1000).cumsum(1), "b": noise(4, 1000, seed=1)})
    assert "a: the chains still move away" in said and "missing prior" in said
    assert "b:" not in said


def test_summary_warns_of_stuck_one_few_and_broken():
    x = noise(1, 300, 3)
    x[:, :, 0] = 2.0
    x[0, 5, 1] = float("inf")
    said = warnings_of({"x": x}, {"accepted": torch.zeros(1, 300)})
    assert "there is one chain" in said
    assert "x[0]: the same in every draw" in said
    assert "x[1]: draws are not finite" in said
    assert "chain 0 accepted hardly any proposal" in said
    few = Draws(noise(2, 3)).summary()
    assert "at least 4 are needed" in few.warnings[-1] and np.isnan(few.row("x")["rhat"])


def test_a_long_table_is_cut():
    text = str(Draws(noise(2, 50, 100)).summary())
    assert "... and 60 more" in text and "x[39]" in text and "x[40]" not in text


def test_integers_and_booleans_have_summaries():
    summary = Draws({"k": (noise(4, 200) * 3).long(), "on": noise(4, 200) > 0}).summary()
    assert 0.4 < summary.row("on")["mean"] < 0.6
    assert float(summary.row("k")["50%"]) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Draws({}), "hold no parameter"),
        (lambda: Draws(torch.zeros(5)), r"'x' has shape \(5,\)"),
        (lambda: Draws(torch.zeros(0, 5)), r"must be \(chains, draws"),
        (lambda: Draws({"a": torch.zeros(2, 5), "b": torch.zeros(5, 2)}), "all must agree"),
        (lambda: Draws(torch.zeros(2, 5), {"energy": torch.zeros(2, 4)}), "'energy' has"),
        (lambda: Draws({"tau": torch.zeros(2, 5)})["tua"], "did you mean 'tau'"),
        (lambda: Draws({"x": torch.zeros(2, 5, 2)})["x[2]"], "outside 'x'"),
        (lambda: Draws(torch.zeros(2, 5)).select(chains=[2]), "counted from 0"),
        (lambda: Draws(torch.zeros(2, 5)).thin(0), "at least 1"),
        (lambda: Draws(torch.zeros(2, 5)).combine(Draws(torch.zeros(2, 4))), "sizes must match"),
        (lambda: Draws(torch.zeros(2, 5)).combine(Draws(torch.zeros(2, 5)), along="time"), "'chains' or 'draws'"),
        (lambda: Draws(torch.zeros(2, 5)).plot("tracer"), "did you mean 'trace'"),
        (lambda: Draws(torch.zeros(2, 5)).plot("energy"), "carry no energy"),
        (lambda: Draws(torch.zeros(2, 5)).ess("bulky"), "did you mean 'bulk'"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_pictures_show_the_draws(draws):
    trace = draws.plot("trace", "tau")
    line = trace.axes[1].lines[2]
    np.testing.assert_array_equal(line.get_ydata(), draws["tau"][2].numpy())
    rank = draws.plot("rank", ["tau", "theta[0,0]"])
    bars = [[bar.get_height() for bar in axes.patches if bar.get_width() == 0.9] for axes in rank.axes]
    assert [sum(heights) for heights in bars] == [200] * 8
    draws.info["divergent"][1, 7] = True
    pair = draws.plot("pair", "theta")
    red = pair.axes[5].collections[1].get_offsets()  # row 1, column 0 of five
    np.testing.assert_allclose(red, [[draws["theta[0,0]"][1, 7], draws["theta[0,1]"][1, 7]]])
    assert "BFMI" in draws.plot("energy").axes[0].get_title()


def test_saved_and_loaded(draws, tmp_path):
    again = Draws.load(draws.save(tmp_path / "draws.safetensors"))
    assert again.names == draws.names
    for name, value in draws.values.items():
        assert torch.equal(again.values[name], value)
    assert torch.equal(again.info["divergent"], draws.info["divergent"])
    (tmp_path / "other").write_bytes(b"not draws at all")
    with pytest.raises(InvalidInput, match="not a file of draws"):
        Draws.load(tmp_path / "other")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_arviz_gets_values_and_statistics_under_its_names(draws):
    arviz = pytest.importorskip("arviz", reason="ArviZ is not installed")
    data = draws.to_arviz()
    np.testing.assert_array_equal(data.posterior["theta"].values, draws["theta"].numpy())
    assert set(data.sample_stats.data_vars) == {"acceptance_rate", "diverging", "energy"}
    ours = draws.rhat()["theta"].numpy()
    np.testing.assert_allclose(arviz.rhat(data)["theta"].values, ours, rtol=1e-6)


def test_arviz_of_either_api_is_called_as_it_wants(draws, monkeypatch):
    for version, call in (("0.23.4", lambda **groups: groups), ("1.2.0", lambda groups: groups)):
        fake = types.ModuleType("arviz")
        fake.__version__, fake.from_dict = version, call
        monkeypatch.setitem(sys.modules, "arviz", fake)
        found = draws.to_arviz()
        assert set(found) == {"posterior", "sample_stats"}
        np.testing.assert_array_equal(found["posterior"]["tau"], draws["tau"].numpy())
        assert found["sample_stats"]["diverging"].dtype == bool


def test_arviz_missing_is_said(draws, monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name == "arviz":
            raise ImportError("no arviz")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InvalidInput, match="ArviZ is not installed"):
        draws.to_arviz()


def test_posterior_predictive_of_a_normal_mean_has_the_predictive_law():
    # A mean N(1, 1/4) seen with noise 1: new data are N(1, 5/4). 40000 draws; errors sqrt(1.25/4e4), 1.25 sqrt(2/4e4).
    draws = Draws({"mean": 1 + noise(4, 10_000) / 2})
    data = posterior_predictive(
        draws, lambda p, g: p["mean"] + torch.randn(len(p["mean"]), generator=g, dtype=torch.float64), seed=1
    )
    assert float(data.mean()) == pytest.approx(1, abs=4 * 0.0056)
    assert float(data.var()) == pytest.approx(1.25, abs=4 * 0.0089)
    observed = torch.tensor([[0.2], [4.0]])
    for value, low, high in ((1.0, 0.45, 0.55), (6.0, 0.0, 0.01)):
        p = predictive_p_value(data[:, None], observed[0] * 0 + value, lambda y: y.amax(1))
        assert low <= p.value <= high


def test_posterior_predictive_checks_its_input(draws):
    with pytest.raises(InvalidInput, match="count is 0"):
        posterior_predictive(draws, lambda p, g: p["tau"], count=0)
    with pytest.raises(InvalidInput, match="leading dimension of 10"):
        posterior_predictive(draws, lambda p, g: p["tau"].sum(), count=10)
    with pytest.raises(InvalidInput, match="one number a set"):
        predictive_p_value(torch.zeros(5, 3), torch.zeros(3), lambda y: y)
