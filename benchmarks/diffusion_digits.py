"""Digits of 8 by 8 pixels by the default diffusion model: the time it takes, and whether samples are what was asked."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from benchmarks.harness import Interval, Timings
from benchmarks.report import Claim, Result, exact

TITLE = "DDPM by its defaults on digits of 8 by 8 pixels: seconds, labels read back, coverage"
DRAWS, RUNS = 100, 3


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """The digits (1797, 1, 8, 8) between 0 and 1, and their labels."""
    X, y = load_digits(return_X_y=True)
    return X.reshape(-1, 1, 8, 8).astype(np.float32) / 16, y


def model(seed: int, quick: bool) -> Any:
    """The default, but for its silence."""
    import benthic

    return benthic.DDPM(random_state=seed, trainer={"verbose": False, **({"steps": 20} if quick else {})})


def seconds_of(X: np.ndarray, seed: int, quick: bool) -> float:
    """Of fitting all digits and drawing a hundred, without labels."""
    start = time.perf_counter()
    model(seed, quick).fit(X).sample(DRAWS, seed=seed)
    return time.perf_counter() - start


def asked(X: np.ndarray, y: np.ndarray, seed: int, quick: bool) -> dict[str, float]:
    """Fitted with labels to half of the digits, asked for those of the other half, and read by one who saw only that.

    Coverage is that of the other half by as many samples; its floor is what the fitted half covers.
    """
    from benthic.metrics import prdc

    fitted, held, labels, wanted = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    reader = SVC(gamma=0.1, C=10.0).fit(held.reshape(len(held), -1), wanted)
    drawn = model(seed, quick).fit(fitted, labels).sample(len(wanted), given=wanted, seed=seed)
    flat, real = drawn.reshape(len(drawn), -1), held.reshape(len(held), -1)
    floor, found = prdc(real, fitted.reshape(len(fitted), -1)).coverage, prdc(real, flat).coverage
    return {
        "reader": float(reader.score(fitted.reshape(len(fitted), -1), labels)),
        "read as asked": float((reader.predict(flat) == wanted).mean()),
        "coverage": found.value,
        "coverage of real digits": floor.value,
    }


def run(quick: bool = False) -> Result:
    """A few seeds; every number is the worst of them."""
    X, y = pictures()
    seeds = range(1 if quick else RUNS)
    times = [seconds_of(X, seed, quick) for seed in seeds]
    found = [asked(X, y, seed, quick) for seed in seeds]
    right = min(one["read as asked"] for one in found)
    reach = 1.96 * (right * (1 - right) / (len(X) // 2)) ** 0.5
    claims = [
        Claim("fit and 100 samples, seconds, slowest seed", exact(max(times)), "<=", 90.0, " s"),
        Claim("accuracy of the reader on digits it never saw", exact(min(one["reader"] for one in found)), ">=", 0.98),
        Claim("samples read as asked, worst seed", Interval(right, right - reach, min(right + reach, 1.0)), ">=", 0.95),
        Claim(
            "coverage over that of real digits, worst seed",
            exact(min(one["coverage"] / one["coverage of real digits"] for one in found)),
            ">=",
            0.8,
        ),
    ]
    means = {key: round(float(np.mean([one[key] for one in found])), 4) for key in found[0]}
    timings = Timings({"fit and sample": times}, {"fit and sample": means})
    return Result("diffusion_digits", TITLE, claims, timings, {"seeds": len(seeds), "draws": DRAWS})
