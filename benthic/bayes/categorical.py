"""Naive Bayes with features that are one of a few categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.settings import whole
from benthic.bayes.estimator import _CountingBayes
from benthic.bayes.generative import DrawsRows, HasMass
from benthic.bayes.tally import Sums, Tally, members
from benthic.data.batch import Batch
from benthic.training.intake import Intake

_LENGTHS = 24  # binary digits of the largest code
_SAMPLE = 100_000  # rows of a file that bins are made from
_BINS = 8  # where columns that hold no codes are cut without being asked
_UNSEEN = ("smooth", "error")


class CategoricalNB(DrawsRows, HasMass, _CountingBayes):
    r"""Classes with independent categories.

    .. math:: p(x_j = v \mid c) = \frac{n_{cjv} + \alpha}{N_{cj} + \alpha K_j}

    K is the number of categories of the feature. Category columns of a frame are taken as they are, and a value
    that ``fit`` did not see is refused by name; elsewhere a feature holds codes 0, 1, 2, …, and K is the largest
    plus one, as in scikit-learn, or it is cut into bins. Missing values (NaN) are passed over.

    alpha: what is added to every count; 0 is taken as 1e-10. min_categories: least K, one number or one for each
    feature. bins: cut columns of numbers at their quantiles into so many categories (of the rows that ``fit``, or
    the first ``partial_fit``, sees); ``"auto"`` cuts those that do not hold codes into 8; None expects codes.
    unseen: what a code above those of ``fit`` is: ``"smooth"``, a category with no counts, or ``"error"``.
    fit_prior, class_prior: as in ``MultinomialNB``.
    trainer: device and block size (``Trainer``).

    category_count_: for each feature (k, K). feature_log_prob_: for each feature (k, K) log-probabilities.
    n_categories_: (features,) K. class_count_, class_log_prior_: (k,). bin_edges_: for each feature, or None; with
    bins, ``log_prob`` is that of the bins, and ``sample`` draws a number evenly within its bin.

    >>> X = np.array([[0, 1], [0, 0], [1, 2], [1, 1]])
    >>> CategoricalNB().fit(X, ["a", "a", "b", "b"]).predict([[0, 2], [1, 7]]).tolist()
    ['a', 'b']
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_prior: bool = True,
        class_prior: Any = None,
        min_categories: Any = None,
        bins: int | str | None = "auto",
        unseen: str = "smooth",
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.alpha = alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.min_categories = min_categories
        self.bins = bins
        self.unseen = unseen
        self.random_state = random_state
        self.trainer = trainer

    # -- from rows to codes ------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        super()._check_settings()
        if np.ndim(self.alpha) != 0:
            raise InvalidInput(f"alpha is {self.alpha!r}; it must be one number >= 0")
        if self.unseen not in _UNSEEN:
            raise InvalidInput(f"unseen is {self.unseen!r}; use 'smooth' or 'error'")
        if self.bins != "auto":
            whole("bins", self.bins, 2, optional=True)
        least = np.asarray(0 if self.min_categories is None else self.min_categories)
        if least.dtype.kind not in "iu" or least.ndim > 1 or (least < 0).any():
            raise InvalidInput(
                f"min_categories is {self.min_categories!r}; it must be whole numbers, one or one a feature"
            )

    def _columns(self, X: Tensor) -> Tensor:
        """One column a feature (n, m): a category column of a frame as codes, the others as they are."""
        schema = getattr(self, "schema_", None)
        if schema is None or schema.width == len(schema.columns):
            return X
        parts = []
        for column, group in zip(schema.columns, schema.groups, strict=True):
            block = X[:, group]
            if column.kind == "category":
                gone = torch.isnan(block).any(1)
                block = torch.where(gone, torch.nan, block.argmax(1).to(X))[:, None]
            parts.append(block)
        return torch.cat(parts, 1)

    def _cut(self, columns: Tensor) -> Tensor:
        """Codes (n, m), NaN where missing."""
        edges = getattr(self, "bin_edges_", None)
        if edges is None:
            return columns
        parts = []
        for j, edge in enumerate(edges):
            column = columns[:, j].contiguous()
            if edge is not None:
                codes = torch.bucketize(column, torch.as_tensor(edge).to(column)).to(column)
                column = torch.where(torch.isnan(column), torch.nan, codes)
            parts.append(column)
        return torch.stack(parts, 1)

    def _check_rows(self, X: Tensor) -> None:
        columns = self._columns(X)
        cut = [edge is not None for edge in self.bin_edges_ or [None] * columns.shape[1]]
        known = torch.where(torch.isnan(columns) | torch.tensor(cut, device=X.device), 0.0, columns)
        if bool((known < 0).any()):
            where = self._label(int((known < 0).any(0).nonzero()[0]))
            raise InvalidInput(
                f"Negative values in data passed to CategoricalNB (input X), the first in {where}; categories are "
                "codes 0, 1, 2, ...; use GaussianNB for numbers, or bins to cut them"
            )
        broken = ~_are_codes(known)
        if bool(broken.any()):
            where = self._label(int(broken.any(0).nonzero()[0]))
            raise InvalidInput(
                f"{where} has values that are not codes 0, 1, 2, ... below {2**_LENGTHS}; use GaussianNB for numbers, "
                "or bins to cut them into categories"
            )

    def _label(self, j: int) -> str:
        schema = getattr(self, "schema_", None)
        return f"column {j}" if schema is None else f"column {schema.columns[j].name!r}"

    def _look(self, intake: Intake) -> None:
        self._look_at(intake.data or intake.sample(_SAMPLE, 0))

    def _look_at(self, batch: Batch) -> None:
        self.bin_edges_ = self.bin_ends_ = None
        if self.bins is None:
            return
        columns = self._columns(batch.X)
        schema = getattr(self, "schema_", None)
        kinds = ["number"] * columns.shape[1] if schema is None else [column.kind for column in schema.columns]
        named = torch.tensor([kind in ("category", "boolean") for kind in kinds], device=columns.device)
        whole_numbers = (_are_codes(columns) | torch.isnan(columns)).all(0)
        bins, kept = (_BINS, named | whole_numbers) if self.bins == "auto" else (int(self.bins), named)
        self.bin_edges_ = [
            None if as_it_is else _quantiles(columns[:, j], batch.weight, bins)
            for j, as_it_is in enumerate(kept.tolist())
        ]
        self.bin_ends_ = [_ends(columns[:, j], batch.weight) for j in range(columns.shape[1])]

    # -- learning --------------------------------------------------------------------------------------

    def _tally(self, classes: int) -> Tally:
        def look(batch: Batch, sums: Mapping[str, Tensor]) -> Sums:
            member, codes = members(batch, classes), self._cut(self._columns(batch.X))
            counted = ~torch.isnan(codes) & (member.sum(1) > 0)[:, None]
            # a largest value does not add up over blocks, but how often each number of binary digits occurs does
            digits = torch.frexp(torch.where(counted, codes, 0.0).double())[1].long().clamp(0, _LENGTHS)  # (n, m)
            lengths = torch.nn.functional.one_hot(digits, _LENGTHS + 1) * counted[:, :, None]
            return {"class": member.sum(0), "lengths": lengths.sum(0).double()}

        def count(batch: Batch, sums: Mapping[str, Tensor]) -> Sums:
            sizes = _sizes(sums["lengths"])
            starts = np.concatenate([[0], np.cumsum(sizes)])
            member, codes = members(batch, classes), self._cut(self._columns(batch.X))
            total = torch.zeros(classes, int(starts[-1]), dtype=torch.float64, device=codes.device)
            for j, start in enumerate(starts[:-1].tolist()):
                rows = ~torch.isnan(codes[:, j])
                rows &= member.sum(1) > 0
                total.index_add_(1, codes[rows, j].long() + start, member[rows].T)
            return {"counts": total}

        return Tally((("look", look), ("count", count)))

    def _merge(self, old: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> dict[str, Tensor]:
        lengths = old["lengths"] + new["lengths"]
        sizes = _sizes(lengths)
        counts = sum(_resized(part["counts"], _sizes(part["lengths"]), sizes) for part in (old, new))
        return {"class": old["class"] + new["class"], "lengths": lengths, "counts": torch.as_tensor(counts)}

    def _finish(self, sums: Mapping[str, Tensor]) -> None:
        sizes = _sizes(sums["lengths"])
        least = np.broadcast_to(0 if self.min_categories is None else np.asarray(self.min_categories), len(sizes))
        alpha = float(self._smoothing(1)[0])
        self.category_count_, self.feature_log_prob_, self._rest = [], [], []
        for j, block in enumerate(sums["counts"].split(list(sizes), 1)):
            used = (block > 0).any(0).nonzero()
            size = max(int(used[-1]) + 1 if len(used) else 1, int(least[j]), self._declared(j))
            counts = _resized(block, (block.shape[1],), (size,))
            total = (counts.sum(1) + alpha * size).log()
            self.category_count_.append(counts.numpy().copy())
            self.feature_log_prob_.append(((counts + alpha).log() - total[:, None]).numpy())
            self._rest.append((np.log(alpha) - total).numpy())
        self.n_categories_ = np.array([table.shape[1] for table in self.feature_log_prob_])

    def _declared(self, j: int) -> int:
        """Categories that a frame's column declares, or that bins make."""
        edges = getattr(self, "bin_edges_", None)
        if edges is not None and edges[j] is not None:
            return len(edges[j]) + 1
        schema = getattr(self, "schema_", None)
        return len(schema.columns[j].categories) if schema is not None else 0

    # -- answers -----------------------------------------------------------------------------------------

    def _log_joint(self, X: Tensor) -> Tensor:
        codes = self._cut(self._columns(X))
        joint = self._table("class_log_prior_", X).expand(len(X), -1).clone()
        for j, (table, rest) in enumerate(zip(self.feature_log_prob_, self._rest, strict=True)):
            size, seen = table.shape[1], ~torch.isnan(codes[:, j])
            column = torch.where(seen, codes[:, j], 0.0).long()
            if self.unseen == "error" and bool((column >= size).any()):
                raise self._fail(
                    "predict", f"{self._label(j)} has the code {int(column.max())}, but fit saw 0 to {size - 1}"
                )
            wide = torch.as_tensor(np.column_stack([table, rest])).to(X.device)  # (k, size + 1)
            joint += torch.where(seen[:, None], wide.T[column.clamp(max=size)], 0.0)
        return joint

    def _draw(self, codes: Tensor, noise: torch.Generator) -> Tensor:
        schema, blocks = getattr(self, "schema_", None), []
        for j, table in enumerate(self.feature_log_prob_):
            value = torch.multinomial(torch.as_tensor(table).exp()[codes], 1, generator=noise)  # (n, 1)
            if schema is not None and schema.columns[j].kind == "category":
                value = torch.nn.functional.one_hot(value[:, 0], schema.columns[j].width)
            blocks.append(self._within(j, value.double(), noise))
        return torch.cat(blocks, 1)

    def _within(self, j: int, codes: Tensor, noise: torch.Generator) -> Tensor:
        """A code as it is; a bin as a number anywhere in it."""
        edges = None if self.bin_edges_ is None else self.bin_edges_[j]
        if edges is None or self.bin_ends_ is None:
            return codes
        ends = torch.cat(
            [torch.as_tensor(self.bin_ends_[j])[:1], torch.as_tensor(edges), torch.as_tensor(self.bin_ends_[j])[1:]]
        )
        place = codes.long()
        share = torch.rand(codes.shape, generator=noise, dtype=torch.float64)
        return ends[place] + share * (ends[place + 1] - ends[place])

    def _names(self, width: int) -> list[str]:
        schema = getattr(self, "schema_", None)
        return super()._names(width) if schema is None else [str(column.name) for column in schema.columns]

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "categories": ", ".join(map(str, self.n_categories_[:12]))}

    def plot(self) -> Any:
        """The chances of the categories in every class, for the first six features."""
        from benthic.bayes.picture import plot_categories

        check_is_fitted(self)
        schema = getattr(self, "schema_", None)
        labels: list[Sequence[str]] = []
        for j, size in enumerate(self.n_categories_):
            declared = () if schema is None else schema.columns[j].categories
            labels.append([str(value) for value in declared] if len(declared) else [str(v) for v in range(size)])
        tables = [np.exp(table) for table in self.feature_log_prob_]
        return plot_categories(tables, self._names(len(tables)), labels, [str(c) for c in self.classes_])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.positive_only = self.bins is None
        return tags


