"""Checks of the settings of the topic model, and what they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benthic.base.capabilities import to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.settings import number, one_of, positive, whole
from benthic.data.text import read_text


def check(model: Any) -> None:
    """Refuse settings that make no sense."""
    for name in ("n_components", "batch_size", "max_doc_update_iter"):
        whole(name, getattr(model, name))
    whole("max_iter", model.max_iter, optional=True)
    one_of("method", model.method, ("auto", "gibbs", "variational"))
    one_of("sampler", model.sampler, ("auto", "dense", "alias"))
    one_of("learning_method", model.learning_method, ("batch", "online"))
    for name in ("total_samples", "mean_change_tol", "tol"):
        number(name, getattr(model, name))
    number("learning_decay", model.learning_decay, 0.5, 1, ends="[]")
    positive("learning_offset", model.learning_offset)


def priors(model: Any, method: str) -> tuple[np.ndarray, float]:
    """α, one a topic, and η, to begin with; broad where Gibbs sampling learns them, so that topics can still part."""
    k = model.n_components
    broad = method == "gibbs" and bool(model.learn_priors)
    given = (1.0 if broad else 1.0 / k) if model.doc_topic_prior is None else to_numpy(model.doc_topic_prior)
    try:
        alpha = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"doc_topic_prior is {given!r}; it must be a positive number or one a topic") from error
    if alpha.shape not in ((), (k,)):
        raise InvalidInput(f"doc_topic_prior has shape {alpha.shape}; give one number or {k}")
    if not np.isfinite(alpha).all() or not (alpha > 0).all():
        raise InvalidInput(f"doc_topic_prior is {given!r}; priors must be positive")
    eta = (0.1 if broad else 1.0 / k) if model.topic_word_prior is None else model.topic_word_prior
    return np.broadcast_to(alpha, (k,)).copy(), positive("topic_word_prior", eta)


def given_words(vocabulary: Any) -> np.ndarray | None:
    """The words of a given vocabulary, each once."""
    if vocabulary is None:
        return None
    words = np.array([str(word) for word in vocabulary], dtype=object)
    if not len(words):
        raise InvalidInput("vocabulary is empty; give at least one word, or None")
    if len(set(words)) < len(words):
        twice = next(word for i, word in enumerate(words) if word in set(words[:i]))
        raise InvalidInput(f"vocabulary holds {twice!r} twice; each word may stand once")
    return words


def given_shares(given: Any, n: int, k: int) -> np.ndarray | None:
    """Shares of topics for n documents, (n, topics), from one row or n."""
    if given is None:
        return None
    shares = np.atleast_2d(np.asarray(to_numpy(given), dtype=np.float64))
    if shares.shape not in ((1, k), (n, k)):
        raise InvalidInput(f"given has shape {shares.shape}; give shares of {k} topics, one row or {n}")
    if not np.isfinite(shares).all() or (shares < 0).any() or (shares.sum(1) <= 0).any():
        raise InvalidInput("given holds NaN, negative shares or a row of zeros; shares are >= 0 and sum to one")
    return np.broadcast_to(shares / shares.sum(1, keepdims=True), (n, k))


def dirichlet(rng: np.random.Generator, alpha: np.ndarray, n: int) -> np.ndarray:
    """Draws (n, topics) that stay finite for the smallest priors: log of a gamma draw by boosting its shape."""
    logs = np.log(rng.gamma(alpha + 1.0, size=(n, len(alpha)))) + np.log(rng.random((n, len(alpha)))) / alpha
    shares = np.exp(logs - logs.max(1, keepdims=True))
    return np.asarray(shares / shares.sum(1, keepdims=True))


def from_path(X: Any) -> Any:
    """The documents of a text file, if ``X`` is a path; everything else as it is."""
    if hasattr(X, "__next__"):
        raise InvalidInput(f"X is a {type(X).__name__}, a one-shot iterator; pass a list of documents")
    if isinstance(X, Path) or (isinstance(X, str) and X.lower().endswith((".txt", ".txt.gz"))):
        return read_text(X)
    if isinstance(X, str):
        raise InvalidInput(
            f"X is one string, {X[:40]!r}; pass a list of documents, or the path of a .txt file with one a line"
        )
    return X
