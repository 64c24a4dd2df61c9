"""The maximum mean discrepancy between two samples, and tests of whether they come from one law."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.estimate import Estimate
from benthic.base.seeds import generator, seed_of
from benthic.kernels.distances import median_distance
from benthic.kernels.kernel import Kernel
from benthic.kernels.points import as_pair, tile
from benthic.kernels.stationary import RBF

# Random numbers sorted together when permutations are drawn.
_SORTED = 2**26


class MMDTest(NamedTuple):
    """Outcome of a two-sample test.

    statistic: the unbiased squared discrepancy. p_value: never 0. stderr: the spread of the statistic if both samples
    came from one law. null: the statistic of every permutation, where there were any.
    """

    statistic: float
    p_value: float
    stderr: float
    null: Tensor | None = None

    def quantile(self, level: float = 0.95) -> float:
        """What the statistic stays below with this probability if both samples come from one law."""
        if self.null is None:
            return self.stderr * math.sqrt(2) * float(torch.erfinv(torch.tensor(2 * level - 1, dtype=torch.float64)))
        return float(torch.quantile(self.null, level))


def mmd_squared(
    X: Any, Y: Any, kernel: Kernel | None = None, *, unbiased: bool = True, elements: int | None = None
) -> Tensor:
    r"""The squared discrepancy as a differentiable tensor, to train a generator or a kernel with.

    .. math:: \mathrm{MMD}^2 = \mathbb{E}\, k(x, x') + \mathbb{E}\, k(y, y') - 2\, \mathbb{E}\, k(x, y)

    Gretton et al., 2012. Computed in tiles, forward and backward: memory does not grow with n times m.

    X: (n, d). Y: (m, d). kernel: RBF with the median distance of all points when None.
    unbiased: leave out the pairs of a point with itself; the value may then be negative.
    Returns a scalar.

    >>> mmd_squared([[0.0], [1.0]], [[0.0], [1.0]], RBF(1.0), unbiased=False)
    tensor(0., dtype=torch.float64)
    """
    X, Y, kernel = _samples("mmd_squared", X, Y, kernel, unbiased)
    within = []
    for rows in (X, Y):
        n, total = len(rows), kernel.sum(rows, rows, elements=elements)
        within.append((total - kernel.paired(rows, rows).sum()) / (n * (n - 1)) if unbiased else total / n**2)
    return within[0] + within[1] - 2 * kernel.sum(X, Y, elements=elements) / (len(X) * len(Y))


def mmd(
    X: Any, Y: Any, kernel: Kernel | None = None, *, unbiased: bool = True, elements: int | None = None
) -> Estimate:
    r"""The squared maximum mean discrepancy between two samples, with its standard error.

    .. math:: \widehat{\mathrm{MMD}}^2 = \frac{1}{n(n-1)} \sum_{i \ne j} k(x_i, x_j)
        + \frac{1}{m(m-1)} \sum_{i \ne j} k(y_i, y_j) - \frac{2}{nm} \sum_{ij} k(x_i, y_j)

    Gretton et al., 2012. The error counts both how the rows differ and how pairs of rows do (the first two terms of
    Hoeffding's decomposition), so it is right for different laws, where the first dominates, and for equal ones,
    where it vanishes. Computed in tiles.

    X: (n, d). Y: (m, d). kernel: RBF with the median distance of all points when None.
    unbiased: leave out the pairs of a point with itself; the value may then be negative.

    >>> round(mmd([[0.0], [0.1], [0.2]], [[9.0], [9.1], [9.2]], RBF(1.0)).value, 2)
    1.98
    """
    X, Y, kernel = _samples("mmd", X, Y, kernel, unbiased)
    n, m = len(X), len(Y)
    x_rows, x_squares = _within(kernel, X, elements)
    y_rows, y_squares = _within(kernel, Y, elements)
    across, back, squares = _across(kernel, X, Y, elements)
    a, c = x_rows / (n - 1) if n > 1 else x_rows, y_rows / (m - 1) if m > 1 else y_rows
    b, e = across / m, back / n
    if unbiased:
        value = a.mean() + c.mean() - 2 * b.mean()
    else:
        own = [kernel.paired(rows, rows).sum().double() for rows in (X, Y)]
        value = (x_rows.sum() + own[0]) / n**2 + (y_rows.sum() + own[1]) / m**2 - 2 * b.mean()
    if min(n, m) < 3:
        return Estimate(float(value), math.nan)
    first = 4 * ((a - b).var() / n + (c - e).var() / m)
    # Variance of the kernel after its row and column means are taken out, which the first term counts twice.
    xx = _interaction(x_squares / (n * (n - 1)), a, a)
    yy = _interaction(y_squares / (m * (m - 1)), c, c)
    second = 2 * xx / (n * (n - 1)) + 2 * yy / (m * (m - 1)) + 4 * _interaction(squares / (n * m), b, e) / (n * m)
    variance = max(float(first - second), float(second), 0.0)
    return Estimate(float(value), math.sqrt(variance))


def mmd_test(
    X: Any,
    Y: Any,
    kernel: Kernel | None = None,
    permutations: int = 200,
    *,
    seed: int | None = None,
    elements: int | None = None,
) -> MMDTest:
    r"""A permutation test of whether two samples come from one law.

    Labels are shuffled among the pooled points; the p-value is the share of shuffles, the true labels among them,
    whose discrepancy is at least the observed one, so it is exact for any sample size:

    .. math:: p = \frac{1 + \#\{b : T_b \ge T\}}{1 + B}

    Gretton et al., 2012; Phipson & Smyth, 2010. With labels as signs e the discrepancy is a combination of the forms
    :math:`e^\top K e` and :math:`e^\top K 1`, so one product of each tile of K with the signs of all shuffles serves
    them together, each pair of points is computed once, and only a tile is held at a time.

    X: (n, d). Y: (m, d). kernel: RBF with the median distance of all points when None, which no shuffle changes.
    permutations: B. seed: of the shuffles and of the points behind the median. elements: entries of a tile.

    >>> x = torch.linspace(0, 1, 50)[:, None]
    >>> mmd_test(x, x + 3.0, permutations=99, seed=0).p_value
    0.01
    """
    if permutations < 1:
        raise InvalidInput(f"mmd_test: permutations is {permutations}; at least 1 is needed, 200 or more are useful")
    seed = seed_of(seed)
    X, Y, kernel = _samples("mmd_test", X, Y, kernel, True, seed)
    with torch.no_grad():
        Z = torch.cat([X, Y])
        signs = _signs(len(X), len(Z), permutations, generator(seed, "mmd_test", device=Z.device))
        curved, sloped, total = _forms(kernel, Z, signs, elements)
        values = _statistics(len(X), len(Y), curved, sloped, total)
    observed, null = values[0], values[1:]
    slack = torch.finfo(Z.dtype).eps * abs(float(total)) / len(Z) ** 2  # equal labels must tie
    reached = int((null >= observed - slack).sum())
    spread = float(null.std()) if permutations > 1 else math.nan
    return MMDTest(float(observed), (1 + reached) / (1 + permutations), spread, null)


def linear_mmd_test(X: Any, Y: Any, kernel: Kernel | None = None, *, seed: int | None = 0) -> MMDTest:
    r"""A test in time proportional to the number of points, for samples too large for all pairs.

    .. math:: T = \frac{1}{n'} \sum_i h_i, \quad
        h_i = k(x_{2i}, x_{2i+1}) + k(y_{2i}, y_{2i+1}) - k(x_{2i}, y_{2i+1}) - k(x_{2i+1}, y_{2i})

    Gretton et al., 2012, section 6: the h are independent, so T over its standard error is standard normal if both
    samples come from one law. Less powerful than :func:`mmd_test` with the same points. Rows are used in their order,
    which must be random; those beyond the shorter sample are not used.

    X: (n, d). Y: (m, d). kernel: RBF with the median distance of all points when None. seed: of that median.

    >>> x = torch.randn(400, 1, generator=torch.Generator().manual_seed(0))
    >>> linear_mmd_test(x[:200], x[200:] + 1).p_value < 0.01
    True
    """
    X, Y, kernel = _samples("linear_mmd_test", X, Y, kernel, True, seed_of(seed))
    half = min(len(X), len(Y)) // 2
    if half < 2:
        raise InvalidInput(
            f"linear_mmd_test: X has {len(X)} rows and Y {len(Y)}; at least 4 of each are needed, and many are useful"
        )
    with torch.no_grad():
        x, x2, y, y2 = X[0 : 2 * half : 2], X[1 : 2 * half : 2], Y[0 : 2 * half : 2], Y[1 : 2 * half : 2]
        h = kernel.paired(x, x2) + kernel.paired(y, y2) - kernel.paired(x, y2) - kernel.paired(x2, y)
        h = h.double()
        statistic, stderr = float(h.mean()), float(h.std()) / math.sqrt(half)
    score = statistic / stderr if stderr > 0 else math.copysign(math.inf, statistic) if statistic else 0.0
    return MMDTest(statistic, max(0.5 * math.erfc(score / math.sqrt(2)), 5e-324), stderr)


def _samples(
    where: str, X: Any, Y: Any, kernel: Kernel | None, unbiased: bool, seed: int = 0
) -> tuple[Tensor, Tensor, Kernel]:
    X, Y = as_pair(where, X, Y)
    if unbiased and min(len(X), len(Y)) < 2:
        raise InvalidInput(
            f"{where}: X has {len(X)} rows and Y {len(Y)}; at least 2 of each are needed for pairs of different points"
        )
    if kernel is None:
        kernel = RBF(median_distance(torch.cat([X, Y]), seed=seed))
    if not isinstance(kernel, Kernel):
        raise InvalidInput(f"{where}: kernel is {type(kernel).__name__}; a Kernel, such as RBF(1.0), is needed")
    kernel._check_columns(X)
    return X, Y, kernel


def _within(kernel: Kernel, X: Tensor, elements: int | None) -> tuple[Tensor, Tensor]:
    """Sums of every row, (n,), and of all squares, without the diagonal; each pair of points is computed once."""
    rows = torch.zeros(len(X), dtype=torch.float64, device=X.device)
    squares = rows.new_zeros(())
    with torch.no_grad():
        for top, left, K in _upper(kernel, X, elements):
            rows[top] += K.sum(1, dtype=torch.float64)
            if left != top:
                rows[left] += K.sum(0, dtype=torch.float64)
            squares += (1 if left == top else 2) * K.square().sum(dtype=torch.float64)
    return rows, squares


def _across(kernel: Kernel, X: Tensor, Y: Tensor, elements: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of every row, (n,), of every column, (m,), and of all squares."""
    rows = torch.zeros(len(X), dtype=torch.float64, device=X.device)
    columns = torch.zeros(len(Y), dtype=torch.float64, device=X.device)
    squares = rows.new_zeros(())
    height, width = tile(len(X), len(Y), elements, X.device)
    with torch.no_grad():
        fast = kernel._allows_fast(X, Y)
        for top in range(0, len(X), height):
            for left in range(0, len(Y), width):
                K = kernel._matrix(X[top : top + height], Y[left : left + width], None, fast)
                rows[top : top + height] += K.sum(1, dtype=torch.float64)
                columns[left : left + width] += K.sum(0, dtype=torch.float64)
                squares += K.square().sum(dtype=torch.float64)
    return rows, columns, squares


def _upper(kernel: Kernel, Z: Tensor, elements: int | None) -> Any:
    """Rows, columns and values of square tiles on and above the diagonal; the diagonal itself is 0."""
    side = min(tile(len(Z), len(Z), elements, Z.device))
    fast = kernel._allows_fast(Z, Z)
    cuts = [slice(start, min(start + side, len(Z))) for start in range(0, len(Z), side)]
    for i, top in enumerate(cuts):
        for left in cuts[i:]:
            K = kernel._matrix(Z[top], Z[left], None, fast)
            yield top, left, K.clone().fill_diagonal_(0) if left == top else K


def _interaction(mean_square: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The mean square of a matrix after its row and column means are taken out."""
    return (mean_square - rows.square().mean() - columns.square().mean() + rows.mean() ** 2).clamp(min=0)


def _signs(n: int, total: int, permutations: int, source: torch.Generator) -> Tensor:
    """(permutations + 2, total) of ±1: the true labels, uniform shuffles of them, and a last row of ones."""
    signs = torch.full((permutations + 2, total), -1, dtype=torch.int8, device=source.device)
    signs[0, :n] = 1
    signs[-1] = 1
    step = max(1, _SORTED // total)
    for first in range(1, permutations + 1, step):
        count = min(step, permutations + 1 - first)
        order = torch.rand(count, total, generator=source, device=source.device).argsort(1)
        signs[first : first + count].scatter_(1, order[:, :n], 1)
    return signs


def _forms(kernel: Kernel, Z: Tensor, signs: Tensor, elements: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """e'Ke and e'K1 for every row e of signs but the last, and 1'K1, all without the diagonal, in float64."""
    curved = torch.zeros(len(signs) - 1, dtype=torch.float64, device=Z.device)
    sloped, total = torch.zeros_like(curved), curved.new_zeros(())
    for top, left, K in _upper(kernel, Z, elements):
        E = signs[:, top].to(K.dtype)  # (P + 2, b)
        KE = K @ signs[:, left].to(K.dtype).T  # (b, P + 2); its last column is K1
        images, ones = KE[:, :-1], KE[:, -1]
        twice = 1 if left == top else 2
        curved += twice * (images * E[:-1].T).sum(0, dtype=torch.float64)
        sloped += (E[:-1] @ ones).double()
        total += twice * ones.sum(dtype=torch.float64)
        if left != top:
            sloped += images.sum(0, dtype=torch.float64)  # the mirrored tile: 1'Ke
    return curved, sloped, total


def _statistics(n: int, m: int, curved: Tensor, sloped: Tensor, total: Tensor) -> Tensor:
    """The unbiased squared discrepancy from the forms, with n signs +1 and m signs -1."""
    xx = (total + 2 * sloped + curved) / (4 * n * (n - 1))
    yy = (total - 2 * sloped + curved) / (4 * m * (m - 1))
    return xx + yy - (total - curved) / (2 * n * m)
