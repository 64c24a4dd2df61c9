"""Batches for the loop: from arrays in memory or from a source on disk, in an order fixed by seed and epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from operator import itemgetter, methodcaller
from typing import Any, NamedTuple, NotRequired, TypedDict, Unpack

import torch

from benthic.base.seeds import np_generator
from benthic.data.batch import Batch
from benthic.data.sources import Source
from benthic.training.distributed import World
from benthic.training.fingerprint import of_batch, of_source
from benthic.training.learner import total_weight

# rows gathered at once when shuffling: large enough to amortize, small enough to cache
_BLOCK_BYTES = {"cpu": 2 << 20, "cuda": 16 << 20}
_RESIDENT_BYTES = 4 << 30  # data up to this size move to the device once


class Part(NamedTuple):
    """This process's share of one batch, and the weight of the whole batch over all processes."""

    batch: Batch
    weight: float


class Order(TypedDict):
    """How rows are dealt out: see ``Feed``."""

    batch_size: int
    seed: int
    device: torch.device
    shuffle: NotRequired[bool]
    world: NotRequired[World]


class Feed:
    """Batches of ``batch_size`` rows; ``open(epoch, skip)`` can start anywhere and always gives the same.

    rows: how many there are, where known. seed: decides the order when ``shuffle``. device: where batches go.
    world: the processes that share each batch.
    """

    def __init__(
        self,
        rows: int | None,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        shuffle: bool = False,
        world: World | None = None,
    ) -> None:
        self.rows, self.batch_size, self.seed, self.device = rows, batch_size, seed, device
        self.shuffle, self.world = shuffle, world or World()

    def open(self, epoch: int, skip: int = 0) -> Iterator[Part]:
        """The batches of an epoch after the first ``skip``."""
        raise NotImplementedError

    def fingerprint(self) -> list[int]:
        """What tells these data from others, whatever was made of them before they are dealt out."""
        raise NotImplementedError

    @property
    def batches(self) -> int | None:
        """Batches in an epoch, where known."""
        return None if self.rows is None else math.ceil(self.rows / self.batch_size)


class ArrayFeed(Feed):
    """Batches of tensors in memory. origin: what the data were before they were made ready, if anything else."""

    def __init__(self, data: Batch, *, origin: Batch | None = None, **order: Unpack[Order]) -> None:
        order["batch_size"] = min(order["batch_size"], len(data.X))
        super().__init__(len(data.X), **order)
        self._origin = data if origin is None else origin
        size = sum(t.numel() * t.element_size() for t in data if t is not None)
        self.data = _move(data, self.device) if size <= _RESIDENT_BYTES else data
        row_bytes = max(1, size // max(len(data.X), 1))
        together = _BLOCK_BYTES.get(self.device.type, _BLOCK_BYTES["cuda"])
        self._block = max(1, together // (row_bytes * self.batch_size)) * self.batch_size

    def open(self, epoch: int, skip: int = 0) -> Iterator[Part]:
        """See ``Feed``; a block of many batches is gathered at once and handed out in views."""
        rows, size = self.rows or 0, self.batch_size
        order = None
        if self.shuffle:
            order = torch.from_numpy(np_generator(self.seed, "shuffle", epoch).permutation(rows))
            order = order.to(self.data.X.device)
        for start in range(skip * size, rows, self._block):
            stop = min(start + self._block, rows)
            if order is None:
                block = self.data.map(itemgetter(slice(start, stop)))
            else:
                block = self.data.map(methodcaller("index_select", 0, order[start:stop]))
            yield from self._cut(_move(block, self.device))

    def fingerprint(self) -> list[int]:
        """See ``Feed``."""
        return of_batch(self._origin)

    def _cut(self, block: Batch) -> Iterator[Part]:
        size, whole = self.batch_size, self.world.size == 1
        for i in range(0, len(block.X), size):
            batch = block.map(itemgetter(slice(i, i + size)))
            total = total_weight(batch)
            yield Part(batch if whole else share(batch, self.world), total)


Convert = Callable[[Any, Any], Batch]


class SourceFeed(Feed):
    """Batches read from a source, each converted to tensors as it comes."""

    def __init__(self, source: Source, convert: Convert, **order: Unpack[Order]) -> None:
        super().__init__(source.rows, **order)
        self.source, self.convert = source, convert

    def open(self, epoch: int, skip: int = 0) -> Iterator[Part]:
        """See ``Feed``; every process reads the source and keeps its share of each batch."""
        stream = self.source.open(epoch, skip, batch_size=self.batch_size, shuffle=self.shuffle, seed=self.seed)
        for X, y in stream:
            batch = self.convert(X, y)
            total = total_weight(batch)
            yield Part(_move(share(batch, self.world), self.device), total)

    def fingerprint(self) -> list[int]:
        """See ``Feed``."""
        return of_source(self.source)


def share(batch: Batch, world: World) -> Batch:
    """This process's rows of a batch."""
    if world.size == 1:
        return batch
    return batch.map(itemgetter(world.share(len(batch.X))))


def split(batch: Batch, parts: int) -> list[Batch]:
    """A batch in so many parts of nearly equal size, without empty ones."""
    if parts == 1:
        return [batch]
    size = max(1, math.ceil(len(batch.X) / parts))
    return [batch.map(itemgetter(slice(i, i + size))) for i in range(0, max(len(batch.X), 1), size)]


def _move(batch: Batch, device: torch.device) -> Batch:
    return batch.map(lambda t: t.to(device, non_blocking=True))
