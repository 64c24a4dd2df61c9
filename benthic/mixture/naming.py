"""Which law the columns of a table follow: by name, column by column, or guessed from the table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benthic.base.errors import InvalidInput, nearest
from benthic.base.schema import Schema
from benthic.distributions.exponential import Family
from benthic.distributions.families import NAMED, family_of
from benthic.mixture.law import Law, Parameters
from benthic.mixture.law_categories import CategoricalLaw
from benthic.mixture.law_directions import DirectionLaw
from benthic.mixture.law_elliptical import EllipticalLaw
from benthic.mixture.law_families import FamilyLaw
from benthic.mixture.law_student import StudentLaw

VECTORS = ("normal", "t", "von_mises_fisher")  # laws of several columns together
COLUMNS = ("t", "categorical", *NAMED)  # laws of one column
_MOST_COUNT = 1000  # a column of larger whole numbers is measured, not counted


class Variable(NamedTuple):
    """One column of the table: what it is called, its kind, and its encoded columns."""

    name: Any
    kind: str
    columns: list[int]


def variables_of(schema: Schema | None, names: Sequence[Any] | None, width: int) -> list[Variable]:
    """The variables of a frame, or the columns of an array as numbers."""
    if schema is None:
        labels = list(range(width)) if names is None else list(names)
        return [Variable(label, "number", [c]) for c, label in enumerate(labels)]
    groups = [list(range(group.start, group.stop)) for group in schema.groups]
    return [Variable(c.name, c.kind, group) for c, group in zip(schema.columns, groups, strict=True)]


@dataclass
class _Plan:
    """Columns gathered by law; vectors are (law, columns) each."""

    families: list[tuple[int, Family]] = field(default_factory=list)
    student: list[int] = field(default_factory=list)
    coded: list[int] = field(default_factory=list)
    grouped: list[list[int]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # measured columns whose law was left open
    vectors: list[tuple[str, list[int]]] = field(default_factory=list)

    def laws(self, df: float | None) -> list[Law]:
        """One law for each kind of columns."""
        found: list[Law] = []
        vectors = [*self.vectors, *([("normal", self.numbers)] if self.numbers else [])]
        for name, columns in vectors:
            if name == "von_mises_fisher":
                found.append(DirectionLaw(columns))
            else:
                found.append(EllipticalLaw(columns, name, df))
        if self.student:
            found.append(StudentLaw(self.student, df))
        if self.families:
            found.append(FamilyLaw([c for c, _ in self.families], [family for _, family in self.families]))
        if self.grouped:
            found.append(CategoricalLaw([c for group in self.grouped for c in group], [len(g) for g in self.grouped]))
        if self.coded:
            found.append(CategoricalLaw(self.coded, coded=True))
        return found


def laws_of(setting: Any, variables: Sequence[Variable], X: Tensor, df: float | None) -> list[Law]:
    """The laws that ``components`` asks for, unsettled.

    setting: ``auto``, the name of a law, a list with one a column, or a dict from columns (or tuples of columns, for
    laws of vectors) to laws; see ``benthic.Mixture``. X: rows to guess from.
    """
    plan = _Plan()
    if isinstance(setting, Mapping):
        _by_name(plan, setting, variables, X)
    elif isinstance(setting, (list, tuple, np.ndarray)):
        if len(setting) != len(variables):
            raise InvalidInput(
                f"components lists {len(setting)} laws for {len(variables)} columns; give one, or one a column"
            )
        for variable, name in zip(variables, setting, strict=True):
            _column(plan, variable, name, X)
    elif isinstance(setting, str) and setting in VECTORS:
        others = [v for v in variables if v.kind != "category"]
        if others:
            plan.vectors.append((setting, [c for v in others for c in v.columns]))
        for variable in variables:
            if variable.kind == "category":
                plan.grouped.append(variable.columns)
    else:
        for variable in variables:
            _column(plan, variable, "auto" if variable.kind == "category" else setting, X)
    return plan.laws(df)


def check_setting(setting: Any) -> None:
    """Refuse names of laws that there are not."""
    if isinstance(setting, Mapping):
        for key, name in setting.items():
            known = VECTORS if isinstance(key, tuple) else (*COLUMNS, "auto")
            _known(name, known)
    elif isinstance(setting, (list, tuple, np.ndarray)):
        for name in setting:
            _known(name, (*COLUMNS, "auto"))
    else:
        _known(setting, ("auto", *dict.fromkeys((*VECTORS, *COLUMNS))))


def _known(name: Any, known: Sequence[str]) -> None:
    if isinstance(name, Family) or (isinstance(name, str) and name in known):
        return
    hint = nearest(name, known) if isinstance(name, str) else ""
    raise InvalidInput(f"components has the law {name!r}, which is unknown{hint}; use {', '.join(known)} or a Family")


def _by_name(plan: _Plan, setting: Mapping[Any, Any], variables: Sequence[Variable], X: Tensor) -> None:
    by_name: dict[Hashable, Variable] = {variable.name: variable for variable in variables}
    taken: set[Hashable] = set()

    def find(name: Any) -> Variable:
        if name not in by_name:
            known = [str(v.name) for v in variables]
            raise InvalidInput(f"components names column {name!r}, which X has not{nearest(str(name), known)}")
        if name in taken:
            raise InvalidInput(f"components names column {name!r} twice; a column has one law")
        taken.add(name)
        return by_name[name]

    for key, law in setting.items():
        if isinstance(key, tuple):
            members = [find(name) for name in key]
            category = next((v.name for v in members if v.kind == "category"), None)
            if category is not None:
                raise InvalidInput(f"components puts the category {category!r} into a vector; give it its own law")
            plan.vectors.append((law, [c for v in members for c in v.columns]))
        else:
            _column(plan, find(key), law, X)
    for variable in variables:
        if variable.name not in taken:
            _column(plan, variable, "auto", X)


def _column(plan: _Plan, variable: Variable, law: Any, X: Tensor) -> None:
    """Give one variable its law."""
    if variable.kind == "category":
        if law not in ("auto", "categorical"):
            raise InvalidInput(f"column {variable.name!r} holds categories, so its law is 'categorical', not {law!r}")
        plan.grouped.append(variable.columns)
        return
    (column,) = variable.columns
    if law == "auto":
        law = _guess(variable, X[:, column])
    if law == "number":
        plan.numbers.append(column)
    elif law == "t":
        plan.student.append(column)
    elif law == "categorical":
        plan.coded.append(column)
    else:
        plan.families.append((column, family_of(law)))


def _guess(variable: Variable, values: Tensor) -> str:
    """What a column looks like: yes or no, a count, or a measured number."""
    if variable.kind == "boolean":
        return "bernoulli"
    there = values[~torch.isnan(values)]
    if variable.kind == "integer" and len(there) and float(there.min()) >= 0 and float(there.max()) <= _MOST_COUNT:
        return "poisson"
    return "number"


# -- files -----------------------------------------------------------------------------------------------


def tree_of(law: Law, parameters: Parameters, kept: Callable[[Tensor], Any]) -> dict[str, Any]:
    """A law and its parameters as plain values."""
    tree = law.tree()
    tree["units"] = {name: kept(value) for name, value in tree["units"].items()}
    tree["parameters"] = {name: kept(value) for name, value in parameters.items()}
    if "families" in tree:
        known = {id(family): name for name, family in NAMED.items()}
        tree["families"] = [known.get(id(family), family) for family in tree["families"]]
    return tree


_MAKERS: dict[str, Callable[..., Law]] = {
    "families": lambda columns, families, units: FamilyLaw(columns, [family_of(f) for f in families], units),
    "student": StudentLaw,
    "elliptical": EllipticalLaw,
    "von_mises_fisher": DirectionLaw,
    "categorical": CategoricalLaw,
}


def law_of_tree(tree: Mapping[str, Any], device: torch.device | str = "cpu") -> tuple[Law, Parameters]:
    """The inverse of ``tree_of``."""
    rest = {name: value for name, value in tree.items() if name not in ("law", "parameters", "units")}
    units, parameters = (
        {name: torch.as_tensor(value).to(device, torch.float64) for name, value in tree[part].items()}
        for part in ("units", "parameters")
    )
    return _MAKERS[tree["law"]](**rest, units=units), parameters
