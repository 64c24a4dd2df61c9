"""Forces of t-SNE on a processor: attraction along the edges of a graph, repulsion between all pairs, a step."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# "numpy" errors below: a check for a zero divisor would keep the loops from running in vectors
_FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def attract(places, starts, columns, values, begin, end, force):
    """Σ_j p_ij q_ij (y_i − y_j) for rows begin..end, with q = 1 / (1 + |y_i − y_j|²). places: (k, n)."""
    k = places.shape[0]
    if k == 2:
        X, Y = places[0], places[1]
        for i in range(begin, end):
            x, y = X[i], Y[i]
            fx = np.float32(0.0)
            fy = np.float32(0.0)
            for e in range(starts[i], starts[i + 1]):
                j = columns[e]
                dx, dy = x - X[j], y - Y[j]
                pull = values[e] / (np.float32(1.0) + dx * dx + dy * dy)
                fx += pull * dx
                fy += pull * dy
            force[0, i], force[1, i] = fx, fy
        return
    for i in range(begin, end):
        for a in range(k):
            force[a, i] = 0.0
        for e in range(starts[i], starts[i + 1]):
            j = columns[e]
            square = np.float32(1.0)
            for a in range(k):
                gap = places[a, i] - places[a, j]
                square += gap * gap
            pull = values[e] / square
            for a in range(k):
                force[a, i] += pull * (places[a, i] - places[a, j])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def repel(places, others, begin, end, force):
    """Σ_j q_ij² (y_i − y_j) over all others for rows begin..end; returns Σ q over all these pairs. places: (k, n)."""
    k, m = others.shape
    total = 0.0
    if k == 2:
        X, Y = others[0], others[1]
        for i in range(begin, end):
            x, y = places[0, i], places[1, i]
            z = np.float32(0.0)
            fx = np.float32(0.0)
            fy = np.float32(0.0)
            for j in range(m):
                dx, dy = x - X[j], y - Y[j]
                q = np.float32(1.0) / (np.float32(1.0) + dx * dx + dy * dy)
                z += q
                q *= q
                fx += q * dx
                fy += q * dy
            force[0, i], force[1, i] = fx, fy
            total += z
        return total
    for i in range(begin, end):
        for a in range(k):
            force[a, i] = 0.0
        for j in range(m):
            square = np.float32(1.0)
            for a in range(k):
                gap = places[a, i] - others[a, j]
                square += gap * gap
            q = np.float32(1.0) / square
            total += q
            q *= q
            for a in range(k):
                force[a, i] += q * (places[a, i] - others[a, j])
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def divergence(places, starts, columns, values, begin, end):
    """Σ p log p + p log(1 + |y_i − y_j|²) over the edges of rows begin..end."""
    k = places.shape[0]
    total = 0.0
    for i in range(begin, end):
        for e in range(starts[i], starts[i + 1]):
            j = columns[e]
            square = 1.0
            for a in range(k):
                gap = places[a, i] - places[a, j]
                square += gap * gap
            p = values[e]
            if p > 0.0:
                total += p * math.log(p * square)
    return total


@njit(cache=True, nogil=True)
def advance(places, slope, speed, gain, rate, momentum):
    """One step of descent with momentum; a coordinate's gain grows while its slope keeps its sign against the speed."""
    k, n = places.shape
    for a in range(k):
        mean = 0.0
        for i in range(n):
            same = (slope[a, i] > 0) == (speed[a, i] > 0)
            grown = gain[a, i] * np.float32(0.8) if same else gain[a, i] + np.float32(0.2)
            gain[a, i] = max(grown, np.float32(0.01))
            speed[a, i] = momentum * speed[a, i] - rate * gain[a, i] * slope[a, i]
            places[a, i] += speed[a, i]
            mean += places[a, i]
        mean /= n
        for i in range(n):
            places[a, i] -= mean


@njit(cache=True, nogil=True)
def weights(places, begin, end, low, width, boxes, nodes, first, shares):
    """Interpolation of points on a regular grid: the first node (k, n) of each and the shares of its nodes (k, n, p).

    nodes: how many interpolation nodes a box has, at the middles of as many equal parts of it.
    """
    k = places.shape[0]
    for a in range(k):
        for i in range(begin, end):
            at = (places[a, i] - low) / width
            box = min(max(int(at), 0), boxes - 1)
            inside = (at - box) * nodes - 0.5
            first[a, i] = box * nodes
            for p in range(nodes):
                share = 1.0
                for q in range(nodes):
                    if q != p:
                        share *= (inside - q) / (p - q)
                shares[a, i, p] = share


@njit(cache=True, nogil=True)
def spread(places, first, shares, charges):
    """Add the charges 1, y and |y|² of every point to the nodes of the grid around it. charges: (k + 2, N[, N])."""
    k, n = places.shape
    nodes = shares.shape[2]
    for i in range(n):
        square = 0.0
        for a in range(k):
            square += places[a, i] * places[a, i]
        for p in range(nodes):
            for q in range(nodes if k == 2 else 1):
                share = shares[0, i, p] * (shares[1, i, q] if k == 2 else 1.0)
                r, c = first[0, i] + p, (first[1, i] + q) if k == 2 else 0
                charges[0, r, c] += share
                for a in range(k):
                    charges[1 + a, r, c] += share * places[a, i]
                charges[1 + k, r, c] += share * square


@njit(cache=True, nogil=True)
def gather(places, first, shares, fields, begin, end, force):
    """Repulsion of rows begin..end from the fields on the grid; returns Σ q over their pairs, themselves included."""
    k = places.shape[0]
    nodes = shares.shape[2]
    total = 0.0
    for i in range(begin, end):
        found = np.zeros(k + 2)
        for p in range(nodes):
            for q in range(nodes if k == 2 else 1):
                share = shares[0, i, p] * (shares[1, i, q] if k == 2 else 1.0)
                r, c = first[0, i] + p, (first[1, i] + q) if k == 2 else 0
                for f in range(k + 2):
                    found[f] += share * fields[f, r, c]
        square = 0.0
        inner = 0.0
        for a in range(k):
            square += places[a, i] * places[a, i]
            inner += places[a, i] * found[1 + a]
            force[a, i] = places[a, i] * found[0] - found[1 + a]
        total += (1.0 + square) * found[0] - 2.0 * inner + found[1 + k]
    return total