def _are_codes(values: Tensor) -> Tensor:
    return (values >= 0) & (values == values.floor()) & (values < 2**_LENGTHS)


def _sizes(lengths: Tensor) -> tuple[int, ...]:
    """Room for the codes of each feature: a power of two above the largest."""
    last = [int(row.nonzero()[-1]) if bool(row.any()) else 0 for row in lengths.cpu()]
    return tuple(2**digits for digits in last)


def _resized(counts: Tensor, sizes: tuple[int, ...], wanted: tuple[int, ...]) -> Tensor:
    """Blocks of columns of given sizes, cut or filled with zeros to other sizes."""
    blocks = []
    for block, size in zip(counts.split(list(sizes), 1), wanted, strict=True):
        kept = block[:, :size]
        blocks.append(torch.nn.functional.pad(kept, (0, size - kept.shape[1])))
    return torch.cat(blocks, 1)


def _ends(column: Tensor, weight: Tensor | None) -> np.ndarray:
    """The least and the largest value seen, (2,)."""
    seen = ~torch.isnan(column)
    if weight is not None:
        seen &= weight.to(column.device) > 0
    values = column[seen].double()
    return np.array([float(values.min()), float(values.max())]) if len(values) else np.zeros(2)


def _quantiles(column: Tensor, weight: Tensor | None, bins: int) -> np.ndarray:
    """Values that cut a column into bins of nearly equal weight, each the upper end of its bin."""
    seen = ~torch.isnan(column)
    if weight is not None:
        seen &= weight.to(column.device) > 0
    values, order = column[seen].double().sort()
    if not len(values):
        return np.zeros(0)
    heavy = torch.ones_like(values) if weight is None else weight.to(column.device)[seen].double()[order]
    reached = heavy.cumsum(0) * bins
    marks = torch.arange(1, bins, device=column.device, dtype=torch.float64) * heavy.sum()
    places = torch.searchsorted(reached, marks).clamp(max=len(values) - 1)
    found = values[places].unique()
    edges: np.ndarray = found[found < values[-1]].cpu().numpy()
    return edges
