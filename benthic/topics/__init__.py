"""Topics of documents."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Corpus": "benthic.topics.corpus",
    "HeldOut": "benthic.topics.heldout",
    "LatentDirichletAllocation": "benthic.topics.allocation",
    "Vectorizer": "benthic.topics.vectorizer",
    "coherence": "benthic.topics.npmi",
    "completion": "benthic.topics.heldout",
    "evidence_bound": "benthic.topics.heldout",
    "infer": "benthic.topics.heldout",
    "left_to_right": "benthic.topics.heldout",
    "topic_distances": "benthic.topics.picture",
    "topic_map": "benthic.topics.picture",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
