"""Metrics of generated samples: ours beside torch-fidelity, prdc and POT on the same features, values and times."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Callable
from types import ModuleType
from unittest import mock

import numpy as np
import torch

from benchmarks.harness import Quality, Timings, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "Fréchet and kernel distance, precision/recall, density/coverage, Wasserstein: values and times beside peers"
_ABSENT = ("", ".datasets", ".transforms", ".transforms.functional")


def features(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two samples of correlated, rectified features, as a network's last layer gives them."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(d, d)) / np.sqrt(d) * np.exp(-np.arange(d) / (d / 4))[:, None]
    real, made = rng.normal(size=(n, d)) @ mix, (1.1 * rng.normal(size=(n, d)) + 0.05) @ mix
    return np.maximum(real, 0), np.maximum(made, 0)


def fidelity(name: str) -> ModuleType:
    """One of torch-fidelity's modules; its networks, which need torchvision, are not used here."""
    absent = {f"torchvision{part}": mock.MagicMock() for part in _ABSENT}
    absent["torchvision.datasets"] = ModuleType("torchvision.datasets")
    for kind in ("CIFAR10", "CIFAR100", "STL10"):
        setattr(absent["torchvision.datasets"], kind, type(kind, (torch.utils.data.Dataset,), {}))
    with mock.patch.dict(sys.modules, absent):
        return importlib.import_module(f"torch_fidelity.{name}")


def frechet_of_fidelity(X: np.ndarray, Y: np.ndarray) -> Quality:
    """The eigenvalues of a product of covariances."""
    module = fidelity("metric_fid")
    laws = [module.fid_features_to_statistics(torch.from_numpy(part)) for part in (X, Y)]
    return {"value": module.fid_statistics_to_metric(*laws, False)["frechet_inception_distance"]}


def kernel_of_fidelity(X: np.ndarray, Y: np.ndarray) -> Quality:
    """All pairs at once: one subset of all rows."""
    found = fidelity("metric_kid").kid_features_to_metric(
        torch.from_numpy(X), torch.from_numpy(Y), kid_subsets=1, kid_subset_size=len(X), verbose=False
    )
    return {"value": found["kernel_inception_distance_mean"]}


def overlap_of_fidelity(X: np.ndarray, Y: np.ndarray) -> Quality:
    """Improved precision and recall, k = 3; generated rows first."""
    found = fidelity("metric_prc").prc_features_to_metric(torch.from_numpy(Y), torch.from_numpy(X), verbose=False)
    return {"precision": found["precision"], "recall": found["recall"]}


def overlap_of_prdc(X: np.ndarray, Y: np.ndarray) -> Quality:
    """All four, k = 5."""
    from prdc import compute_prdc

    with contextlib.redirect_stdout(io.StringIO()):
        return {name: float(value) for name, value in compute_prdc(X, Y, 5).items()}


def exact_of_pot(X: np.ndarray, Y: np.ndarray) -> Quality:
    """The network simplex."""
    import ot

    return {"value": float(np.sqrt(ot.emd2([], [], ot.dist(X, Y))))}


def sliced_of_pot(X: np.ndarray, Y: np.ndarray) -> Quality:
    """With our directions, so that the values are the same."""
    import ot

    theta = directions(X.shape[1])
    return {"value": float(ot.sliced_wasserstein_distance(X, Y, projections=theta.T))}


def directions(d: int, count: int = 128) -> np.ndarray:
    """The directions that ours takes for seed 0."""
    from benthic.base.seeds import generator

    normal = torch.randn(count, d, generator=generator(0, "sliced_wasserstein"), dtype=torch.float64)
    return torch.nn.functional.normalize(normal, dim=1).numpy()


def ours(name: str, k: int | None = None) -> Callable[[np.ndarray, np.ndarray], Quality]:
    """One of Benthic's metrics; its value, and its standard errors too, are part of the time."""

    def call(X: np.ndarray, Y: np.ndarray) -> Quality:
        from benthic import metrics

        found = getattr(metrics, name)(X, Y) if k is None else getattr(metrics, name)(X, Y, k)
        if isinstance(found, metrics.Estimate):
            return {"value": found.value}
        return {part: getattr(found, part).value for part in found._fields}

    return call


PAIRS = {
    "Fréchet": ("torch-fidelity", frechet_of_fidelity, ours("frechet_distance")),
    "kernel distance": ("torch-fidelity", kernel_of_fidelity, ours("kernel_distance")),
    "precision, recall": ("torch-fidelity", overlap_of_fidelity, ours("sample_precision_recall")),
    "all four": ("prdc", overlap_of_prdc, ours("prdc")),
    "exact Wasserstein": ("POT", exact_of_pot, ours("exact_wasserstein")),
    "sliced Wasserstein": ("POT", sliced_of_pot, ours("sliced_wasserstein")),
}
# how many times faster ours must be; it gives standard errors and potentials, which the peers do not
LEAST = {
    "Fréchet": 0.3,
    "kernel distance": 0.8,
    "precision, recall": 0.7,
    "all four": 0.8,
    "exact Wasserstein": 0.3,
    "sliced Wasserstein": 0.8,
}


def compared(what: str, X: np.ndarray, Y: np.ndarray, repeats: int) -> tuple[Timings, float]:
    """Times of both, and the largest difference of their values relative to the value."""
    peer, theirs, mine = PAIRS[what]
    names = (f"benthic {what}", f"{peer} {what}")
    timings = alternate({names[0]: lambda: mine(X, Y), names[1]: lambda: theirs(X, Y)}, repeats=repeats)
    a, b = (timings.quality[name] for name in names)
    return timings, max(abs(a[part] - b[part]) / max(abs(b[part]), 1e-12) for part in a)


def run(quick: bool = False) -> Result:
    """Each metric in turn, on features of 512 columns; exact transport on fewer rows."""
    n, d, few, repeats = (300, 24, 100, 2) if quick else (5000, 512, 1000, 5)
    X, Y = features(n, d)
    seconds, quality, claims = {}, {}, []
    for what, (peer, _, _) in PAIRS.items():
        rows = few if what == "exact Wasserstein" else n
        timings, gap = compared(what, X[:rows], Y[:rows], repeats)
        seconds |= timings.seconds
        quality |= timings.quality
        ratio = timings.ratio(f"{peer} {what}", f"benthic {what}")
        claims.append(Claim(f"{what}: {peer} / benthic", ratio, ">=", LEAST[what], "x"))
        claims.append(Claim(f"{what}: relative difference of values", exact(gap), "<=", 1e-6))
    settings = {"rows": n, "columns": d, "rows of exact transport": few, "threads": torch.get_num_threads()}
    return Result("generative_metrics", TITLE, claims, Timings(seconds, quality), settings)
