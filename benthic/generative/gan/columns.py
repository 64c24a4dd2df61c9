"""Tables of mixed types as the numbers that adversarial networks make: modes, states, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import from_numpy
from benthic.base.errors import InvalidInput
from benthic.base.schema import Schema
from benthic.base.seeds import derive, seed_of
from benthic.base.settings import is_whole, whole
from benthic.generative.gan.columns_layer import ColumnActivation
from benthic.generative.gan.columns_parts import Part, decode_part, encode_part, learn_part


class ColumnCode:
    r"""Rows of a table as codes for a generator and a critic, and back.

    A number becomes the mode it belongs to, as zeros and a one, and its place in it,

    .. math:: \alpha = (x - \mu_k) / \sigma_k,

    with modes from a mixture of Gaussians whose size is chosen by BIC (mode-specific normalization; Xu et al., 2019,
    CTGAN, who divide by four times as much, with which a critic sees the width of modes too late). A category or truth
    value becomes zeros and a one. Where values were missing, to be missing is one more state. Whole numbers come back
    rounded. Unlike in CTGAN places are not cut off, so coding loses nothing: the activation reaches as far as the data
    did.

    max_modes: of a column of numbers. temperature: of the states that ``activate`` draws. random_state: of the start
    of mixtures.

    >>> rows = np.array([[0.1, 1.0], [9.9, 0.0], [0.2, 1.0], [10.1, np.nan]] * 5)
    >>> code = ColumnCode(max_modes=2).fit(rows)
    >>> matrix = code.encode(rows)
    >>> matrix.shape  # two modes and a place; two modes, missing, and a place
    (20, 7)
    >>> bool(np.allclose(code.decode(matrix), rows, equal_nan=True))
    True
    """

    def __init__(self, max_modes: int = 8, *, temperature: float = 0.2, random_state: Any = 0) -> None:
        self.max_modes, self.temperature, self.random_state = max_modes, temperature, random_state
        self.parts: tuple[Part, ...] = ()
        self._layers: dict[torch.device, ColumnActivation] = {}

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, rows: Any, schema: Schema | None = None) -> Self:
        """Learn the modes and states of rows (n, d), NaN for missing values.

        schema: what the columns are, whose ``encode`` made the rows; without it all are numbers. A frame may be
        given instead of rows, and is then read by its schema.
        """
        whole("ColumnCode: max_modes", self.max_modes)
        if not self.temperature > 0:
            raise InvalidInput(f"ColumnCode: temperature is {self.temperature!r}; it must be positive, such as 0.2")
        table, schema = _read(rows, schema)
        if not len(table):
            raise InvalidInput("ColumnCode.fit: there are no rows")
        if np.isinf(table).any():
            raise InvalidInput("ColumnCode.fit: rows have infinite values; replace them by NaN or by large numbers")
        seed = seed_of(self.random_state)
        laid = _layout(schema, table.shape[1])
        self.parts = tuple(
            learn_part(part, table[:, part.start : part.start + part.width], self.max_modes, derive(seed, i))
            for i, part in enumerate(laid)
        )
        self._layers = {}
        return self

    # -- shape -----------------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """The number of columns of a code."""
        return sum(part.code_width for part in self.parts)

    @property
    def row_width(self) -> int:
        """The number of columns of a row."""
        return sum(part.width for part in self.parts)

    @property
    def slices(self) -> tuple[slice, ...]:
        """For every column of the table its columns in the code: the states, then the place of a number."""
        ends = np.cumsum([part.code_width for part in self.parts]).tolist()
        return tuple(slice(start, end) for start, end in zip([0, *ends], ends, strict=False))

    @property
    def names(self) -> tuple[str, ...]:
        """What every column of a code says."""
        found: list[str] = []
        for part in self.parts:
            if part.states:
                found += [f"{part.name}#{i}" for i in range(part.values)] + [f"{part.name}#missing"] * part.missing
            found += [] if part.discrete else [part.name]
        return tuple(found)

    def __str__(self) -> str:
        """What the columns became, in one line."""
        words = {"boolean": "truth values", "category": "categories"}
        return ", ".join(
            f"{part.name}: {part.values} {words.get(part.kind, 'modes')}" + (" or missing" if part.missing else "")
            for part in self.parts
        )

    # -- there and back ----------------------------------------------------------------------------------

    def encode(self, rows: Any, generator: torch.Generator | None = None) -> Any:
        """The codes (n, width) of rows (n, d), an array for an array and a tensor on its device for a tensor.

        generator: draws the mode of a number by its probability, as CTGAN does; without it the likeliest is taken.
        Either way ``decode`` gives the rows back.
        """
        self._check_fitted("encode")
        table = rows.detach() if isinstance(rows, Tensor) else from_numpy(np.asarray(rows))
        if table.ndim != 2 or table.shape[1] != self.row_width:
            raise InvalidInput(
                f"ColumnCode.encode: rows have shape {tuple(table.shape)}; it was fitted to (n, {self.row_width})"
            )
        wide = table.double()
        if bool(wide.isinf().any()):
            raise InvalidInput("ColumnCode.encode: rows have infinite values; replace them by NaN or by large numbers")
        out = wide.new_zeros(len(wide), self.width)
        for part, where in zip(self.parts, self.slices, strict=True):
            encode_part(part, wide[:, part.start : part.start + part.width], out[:, where], generator)
        return _like(out, rows, table.dtype)

    def decode(self, matrix: Any) -> Any:
        """The rows (n, d) that codes (n, width) stand for: of states the largest entry counts; missing is NaN."""
        self._check_fitted("decode")
        codes = matrix.detach() if isinstance(matrix, Tensor) else from_numpy(np.asarray(matrix))
        if codes.ndim != 2 or codes.shape[1] != self.width:
            raise InvalidInput(
                f"ColumnCode.decode: codes have shape {tuple(codes.shape)}; (n, {self.width}) are needed"
            )
        wide = codes.double()
        out = wide.new_empty(len(wide), self.row_width)
        for part, where in zip(self.parts, self.slices, strict=True):
            decode_part(part, wide[:, where], out[:, part.start : part.start + part.width])
        return _like(out, matrix, codes.dtype)

    # -- for networks ------------------------------------------------------------------------------------

    def layer(self) -> ColumnActivation:
        """The last layer of a generator, as a module of its own."""
        self._check_fitted("layer")
        numbers: list[int] = []
        blocks: list[tuple[int, int]] = []
        asked: list[int] = []
        log_shares: list[np.ndarray] = []
        for part, where in zip(self.parts, self.slices, strict=True):
            if part.discrete and part.states:
                asked.append(len(blocks))
                log_shares.append(np.log(np.log1p(part.shares) / np.log1p(part.shares).sum() + 1e-300))
            if part.states:
                blocks.append((where.start, where.start + part.states))
            if not part.discrete:
                numbers.append(where.stop - 1)
        bounds = [part.bound for part in self.parts if not part.discrete]
        return ColumnActivation(numbers, bounds, blocks, self.temperature, asked, log_shares)

    def activate(self, logits: Tensor, hard: bool = False) -> Tensor:
        """Codes (n, width) from outputs without bounds (n, width), differentiable; see ``ColumnActivation``."""
        if logits.device not in self._layers:
            self._layers[logits.device] = self.layer().to(logits.device)
        return self._layers[logits.device](logits, hard)

    # -- model files ---------------------------------------------------------------------------------------

    def to_tree(self) -> dict[str, Any]:
        """Plain values from which ``from_tree`` rebuilds it."""
        return {
            "max_modes": self.max_modes,
            "temperature": self.temperature,
            "random_state": self.random_state if is_whole(self.random_state) else None,
            "names": tuple(part.name for part in self.parts),
            "kinds": tuple(part.kind for part in self.parts),
            "missing": tuple(part.missing for part in self.parts),
            **{
                name: np.array([getattr(part, name) for part in self.parts], dtype=dtype)
                for name, dtype in (("start", np.int64), ("width", np.int64), ("bound", np.float64))
            },
            **{
                name: tuple(getattr(part, name) for part in self.parts)
                for name in ("weights", "means", "spreads", "shares")
            },
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> ColumnCode:
        """The code that ``to_tree`` described."""
        made = cls(tree["max_modes"], temperature=tree["temperature"], random_state=tree["random_state"])
        made.parts = tuple(
            Part(
                name,
                kind,
                int(tree["start"][i]),
                int(tree["width"][i]),
                bool(tree["missing"][i]),
                float(tree["bound"][i]),
                *(np.asarray(tree[part][i]) for part in ("weights", "means", "spreads", "shares")),
            )
            for i, (name, kind) in enumerate(zip(tree["names"], tree["kinds"], strict=True))
        )
        return made

    def _check_fitted(self, where: str) -> None:
        if not self.parts:
            raise InvalidInput(f"ColumnCode.{where}: it has not seen any rows yet; call fit(rows, schema) first")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_layers": {}}  # made again where needed


def _read(rows: Any, schema: Schema | None) -> tuple[np.ndarray, Schema | None]:
    from benthic.base.frames import is_frame

    if is_frame(rows):
        schema = schema or Schema.infer(rows)
        return schema.encode(rows), schema
    table = rows.detach().double().cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows, dtype=np.float64)
    if table.ndim != 2:
        raise InvalidInput(f"ColumnCode.fit: rows have shape {table.shape}; a table (n, d) is needed")
    if schema is not None and schema.width != table.shape[1]:
        raise InvalidInput(
            f"ColumnCode.fit: rows have {table.shape[1]} columns, but the schema makes {schema.width}; "
            "pass what schema.encode gives"
        )
    return table, schema


def _layout(schema: Schema | None, width: int) -> list[Part]:
    """The columns before anything is known of their values; dates are numbers, days."""
    if schema is None:
        return [Part(f"x{i}", "number", i, 1, False) for i in range(width)]
    kinds = {"date": "number"}
    return [
        Part(str(column.name), kinds.get(column.kind, column.kind), group.start, group.stop - group.start, False)
        for column, group in zip(schema.columns, schema.groups, strict=True)
    ]


def _like(values: Tensor, given: Any, dtype: torch.dtype) -> Any:
    """In the floating type of what was given, and as an array if that was one."""
    out = values.to(dtype) if dtype.is_floating_point else values
    return out if isinstance(given, Tensor) else out.numpy()
