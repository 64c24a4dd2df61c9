"""Minimizers of torch functions, optimizers and schedules for training, and the theory of their rates."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Constants": "benthic.optim.constants",
    "HeavyBall": "benthic.optim.heavy_ball",
    "Memory": "benthic.optim.lbfgs",
    "Minimum": "benthic.optim.record",
    "Path": "benthic.optim.paths",
    "RateCheck": "benthic.optim.rates",
    "Search": "benthic.optim.linesearch",
    "Wolfe": "benthic.optim.wolfe",
    "WolfeRows": "benthic.optim.wolfe_rows",
    "backtrack": "benthic.optim.linesearch",
    "check_gradient_descent": "benthic.optim.rates",
    "clip_to_ball": "benthic.optim.clipping",
    "clip_values": "benthic.optim.clipping",
    "extreme_eigenvalues": "benthic.optim.constants",
    "lanczos": "benthic.optim.spectrum",
    "least_squares_constants": "benthic.optim.constants",
    "logistic_constants": "benthic.optim.constants",
    "minimize": "benthic.optim.minimizer",
    "optimizer_of": "benthic.optim.build",
    "pl_constant": "benthic.optim.constants",
    "plot_paths": "benthic.optim.paths",
    "quadratic_constants": "benthic.optim.constants",
    "schedule_of": "benthic.optim.schedules",
    "smoothness": "benthic.optim.constants",
    "strong_convexity": "benthic.optim.constants",
    "strong_wolfe": "benthic.optim.wolfe",
    "trajectory": "benthic.optim.paths",
    "trust_region_step": "benthic.optim.trust",
    "with_warmup": "benthic.optim.schedules",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
