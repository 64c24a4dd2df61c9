"""One column of a table: what was learned of it, its code, and the way back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.generative.gan.columns_modes import find_modes

_DISCRETE = ("boolean", "category")


@dataclass(frozen=True)
class Part:
    """One column of a table: where it lies among the rows' numbers, and what its code consists of.

    kind: ``number``, ``integer``, ``boolean`` or ``category``. start, width: among the columns of the rows. missing:
    whether to be missing is one of its states, the last one. weights, means, spreads: of the modes of numbers. bound:
    how far, in code, data were from their mode, 0 where all were at it and else at least 1. shares: how often each
    state occurred.
    """

    name: str
    kind: str
    start: int
    width: int
    missing: bool
    bound: float = 1.0
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    means: np.ndarray = field(default_factory=lambda: np.zeros(0))
    spreads: np.ndarray = field(default_factory=lambda: np.zeros(0))
    shares: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def discrete(self) -> bool:
        """Whether it consists of states only."""
        return self.kind in _DISCRETE

    @property
    def values(self) -> int:
        """Modes of a number, or categories."""
        if self.discrete:
            return 2 if self.kind == "boolean" else self.width
        return len(self.means)

    @property
    def states(self) -> int:
        """Columns of its code that say which mode or category it is; a single possibility needs none."""
        found = self.values + self.missing
        return found if found > 1 else 0

    @property
    def code_width(self) -> int:
        """Columns of its code."""
        return self.states + (not self.discrete)


def learn_part(part: Part, block: np.ndarray, max_modes: int, seed: int) -> Part:
    """The column with what its values (n, width) say about it."""
    gone = np.isnan(block).any(1)
    seen = block[~gone]
    if not len(seen):
        raise InvalidInput(f"ColumnCode.fit: column {part.name!r} has no values; drop it")
    missing, share = bool(gone.any()), float(gone.mean())
    common = (part.name, part.kind, part.start, part.width, missing)
    if part.discrete:
        _check_states(part, torch.as_tensor(seen), "fit")
        means = np.array([1 - seen.mean(), seen.mean()]) if part.kind == "boolean" else seen.mean(0)
        counts = np.append((1 - share) * means, [share] * missing) * len(block)
        return Part(*common, shares=counts)
    modes = find_modes(seen[:, 0], max_modes, seed)
    made = Part(*common, 1.0, *modes)
    which, place = _place(made, torch.as_tensor(seen[:, 0]), None)
    shares = np.append(np.bincount(which.numpy(), minlength=len(modes.means)), [gone.sum()] * missing)
    farthest = float(place.abs().max())
    bound = max(1.0, farthest) if farthest > 0 else 0.0  # where modes are single values, nothing lies between
    return Part(*common, bound, *modes, shares.astype(np.float64))


def _place(part: Part, x: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """The mode (n,) of numbers (n,), and the place in it."""
    weights, means, spreads = (torch.as_tensor(v).to(x) for v in (part.weights, part.means, part.spreads))
    z = (x[:, None] - means) / spreads  # (n, modes)
    joint = weights.log() - spreads.log() - 0.5 * z.square()
    if generator is None:
        which = joint.argmax(1)
    else:
        chances = torch.softmax(joint, 1)
        u = torch.rand(len(x), 1, generator=generator, device=generator.device, dtype=torch.float64).to(x)
        which = (chances.cumsum(1) < u).sum(1).clamp(max=len(means) - 1)
    return which, z.gather(1, which[:, None])[:, 0]


def encode_part(part: Part, block: Tensor, out: Tensor, generator: torch.Generator | None) -> None:
    """Write the code of values (n, width) into ``out``; generator: draws modes, else the likeliest is taken."""
    gone = block.isnan().any(1)
    if not part.missing and bool(gone.any()):
        raise InvalidInput(
            f"ColumnCode.encode: column {part.name!r} has missing values, and had none when it was fitted; "
            "fill them, or fit with such rows"
        )
    filled = torch.where(gone[:, None], 0.0, block)
    if part.discrete:
        _check_states(part, block[~gone], "encode")
        which = filled.argmax(1) if part.kind == "category" else filled[:, 0].long()
    else:
        which, place = _place(part, filled[:, 0], generator)
        out[:, -1] = torch.where(gone, 0.0, place)
    if part.states:
        which = torch.where(gone, part.states - 1, which) if part.missing else which
        out[:, : part.states] = torch.nn.functional.one_hot(which, part.states).to(out)


def decode_part(part: Part, code: Tensor, out: Tensor) -> None:
    """Write the values that a code stands for into ``out`` (n, width)."""
    none = torch.zeros(len(code), dtype=torch.long, device=code.device)
    which = code[:, : part.states].argmax(1) if part.states else none
    gone = which == part.values
    held = which.clamp(max=part.values - 1)
    if part.kind == "category":
        out[:] = torch.nn.functional.one_hot(held, part.width).to(out)
    elif part.kind == "boolean":
        out[:, 0] = held.to(out)
    else:
        means, spreads = (torch.as_tensor(v).to(out) for v in (part.means, part.spreads))
        values = means[held] + spreads[held] * code[:, -1]
        out[:, 0] = values.round() if part.kind == "integer" else values
    out[gone] = torch.nan


def _check_states(part: Part, block: Tensor, where: str) -> None:
    """Refuse what is not zeros and ones, and for categories not exactly one 1."""
    good = (block == 0) | (block == 1)
    whole = part.kind == "boolean" or bool((block.sum(1) == 1).all())
    if not bool(good.all()) or not whole:
        raise InvalidInput(
            f"ColumnCode.{where}: column {part.name!r} is a {part.kind}, which is coded by zeros and "
            f"{'ones' if part.kind == 'boolean' else 'a single one'}; pass rows as schema.encode gives them"
        )
