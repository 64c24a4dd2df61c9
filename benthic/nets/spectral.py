"""Layers whose weights are divided by their largest singular value, so that they stretch nothing."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_START = 15  # power iterations when a layer is made, so that its first steps are already near
_EPS = 1e-12


class Singular(nn.Module):
    r"""The largest singular value of a matrix that changes slowly, by one power iteration a call.

    .. math:: v \leftarrow \frac{W^\top u}{\|W^\top u\|}, \qquad u \leftarrow \frac{W v}{\|W v\|}, \qquad
        \sigma = u^\top W v

    Miyato et al., 2018. The vectors are buffers: they follow the matrix while the module is in training mode, are kept
    in checkpoints, and rest in evaluation. No number is drawn after the start, and nothing is read on the host.

    >>> matrix = torch.diag(torch.tensor([3.0, 1.0]))
    >>> bool((Singular(matrix)(matrix) - 3).abs() < 1e-5)
    True
    """

    u: Tensor
    v: Tensor

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        u = F.normalize(torch.randn(matrix.shape[0], dtype=matrix.dtype), dim=0)
        with torch.no_grad():
            for _ in range(_START):
                u, v = _iterate(matrix, u)
        self.register_buffer("u", u)
        self.register_buffer("v", v)

    def forward(self, matrix: Tensor) -> Tensor:
        """The norm of ``matrix`` (m, n), a number whose gradient is the outer product of u and v."""
        u, v = self.u, self.v
        if self.training:
            with torch.no_grad():
                u, v = _iterate(matrix, u)
                self.u.copy_(u)
                self.v.copy_(v)
        return torch.dot(u, matrix @ v)


def _iterate(matrix: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    v = F.normalize(matrix.mT @ u, dim=0, eps=_EPS)
    return F.normalize(matrix @ v, dim=0, eps=_EPS), v


class SpectralLinear(nn.Linear):
    """A linear layer of norm one: see ``Singular``.

    >>> layer = SpectralLinear(3, 2).eval()
    >>> bool(torch.linalg.matrix_norm(layer.normalized(), 2) < 1.01)
    True
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.norm = Singular(self.weight.detach())

    def normalized(self) -> Tensor:
        """The weights that act."""
        return self.weight / self.norm(self.weight).clamp_min(_EPS)

    def forward(self, x: Tensor) -> Tensor:
        """Rows (..., in_features) to (..., out_features)."""
        return F.linear(x, self.normalized(), self.bias)


class SpectralConv2d(nn.Conv2d):
    """A convolution whose kernel, as a matrix (out, in * height * width), has norm one: see ``Singular``."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> None:
        super().__init__(inputs, outputs, kernel, stride, padding)
        self.norm = Singular(self.weight.detach().flatten(1))

    def normalized(self) -> Tensor:
        """The kernel that acts."""
        return self.weight / self.norm(self.weight.flatten(1)).clamp_min(_EPS)

    def forward(self, x: Tensor) -> Tensor:
        """Pictures (n, inputs, h, w) to (n, outputs, h', w')."""
        return self._conv_forward(x, self.normalized(), self.bias)


class SpectralEmbedding(nn.Embedding):
    """A table of vectors whose matrix has norm one: see ``Singular``."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__(count, size)
        self.norm = Singular(self.weight.detach())

    def normalized(self) -> Tensor:
        """The table that acts."""
        return self.weight / self.norm(self.weight).clamp_min(_EPS)

    def forward(self, codes: Tensor) -> Tensor:
        """Places (n,) to vectors (n, size)."""
        return F.embedding(codes, self.normalized())
