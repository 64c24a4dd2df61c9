"""Bad input gets one sentence that says what is wrong and what would work."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.distributions import Gamma, MultivariateNormal, Normal

from benthic import transport as ot
from benthic.base.errors import InvalidInput

pytestmark = pytest.mark.spec("B-04")
HALF, COST = torch.tensor([0.5, 0.5]), 1 - torch.eye(2)
POINTS = torch.rand(4, 2, generator=torch.Generator().manual_seed(0))
EYE = torch.eye(2)

CASES = {
    "negative mass": (lambda: ot.sinkhorn([1.5, -0.5], HALF, COST, 0.1), "sinkhorn: a has a negative mass"),
    "unnormalized": (lambda: ot.sinkhorn(HALF, [0.5, 0.4], COST, 0.1), "sinkhorn: b sums to 0.9"),
    "masses of another size": (
        lambda: ot.sinkhorn([1.0], HALF, COST, 0.1),
        r"a has shape \(1,\) but the cost asks for 2",
    ),
    "NaN mass": (lambda: ot.sinkhorn([math.nan, 1.0], HALF, COST, 0.1), "a has 1 NaN or infinite"),
    "no mass": (lambda: ot.sinkhorn([0.0, 0.0], HALF, COST, 0.1, rho=1.0), "a has no mass at all"),
    "epsilon zero": (lambda: ot.sinkhorn(HALF, HALF, COST, 0.0), "epsilon is 0.0; a finite number above 0"),
    "epsilon NaN": (lambda: ot.sinkhorn(HALF, HALF, COST, math.nan), "epsilon is nan"),
    "rho": (lambda: ot.sinkhorn(HALF, HALF, COST, 0.1, rho=-1), "rho is -1"),
    "NaN cost": (lambda: ot.sinkhorn(HALF, HALF, COST / 0 * 0, 0.1), "cost has 4 NaN or infinite"),
    "infinite cost": (lambda: ot.sinkhorn(HALF, HALF, COST / 0, 0.1), "cost has 4 NaN or infinite"),
    "empty cost": (lambda: ot.sinkhorn(None, None, torch.zeros(0, 3), 0.1), "cost is empty"),
    "cost a vector": (lambda: ot.sinkhorn(HALF, HALF, HALF, 0.1), "a matrix"),
    "complex cost": (lambda: ot.sinkhorn(HALF, HALF, COST * 1j, 0.1), "cost is complex"),
    "batches": (lambda: ot.sinkhorn(HALF.expand(3, 2), HALF, COST.expand(2, 2, 2), 0.1), "do not fit together"),
    "iterations": (lambda: ot.sinkhorn(HALF, HALF, COST, 0.1, max_iter=0), "max_iter is 0"),
    "start": (lambda: ot.sinkhorn(HALF, HALF, COST, 0.1, start=(torch.zeros(3), HALF)), "start f has shape"),
    "cloud columns": (lambda: ot.PointCloud(POINTS, torch.rand(3, 5)), "X has 2 columns and Y 5"),
    "cloud p": (lambda: ot.PointCloud(POINTS, POINTS, 0), "p is 0"),
    "cloud empty": (lambda: ot.PointCloud(torch.zeros(0, 2), POINTS), "X is empty"),
    "divergence without": (lambda: ot.sinkhorn_divergence(POINTS), "either two point clouds"),
    "exact negative": (lambda: ot.exact([2.0, -1.0], HALF, COST), "exact: a has a negative mass"),
    "exact sum": (lambda: ot.exact([0.5, 0.6], HALF, COST), "exact: a sums to 1.1"),
    "exact vector": (lambda: ot.exact(HALF, HALF, HALF), "exact: cost has shape"),
    "exact batches": (lambda: ot.exact(HALF.expand(3, 2), None, COST.expand(2, 2, 2)), "do not fit together"),
    "order": (lambda: ot.wasserstein(POINTS, POINTS, 0.5), "p is 0.5; a number of at least 1"),
    "order infinite": (lambda: ot.wasserstein(POINTS, POINTS, math.inf), "p is inf"),
    "line order": (lambda: ot.wasserstein_1d(HALF, HALF, 0), "wasserstein_1d: p is 0"),
    "line number": (lambda: ot.wasserstein_1d(torch.tensor(1.0), HALF), "a single number"),
    "line empty": (lambda: ot.wasserstein_1d([], HALF), "x is empty"),
    "line masses": (lambda: ot.wasserstein_1d(HALF, HALF, 1, [1.0, 1.0]), "a sums to 2"),
    "cdf order": (lambda: ot.wasserstein_from_cdf(HALF, HALF, HALF, p=2), "distribution functions give p = 1"),
    "cdf grid": (lambda: ot.wasserstein_from_cdf(HALF, HALF, HALF), "increasing grid"),
    "cdf sizes": (lambda: ot.wasserstein_from_cdf([0.1] * 3, [0.1] * 2, [0.0, 1.0]), "sizes must match"),
    "no icdf": (lambda: ot.wasserstein_between(Gamma(1.0, 1.0), Normal(0.0, 1.0)), r"P \(Gamma\) has no icdf"),
    "vectors": (lambda: ot.wasserstein_between(MultivariateNormal(HALF, EYE), Normal(0.0, 1.0)), "of one variable"),
    "time": (lambda: ot.displacement(POINTS, POINTS, 1.2), "t is 1.2; a time between 0 and 1"),
    "time on the line": (lambda: ot.displacement_1d(HALF, HALF, -1), "t is -1"),
    "plan": (lambda: ot.displacement(POINTS, POINTS, 0.5, plan=COST), r"the plan has shape \(2, 2\)"),
    "times": (lambda: ot.plot_displacement(POINTS, POINTS, times=1), "at least 2"),
    "sliced shape": (lambda: ot.sliced(POINTS[None], POINTS), "are needed"),
    "sliced directions": (lambda: ot.sliced(POINTS, POINTS, 2, torch.zeros(3, 5)), "directions have shape"),
    "max sliced": (lambda: ot.max_sliced(POINTS, POINTS, starts=0), "starts is 0"),
    "asymmetric": (
        lambda: ot.bures_wasserstein(HALF, EYE + torch.tensor([[0, 1.0], [0, 0]]), HALF, EYE),
        "not symmetric",
    ),
    "indefinite": (lambda: ot.bures_wasserstein(HALF, -EYE, HALF, EYE), "negative eigenvalue"),
    "dimensions": (lambda: ot.bures_wasserstein(HALF, EYE, [0.0], [[1.0]]), "dimensions 2 and 1 differ"),
    "mean": (lambda: ot.bures_wasserstein([0.0], EYE, HALF, EYE), "do not fit"),
    "singular": (lambda: ot.gaussian_map(0 * EYE, EYE), "a covariance is singular"),
    "Gaussian time": (lambda: ot.gaussian_displacement(HALF, EYE, HALF, EYE, 2), "t is 2"),
    "Gaussian barycenter": (lambda: ot.gaussian_barycenter(HALF, EYE), r"\(k, d\) and \(k, d, d\) are needed"),
    "weights": (lambda: ot.gaussian_barycenter(EYE, torch.stack([EYE, EYE]), [0.5, 0.6]), "weights sums to 1.1"),
    "barycenter cost": (lambda: ot.barycenter(EYE, torch.zeros(3, 3), 0.1), r"it must be \(2, 2\)"),
    "barycenter sum": (lambda: ot.barycenter(2 * EYE, COST, 0.1), "measures sums to 2"),
    "barycenter vector": (lambda: ot.barycenter(HALF, COST, 0.1), "one row a measure"),
    "barycenter epsilon": (lambda: ot.barycenter(EYE, COST, -1), "epsilon is -1"),
    "barycenter weights": (lambda: ot.barycenter(EYE, COST, 0.1, [[0.5, 0.5]]), "one number a measure"),
    "no samples": (lambda: ot.barycenter_1d([]), "there are no samples"),
    "samples": (lambda: ot.barycenter_1d([EYE, HALF]), "every sample needs shape"),
    "no clouds": (lambda: ot.free_support_barycenter([]), "there are no clouds"),
    "cloud shapes": (lambda: ot.free_support_barycenter([POINTS, torch.rand(3, 5)]), "with one d is needed"),
    "cloud masses": (lambda: ot.free_support_barycenter([POINTS], masses=[None, None]), "numbers must match"),
    "cloud size": (lambda: ot.free_support_barycenter([POINTS], 0), "size is 0"),
    "cloud start": (lambda: ot.free_support_barycenter([POINTS], torch.rand(3, 5)), "they must agree"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_clear_sentence(case):
    call, sentence = CASES[case]
    with pytest.raises(InvalidInput, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_lists_arrays_and_integers_are_welcome():
    lists = ot.sinkhorn([0.5, 0.5], [0.5, 0.5], [[0, 1], [1, 0]], 0.1)
    arrays = ot.sinkhorn(np.array([0.5, 0.5]), np.array([0.5, 0.5]), np.array([[0, 1], [1, 0]]), 0.1)
    assert lists.plan.dtype == arrays.plan.dtype == torch.float64
    torch.testing.assert_close(lists.plan, arrays.plan)
    single = ot.sinkhorn(None, None, np.eye(2, dtype=np.float32), 0.1)
    assert single.plan.dtype == torch.float32


def test_names_are_lazy():
    import subprocess
    import sys

    code = "import sys, benthic.transport; assert 'torch' not in sys.modules; print(len(dir(benthic.transport)))"
    assert int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) > 15
    assert all(callable(getattr(ot, name)) for name in ot.__all__)
