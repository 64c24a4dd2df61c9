"""Pictures and films of points on their way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from benthic.base.errors import InvalidInput
from benthic.generative.diffusion import Path, draw_trajectory, exact_denoiser, save_film, trajectory
from benthic.pictures.canvas import png
from tests.generative.diffusion.cases import LINE, MIXTURE

pytestmark = pytest.mark.spec("N-06")


def pictures(channels=1, count=5):
    states = torch.randn(4, count, channels, 6, 6)
    return Path(torch.linspace(1, 0, 4), states)


def test_pictures_show_every_kind_of_point():
    plane = trajectory(exact_denoiser(MIXTURE, "vp"), (30, 2), steps=5, seed=0)
    figure = draw_trajectory(plane, "a plane")
    offsets = [np.asarray(c.get_offsets()) for c in figure.axes[0].collections]
    np.testing.assert_allclose(offsets[0], plane.states[0].numpy())
    np.testing.assert_allclose(offsets[1], plane.states[-1].numpy())
    line = trajectory(exact_denoiser(LINE, "vp"), (30, 1), steps=5, seed=0)
    curves = draw_trajectory(line).axes[0].lines
    assert len(curves) == 30 and len(curves[0].get_xdata()) == 6
    for channels in (1, 3):
        figure = draw_trajectory(pictures(channels))
        assert figure.axes[0].images[0].get_array().shape[:2] == (5 * 6, 4 * 6)
        assert png(figure)[:4] == b"\x89PNG"
    assert draw_trajectory(Path(torch.zeros(2), torch.zeros(2, 3, 4, 4))).axes


def test_films_have_a_frame_for_each_state(tmp_path):
    plane = trajectory(exact_denoiser(MIXTURE, "edm"), (30, 2), steps=3, seed=0)
    for name, path, frames in (("a.gif", plane, 4), ("b.gif", pictures(), 4), ("c.gif", pictures(3, 9), 4)):
        film = Image.open(save_film(path, tmp_path / name, columns=4))
        assert film.format == "GIF" and film.n_frames == frames
        film.seek(frames - 1)
        assert film.info["duration"] > 1000


def test_wrong_input(tmp_path):
    with pytest.raises(InvalidInput, match="neither points"):
        draw_trajectory(Path(torch.zeros(2), torch.zeros(2, 3, 7)))
    with pytest.raises(InvalidInput, match=r"\(m, n, \*event\)"):
        draw_trajectory(Path(torch.zeros(2), torch.zeros(2, 3)))
    with pytest.raises(InvalidInput, match="save_film: .* nor pictures"):
        save_film(Path(torch.zeros(2), torch.zeros(2, 3, 1)), tmp_path / "a.gif")
    with pytest.raises(InvalidInput, match="positive"):
        save_film(pictures(), tmp_path / "a.gif", frames_per_second=0)
