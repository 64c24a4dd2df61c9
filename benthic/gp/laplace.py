"""Binary classification by Laplace's method: a normal law around the most probable latent values."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from benthic.gp.factor import Factor
from benthic.kernels.gram import Gram
from benthic.kernels.kernel import Kernel

_STEPS = 100  # of Newton's method
_PLACES = 401  # at which the logistic function is averaged over a normal law


class Mode(NamedTuple):
    """The most probable latent values, what the normal law around them needs, and the evidence it gives.

    latent: f, (n,). slope: gradient of the log-likelihood there, (n,). root: of minus its second derivative, (n,).
    value: approximate log marginal likelihood.
    """

    latent: Tensor
    slope: Tensor
    root: Tensor
    value: float


class LaplaceEvidence:
    r"""The approximate log marginal likelihood of labels as a function of the kernel's parameters.

    .. math:: \log q(y) = -\tfrac12 f^T K^{-1} f + \log p(y \mid f) - \tfrac12 \log |I + W^{1/2} K W^{1/2}|

    Rasmussen & Williams, 2006, algorithms 3.1 and 5.1, with the logistic likelihood.

    kernel: its structure. X: (n, d) float64. y: (n,) of zeros and ones, float64.
    """

    def __init__(self, kernel: Kernel, X: Tensor, y: Tensor) -> None:
        self.kernel, self.X, self.y = kernel, X, y
        self.gram = Gram(kernel, X)
        self._weights = torch.zeros_like(y)  # of the last mode, where the next search begins

    def mode(self, theta: Tensor | None = None) -> Mode:
        """The mode at the logarithms ``theta`` of the parameters."""
        return self._climb(self.gram.matrix(theta))[0]

    def value_and_gradient(self, theta: Tensor | None = None, gradient: bool = True) -> tuple[float, Tensor]:
        """The value at ``theta`` and its gradient (p,), float64 on the CPU."""
        K = self.gram.matrix(theta)
        mode, factor = self._climb(K)
        if not gradient:
            return mode.value, torch.zeros(0, dtype=torch.float64)
        inverse = factor.inverse_()  # of B
        prob = torch.sigmoid(mode.latent)
        s2 = -0.5 * (1 - inverse.diagonal()) * (1 - 2 * prob)
        R = inverse.mul_(mode.root).mul_(mode.root[:, None])
        u = s2 - R @ (K @ s2)
        left = torch.stack([mode.slope, u, mode.slope], 1)
        right = torch.stack([mode.slope, mode.slope, u], 1)
        return mode.value, self.gram.pull(R.addmm_(left, right.T, beta=-1).mul_(0.5))

    def _climb(self, K: Tensor) -> tuple[Mode, Factor]:
        """Newton's method; a step that does not climb is halved."""
        weights = self._weights
        f = K @ weights
        best = self._height(weights, f)
        for _ in range(_STEPS):
            prob = torch.sigmoid(f)
            W = prob * (1 - prob)
            b = W * f + (self.y - prob)
            factor = _inner(K, W.sqrt())
            wanted = b - W.sqrt() * factor.solve((W.sqrt() * (K @ b))[:, None])[:, 0]
            found, step = -torch.inf, 1.0
            while step > 1e-8:
                trial = weights + step * (wanted - weights)
                image = K @ trial
                found = self._height(trial, image)
                if found >= best - 1e-12 * abs(best):
                    break
                step *= 0.5
            moved = float((image - f).abs().max())
            weights, f, gain, best = trial, image, found - best, found
            if gain <= 1e-10 and moved <= 1e-6:
                break
        self._weights = weights
        prob = torch.sigmoid(f)
        root = (prob * (1 - prob)).sqrt()
        factor = _inner(K, root)
        return Mode(f, self.y - prob, root, best - 0.5 * factor.log_determinant()), factor

    def _height(self, weights: Tensor, f: Tensor) -> float:
        return float(logsigmoid((2 * self.y - 1) * f).sum() - 0.5 * weights @ f)


def _inner(K: Tensor, root: Tensor) -> Factor:
    r"""The factor of :math:`I + W^{1/2} K W^{1/2}`."""
    B = (K * root).mul_(root[:, None])
    B.diagonal().add_(1.0)
    return Factor(B, "laplace")


def laplace_mode(kernel: Kernel, X: Tensor, y: Tensor) -> Mode:
    """The mode of the latent values of a binary classification and the approximate evidence of its labels.

    kernel: taken as it is. X: (n, d). y: (n,) zeros and ones.

    >>> from benthic.kernels import RBF
    >>> X = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    >>> laplace_mode(RBF(1.0), X, torch.tensor([0.0, 1.0])).latent
    tensor([-0.3561,  0.3561], dtype=torch.float64)
    """
    return LaplaceEvidence(kernel, X.double(), y.double()).mode()


def inner_factor(kernel: Kernel, X: Tensor, root: Tensor) -> Tensor:
    """The lower factor that predictions need, (n, n)."""
    return _inner(Gram(kernel, X).matrix(), root).lower


def expected_sigmoid(mean: Tensor, variance: Tensor) -> Tensor:
    r"""The logistic function averaged over normal laws, by the trapezoid rule, which is nearly exact here.

    .. math:: \int \frac{1}{1 + e^{-f}}\, N(f \mid m, v)\, df

    >>> expected_sigmoid(torch.zeros(1), torch.ones(1))
    tensor([0.5000])
    """
    places = torch.linspace(-8.5, 8.5, _PLACES, dtype=mean.dtype, device=mean.device)
    weights = torch.exp(-0.5 * places.square())
    weights = weights / weights.sum()
    m, v = mean.reshape(-1), variance.reshape(-1).clamp(min=0).sqrt()
    flat = torch.empty_like(m)
    for part in torch.arange(len(m), device=m.device).split(20_000):
        flat[part] = torch.sigmoid(m[part, None] + v[part, None] * places) @ weights
    return flat.reshape(mean.shape)
