"""Conditions on the command line: the columns a model is told when it learns and is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.catalogue import Entry, catalogue
from benthic.base.errors import InvalidInput
from benthic.base.schema import is_frame
from benthic.cli.failure import Usage
from benthic.cli.inputs import Inputs, columns_for, open_data
from benthic.data.bundled import names
from benthic.data.source import column_index
from benthic.data.tables import check_columns, target_array
from benthic.leaderboard.contest.joining import are_classes
from benthic.metrics.judging import answers_of

Column = str | int


def takers(kind: str | None = None) -> str:
    """The models that learn with a condition, of one kind or any, as a list of words."""
    return ", ".join(e.name for e in catalogue().values() if (kind in e.given if kind else e.given))


# -- what is asked for -----------------------------------------------------------------------------------


def check(entry: Entry, given: Sequence[str], target: str | None, params: Mapping[str, Any]) -> None:
    """Refuse conditions that the model cannot take, before the data are read."""
    if not given:
        return
    if not entry.given:
        raise Usage(f"{entry.name} does not learn with a condition, so there is no --given; {takers()} do")
    if target is not None and list(given) != [target]:
        raise Usage(
            f"--target {target} and --given {given[0]} differ, but {entry.name} learns one thing beside each row; "
            "leave out --target, and the columns it must not see with --drop"
        )
    if len(given) > 1 and "vectors" not in entry.given:
        raise Usage(
            f"{entry.name} is told one label a row, so --given names one column; {takers('vectors')} take several"
        )
    if _place(params).get("condition") == "none":
        raise Usage("--given names a condition, and --set condition=none wants none of it; leave one of them out")


def check_told(model: Any, given: Sequence[str]) -> None:
    """Refuse a condition for a fitted model that knows none."""
    kind = type(model).__name__
    if given and not hasattr(model, "condition_"):
        raise Usage(f"{kind} does not learn with a condition, so there is no --given; {takers()} do")
    if given and not model.condition_.told:
        raise Usage(f"this {kind} was fitted without a condition; fit it with: benthic fit {kind} DATA --given COL")


def _place(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that hold ``condition``: the model's, or those of the model of its codes."""
    inner = params.get("diffusion")
    return inner if isinstance(inner, Mapping) else params


def kind_said(params: Mapping[str, Any]) -> str:
    """The kind of condition that the settings name, ``labels`` or ``vectors``; nothing where the data decide.

    >>> kind_said({"condition": "labels"}), kind_said({"diffusion": {"condition": "vectors"}}), kind_said({})
    ('labels', 'vectors', '')
    """
    kind = _place(params).get("condition")
    return str(kind) if kind in ("labels", "vectors") else ""


# -- rows and their condition ----------------------------------------------------------------------------


def open_given(data: str, given: Sequence[Column], drop: Sequence[Any], *, stream: bool | None = None) -> Inputs:
    """The data with the condition of each row as ``y``: one column, or several as vectors (n, k)."""
    if len(given) == 1:
        return open_data(data, given[0], drop, stream=stream)
    if len(set(map(str, given))) < len(given):
        raise Usage(f"--given names {given[0]!r} twice; name each column once")
    found = open_data(data, None, drop, stream=stream)
    if found.streamed:
        raise Usage("a streamed file gives one column; use --no-stream for several, or one --given")
    return cut(found, given)


def cut(found: Inputs, given: Sequence[Column]) -> Inputs:
    """Rows in memory, with these columns taken out of them and put together as vectors."""
    if is_frame(found.X):
        return replace(found, X=_others(found.X, given, found.name), y=_numbers(found, given), target=None)
    own = [str(found.target)] if found.target is not None and found.y is not None else []
    named = list(found.columns)
    width, parts, taken = found.X.shape[1] if found.X.ndim == 2 else 0, [], []
    for name in given:
        if str(name) in own and found.y is not None:
            parts.append(np.asarray(found.y, dtype=np.float64))
            continue
        if named:
            check_columns([*named, *own], name, (), found.name)
        taken.append(named.index(str(name)) if named else column_index(name, width, found.name))
        parts.append(found.X[:, taken[-1]])
    kept = [j for j in range(width) if j not in taken]
    if not kept:
        raise InvalidInput(f"no column of {found.name} is left to learn from; name fewer with --given")
    columns = tuple(named[j] for j in kept) if named else ()
    return replace(found, X=found.X[:, kept], y=np.column_stack(parts), target=None, columns=columns, classes=())


