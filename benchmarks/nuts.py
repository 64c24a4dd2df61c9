"""Effective samples a second of NUTS, warm-up included, beside Pyro, NumPyro and BlackJAX.

Every candidate gets the same number of chains, warm-up transitions and draws of the same target in float32, is
compiled by a first run that is not timed, and is judged by the same diagnostics: the least bulk effective sample
size over parameters. What is timed is seconds for one effective sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.harness import Quality, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "NUTS, least bulk ESS a second with warm-up; 10-D correlated Gaussian, logistic regression 1000 x 25"
Sampler = Callable[[int], np.ndarray]  # seed -> (chains, draws, d)


class Problem(NamedTuple):
    """A target as arrays: a precision matrix, or rows and labels."""

    name: str
    dim: int
    precision: np.ndarray | None
    rows: np.ndarray | None
    labels: np.ndarray | None


class Size(NamedTuple):
    """Chains, warm-up transitions and draws of each."""

    chains: int
    warmup: int
    draws: int


def gaussian() -> Problem:
    """A normal law of 10 dimensions with correlations; the condition number is 22."""
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(10, 10))
    cov = factor @ factor.T / 10 + 0.1 * np.eye(10)
    return Problem("gaussian", 10, np.linalg.inv(cov).astype(np.float32), None, None)


def logistic(n: int = 1000, d: int = 25) -> Problem:
    """Logistic regression with standard normal coefficients, which are also the prior."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(n, d)).astype(np.float32)
    chance = 1 / (1 + np.exp(-rows @ rng.normal(size=d)))
    return Problem("logistic", d, None, rows, (rng.uniform(size=n) < chance).astype(np.float32))


def torch_density(problem: Problem, device: str = "cpu") -> Callable[[torch.Tensor], torch.Tensor]:
    """The log density of rows (chains, d) in torch."""
    if problem.precision is not None:
        precision = torch.from_numpy(problem.precision).to(device)
        return lambda b: -0.5 * ((b @ precision) * b).sum(-1)
    rows, labels = torch.from_numpy(problem.rows).to(device), torch.from_numpy(problem.labels).to(device)

    def density(b: torch.Tensor) -> torch.Tensor:
        logits = b @ rows.T
        return (logits * labels - torch.nn.functional.softplus(logits)).sum(-1) - 0.5 * (b**2).sum(-1)

    return density


def jax_density(problem: Problem) -> Callable[[Any], Any]:
    """The log density of one row (d,) in JAX."""
    import jax
    import jax.numpy as jnp

    if problem.precision is not None:
        precision = jnp.asarray(problem.precision)
        return lambda b: -0.5 * b @ precision @ b
    rows, labels = jnp.asarray(problem.rows), jnp.asarray(problem.labels)

    def density(b: Any) -> Any:
        logits = rows @ b
        return jnp.sum(logits * labels - jax.nn.softplus(logits)) - 0.5 * jnp.sum(b**2)

    return density


def benthic(problem: Problem, size: Size, kernel: str = "nuts", compile: bool = True) -> Sampler:
    """Ours."""
    from benthic.samplers import Target, run

    target = Target(torch_density(problem), torch.zeros(problem.dim), batched=True, compile=compile)

    def sample(seed: int) -> np.ndarray:
        return run(kernel, target, **size._asdict(), seed=seed)["x"].numpy()

    return sample


def pyro(problem: Problem, size: Size) -> Sampler:
    """The peer on torch; its chains run one after another, so one stands for all."""
    from pyro.infer import MCMC, NUTS

    density = torch_density(problem)
    start = {"x": torch.zeros(problem.dim)}

    def sample(seed: int) -> np.ndarray:
        torch.manual_seed(seed)
        kernel = NUTS(potential_fn=lambda p: -density(p["x"][None])[0])
        chain = MCMC(kernel, size.draws, warmup_steps=size.warmup, initial_params=start, disable_progbar=True)
        chain.run()
        return chain.get_samples(group_by_chain=True)["x"].numpy()

    return sample


def numpyro(problem: Problem, size: Size) -> Sampler:
    """NumPyro's MCMC class, chains vectorized."""
    import jax
    from numpyro.infer import MCMC, NUTS

    density = jax_density(problem)
    kernel = NUTS(potential_fn=lambda x: -density(x))
    chain = MCMC(
        kernel,
        num_warmup=size.warmup,
        num_samples=size.draws,
        num_chains=size.chains,
        chain_method="vectorized",
        progress_bar=False,
    )

    def sample(seed: int) -> np.ndarray:
        key = jax.random.key(seed)
        start = jax.random.uniform(key, (size.chains, problem.dim), minval=-2, maxval=2)
        chain.run(key, init_params=start)
        return np.asarray(chain.get_samples(group_by_chain=True))

    return sample


