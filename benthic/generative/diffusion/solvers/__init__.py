"""Samplers: values that turn noise into data in any number of steps."""

from __future__ import annotations

from benthic.base.errors import InvalidInput, nearest
from benthic.generative.diffusion.solvers.base import Sampler
from benthic.generative.diffusion.solvers.controlled import ODE, AdaptiveSDE
from benthic.generative.diffusion.solvers.multistep import DPMSolver, UniPC
from benthic.generative.diffusion.solvers.onestep import DDIM, Ancestral, Euler, Heun
from benthic.generative.diffusion.solvers.stochastic import AnnealedLangevin, EulerMaruyama, PredictorCorrector

SAMPLERS: dict[str, Sampler] = {
    "ancestral": Ancestral(),
    "ddim": DDIM(),
    "euler": Euler(),
    "heun": Heun(),
    "dpm2m": DPMSolver(2),
    "dpm3m": DPMSolver(3),
    "unipc": UniPC(2),
    "euler_maruyama": EulerMaruyama(),
    "predictor_corrector": PredictorCorrector(),
    "annealed_langevin": AnnealedLangevin(),
    "adaptive_sde": AdaptiveSDE(),
    "ode": ODE(),
    "poisson_ode": ODE(variable="log_snr"),
}


def sampler_of(setting: str | Sampler) -> Sampler:
    """A sampler from its name, or itself.

    >>> sampler_of("dpm2m")
    DPMSolver(answers=2, reach=1.0)
    """
    if isinstance(setting, Sampler):
        return setting
    if not isinstance(setting, str) or setting not in SAMPLERS:
        hint = nearest(str(setting), SAMPLERS)
        raise InvalidInput(f"sampler {setting!r} is unknown{hint}; there are {', '.join(SAMPLERS)}")
    return SAMPLERS[setting]
