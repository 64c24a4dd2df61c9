"""Eight posteriors of posteriordb by NUTS: means and deviations beside the reference draws (10 chains of 1000)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Cauchy, LogNormal, Normal, constraints

from benchmarks.harness import data_folder
from benchmarks.report import Claim, Result, exact

TITLE = "posteriordb: 8 posteriors by NUTS against reference draws, in combined Monte-Carlo errors"
Params = dict[str, Tensor]
POSITIVE = {"sigma": constraints.positive}


def regression(columns: list[Tensor], y: Tensor, prior: Callable[[Params], Tensor] | None = None) -> Any:
    """A linear model with normal errors: its log density over chains, an example and the constraints."""
    X = torch.stack([torch.ones_like(y), *columns], 1)  # (n, d)

    def log_density(p: Params) -> Tensor:
        likelihood = Normal(p["beta"] @ X.T, p["sigma"][:, None]).log_prob(y).sum(-1)
        return likelihood if prior is None else likelihood + prior(p)

    return (
        log_density,
        {"beta": torch.zeros(X.shape[1], dtype=y.dtype), "sigma": torch.ones((), dtype=y.dtype)},
        POSITIVE,
    )


def half_cauchy(p: Params) -> Tensor:
    """The prior of a deviation."""
    return Cauchy(0.0, 2.5).log_prob(p["sigma"])


def eight_schools(d: Params) -> Any:
    """School effects around a common mean, written without their dependence on its spread."""

    def log_density(p: Params) -> Tensor:
        theta = p["theta_trans"] * p["tau"][:, None] + p["mu"][:, None]
        found = Normal(0.0, 1.0).log_prob(p["theta_trans"]).sum(-1) + Normal(theta, d["sigma"]).log_prob(d["y"]).sum(-1)
        return found + Normal(0.0, 5.0).log_prob(p["mu"]) + Cauchy(0.0, 5.0).log_prob(p["tau"])

    zero = torch.zeros((), dtype=torch.float64)
    example = {"theta_trans": torch.zeros(8, dtype=torch.float64), "mu": zero, "tau": zero + 1}
    return log_density, example, {"tau": constraints.positive}


def autoregression(d: Params) -> Any:
    """Five lags of a series."""
    y = d["y"]
    lags = torch.stack([y[5 - k : len(y) - k] for k in range(1, 6)], 1)  # (T - 5, 5)

    def log_density(p: Params) -> Tensor:
        mean = p["alpha"][:, None] + p["beta"] @ lags.T
        prior = Normal(0.0, 10.0).log_prob(p["alpha"]) + Normal(0.0, 10.0).log_prob(p["beta"]).sum(-1)
        return prior + half_cauchy(p) + Normal(mean, p["sigma"][:, None]).log_prob(y[5:]).sum(-1)

    zero = torch.zeros((), dtype=torch.float64)
    return log_density, {"alpha": zero, "beta": torch.zeros(5, dtype=torch.float64), "sigma": zero + 1}, POSITIVE


def linear_with_normal_priors(d: Params) -> Any:
    """A regression without an intercept."""

    def log_density(p: Params) -> Tensor:
        prior = Normal(0.0, 10.0).log_prob(p["beta"]).sum(-1) + Normal(0.0, 10.0).log_prob(p["sigma"])
        return prior + Normal(p["beta"] @ d["X"].T, p["sigma"][:, None]).log_prob(d["y"]).sum(-1)

    example = {"beta": torch.zeros(5, dtype=torch.float64), "sigma": torch.ones((), dtype=torch.float64)}
    return log_density, example, POSITIVE


def slope(t: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Lotka and Volterra's equations in logarithms, with the derivatives of the path by rates and start beside it.

    state: logarithms (chains, 2), their derivatives (chains, 2, 6), and the rates, which ride along unchanged.
    """
    logs, by, rise, pull = state
    other = logs.flip(-1).clamp(max=20).exp()
    bent = (pull * other)[..., None] * by.flip(-2)
    own = torch.diag_embed(torch.ones_like(rise))
    moved = torch.cat([own, torch.diag_embed(other), torch.zeros_like(own)], -1)
    return rise + pull * other, bent + moved, torch.zeros_like(rise), torch.zeros_like(pull)


