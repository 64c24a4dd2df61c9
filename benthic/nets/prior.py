"""Laws of the latent code before any data are seen: standard normal, mixtures of normals, pseudo-inputs."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benthic.nets.noise import draw_gumbel, draw_normal
from benthic.nets.posterior import Diagonal, Posterior

_LOG_2PI = math.log(2 * math.pi)
Encode = Callable[[Tensor], Posterior]


class NormalPrior(nn.Module):
    """N(0, I); the divergence from it has a closed form."""

    closed = True

    def __init__(self, latent_dim: int) -> None:
        super().__init__()
        self.latent_dim = latent_dim

    def log_prob(self, z: Tensor, encode: Encode) -> Tensor:
        """log p(z) of codes (..., d)."""
        return -0.5 * (z.square() + _LOG_2PI).sum(-1)

    def draw(self, n: int, like: Tensor, generator: torch.Generator, encode: Encode) -> Tensor:
        """``n`` codes, (n, d)."""
        return draw_normal((n, self.latent_dim), like, generator)


class MixturePrior(nn.Module):
    r"""A mixture of normals with diagonal covariances, :math:`p(z) = \sum_k \pi_k N(z; \mu_k, \sigma_k^2)`."""

    closed = False

    def __init__(self, latent_dim: int, components: int) -> None:
        super().__init__()
        self.latent_dim = latent_dim
        self.logits = nn.Parameter(torch.zeros(components))
        self.means = nn.Parameter(torch.randn(components, latent_dim))
        self.log_vars = nn.Parameter(torch.zeros(components, latent_dim))

    def joint(self, z: Tensor) -> Tensor:
        """log π_k + log N(z; μ_k, σ_k²), (..., k)."""
        return torch.log_softmax(self.logits, 0) + Diagonal(self.means, self.log_vars).log_prob(z[..., None, :])

    def log_prob(self, z: Tensor, encode: Encode) -> Tensor:
        """log p(z) of codes (..., d)."""
        return torch.logsumexp(self.joint(z), -1)

    def draw(self, n: int, like: Tensor, generator: torch.Generator, encode: Encode) -> Tensor:
        """``n`` codes, (n, d)."""
        noise = draw_gumbel((n, len(self.logits)), like, generator)
        chosen = (self.logits.to(like) + noise).argmax(-1)
        normal = draw_normal((n, self.latent_dim), like, generator)
        return Diagonal(self.means[chosen], self.log_vars[chosen]).place(normal)


class FullMixturePrior(nn.Module):
    r"""A mixture of normals with full covariances, :math:`p(z) = \sum_k \pi_k N(z; \mu_k, L_k L_k^\top)`.

    It is set, not trained by gradients: log_weights (k,), means (k, d), factors (k, d, d), lower triangular, are
    buffers, and make one standard normal each until they are set.
    """

    closed = False
    log_weights: Tensor
    means: Tensor
    factors: Tensor

    def __init__(self, latent_dim: int, components: int) -> None:
        super().__init__()
        self.latent_dim = latent_dim
        self.register_buffer("log_weights", torch.full((components,), -math.log(components)))
        self.register_buffer("means", torch.zeros(components, latent_dim))
        self.register_buffer("factors", torch.eye(latent_dim).repeat(components, 1, 1))

    def log_prob(self, z: Tensor, encode: Encode) -> Tensor:
        """log p(z) of codes (..., d)."""
        gaps = (z[..., None, :] - self.means).reshape(-1, *self.means.shape)  # (n, k, d)
        whitened = torch.linalg.solve_triangular(self.factors, gaps.permute(1, 2, 0), upper=False)  # (k, d, n)
        volumes = self.factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        terms = self.log_weights - volumes - 0.5 * (whitened.square().sum(1).mT + self.latent_dim * _LOG_2PI)
        return torch.logsumexp(terms, -1).reshape(z.shape[:-1])

    def draw(self, n: int, like: Tensor, generator: torch.Generator, encode: Encode) -> Tensor:
        """``n`` codes, (n, d)."""
        noise = draw_gumbel((n, len(self.log_weights)), like, generator)
        chosen = (self.log_weights.to(like) + noise).argmax(-1)
        normal = draw_normal((n, self.latent_dim), like, generator)
        return self.means.to(like)[chosen] + (self.factors.to(like)[chosen] @ normal[..., None]).squeeze(-1)


class VampPrior(nn.Module):
    r"""The mean of the posteriors of learned pseudo-inputs, :math:`p(z) = \frac1K \sum_k q(z|u_k)`.

    Tomczak & Welling, 2018. inputs: (k, width) where they start, for example rows of the data. bounds: of their
    entries, where the data have some.
    """

    closed = False

    def __init__(self, inputs: Tensor, bounds: tuple[float, float] | None = None) -> None:
        super().__init__()
        self.inputs = nn.Parameter(inputs.clone())
        self.bounds = bounds

    def _parts(self, encode: Encode) -> Posterior:
        return encode(self.inputs if self.bounds is None else self.inputs.clamp(*self.bounds))

    def log_prob(self, z: Tensor, encode: Encode) -> Tensor:
        """log p(z) of codes (..., d)."""
        parts = self._parts(encode)
        if isinstance(parts, Diagonal):
            return torch.logsumexp(_log_prob_of_pairs(z, parts), -1) - math.log(len(self.inputs))
        return torch.logsumexp(parts.log_prob(z[..., None, :]), -1) - math.log(len(self.inputs))

    def draw(self, n: int, like: Tensor, generator: torch.Generator, encode: Encode) -> Tensor:
        """``n`` codes, (n, d)."""
        chosen = torch.randint(len(self.inputs), (n,), generator=generator).to(like.device)
        parts = type(self._parts(encode))(*(part[chosen] for part in self._parts(encode)))
        return parts.place(draw_normal(parts.mean.shape, like, generator))


def _log_prob_of_pairs(z: Tensor, parts: Diagonal) -> Tensor:
    """log N(z; μ_k, σ_k²) for all pairs (..., k) by three products of matrices, which need no (..., k, d)."""
    precision = torch.exp(-parts.log_var)
    squares = z.square() @ precision.mT - 2.0 * (z @ (parts.mean * precision).mT)
    constant = (parts.mean.square() * precision + parts.log_var + _LOG_2PI).sum(-1)
    return -0.5 * (squares + constant)
