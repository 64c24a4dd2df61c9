"""Compiled inference in single documents, given the topics: shares, bounds and the left-to-right estimate.

Topics are (words, topics), so that the numbers of one word lie together. Documents do not see each other, so an
answer never depends on what else is asked.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_FAST = {"contract", "reassoc", "nsz", "arcp", "nnan", "ninf"}


@njit(cache=True, nogil=True)
def _digamma(x):
    """The derivative of log Γ to 1e-12 for x > 0: recurrence, then the asymptotic series."""
    shift = 0.0
    while x < 8.0:
        shift -= 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    tail = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132)))))
    return shift + np.log(x) - 0.5 / x - tail


@njit(cache=True, nogil=True, fastmath=_FAST)
def fold_in(indptr, words, counts, first, last, chances, alpha, passes, tol, shares):
    """Expected topic counts plus prior, (documents, topics), by CVB0 with the topics held (Asuncion et al., 2009).

    chances: (words, topics) p(word | topic).
    """
    k_all = alpha.shape[0]
    here, was = np.empty(k_all), np.empty(k_all)
    for d in range(first, last):
        low, high = indptr[d], indptr[d + 1]
        share = np.empty((high - low, k_all))
        total = 0.0
        for i in range(low, high):
            total += counts[i]
        for k in range(k_all):
            here[k] = alpha[k] + total / k_all
        share[:] = 1.0 / k_all
        for _ in range(passes if high > low else 0):
            was[:] = here
            for i in range(low, high):
                _reassign(share[i - low], here, chances[words[i]], counts[i])
            change = 0.0
            for k in range(k_all):
                change += abs(here[k] - was[k])
            if change <= tol * total:
                break
        shares[d] = here


@njit(cache=True, nogil=True, fastmath=_FAST)
def _reassign(share, here, chance, count):
    """Share the tokens of one word among topics anew; a token does not count for itself."""
    own = min(count, 1.0)
    total = 0.0
    for k in range(here.shape[0]):
        total += chance[k] * (here[k] - own * share[k])
    for k in range(here.shape[0]):
        fresh = chance[k] * (here[k] - own * share[k]) / total
        here[k] += count * (fresh - share[k])
        share[k] = fresh


@njit(cache=True, nogil=True, fastmath=_FAST)
def _expand(gamma, weights):
    """exp E log θ under a Dirichlet law, up to nothing: the normalizer is in it."""
    total = 0.0
    for k in range(gamma.shape[0]):
        total += gamma[k]
    norm = _digamma(total)
    for k in range(gamma.shape[0]):
        weights[k] = math.exp(_digamma(gamma[k]) - norm)


@njit(cache=True, nogil=True, fastmath=_FAST)
def mean_field(indptr, words, counts, first, last, table, alpha, passes, tol, gammas, sums):
    """Dirichlet parameters of each document by coordinate ascent (Blei et al., 2003; Hoffman et al., 2010).

    table: (words, topics), exp E log of the topics, or the topics. sums: (words, topics) expected counts are added,
    still to be multiplied by ``table``, or (0, topics) if they are not wanted. Returns the sum of count * log(norm).
    """
    k_all = alpha.shape[0]
    weights, fresh = np.empty(k_all), np.empty(k_all)
    logs = 0.0
    for d in range(first, last):
        gamma = gammas[d]
        _expand(gamma, weights)
        for _ in range(passes):
            fresh[:] = 0.0
            for i in range(indptr[d], indptr[d + 1]):
                row = table[words[i]]
                norm = 1e-100
                for k in range(k_all):
                    norm += weights[k] * row[k]
                part = counts[i] / norm
                for k in range(k_all):
                    fresh[k] += part * row[k]
            change = 0.0
            for k in range(k_all):
                value = alpha[k] + weights[k] * fresh[k]
                change += abs(value - gamma[k])
                gamma[k] = value
            _expand(gamma, weights)
            if change <= tol * k_all:
                break
        for i in range(indptr[d], indptr[d + 1]):
            row = table[words[i]]
            norm = 1e-100
            for k in range(k_all):
                norm += weights[k] * row[k]
            logs += counts[i] * math.log(norm)
            if sums.shape[0] > 0:
                for k in range(k_all):
                    sums[words[i], k] += counts[i] / norm * weights[k]
    return logs


@njit(cache=True, nogil=True)
def _mixed(s):
    """The next state of splitmix64 and a well-mixed number (Steele et al., 2014)."""
    s += np.uint64(0x9E3779B97F4A7C15)
    v = s
    v = (v ^ (v >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    v = (v ^ (v >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return s, v ^ (v >> np.uint64(31))


@njit(cache=True, nogil=True)
def _uniform(s):
    s, v = _mixed(s)
    return s, float(v >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def stream(seed, words, counts):
    """A seed of one document, made of its words, so that it does not depend on its neighbors."""
    s = np.uint64(seed)
    for i in range(words.shape[0]):
        s, v = _mixed(s ^ np.uint64(words[i]))
        s = v + np.uint64(counts[i])
    return s


@njit(cache=True, nogil=True)
def _shuffled(words, counts, s):
    """The tokens of a document in random order, and the state of the random numbers."""
    tokens = np.repeat(words, counts)
    for i in range(tokens.shape[0] - 1, 0, -1):
        s, u = _uniform(s)
        j = int(u * (i + 1))
        tokens[i], tokens[j] = tokens[j], tokens[i]
    return tokens, s


@njit(cache=True, nogil=True, fastmath=_FAST)
def _choose(here, chance, p, s):
    """A topic by its chance given the other tokens."""
    total = 0.0
    for k in range(here.shape[0]):
        p[k] = here[k] * chance[k]
        total += p[k]
    s, u = _uniform(s)
    u *= total
    k = 0
    while k < here.shape[0] - 1 and u >= p[k]:
        u -= p[k]
        k += 1
    return s, k


@njit(cache=True, nogil=True, fastmath=_FAST)
def _particle(tokens, chances, alpha, most, s, found):
    """One pass from left to right: found[n] = p(word n | words before it, their topics as drawn)."""
    k_all = alpha.shape[0]
    here, p = alpha.copy(), np.empty(k_all)
    mass = 0.0
    for k in range(k_all):
        mass += alpha[k]
    topics = np.empty(tokens.shape[0], np.int64)
    for n in range(tokens.shape[0]):
        for r in range(min(n, most)):
            i = r
            if n > most:
                s, u = _uniform(s)
                i = int(u * n)
            here[topics[i]] -= 1.0
            s, topics[i] = _choose(here, chances[tokens[i]], p, s)
            here[topics[i]] += 1.0
        total = 0.0
        row = chances[tokens[n]]
        for k in range(k_all):
            total += here[k] * row[k]
        found[n] = total / (mass + n)
        s, topics[n] = _choose(here, row, p, s)
        here[topics[n]] += 1.0
    return s


@njit(cache=True, nogil=True)
def left_to_right_kernel(indptr, words, counts, first, last, chances, alpha, particles, most, seed, value, error):
    """Log-likelihood of each document with its standard error (jackknife over particles)."""
    for d in range(first, last):
        low, high = indptr[d], indptr[d + 1]
        tokens, s = _shuffled(words[low:high], counts[low:high], stream(seed, words[low:high], counts[low:high]))
        found = np.empty((particles, tokens.shape[0]))
        for r in range(particles):
            s = _particle(tokens, chances, alpha, most, s, found[r])
        total, without = 0.0, np.zeros(particles)
        for n in range(tokens.shape[0]):
            mean = 0.0
            for r in range(particles):
                mean += found[r, n]
            total += math.log(mean / particles)
            for r in range(particles if particles > 1 else 0):
                without[r] += math.log((mean - found[r, n]) / (particles - 1))
        spread, middle = 0.0, without.mean()
        for r in range(particles):
            spread += (without[r] - middle) ** 2
        value[d] = total
        error[d] = math.sqrt(spread * (particles - 1) / particles)


@njit(cache=True, nogil=True)
def halve(indptr, words, counts, seed, kept):
    """Half of the tokens of each document (rounded up), drawn at random without putting back, as counts."""
    for d in range(indptr.shape[0] - 1):
        low, high = indptr[d], indptr[d + 1]
        tokens, _ = _shuffled(np.arange(low, high), counts[low:high], stream(seed, words[low:high], counts[low:high]))
        for i in range((tokens.shape[0] + 1) // 2):
            kept[tokens[i]] += 1
