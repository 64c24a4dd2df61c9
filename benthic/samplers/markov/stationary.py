"""Stationary laws of irreducible chains: by elimination where it is affordable, by iteration where it is not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.samplers.markov.censoring import banded_gth, bandwidth, gth
from benthic.samplers.markov.multigrid import Multigrid, relaxed, rough_stationary
from benthic.samplers.markov.transition import Transition

METHODS = ("auto", "gth", "lu", "band", "power", "multigrid")
_DENSE_GTH = 2048  # states; above, LU of the dense matrix
_BAND_FLOPS = 1e9
_BAND_ENTRIES = 2e8


class Stationary(NamedTuple):
    """A stationary law and how far to trust it.

    law: (n,). residual: sum of absolute values of :math:`\\pi P - \\pi`. error: estimated total-variation distance
    from the exact law. method: how it was found. iterations: matrix products or outer rounds taken.
    """

    law: Tensor
    residual: float
    error: float
    method: str
    iterations: int


def stationary_of(T: Transition, members: np.ndarray, method: str = "auto", tolerance: float = 1e-12) -> Stationary:
    r"""The stationary law of one closed class, zero elsewhere.

    .. math:: \pi P = \pi, \quad \sum_i \pi_i = 1

    ``gth``: elimination, relative accuracy in every entry. ``lu``: a dense solve, differentiable. ``band``:
    elimination in a band after reordering. ``power``: products with P. ``multigrid``: aggregates of states, for
    chains that mix slowly and have no narrow band. ``auto`` takes the first of these that is affordable.

    members: states of the class. tolerance: for the residual of ``power`` and the last change of ``multigrid``.
    """
    if method not in METHODS:
        raise InvalidInput(f"MarkovChain.stationary: method is {method!r}; it is one of {', '.join(METHODS)}")
    if T.dense is not None and method in ("auto", "gth", "lu"):
        found = _of_dense(T.dense, members, method)
    else:
        inner = T.csr if len(members) == T.n else T.csr[members][:, members].tocsr()
        found = stationary_of_sparse(inner, method, tolerance, T.device)
    if len(members) == T.n:
        return found._replace(law=found.law.to(T.dtype))
    index = torch.as_tensor(members, device=T.device)
    law = torch.zeros(T.n, dtype=T.dtype, device=T.device).index_put((index,), found.law.to(T.dtype))
    return found._replace(law=law)


def _of_dense(P: Tensor, members: np.ndarray, method: str) -> Stationary:
    if len(members) < len(P):
        index = torch.as_tensor(members, device=P.device)
        P = P[index][:, index]
    n = len(P)
    if method == "auto":
        method = "lu" if P.requires_grad or n > _DENSE_GTH else "gth"
    wide = P.to(torch.float64)
    if method == "gth":
        law, error = gth(wide), n * np.finfo(float).eps
    else:
        # pi (I - P + 1 1^T / n) = 1^T / n has one solution for every chain with one closed class.
        share = torch.full((n,), 1 / n, dtype=torch.float64, device=P.device)
        matrix = torch.eye(n, dtype=torch.float64, device=P.device) - wide + share
        law = torch.linalg.solve(matrix.T, share)
        condition = float(torch.linalg.norm(torch.linalg.inv(matrix.detach()), ord=torch.inf))
        error = condition * np.finfo(float).eps
    detached = law.detach()
    residual = float((detached @ wide.detach() - detached).abs().sum())
    return Stationary(law, residual, error, method, 1)


def stationary_of_sparse(P: Any, method: str, tolerance: float, device: torch.device) -> Stationary:
    """The stationary law of an irreducible chain with a SciPy sparse matrix (n, n), as :func:`stationary_of`."""
    n = P.shape[0]
    if method in ("gth", "lu"):
        if n > 2 * _DENSE_GTH:
            raise InvalidInput(
                f"MarkovChain.stationary: method {method!r} fills a {n} by {n} matrix; "
                "use 'auto', 'band', 'power' or 'multigrid'"
            )
        return _of_dense(torch.as_tensor(P.toarray(), device=device), np.arange(n), method)
    if method in ("auto", "band"):
        order, width = bandwidth(P)
        affordable = n * float(width) ** 2 <= _BAND_FLOPS and n * (2.0 * width + 1) <= _BAND_ENTRIES
        if affordable:
            law = banded_gth(P, order, width)
            return _judged(P, law, n * np.finfo(float).eps, "band", 1, device)
        if method == "band":
            raise InvalidInput(
                f"MarkovChain.stationary: the narrowest band found is {width} wide over {n} states, too much for "
                "elimination; use 'auto', 'power' or 'multigrid'"
            )
    columns = P.T.tocsr()
    if method in ("auto", "power"):
        law, error, steps, good = _power(columns, tolerance, device, patient=method == "power")
        if good:
            return _judged(P, law, error, "power", steps, device)
    try:
        law, error, rounds = _multigrid(columns, tolerance)
    except InvalidInput:  # parts that hardly leak: only elimination weighs them right
        if method == "auto" and n <= 2 * _DENSE_GTH:
            return stationary_of_sparse(P, "gth", tolerance, device)
        raise
    return _judged(P, law, error, "multigrid", rounds, device)


def _judged(P: Any, law: np.ndarray, error: float, method: str, iterations: int, device: torch.device) -> Stationary:
    residual = float(np.abs(law @ P - law).sum())
    return Stationary(torch.as_tensor(law, device=device), residual, float(error), method, iterations)


def _power(columns: Any, tolerance: float, device: torch.device, patient: bool) -> tuple[np.ndarray, float, int, bool]:
    """Products with the lazy chain (P + I) / 2 every third time, so that periods do not matter.

    Stops early, unless patient, when the rate seen foretells more than a thousand products. Parts of the chain that
    exchange less than about 1e-15 in a step are not seen to be out of balance; elimination and multigrid do see it.
    """
    n = columns.shape[0]
    operator = Transition.compressed(columns, device, torch.float64)
    # An uneven start: a uniform one may be at rest in every part, and wrong about their weights.
    uneven = 0.5 + np.random.default_rng(0).random(n)
    law = torch.as_tensor(uneven / uneven.sum(), device=device)
    checks: list[float] = []
    good = False
    limit = 100_000 if patient else 1_000
    for step in range(1, limit + 1):
        after = operator @ law
        if step % 3 == 0:
            after = (after + law) / 2
        if step % 30 == 1:  # a plain step: its change is the residual
            checks.append(float((after - law).abs().sum()))
            rate = (checks[-1] / checks[-2]) ** (1 / 30) if len(checks) > 1 and checks[-2] > 0 else 0.5
            error = 0.5 * checks[-1] / (1 - min(rate, 1 - 1e-9))
            if good and checks[-1] <= max(0.1 * checks[-2], 1e-15):
                return _proportions(after), error if checks[-1] > 1e-15 else min(error, tolerance), step, True
            good = len(checks) > 1 and error <= tolerance  # to be confirmed: parts that hardly leak stall later
            ahead = np.log(tolerance / checks[-1]) / np.log(rate) if rate < 1 else np.inf
            if not patient and len(checks) > 2 and step + ahead > limit:
                break
        law = after
    if patient:
        raise InvalidInput(
            f"MarkovChain.stationary: power iteration left a residual of {checks[-1]:.1e} after {step} products; "
            "the chain mixes slowly, use method='auto' or 'multigrid'"
        )
    return _proportions(law), np.inf, step, False


def _proportions(law: Tensor) -> np.ndarray:
    values = law.cpu().numpy()
    return values / values.sum()


def _first_guess(columns: Any, max_cycles: int = 40) -> np.ndarray:
    """Cycles of aggregation until no state moves by more than half of its probability."""
    x = np.full(columns.shape[0], 1 / columns.shape[0])
    for _ in range(max_cycles):
        fresh = rough_stationary(columns, x, lambda P: gth(torch.as_tensor(P)).numpy())
        moved = float(np.abs(np.log(fresh / x)).max())
        x = fresh
        if moved < np.log(2.0):
            break
    return x


def _multigrid(columns: Any, tolerance: float, max_rounds: int = 30) -> tuple[np.ndarray, float, int]:
    """Newton-like rounds: write the law as x times y, solve (I - P^T) diag(x) y = 0 near y = 1, take x times y for x.

    At the solution rows and columns of the scaled matrix both sum to zero, which is what aggregation needs.
    """
    import scipy.sparse

    n = columns.shape[0]
    x = _first_guess(columns)
    balance = (scipy.sparse.identity(n, format="csr") - columns).tocsr()
    change, best, waited = np.inf, np.inf, 0
    for rounds in range(1, max_rounds + 1):
        if rounds > 1:
            x = relaxed(balance, x)
        moved = columns.multiply(x[None, :]).tocsr()
        A = (scipy.sparse.diags(x) - moved).tocsr() * n
        rest = -(A @ np.ones(n))
        ratio, _ = Multigrid(A).solve(rest - x * rest.sum(), tolerance=1e-4, max_iter=60)
        ratio -= x @ ratio
        fresh = x * np.clip(1 + ratio, 0.2, 5.0)
        fresh /= fresh.sum()
        change = 0.5 * float(np.abs(fresh - x).sum())
        x = fresh
        waited = waited + 1 if change > 0.5 * best else 0
        best = min(best, change)
        if change <= tolerance or (waited >= 3 and best < 1e-9):
            return x, change, rounds
    if change > 1e-6:
        raise InvalidInput(
            f"MarkovChain.stationary: multigrid still moved the law by {change:.1e} after {rounds} rounds; "
            "the chain is reducible to rounding, merge states that hardly communicate"
        )
    return x, change, rounds
