"""Where a chain ends and how long it takes: absorption, hitting times, fundamental matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.samplers.markov.censoring import bandwidth
from benthic.samplers.markov.multigrid import Multigrid
from benthic.samplers.markov.stationary import stationary_of_sparse
from benthic.samplers.markov.transition import Transition

_DIRECT = 2000  # states; below, a dense solve
_LU_FILL = 1e8


def solve_visits(T: Transition, inside: np.ndarray, right: Tensor) -> Tensor:
    r"""The solution of :math:`(I - Q) x = b`, with Q the transitions among the states ``inside``.

    Every state inside must be able to leave. right: (m, k). Returns (m, k). Dense solve for dense chains and few
    states (differentiable), banded LU where the band is narrow, multigrid otherwise.
    """
    if T.dense is not None or len(inside) <= _DIRECT:
        index = torch.as_tensor(inside, device=T.device)
        if T.dense is not None:
            Q = T.dense[index][:, index]
        else:
            Q = T.to(T.csr[inside][:, inside].toarray())
        eye = torch.eye(len(inside), device=T.device, dtype=torch.float64)
        return torch.linalg.solve(eye - Q.to(torch.float64), right.to(torch.float64)).to(T.dtype)
    import scipy.sparse

    Q = T.csr[inside][:, inside].tocsr()
    A = (scipy.sparse.identity(len(inside), format="csr") - Q).tocsr()
    return T.to(_solve_sparse(A, right.double().cpu().numpy()))


def _solve_sparse(A: Any, right: np.ndarray) -> np.ndarray:
    from scipy.sparse.linalg import splu

    order, width = bandwidth(A)
    if len(order) * (2.0 * width + 1) <= _LU_FILL and width <= 300:
        factors = splu(A[order][:, order].tocsc(), permc_spec="NATURAL", options={"SymmetricMode": True})
        out = np.empty_like(right)
        out[order] = factors.solve(right[order])
        return out
    return _solve_closed(A, right)


def _solve_closed(A: Any, right: np.ndarray) -> np.ndarray:
    """Multigrid on a closed chain: who leaves comes to one more state, which sends them back anywhere.

    Scaled by its stationary law, that chain's matrix has rows and columns that sum to zero, and no eigenvalue that is
    small but for the one at zero, however rarely the states are left.
    """
    import scipy.sparse

    n = A.shape[0]
    leak = scipy.sparse.csr_matrix(np.maximum(A @ np.ones((n, 1)), 0))
    Q = scipy.sparse.identity(n, format="csr") - A
    P = scipy.sparse.bmat([[Q, leak], [np.full((1, n), 1 / n), None]], format="csr")
    P = scipy.sparse.csr_matrix(P.multiply(1 / P.sum(1)))
    law = stationary_of_sparse(P, "auto", 1e-12, torch.device("cpu")).law.numpy()
    balance = scipy.sparse.diags(law) @ (scipy.sparse.identity(n + 1, format="csr") - P)
    grid = Multigrid(scipy.sparse.csr_matrix(balance * n))
    columns = []
    for b in right.T:
        flow = n * law * np.append(b, -(law[:-1] @ b) / law[-1])
        x, residual = grid.solve(flow, tolerance=1e-13, max_iter=300)
        if not residual <= 1e-7:
            raise InvalidInput(
                f"MarkovChain: the equations for hitting from {n} states stopped at a relative residual of "
                f"{residual:.1e}; the chain leaves them too rarely for float64"
            )
        columns.append(x[:-1] - x[-1])
    return np.stack(columns, 1)


def reaching(P: Any, targets: np.ndarray) -> np.ndarray:
    """(n,) whether a target can be reached from each state; a target reaches itself. P: SciPy sparse (n, n)."""
    import scipy.sparse
    from scipy.sparse.csgraph import breadth_first_order

    n = P.shape[0]
    # One extra state with an arrow to every target, in the graph turned round, finds all of them in one search.
    extra = scipy.sparse.csr_matrix((np.ones(len(targets)), (np.zeros(len(targets), int), targets)), shape=(1, n))
    graph = scipy.sparse.bmat([[P.T, None], [extra, scipy.sparse.csr_matrix((1, 1))]], format="csr")
    found = breadth_first_order(graph, n, directed=True, return_predecessors=False)
    mask = np.zeros(n + 1, dtype=bool)
    mask[found] = True
    return mask[:n]


def hitting_probabilities(T: Transition, targets: np.ndarray) -> Tensor:
    r"""Probability of ever reaching the targets from each state, (n,).

    .. math:: h_i = 1 \ (i \in A), \quad h_i = \textstyle\sum_j p(i, j)\, h_j \ (i \notin A), \quad h \text{ minimal}
    """
    inside = reaching(T.csr, targets)
    inside[targets] = False
    unknown = np.flatnonzero(inside)
    known = torch.zeros(T.n, dtype=T.dtype, device=T.device)
    known[torch.as_tensor(targets, device=T.device)] = 1
    if not len(unknown):
        return known
    index = torch.as_tensor(unknown, device=T.device)
    found = solve_visits(T, unknown, T.right(known)[index, None])[:, 0]
    return known.index_put((index,), found.clamp(0, 1))


def hitting_times(T: Transition, targets: np.ndarray) -> Tensor:
    r"""Expected number of steps to the targets from each state, (n,); infinite where they may be missed.

    .. math:: k_i = 0 \ (i \in A), \quad k_i = 1 + \textstyle\sum_j p(i, j)\, k_j \ (i \notin A)
    """
    blocked = np.flatnonzero(~reaching(T.csr, targets))
    times = torch.zeros(T.n, dtype=T.dtype, device=T.device)
    sure = np.ones(T.n, dtype=bool)
    if len(blocked):
        sure = ~_reaching_around(T.csr, blocked, targets)
        times[torch.as_tensor(~sure, device=T.device)] = torch.inf
    sure[targets] = False
    unknown = np.flatnonzero(sure)
    if not len(unknown):
        return times
    index = torch.as_tensor(unknown, device=T.device)
    ones = torch.ones(len(unknown), 1, dtype=T.dtype, device=T.device)
    return times.index_put((index,), solve_visits(T, unknown, ones)[:, 0])


def _reaching_around(P: Any, goals: np.ndarray, walls: np.ndarray) -> np.ndarray:
    """(n,) whether a goal can be reached before any wall."""
    import scipy.sparse

    keep = np.ones(P.shape[0])
    keep[walls] = 0
    ways = scipy.sparse.csr_matrix(scipy.sparse.diags(keep) @ P)
    ways.eliminate_zeros()
    found = reaching(ways, goals)
    found[walls] = False
    return found


def absorption(T: Transition, classes: list[np.ndarray], transient: np.ndarray) -> Tensor:
    r"""Probability of ending in each closed class, (n, k): :math:`(I - Q)^{-1} R` on transient states.

    classes: the states of each closed class. transient: states that belong to none.
    """
    known = torch.zeros(T.n, len(classes), dtype=T.dtype, device=T.device)
    for k, members in enumerate(classes):
        known[torch.as_tensor(members, device=T.device), k] = 1
    if not len(transient):
        return known
    index = torch.as_tensor(transient, device=T.device)
    ahead = T.right(known.T).T[index]  # (m, k)
    return known.index_put((index,), solve_visits(T, transient, ahead).clamp(0, 1))


def kemeny_snell(P: Tensor, law: Tensor) -> Tensor:
    r"""Kemeny and Snell's matrix :math:`Z = (I - P + 1 \pi)^{-1}` of an irreducible chain, (n, n)."""
    eye = torch.eye(len(P), dtype=P.dtype, device=P.device)
    return torch.linalg.inv(eye - P + law[None, :])


def passage_times(P: Tensor, law: Tensor) -> Tensor:
    r"""Expected steps from i to j, (n, n), with mean return times on the diagonal.

    .. math:: m_{ij} = (\delta_{ij} + z_{jj} - z_{ij}) / \pi_j

    Kemeny and Snell, 1960.

    >>> P = torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=torch.float64)
    >>> passage_times(P, torch.tensor([1 / 3, 2 / 3], dtype=torch.float64))
    tensor([[3.0000, 2.0000],
            [4.0000, 1.5000]], dtype=torch.float64)
    """
    Z = kemeny_snell(P, law)
    eye = torch.eye(len(P), dtype=P.dtype, device=P.device)
    return (eye + Z.diagonal()[None, :] - Z) / law[None, :]
