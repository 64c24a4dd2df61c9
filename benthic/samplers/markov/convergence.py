"""How fast a chain forgets its start: total variation, mixing time, spectral gap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.samplers.markov.transition import Transition

FILLED = 4096  # states; larger sparse chains need a start


def law_after(T: Transition, start: Tensor, n: int) -> Tensor:
    r"""The law after n steps, :math:`\mu P^n`; start: (..., s). Large n on dense chains take powers of P."""
    if T.dense is not None and n > 4 * T.n:
        return start @ torch.linalg.matrix_power(T.dense, n)
    for _ in range(n):
        start = T.left(start)
    return start


def sparse_power(T: Transition, n: int) -> Tensor:
    """The n-th power of a sparse matrix in torch's compressed rows, as long as it stays sparse."""
    import scipy.sparse

    power, base = scipy.sparse.identity(T.n, format="csr"), T.csr
    while n:
        for matrix in (power, base):
            if matrix.nnz > FILLED**2 * 4:
                raise InvalidInput(
                    f"MarkovChain.n_step_matrix: the power fills up to more than {matrix.nnz} entries; "
                    "use law(n, start) for the starts of interest"
                )
        power = power @ base if n % 2 else power
        n //= 2
        base = base @ base if n else base
    return T.compressed(scipy.sparse.csr_matrix(power), T.device, T.dtype)


def held(T: Transition, hold: float) -> Any:
    """The matrix of the chain that waits with probability ``hold``, in the kind of P."""
    if T.dense is not None:
        return hold * torch.eye(T.n, dtype=T.dtype, device=T.device) + (1 - hold) * T.dense
    import scipy.sparse

    matrix = (hold * scipy.sparse.identity(T.n, format="csr") + (1 - hold) * T.csr).tocsr()
    return T.compressed(matrix, T.device, T.dtype)


def distances(T: Transition, law: Tensor, steps: Sequence[int], start: Tensor | None) -> Tensor:
    r"""Total variation to the stationary law after each of ``steps``, (len(steps),).

    .. math:: d(n) = \max_\mu \tfrac12 \sum_j | (\mu P^n)_j - \pi_j |

    The maximum is over the laws in start, (s,) or (k, s), or over all states where start is None.
    """
    if start is None:
        T.small(FILLED, "total_variation")
        start = torch.eye(T.n, dtype=T.dtype, device=T.device)
    order = sorted(set(steps))
    found, at, now = {}, 0, start
    for n in order:
        now, at = law_after(T, now, n - at), n
        found[n] = _farthest(now, law)
    return torch.stack([found[n] for n in steps])


def _farthest(laws: Tensor, law: Tensor) -> Tensor:
    return 0.5 * (laws - law).abs().sum(-1).max()


def mixing_time(T: Transition, law: Tensor, epsilon: float, start: Tensor | None, max_steps: int) -> int:
    r"""The smallest n with :math:`d(n) \le \epsilon`; d never increases, so powers of two bracket it."""
    if start is not None and (T.sparse or T.n > FILLED):
        return _by_steps(T, law, epsilon, start, max_steps)
    power = T.small(FILLED, "mixing_time").detach().to(torch.float64)
    law = law.detach().to(torch.float64)
    now = torch.eye(T.n, dtype=torch.float64, device=T.device) if start is None else start.to(torch.float64)
    if _farthest(now, law) <= epsilon:
        return 0
    powers = [power]
    while _farthest(now @ powers[-1], law) > epsilon:
        if 2 ** len(powers) > max_steps:
            raise _unmixed(max_steps, epsilon, float(_farthest(now @ powers[-1], law)))
        squared = powers[-1] @ powers[-1]
        powers.append(squared / squared.sum(1, keepdim=True))
    taken = 0
    for k in range(len(powers) - 1, -1, -1):  # the largest number of steps that is still too few, bit by bit
        after = now @ powers[k]
        if _farthest(after, law) > epsilon:
            now, taken = after, taken + 2**k
    return taken + 1


def _by_steps(T: Transition, law: Tensor, epsilon: float, start: Tensor, max_steps: int) -> int:
    for n in range(max_steps + 1):
        if float(_farthest(start, law)) <= epsilon:
            return n
        start = T.left(start)
    raise _unmixed(max_steps, epsilon, float(_farthest(start, law)))


def _unmixed(steps: int, epsilon: float, reached: float) -> InvalidInput:
    return InvalidInput(
        f"MarkovChain.mixing_time: the distance is {reached:.3g} after {steps} steps, above epsilon = {epsilon:g}; "
        "raise max_steps or epsilon"
    )


def second_eigenvalues(T: Transition, law: Tensor, reversible: bool, absolute: bool) -> np.ndarray:
    """Eigenvalues of P other than the one at 1: all for small chains, the few largest for large ones.

    Largest means in modulus where ``absolute``, in real part otherwise.
    Reversible chains go through the symmetric matrix with entries sqrt(pi_i / pi_j) p(i, j).
    """
    roots = law.detach().double().cpu().numpy() ** 0.5
    if T.n <= FILLED // 2:
        P = T.small(FILLED, "spectral_gap").detach().to(torch.float64)
        if reversible and roots.min() > 0:
            scale = torch.as_tensor(roots, device=P.device)
            S = scale[:, None] * P / scale[None, :]
            values = torch.linalg.eigvalsh((S + S.T) / 2).cpu().numpy()
        else:
            values = torch.linalg.eigvals(P).cpu().numpy()
        return np.delete(values, np.argmin(np.abs(values - 1)))
    return _extreme_eigenvalues(T, roots, reversible, absolute)


def _extreme_eigenvalues(T: Transition, roots: np.ndarray, reversible: bool, absolute: bool) -> np.ndarray:
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

    P, law = T.csr, roots**2
    symmetric = reversible and roots.min() > 0

    def deflated(v: np.ndarray) -> np.ndarray:
        v = v.ravel()
        if symmetric:
            return roots * (P @ (v / roots)) - roots * (roots @ v)
        return P @ v - law @ v  # P - 1 pi has the eigenvalue 0 where P had 1

    operator = LinearOperator(P.shape, matvec=deflated, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(T.n)
    solve = eigsh if symmetric else eigs
    which = "LM" if absolute else ("LA" if symmetric else "LR")
    try:
        return solve(operator, k=4, which=which, v0=start, return_eigenvectors=False, maxiter=100, tol=1e-10, ncv=40)
    except ArpackNoConvergence as error:
        raise InvalidInput(
            f"MarkovChain.spectral_gap: the eigenvalues near the unit circle of this chain with {T.n} states lie too "
            "close together for Arnoldi's method; the gap is tiny, look at total_variation from a start instead"
        ) from error


def gap_of(values: np.ndarray, absolute: bool) -> float:
    r"""One less the largest modulus (or, where not absolute, the largest real part) of the other eigenvalues."""
    if not len(values):
        return 1.0
    largest = float(np.abs(values).max() if absolute else values.real.max())
    gap = 1 - largest
    return 0.0 if math.isclose(largest, 1, abs_tol=1e-13) else gap
