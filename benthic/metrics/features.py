"""Feature spaces in which samples are compared: the rows themselves, a projection, random filters, or a network.

Each is a function of a sample, deterministic, that returns (n, d); every metric of two samples takes one as
``features``. Nothing is ever downloaded, and nothing here is fitted: a classifier trained on labels comes from
``benthic.leaderboard.classifier_features``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator
from benthic.metrics.samples import rows_of


def raw_features(X: Any) -> Tensor:
    """The rows themselves, images and sequences flattened, (n, d) in float64.

    >>> raw_features(torch.zeros(2, 1, 3, 3)).shape
    torch.Size([2, 9])
    """
    return rows_of("raw_features", X, "the sample")


@dataclass(frozen=True)
class Projection:
    """Rows times a matrix, such as the leading principal axes: ``Projection(pca.components_.T, pca.mean_)``.

    matrix: (d, k). mean: (d,) taken from the rows first, or None.

    >>> Projection([[1.0], [1.0]])([[1.0, 2.0]])
    tensor([[3.]], dtype=torch.float64)
    """

    matrix: Any
    mean: Any = None

    def __call__(self, X: Any) -> Tensor:
        """Features (n, k) of a sample (n, ...)."""
        rows = rows_of("Projection", X, "the sample")
        matrix = torch.as_tensor(self.matrix, dtype=torch.float64, device=rows.device)
        if matrix.ndim != 2 or matrix.shape[0] != rows.shape[1]:
            raise InvalidInput(
                f"Projection: the sample has {rows.shape[1]} columns and the matrix has shape {tuple(matrix.shape)}; "
                f"({rows.shape[1]}, k) is needed"
            )
        if self.mean is not None:
            rows = rows - torch.as_tensor(self.mean, dtype=torch.float64, device=rows.device)
        return rows @ matrix


@dataclass(frozen=True)
class RandomConvolution:
    """Means and spreads of what layers of random filters see in images; the same for the same seed on any machine.

    Random filters already tell textures and strokes apart (Jarrett et al., 2009). A layer is a 3 by 3 convolution of
    stride 2 with normal weights of variance 2 over inputs, then a rectifier; of each map the mean and the standard
    deviation over places are kept.

    shape: (channels, height, width) of one image, needed where rows come flat. widths: maps of each layer. seed: of the
    filters. batch_size: images at a time. Returns (n, 2 * sum(widths)), float64.

    >>> RandomConvolution((1, 8, 8))(torch.zeros(5, 64)).shape
    torch.Size([5, 224])
    """

    shape: tuple[int, int, int] | None = None
    widths: tuple[int, ...] = (16, 32, 64)
    seed: int = 0
    batch_size: int = 512

    def __call__(self, X: Any) -> Tensor:
        """Features (n, 2 * sum(widths)) of images (n, c, h, w), or of flat rows of them."""
        images = self._images(X)
        filters = self._filters(images.shape[1], images.device)
        with torch.no_grad():
            return torch.cat([self._seen(part, filters) for part in images.split(self.batch_size)]).double()

    def _images(self, X: Any) -> Tensor:
        found = X.detach() if isinstance(X, Tensor) else torch.as_tensor(X)
        shape = self.shape if self.shape is not None else tuple(found.shape[1:])
        if len(shape) != 3 or not len(found) or found[0].numel() != torch.Size(shape).numel():
            raise InvalidInput(
                f"RandomConvolution: the sample has shape {tuple(found.shape)}; (n, channels, height, width) is "
                f"needed, or flat rows of shape={self.shape}"
            )
        if min(shape[1:]) < 2:
            raise InvalidInput(
                f"RandomConvolution: images of {shape[1]} by {shape[2]} have no texture; 2 by 2 at least"
            )
        return found.reshape(len(found), *shape).float()

    def _filters(self, channels: int, device: torch.device) -> list[Tensor]:
        filters = []
        for depth, width in enumerate(self.widths):
            source = generator(self.seed, "random filters", depth, channels, width)
            scale = (2 / (9 * channels)) ** 0.5
            filters.append(scale * torch.randn(width, channels, 3, 3, generator=source).to(device))
            channels = width
        return filters

    def _seen(self, images: Tensor, filters: list[Tensor]) -> Tensor:
        found = []
        for weight in filters:
            images = torch.relu(nn.functional.conv2d(images, weight, stride=2, padding=1))
            spread, mean = torch.std_mean(images, (2, 3), correction=0)
            found += [mean, spread]
        return torch.cat(found, 1)


@dataclass(frozen=True)
class ModuleFeatures:
    """What a network or any function of batches returns, flattened to rows.

    A module runs without gradients and in evaluation mode, and is left in the mode it was in.

    module: from a batch (b, ...) to (b, ...). shape: of one row as the module takes it, where rows come flat.
    batch_size: rows at a time. dtype: of the batches; the module's own when None.

    >>> ModuleFeatures(nn.Flatten())(torch.ones(3, 2, 2)).shape
    torch.Size([3, 4])
    """

    module: Callable[[Tensor], Tensor]
    shape: tuple[int, ...] | None = None
    batch_size: int = 256
    dtype: torch.dtype | None = None

    def __call__(self, X: Any) -> Tensor:
        """Features (n, d) of a sample (n, ...), on the sample's device."""
        found = X.detach() if isinstance(X, Tensor) else torch.as_tensor(X)
        weight = next(self.module.parameters(), None) if isinstance(self.module, nn.Module) else None
        inputs = found.to(self.dtype or (torch.get_default_dtype() if weight is None else weight.dtype))
        inputs = inputs if weight is None else inputs.to(weight.device)
        if self.shape is not None:
            inputs = self._reshaped(inputs)
        inner = list(self.module.modules()) if isinstance(self.module, nn.Module) else []
        modes = [part.training for part in inner]
        try:
            for part in inner:
                part.training = False
            with torch.no_grad():
                answers = [self._called(batch) for batch in inputs.split(self.batch_size)]
        finally:
            for part, mode in zip(inner, modes, strict=True):
                part.training = mode
        return torch.cat(answers).to(found.device)

    def _reshaped(self, inputs: Tensor) -> Tensor:
        if inputs[0].numel() != torch.Size(self.shape).numel():
            raise InvalidInput(
                f"ModuleFeatures: rows have shape {tuple(inputs.shape[1:])}, which does not fit shape={self.shape}"
            )
        return inputs.reshape(len(inputs), *self.shape)

    def _called(self, part: Tensor) -> Tensor:
        name = type(self.module).__name__ if isinstance(self.module, nn.Module) else "the function"
        try:
            answer = self.module(part)
        except (RuntimeError, ValueError, IndexError) as error:
            raise InvalidInput(
                f"ModuleFeatures: {name} does not take a batch of shape {tuple(part.shape)} "
                f"({str(error).splitlines()[0]}); resize the rows, or give shape="
            ) from error
        if not isinstance(answer, Tensor) or answer.ndim == 0 or len(answer) != len(part):
            got = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
            raise InvalidInput(
                f"ModuleFeatures: {name} returned {got} for {len(part)} rows; a tensor (n, ...) is needed"
            )
        return answer.flatten(1) if answer.ndim > 1 else answer[:, None]
