"""The last layer of a generator of tables: numbers in their range, states drawn so that gradients pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from benthic.base.errors import InvalidInput
from benthic.base.seeds import stream


class Conditions(NamedTuple):
    """What a generated row is asked to have in one of its columns.

    vector: (n, states) with a single 1, over the states of all columns that can be asked for. block: (n,) which of
    the layer's blocks of states it lies in. state: (n,) which state of it.
    """

    vector: Tensor
    block: Tensor
    state: Tensor


class ColumnActivation(nn.Module):
    r"""From outputs without bounds to codes of rows, as ``ColumnCode.encode`` makes them.

    Numbers are :math:`b \tanh(a / b)`, with b the farthest that data were from their mode (0 where all values are
    modes: such numbers are then met exactly). Every block of states is drawn by the Gumbel-softmax (Jang et al., 2017;
    Maddison et al., 2017),

    .. math:: y = \operatorname{softmax}((a + g) / \tau), \qquad g = -\log e, \quad e \sim \mathrm{Exp}(1)

    whose largest entry is an exact draw from the softmax of a. Noise comes from the stream of this thread and nothing
    waits for the device, so calls can be captured as CUDA graphs.

    numbers: (m,) positions of numbers. bounds: (m,) their b. blocks: positions (start, stop) of the states of each
    column. temperature: τ. asked: which blocks can be asked for by ``draw_conditions``, and log_shares, for each of
    these the logarithm of how often its states are asked for.
    """

    _numbers: Tensor
    _bounds: Tensor
    _places: Tensor
    _void: Tensor
    _order: Tensor
    _asked: Tensor
    _wanted: Tensor
    _offsets: Tensor

    def __init__(
        self,
        numbers: Sequence[int],
        bounds: Sequence[float],
        blocks: Sequence[tuple[int, int]],
        temperature: float = 0.2,
        asked: Sequence[int] = (),
        log_shares: Sequence[Sequence[float]] = (),
    ) -> None:
        super().__init__()
        if not temperature > 0:
            raise InvalidInput(f"temperature is {temperature!r}; it must be positive, such as 0.2")
        self.temperature = temperature
        self.width = len(numbers) + sum(stop - start for start, stop in blocks)
        most = max((stop - start for start, stop in blocks), default=0)
        places = torch.zeros(len(blocks), most, dtype=torch.long)  # of the states, filled up with 0
        real = torch.zeros(len(blocks), most, dtype=torch.bool)
        order = torch.zeros(self.width, dtype=torch.long)  # of the outputs, among numbers and then padded blocks
        order[torch.as_tensor(numbers, dtype=torch.long)] = torch.arange(len(numbers))
        for b, (start, stop) in enumerate(blocks):
            places[b, : stop - start] = torch.arange(start, stop)
            real[b, : stop - start] = True
            order[start:stop] = len(numbers) + b * most + torch.arange(stop - start)
        wanted = torch.full((len(asked), most), -torch.inf)
        for row, log_share in zip(wanted, log_shares, strict=True):
            row[: len(log_share)] = torch.as_tensor(log_share)
        sizes = [blocks[b][1] - blocks[b][0] for b in asked]
        offsets = torch.tensor([sum(sizes[:i]) for i in range(len(sizes))], dtype=torch.long)
        self.states = sum(sizes)
        held = {
            "numbers": torch.as_tensor(numbers, dtype=torch.long),
            "bounds": torch.as_tensor(bounds, dtype=torch.float32),
            "places": places,
            "void": ~real,
            "order": order,
            "asked": torch.as_tensor(asked, dtype=torch.long),
            "wanted": wanted,
            "offsets": offsets,
        }
        for name, value in held.items():
            self.register_buffer(f"_{name}", value, persistent=False)

    def forward(self, logits: Tensor, hard: bool = False) -> Tensor:
        """Codes (n, k) of outputs (n, k); hard: whether states are zeros and ones, with the gradients of soft ones."""
        if logits.ndim != 2 or logits.shape[1] != self.width:
            raise InvalidInput(
                f"activate: outputs have shape {tuple(logits.shape)}; these columns need (n, {self.width})"
            )
        bounds = self._bounds.to(logits.dtype)
        parts = [bounds * torch.tanh(logits.index_select(1, self._numbers) / (bounds + (bounds == 0)))]
        if len(self._places):
            blocks = self._padded(logits)
            soft = torch.softmax((blocks + _gumbel(blocks)) / self.temperature, 2)
            if hard:
                drawn = one_hot(soft.argmax(2), soft.shape[2]).to(soft.dtype)
                soft = drawn + (soft - soft.detach())
            parts.append(soft.flatten(1))  # (n, blocks · most)
        return torch.cat(parts, 1).index_select(1, self._order)

    def _padded(self, logits: Tensor) -> Tensor:
        """The blocks side by side, (n, blocks, most), −∞ where a block has fewer states."""
        gathered = logits.index_select(1, self._places.flatten()).unflatten(1, self._places.shape)
        return gathered.masked_fill(self._void, -torch.inf)

    def draw_conditions(self, n: int) -> Conditions:
        """What n rows are asked for: a column, each alike, and a state of it, by the logarithm of how often it occurs.

        Training by sampling: rare categories are seen more often than the data have them (Xu et al., 2019).
        """
        if not len(self._asked):
            raise InvalidInput("draw_conditions: there is no column of categories or truth values to ask for")
        row = torch.randint(len(self._asked), (n,), generator=stream(self._asked.device), device=self._asked.device)
        chances = self._wanted[row]  # (n, most)
        state = (chances + _gumbel(chances)).argmax(1)
        vector = one_hot(self._offsets[row] + state, self.states).to(chances.dtype)
        return Conditions(vector, self._asked[row], state)

    def condition_loss(self, logits: Tensor, conditions: Conditions) -> Tensor:
        """The cross-entropy (n,) of the asked states under a generator's outputs (n, k), before activation."""
        block = self._padded(logits)[torch.arange(len(logits), device=logits.device), conditions.block]
        return torch.nn.functional.cross_entropy(block, conditions.state, reduction="none")

    def matching_rows(self, codes: Tensor, conditions: Conditions) -> Tensor:
        """For every condition one of the rows (N, k) that fulfill it, all alike likely: their positions (n,).

        Where none does, any row is taken.
        """
        place = self._places[conditions.block, conditions.state]
        fits = codes.index_select(1, place).T > 0.5  # (n, N)
        return (fits + torch.rand(fits.shape, generator=stream(codes.device), device=codes.device)).argmax(1)


def _gumbel(like: Tensor) -> Tensor:
    """Gumbel noise of the shape and type of a tensor."""
    waits = torch.empty_like(like).exponential_(generator=stream(like.device)).clamp_min_(torch.finfo(like.dtype).tiny)
    return -waits.log()
