"""One column of a table: its kind, and how it becomes numbers and comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput
from benthic.base.frames import arrow_type

KINDS = ("number", "integer", "boolean", "category", "date", "text")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# days of the years 1 to 9999, which every library can print
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


@dataclass(frozen=True)
class Column:
    """A column that a model can learn from.

    kind: ``number``, ``integer``, ``boolean``, ``category`` or ``date`` (times and durations too).
    dtype: its type as the frame's own library spells it. arrow: the same as an Arrow type.
    categories: the values of a category, in order. origin, step: of a date, the first one and the
    resolution, both in ticks of the Arrow type; a date becomes days since its origin.
    """

    name: Any
    kind: str
    dtype: str
    arrow: str
    categories: tuple[Any, ...] = ()
    origin: int = 0
    step: int = 1
    width: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", len(self.categories) if self.kind == "category" else 1)

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The name of every number this column becomes."""
        if self.kind != "category":
            return (str(self.name),)
        return tuple(f"{self.name}={value}" for value in self.categories)

    def encode(self, array: Any, out: np.ndarray) -> None:
        """Write an Arrow array as numbers into ``out`` (n, width); null becomes NaN."""
        import pyarrow as pa

        if pa.types.is_null(array.type):
            out[:] = np.nan
        elif self.kind == "category":
            self._encode_category(array, out)
        elif self.kind == "date":
            self._encode_date(array, out)
        else:
            self._encode_number(array, out)

    def decode(self, block: np.ndarray) -> Any:
        """An Arrow array from numbers (n, width); NaN becomes null."""
        nan = np.isnan(block).any(axis=1)
        missing = nan if nan.any() else None
        if missing is not None:
            block = np.where(missing[:, None], 0.0, block)
        if self.kind == "category":
            return self._decode_category(block, missing)
        if self.kind == "date":
            return self._decode_date(block[:, 0], missing)
        return self._decode_number(block[:, 0], missing)

    # ------------------------------------------------------------------------------------ numbers

    def _encode_number(self, array: Any, out: np.ndarray) -> None:
        import pyarrow as pa

        t = array.type
        is_number = pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)
        if not (is_number or pa.types.is_boolean(t)):
            raise self._mismatch(array)
        out[:, 0] = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)

    def _decode_number(self, values: np.ndarray, missing: np.ndarray | None) -> Any:
        import pyarrow as pa

        target = arrow_type(self.arrow)
        if self.kind == "boolean":
            return pa.array(values >= 0.5, mask=missing).cast(target)
        if self.kind == "integer":
            values = np.rint(values)
        if pa.types.is_integer(target):
            dtype = np.dtype(target.to_pandas_dtype())
            bounds = np.iinfo(dtype)
            values = np.clip(values, *_floats_inside(int(bounds.min), int(bounds.max))).astype(dtype)
        elif pa.types.is_decimal(target):
            limit = 10.0 ** (target.precision - target.scale) * (1 - 1e-15) - 10.0**-target.scale
            values = np.clip(values, -limit, limit)
        elif pa.types.is_floating(target):
            with np.errstate(over="ignore"):
                values = values.astype(target.to_pandas_dtype())
        return pa.array(values, mask=missing).cast(target)

    # --------------------------------------------------------------------------------- categories

    def _value_set(self) -> Any:
        """The categories as an Arrow array of the values' type."""
        import pyarrow as pa

        target = arrow_type(self.arrow)
        target = target.value_type if pa.types.is_dictionary(target) else target
        # Arrow has no look-up for views of strings
        return pa.array(self.categories, pa.large_string() if pa.types.is_string_view(target) else target)

    def _encode_category(self, array: Any, out: np.ndarray) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        known = self._value_set()
        indices = None
        if pa.types.is_dictionary(array.type):
            array, indices = array.dictionary, array.indices
        if array.type != known.type:
            try:
                array = array.cast(known.type)
            except pa.ArrowException as error:
                raise self._mismatch(array) from error
        codes = pc.index_in(array, value_set=known, skip_nulls=True)
        codes = codes if indices is None else codes.take(indices)
        values = array if indices is None else array.take(indices)
        codes = codes.fill_null(-1).to_numpy(zero_copy_only=False)
        missing = codes < 0
        out[:] = 0.0
        out[np.arange(len(codes)), codes] = 1.0
        if missing.any():
            unknown = missing & values.is_valid().to_numpy(zero_copy_only=False)
            if unknown.any():
                raise self._unknown(values[int(np.argmax(unknown))].as_py())
            out[missing] = np.nan

    def _decode_category(self, block: np.ndarray, missing: np.ndarray | None) -> Any:
        import pyarrow as pa

        codes = np.argmax(block, axis=1)
        target = arrow_type(self.arrow)
        if pa.types.is_dictionary(target):
            indices = pa.array(codes, mask=missing).cast(target.index_type)
            values = self._value_set().cast(target.value_type)
            return pa.DictionaryArray.from_arrays(indices, values, ordered=target.ordered)
        return self._value_set().take(pa.array(codes, mask=missing)).cast(target)

    def _unknown(self, value: Any) -> InvalidInput:
        known = ", ".join(map(repr, self.categories[:8])) + (", ..." if len(self.categories) > 8 else "")
        return InvalidInput(
            f"Schema.encode: column {self.name!r} holds {value!r}, which is not among its "
            f"{len(self.categories)} categories ({known}); replace it by one of them or by "
            "a missing value, or fit again with it"
        )

    # -------------------------------------------------------------------------------------- dates

    def _encode_date(self, array: Any, out: np.ndarray) -> None:
        import pyarrow as pa

        if not pa.types.is_temporal(array.type):
            raise self._mismatch(array)
        target = arrow_type(self.arrow)
        if array.type != target:
            try:
                array = array.cast(target, safe=False)
            except pa.ArrowException as error:
                raise self._mismatch(array) from error
        counted = ticks(array).fill_null(0).to_numpy(zero_copy_only=False)
        out[:, 0] = (counted - self.origin) / ticks_per_day(target)
        if array.null_count:
            out[array.is_null().to_numpy(zero_copy_only=False), 0] = np.nan

    def _decode_date(self, values: np.ndarray, missing: np.ndarray | None) -> Any:
        import pyarrow as pa

        target = arrow_type(self.arrow)
        per_day = ticks_per_day(target)
        low, high = _FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day - 1
        if pa.types.is_time(target):
            low, high = 0, per_day - 1
        # clip in steps from the origin, so that dates keep to the grid of the data
        low, high = max(low, -(2**63) + 1), min(high, 2**63 - 1)
        least, most = -((self.origin - low) // self.step), (high - self.origin) // self.step
        steps = np.clip(np.rint(values * (per_day / self.step)), *_floats_inside(least, most))
        counted = steps.astype(np.int64) * self.step + self.origin
        narrow = target.bit_width == 32
        return pa.array(counted.astype(np.int32 if narrow else np.int64), mask=missing).cast(target)

    def _mismatch(self, array: Any) -> InvalidInput:
        example = next((value for value in array.to_pylist() if value is not None), None)
        return InvalidInput(
            f"Schema.encode: column {self.name!r} holds {example!r} of type {array.type}, but was learned as "
            f"{'a ' if self.kind in ('number', 'date', 'boolean', 'category') else 'an '}{self.kind}; "
            "convert the column to that, or fit again"
        )


def _floats_inside(low: int, high: int) -> tuple[float, float]:
    """The outermost floats that lie in [low, high] and in the range of a 64-bit integer."""
    least, most = float(max(low, -(2**63))), float(min(high, 2**64 - 1))
    least = least if int(least) >= low else float(np.nextafter(least, np.inf))
    return least, most if int(most) <= high else float(np.nextafter(most, -np.inf))


def ticks(array: Any) -> Any:
    """The integers behind a temporal Arrow array, as int64."""
    import pyarrow as pa

    narrow = array.type.bit_width == 32
    return array.cast(pa.int32()).cast(pa.int64()) if narrow else array.cast(pa.int64())


def ticks_per_day(target: Any) -> int:
    """How many ticks of a temporal Arrow type make a day."""
    import pyarrow as pa

    if pa.types.is_date32(target):
        return 1
    unit = "ms" if pa.types.is_date64(target) else target.unit
    return 86_400 * _PER_SECOND[unit]


def resolution(elapsed: np.ndarray, per_day: int) -> int:
    """The coarsest natural step (day, hour, minute, second, ...) on which all of ``elapsed`` lies, in ticks.

    >>> resolution(np.array([0, 7200, 86400]), 86400)
    3600
    """
    for per in (1, 24, 1440, 86_400, 86_400 * 10**3, 86_400 * 10**6):
        step, rest = divmod(per_day, per)
        if rest == 0 and not (elapsed % step).any():
            return step
    return 1
