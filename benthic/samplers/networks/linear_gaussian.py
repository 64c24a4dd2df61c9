"""Networks of linear-Gaussian variables are one normal law, and conditioning it is linear algebra."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from benthic.base.errors import InvalidInput
from benthic.samplers.networks.conditionals import Conditional, LinearGaussian


def all_linear(nodes: Mapping[str, Conditional], names: Iterable[str]) -> bool:
    """Whether these variables, and so their parents, are linear-Gaussian."""
    return all(isinstance(nodes[name], LinearGaussian) for name in names)


def joint_normal(
    nodes: Mapping[str, Conditional], order: Sequence[str], evidence: Mapping[str, Tensor]
) -> tuple[list[str], MultivariateNormal]:
    r"""The normal law of the variables not observed, given those that are.

    .. math:: \mu_{a|b} = \mu_a + \Sigma_{ab} \Sigma_{bb}^{-1} (x_b - \mu_b), \qquad
        \Sigma_{a|b} = \Sigma_{aa} - \Sigma_{ab} \Sigma_{bb}^{-1} \Sigma_{ba}

    Shachter & Kenley, 1989. order: parents before children. Returns names and their joint law, in float64.
    """
    if not all_linear(nodes, order):
        other = next(name for name in order if not isinstance(nodes[name], LinearGaussian))
        raise InvalidInput(f"BayesianNetwork.normal: {other!r} is not LinearGaussian; only such networks are normal")
    mean, cov = _moments(nodes, order)
    free = [i for i, name in enumerate(order) if name not in evidence]
    held = [i for i, name in enumerate(order) if name in evidence]
    if not free:
        raise InvalidInput("BayesianNetwork.normal: every variable is observed; nothing is left to describe")
    if held:
        seen = torch.stack([evidence[order[i]].reshape(()).double().cpu() for i in held])
        gain = torch.linalg.solve(cov[held][:, held], cov[held][:, free]).T
        mean_free = mean[free] + gain @ (seen - mean[held])
        cov_free = cov[free][:, free] - gain @ cov[held][:, free]
        return [order[i] for i in free], MultivariateNormal(mean_free, 0.5 * (cov_free + cov_free.T))
    return list(order), MultivariateNormal(mean, cov)


def _moments(nodes: Mapping[str, Conditional], order: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Mean (d,) and covariance (d, d) of all variables, built up from the parents."""
    place = {name: i for i, name in enumerate(order)}
    mean = torch.zeros(len(order), dtype=torch.float64)
    cov = torch.zeros(len(order), len(order), dtype=torch.float64)
    for i, name in enumerate(order):
        law = nodes[name]
        row = torch.zeros(len(order), dtype=torch.float64)
        row[[place[parent] for parent in law.given]] = law.weights.double().cpu()
        mean[i] = law.bias + row @ mean
        across = cov @ row
        cov[i], cov[:, i] = across, across
        cov[i, i] = row @ across + law.scale**2
    return mean, cov


def sample_normal(
    nodes: Mapping[str, Conditional],
    order: Sequence[str],
    evidence: Mapping[str, Tensor],
    n: int,
    source: torch.Generator,
) -> dict[str, Tensor]:
    """Exact joint draws of the unobserved variables of a linear-Gaussian network."""
    names, law = joint_normal(nodes, order, evidence)
    noise = torch.randn(n, len(names), generator=source, dtype=torch.float64, device=source.device).cpu()
    x = law.mean + noise @ law.scale_tril.T
    return {name: x[:, i].to(nodes[name].weights) for i, name in enumerate(names)}
