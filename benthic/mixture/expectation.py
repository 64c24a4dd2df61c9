"""The E step on blocks of rows: log-densities, responsibilities, and the sums that the M step needs.

Rows are columns here: a block is (d, B), so that every operation runs along contiguous memory. Second
moments are taken about the current means, in the white coordinates of each component, where nothing large
cancels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from benthic.mixture.parameters import LOG_TWO_PI, Gaussians

Sums = dict[str, Tensor]

# Logarithm of the least share of a row: what is next to nothing may as well be a normal number, since
# denormal ones are a hundred times slower.
_LEAST = {torch.float64: -600.0, torch.float32: -70.0}
_CACHE_BYTES = 6 << 20  # of one block on a CPU: larger leaves the cache, smaller makes threads wait more often
_DEVICE_BYTES = 256 << 20  # the same on an accelerator
_SLICES = 64  # of a block on an accelerator, multiplied side by side


class Workspace:
    """Memory that blocks of rows use again and again: a name gives the same memory every time."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device
        self._flat: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """Memory of this shape with unknown content."""
        size = math.prod(shape)
        flat = self._flat.get(name)
        if flat is None or flat.numel() < size:
            flat = self._flat[name] = torch.empty(size, dtype=self._dtype, device=self._device)
        return flat[:size].view(shape)


def out_of(scratch: Workspace | None, name: str, *shape: int) -> Tensor | None:
    """Memory to write to, or None to take new memory and let gradients flow."""
    return None if scratch is None else scratch(name, *shape)


class Blocks(ABC):
    """A mixture made ready for blocks of rows in one type on one device.

    mixture: in float64. center: (d,) a point amid the data, subtracted from rows before anything else.
    """

    rows: int  # of a block that stays in cache

    def __init__(self, mixture: Gaussians, center: Tensor, dtype: torch.dtype, device: torch.device) -> None:
        self.mixture, self.center = mixture, center
        self.offsets = mixture.means - center  # (k, d)
        self._dtype, self._device = dtype, device
        self._center = self._cast(center[:, None])
        self._constants = self._cast(mixture.log_constants[:, None])

    def _cast(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device, self._dtype).contiguous()

    def _fitting(self, numbers_a_row: int) -> int:
        size = _CACHE_BYTES if self._device.type == "cpu" else _DEVICE_BYTES
        return max(64, size // (numbers_a_row * self._dtype.itemsize))

    def zeros(self) -> Sums:
        """Sums over no rows, in float64."""
        k, d = self.mixture.k, self.mixture.d
        second = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k, d)}[self.mixture.kind]
        shapes = {"log_likelihood": (), "count": (k,), "first": (k, d), "second": second}
        return {name: torch.zeros(shape, dtype=torch.float64, device=self._device) for name, shape in shapes.items()}

    @abstractmethod
    def log_joint(self, X: Tensor, scratch: Workspace | None = None) -> Tensor:
        """log w_k + log N(x; μ_k, C_k) of rows X (B, d), as (k, B)."""

    @abstractmethod
    def sums(self, X: Tensor, weight: Tensor | None, scratch: Workspace) -> Sums:
        """The E step's sums over rows X (n, d), about the current means.

        count: (k,) weight of each component. first: (k, d) sums of r (x − μ_k). second: sums of r y yᵀ with
        y = (x − μ_k) A_k, in the shape of the kind (only its diagonal for diagonal kinds).
        """

    def parts(self, X: Tensor, weight: Tensor | None) -> list[tuple[Tensor, Tensor | None]]:
        """Rows and weights in blocks of nearly equal size that fit into the cache."""
        if len(X) == 0:
            return []
        size = math.ceil(len(X) / math.ceil(len(X) / self.rows))
        blocks = X.split(size)
        weights = [None] * len(blocks) if weight is None else weight.split(size)
        return list(zip(blocks, weights, strict=True))


def responsibilities_(log_joint: Tensor, weight: Tensor | None) -> Tensor:
    """Turn (k, B) log-densities into weighted responsibilities in place; the log-likelihood is returned."""
    top = log_joint.amax(0)
    joint = log_joint.sub_(top).clamp_(min=_LEAST[log_joint.dtype]).exp_()
    total = joint.sum(0)
    if weight is None:
        joint.div_(total)
        return total.log_().add_(top).sum(dtype=torch.float64)
    joint.mul_(weight / total)
    return total.log_().add_(top).double() @ weight.double()


def sliced_moments(Y: Tensor) -> Tensor:
    """Y Yᵀ of every component of Y (k, d, B), as (k, d, d): slices of B side by side fill an accelerator, where one
    product with so few rows and columns keeps most of it waiting.
    """
    width = Y.shape[2] // _SLICES
    even = width * _SLICES
    rest = Y[:, :, even:]
    parts = Y[:, :, :even].unflatten(2, (_SLICES, width)).transpose(1, 2)  # (k, slices, d, width)
    each = torch.stack([torch.bmm(part, part.mT).sum(0) for part in parts])
    return each + torch.bmm(rest, rest.mT)