def _others(table: Any, given: Sequence[Column], name: str) -> Any:
    check_columns(table.column_names, None, given, name)
    kept = [column for column in table.column_names if column not in set(map(str, given))]
    if not kept:
        raise InvalidInput(f"no column of {name} is left to learn from; name fewer with --given")
    return table.select(kept)


def _numbers(found: Inputs, given: Sequence[Column]) -> np.ndarray:
    """Columns of a table as vectors (n, k)."""
    parts = []
    for name in given:
        values = target_array(found.X.column(str(name)), str(name))
        if values.dtype.kind not in "biuf":
            raise Usage(f"several columns given are a vector of numbers, but {name!r} is not one; give it alone")
        parts.append(values.astype(np.float64))
    return np.column_stack(parts)


def rows_given(model: Any, data: str, given: Sequence[Column], drop: Sequence[Any]) -> Inputs:
    """Data for a fitted model with the condition of each row as ``y``, which is None where the data lack it."""
    if data in names() or not Path(data).exists():
        found = open_data(data, None, drop)
        there = bool(given) and set(map(str, given)) <= {*found.columns, str(found.target)}
        return open_given(data, given, drop) if there else replace(found, y=None)
    found = open_data(data, stream=False)
    if is_frame(found.X):
        there = bool(given) and set(map(str, given)) <= set(found.X.column_names)
        y = None
        if there:
            name = str(given[0])
            y = _numbers(found, given) if len(given) > 1 else np.array(target_array(found.X.column(name), name))
        return replace(columns_for(model, found, None, False), y=y, target=None)
    if not given or list(given) == [found.target]:
        return found
    if found.X.ndim == 2 and found.X.shape[1] == getattr(model, "n_features_in_", None):
        return replace(found, y=None)  # every column is one that it learned
    return open_given(data, given, drop, stream=False)


# -- what the condition is -------------------------------------------------------------------------------


def settle(entry: Entry, params: dict[str, Any], said: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    """The parameters with the kind of condition that the data have, unless the person said one."""
    if _place(said).get("condition", "auto") != "auto":
        return params
    kind = _kind(entry, inputs)
    if "condition" in params:
        return {**params, "condition": kind}
    if "diffusion" in params:  # a model of codes hands the condition to the model within
        return {**params, "diffusion": {**(params["diffusion"] or {}), "condition": kind}}
    return params


def _kind(entry: Entry, inputs: Inputs) -> str:
    """Words, truth values and few different whole numbers are labels; other numbers are vectors."""
    values = inputs.X.target_values() if inputs.streamed else inputs.y
    if values is None:
        raise Usage(f"{inputs.name} has no column to be given; name one of a table with --given COL")
    if values.dtype.kind not in "OUSbiuf":
        raise Usage(f"{inputs.target!r} holds {values.dtype}; a condition is labels or numbers")
    if values.ndim == 1 and are_classes(values):
        return "labels"
    if "vectors" in entry.given:
        return "vectors"
    if values.ndim > 1 or not bool((values == np.round(values)).all()):
        raise Usage(
            f"{entry.name} is told labels, but {inputs.target!r} holds numbers with fractions; {takers('vectors')} "
            "take numbers"
        )
    return "labels"


@dataclass(frozen=True)
class Basis:
    """What the numbers of a model rest on. columns: given which rows were judged. words: the same for a person."""

    columns: tuple[Column, ...] = ()
    words: str = ""


def basis(model: Any, columns: Sequence[Column], known: bool = True) -> Basis:
    """How a model that was told these columns is judged on rows whose condition is known, or is not."""
    told = getattr(model, "condition_", None)
    if told is None or not told.told or answers_of(model) is not None:
        return Basis()  # there is none, or it is what the model is asked for
    named = ", ".join(map(str, columns)) or "the condition"
    if not hasattr(model, "likelihood"):
        return Basis((), f"; {named} plays no part in these numbers")
    if known:
        return Basis(tuple(columns), f", given {named}")
    return Basis((), f", whatever {named} may be")
