r"""Sums, maxima and draws over the paths of chains with any log-potentials.

.. math:: p(s_1, \dots, s_t) = \frac{1}{Z} \exp\Big(\sum_i u_i(s_i) + \sum_{i > 1} v_i(s_{i-1}, s_i)\Big)

Hidden Markov models and linear-chain random fields are such chains. On a processor compiled loops do the work; on
other devices, or where second derivatives are wanted, batched tensor operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from benthic.base.errors import InvalidInput, nearest
from benthic.chains.messages_compiled import Moves, Steps

_METHODS = ("auto", "loops", "torch")
_NEVER = -1e30  # stands for minus infinity where gradients flow


class Marginals(NamedTuple):
    """What is known of a chain: log_partition (n,), single (n, t, k) and pairs (n, t - 1, k, k), zero behind ends."""

    log_partition: Tensor
    single: Tensor
    pairs: Tensor


@dataclass(frozen=True)
class _Chain:
    """Checked potentials: unary (n, t, k), pairwise (k, k) or (n, t - 1, k, k), mask (n, t) of steps."""

    unary: Tensor
    pairwise: Tensor
    mask: Tensor
    compiled: bool
    alone: bool  # one chain without an axis for it

    @property
    def offsets(self) -> np.ndarray:
        return np.concatenate([[0], self.mask.sum(1).cumsum(0).cpu().numpy()])

    def packed(self) -> tuple[Moves, np.ndarray]:
        """All steps in one row, as NumPy arrays in float64."""
        unary = self.unary.detach()[self.mask].cpu().double().numpy()
        pair = self.pairwise.detach()
        pair = pair[None] if pair.ndim == 2 else torch.nn.functional.pad(pair, (0, 0, 0, 0, 1, 0))[self.mask]
        return Moves.of(np.zeros(unary.shape[1]), pair.cpu().double().contiguous().numpy()), unary

    def spread(self, values: np.ndarray, fill: float = 0.0) -> Tensor:
        """Values of all steps (total, ...) back to (n, t, ...)."""
        given = torch.from_numpy(values)
        given = given.to(self.unary.device, self.unary.dtype if given.is_floating_point() else given.dtype)
        wide = given.new_full((*self.mask.shape, *given.shape[1:]), fill)
        wide[self.mask] = given
        return wide

    def out(self, tensor: Tensor) -> Tensor:
        return tensor[0] if self.alone else tensor


def _chain(name: str, unary: Any, pairwise: Any, lengths: Any, method: str) -> _Chain:
    if method not in _METHODS:
        raise InvalidInput(
            f"{name}: method {method!r} is unknown{nearest(method, _METHODS)}; use {', '.join(_METHODS)}"
        )
    unary = _floats(unary)
    pairwise = _floats(pairwise).to(unary)
    alone = unary.ndim == 2
    unary = unary[None] if alone else unary
    if unary.ndim != 3 or 0 in unary.shape:
        raise InvalidInput(
            f"{name}: unary has shape {tuple(unary.shape)}; expected (n, t, k) or (t, k), none of them 0"
        )
    n, t, k = unary.shape
    shapes = ((k, k), (t - 1, k, k), (n, t - 1, k, k))
    if tuple(pairwise.shape) not in shapes:
        raise InvalidInput(
            f"{name}: pairwise has shape {tuple(pairwise.shape)}; for unary (n={n}, t={t}, k={k}) it must be one of "
            + ", ".join(map(str, shapes))
        )
    if pairwise.ndim > 2:
        pairwise = pairwise.expand(n, t - 1, k, k)
    for what, values in (("unary", unary), ("pairwise", pairwise)):
        if bool((torch.isnan(values) | (values == torch.inf)).any()):
            raise InvalidInput(f"{name}: {what} contains NaN or plus infinity; log-potentials are numbers or -inf")
    compiled = method == "loops" or (method == "auto" and unary.device.type == "cpu")
    return _Chain(unary, pairwise, _mask(name, lengths, n, t, unary.device), compiled, alone)


def _floats(values: Any) -> Tensor:
    tensor = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values, dtype=np.float64))
    return tensor if tensor.is_floating_point() else tensor.double()


def _mask(name: str, lengths: Any, n: int, t: int, device: torch.device) -> Tensor:
    steps = torch.arange(t, device=device)
    if lengths is None:
        return (steps >= 0).expand(n, t)
    counts = torch.as_tensor(lengths, device=device).reshape(-1)
    if counts.shape != (n,) or bool((counts < 1).any()) or bool((counts > t).any()):
        raise InvalidInput(f"{name}: lengths must be {n} whole numbers from 1 to {t}; every chain needs a step")
    return steps < counts[:, None]


def log_partition(unary: Any, pairwise: Any, lengths: Any = None, *, method: str = "auto") -> Tensor:
    r"""The logarithm of the sum over all paths, differentiable in both potentials.

    unary: (n, t, k) log-potentials of states, or (t, k) of one chain. pairwise: (k, k), or (t - 1, k, k) or
    (n, t - 1, k, k) by step, of the move from row to column. lengths: (n,) steps of each chain, all t by default.
    method: ``"loops"`` (compiled, differentiable once), ``"torch"`` (any device, differentiable as often as wanted) or
    ``"auto"``. Returns (n,), or a number for one chain.

    >>> import torch
    >>> log_partition(torch.zeros(3, 2), torch.zeros(2, 2)).exp()  # eight paths
    tensor(8.)
    """
    chain = _chain("log_partition", unary, pairwise, lengths, method)
    if chain.compiled:
        found: Tensor = _Partition.apply(chain.unary, chain.pairwise, chain)
        return chain.out(found)
    return chain.out(_sum_forward(chain.unary, chain.pairwise, chain.mask))


class _Partition(torch.autograd.Function):
    """The gradient of the log-partition is the marginals, which one more pass gives."""

    @staticmethod
    def forward(ctx: Any, unary: Tensor, pairwise: Tensor, chain: _Chain) -> Tensor:
        moves, flat = chain.packed()
        if not (unary.requires_grad or pairwise.requires_grad):
            found = moves.partition(Steps.of(flat), chain.offsets)
            return torch.from_numpy(found).to(unary)
        log_z, single, double = moves.marginals(Steps.of(flat), chain.offsets, apart=True)
        ctx.save_for_backward(chain.spread(single), chain.spread(double)[:, 1:])
        ctx.shared = pairwise.ndim == 2
        return torch.from_numpy(log_z).to(unary)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        single, double = ctx.saved_tensors
        if ctx.shared:
            return gradient[:, None, None] * single, torch.einsum("n,ntij->ij", gradient, double), None
        return gradient[:, None, None] * single, gradient[:, None, None, None] * double, None


def _sum_forward(unary: Tensor, pairwise: Tensor, mask: Tensor) -> Tensor:
    """Log-partitions (n,) by tensor operations."""
    unary, pairwise = unary.clamp(min=_NEVER), pairwise.clamp(min=_NEVER)
    alpha = unary[:, 0]
    for t in range(1, unary.shape[1]):
        move = pairwise if pairwise.ndim == 2 else pairwise[:, t - 1]
        after = torch.logsumexp(alpha[:, :, None] + move, 1) + unary[:, t]
        alpha = torch.where(mask[:, t, None], after, alpha)
    total = torch.logsumexp(alpha, 1)
    return torch.where(total < 0.1 * _NEVER, -torch.inf, total)


def marginals(unary: Any, pairwise: Any, lengths: Any = None, *, method: str = "auto") -> Marginals:
    """Probabilities of states and of moves by forward and backward messages (Baum et al., 1970).

    Arguments as of ``log_partition``. With ``method="torch"`` the answers are differentiable.

    >>> import torch
    >>> found = marginals(torch.zeros(3, 2), torch.tensor([[0.0, -torch.inf], [0.0, 0.0]]))
    >>> found.single[:, 0]  # four paths: 000, 100, 110, 111
    tensor([0.2500, 0.5000, 0.7500])
    """
    chain = _chain("marginals", unary, pairwise, lengths, method)
    if chain.compiled:
        moves, flat = chain.packed()
        log_z, single, double = moves.marginals(Steps.of(flat), chain.offsets, apart=True)
        parts = (torch.from_numpy(log_z).to(chain.unary), chain.spread(single), chain.spread(double)[:, 1:])
        return Marginals(*map(chain.out, parts))
    return Marginals(*map(chain.out, _by_gradient(chain)))


def _by_gradient(chain: _Chain) -> tuple[Tensor, Tensor, Tensor]:
    n, t, k = chain.unary.shape
    keep = chain.unary.requires_grad or chain.pairwise.requires_grad
    with torch.enable_grad():
        unary = chain.unary if chain.unary.requires_grad else chain.unary.detach().requires_grad_()
        pairs = (chain.pairwise if chain.pairwise.requires_grad else chain.pairwise.detach().requires_grad_()).expand(
            n, t - 1, k, k
        )
        total = _sum_forward(unary, pairs, chain.mask)
        possible = torch.where(torch.isinf(total), 0.0, total)
        found = torch.autograd.grad(possible.sum(), (unary, pairs), create_graph=keep, materialize_grads=True)
    if keep:
        return total, found[0], found[1]
    return total.detach(), found[0].detach(), found[1].detach()


def viterbi(unary: Any, pairwise: Any, lengths: Any = None, *, method: str = "auto") -> tuple[Tensor, Tensor]:
    """The most probable path of each chain and its log-potential (Viterbi, 1967).

    Arguments as of ``log_partition``. Returns paths (n, t), -1 behind ends, and their potentials (n,).

    >>> import torch
    >>> path, value = viterbi(torch.tensor([[1.0, 0.0], [0.0, 3.0], [1.0, 0.0]]), -2.5 * (1 - torch.eye(2)))
    >>> path, value
    (tensor([1, 1, 1]), tensor(3.))
    """
    chain = _chain("viterbi", unary, pairwise, lengths, method)
    if chain.compiled:
        moves, flat = chain.packed()
        path, score = moves.best_paths(flat, chain.offsets)
        return chain.out(chain.spread(path, -1)), chain.out(torch.from_numpy(score).to(chain.unary))
    best, value = _max_forward(chain.unary.detach(), chain.pairwise.detach(), chain.mask)
    return chain.out(best), chain.out(value)


def _max_forward(unary: Tensor, pairwise: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    n, t, k = unary.shape
    best = unary[:, 0]
    stay = torch.arange(k, device=unary.device).expand(n, k)
    came = []
    for i in range(1, t):
        move = pairwise if pairwise.ndim == 2 else pairwise[:, i - 1]
        value, where = (best[:, :, None] + move).max(1)
        best = torch.where(mask[:, i, None], value + unary[:, i], best)
        came.append(torch.where(mask[:, i, None], where, stay))
    score, state = best.max(1)
    path = [state]
    for where in reversed(came):
        state = where.gather(1, state[:, None])[:, 0]
        path.append(state)
    return torch.stack(path[::-1], 1).masked_fill(~mask, -1), score


def sample_paths(unary: Any, pairwise: Any, lengths: Any = None, *, generator: torch.Generator | None = None) -> Tensor:
    """One path of each chain drawn by its probability: sums forward, draws backward.

    Arguments as of ``log_partition``; the generator is on the CPU. Returns (n, t), -1 behind ends.

    >>> import torch
    >>> sample_paths(torch.tensor([[0.0, -torch.inf], [0.0, 0.0]]), torch.tensor([[-torch.inf, 0.0], [0.0, 0.0]]))
    tensor([0, 1])
    """
    chain = _chain("sample_paths", unary, pairwise, lengths, "auto")
    moves, flat = chain.packed()
    level = torch.rand(len(flat), generator=generator, dtype=torch.float64).numpy()
    path, log_z = moves.drawn_paths(flat, chain.offsets, level)
    if np.isinf(log_z).any():
        raise InvalidInput(f"sample_paths: chain {int(np.isinf(log_z).argmax())} has no possible path")
    return chain.out(chain.spread(path, -1))
