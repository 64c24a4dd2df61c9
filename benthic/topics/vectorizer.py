"""From text to counts of words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np

from benthic.base.errors import InvalidInput, nearest
from benthic.base.settings import is_number, is_whole

_ENGLISH = """
a about above after again against all almost also although always am among an and another any are aren as at away
back be became because become been before behind being below between both but by came can cannot come could couldn
did didn do does doesn doing don done down during each either else enough even ever every few first for from further
gave get gets give given go goes going gone got had hadn has hasn have haven having he hence her here hers herself him
himself his how however if in indeed instead into is isn it its itself just keep kept last least less let like ll
made make makes many may me might mine more most much must my myself near neither never next no nobody none nor not
nothing now of off often on once one only onto or other others our ours ourselves out over own per perhaps put quite
rather re really s said same say says seem seemed seen several shall she should shouldn since so some something
sometimes soon still such t take taken than that the their theirs them themselves then there therefore these they
thing things this those though through thus to together too toward two under until up upon us use used ve very was
wasn way we well went were weren what when where whether which while who whole whom whose why will with within without
won would wouldn yes yet you your yours yourself yourselves
"""
ENGLISH: frozenset[str] = frozenset(_ENGLISH.split())
_EXAMPLES = 3


@dataclass(frozen=True)
class Vectorizer:
    r"""How text becomes words, and which of them count.

    lowercase: whether case is forgotten. token_pattern: regular expression of a word. stop_words: words left out: a
    list, or ``"english"``. min_df, max_df: in how many documents a word must and may stand at least and at most, as a
    number of documents (int) or a share of them (float). max_features: keep only so many of the most frequent words.

    >>> vectorizer = Vectorizer(stop_words="english")
    >>> words = vectorizer.learn(["The cat sat.", "A cat and a dog"])
    >>> words.tolist(), vectorizer.count(["cat, cat; bird"], words)[0].toarray().tolist()
    (['cat', 'dog', 'sat'], [[2.0, 0.0, 0.0]])
    """

    lowercase: bool = True
    token_pattern: str = r"(?u)\b\w\w+\b"
    stop_words: Any = None
    min_df: Any = 1
    max_df: Any = 1.0
    max_features: int | None = None

    @classmethod
    def of(cls, value: Any) -> Vectorizer:
        """A vectorizer from None, a dict of settings, or itself."""
        if isinstance(value, Vectorizer):
            return value
        if value is not None and not isinstance(value, dict):
            raise InvalidInput(f"vectorizer is {value!r}; it must be None, a dict of settings or a Vectorizer")
        known = list(cls.__dataclass_fields__)
        for name in value or {}:
            if name not in known:
                raise InvalidInput(
                    f"vectorizer has no setting {name!r}{nearest(str(name), known)}; it has {', '.join(known)}"
                )
        return cls(**(value or {}))

    def to_tree(self) -> dict[str, Any]:
        """What a model file keeps of it."""
        return asdict(self)

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Vectorizer:
        """The vectorizer a model file kept."""
        return cls(**tree)

    # -- words ---------------------------------------------------------------------------------------------

    def split(self, documents: Iterable[Any]) -> list[list[str]]:
        """The words of each document, stop words left out; a document that is a list is split already."""
        stop = self._stop()
        pattern = self._pattern()
        found = []
        for document in documents:
            if isinstance(document, str):
                text = document.lower() if self.lowercase else document
                tokens = pattern.findall(text)
            else:
                tokens = [str(token) for token in document]
                tokens = [token.lower() for token in tokens] if self.lowercase else tokens
            found.append([token for token in tokens if token not in stop] if stop else tokens)
        return found

    def learn(self, documents: Sequence[Any]) -> np.ndarray:
        """The vocabulary of documents, sorted, (words,)."""
        return self.learn_words(self.split(documents))

    def learn_words(self, split: list[list[str]]) -> np.ndarray:
        """The vocabulary of documents that are split already."""
        present = Counter(chain.from_iterable(map(set, split)))
        if not present:
            raise InvalidInput(
                f"no words are left in {len(split)} documents: all are empty or hold nothing but stop words and signs; "
                "change stop_words or token_pattern"
            )
        low, high = self._limit("min_df", self.min_df, len(split)), self._limit("max_df", self.max_df, len(split))
        kept = [word for word, count in present.items() if low <= count <= high]
        if not kept:
            raise InvalidInput(
                f"none of {len(present)} words stands in at least {low:g} and at most {high:g} of {len(split)} "
                "documents; lower min_df or raise max_df"
            )
        if self.max_features is not None:
            self._whole("max_features", self.max_features)
            total = Counter(chain.from_iterable(split))
            kept = sorted(kept, key=lambda word: (-total[word], word))[: self.max_features]
        return np.array(sorted(kept), dtype=object)

    def count(self, documents: Sequence[Any], vocabulary: Any) -> tuple[Any, Counter[str]]:
        """Counts of the vocabulary's words in each document, sparse (n, words), and the words that are not in it."""
        return self.count_words(self.split(documents), vocabulary)

    def count_words(self, split: list[list[str]], vocabulary: Any) -> tuple[Any, Counter[str]]:
        """The same for documents that are split already."""
        import scipy.sparse

        place = {word: i for i, word in enumerate(vocabulary)}
        indptr, words, unknown = [0], [], Counter()
        for tokens in split:
            for token in tokens:
                at = place.get(token)
                if at is None:
                    unknown[token] += 1
                else:
                    words.append(at)
            indptr.append(len(words))
        table = scipy.sparse.csr_array(
            (np.ones(len(words)), np.array(words, dtype=np.int32), np.array(indptr)), shape=(len(split), len(place))
        )
        table.sum_duplicates()
        return table, unknown

    # -- settings ------------------------------------------------------------------------------------------

    def _stop(self) -> frozenset[str]:
        if self.stop_words is None:
            return frozenset()
        if isinstance(self.stop_words, str):
            if self.stop_words != "english":
                raise InvalidInput(f"stop_words is {self.stop_words!r}; it must be 'english', a list of words or None")
            return ENGLISH
        return frozenset(map(str, self.stop_words))

    def _pattern(self) -> re.Pattern[str]:
        try:
            pattern = re.compile(self.token_pattern)
        except (re.error, TypeError) as error:
            raise InvalidInput(f"token_pattern is {self.token_pattern!r}, no regular expression: {error}") from error
        if pattern.groups > 1:
            raise InvalidInput(
                f"token_pattern has {pattern.groups} groups; it may have one, which is the word, or none"
            )
        return pattern

    def _limit(self, name: str, value: Any, n: int) -> float:
        if is_number(value) and not is_whole(value) and 0 <= value <= 1:
            return float(value) * n
        self._whole(name, value)
        return float(value)

    @staticmethod
    def _whole(name: str, value: Any) -> None:
        if not is_whole(value, 1):
            raise InvalidInput(f"{name} is {value!r}; it must be a whole number of at least 1, or a share if a float")


def told(unknown: Counter[str]) -> str:
    """Unknown words in a few words."""
    shown = ", ".join(repr(word) for word, _ in unknown.most_common(_EXAMPLES))
    return f"{sum(unknown.values())} words ({len(unknown)} different ones, such as {shown})"


def documents_in(X: Any) -> list[Any] | None:
    """Documents as strings or lists of tokens, if ``X`` holds such; None if it is a table."""
    if hasattr(X, "toarray") or hasattr(X, "columns") or not (isinstance(X, (list, tuple)) or hasattr(X, "__array__")):
        return None
    if hasattr(X, "ndim") and X.ndim != 1:
        return None
    items = X if isinstance(X, (list, tuple)) else list(X) if getattr(X, "dtype", None) is not None else None
    if not items or not any(isinstance(item, str) or _is_tokens(item) for item in items):
        return None
    for i, item in enumerate(items):
        if not isinstance(item, str) and not (isinstance(item, (list, tuple)) and (not item or _is_tokens(item))):
            raise InvalidInput(f"document {i} is {item!r:.60}; each must be a string or a list of words")
    return list(items)


def _is_tokens(item: Any) -> bool:
    return isinstance(item, (list, tuple)) and len(item) > 0 and all(isinstance(token, str) for token in item)
