"""scikit-learn's own checks over the whole catalogue, with no expected failures."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import benthic
from benthic.base.entries.entry import Entry

TABLES = [entry for entry in benthic.catalogue().values() if "table" in entry.data]
STEPS = 12
# invariance, idempotence and pickling also at default widths, since a small setting can hide a failing default
AT_DEFAULT = (
    "check_methods_subset_invariance",
    "check_methods_sample_order_invariance",
    "check_fit_idempotent",
    "check_estimators_pickle",
    "check_dict_unchanged",
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")


def brief(entry: Entry) -> Any:
    """A small instance; a network that answers no question has no accuracy to reach, and trains for a few steps."""
    model = entry.quick()
    steps = entry.quick_params.get("trainer", {}).get("steps", 0)
    if steps > STEPS and not {"classify", "regress"} & set(entry.tasks):
        model.set_params(trainer__steps=STEPS)
    return model


@parametrize_with_checks([brief(entry) for entry in TABLES])
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{entry.name}-{check.func.__name__}")
        for entry in TABLES
        for estimator, check in estimator_checks_generator(entry.cls())
        if check.func.__name__ in AT_DEFAULT
    ],
)
def test_scikit_learn_check_at_default_settings(estimator, check):
    check(estimator)
