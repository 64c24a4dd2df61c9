"""The published models as settings of one: DDPM, score SDEs, EDM, flow matching."""

from __future__ import annotations

import math
from typing import Any

from benthic.generative.diffusion.estimator import DiffusionEstimator, Preset
from benthic.generative.diffusion.process import process_of
from benthic.generative.diffusion.processes import VE

_FEW = 8.0  # added dimensions under which the tails of the noise are too heavy for a mean of squares


class DDPM(DiffusionEstimator):
    r"""Denoising diffusion: a chain of small steps of noise, and a network that undoes them.

    .. math:: x_t = \sqrt{\bar\alpha_t}\, x_0 + \sqrt{1 - \bar\alpha_t}\, \epsilon, \qquad
              \ell = \| \epsilon - \hat\epsilon(x_t, t) \|^2

    Ho et al., 2020; with classifier-free guidance (Ho & Salimans, 2022) where labels or vectors are given.

    Arguments, all by name, are those of the family: process (a linear chain of 1000 steps), target (``noise``),
    weighting (``simple``), times, matching, learned_variance, sampler (``ancestral``), steps (100), network, hidden,
    depth, unet, dropout, condition, condition_dropout, clip, trainer and random_state; see ``DiffusionEstimator``.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + 5
    >>> model = DDPM(hidden=16, steps=20, trainer={"steps": 20}, random_state=0).fit(X)
    >>> model.sample(4).shape, bool(abs(model.sample(500).mean() - 5) < 0.3)
    ((4, 2), True)
    """

    preset = Preset("ddpm", "noise", "simple", "ancestral", 100)


class EDM(DiffusionEstimator):
    r"""Diffusion with plain added noise, a preconditioned network, and Heun's method on Karras' grid of noise levels.

    .. math:: x_\sigma = x_0 + \sigma \epsilon, \qquad
              \hat x_0 = c_{skip}(\sigma)\, x + c_{out}(\sigma)\, F(c_{in}(\sigma)\, x, \log \sigma)

    Karras et al., 2022. With 18 steps a sample takes 35 evaluations of the network.

    Arguments: those of ``DDPM``, with process ``edm``, target and weighting ``edm``, log-normal times, sampler ``heun``
    and 18 steps.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + 5
    >>> EDM(hidden=16, trainer={"steps": 20}, random_state=0).fit(X).sample(4).shape
    (4, 2)
    """

    preset = Preset("edm", "edm", "edm", "heun", 18)


class FlowMatching(DiffusionEstimator):
    r"""A velocity that carries noise to data along straight paths on average.

    .. math:: x_t = (1 - t)\, x_0 + t\, \epsilon, \qquad \ell = \| u(x_t, t) - (\epsilon - x_0) \|^2

    Lipman et al., 2023; Liu et al., 2023 (rectified flow).

    Arguments: those of ``DDPM``, with process ``straight``, target ``flow``, weighting ``simple``,
    sampler ``heun`` and 25 steps.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + 5
    >>> FlowMatching(hidden=16, trainer={"steps": 20}, random_state=0).fit(X).sample(4).shape
    (4, 2)
    """

    preset = Preset("straight", "flow", "simple", "heun", 25)


class ScoreSDE(DiffusionEstimator):
    r"""A score of noisy data at all times, and the stochastic or ordinary equation that runs noise backward with it.

    .. math:: dx = f\, dt + g\, dW, \qquad dx = \big(f - g^2\, \nabla \log p_t(x)\big) dt + g\, d\bar W

    Song et al., 2021. process: ``vp``, ``subvp`` or ``ve``.

    Arguments: those of ``DDPM``, with process ``vp``, target ``noise``, weighting ``simple``, sampler
    ``predictor_corrector`` and 100 steps.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + 5
    >>> ScoreSDE(hidden=16, process="subvp", trainer={"steps": 20}, random_state=0).fit(X).sample(4).shape
    (4, 2)
    """

    preset = Preset("vp", "noise", "simple", "predictor_corrector", 100)


class NCSN(DiffusionEstimator):
    r"""A score network for many levels of added noise, sampled by Langevin steps while the noise anneals.

    .. math:: \ell = \sigma^2 \big\| s(x_0 + \sigma \epsilon, \sigma) + \epsilon / \sigma \big\|^2, \qquad
              x \leftarrow x + \tfrac{\eta}{2}\, s(x, \sigma) + \sqrt{\eta}\, z

    Song & Ermon, 2019, 2020. With ``matching="sliced"`` or ``"exact"`` the score is learned without being told the
    noise (Song et al., 2019; Hyvärinen, 2005).

    Arguments: those of ``DDPM``, with process ``VE(sigma_min=0.01, sigma_max=20)`` in standard units, target ``noise``,
    weighting ``simple``, sampler ``annealed_langevin`` and 100 steps.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + 5
    >>> NCSN(hidden=16, trainer={"steps": 20}, random_state=0).fit(X).sample(4).shape
    (4, 2)
    """

    preset = Preset(VE(sigma_min=0.01, sigma_max=20.0), "noise", "simple", "annealed_langevin", 100)


class PoissonFlow(DiffusionEstimator):
    r"""Data as charges in a space with D more dimensions, and the lines of their field, followed home.

    .. math:: \frac{dx}{d\sigma} = \frac{x - E[y | x]}{\sigma}, \qquad
              p_r(x | y) \propto \big(\|x - y\|^2 + r^2\big)^{-(N + D)/2}, \quad r = \sigma \sqrt D

    Xu et al., 2023 (PFGM++); process ``pfgm`` is D = 1, the Poisson flow of Xu et al., 2022, and a large D is ``EDM``.
    Noise has Student's law, so only samplers without noise run. Gaps are filled by replacement, which is rough.

    With target ``field`` the network learns the direction of the field of a large batch as charges, which is what it
    does for D under 8 unless another is named: there the noise is so wild that the data behind a point are no good
    target. All rows of the batch, up to 2048 by default, are then charges, and 256 of them are moved off the plane. The
    weighting ``edm`` learns the slope of the lines, for which a batch is right on average; with ``simple`` the loss is
    that of Xu et al., 2022.

    Arguments: those of ``DDPM``, with process ``poisson`` (D = 128), target and weighting ``edm``, log-normal times,
    sampler ``heun`` and 18 steps.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + 5
    >>> PoissonFlow(hidden=16, trainer={"steps": 20}, random_state=0).fit(X).sample(4).shape
    (4, 2)
    """

    preset = Preset("poisson", "edm", "edm", "heun", 18)

    def _setting(self, name: str) -> Any:
        if name == "target" and self.target is None:
            process = process_of(super()._setting("process"))
            return "field" if getattr(process, "dimensions", math.inf) < _FEW else self.preset.target
        return super()._setting(name)
