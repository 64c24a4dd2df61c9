"""Directed acyclic graphs: order, ancestors, and which variables tell nothing about which others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benthic.base.errors import InvalidInput, nearest


class Graph:
    """Names, and for each the names of its parents.

    >>> graph = Graph({"grass": ["rain", "sprinkler"], "sprinkler": ["rain"], "rain": []})
    >>> graph.order
    ['rain', 'sprinkler', 'grass']
    """

    def __init__(self, parents: Mapping[str, Sequence[str]]) -> None:
        self.parents = {name: tuple(given) for name, given in parents.items()}
        for name, given in self.parents.items():
            for parent in given:
                if parent not in self.parents:
                    hint = nearest(parent, self.parents)
                    raise InvalidInput(f"BayesianNetwork: {name!r} has an unknown parent {parent!r}{hint}")
            if len(set(given)) < len(given):
                raise InvalidInput(f"BayesianNetwork: {name!r} names a parent twice; each parent stands once")
        self.children: dict[str, list[str]] = {name: [] for name in self.parents}
        for name, given in self.parents.items():
            for parent in given:
                self.children[parent].append(name)
        self.order = self._sorted()

    def _sorted(self) -> list[str]:
        """Parents before children, otherwise as given (Kahn, 1962)."""
        waiting = {name: len(given) for name, given in self.parents.items()}
        ready = [name for name, count in waiting.items() if count == 0]
        order = []
        while ready:
            name = ready.pop(0)
            order.append(name)
            for child in self.children[name]:
                waiting[child] -= 1
                if waiting[child] == 0:
                    ready.append(child)
        if len(order) < len(self.parents):
            raise InvalidInput(
                f"BayesianNetwork: the parents go round in a circle, {' -> '.join(self._cycle())}; "
                "a network has no directed cycles"
            )
        return order

    def _cycle(self) -> list[str]:
        """One directed cycle, by walking from child to parent among those that never became ready."""
        left = set(self.parents)
        while True:
            free = {name for name in left if not left.intersection(self.parents[name])}
            if not free:
                break
            left -= free
        path = [next(name for name in self.parents if name in left)]
        while path[-1] not in path[:-1]:
            path.append(next(parent for parent in self.parents[path[-1]] if parent in left))
        return path[path.index(path[-1]) :][::-1]

    def known(self, names: Iterable[str], where: str) -> list[str]:
        """The names as a list, each of which the network has."""
        listed = [names] if isinstance(names, str) else list(names)
        for name in listed:
            if name not in self.parents:
                raise InvalidInput(f"{where}: there is no variable {name!r}{nearest(str(name), self.parents)}")
        return listed

    def ancestors(self, names: Iterable[str]) -> set[str]:
        """The names and everything upstream of them."""
        found, open_ = set(), list(names)
        while open_:
            name = open_.pop()
            if name not in found:
                found.add(name)
                open_.extend(self.parents[name])
        return found

    def blanket(self, name: str) -> set[str]:
        """Parents, children and the children's other parents: given these, nothing else matters."""
        around = {*self.parents[name], *self.children[name]}
        for child in self.children[name]:
            around.update(self.parents[child])
        return around - {name}

    def separated(self, first: Iterable[str], second: Iterable[str], given: Iterable[str] = ()) -> bool:
        """Whether every path between two sets is blocked by a third (Shachter, 1998).

        A ball walks from ``first``: through chains and forks that are not observed, and through meeting arrows
        only if something at or below them is observed.
        """
        seen, target = set(given), set(second)
        upstream = self.ancestors(seen)
        visited: set[tuple[str, bool]] = set()
        walk = [(name, True) for name in first if name not in seen]  # True: arrived from a child
        while walk:
            here = walk.pop()
            if here in visited:
                continue
            visited.add(here)
            name, from_child = here
            if name not in seen and name in target:
                return False
            walk.extend(self._next(name, from_child, seen, upstream))
        return True

    def _next(self, name: str, from_child: bool, seen: set[str], upstream: set[str]) -> list[tuple[str, bool]]:
        up = [(parent, True) for parent in self.parents[name]]
        down = [(child, False) for child in self.children[name]]
        if from_child:
            return [] if name in seen else up + down
        return (up if name in upstream else []) + ([] if name in seen else down)

    def layers(self) -> list[list[str]]:
        """Names by the length of the longest path that leads to them."""
        depth: dict[str, int] = {}
        for name in self.order:
            depth[name] = 1 + max((depth[parent] for parent in self.parents[name]), default=-1)
        rows: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
        for name in self.order:
            rows[depth[name]].append(name)
        return rows
