"""Documents as bags of words: how often each word stands in each document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import is_tensor
from benthic.base.errors import InvalidInput


@dataclass(frozen=True)
class Corpus:
    """Counts of words in documents, by rows.

    indptr: (documents + 1,) where the words of a document begin. words: (nonzero,) which words, ascending in each
    document. counts: (nonzero,) how often, > 0. width: how many words there are.

    >>> corpus = Corpus.of([[2, 0, 1], [0, 0, 0]])
    >>> corpus.words.tolist(), corpus.counts.tolist(), corpus.lengths.tolist()
    ([0, 2], [2.0, 1.0], [3.0, 0.0])
    """

    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    width: int

    @classmethod
    def of(cls, X: Any) -> Corpus:
        """Counts (n, words) as an array, a tensor or a sparse matrix; a corpus stays as it is."""
        if isinstance(X, Corpus):
            return X
        import scipy.sparse

        if is_tensor(X):
            X = _plain(X)
        table = scipy.sparse.csr_array(X, dtype=np.float64)  # copies, so that what follows changes nobody's data
        if table.ndim != 2:
            raise InvalidInput(f"counts have {table.ndim} dimensions; give a table of documents by words")
        table.sum_duplicates()
        table.eliminate_zeros()
        if not np.isfinite(table.data).all():
            raise InvalidInput("counts hold NaN or infinity; they must be finite and >= 0")
        return cls(table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data, table.shape[1])

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Words in each document, (n,)."""
        sums = np.concatenate([[0.0], np.cumsum(self.counts)])
        return sums[self.indptr[1:]] - sums[self.indptr[:-1]]

    @property
    def documents(self) -> np.ndarray:
        """To which document each entry belongs, (nonzero,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def negative(self) -> int | None:
        """The first word with a negative count, if any."""
        below = np.flatnonzero(self.counts < 0)
        return int(self.words[below].min()) if len(below) else None

    def fraction(self) -> tuple[int, float] | None:
        """The first document with a count that is not whole, and that count, if any."""
        broken = np.flatnonzero(self.counts != np.rint(self.counts))
        if not len(broken):
            return None
        return int(np.searchsorted(self.indptr, broken[0], side="right") - 1), float(self.counts[broken[0]])

    def rows(self, first: int, last: int) -> Corpus:
        """Documents ``first:last``."""
        low, high = self.indptr[first], self.indptr[last]
        return Corpus(self.indptr[first : last + 1] - low, self.words[low:high], self.counts[low:high], self.width)

    def take(self, which: np.ndarray) -> Corpus:
        """The documents at the given places, in that order."""
        import scipy.sparse

        table = scipy.sparse.csr_array((self.counts, self.words, self.indptr), shape=(len(self), self.width))[which]
        return Corpus(table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data, self.width)


def _plain(X: Tensor) -> np.ndarray:
    X = X.detach().cpu()
    return (X if X.dtype in (torch.float32, torch.float64) else X.double()).numpy()
