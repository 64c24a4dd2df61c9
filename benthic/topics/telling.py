"""What the topic model says about its topics: words, numbers, pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from benthic.base.settings import number, whole
from benthic.base.validation import speaking
from benthic.topics.documents import TakesDocuments
from benthic.topics.npmi import coherence, leading_words


class TellsTopics(TakesDocuments):
    """Leading words, coherence, the summary, a picture and a page."""

    topics_: np.ndarray
    topic_shares_: np.ndarray
    word_counts_: np.ndarray
    doc_topic_prior_: np.ndarray
    topic_word_prior_: float

    def words(self) -> list[str]:
        """The names of the words, (words,): the vocabulary, the columns of a frame, or numbers."""
        check_is_fitted(self)
        for names in (getattr(self, "vocabulary_", None), getattr(self, "feature_names_in_", None)):
            if names is not None and len(names) == self.components_.shape[1]:
                return [str(name) for name in names]
        return [str(number) for number in range(self.components_.shape[1])]

    def top_words(self, n: int = 10, *, relevance: float = 1.0) -> list[list[str]]:
        """The leading words of each topic.

        relevance: 1 by p(word | topic), 0 by how much more likely a word is in the topic than anywhere, between
        them a mixture of both logarithms (Sievert & Shirley, 2014).
        """
        check_is_fitted(self)
        with speaking(self, "top_words"):
            whole("n", n)
            number("relevance", relevance, 0, 1, ends="[]")
        names = self.words()
        return [[names[w] for w in row] for row in leading_words(self._relevance(relevance), n)]

    def _relevance(self, weight: float) -> np.ndarray:
        logs = np.log(self.topics_)
        anywhere = np.log(np.maximum(self.topic_shares_ @ self.topics_, 1e-300))
        return logs - (1 - weight) * anywhere

    def coherence(self, X: Any, top: int = 10) -> np.ndarray:
        """Normalized pointwise mutual information of each topic's leading words in documents ``X``, (topics,)."""
        corpus, _ = self._documents(X, "coherence")
        with speaking(self, "coherence"):
            return coherence(corpus, self.components_, top=top)

    def _facts(self) -> dict[str, Any]:
        lines = {
            "topics": len(self.components_),
            "method": f"{self.method_}, {self.n_iter_} {'sweeps' if self.method_ == 'gibbs' else 'passes'}",
            "documents": f"{self.n_documents_}, {self.n_empty_} of them empty",
            "words": f"{self.word_counts_.sum():.10g}",
            "alpha": f"{self.doc_topic_prior_.min():.3g} to {self.doc_topic_prior_.max():.3g}",
            "eta": f"{self.topic_word_prior_:.3g}",
        }
        for k in np.argsort(-self.topic_shares_, kind="stable")[:10].tolist():
            lines[f"topic {k}"] = f"{100 * self.topic_shares_[k]:.1f} %: {' '.join(self.top_words(8)[k])}"
        return lines

    def plot(self) -> Any:
        """A map of the topics by their distances, and the leading words of the largest."""
        from benthic.topics.picture import draw_topics

        topics, names = self.topics_, self.words()
        rows = leading_words(topics, 10)
        leading = [[(names[w], float(topics[k, w])) for w in row] for k, row in enumerate(rows)]
        return draw_topics(topics, self.topic_shares_, leading)

    def to_html(self, path: str | Path, *, top: int = 30, title: str = "Topics") -> Path:
        """Write one page with an interactive map of the topics; it needs no network.

        top: words shown for a topic.
        """
        from benthic.topics.page import write_page

        check_is_fitted(self)
        with speaking(self, "to_html"):
            whole("top", top)
        return write_page(path, self.topics_, self.topic_shares_, self.word_counts_, self.words(), top, title)
