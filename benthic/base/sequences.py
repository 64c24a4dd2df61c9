"""Sequences of different lengths: the one path by which they enter a model, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base import symbols
from benthic.base.arrays import Origin, float_name, host, is_tensor, largest, to_tensor
from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.likelihood import Likelihood, Measure
from benthic.base.settings import whole
from benthic.base.validation import speaking

if TYPE_CHECKING:
    _Host = Estimator
else:
    _Host = object


@dataclass(frozen=True)
class Ragged:
    """Sequences of different lengths, stored one after the other.

    values: (total, d) numbers of all steps, or (total,) codes of symbols. lengths: (n,) int64 on the CPU.

    >>> some = Ragged(torch.arange(5.0)[:, None], torch.tensor([2, 3]))
    >>> len(some), some.offsets.tolist(), [len(part) for part in some.split()]
    (2, [0, 2, 5], [2, 3])
    """

    values: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def offsets(self) -> Tensor:
        """Where each sequence begins, and the end, (n + 1,) on the CPU."""
        return torch.cat([self.lengths.new_zeros(1), self.lengths.cumsum(0)])

    def split(self) -> list[Tensor]:
        """The sequences, each (t_i, d)."""
        return list(self.values.split(self.lengths.tolist()))

    def padded(self, fill: float = 0.0) -> tuple[Tensor, Tensor]:
        """All sequences side by side, (n, t_max, d) with ``fill`` behind the ends, and a mask (n, t_max) of steps."""
        device = self.values.device
        steps = torch.arange(int(self.lengths.max()), device=device)
        mask = steps < self.lengths.to(device)[:, None]
        wide = self.values.new_full((*mask.shape, *self.values.shape[1:]), fill)
        wide[mask] = self.values
        return wide, mask

    def numbers(self) -> Tensor:
        """Which sequence each step belongs to, (total,)."""
        return torch.repeat_interleave(torch.arange(len(self)), self.lengths).to(self.values.device)

    def replace(self, values: Tensor) -> Ragged:
        """Other values for the same steps."""
        return Ragged(values, self.lengths)

    @classmethod
    def of(cls, parts: list[Tensor]) -> Ragged:
        """From a list of sequences, each (t_i, ...)."""
        return cls(torch.cat(parts), torch.tensor([len(part) for part in parts], dtype=torch.int64))


@dataclass(frozen=True)
class SequenceOrigin(Origin):
    """Where sequences came from.

    style: ``array`` or ``list`` of numbers; ``array``, ``arrays``, ``lists`` or ``strings`` of symbols.
    flat: whether a step was one number without an axis of its own.
    """

    style: str = "array"
    flat: bool = False


class SequenceEstimator(Estimator):
    """Base of models of sequences: arrays (n, t, d) or lists of arrays in, the same out."""

    # -- in ------------------------------------------------------------------------------------------

    def _arrive_sequences(
        self, X: Any, method: str, reset: bool = False, missing: bool = False
    ) -> tuple[Ragged, SequenceOrigin]:
        """Sequences of numbers, checked, in float32 or float64 where they lie; NaN is a gap if ``missing``.

        X: array or tensor (n, t, d) or (n, t), or a list of (t_i, d) or (t_i,); a 2-D array is n sequences of t
        steps, and one long series is passed as a list of one.
        """
        if not reset:
            check_is_fitted(self)
        with speaking(self, method):
            ragged, origin = read_sequences(X)
            self._check_width(ragged, origin, reset)
            _check_numbers(ragged, missing)
        if reset:
            self._remember(origin)
        return ragged, origin

    def _arrive_symbols(
        self, X: Any, method: str, reset: bool = False, missing: bool = False, known: Any = None
    ) -> tuple[Ragged, SequenceOrigin]:
        """Sequences of symbols as int64 codes (total,), -1 where one is missing; learns ``symbols_`` if ``reset``.

        X: integers (n, t), a list of lists of labels, or a list of strings of characters. None, NaN and -1 mark a
        missing observation, if ``missing``. known: the alphabet, if it is not to be learned.
        """
        if not reset:
            check_is_fitted(self)
        with speaking(self, method):
            tensor = is_tensor(X) or (isinstance(X, (list, tuple)) and len(X) > 0 and all(map(is_tensor, X)))
            flat = symbols.flatten(_off_device(X) if tensor else X)
            if reset:
                self.symbols_ = symbols.learn_symbols(flat) if known is None else symbols.read_symbols(known)
                self.n_features_in_ = 1
            codes = symbols.encode(flat, self.symbols_, missing)
            if not missing and flat.gaps.any():
                first = int(np.flatnonzero(flat.gaps)[0])
                raise InvalidInput(f"{flat.place(first)} is missing, and this model takes no missing symbols")
        origin = SequenceOrigin(style=flat.style)
        if tensor:
            device = str((X if is_tensor(X) else X[0]).device)
            origin = SequenceOrigin("torch", float_name(torch.int64), device, style=flat.style)
        if reset:
            self._remember(origin)
        return Ragged(torch.from_numpy(codes).to(origin.device), torch.from_numpy(flat.lengths)), origin

    def _check_width(self, ragged: Ragged, origin: SequenceOrigin, reset: bool) -> None:
        width = ragged.values.shape[1]
        if reset:
            self.n_features_in_ = width
        elif width != self.n_features_in_:
            alone = origin.style == "array" and origin.flat and int(ragged.lengths[0]) == self.n_features_in_
            raise InvalidInput(
                f"X has {width} features a step, but {type(self).__name__} is expecting {self.n_features_in_} "
                f"features as input{'; one sequence (t, d) is passed as a list of one, [X]' if alone else ''}"
            )

    def _remember(self, origin: SequenceOrigin) -> None:
        """How the sequences of ``fit`` came, in parts that a model file can hold."""
        self._fit_origin = Origin(origin.kind, origin.dtype, origin.device)
        self._fit_style = (origin.style, origin.flat)

    @property
    def _sequence_origin(self) -> SequenceOrigin:
        """Where the sequences of ``fit`` came from."""
        style, flat = self._fit_style
        kept = self._fit_origin
        return SequenceOrigin(kept.kind, kept.dtype, kept.device, style=style, flat=flat)

    # -- out -----------------------------------------------------------------------------------------

    def _sequences_out(self, parts: Ragged | list[Tensor], origin: SequenceOrigin, data: bool = False) -> Any:
        """One answer a step, (t_i, ...) each, in the shape of the input: a list for a list, an array for an array.

        data: whether these are numbers like those of ``fit``; one number a step then has an axis of its own only if
        it had one in the input.
        """
        listed = parts.split() if isinstance(parts, Ragged) else list(parts)
        if data and origin.flat and listed[0].ndim > 1:
            listed = [part[:, 0] for part in listed]
        if origin.style == "array" and len({len(part) for part in listed}) == 1:
            return origin.mirror(torch.stack(listed))
        return [origin.mirror(part) for part in listed]

    def _symbols_out(self, parts: Ragged | list[Tensor], origin: SequenceOrigin) -> Any:
        """Codes (t_i,) each as symbols, in the shape of the input."""
        listed = parts.split() if isinstance(parts, Ragged) else list(parts)
        if origin.kind != "torch" or self.symbols_.dtype.kind not in "iu":
            return symbols.decode([part.cpu().numpy() for part in listed], self.symbols_, origin.style)
        labels = torch.from_numpy(self.symbols_)
        return self._sequences_out([labels[part.cpu()] for part in listed], origin)

    def _check_request(self, method: str, **numbers: Any) -> None:
        """Refuse counts that are no whole numbers of at least 1."""
        for name, value in numbers.items():
            whole(f"{type(self).__name__}.{method}: {name}", value)


class ScoresSequences(_Host):
    """Exact likelihoods of sequences; a subclass gives ``_log_prob_of(X, method)``: (n,) and where ``X`` came from."""

    def _measure(self) -> Measure:
        return "density"

    def _log_prob_of(self, X: Any, method: str) -> tuple[Tensor, SequenceOrigin]:
        raise NotImplementedError

    def log_prob(self, X: Any) -> Any:
        """Exact log-likelihood of each sequence in nats, (n,); missing observations are integrated out."""
        value, origin = self._log_prob_of(X, "log_prob")
        return origin.mirror(value)

    def likelihood(self, X: Any, method: str | None = None) -> Likelihood:
        """Log-likelihood of each sequence in nats, exact."""
        if method not in (None, "exact"):
            raise self._fail("likelihood", f"method {method!r} is unknown; this model's likelihood is 'exact'")
        value, origin = self._log_prob_of(X, "likelihood")
        mirrored = origin.mirror(value)
        return Likelihood(mirrored, origin.mirror(torch.zeros_like(value)), "exact", "exact", self._measure())

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of a sequence in nats."""
        return self.likelihood(X).mean()


