"""What lies between the data and the network of a flow, and the filling of gaps by Markov chains."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benthic.base.seeds import generator
from benthic.generative.flows.gaps import Moments, fill_gaps, log_marginal
from benthic.generative.flows.latent_moves import LatentMoves
from benthic.generative.flows.learning import FlowEstimator
from benthic.generative.flows.model import FlowModel
from benthic.nets.evaluate import device_of, in_type
from benthic.nets.noise import draw_normal
from benthic.uses.latent import Filled

_ROWS, _DEVICE_ROWS = 8192, 1 << 17  # evaluated at once, on a CPU and on other devices
_PIXELS = 1 << 22
_MOMENT_DRAWS = 1024
_IMPUTE_CHAINS, _IMPUTE_COPIES = 16, 4  # in all; over rows with noise or labels of their own


class FillingFlowEstimator(FlowEstimator):
    """The part of ``NormalizingFlow`` that fills gaps."""

    # -- between data and network ------------------------------------------------------------------------

    def _network(self, like: Tensor) -> FlowModel:
        """The network in the type of the rows, in evaluation mode; float16 and bfloat16 are computed in float32."""
        wide = like.dtype if like.dtype in (torch.float32, torch.float64) else torch.float32
        network = in_type(self.network_, wide)
        return network.eval()

    def _rows_ready(self, X: Tensor, network: FlowModel) -> tuple[Tensor, Tensor]:
        """Rows as the network sees them, and the log-Jacobian, on its device and in its type."""
        like = next(network.parameters())
        rows, log = self._ready(X)
        return rows.to(like), log.to(like)

    def _block(self) -> int:
        on_cpu = device_of(self.network_).type == "cpu"
        return max(1, min(_ROWS if on_cpu else _DEVICE_ROWS, _PIXELS // self.columns_.size))

    def _blocks(self, function: Callable[..., Tensor], rows: Tensor, c: Tensor | None) -> Tensor:
        """``function(rows, c)`` over blocks, joined along the first dimension."""
        size = self._block()
        if len(rows) <= size:
            return function(rows, c)
        given = [None] * math.ceil(len(rows) / size) if c is None else c.split(size)
        return torch.cat([function(a, b) for a, b in zip(rows.split(size), given, strict=True)])

    def _data(self, rows: Tensor) -> Tensor:
        """Rows of the network as data, (n, width); grids must be codes or means of codes."""
        return self.columns_.inverse(self.scales_.inverse(rows.double()))

    def _outward(self, rows: Tensor, network: FlowModel) -> Tensor:
        """Rows whose grids were filled by noise, as data, (n, width)."""
        return self._data(rows if network.dequantizer is None else network.dequantizer.inverse(rows))

    # -- gaps --------------------------------------------------------------------------------------------

    def _fill(self, X: Tensor, noise: torch.Generator, c: Tensor | None, chains: int = 1) -> Filled:
        """A draw and the mean of rows with gaps, as data, (n, width).

        Without a condition, the label of a row is drawn given what is known of it.
        """
        network = self._network(X).rough()
        rows, _ = self._rows_ready(X, network)
        if network.dequantizer is not None:
            u = torch.rand(network.dequantizer.codes(rows).shape, generator=noise, dtype=rows.dtype).to(rows.device)
            rows = network.dequantizer(rows, u)[0]
        if c is None and self.condition is not None:
            c = self._likely_labels(rows, network, noise)
        if c is None:
            return self._fill_block(rows, None, network, noise, chains)
        draw, mean = (rows.new_empty(len(rows), self.columns_.width, dtype=torch.float64) for _ in range(2))
        for given in torch.unique(c, dim=0):  # rows of one condition together
            chosen = (c == given).all(1).nonzero()[:, 0]
            draw[chosen], mean[chosen] = self._fill_block(rows[chosen], given, network, noise, chains)
        return Filled(draw, mean)

    def _likely_labels(self, rows: Tensor, network: FlowModel, noise: torch.Generator) -> Tensor:
        """A label for each row, drawn from p(y | what is known), which importance sampling estimates; one-hot."""
        logs = []
        for given in torch.eye(len(self.classes_), dtype=rows.dtype, device=rows.device):
            density, moments = self._density(given, network, rows)
            logs.append(log_marginal(density, rows, moments, noise))
        joint = torch.stack(logs, 1) + torch.as_tensor(np.log(self.class_prior_)).to(rows)
        shares = torch.softmax(joint, 1).double().cpu()
        return self._one_hot(torch.multinomial(shares, 1, generator=noise)[:, 0]).to(rows)

    def _density(
        self, given: Tensor | None, network: FlowModel, like: Tensor
    ) -> tuple[Callable[[Tensor], Tensor], Moments]:
        """The log-density of rows under one condition, and the moments of the rows it makes."""

        def density(y: Tensor) -> Tensor:
            return self._blocks(network.log_density, y, _wide(given, len(y)))

        codes = draw_normal((_MOMENT_DRAWS, self.columns_.size), like, generator(0, "moments"))
        return density, Moments.of(network.numbers(codes, _wide(given, _MOMENT_DRAWS)))

    def _fill_block(
        self, rows: Tensor, given: Tensor | None, network: FlowModel, noise: torch.Generator, chains: int
    ) -> Filled:
        density, moments = self._density(given, network, rows)

        def mover(known: Tensor) -> LatentMoves:
            return LatentMoves(
                known,
                lambda y: network.encode(y, _wide(given, len(y))),
                lambda z: network.decode(z, _wide(given, len(z))),
                density,
                noise,
            )

        def outward(y: Tensor) -> Tensor:
            return self._outward(y, network)

        found = fill_gaps(density, rows, moments, noise, chains=chains, mover=mover, outward=outward)
        return Filled(outward(found.draw), found.mean)

    @torch.no_grad()
    def _expected(self, X: Tensor, c: Tensor | None = None) -> Tensor:
        noise = generator(0, "impute")  # the same gaps, the same answer
        if c is None and self.condition is not None:
            self._need_condition("impute")
        plain = self.condition is None and not self.columns_.discrete
        copies = 1 if plain else _IMPUTE_COPIES
        c = None if c is None else c.repeat(copies, 1)
        rows: Tensor = self._fill(X.repeat(copies, 1), noise, c, _IMPUTE_CHAINS // copies).mean
        return rows.unflatten(0, (copies, len(X))).mean(0).to(X.dtype)


def _wide(given: Tensor | None, count: int) -> Tensor | None:
    return None if given is None else given.expand(count, -1)
