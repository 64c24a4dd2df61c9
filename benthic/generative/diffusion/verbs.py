"""What a fitted diffusion model is asked for: samples, likelihoods, codes, gaps filled, pictures."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from benthic.generative.diffusion.density_verbs import DensityVerbs
from benthic.generative.diffusion.drawing_verbs import DrawingVerbs
from benthic.generative.diffusion.picture import diffusion_picture


class DiffusionVerbs(DrawingVerbs, DensityVerbs):
    """The verbs of a model with a trained network, a process and an objective."""

    def plot(self) -> Any:
        """The loss over training, the loss by noise level, and a few samples of pictures or of two columns."""
        check_is_fitted(self)
        return diffusion_picture(self)
