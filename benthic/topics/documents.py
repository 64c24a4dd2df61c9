"""How documents of every form reach the topic model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, validate_data

from benthic.base.arrays import Origin
from benthic.base.errors import InvalidInput
from benthic.base.validation import speaking
from benthic.topics import settings
from benthic.topics.corpus import Corpus
from benthic.topics.vectorizer import Vectorizer, documents_in, told

# The mixin calls the estimator it is mixed into; at run time it stands beside it, not below it.
if TYPE_CHECKING:
    from benthic.base.estimator import Estimator as _Host
else:
    _Host = object


class TakesDocuments(_Host):
    """Strings, lists of words, counts in arrays, frames, tensors and sparse matrices, as one corpus."""

    vectorizer: Any
    vocabulary: Any
    _left_out: float = 0.0  # share of the words that the limits on frequency left out in fit
    components_: np.ndarray

    def _documents(self, X: Any, method: str, reset: bool = False) -> tuple[Corpus, Origin]:
        """The documents as counts, and where answers go."""
        if not reset:
            check_is_fitted(self)
        with speaking(self, method):
            X = settings.from_path(X)
            texts = documents_in(X)
        if texts is not None:
            corpus, origin = self._from_text(texts, method, reset), Origin()
        elif issparse(X):
            with speaking(self, method):
                table = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], accept_sparse="csr")
                corpus, origin = Corpus.of(table), Origin("numpy", str(table.dtype))
            self._seen("sparse", origin, reset)
        else:
            tensor, origin = self._arrive(X, method, reset=reset)
            corpus = Corpus.of(tensor)
            self._seen("table", self._fit_origin, reset)
        negative = corpus.negative()
        if negative is not None:
            raise self._fail(
                method,
                f"Negative values in data passed to LatentDirichletAllocation (input X), the first in column "
                f"{negative}; counts of words are >= 0",
            )
        return corpus, origin

    def _from_text(self, texts: list[Any], method: str, reset: bool) -> Corpus:
        """Counts of text. Unknown words are said if they are more than twice the share that ``fit`` left out."""
        with speaking(self, method):
            vectorizer = Vectorizer.of(self.vectorizer)
            split = vectorizer.split(texts)
            if reset:
                given = settings.given_words(self.vocabulary)
                self.vocabulary_ = vectorizer.learn_words(split) if given is None else given
                self.n_features_in_ = len(self.vocabulary_)
                self._seen("text" if isinstance(texts[0], str) else "tokens", Origin(), reset)
            elif getattr(self, "vocabulary_", None) is None:
                raise InvalidInput(
                    f"the model was fitted on counts of {self.n_features_in_} words without names; pass counts, or fit "
                    "with vocabulary=[...]"
                )
            counts, unknown = vectorizer.count_words(split, self.vocabulary_)
            share = sum(unknown.values()) / max(sum(map(len, split)), 1)
            if reset:
                self._left_out = share
        if share > 2 * self._left_out:
            warnings.warn(
                f"LatentDirichletAllocation.{method}: {told(unknown)} are not in the vocabulary and were left out",
                UserWarning,
                stacklevel=4,
            )
        return Corpus.of(counts)

    def _seen(self, kind: str, origin: Origin, reset: bool) -> None:
        """Remember what kind of documents ``fit`` saw."""
        if not reset:
            return
        self._kind, self._fit_origin = kind, origin
        if kind in ("text", "tokens", "sparse"):
            self.__dict__.pop("schema_", None)
        if kind in ("text", "tokens"):
            self.__dict__.pop("feature_names_in_", None)
            return
        words = settings.given_words(self.vocabulary)
        if words is not None and len(words) != self.n_features_in_:
            raise self._fail("fit", f"vocabulary has {len(words)} words, but X has {self.n_features_in_} columns")
        self.vocabulary_ = words
