"""The exact denoiser of Gaussians and their mixtures, by which solvers are proved."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator as stream_of
from benthic.base.seeds import seed_of
from benthic.generative.diffusion.denoiser import Denoising
from benthic.generative.diffusion.process import Process, Time, as_time, process_of

_REACH, _SPACING = 14.0, 0.45  # of the quadrature over the scale of Poisson noise, in deviations of its logarithm


class ExactDenoiser(Denoising):
    r"""The expected data, score and density of a mixture of Gaussians under any process, in closed form.

    .. math:: p_t = \sum_k w_k N(\alpha m_k,\; \alpha^2 C_k + \sigma^2 I), \qquad
        \mathbb{E}[x_0 \mid x] = \sum_k r_k(x)
        \big(m_k + \alpha C_k (\alpha^2 C_k + \sigma^2 I)^{-1} (x - \alpha m_k)\big)

    The noise of Poisson flow is Student's, a mixture of Gaussians over scales, which is summed by the trapezoidal rule
    (to about 1e-10). Made by :func:`exact_denoiser`. Points: (n, d).
    """

    def __init__(self, weights: Tensor, means: Tensor, covariances: Tensor, process: Process) -> None:
        self.process, self.weights, self.means, self.covariances = process, weights, means, covariances
        self.values, self.vectors = torch.linalg.eigh(covariances)  # (k, d), (k, d, d)
        self.values = self.values.clamp_min(0)
        log_share, self._factors = _scales(process, means)
        self._log_share = weights.log()[:, None] + log_share  # (k, s)

    def data(self, x: Tensor, t: Time) -> Tensor:
        """The expected clean data."""
        centered, spread, alpha = self._parts(x, t)
        log = self._log_parts(centered, spread)  # (n, k, s)
        share = torch.softmax(log.flatten(1), 1).reshape(log.shape)
        values = self._like(x)[2]
        gain = alpha[..., None, None] * values[:, None] / spread  # (1 or n, k, s, d)
        moved = (share[..., None] * gain).sum(2) * centered  # (n, k, d)
        moved = torch.einsum("nkd,ked->ne", moved, self._like(x)[1])
        return moved + share.sum(2) @ self._like(x)[0]

    def log_prob(self, x: Tensor, t: Time | None = None) -> Tensor:
        """The log-density (n,) of noisy points at time t, or of clean ones."""
        return torch.logsumexp(self._log_parts(*self._parts(x, t)[:2]).flatten(1), 1)

    def responsibilities(self, x: Tensor, t: Time | None = None) -> Tensor:
        """The probability of each component given the points, (n, k)."""
        log = self._log_parts(*self._parts(x, t)[:2])
        return torch.softmax(log.flatten(1), 1).reshape(log.shape).sum(2)

    def draw(self, n: int, seed: int | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """Clean data (n, d)."""
        stream = stream_of(seed_of(seed), "exact")
        which = torch.multinomial(self.weights, n, replacement=True, generator=stream)
        normal = torch.randn(n, self.means.shape[1], generator=stream, dtype=torch.float64) * self.values[which].sqrt()
        return (self.means[which] + torch.einsum("nde,ne->nd", self.vectors[which], normal)).to(dtype)

    @property
    def mean(self) -> Tensor:
        """The mean of the data, (d,)."""
        return self.weights @ self.means

    @property
    def covariance(self) -> Tensor:
        """The covariance of the data, (d, d)."""
        away = self.means - self.mean
        return torch.einsum("k,kde->de", self.weights, self.covariances + away[:, :, None] * away[:, None])

    def _like(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.means.to(x), self.vectors.to(x), self.values.to(x)

    def _parts(self, x: Tensor, t: Time | None) -> tuple[Tensor, Tensor, Tensor]:
        """Points about the means in the axes of the components, the variances there, and alpha."""
        if x.ndim != 2 or x.shape[1] != self.means.shape[1]:
            raise InvalidInput(
                f"exact denoiser: points have shape {tuple(x.shape)}; (n, {self.means.shape[1]}) is needed"
            )
        means, vectors, values = self._like(x)
        one = as_time(1.0)
        alpha, sigma = (one, 0 * one) if t is None else (self.process.alpha(t), self.process.sigma(t))
        alpha, sigma = alpha.to(x).reshape(-1, 1), sigma.to(x).reshape(-1, 1)  # (1 or n, 1)
        centered = torch.einsum("nkd,kde->nke", x[:, None] - alpha[..., None] * means, vectors)
        noise = (sigma.square() * self._factors.to(x))[:, None, :, None]  # (1 or n, 1, s, 1)
        return centered, alpha[..., None, None].square() * values[:, None] + noise, alpha

    def _log_parts(self, centered: Tensor, spread: Tensor) -> Tensor:
        """The log-density of each component and scale, (n, k, s)."""
        squares = (centered[:, :, None].square() / spread).sum(-1)
        constant = self.means.shape[1] * math.log(2 * math.pi)
        return self._log_share.to(centered) - 0.5 * (squares + spread.log().sum(-1) + constant)


def exact_denoiser(mixture: Any, process: Process | str) -> ExactDenoiser:
    """The exact denoiser of a Gaussian or a mixture of Gaussians.

    mixture: (weights, means, covariances) of shapes (k,), (k, d), (k, d, d), a ``MultivariateNormal``, a
    ``MixtureSameFamily`` of such, or a fitted ``GaussianMixture``. process: a process or its name.

    >>> standard = exact_denoiser(([1.0], [[0.0, 0.0]], [torch.eye(2).tolist()]), "vp")
    >>> standard.score(torch.ones(1, 2), 0.5)
    tensor([[-1.0000, -1.0000]])
    """
    weights, means, covariances = (
        torch.as_tensor(part, dtype=torch.float64, device="cpu").detach() for part in _parts(mixture)
    )
    if means.ndim != 2 or weights.shape != means.shape[:1] or covariances.shape != (*means.shape, means.shape[1]):
        raise InvalidInput(
            f"exact_denoiser: weights {tuple(weights.shape)}, means {tuple(means.shape)}, covariances "
            f"{tuple(covariances.shape)}; (k,), (k, d), (k, d, d) are needed"
        )
    if bool((weights < 0).any()) or not float(weights.sum()) > 0:
        raise InvalidInput("exact_denoiser: weights must not be negative, and not all zero")
    return ExactDenoiser(weights / weights.sum(), means, covariances, process_of(process))


def _parts(mixture: Any) -> tuple[Any, Any, Any]:
    """Weights, means and covariances of whatever describes a mixture of Gaussians."""
    if isinstance(mixture, (tuple, list)) and len(mixture) == 3:
        return mixture[0], mixture[1], mixture[2]
    if hasattr(mixture, "covariance_matrix"):
        return [1.0], mixture.loc[None], mixture.covariance_matrix[None]
    if hasattr(mixture, "component_distribution"):
        inner = mixture.component_distribution
        return mixture.mixture_distribution.probs, inner.loc, inner.covariance_matrix
    if hasattr(mixture, "means_") and hasattr(mixture, "covariances_"):
        k, d = mixture.means_.shape
        return mixture.weights_, mixture.means_, _full(torch.as_tensor(mixture.covariances_), k, d)
    raise InvalidInput(
        f"exact_denoiser: {type(mixture).__name__} is no mixture of Gaussians; give (weights, means, covariances)"
    )


def _full(covariances: Tensor, k: int, d: int) -> Tensor:
    """Covariances of any kind of scikit-learn as (k, d, d)."""
    if covariances.shape == (k, d, d):
        return covariances
    if covariances.shape == (k, d):
        return torch.diag_embed(covariances)
    if covariances.shape == (k,):
        return covariances[:, None, None] * torch.eye(d, dtype=covariances.dtype)
    return covariances.expand(k, d, d)


def _scales(process: Process, like: Tensor) -> tuple[Tensor, Tensor]:
    """Log-weights and factors of the variance, (s,) each, of which the noise is a mixture: one, for normal noise."""
    if process.gaussian:
        return like.new_zeros(1), like.new_ones(1)
    freedom = float(getattr(process, "dimensions", math.inf))
    # Below ``low`` there is less than e^-28 of the law: its lower tail falls like (e tau / D)^(D/2).
    low = math.log(freedom) - max(_REACH * math.sqrt(2 / freedom), 1 + 56 / freedom)
    high = math.log(freedom + _REACH * math.sqrt(2 * freedom) + 3 * _REACH)
    count = math.ceil((high - low) / (_SPACING * math.sqrt(2 / (freedom + like.shape[1])))) + 1
    # Student's noise is normal noise over the root of chi-squared(D) / D; the sum runs over its logarithm.
    nodes = torch.linspace(low, high, count, dtype=like.dtype)
    log = 0.5 * freedom * nodes - 0.5 * nodes.exp()
    return log - torch.logsumexp(log, 0), freedom / nodes.exp()
