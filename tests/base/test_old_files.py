"""Model files of earlier versions load and answer as they did when they were written."""

from __future__ import annotations

import numpy as np
import pytest

import benthic
from benthic.base.modelfile import load_tree
from tests.base.write_old_files import FOLDER, LEARNED, ask, plain, rows_of

NAMES = sorted(path.stem for path in FOLDER.glob("*.npz"))
TEN = NAMES[:: -(-len(NAMES) // 10)]


def same(now: np.ndarray, kept: np.ndarray) -> None:
    """Words are equal; numbers agree up to the rounding of another processor, also where both stand in one table."""
    assert now.shape == kept.shape and now.dtype.kind == kept.dtype.kind
    if kept.dtype.kind == "f":
        np.testing.assert_allclose(now, kept, rtol=1e-4, atol=1e-5 * np.abs(kept[np.isfinite(kept)]).max(initial=1.0))
        return
    for new, old in zip(now.flat, kept.flat, strict=True):
        assert new == old or float(new) == pytest.approx(float(old), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", [n if n in TEN else pytest.param(n, marks=pytest.mark.slow) for n in NAMES])
def test_an_old_file_answers_as_it_did(name):
    model = load_tree(FOLDER / f"{name}.safetensors")
    with np.load(FOLDER / f"{name}.npz") as kept:
        rows = rows_of(kept)
        verbs = [key.removeprefix("answer:") for key in kept if key.startswith("answer:")]
        assert verbs
        for verb in verbs:
            same(ask(model, verb, rows), kept[f"answer:{verb}"])
    if set(verbs) <= set(LEARNED) and hasattr(model, "sample"):  # every answer is drawn
        drawn = plain(model.sample(4, seed=0))
        assert len(drawn) == 4 and (drawn.dtype.kind == "U" or np.isfinite(drawn).all())


def test_every_entry_has_a_file():
    missing = set(benthic.catalogue()) - set(NAMES)
    assert not missing, "run python -m tests.base.write_old_files"
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 4 << 20