def read_sequences(X: Any) -> tuple[Ragged, SequenceOrigin]:
    """Sequences of numbers in any of their forms, (total, d), unchecked for gaps.

    >>> ragged, origin = read_sequences([[1.0, 2.0], [3.0]])
    >>> ragged.values.shape, origin.style, origin.flat
    (torch.Size([3, 1]), 'list', True)
    """
    if is_tensor(X) or (isinstance(X, np.ndarray) and X.dtype != object):
        return _read_array(X)
    if hasattr(X, "columns"):
        raise InvalidInput("X is a frame; sequences come as an array (n, t, d) or a list of arrays, one a sequence")
    if not isinstance(X, (list, tuple, np.ndarray)):
        raise InvalidInput(
            f"X is a {type(X).__name__}; sequences come as an array (n, t, d) or a list of (t, d) arrays"
        )
    if len(X) == 0:
        raise InvalidInput("X holds no sequences; at least one is needed")
    parts = [_read_part(part, i) for i, part in enumerate(X)]
    return _joined(parts)


def _read_array(X: Any) -> tuple[Ragged, SequenceOrigin]:
    if X.ndim not in (2, 3):
        hint = "; one long series is passed as a list of one, [X]" if X.ndim == 1 else ""
        raise InvalidInput(f"X has {X.ndim} dimensions; expected (n, t, d), or (n, t) for one number a step{hint}")
    if X.shape[0] == 0:
        raise InvalidInput("X holds no sequences; at least one is needed")
    tensor, kind, dtype = _as_tensor(X, "X")
    flat = tensor.ndim == 2
    wide = tensor[..., None] if flat else tensor
    lengths = torch.full((len(wide),), wide.shape[1], dtype=torch.int64)
    symbols.check_lengths(lengths.numpy())
    if wide.shape[2] == 0:
        raise InvalidInput("X has steps of 0 numbers; at least one is needed")
    origin = SequenceOrigin(kind, dtype, str(tensor.device), style="array", flat=flat)
    return Ragged(wide.reshape(-1, wide.shape[2]), lengths), origin


