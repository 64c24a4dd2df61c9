"""The Markov model of sequences of symbols."""

from __future__ import annotations

from itertools import product
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.likelihood import Measure
from benthic.base.seeds import np_generator
from benthic.base.sequences import Ragged, ScoresSequences, SequenceEstimator, SequenceOrigin
from benthic.base.settings import number, one_of, whole
from benthic.base.validation import speaking
from benthic.chains.hidden_picture import heat
from benthic.chains.markov_counts import (
    Grams,
    Level,
    Smoothing,
    build_levels,
    count_grams,
    discounts,
    probabilities,
    windows,
)
from benthic.pictures.canvas import new_figure
from benthic.uses.verbs import OddSequences

_SMOOTHINGS = ("kneser-ney", "additive")
_LARGEST = 4096  # contexts of a chain whose stationary law is asked for
_SHOWN = 40  # contexts or symbols in the picture


class MarkovModel(OddSequences, ScoresSequences, SequenceEstimator):
    r"""Symbols that depend on the last few: a Markov chain of any order, with smoothing.

    .. math:: p(x_1, \dots, x_t) = \prod_i p(x_i \mid x_{i-k}, \dots, x_{i-1})

    Steps before the first are a mark of their own, so that beginnings are learned too. Smoothing is additive,

    .. math:: p(x \mid h) = \frac{c(hx) + \alpha}{c(h) + \alpha m},

    or interpolated Kneser-Ney (Kneser & Ney, 1995; Chen & Goodman, 1999), which takes a discount off every count and
    gives it to the context one shorter; there, symbols count by how many kinds of contexts they were seen in.

    order: how many symbols back. smoothing: ``"kneser-ney"`` or ``"additive"``. alpha: what is added; with 0 the
    shares themselves, and of the longest known context where one was never seen. discount: between 0 and 1, by default
    one for each length of context, from the symbols seen once and twice. ends: whether the end of a sequence is
    learned as a symbol; samples then end by themselves. symbols: the alphabet, if not all of it may be in ``X``.

    Learned: ``symbols_`` (m,), ``grams_`` (u, order + 1) windows as numbers of symbols (m is the end, m + 1 the
    beginning) and ``counts_`` (u,) how often each was seen; these add over data, by ``partial_fit``.

    >>> model = MarkovModel(order=1, smoothing="additive", alpha=0.0).fit(["abab", "abba"])
    >>> model.symbols_.tolist(), model.transition_matrix().round(2).tolist()
    (['a', 'b'], [[0.0, 1.0], [0.67, 0.33]])
    >>> model.sample(1, length=6, seed=0)[0][:2]
    'ab'
    """

    def __init__(
        self,
        order: int = 1,
        *,
        smoothing: str = "kneser-ney",
        alpha: float = 1.0,
        discount: float | None = None,
        ends: bool = False,
        symbols: Any = None,
        random_state: Any = None,
    ) -> None:
        self.order = order
        self.smoothing = smoothing
        self.alpha = alpha
        self.discount = discount
        self.ends = ends
        self.symbols = symbols
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count the windows of sequences: integers (n, t), lists of labels, or strings of characters. y: ignored."""
        with speaking(self, "fit"):
            self._check_settings()
        data, _ = self._arrive_symbols(X, "fit", reset=True, known=self.symbols)
        self._count(data, None)
        self.typical_length_ = int(np.median(data.lengths.numpy()))
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add the windows of more sequences; the symbols are those of the first call, or of ``symbols``."""
        if not hasattr(self, "grams_"):
            return self.fit(X, y)
        data, _ = self._arrive_symbols(X, "partial_fit")
        self._count(data, Grams(self.grams_, self.counts_))
        return self

    def _check_settings(self) -> None:
        whole("order", self.order, 0)
        one_of("smoothing", self.smoothing, _SMOOTHINGS)
        number("alpha", self.alpha)
        number("discount", self.discount, 0, 1, ends="()", optional=True)

    def _count(self, data: Ragged, before: Grams | None) -> None:
        rows = self._windows(data)
        counts = np.ones(len(rows))
        if before is not None:
            rows, counts = np.concatenate([before.rows, rows]), np.concatenate([before.counts, counts])
        grams = count_grams(rows, counts, self._base)
        self.grams_, self.counts_ = grams
        levels = build_levels(grams, self._base, self.smoothing == "kneser-ney")
        self._levels = [tuple(level) for level in levels]
        self.discounts_ = np.full(len(levels), self.discount) if self.discount else discounts(levels)

    @property
    def _base(self) -> int:
        return len(self.symbols_) + 2

    def _windows(self, data: Ragged) -> np.ndarray:
        m = len(self.symbols_)
        end = m if self.ends else None
        return windows(data.values.cpu().numpy(), data.lengths.numpy(), int(self.order), m + 1, end)

    # -- use -----------------------------------------------------------------------------------------------

    def _chances(self, before: np.ndarray, symbol: np.ndarray | None = None) -> np.ndarray:
        """Probability of the symbols (n,) after the contexts (n, order), or of all symbols (n, m or m + 1)."""
        levels = [Level(*parts) for parts in self._levels]
        cuts = self.discounts_ if self.smoothing == "kneser-ney" else None
        how = Smoothing(len(self.symbols_) + bool(self.ends), float(self.alpha), cuts)
        return probabilities(levels, before, symbol, self._base, how)

    def _measure(self) -> Measure:
        return "mass"

    def _log_prob_of(self, X: Any, method: str) -> tuple[Tensor, SequenceOrigin]:
        data, origin = self._arrive_symbols(X, method)
        rows = self._windows(data)
        with np.errstate(divide="ignore"):
            logs = np.log(self._chances(rows[:, :-1], rows[:, -1]))
        lengths = data.lengths.numpy() + bool(self.ends)
        return torch.from_numpy(np.add.reduceat(logs, np.cumsum(lengths) - lengths)), origin

    def perplexity(self, X: Any) -> float:
        """Inverse probability of a step, averaged geometrically over all steps: 1 is certain, m is a blind guess."""
        total, _ = self._log_prob_of(X, "perplexity")
        data, _ = self._arrive_symbols(X, "perplexity")
        steps = int(data.lengths.sum()) + bool(self.ends) * len(data)
        return float(np.exp(-float(total.sum()) / steps))

    def _last(self, data: Ragged) -> np.ndarray:
        """The last ``order`` symbols of each sequence, (n, order)."""
        order, start = int(self.order), len(self.symbols_) + 1
        found = np.full((len(data), order), start, dtype=np.int64)
        for i, part in enumerate(data.split()):
            tail = part.cpu().numpy()[max(0, len(part) - order) :] if order else part[:0]
            if order:
                found[i, order - len(tail) :] = tail
        return found

    def predict_proba(self, X: Any) -> Any:
        """Probability of each symbol to come next after each sequence, (n, m); the end, if learned, is column m."""
        data, origin = self._arrive_symbols(X, "predict_proba")
        return origin.mirror(torch.from_numpy(self._chances(self._last(data))))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable next symbol after each sequence, (n,); the end is not among them."""
        data, _ = self._arrive_symbols(X, "predict")
        found: np.ndarray = self.symbols_[self._chances(self._last(data))[:, : len(self.symbols_)].argmax(1)]
        return found

    def transition_matrix(self) -> np.ndarray:
        """Probability of each symbol after each, (m, m), of a model of order 1; ends are left out of the rows."""
        check_is_fitted(self)
        if self.order != 1:
            raise self._fail("transition_matrix", f"the order is {self.order}; only order 1 has one matrix")
        return self._chances(np.arange(len(self.symbols_))[:, None])[:, : len(self.symbols_)]

    def stationary(self) -> np.ndarray:
        """The share of each symbol in an endless sequence, (m,)."""
        from benthic.samplers.markov.markov_chain import MarkovChain

        check_is_fitted(self)
        m, order = len(self.symbols_), int(self.order)
        if self.ends:
            raise self._fail("stationary", "sequences that end have no stationary law; fit with ends=False")
        if order == 0:
            return self._chances(np.empty((1, 0), dtype=np.int64)).ravel()
        if m**order > _LARGEST:
            raise self._fail("stationary", f"there are {m}**{order} contexts; the law is found for up to {_LARGEST}")
        contexts = np.array(list(product(range(m), repeat=order)))  # (m ** order, order), counting up
        chances = self._chances(contexts)
        moves = np.zeros((len(contexts), len(contexts)))
        after = (np.arange(len(contexts)) * m % len(contexts))[:, None] + np.arange(m)
        np.put_along_axis(moves, after, chances, 1)
        with speaking(self, "stationary"):
            law = MarkovChain(moves / moves.sum(1, keepdims=True)).stationary().numpy()
        return np.bincount(contexts[:, -1], weights=law, minlength=m)

    # -- draws ---------------------------------------------------------------------------------------------

    def sample(self, n: int = 1, *, length: Any = None, given: Any = None, seed: Any = None) -> Any:
        """``n`` new sequences, like those of ``fit``.

        length: steps of each, given ones included (with ``ends``, at most so many); the median of ``fit`` by default.
        given: one sequence or ``n`` to go on from. seed: decides the draw; without it an integer ``random_state``
        does, else the draw is fresh.
        """
        check_is_fitted(self)
        self._check_request("sample", n=n, length=self.typical_length_ if length is None else length)
        steps = self.typical_length_ if length is None else int(length)
        origin = self._sequence_origin
        begun: list[np.ndarray] = [np.empty(0, dtype=np.int64)] * n
        if given is not None:
            data, origin = self._arrive_symbols(given, "sample")
            if len(data) not in (1, n):
                raise self._fail("sample", f"given holds {len(data)} sequences; pass one sequence or {n}")
            begun = [part.cpu().numpy() for part in data.split()] * (n if len(data) == 1 else 1)
            steps = max(steps, max(map(len, begun)))
        rng = np_generator(self._sampling_seed(seed), "sample")
        return self._symbols_out([torch.from_numpy(part) for part in self._go_on(begun, steps, rng)], origin)

    def _go_on(self, begun: list[np.ndarray], steps: int, rng: np.random.Generator) -> list[np.ndarray]:
        n, m, order = len(begun), len(self.symbols_), int(self.order)
        whole = np.full((n, order + steps), m + 1, dtype=np.int64)
        lengths = np.array([len(part) for part in begun])
        for i, part in enumerate(begun):
            whole[i, order : order + len(part)] = part
        stop = np.full(n, steps)
        for t in range(int(lengths.min()), steps):
            open_ = np.flatnonzero((lengths <= t) & (stop > t))
            if len(open_) == 0:
                continue
            chances = self._chances(whole[open_, t : t + order])
            if self.ends and t == 0:
                chances[:, m] = 0.0  # a sequence has a step
            total = np.cumsum(chances, 1)
            drawn = (total <= rng.random(len(open_))[:, None] * total[:, -1:]).sum(1).clip(max=chances.shape[1] - 1)
            whole[open_, order + t] = drawn
            stop[open_[drawn == m]] = t
        return [row[order : order + end] for row, end in zip(whole, stop, strict=True)]

    # -- words and pictures ----------------------------------------------------------------------------------

    def plot(self) -> Any:
        """Probabilities of symbols after the contexts: all of order 1, else those seen most often."""
        check_is_fitted(self)
        m, order = len(self.symbols_), int(self.order)
        names = [*map(str, self.symbols_), "end", "start"]
        contexts = np.arange(m)[:, None] if order == 1 else self._frequent()
        shown = self._chances(contexts)
        rows = ["".join(names[code] for code in row) or "any" for row in contexts]
        figure, axes = new_figure(5.6, 4.6)
        heat(axes, shown[:_SHOWN], rows[:_SHOWN], names[: shown.shape[1]], xlabel="next symbol", ylabel="context")
        axes.set_title(f"order {order}")
        axes.set_yticks(range(len(rows[:_SHOWN])), rows[:_SHOWN], fontsize=7 if len(rows) > 15 else 9)
        return figure

    def _frequent(self) -> np.ndarray:
        grams = count_grams(self.grams_[:, :-1], self.counts_, self._base)
        return grams.rows[np.argsort(-grams.counts, kind="stable")[:20]]

    def _facts(self) -> dict[str, Any]:
        steps = float(self.counts_.sum())
        with np.errstate(divide="ignore"):
            logs = np.log(self._chances(self.grams_[:, :-1], self.grams_[:, -1]))
        return {
            "symbols": len(self.symbols_),
            "order": self.order,
            "contexts": len(self._levels[-1][0]),
            "steps": int(steps),
            "perplexity of the data": float(np.exp(-(self.counts_ @ logs) / steps)),
        }
