"""scikit-learn's own checks over the whole catalogue, with no expected failures."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import benthic

QUICK = [entry.quick() for entry in benthic.catalogue().values() if "table" in entry.data]
# invariance, idempotence and pickling also at default widths, since a small setting can hide a failing default
DEFAULT_CHECKS = (
    "check_methods_subset_invariance",
    "check_methods_sample_order_invariance",
    "check_fit_idempotent",
    "check_estimators_pickle",
    "check_dict_unchanged",
)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(QUICK)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([entry.cls() for entry in benthic.catalogue().values() if "table" in entry.data])
def test_scikit_learn_check_at_default_settings(estimator, check):
    if check.func.__name__ not in DEFAULT_CHECKS:
        pytest.skip("only invariance, idempotence and pickling run at default widths")
    check(estimator)