class Path(torch.autograd.Function):
    """The path at given times, (times, chains, 2), with its derivative from one solve forward."""

    @staticmethod
    def forward(start: Tensor, rise: Tensor, pull: Tensor, times: list[float]) -> tuple[Tensor, Tensor]:
        """Solve for path and derivatives together."""
        from benthic.dynamics import solve

        zero = torch.zeros(*start.shape, 4, dtype=start.dtype)
        by = torch.cat([zero, torch.diag_embed(torch.ones_like(start))], -1)
        found = solve(slope, (start, by, rise, pull), times, method="rk4", step=0.25, compile=True).y
        return found[0], found[1]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep the derivatives."""
        ctx.save_for_backward(output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, unused: Tensor) -> Any:
        """The chain rule."""
        found = (grad[..., None] * ctx.saved_tensors[0]).sum((0, 2))  # (chains, 6)
        return found[:, 4:], found[:, :2], found[:, 2:4], None


def lotka_volterra(d: Params) -> Any:
    """Hares and lynxes: an equation in the logarithms of both, solved for every chain at each evaluation."""
    times = [0.0, *d["ts"].tolist()]

    def log_density(p: Params) -> Tensor:
        alpha, beta, gamma, delta = p["theta"].clamp(max=1e3).unbind(-1)  # chains that run off stay finite
        rise, pull = torch.stack([alpha, -gamma], -1), torch.stack([-beta, delta], -1)
        logs = Path.apply(p["z_init"].log().clamp(-20, 20), rise, pull, times)[0]
        prior = Normal(1.0, 0.5).log_prob(p["theta"][:, ::2]).sum(-1) + Normal(0.05, 0.05).log_prob(
            p["theta"][:, 1::2]
        ).sum(-1)
        prior = prior + LogNormal(-1.0, 1.0).log_prob(p["sigma"]).sum(-1)
        prior = prior + LogNormal(np.log(10.0), 1.0).log_prob(p["z_init"]).sum(-1)
        seen = torch.cat([d["y_init"][None], d["y"]])  # (N + 1, 2)
        return prior + LogNormal(logs, p["sigma"]).log_prob(seen[:, None]).sum((0, 2))

    example = {
        "theta": torch.tensor([1.0, 0.05, 1.0, 0.05], dtype=torch.float64),
        "z_init": torch.full((2,), 10.0, dtype=torch.float64),
        "sigma": torch.full((2,), 0.4, dtype=torch.float64),
    }
    return log_density, example, dict.fromkeys(example, constraints.positive)


MODELS: dict[str, Callable[[Params], Any]] = {
    "eight_schools-eight_schools_noncentered": eight_schools,
    "kidiq-kidscore_momiq": lambda d: regression([d["mom_iq"]], d["kid_score"], half_cauchy),
    "kidiq-kidscore_interaction": lambda d: regression(
        [d["mom_hs"], d["mom_iq"], d["mom_hs"] * d["mom_iq"]], d["kid_score"], half_cauchy
    ),
    "mesquite-mesquite": lambda d: regression(
        [d[k] for k in ("diam1", "diam2", "canopy_height", "total_height", "density", "group")], d["weight"]
    ),
    "arK-arK": autoregression,
    "sblrc-blr": linear_with_normal_priors,
    "earnings-logearn_height": lambda d: regression([d["height"]], d["earn"].log()),
    "hudson_lynx_hare-lotka_volterra": lotka_volterra,
}


def likeliest(target: Any, chains: int, tried: int = 1000, steps: int = 300) -> Tensor:
    """Starting points for the hares and lynxes: the best of many prior draws, each moved uphill for a while.

    The posterior has minor modes tens of nats below, in which a chain would stay; points that end in one are left out.
    """
    rng = np.random.default_rng(0)
    theta = np.abs(rng.normal([1.0, 0.05, 1.0, 0.05], [0.5, 0.05, 0.5, 0.05], size=(tried, 4)))
    params = {
        "theta": torch.from_numpy(theta),
        "z_init": torch.from_numpy(rng.lognormal(np.log(10.0), 1.0, size=(tried, 2))),
        "sigma": torch.from_numpy(rng.lognormal(-1.0, 1.0, size=(tried, 2))),
    }
    rows = target.pack(params)
    rows = rows[target.log_density(rows).nan_to_num(-torch.inf).topk(4 * chains).indices].requires_grad_()
    climb = torch.optim.Adam([rows], lr=0.03)
    for _ in range(steps):
        value, slope = target.value_and_grad(rows.detach())
        rows.grad = -slope.nan_to_num(0.0)
        climb.step()
    rows = rows.detach()
    value = target.log_density(rows).nan_to_num(-torch.inf)
    good = (value > value.max() - 20).nonzero()[:, 0]
    chosen = good[torch.arange(chains) % len(good)]
    return rows[chosen] + 0.1 * torch.randn(chains, target.dim, generator=torch.Generator().manual_seed(0)).double()


def read() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Models with their data, and the reference draws (chains, draws, parameters)."""
    folder = data_folder("posteriordb")
    with gzip.open(folder / "posteriors.json.gz") as file:
        models = json.load(file)
    with np.load(folder / "reference_draws.npz") as draws:
        return models, {name: draws[name] for name in draws.files}