def numpyro_jitted(problem: Problem, size: Size) -> Sampler:
    """NumPyro's kernel in one jitted loop, mapped over chains."""
    import jax
    from numpyro.infer import NUTS

    density = jax_density(problem)

    def chain(key: Any, start: Any) -> Any:
        kernel = NUTS(potential_fn=lambda x: -density(x))
        state = kernel.init(key, size.warmup, start, (), {})
        state = jax.lax.fori_loop(0, size.warmup, lambda _, s: kernel.sample(s, (), {}), state)

        def body(state: Any, _: Any) -> Any:
            state = kernel.sample(state, (), {})
            return state, state.z

        return jax.lax.scan(body, state, None, length=size.draws)[1]

    return jitted(chain, problem, size)


def blackjax(problem: Problem, size: Size) -> Sampler:
    """BlackJAX with window adaptation, in one jitted loop, mapped over chains."""
    import blackjax
    import jax

    density = jax_density(problem)

    def chain(key: Any, start: Any) -> Any:
        adapt_key, draw_key = jax.random.split(key)
        adapt = blackjax.window_adaptation(blackjax.nuts, density)
        (state, settings), _ = adapt.run(adapt_key, start, num_steps=size.warmup)
        step = blackjax.nuts(density, **settings).step

        def body(state: Any, key: Any) -> Any:
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(body, state, jax.random.split(draw_key, size.draws))[1]

    return jitted(chain, problem, size)


def jitted(chain: Callable[[Any, Any], Any], problem: Problem, size: Size) -> Sampler:
    """A chain of JAX, mapped and compiled."""
    import jax

    work = jax.jit(jax.vmap(chain))

    def sample(seed: int) -> np.ndarray:
        key = jax.random.key(seed)
        start = jax.random.uniform(key, (size.chains, problem.dim), minval=-2, maxval=2)
        return np.asarray(work(jax.random.split(key, size.chains), start))

    return sample


def candidate(sampler: Sampler) -> Callable[[], Quality]:
    """Seconds for one effective sample; the first call, which compiles, is made before."""
    from benthic.samplers import ess_bulk, rhat

    seeds = iter(range(10_000))

    def work() -> Quality:
        begun = time.perf_counter()
        draws = sampler(next(seeds))
        elapsed = time.perf_counter() - begun
        x = torch.from_numpy(np.array(draws)).double()
        least = float(ess_bulk(x).min())
        return {"seconds": elapsed / least, "ESS a second": least / elapsed, "R-hat": float(rhat(x).max())}

    return work


def run(quick: bool = False) -> Result:
    """Alternate all of them, on both targets, at few and at many chains."""
    sizes = [Size(4, 60, 100), Size(16, 40, 40)] if quick else [Size(4, 300, 1000), Size(256, 100, 250)]
    slow = Size(1, 60, 60) if quick else Size(1, 200, 200)
    candidates: dict[str, Callable[[], Quality]] = {}
    for problem in (gaussian(), logistic()):
        for size in sizes:
            place = f"{problem.name}, {size.chains} chains"
            for name, make in (("benthic", benthic), ("numpyro", numpyro), ("blackjax", blackjax)):
                candidates[f"{name}: {place}"] = candidate(make(problem, size))
            candidates[f"numpyro jitted: {place}"] = candidate(numpyro_jitted(problem, size))
        candidates[f"pyro: {problem.name}"] = candidate(pyro(problem, slow))
    timings = alternate(candidates, repeats=1 if quick else 3)
    claims = []
    for problem in (gaussian(), logistic()):
        for size in sizes:
            place = f"{problem.name}, {size.chains} chains"
            ours = f"benthic: {place}"
            limits = {
                f"pyro: {problem.name}": 50.0,
                f"numpyro: {place}": 5.0,
                f"blackjax: {place}": 1.0,
                f"numpyro jitted: {place}": 1.0,
            }
            claims += [
                Claim(f"ESS/s, benthic / {peer}", timings.ratio(peer, ours), ">=", limit, "x")
                for peer, limit in limits.items()
            ]
            claims.append(Claim(f"R-hat, {ours}", exact(timings.quality[ours]["R-hat"]), "<=", 1.01, ""))
    settings = {"sizes": [size._asdict() for size in sizes], "pyro": slow._asdict(), "dtype": "float32"}
    return Result("nuts", TITLE, claims, timings, settings)
