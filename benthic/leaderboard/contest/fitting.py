"""Settings of default models that depend on the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benthic.base.catalogue import catalogue
from benthic.leaderboard.contest.material import Material
from benthic.leaderboard.contest.records import Contestant

_LEVELS = 256
_SMALL = 1024  # numbers of a small picture
_BATCH = 128  # rows from which a small network learns about as fast as from a few
_COOLED = {"name": "cosine", "warmup": 0.05}


def fitted_to(contestant: Contestant, material: Material) -> Contestant:
    """The contestant with settings that suit the data.

    Of pictures, flows learn the grid of the pixels, and without a GPU diffusion models of small ones are dense
    networks, which learn far more in the same time (and DDPM the velocity, for the same reason); so are variational
    autoencoders. These draw codes from the law that those of the data have after training, since after a short one it
    is far from normal. A mixture has no more components than rows allow.
    """
    if contestant.origin != "catalogue":
        return contestant
    changes: dict[str, Any] = {}
    kind, params = type(contestant.model), contestant.model.get_params(deep=False)
    if kind.__name__ == "NormalizingFlow" and len(material.shape) == 3:
        levels = grid_of(material.rows)
        changes = {"dequantize": None} if levels is None else {"levels": levels}
    if catalogue()[kind.__name__].family == "diffusion" and params.get("network") == "auto" and _slow(material):
        changes = {"network": "mlp"} | ({"target": "velocity"} if kind.__name__ == "DDPM" else {})
    if kind.__name__ in ("VAE", "ImportanceWeightedVAE", "ConditionalVAE"):
        changes = _autoencoder(params, material)
    if kind.__name__ == "GaussianMixture":
        changes = {"n_components": int(max(1, min(10, len(material.rows) // 20)))}
    return replace(contestant, model=kind(**{**params, **changes})) if changes else contestant


def _autoencoder(params: dict[str, Any], material: Material) -> dict[str, Any]:
    """Settings of a variational autoencoder; its code has no more numbers than a row."""
    picture = len(material.shape) == 3
    trainer = {"batch_size": _BATCH, "schedule": _COOLED} | ({} if picture else {"lr": 8e-3})
    size = min(params["latent_dim"], material.rows.shape[1])
    return {"prior": "fitted", "latent_dim": size, "trainer": trainer} | ({"network": "mlp"} if _slow(material) else {})


def _slow(material: Material) -> bool:
    """Whether these are pictures of which convolutions would learn little in the time there is."""
    import torch

    return len(material.shape) == 3 and int(np.prod(material.shape)) <= _SMALL and not torch.cuda.is_available()


def grid_of(rows: np.ndarray) -> int | None:
    """How many levels pixels have, if they are whole numbers from 0, or evenly spaced from 0 to 1.

    >>> grid_of(np.array([[0.0, 0.25], [1.0, 0.5]])), grid_of(np.array([[0.1, 0.73]]))
    (5, None)
    """
    low, high = float(rows.min()), float(rows.max())
    if low < 0:
        return None
    if high > 1:
        whole = high <= _LEVELS - 1 and bool((rows == np.round(rows)).all())
        return _LEVELS if whole else None
    values = np.unique(rows[:2000])
    positive = values[values > 1e-9]
    if not len(positive):
        return None
    steps = round(1 / float(np.diff(np.concatenate([[0.0], positive])).min()))
    on_grid = steps < _LEVELS and bool((np.abs(rows * steps - np.round(rows * steps)) < 1e-4).all())
    return steps + 1 if on_grid else None