def _read_part(part: Any, i: int) -> tuple[Tensor, str, str]:
    if np.ndim(part) == 0 if not is_tensor(part) and not isinstance(part, (list, tuple)) else False:
        raise InvalidInput("X is a list of numbers, not of sequences; one long series is passed as a list of one, [X]")
    tensor, kind, dtype = _as_tensor(part, f"sequence {i}")
    if tensor.ndim not in (1, 2):
        raise InvalidInput(f"sequence {i} has shape {tuple(tensor.shape)}; expected (t, d) or (t,)")
    return tensor, kind, dtype


def _as_tensor(X: Any, what: str) -> tuple[Tensor, str, str]:
    """A float tensor, whether it came from NumPy or torch, and the floating type of the answers."""
    tensor, origin = to_tensor(X, what)
    return tensor, origin.kind, origin.dtype


def _joined(parts: list[tuple[Tensor, str, str]]) -> tuple[Ragged, SequenceOrigin]:
    tensors = [part[0] for part in parts]
    kinds = {part[1] for part in parts}
    if len(kinds) > 1 or len({tensor.device for tensor in tensors}) > 1:
        raise InvalidInput("X mixes tensors with arrays, or devices; pass all sequences as the same kind")
    flat = all(tensor.ndim == 1 for tensor in tensors)
    lengths = np.array([len(tensor) for tensor in tensors], dtype=np.int64)
    symbols.check_lengths(lengths)
    wide = [tensor[:, None] if tensor.ndim == 1 else tensor for tensor in tensors]
    for i, tensor in enumerate(wide):
        if tensor.shape[1] != wide[0].shape[1]:
            raise InvalidInput(
                f"sequence {i} has {tensor.shape[1]} numbers a step and sequence 0 has {wide[0].shape[1]}; "
                "all steps need the same width"
            )
    if wide[0].shape[1] == 0:
        raise InvalidInput("X has steps of 0 numbers; at least one is needed")
    names = {part[2] for part in parts}
    dtype = names.pop() if len(names) == 1 else "float64"
    common = torch.float64 if any(tensor.dtype == torch.float64 for tensor in wide) else torch.float32
    values = torch.cat([tensor.to(common) for tensor in wide])
    origin = SequenceOrigin(kinds.pop(), dtype, str(values.device), style="list", flat=flat)
    return Ragged(values, torch.from_numpy(lengths)), origin


def _check_numbers(ragged: Ragged, missing: bool) -> None:
    """Refuse infinities, numbers whose squares overflow, and NaN unless it means missing."""
    values = ragged.values
    limit = largest(values.dtype)
    if bool(values.abs().amax() <= limit):  # NaN is never so
        return
    gaps = torch.isnan(values)
    if not missing and bool(gaps.any()):
        raise InvalidInput(
            f"Input X contains NaN: {int(gaps.sum())}, the first in {_place(ragged, gaps)}; fill them, or use "
            "HiddenMarkovModel, which accepts missing observations"
        )
    large = values.abs() > limit
    if bool(large.any()):
        where = _place(ragged, large)
        if bool(torch.isinf(values[large]).any()):
            raise InvalidInput(f"Input X contains infinity or a value too large for {values.dtype}, in {where}")
        raise InvalidInput(f"X has values whose squares overflow {values.dtype}, in {where}; rescale them")


def _place(ragged: Ragged, mask: Tensor) -> str:
    step = int(mask.any(1).nonzero()[0])
    row = int(ragged.numbers()[step])
    return f"step {step - int(ragged.offsets[row])} of sequence {row}"


def _off_device(X: Any) -> Any:
    """Tensors as NumPy arrays."""
    if is_tensor(X):
        return host(X)
    return [host(part, f"sequence {i}") for i, part in enumerate(X)]
