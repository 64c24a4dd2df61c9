"""Published methods by their names: each is a member of the family with a few of its values changed."""

from __future__ import annotations

from typing import Any, NamedTuple

from benthic.base.catalogue import catalogue
from benthic.base.errors import InvalidInput, nearest
from benthic.generative.diffusion.chain import DiscreteChain
from benthic.generative.diffusion.estimator import DiffusionEstimator
from benthic.generative.diffusion.solvers import DDIM, DPMSolver, Heun, UniPC


class Method(NamedTuple):
    """The member of the family, what is changed of it, and where it is from."""

    model: str
    settings: dict[str, Any]
    source: str


PUBLISHED: dict[str, Method] = {
    "ddpm": Method("DDPM", {"steps": 1000}, "Ho et al., 2020"),
    "ddim": Method("DDPM", {"sampler": DDIM(), "steps": 50}, "Song, Meng & Ermon, 2021"),
    "improved_ddpm": Method(
        "DDPM",
        {"process": DiscreteChain(4000, schedule="cosine"), "learned_variance": True, "steps": 100},
        "Nichol & Dhariwal, 2021",
    ),
    "min_snr": Method("DDPM", {"weighting": "min_snr"}, "Hang et al., 2023"),
    "dpm_solver++": Method("DDPM", {"sampler": DPMSolver(2), "steps": 20}, "Lu et al., 2022"),
    "unipc": Method("DDPM", {"sampler": UniPC(2), "steps": 10}, "Zhao et al., 2023"),
    "ncsn": Method("NCSN", {}, "Song & Ermon, 2019, 2020"),
    "ddpm++": Method("ScoreSDE", {"process": "vp", "steps": 1000}, "Song et al., 2021"),
    "ddpm++_subvp": Method("ScoreSDE", {"process": "subvp", "steps": 1000}, "Song et al., 2021"),
    "ncsn++": Method("ScoreSDE", {"process": "ve", "steps": 1000}, "Song et al., 2021"),
    "edm": Method("EDM", {}, "Karras et al., 2022"),
    "edm_stochastic": Method(
        "EDM",
        {"sampler": Heun(churn=40.0, low=0.05, high=50.0, noise_scale=1.003), "steps": 256},
        "Karras et al., 2022, with the noise that they add for ImageNet",
    ),
    "vdm": Method("VariationalDiffusion", {}, "Kingma et al., 2021"),
    "flow_matching": Method("FlowMatching", {}, "Lipman et al., 2023; Liu et al., 2023"),
    "pfgm": Method("PoissonFlow", {"process": "pfgm"}, "Xu et al., 2022"),
    "pfgm++": Method("PoissonFlow", {}, "Xu et al., 2023"),
}


def published(name: str, **changes: Any) -> DiffusionEstimator:
    """A published method, ready to be fitted; changes: of the arguments of its estimator.

    Process, target, weighting, sampler and steps are those of the source, and each can be changed for any other. The
    network, the law of times and the length of training are the family's own.

    name: one of ``PUBLISHED``, which also says what each one changes and where it is from.

    >>> published("ncsn++", steps=200)
    ScoreSDE(process='ve', steps=200)
    >>> PUBLISHED["ncsn++"].source
    'Song et al., 2021'
    """
    if name not in PUBLISHED:
        known = ", ".join(PUBLISHED)
        raise InvalidInput(f"published: no method is called {name!r}{nearest(str(name), PUBLISHED)}; there are {known}")
    found = PUBLISHED[name]
    made: Any = catalogue()[found.model].cls
    model: DiffusionEstimator = made(**{**found.settings, **changes})
    return model
