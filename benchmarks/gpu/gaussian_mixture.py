"""EM for five million rows on a GPU, beside passes written in plain torch: d = 32, 32 components, full and diagonal.

Run with ``python -m benchmarks.gpu.gaussian_mixture OUT.json``. The rows stay on the device; ours goes through the
public ``fit``, and a pass is what each further one adds to it. Both begin with the same parameters and make the same
number of passes in float32; one function judges both in float64.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.mixture.gaussian import GaussianMixture

ROWS, COLUMNS, COMPONENTS, PASSES, RIDGE = 5_000_000, 32, 32, 20, 1e-6
FEW = 5  # passes of the short fit, whose time is taken from that of the long one
BATCHES = (None, 1 << 18, 1 << 20)  # rows of a batch of ours; None is the default


class Law(NamedTuple):
    """Weights (k,), means (k, d) and covariances (k, d, d), or variances (k, d)."""

    weights: Tensor
    means: Tensor
    covariances: Tensor


def rows_of(kind: str) -> Tensor:
    """Overlapping Gaussians with covariances of that kind."""
    source = torch.Generator("cuda").manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, device="cuda", generator=source)

    labels = torch.randint(COMPONENTS, (ROWS,), device="cuda", generator=source)
    centers, X = 2 * normal(COMPONENTS, COLUMNS), normal(ROWS, COLUMNS)
    if kind == "full":
        roots = normal(COMPONENTS, COLUMNS, COLUMNS) / math.sqrt(COLUMNS)
        for k in range(COMPONENTS):
            mine = labels == k
            X[mine] = X[mine] @ roots[k] + 0.5 * normal(int(mine.sum()), COLUMNS)
    else:
        X *= 0.5 + torch.rand(COMPONENTS, COLUMNS, device="cuda", generator=source)[labels]
    return X + centers[labels]


def start_of(X: Tensor, kind: str) -> Law:
    """Rows as means, and one sphere as wide as the data."""
    chosen = torch.randperm(len(X), device="cuda", generator=torch.Generator("cuda").manual_seed(1))[:COMPONENTS]
    variance = X.var(0).mean()
    shape = variance * torch.eye(COLUMNS, device="cuda") if kind == "full" else variance.expand(COLUMNS)
    weights = torch.full((COMPONENTS,), 1 / COMPONENTS, device="cuda")
    return Law(weights, X[chosen].clone(), shape.expand(COMPONENTS, *shape.shape).clone())


def log_joint(X: Tensor, law: Law) -> Tensor:
    """log w_k + log N(x; μ_k, C_k), (n, k), one component after the other."""
    constant = law.weights.log() - 0.5 * COLUMNS * math.log(2 * math.pi)
    if law.covariances.ndim == 2:
        scale = law.covariances.rsqrt()
        parts = [((X - mean) * each).square().sum(1) for mean, each in zip(law.means, scale, strict=True)]
        return constant + scale.log().sum(1) - 0.5 * torch.stack(parts, 1)
    roots = torch.linalg.cholesky(law.covariances)
    eye = torch.eye(COLUMNS, device=X.device, dtype=X.dtype).expand_as(roots)
    whiten = torch.linalg.solve_triangular(roots, eye, upper=False)
    parts = [((X - mean) @ each.T).square().sum(1) for mean, each in zip(law.means, whiten, strict=True)]
    logs = roots.diagonal(dim1=1, dim2=2).log().sum(1)
    return constant - logs - 0.5 * torch.stack(parts, 1)


def plain_pass(X: Tensor, law: Law) -> Law:
    """One pass of EM over all rows at once, as one would write it in torch."""
    shares = torch.softmax(log_joint(X, law), 1)
    counts = shares.sum(0)
    means = shares.T @ X / counts[:, None]
    covariances = []
    for k in range(COMPONENTS):
        gaps = X - means[k]
        if law.covariances.ndim == 2:
            covariances.append(shares[:, k] @ gaps.square() / counts[k] + RIDGE)
        else:
            spread = (gaps * shares[:, k, None]).T @ gaps / counts[k]
            covariances.append(spread + RIDGE * torch.eye(COLUMNS, device=X.device))
    return Law(counts / len(X), means, torch.stack(covariances))


def log_likelihood(X: Tensor, law: Law) -> float:
    """Mean log-density in float64."""
    wide = Law(*(torch.as_tensor(part).to(X.device, torch.float64) for part in law))
    return float(sum(torch.logsumexp(log_joint(x.double(), wide), 1).sum() for x in X.split(250_000)) / len(X))


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and what came out."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return time.perf_counter() - begun, found


def fitted(X: Tensor, start: Law, kind: str, passes: int, batch: int | None) -> GaussianMixture:
    """Ours, from the start, for so many passes."""
    precisions = torch.linalg.inv(start.covariances) if kind == "full" else 1 / start.covariances
    model = GaussianMixture(
        COMPONENTS,
        covariance_type=kind,
        tol=0.0,
        reg_covar=RIDGE,
        max_iter=passes,
        weights_init=start.weights.cpu().double().numpy(),
        means_init=start.means.cpu().double().numpy(),
        precisions_init=precisions.cpu().double().numpy(),
        trainer=None if batch is None else {"batch_size": batch},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that so few passes did not converge is the plan
        return model.fit(X)


def ours(X: Tensor, start: Law, kind: str, batch: int | None) -> dict[str, Any]:
    """Seconds of a pass of the public fit, and the likelihood reached."""
    fitted(X[:200_000], start, kind, 2, batch)
    short = min(seconds(lambda: fitted(X, start, kind, FEW, batch))[0] for _ in range(2))
    long, model = seconds(lambda: fitted(X, start, kind, PASSES, batch))
    law = Law(model.weights_, model.means_, model.covariances_)
    return {
        "ms a pass": 1e3 * (long - short) / (PASSES - FEW),
        f"seconds of {PASSES} passes": long,
        "log-likelihood": log_likelihood(X, law),
        "passes": model.n_iter_,
    }


def plain(X: Tensor, start: Law) -> dict[str, Any]:
    """The same of the plain passes."""
    law = plain_pass(X, start)
    law, times = start, []
    for _ in range(PASSES):
        one, law = seconds(lambda law=law: plain_pass(X, law))
        times.append(one)
    return {"ms a pass": 1e3 * sorted(times)[PASSES // 2], "log-likelihood": log_likelihood(X, law)}


def measure(kind: str) -> dict[str, Any]:
    """Plain and ours with several sizes of batches, on rows of that kind."""
    X = rows_of(kind)
    start = start_of(X, kind)
    found: dict[str, Any] = {"plain torch": plain(X, start)}
    for batch in BATCHES:
        found[f"benthic, {'default' if batch is None else batch} rows a batch"] = ours(X, start, kind, batch)
    theirs = found["plain torch"]
    for name in [name for name in found if name.startswith("benthic")]:
        found[f"plain / {name}"] = theirs["ms a pass"] / found[name]["ms a pass"]
        gap = found[name]["log-likelihood"] - theirs["log-likelihood"]
        found[f"nats a row over plain, {name}"] = gap
    return found


def main() -> None:
    """Both kinds of covariances."""
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "rows": ROWS,
        "columns": COLUMNS,
        "components": COMPONENTS,
        "passes": PASSES,
    }
    for kind in ("full", "diag"):
        found[kind] = measure(kind)
        print(json.dumps({kind: found[kind]}, indent=2), flush=True)
        Path(sys.argv[1]).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