def table(values: Params, names: list[str]) -> Tensor:
    """Draws (chains, draws, parameters) in the order of the reference's names, which count from one."""
    values = dict(values)
    if "theta_trans" in values:
        values["theta"] = values["theta_trans"] * values["tau"][..., None] + values["mu"][..., None]
    columns = []
    for name in names:
        base, _, index = name.partition("[")
        columns.append(values[base][..., int(index[:-1]) - 1] if index else values[base])
    return torch.stack(columns, -1)


def compare(name: str, model: dict[str, Any], reference: np.ndarray, quick: bool) -> dict[str, float]:
    """The largest difference of means and deviations in combined Monte-Carlo errors, and the largest R-hat."""
    from benthic.samplers import Target, mcse_mean, mcse_sd, rhat, run

    data = {key: torch.as_tensor(np.array(value, dtype=float)) for key, value in model["data"].items()}
    log_density, example, sets = MODELS[name](data)
    target = Target(log_density, example, constraints=sets, batched=True)
    slow = name.endswith("lotka_volterra")
    chains, draws, warmup = (16, 40, 100) if quick else (32, 200, 200) if slow else (16, 1000, 1000)
    start = likeliest(target, chains) if slow else None  # elsewhere it may stay in a minor mode
    found = run("nuts", target, chains=chains, draws=draws, warmup=warmup, start=start, seed=1)
    ours, theirs = table(found.values, model["params"]), torch.as_tensor(reference)
    gaps = {
        "mean": (ours.mean((0, 1)) - theirs.mean((0, 1))) / (mcse_mean(ours) ** 2 + mcse_mean(theirs) ** 2).sqrt(),
        "sd": (ours.std((0, 1)) - theirs.std((0, 1))) / (mcse_sd(ours) ** 2 + mcse_sd(theirs) ** 2).sqrt(),
    }
    worst = {key: float(gap.abs().max()) for key, gap in gaps.items()}
    return {**worst, "R-hat": float(rhat(ours).max()), "divergent": float(found.info["divergent"].sum())}


def run(quick: bool = False) -> Result:
    """All eight."""
    models, reference = read()
    rows = {name: compare(name, models[name], reference[name], quick) for name in MODELS}
    claims = [
        Claim("largest difference of a mean", exact(max(r["mean"] for r in rows.values())), "<=", 4.0, " MCSE"),
        Claim("largest difference of a deviation", exact(max(r["sd"] for r in rows.values())), "<=", 4.0, " MCSE"),
        Claim("largest R-hat", exact(max(r["R-hat"] for r in rows.values())), "<=", 1.01, ""),
    ]
    return Result("posteriors", TITLE, claims, settings=rows)