class Explicit(Blocks):
    """Every row in the white coordinates of every component, y = (x − μ_k) A_k, as (k, d, B)."""

    def __init__(self, mixture: Gaussians, center: Tensor, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(mixture, center, dtype, device)
        k, d = mixture.k, mixture.d
        self.rows = self._fitting(k * d)
        if mixture.diagonal:
            scale = 1 / mixture.deviations
            self._offsets = self._cast(self.offsets[:, :, None])
            self._scale = self._cast(scale[:, :, None])
            self._log_scale = self._cast(scale.log() - 0.5 * LOG_TWO_PI)
            self._log_weights = self._cast(mixture.weights.log()[:, None])
        else:
            self._whiten = self._cast(mixture.factor.mT.reshape(-1, d))  # (k d, d), or (d, d) when tied
            offsets = (self.offsets[:, None] @ mixture.factor)[:, 0]  # (k, d)
            self._offsets = self._cast(offsets[:, :, None])
            self._shift = -self._offsets.view(-1, 1)

    def _white(self, X: Tensor, scratch: Workspace | None) -> tuple[Tensor, Tensor]:
        """Centered rows (d, B) and white ones (k, d, B); NaN stays NaN."""
        k, d, n = self.mixture.k, self.mixture.d, len(X)
        rows = torch.sub(X.T, self._center, out=out_of(scratch, "rows", d, n))
        if self.mixture.diagonal:
            white = torch.sub(rows, self._offsets, out=out_of(scratch, "white", k, d, n))
            return rows, torch.mul(white, self._scale, out=None if scratch is None else white)
        if self.mixture.kind == "tied":
            common = torch.mm(self._whiten, rows, out=out_of(scratch, "common", d, n))
            return rows, torch.sub(common, self._offsets, out=out_of(scratch, "white", k, d, n))
        flat = torch.addmm(self._shift, self._whiten, rows, out=out_of(scratch, "white", k * d, n))
        return rows, flat.view(k, d, n)

    def _evaluate(self, X: Tensor, scratch: Workspace | None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """(log-densities (k, B), centered rows, white rows, gaps); in a gap y is 0, its expectation."""
        k, n = self.mixture.k, len(X)
        rows, white = self._white(X, scratch)
        gaps = torch.isnan(rows) if self.mixture.diagonal else None
        constants = self._constants
        if gaps is not None and bool(gaps.any()):
            white = white.masked_fill(gaps, 0.0)
            constants = self._log_weights + self._log_scale @ (~gaps).to(white.dtype)
        else:
            gaps = None
        squares = torch.mul(white, white, out=out_of(scratch, "squares", *white.shape))
        norms = torch.sum(squares, 1, out=out_of(scratch, "log", k, n))
        log = torch.add(constants, norms, alpha=-0.5, out=None if scratch is None else norms)
        return log, rows, white, gaps

    def log_joint(self, X: Tensor, scratch: Workspace | None = None) -> Tensor:
        """See ``Blocks``."""
        return self._evaluate(X, scratch)[0]

    def sums(self, X: Tensor, weight: Tensor | None, scratch: Workspace) -> Sums:
        """See ``Blocks``."""
        sums = self.zeros()
        for block, w in self.parts(X, weight):
            joint, rows, white, gaps = self._evaluate(block, scratch)
            sums["log_likelihood"] += responsibilities_(joint, w)
            sums["count"] += joint.sum(1)
            if self.mixture.diagonal:
                shared = torch.mul(white, joint[:, None], out=scratch("squares", *white.shape))
                sums["first"] += shared.sum(2)
                sums["second"] += shared.mul_(white).sum(2)
                if gaps is not None:
                    sums["second"] += joint @ gaps.T.to(joint.dtype)  # a gap has variance 1 in white units
            else:
                sums["first"] += joint @ rows.T
                if white.is_cuda:
                    second = sliced_moments(white.mul_(joint.sqrt()[:, None]))
                else:
                    shared = torch.mul(white, joint[:, None], out=scratch("squares", *white.shape))
                    second = torch.bmm(shared, white.mT)
                sums["second"] += second if self.mixture.kind == "full" else second.sum(0)
        if self.mixture.diagonal:
            sums["first"] *= self.mixture.deviations.to(sums["first"])
        else:
            sums["first"] -= sums["count"][:, None] * self.offsets.to(sums["first"])
        return sums

    def gradient(self, X: Tensor) -> Tensor:
        """Gradient of the log-density at complete rows (B, d)."""
        joint, _, white, _ = self._evaluate(X, None)
        shared = white * torch.softmax(joint, 0)[:, None]
        if self.mixture.diagonal:
            return -(shared * self._scale).sum(0).T
        if self.mixture.kind == "tied":
            shared = shared.sum(0)
        return -(shared.reshape(-1, len(X)).T @ self._whiten)
