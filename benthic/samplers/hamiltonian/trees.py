r"""The no-U-turn tree of every chain, one leaf further, in tensor operations with masks: for any device.

The same algorithm as for CPUs, where branches are cheap; here every chain takes every branch and a mask keeps
what it meant. Nothing looks at a number on the host, so leaves can be recorded in a CUDA graph.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Trees(NamedTuple):
    """Trees under way. Vectors are (chains, d), numbers (chains,); positions are whitened."""

    z: Tensor  # the moving leaf: position, momentum, gradient
    p: Tensor
    g: Tensor
    z_left: Tensor  # both ends
    p_left: Tensor
    g_left: Tensor
    z_right: Tensor
    p_right: Tensor
    g_right: Tensor
    z_tree: Tensor  # the proposal of the tree, and of its new half
    g_tree: Tensor
    z_half: Tensor
    g_half: Tensor
    rho_tree: Tensor  # sums of momenta
    rho_half: Tensor
    mark_p: Tensor  # (chains, levels, d) checkpoints of the new half: momentum, and the sum up to it
    mark_rho: Tensor
    step: Tensor
    root: Tensor  # energy at the start
    weight_tree: Tensor  # log
    weight_half: Tensor
    density_tree: Tensor
    density_half: Tensor
    energy_tree: Tensor
    energy_half: Tensor
    accept: Tensor  # sum of acceptance probabilities
    depth: Tensor
    leaf: Tensor  # within the new half
    way: Tensor  # 1 or -1
    steps: Tensor
    done: Tensor  # transitions
    used: Tensor  # normals


class Limits(NamedTuple):
    """Settings: greatest depth, greatest rise of energy, transitions wanted of a chain."""

    depth: int
    rise: float
    wanted: int


class Grown(NamedTuple):
    """What came of one more leaf: the chains that completed a transition, and of those what to report."""

    finished: Tensor
    diverged: Tensor
    report: Tensor  # (chains, 6): acceptance, energy, steps, depth, divergent, log density
    proposal: Tensor  # (chains, d)


def tables(depth: int, device: torch.device) -> Tensor:
    """(2, 2^depth): for each leaf, how many subtrees are open above it, and how many it completes."""
    leaves = range(1 << depth)
    opened = [(leaf >> 1).bit_count() for leaf in leaves]
    completed = [(leaf ^ (leaf + 1)).bit_length() - 1 for leaf in leaves]  # trailing ones
    return torch.tensor([opened, completed], device=device)


def grow(
    t: Trees, value: Tensor, slope: Tensor, uniforms: Tensor, normals: Tensor, step: Tensor, table: Tensor, lim: Limits
) -> tuple[Trees, Grown]:
    """One leaf more in every chain that still has transitions to make.

    value: (chains,) log density at ``t.z``. slope: (chains, d) its gradient. uniforms: (chains, 3).
    normals: (n, chains, d) momenta of coming trees. step: () the step size of new trees.
    """
    working = t.done < lim.wanted
    t, rise = _weigh(t, value, slope, uniforms[:, 0])
    diverged = ~(rise <= lim.rise)
    t, turning = _checkpoints(t, table)
    ended = diverged | turning
    t = t._replace(leaf=t.leaf + 1)
    full = working & ~ended & (t.leaf == torch.bitwise_left_shift(torch.ones_like(t.depth), t.depth))
    t = _join(t, full, uniforms[:, 1])
    ended = ended | (full & (_turns(t.p_left, t.p_right, t.rho_tree) | (t.depth >= lim.depth)))
    finished = working & ended
    columns = (t.accept / t.steps.clamp(min=1), t.energy_tree, t.steps, t.depth, diverged, t.density_tree)
    report = torch.stack([column.to(value.dtype) for column in columns], -1)
    grown = Grown(finished, diverged & finished, report, t.z_tree)
    t = t._replace(done=t.done + finished)
    going = t.done < lim.wanted
    t = plant(t, finished & going, normals, step)
    t = _branch(t, (full & ~ended) | (finished & going), uniforms[:, 2])
    return drift(t, going), grown


def plant(t: Trees, where: Tensor, normals: Tensor, step: Tensor) -> Trees:
    """New trees at the proposals of the last, with fresh momenta."""
    chains = torch.arange(len(t.z), device=t.z.device)
    p = normals[t.used.clamp(max=len(normals) - 1), chains]
    energy = 0.5 * (p**2).sum(-1) - t.density_tree
    column = where[:, None]
    zero = torch.zeros_like(t.accept)
    return t._replace(
        z_left=torch.where(column, t.z_tree, t.z_left),
        z_right=torch.where(column, t.z_tree, t.z_right),
        g_left=torch.where(column, t.g_tree, t.g_left),
        g_right=torch.where(column, t.g_tree, t.g_right),
        p_left=torch.where(column, p, t.p_left),
        p_right=torch.where(column, p, t.p_right),
        rho_tree=torch.where(column, p, t.rho_tree),
        step=torch.where(where, step, t.step),
        root=torch.where(where, energy, t.root),
        energy_tree=torch.where(where, energy, t.energy_tree),
        weight_tree=torch.where(where, zero, t.weight_tree),
        accept=torch.where(where, zero, t.accept),
        depth=t.depth * ~where,
        steps=t.steps * ~where,
        used=t.used + where,
    )


def _branch(t: Trees, where: Tensor, uniform: Tensor) -> Trees:
    """Empty new halves that grow from one end."""
    forward = uniform < 0.5
    way = 2 * forward.to(t.way.dtype) - 1
    column, right = where[:, None], forward[:, None]
    return t._replace(
        z=torch.where(column, torch.where(right, t.z_right, t.z_left), t.z),
        p=torch.where(column, torch.where(right, t.p_right, t.p_left), t.p),
        g=torch.where(column, torch.where(right, t.g_right, t.g_left), t.g),
        rho_half=t.rho_half.masked_fill(column, 0),
        way=torch.where(where, way, t.way),
        leaf=t.leaf * ~where,
        weight_half=t.weight_half.masked_fill(where, float("-inf")),
    )


def drift(t: Trees, where: Tensor) -> Trees:
    """Half a kick and the move: to where the gradient is needed next. Chains that are done stay as they are."""
    step = (t.step * t.way * where)[:, None]
    p = t.p + 0.5 * step * t.g
    return t._replace(p=p, z=t.z + step * p, leaf=t.leaf * where)


def start_branches(t: Trees, where: Tensor, uniform: Tensor) -> Trees:
    """The first new half of trees just planted, moved to where the first gradient is needed."""
    return drift(_branch(t, where, uniform), where)


def _weigh(t: Trees, value: Tensor, slope: Tensor, uniform: Tensor) -> tuple[Trees, Tensor]:
    """Complete the leapfrog, weigh the leaf, perhaps propose it."""
    p = t.p + 0.5 * (t.step * t.way)[:, None] * slope
    energy = 0.5 * (p**2).sum(-1) - value
    rise = energy - t.root
    rise = rise.masked_fill(~rise.isfinite(), float("inf"))
    weight = torch.logaddexp(t.weight_half, -rise)
    take = uniform.log() < -rise - weight  # multinomial within the half
    column = take[:, None]
    t = t._replace(
        p=p,
        g=slope,
        rho_half=t.rho_half + p,
        accept=t.accept + torch.exp(-rise.clamp(min=0)),
        steps=t.steps + 1,
        weight_half=weight,
        z_half=torch.where(column, t.z, t.z_half),
        g_half=torch.where(column, slope, t.g_half),
        density_half=torch.where(take, value, t.density_half),
        energy_half=torch.where(take, energy, t.energy_half),
    )
    return t, rise


def _checkpoints(t: Trees, table: Tensor) -> tuple[Trees, Tensor]:
    """Keep a checkpoint at an even leaf; at an odd one compare with the first leaf of every subtree it completes."""
    level, completed = table[0, t.leaf][:, None], table[1, t.leaf][:, None]  # (chains, 1)
    levels = torch.arange(t.mark_p.shape[1], device=t.z.device)  # (levels,)
    kept = ((levels == level) & (completed == 0))[..., None]
    mark_p = torch.where(kept, t.p[:, None], t.mark_p)
    mark_rho = torch.where(kept, t.rho_half[:, None], t.mark_rho)
    turns = _turns(mark_p, t.p[:, None], t.rho_half[:, None] - mark_rho + mark_p)  # (chains, levels)
    seen = (levels <= level) & (levels > level - completed)
    return t._replace(mark_p=mark_p, mark_rho=mark_rho), (turns & seen).any(-1)


def _turns(first: Tensor, last: Tensor, rho: Tensor) -> Tensor:
    """Whether the momentum at either end points against the sum of momenta, half of both ends left out of it."""
    total = rho - 0.5 * (first + last)
    return ((first * total).sum(-1) <= 0) | ((last * total).sum(-1) <= 0)


def _join(t: Trees, full: Tensor, uniform: Tensor) -> Trees:
    """Join complete halves to their trees."""
    take = full & (uniform.log() < t.weight_half - t.weight_tree)  # biased towards the new half
    right, left = (full & (t.way > 0))[:, None], (full & (t.way < 0))[:, None]
    column = take[:, None]
    return t._replace(
        z_left=torch.where(left, t.z, t.z_left),
        p_left=torch.where(left, t.p, t.p_left),
        g_left=torch.where(left, t.g, t.g_left),
        z_right=torch.where(right, t.z, t.z_right),
        p_right=torch.where(right, t.p, t.p_right),
        g_right=torch.where(right, t.g, t.g_right),
        z_tree=torch.where(column, t.z_half, t.z_tree),
        g_tree=torch.where(column, t.g_half, t.g_tree),
        density_tree=torch.where(take, t.density_half, t.density_tree),
        energy_tree=torch.where(take, t.energy_half, t.energy_tree),
        rho_tree=torch.where(full[:, None], t.rho_tree + t.rho_half, t.rho_tree),
        weight_tree=torch.where(full, torch.logaddexp(t.weight_tree, t.weight_half), t.weight_tree),
        depth=t.depth + full,
    )
