"""Minimizers of torch functions, optimizers and schedules for training, and the theory of their rates."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Constants": "benthic.optim.constants",
    "Extragradient": "benthic.optim.games",
    "GamePath": "benthic.optim.games_play",
    "HeavyBall": "benthic.optim.heavy_ball",
    "Memory": "benthic.optim.lbfgs",
    "Minimum": "benthic.optim.record",
    "OptimisticAdam": "benthic.optim.games_adam",
    "PastExtragradient": "benthic.optim.games",
    "Path": "benthic.optim.paths",
    "RateCheck": "benthic.optim.rates",
    "Search": "benthic.optim.linesearch",
    "Wolfe": "benthic.optim.wolfe",
    "WolfeRows": "benthic.optim.wolfe_rows",
    "backtrack": "benthic.optim.linesearch",
    "bilinear": "benthic.optim.games_play",
    "check_gradient_descent": "benthic.optim.rates",
    "clip_to_ball": "benthic.optim.clipping",
    "clip_values": "benthic.optim.clipping",
    "dirac_gan": "benthic.optim.games_play",
    "extreme_eigenvalues": "benthic.optim.constants",
    "game_optimizer": "benthic.optim.games",
    "game_paths": "benthic.optim.games_play",
    "game_round": "benthic.optim.games",
    "lanczos": "benthic.optim.spectrum",
    "least_squares_constants": "benthic.optim.constants",
    "logistic_constants": "benthic.optim.constants",
    "minimize": "benthic.optim.minimizer",
    "optimizer_of": "benthic.optim.build",
    "pl_constant": "benthic.optim.constants",
    "play": "benthic.optim.games_play",
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
