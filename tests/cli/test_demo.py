"""The demo fits every family and writes one page."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import call


@pytest.mark.slow
def test_the_demo_is_true_and_self_contained(tmp_path):
    answer = call("demo", "--out", "page.html", "--json").ok().json
    found = {(row["model"], row["data"], row["measure"]): row for row in answer["results"]}

    def value(*key: str) -> float:
        return found[key]["value"]

    for name in ("LogisticRegression", "MLPClassifier"):
        assert value(name, "digits", "accuracy") > 0.93
        assert value(name, "digits", "auc") > 0.99
    assert value("MLPRegressor", "diabetes", "r2") > 0.25
    # no model is likelier than the truth, up to chance
    learned, truth = (found[name, "moons", "log likelihood, exact"] for name in ("GaussianMixture", "the truth"))
    assert learned["value"] < truth["value"] + 2 * truth["stderr"]
    assert learned["value"] > truth["value"] - 0.1
    hidden = [value(name, "moons, y hidden", "rmse of the filled y") for name in ("GaussianMixture", "column mean")]
    assert hidden[0] < 0.9 * hidden[1]
    # the importance bound tightens with the number of draws (Burda et al., 2016)
    bounds = [value("VAE", "digits", f"log likelihood, {k}") for k in ("elbo", "importance(64)", "importance(512)")]
    assert bounds == sorted(bounds)

    page = (tmp_path / "page.html").read_text()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", page)
    assert page.count("data:image/png;base64,") >= 10
    assert all(name in page for name, _, _ in found)
