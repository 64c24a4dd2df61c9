"""Linear invertible maps: LU-factored matrices, 1x1 convolutions, scale and shift from the data."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.nets.invertible.transform import Transform, check_shape


class LULinear(Transform):
    r"""A matrix with a known determinant, :math:`z = P L U x + b`; on pictures it mixes channels (a 1x1 convolution).

    .. math:: \log\left|\det PLU\right| = \sum_j \log\left|U_{jj}\right|

    Kingma & Dhariwal, 2018. L has ones on its diagonal; the signs of that of U stay, so that it never is singular.

    width: columns or channels. start: (d, d) an invertible matrix, a random rotation if not given.

    >>> LULinear(2, torch.diag(torch.tensor([2.0, 3.0])))(torch.ones(1, 2))[1].exp().round().item()
    6.0
    """

    order: Tensor
    signs: Tensor
    below: Tensor

    def __init__(self, width: int, start: Tensor | None = None, *, bias: bool = True) -> None:
        super().__init__()
        matrix = torch.linalg.qr(torch.randn(width, width))[0] if start is None else torch.as_tensor(start)
        if matrix.shape != (width, width):
            raise InvalidInput(f"LULinear: start has shape {tuple(matrix.shape)}; it must be ({width}, {width})")
        P, L, U = torch.linalg.lu(matrix.double())
        diagonal = U.diagonal()
        if not bool(torch.isfinite(matrix).all()) or bool(
            diagonal.abs().min() <= 1e-12 * matrix.abs().max().clamp_min(1e-300)
        ):
            raise InvalidInput("LULinear: start is singular; an invertible matrix is needed")
        made = torch.get_default_dtype() if start is None else matrix.dtype
        self.register_buffer("order", P.argmax(1))
        self.register_buffer("signs", diagonal.sign().to(made))
        self.register_buffer("below", torch.ones(width, width).tril(-1).to(made))
        self.lower = nn.Parameter(L.tril(-1).to(made))
        self.upper = nn.Parameter(U.triu(1).to(made))
        self.log_diagonal = nn.Parameter(diagonal.abs().log().to(made))
        self.bias = nn.Parameter(torch.zeros(width, dtype=made)) if bias else None

    def _factors(self) -> tuple[Tensor, Tensor]:
        eye = torch.eye(len(self.signs), dtype=self.lower.dtype, device=self.lower.device)
        L = self.lower * self.below + eye
        U = self.upper * self.below.T + torch.diag(self.signs * self.log_diagonal.exp())
        return L, U

    def matrix(self) -> Tensor:
        """P L U, (d, d)."""
        L, U = self._factors()
        return (L @ U).index_select(0, self.order)

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """z and the log-determinant, which is that of the matrix once for every pixel."""
        check_shape("LULinear", x, len(self.signs), None, None)
        log = self.log_diagonal.sum()
        if x.ndim == 2:
            return nn.functional.linear(x, self.matrix(), self.bias), log.expand(len(x))
        z = nn.functional.conv2d(x, self.matrix()[:, :, None, None], self.bias)
        return z, (log * (x.shape[2] * x.shape[3])).expand(len(x))

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x by two triangular solves."""
        check_shape("LULinear", z, len(self.signs), None, None)
        columns = z.movedim(1, 0).flatten(1)  # (d, n...)
        if self.bias is not None:
            columns = columns - self.bias[:, None]
        L, U = self._factors()
        half = torch.linalg.solve_triangular(L, columns[self.order.argsort()], upper=False, unitriangular=True)
        x = torch.linalg.solve_triangular(U, half, upper=True).reshape(z.shape[1], len(z), *z.shape[2:]).movedim(0, 1)
        pixels = z[0, 0].numel() if z.ndim > 2 else 1
        return x, (-self.log_diagonal.sum() * pixels).expand(len(z))


class ActNorm(Transform):
    r"""Scale and shift of every column or channel, :math:`z = \exp(s)\,(x - b)`, begun so that z is standardized.

    Kingma & Dhariwal, 2018. ``begin`` reads mean and spread from the data.

    >>> layer = ActNorm(1)
    >>> layer.begin(torch.tensor([[1.0], [3.0]])).flatten().tolist()
    [-1.0, 1.0]
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(width))
        self.center = nn.Parameter(torch.zeros(width))

    def _shaped(self, values: Tensor, like: Tensor) -> Tensor:
        check_shape("ActNorm", like, len(values), None, None)
        return values.reshape(1, -1, *[1] * (like.ndim - 2))

    def _log(self, x: Tensor) -> Tensor:
        pixels = x[0, 0].numel() if x.ndim > 2 else 1
        return (self.log_scale.sum() * pixels).expand(len(x))

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """z and the log-determinant."""
        z = (x - self._shaped(self.center, x)) * self._shaped(self.log_scale, x).exp()
        return z, self._log(x)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x and the log-determinant."""
        x = z * torch.exp(-self._shaped(self.log_scale, z)) + self._shaped(self.center, z)
        return x, -self._log(z)

    @torch.no_grad()
    def begin(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """Take mean and spread of each column or channel; constant ones keep their scale."""
        columns = x.movedim(1, 0).flatten(1)
        spread = columns.std(1, unbiased=False)
        self.center.copy_(columns.mean(1))
        self.log_scale.copy_(torch.where(spread > 1e-6, -spread.clamp_min(1e-6).log(), 0.0))
        return self.forward(x, context)[0]
