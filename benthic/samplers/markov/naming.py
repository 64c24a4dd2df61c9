"""Names of states, and where they stand."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_whole


class Names:
    """The names of n states, all different; without names they are called 0 to n - 1.

    >>> Names(["dry", "wet"], 2).place("wet", "law")
    1
    """

    def __init__(self, given: Sequence[Hashable] | None, n: int) -> None:
        self.given = None if given is None else list(given)
        self.n = n
        if self.given is not None and len(self.given) != n:
            raise InvalidInput(f"MarkovChain: states has {len(self.given)} names, but P has {n} rows")
        if self.given is not None and len(self._index) != n:
            twice = next(name for i, name in enumerate(self.given) if self._index[name] != i)
            raise InvalidInput(f"MarkovChain: the state {twice!r} is named twice; names are all different")

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {name: i for i, name in enumerate(self.given or [])}

    @property
    def all(self) -> list[Any]:
        """All names in order."""
        return list(range(self.n)) if self.given is None else list(self.given)

    def of(self, places: np.ndarray) -> list[Any]:
        """The names at some places."""
        return places.tolist() if self.given is None else [self.given[i] for i in places]

    def show(self, places: np.ndarray, most: int = 4) -> str:
        """Some names in braces, for a message."""
        most = len(places) if len(places) <= most + 1 else most
        shown = ", ".join(map(str, self.of(places[:most])))
        return "{" + shown + (f", ... {len(places) - most} more" if len(places) > most else "") + "}"

    def place(self, name: Any, what: str) -> int:
        """Where a name stands, or an error with the nearest name."""
        if self.given is None:
            if is_whole(name, 0, self.n - 1):
                return int(name)
            raise InvalidInput(
                f"MarkovChain.{what}: there is no state {name!r}; the states are the integers 0 to {self.n - 1}"
            )
        if not isinstance(name, Hashable) or name not in self._index:
            hint = nearest(str(name), map(str, self.given[:10_000]))
            few = f"; the states are {', '.join(map(repr, self.given))}" if self.n <= 10 and not hint else ""
            raise InvalidInput(f"MarkovChain.{what}: there is no state {name!r}{hint}{few}")
        return self._index[name]

    def places(self, names: Any, what: str) -> np.ndarray:
        """Where one name or the names of a list stand, ascending and once each."""
        several = names if isinstance(names, (list, set, frozenset, range, np.ndarray)) else [names]
        found = np.unique([self.place(name, what) for name in several])
        if not len(found):
            raise InvalidInput(f"MarkovChain.{what}: no target states were given; name at least one")
        return found.astype(np.int64)

    def path(self, path: Any, device: torch.device) -> Tensor:
        """State numbers (..., t) from a tensor or array of numbers, or from a list of names."""
        if not isinstance(path, (Tensor, np.ndarray)) or (self.given is not None and _is_named(path)):
            return torch.tensor([self.place(name, "log_prob") for name in path], dtype=torch.int64, device=device)
        places = torch.as_tensor(path, device=device)
        if places.is_floating_point() or places.dim() == 0 or not places.numel():
            raise InvalidInput("MarkovChain.log_prob: a path is an integer tensor (..., t) of state numbers, t >= 1")
        if int(places.min()) < 0 or int(places.max()) >= self.n:
            raise InvalidInput(
                f"MarkovChain.log_prob: the path has numbers from {int(places.min())} to {int(places.max())}; "
                f"the states are numbered 0 to {self.n - 1}"
            )
        return places.long()

    def nested(self, places: Any) -> Any:
        """Names in lists nested like the numbers."""
        if isinstance(places, list):
            return [self.nested(part) for part in places]
        return places if self.given is None else self.given[places]


def _is_named(path: Any) -> bool:
    return isinstance(path, np.ndarray) and path.dtype.kind in "OSU"
