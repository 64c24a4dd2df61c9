"""Counts of what follows which context, of every length up to an order, and the probabilities they give.

A level holds the contexts of one length: a context is the context one shorter, with one older symbol before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Grams(NamedTuple):
    """Different windows of order + 1 symbols (u, order + 1), the newest last, and how often each was seen (u,)."""

    rows: np.ndarray
    counts: np.ndarray


class Level(NamedTuple):
    """Contexts of one length and what follows them.

    contexts: (c,) sorted keys, shorter context times base plus the older symbol. keys: (u,) sorted keys, context times
    base plus the symbol that follows. counts: (u,). totals, kinds: (c,) sum of counts and number of followers.
    """

    contexts: np.ndarray
    keys: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    kinds: np.ndarray

    def find(self, shorter: np.ndarray, older: np.ndarray, base: int) -> np.ndarray:
        """The numbers of contexts, -1 for those never seen."""
        key = shorter * base + older
        place = np.searchsorted(self.contexts, key).clip(max=len(self.contexts) - 1)
        return np.where((shorter >= 0) & (self.contexts[place] == key), place, -1)

    def seen(self, context: np.ndarray, symbol: np.ndarray, base: int) -> np.ndarray:
        """How often the symbols followed the contexts, (n,)."""
        key = context * base + symbol
        place = np.searchsorted(self.keys, key).clip(max=len(self.keys) - 1)
        return np.where((context >= 0) & (self.keys[place] == key), self.counts[place], 0.0)

    def table(self, context: np.ndarray, size: int, base: int) -> np.ndarray:
        """Counts of all symbols after the contexts, (n, size)."""
        found = np.zeros((len(context), size))
        known = np.flatnonzero(context >= 0)
        low = np.searchsorted(self.keys, context[known] * base)
        high = np.searchsorted(self.keys, context[known] * base + base)
        lengths = high - low
        inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        place = np.repeat(low, lengths) + inside
        found[np.repeat(known, lengths), self.keys[place] % base] = self.counts[place]
        return found


def windows(codes: np.ndarray, lengths: np.ndarray, order: int, begin: int, end: int | None) -> np.ndarray:
    """Every step with the ``order`` steps before it, (total, order + 1).

    begin: the symbol that stands before the first step. end: the symbol after the last step, None for none.

    >>> windows(np.array([0, 1, 0]), np.array([2, 1]), 1, 2, None).tolist()
    [[2, 0], [0, 1], [2, 0]]
    """
    ends = np.cumsum(lengths)
    starts = ends - lengths
    tail = 0 if end is None else 1
    long = lengths + order + tail
    padded = np.full(int(long.sum()), begin, dtype=np.int64)
    begins = np.cumsum(long) - long
    row = np.repeat(np.arange(len(lengths)), lengths)
    padded[begins[row] + order + np.arange(len(codes)) - starts[row]] = codes
    if end is not None:
        padded[begins + long - 1] = end
    steps = lengths + tail
    row = np.repeat(np.arange(len(lengths)), steps)
    first = begins[row] + np.arange(len(row)) - (np.cumsum(steps) - steps)[row]
    found: np.ndarray = padded[first[:, None] + np.arange(order + 1)]
    return found


def count_grams(rows: np.ndarray, counts: np.ndarray, base: int) -> Grams:
    """Equal rows together, in the order of their symbols."""
    keys = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        _, keys = np.unique(keys * base + column, return_inverse=True)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return Grams(rows[first], np.bincount(which, weights=counts, minlength=len(first)))


def build_levels(grams: Grams, base: int, kinds_below: bool) -> list[Level]:
    """One level for each length of context, 0 to the order.

    kinds_below: whether shorter contexts count in how many kinds of longer ones a symbol was seen (Kneser & Ney,
    1995), rather than how often.
    """
    order = grams.rows.shape[1] - 1
    levels = []
    contexts = np.zeros(len(grams.rows), dtype=np.int64)  # number of the context of this length, of each gram
    node_keys = np.zeros(1, dtype=np.int64)
    for length in range(order + 1):
        if length > 0:
            keys = contexts * base + grams.rows[:, order - length]
            node_keys, contexts = np.unique(keys, return_inverse=True)
        weights = grams.counts
        if kinds_below and length < order:
            weights = _new_kinds(contexts, grams.rows, order - length - 1, base)
        keys, which = np.unique(contexts * base + grams.rows[:, order], return_inverse=True)
        counts = np.bincount(which, weights=weights, minlength=len(keys))
        owner = keys // base
        totals = np.bincount(owner, weights=counts, minlength=len(node_keys))
        kinds = np.bincount(owner, minlength=len(node_keys)).astype(np.float64)
        levels.append(Level(node_keys, keys, counts, totals, kinds))
    return levels


def _new_kinds(contexts: np.ndarray, rows: np.ndarray, older: int, base: int) -> np.ndarray:
    """1 for the first gram that puts an older symbol before a context and its follower, 0 for those after it."""
    _, gram = np.unique(contexts * base + rows[:, -1], return_inverse=True)
    _, first = np.unique(gram * base + rows[:, older], return_index=True)
    fresh = np.zeros(len(rows))
    fresh[first] = 1.0
    return fresh


def discounts(levels: list[Level]) -> np.ndarray:
    """What is taken off every count: n1 / (n1 + 2 n2) of each level, n1 symbols seen once and n2 twice."""
    found = []
    for level in levels:
        once, twice = float((level.counts == 1).sum()), float((level.counts == 2).sum())
        found.append(once / (once + 2 * twice) if once > 0 else 0.0)
    return np.clip(found, 0.05, 0.95)


def contexts_of(levels: list[Level], before: np.ndarray, base: int) -> list[np.ndarray]:
    """The numbers of the contexts of every length that end in ``before`` (n, order), newest last."""
    number = np.zeros(len(before), dtype=np.int64)
    found = [number]
    for length, level in enumerate(levels[1:], start=1):
        number = level.find(number, before[:, before.shape[1] - length], base)
        found.append(number)
    return found


class Smoothing(NamedTuple):
    """How counts become probabilities. size: symbols there are. discounts: by level, or None for ``alpha``."""

    size: int
    alpha: float
    discounts: np.ndarray | None


def probabilities(
    levels: list[Level], before: np.ndarray, symbol: np.ndarray | None, base: int, how: Smoothing
) -> np.ndarray:
    """Of each ``symbol`` (n,) after its context, (n,), or of all symbols if None, (n, size)."""
    wide = symbol is None
    numbers = contexts_of(levels, before, base)
    below = np.full((len(before), how.size) if wide else len(before), 1.0 / how.size)
    for length, (level, number) in enumerate(zip(levels, numbers, strict=True)):
        last = length == len(levels) - 1
        if how.discounts is None and how.alpha > 0 and not last:
            continue
        counts = level.table(number, how.size, base) if symbol is None else level.seen(number, symbol, base)
        there = number >= 0
        totals, kinds = np.where(there, level.totals[number], 0.0), np.where(there, level.kinds[number], 0.0)
        if wide:
            totals, kinds, there = totals[:, None], kinds[:, None], there[:, None]
        if how.discounts is not None:
            cut = how.discounts[length]
            total = np.where(there, totals, 1.0)
            mixed = np.maximum(counts - cut, 0.0) / total + cut * kinds / total * below
            below = np.where(there, mixed, below)
        elif how.alpha > 0:
            below = (counts + how.alpha) / (totals + how.alpha * how.size)
        else:
            below = np.where(there, counts / np.where(there, totals, 1.0), below)
    return below
