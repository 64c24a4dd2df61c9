"""What a column is: decided from its type, and where that does not suffice from its values, in one pass."""

from __future__ import annotations

from typing import Any

from benthic.base.columns import KINDS, Column, resolution, ticks, ticks_per_day
from benthic.base.errors import InvalidInput, nearest

# a column of strings is a set of labels only if at least one value in ten has been seen before
_DISTINCT_SHARE = 0.9


class Profile:
    """Gathers what is needed to know about one column, piece by piece.

    curious: whether more values are wanted. reason: why the column cannot be learned from, or empty.
    """

    def __init__(self, name: str, arrow_type: Any, kind: str | None, max_categories: int) -> None:
        if kind is not None and kind not in KINDS:
            raise InvalidInput(
                f"Schema.infer: kind {kind!r} of column {name!r} does not exist{nearest(kind, KINDS)}; "
                f"the kinds are {', '.join(KINDS)}"
            )
        self.name, self.type, self.reason = name, arrow_type, ""
        self._limit = max_categories
        self._declared = kind == "category" or _is_dictionary(arrow_type)
        self.kind = self._decide(kind)
        self.curious = self.kind in ("category", "date") and not self.reason
        self._values: dict[Any, None] = {}
        self._count = 0
        self._base: int | None = None
        self._origin, self._step = 0, 0

    def _decide(self, wanted: str | None) -> str:
        found = _kind_of(self.type)
        if wanted == "text" or (found == "text" and wanted is None):
            self.reason = "declared as text" if wanted else _why_not(self.type)
            return "text"
        labels = ("category", "number", "integer", "boolean")
        if _is_dictionary(self.type) and _kind_of(self.type.value_type) not in labels:
            raise InvalidInput(
                f"Schema.infer: the categories of column {self.name!r} are of type {self.type.value_type}; "
                "convert it with astype(str)"
            )
        allowed = wanted in (None, found) or (found in labels[1:] and wanted in labels)
        if not allowed:
            raise InvalidInput(
                f"Schema.infer: column {self.name!r} of type {self.type} cannot be read as kind {wanted!r}; "
                "convert the column first"
            )
        return wanted or found

    def look(self, array: Any) -> None:
        """Take note of an Arrow array of this column."""
        if self.kind == "date":
            self._look_at_dates(array)
        else:
            self._look_at_values(array)

    def _look_at_values(self, array: Any) -> None:
        self._count += len(array) - array.null_count
        distinct = array.dictionary if _is_dictionary(array.type) else array.unique()
        for value in distinct.to_pylist():
            if value is not None and value == value:
                self._values[value] = None
        # a declared category may have many values, but not so many that the matrix explodes
        if len(self._values) > (self._limit**2 if self._declared else self._limit):
            self._give_up(f"text with more than {len(self._values) - 1} distinct values")

    def _look_at_dates(self, array: Any) -> None:
        counted = ticks(array.drop_null()).to_numpy(zero_copy_only=False)
        if not len(counted):
            return
        earliest = int(counted.min())
        if self._base is None:
            self._base = self._origin = earliest
        step = resolution(counted - self._base, ticks_per_day(self.type))
        self._step = min(self._step, step) if self._step else step
        self._origin = min(self._origin, earliest)

    def close(self) -> None:
        """No more values come: settle what depends on all of them."""
        self.curious = False
        if self.kind != "category" or self.reason:
            return
        if not self._values:
            self._give_up("no value in any row")
        elif not self._declared and self._count > 1 and len(self._values) > _DISTINCT_SHARE * self._count:
            self._give_up(f"text: {len(self._values)} distinct values in {self._count} rows")

    def _give_up(self, reason: str) -> None:
        self.reason, self.curious = reason, False
        self._values = {}

    def column(self, label: Any, dtype: str) -> Column:
        """The column as it was found."""
        if self.kind == "category":
            ordered = _is_dictionary(self.type)
            values = tuple(self._values) if ordered else tuple(sorted(self._values))
            return Column(label, "category", dtype, str(self.type), values)
        if self.kind == "date":
            return Column(label, "date", dtype, str(self.type), origin=self._origin, step=self._step or 1)
        return Column(label, self.kind, dtype, str(self.type))


def _is_dictionary(arrow_type: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_dictionary(arrow_type))


def _why_not(arrow_type: Any) -> str:
    return "no value in any row" if str(arrow_type) == "null" else f"{arrow_type} values have no numeric form"


def _kind_of(arrow_type: Any) -> str:
    """The kind that a type suggests; strings count as categories until their values say otherwise."""
    from pyarrow import types

    tests = (
        (types.is_boolean, "boolean"),
        (types.is_integer, "integer"),
        (types.is_floating, "number"),
        (types.is_decimal, "number"),
        (types.is_temporal, "date"),
        (types.is_dictionary, "category"),
        (types.is_string, "category"),
        (types.is_large_string, "category"),
        (types.is_string_view, "category"),
    )
    return next((kind for test, kind in tests if test(arrow_type)), "text")
