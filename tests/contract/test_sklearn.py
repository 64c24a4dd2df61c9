"""scikit-learn's own checks over the whole catalogue, with no expected failures."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import benthic
from benthic.base.entries.entry import Entry

TABLES = [entry for entry in benthic.catalogue().values() if "table" in entry.data]
STEPS = 12

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


def default(entry: Entry) -> Any:
    """An instance as the class makes it, since a small setting can hide a failing default; few steps and draws."""
    few = ("chains", "draws", "warmup", "climb_steps")
    brief: dict[str, Any] = {k: v for k, v in entry.quick_params.items() if k in few}
    if "steps" in entry.quick_params.get("trainer", {}):
        brief["trainer"] = {"steps": 20, "verbose": False}
    return entry.cls(**brief)


def as_it_is(estimator: Any, check: Any) -> Any:
    """With all its steps of training where the check asks how well it predicts."""
    accurate = ("check_classifiers_train", "check_class_weight_classifiers", "check_regressors_train")
    return type(estimator)() if check.func.__name__ in accurate else estimator


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{entry.name}-{check.func.__name__}")
        for entry in TABLES
        for estimator, check in estimator_checks_generator(default(entry))
    ],
)
def test_scikit_learn_check_at_default_settings(estimator, check):
    check(as_it_is(estimator, check))
