"""Compiled sweeps of the collapsed Gibbs sampler: exact over all topics, or sparse with alias tables.

Topics of a row of counts are padded to a multiple of eight; a padded topic has no prior and is never drawn.
Nothing here calls another file, since a change there would not renew the compiled code.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_FAST = {"contract", "reassoc", "nsz", "arcp", "nnan", "ninf"}
_SCALE = np.float32(2.0**-24)


@njit(cache=True, nogil=True)
def _draw(s):
    """The next state of xorshift64* (Vigna, 2016) and a number of [0, 1)."""
    s ^= s >> np.uint64(12)
    s ^= s << np.uint64(25)
    s ^= s >> np.uint64(27)
    return s, np.float32((s * np.uint64(2685821657736338717)) >> np.uint64(40)) * _SCALE


@njit(cache=True, nogil=True, fastmath=_FAST)
def _find(p, u, last):
    """The first topic at which the running sum of ``p`` exceeds u: eight at a time, then without branches."""
    at = 0
    for _ in range(p.shape[0] // 8 - 1):
        eight = np.float32(0.0)
        for j in range(8):
            eight += p[at + j]
        if u < eight:
            break
        u -= eight
        at += 8
    a, c, e, g = p[at], p[at + 2], p[at + 4], p[at + 6]
    b = a + p[at + 1]
    d = b + (c + p[at + 3])
    f = d + (e + p[at + 5])
    at += np.int64(u >= a) + np.int64(u >= b) + np.int64(u >= b + c) + np.int64(u >= d)
    at += np.int64(u >= d + e) + np.int64(u >= f) + np.int64(u >= f + g)
    return min(at, last)


@njit(cache=True, nogil=True, fastmath=_FAST)
def sweep_dense(words, topics, offsets, bounds, docs, group, counts, totals, alpha, eta, state):
    """Draw every token of the documents ``docs[0]:docs[1]`` whose word is in a group, given all others.

    words, topics: (tokens,) by document. bounds: (documents, groups + 1) where the words of a group begin.
    counts: (words, padded topics). totals: their sums, of this worker. alpha: (padded topics,) prior. state: (1,)
    of the random numbers.
    """
    width = counts.shape[1]
    last = np.int64(0)
    for k in range(width):
        if alpha[k] > 0:
            last = k
    one, b = np.float32(1.0), np.float32(eta)
    mass = np.float32(eta * counts.shape[0])
    here = np.empty(width, np.float32)  # tokens of the document in each topic, and the prior
    rate = np.empty(width, np.float32)  # the same over the tokens of the topic
    p = np.empty(width, np.float32)
    s = state[0]
    for d in range(docs[0], docs[1]):
        for k in range(width):
            here[k] = alpha[k]
        for i in range(offsets[d], offsets[d + 1]):
            here[topics[i]] += one
        for k in range(width):
            rate[k] = here[k] / (np.float32(totals[k]) + mass)
        for i in range(bounds[d, group], bounds[d, group + 1]):
            row = counts[words[i]]
            old = topics[i]
            total = np.float32(0.0)
            for k in range(width):
                v = rate[k] * (np.float32(row[k]) + b)
                p[k] = v
                total += v
            # the token itself does not count; its own topic is tried first, for most tokens stay
            less = (here[old] - one) / (np.float32(totals[old] - 1) + mass)
            stay = less * (np.float32(row[old] - 1) + b)
            s, u = _draw(s)
            u *= total + (stay - p[old])
            if u >= stay:
                p[old] = np.float32(0.0)
                new = _find(p, u - stay, last)
                topics[i] = new
                here[old] -= one
                here[new] += one
                totals[old] -= 1
                totals[new] += 1
                row[old] -= 1
                row[new] += 1
                rate[old] = less
                rate[new] = here[new] / (np.float32(totals[new]) + mass)
    state[0] = s


@njit(cache=True, nogil=True)
def _tabulate(weights, chance, other, small, large):
    """An alias table of the weights (Walker, 1977; Vose, 1991); returns their sum."""
    n = weights.shape[0]
    total = 0.0
    for k in range(n):
        total += weights[k]
    few, many = 0, 0
    for k in range(n):
        chance[k] = weights[k] * n / total
        other[k] = k
        if chance[k] < 1:
            small[few] = k
            few += 1
        else:
            large[many] = k
            many += 1
    while few > 0 and many > 0:
        few -= 1
        low, high = small[few], large[many - 1]
        other[low] = high
        chance[high] -= np.float32(1.0) - chance[low]
        if chance[high] < 1:
            many -= 1
            small[few] = high
            few += 1
    for j in range(few):
        chance[small[j]] = 1.0
    for j in range(many):
        chance[large[j]] = 1.0
    return total


@njit(cache=True, nogil=True)
def _prepare(frequent, slots, counts, inverse, alpha, eta, weights, chance, other, sums):
    """Alias tables of the prior part of each frequent word, as the counts are now."""
    topics = weights.shape[1]
    small, large = np.empty(topics, np.int32), np.empty(topics, np.int32)
    for w in frequent:
        at = slots[w]
        for k in range(topics):
            weights[at, k] = alpha[k] * (np.float32(counts[w, k]) + np.float32(eta)) * inverse[k]
        sums[at] = _tabulate(weights[at], chance[at], other[at], small, large)


@njit(cache=True, nogil=True)
def _leave(k, here, listed, place, n):
    """Take a token of topic k out of the document; how many topics it still has."""
    here[k] -= np.float32(1.0)
    if here[k] == 0:
        n -= 1
        listed[place[k]] = listed[n]
        place[listed[n]] = place[k]
    return n


@njit(cache=True, nogil=True)
def _join(k, here, listed, place, n):
    """Put a token of topic k into the document; how many topics it has now."""
    if here[k] == 0:
        listed[n] = k
        place[k] = n
        n += 1
    here[k] += np.float32(1.0)
    return n


@njit(cache=True, nogil=True, fastmath=_FAST)
def _exactly(row, here, alpha, inverse, b, p, last, s):
    """A topic drawn by its chance among all."""
    total = np.float32(0.0)
    for k in range(p.shape[0]):
        v = (here[k] + alpha[k]) * (np.float32(row[k]) + b) * inverse[k]
        p[k] = v
        total += v
    s, u = _draw(s)
    return s, np.int64(_find(p, u * total, last))


@njit(cache=True, nogil=True, fastmath=_FAST)
def _propose(row, here, listed, n, inverse, b, p, chance, other, prior, s):
    """A topic drawn by the tokens of the document (fresh) and the prior part (of the alias table)."""
    total = np.float32(0.0)
    for j in range(n):
        k = listed[j]
        v = here[k] * (np.float32(row[k]) + b) * inverse[k]
        p[j] = v
        total += v
    s, u = _draw(s)
    u *= total + prior
    if u < total and n > 0:
        j = 0
        while j < n - 1 and u >= p[j]:
            u -= p[j]
            j += 1
        return s, np.int64(listed[j])
    s, u = _draw(s)
    s, v = _draw(s)
    k = min(np.int64(u * chance.shape[0]), chance.shape[0] - 1)
    return s, np.int64(k if v < chance[k] else other[k])


@njit(cache=True, nogil=True, fastmath=_FAST)
def _accepts(new, old, row, here, alpha, inverse, b, weights, u):
    """Whether the Metropolis step goes from the old topic to the new one."""
    fresh = (np.float32(row[new]) + b) * inverse[new]
    before = (np.float32(row[old]) + b) * inverse[old]
    up = (here[new] + alpha[new]) * fresh * (here[old] * before + weights[old])
    down = (here[old] + alpha[old]) * before * (here[new] * fresh + weights[new])
    return u * down < up


@njit(cache=True, nogil=True, fastmath=_FAST)
def sweep_alias(
    words, topics, offsets, bounds, docs, group, counts, totals, alpha, eta, state,
    frequent, slots, weights, chance, other, sums,
):  # fmt: skip
    """The same in time that grows with the topics of a document, not with all topics.

    The tokens of the document are summed over its own topics; the prior part is drawn from the word's alias table,
    made when this worker began with the group, and a Metropolis step makes up for its age (Li et al., 2014). Rare
    words (slots < 0) have no table and are drawn exactly.
    """
    width, last = counts.shape[1], weights.shape[1] - 1
    one, b = np.float32(1.0), np.float32(eta)
    mass = np.float32(eta * counts.shape[0])
    inverse = np.empty(width, np.float32)
    for k in range(width):
        inverse[k] = one / (np.float32(totals[k]) + mass)
    _prepare(frequent, slots, counts, inverse, alpha, eta, weights, chance, other, sums)
    here = np.zeros(width, np.float32)
    place, listed = np.zeros(width, np.int32), np.empty(width, np.int32)
    p = np.empty(width, np.float32)
    s = state[0]
    for d in range(docs[0], docs[1]):
        here[:] = 0
        n = 0
        for i in range(offsets[d], offsets[d + 1]):
            n = _join(topics[i], here, listed, place, n)
        for i in range(bounds[d, group], bounds[d, group + 1]):
            old = np.int64(topics[i])
            row, at = counts[words[i]], slots[words[i]]
            n = _leave(old, here, listed, place, n)
            row[old] -= 1
            totals[old] -= 1
            inverse[old] = one / (np.float32(totals[old]) + mass)
            if at < 0:
                s, new = _exactly(row, here, alpha, inverse, b, p, last, s)
            else:
                s, new = _propose(row, here, listed, n, inverse, b, p, chance[at], other[at], sums[at], s)
                if new != old:
                    s, u = _draw(s)
                    if not _accepts(new, old, row, here, alpha, inverse, b, weights[at], u):
                        new = old
            n = _join(new, here, listed, place, n)
            row[new] += 1
            totals[new] += 1
            inverse[new] = one / (np.float32(totals[new]) + mass)
            topics[i] = new
    state[0] = s


@njit(cache=True, nogil=True)
def tally(topics, offsets, found):
    """How many documents have n tokens of topic k: found[k, n]; longer documents than it has room for are left out."""
    here = np.zeros(found.shape[0], np.int64)
    for d in range(offsets.shape[0] - 1):
        if offsets[d + 1] - offsets[d] < found.shape[1]:
            for i in range(offsets[d], offsets[d + 1]):
                here[topics[i]] += 1
            for i in range(offsets[d], offsets[d + 1]):
                k = topics[i]
                if here[k] > 0:
                    found[k, here[k]] += 1
                    here[k] = 0
