"""The topic model of documents: latent Dirichlet allocation."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Samples
from benthic.base.errors import InvalidInput
from benthic.base.estimator import Estimator
from benthic.base.likelihood import Likelihood
from benthic.base.progress import Bar
from benthic.base.seeds import derive, np_generator, seed_of
from benthic.base.settings import is_whole, one_of, whole
from benthic.base.threads import threads
from benthic.base.validation import speaking
from benthic.linear.keeping import keeping
from benthic.topics import settings
from benthic.topics.corpus import Corpus
from benthic.topics.gibbs import MOST_TOKENS, sample_topics
from benthic.topics.heldout import HeldOut, completion, evidence_bound, infer, left_to_right
from benthic.topics.telling import TellsTopics
from benthic.topics.variational import Beliefs, Settings, begin, by_passes, update

_SWEEPS, _PASSES, _EPOCHS = 200, 100, 10  # Gibbs sweeps, variational passes, passes of online learning
_LENGTHS = 201  # quantiles of the lengths of documents that are kept


class LatentDirichletAllocation(TellsTopics, Samples, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    r"""Documents as mixtures of topics, topics as laws over words.

    .. math:: \theta_d \sim \mathrm{Dir}(\alpha), \quad \phi_k \sim \mathrm{Dir}(\eta), \quad
              z_{di} \sim \theta_d, \quad w_{di} \sim \phi_{z_{di}}

    Blei et al., 2003. Documents are strings, lists of words, or counts: an array, frame, tensor or sparse matrix of
    documents by words; a path is a text file with one document a line. An empty document has the prior's topics.

    n_components: topics. method: ``"gibbs"`` (collapsed Gibbs sampling, Griffiths & Steyvers, 2004: the better topics,
    and quick; needs whole counts), ``"variational"`` (any amounts; learns online too), or ``"auto"``: Gibbs where
    counts are whole. doc_topic_prior: α, one number or one a topic; topic_word_prior: η; None is 1 / topics each, but 1
    and 0.1 to begin with where Gibbs sampling learns them. learn_priors: learn α (of each topic) and η on the way.
    max_iter: sweeps or passes; None is 200 sweeps, 100 passes, 10 online ones. sampler: of Gibbs sampling,
    ``"dense"`` (exact), ``"alias"`` (time by the topics a document has; many topics), or ``"auto"``.

    Variational: learning_method: ``"batch"`` or ``"online"``; learning_decay, learning_offset: batch t weighs
    (offset + t)^-decay; batch_size; total_samples: documents in all, for ``partial_fit``; max_doc_update_iter,
    mean_change_tol: of the law of one document; tol: passes end when the bound of a word rises by less.

    vectorizer: how text becomes words: a dict of ``Vectorizer``'s settings, such as ``{"stop_words": "english",
    "min_df": 5}``. vocabulary: the words themselves: names of the columns of counts, or the only words of text that
    count. n_jobs: workers; the outcome depends on seed and their number. verbose: a bar on a terminal.

    Learned: ``components_`` (topics, words), expected counts plus η; ``doc_topic_prior_``, ``topic_word_prior_``,
    ``topic_shares_`` (topics,) of all words, ``vocabulary_``, ``trace_`` (sweep or pass, log-likelihood or bound a
    word), ``method_``, ``n_iter_``.

    >>> texts = ["cat dog cat", "dog cat pet", "bond stock bond", "stock bond fund"] * 5
    >>> model = LatentDirichletAllocation(2, doc_topic_prior=0.1, random_state=0).fit(texts)
    >>> sorted(model.top_words(2))
    [['bond', 'stock'], ['cat', 'dog']]
    >>> model.transform(["cat dog"]).max().round(1)
    np.float64(1.0)
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        method: str = "auto",
        doc_topic_prior: Any = None,
        topic_word_prior: float | None = None,
        learn_priors: bool = True,
        max_iter: int | None = None,
        sampler: str = "auto",
        learning_method: str = "batch",
        learning_decay: float = 0.7,
        learning_offset: float = 10.0,
        batch_size: int = 128,
        total_samples: float = 1e6,
        max_doc_update_iter: int = 100,
        mean_change_tol: float = 1e-3,
        tol: float = 1e-4,
        vectorizer: Any = None,
        vocabulary: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.learn_priors = learn_priors
        self.max_iter = max_iter
        self.sampler = sampler
        self.learning_method = learning_method
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.batch_size = batch_size
        self.total_samples = total_samples
        self.max_doc_update_iter = max_doc_update_iter
        self.mean_change_tol = mean_change_tol
        self.tol = tol
        self.vectorizer = vectorizer
        self.vocabulary = vocabulary
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn topics from documents: strings, lists of words, counts, or the path of a text file.

        y: ignored.
        """
        with keeping(self):
            with speaking(self, "fit"):
                settings.check(self)
            corpus, _ = self._documents(X, "fit", reset=True)
            with speaking(self, "fit"):
                self._check_corpus(corpus)
                self.method_ = self._method(corpus)
                alpha, eta = settings.priors(self, self.method_)
                seed = seed_of(self.random_state)
                if self.method_ == "gibbs":
                    self._by_gibbs(corpus, alpha, eta, seed)
                else:
                    self._by_variation(corpus, alpha, eta, seed)
            self._settle(corpus)
        return self

    def _by_gibbs(self, corpus: Corpus, alpha: np.ndarray, eta: float, seed: int) -> None:
        sweeps = self.max_iter or _SWEEPS
        bar = Bar("Gibbs sampling", sweeps, bool(self.verbose), "sweeps")
        try:
            found = sample_topics(
                corpus, alpha, eta, sweeps=sweeps, workers=threads(self.n_jobs), seed=seed, sampler=self.sampler,
                learn=bool(self.learn_priors), tick=lambda value: bar.tick(note=f"{value:.4f}"),
            )  # fmt: skip
        finally:
            bar.close()
        self.components_ = found.counts + found.eta
        self.doc_topic_prior_, self.topic_word_prior_ = found.alpha, found.eta
        self.trace_, self.n_iter_ = found.trace, sweeps
        self.__dict__.pop("_beliefs", None)

    def _by_variation(self, corpus: Corpus, alpha: np.ndarray, eta: float, seed: int) -> None:
        beliefs = begin(corpus.width, alpha, eta, seed)
        online = self.learning_method == "online"
        passes = self.max_iter or (_EPOCHS if online else _PASSES)
        bar = Bar("variational inference", passes, bool(self.verbose), "passes")
        workers = threads(self.n_jobs)
        try:
            if online:
                for number in range(passes):
                    self._epoch(corpus, beliefs, derive(seed, "epoch", number), workers)
                    bar.tick()
                bounds = np.empty(0)
            else:
                bounds = by_passes(
                    corpus, beliefs, self._how(), passes=passes, tol=self.tol, workers=workers,
                    tick=lambda value: bar.tick(note=f"{value:.4f}"),
                )  # fmt: skip
        finally:
            bar.close()
        self._believe(beliefs)
        self.trace_ = np.column_stack([np.arange(1, len(bounds) + 1), bounds])
        self.n_iter_ = passes if online else len(bounds)

    def _epoch(self, corpus: Corpus, beliefs: Beliefs, seed: int, workers: int) -> None:
        order = np_generator(seed).permutation(len(corpus))
        for at in range(0, len(order), self.batch_size):
            batch = corpus.take(order[at : at + self.batch_size])
            update(batch, beliefs, self._how(), documents=len(corpus), workers=workers)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Move the topics by one more batch of documents (variational, online); the first call begins.

        The vocabulary of text is that of the first batch, or ``vocabulary``.
        """
        with keeping(self):
            with speaking(self, "partial_fit"):
                settings.check(self)
                if self.method == "gibbs":
                    raise InvalidInput("Gibbs sampling needs all documents at once; use fit, or method='variational'")
            first = not hasattr(self, "_beliefs")
            corpus, _ = self._documents(X, "partial_fit", reset=first)
            if first:
                with speaking(self, "partial_fit"):
                    self._check_corpus(corpus)
                    alpha, eta = settings.priors(self, "variational")
                    beliefs = begin(corpus.width, alpha, eta, seed_of(self.random_state))
                    self.method_, self.n_iter_, self.trace_ = "variational", 0, np.empty((0, 2))
            else:
                beliefs = Beliefs(**self._beliefs)
                beliefs.weights = np.ascontiguousarray(self.components_.T)
            documents = max(float(self.total_samples), len(corpus))
            update(corpus, beliefs, self._how(), documents=documents, workers=threads(self.n_jobs))
            self._believe(beliefs)
            self.n_iter_ += 1
            self._settle(corpus, more=not first)
        return self

    def _how(self) -> Settings:
        return Settings(
            self.max_doc_update_iter, self.mean_change_tol, self.learning_decay, self.learning_offset,
            self.batch_size, bool(self.learn_priors),
        )  # fmt: skip

    def _believe(self, beliefs: Beliefs) -> None:
        self.components_ = np.ascontiguousarray(beliefs.weights.T)
        self.doc_topic_prior_, self.topic_word_prior_ = beliefs.alpha, beliefs.eta
        self._beliefs = {
            "weights": np.empty(0), "alpha": beliefs.alpha, "eta": beliefs.eta, "updates": beliefs.updates,
            "logs": beliefs.logs,
        }  # fmt: skip

    def _settle(self, corpus: Corpus, more: bool = False) -> None:
        lengths = corpus.lengths
        self._n_features_out = len(self.components_)
        known = self.components_.sum(1) - self.topic_word_prior_ * corpus.width
        self.topic_shares_ = np.maximum(known, 0) / max(np.maximum(known, 0).sum(), 1e-300)
        words = np.bincount(corpus.words, corpus.counts, corpus.width)
        self.word_counts_ = words + self.word_counts_ if more else words
        self.n_documents_ = len(corpus) + (self.n_documents_ if more else 0)
        self.n_empty_ = int((lengths == 0).sum()) + (self.n_empty_ if more else 0)
        self.lengths_ = np.quantile(lengths, np.linspace(0, 1, _LENGTHS), method="nearest")

    def _check_corpus(self, corpus: Corpus) -> None:
        if corpus.counts.sum() == 0:
            raise InvalidInput(f"all {len(corpus)} documents are empty; at least one needs a word of the vocabulary")
        if self.n_components > corpus.width > 1:
            warnings.warn(
                f"LatentDirichletAllocation.fit: n_components={self.n_components} topics for {corpus.width} words; "
                "topics will be alike, use fewer",
                UserWarning,
                stacklevel=4,
            )

    def _method(self, corpus: Corpus) -> str:
        if self.method == "variational":
            return "variational"
        broken = corpus.fraction()
        if self.method == "auto":
            return "gibbs" if broken is None and corpus.counts.sum() < MOST_TOKENS // 8 else "variational"
        if broken is not None:
            raise InvalidInput(
                f"document {broken[0]} has a count of {broken[1]:g}, but Gibbs sampling needs whole counts; round "
                "them, or use method='variational'"
            )
        return "gibbs"

    # -- use -------------------------------------------------------------------------------------------------

    @property
    def topics_(self) -> np.ndarray:
        """p(word | topic), (topics, words); rows sum to one."""
        check_is_fitted(self)
        return self.components_ / self.components_.sum(1, keepdims=True)

    def transform(self, X: Any) -> Any:
        """Expected shares of the topics in each document, (n, topics); rows sum to one.

        Words not in the vocabulary are left out, with a warning that counts them.
        """
        corpus, origin = self._documents(X, "transform")
        return origin.mirror(self._tensor(infer(corpus, self.topics_, self.doc_topic_prior_, n_jobs=self.n_jobs)))

    def likelihood(self, X: Any, method: str | None = None) -> Likelihood:
        """Log-likelihood of each document's words (in an order) in nats, given the learned topics.

        method: ``"left_to_right"`` (an estimate; whole counts only; the default for them), ``"elbo"`` (a lower bound,
        for any amounts) or ``"completion"`` (of half of each document, given the other half).
        """
        corpus, origin = self._documents(X, "likelihood")
        with speaking(self, "likelihood"):
            method = method or ("left_to_right" if corpus.fraction() is None else "elbo")
            found = self._held_out(corpus, method, 20)
        value, error = (origin.mirror(self._tensor(part)) for part in (found.value, found.stderr))
        kind = "left_to_right(20)" if method == "left_to_right" else method
        return Likelihood(value, error, kind, "lower" if method == "elbo" else "estimate", "mass")

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of a document in nats."""
        return self.likelihood(X).mean()

    def perplexity(self, X: Any, method: str = "completion", *, particles: int = 20) -> float:
        """exp of minus the mean log-likelihood of a word, by ``"completion"``, ``"left_to_right"`` or ``"elbo"``."""
        corpus, _ = self._documents(X, "perplexity")
        with speaking(self, "perplexity"):
            return self._held_out(corpus, method, particles).perplexity

    def _held_out(self, corpus: Corpus, method: str, particles: int) -> HeldOut:
        one_of("method", method, ("left_to_right", "elbo", "completion"))
        given = (corpus, self.topics_, self.doc_topic_prior_)
        seed = derive(int(self.random_state) if is_whole(self.random_state) else 0, "held out")
        if method == "elbo":
            return evidence_bound(*given, n_jobs=self.n_jobs)
        if method == "completion":
            return completion(*given, seed=seed, n_jobs=self.n_jobs)
        return left_to_right(*given, particles=particles, seed=seed, n_jobs=self.n_jobs)

    def sample(self, n: int = 1, *, given: Any = None, length: int | None = None, seed: Any = None) -> Any:
        """``n`` new documents like those of ``fit``: strings, lists of words, or counts; order means nothing.

        given: shares of topics, (topics,) or (n, topics). length: words of a document; without it, as in training.
        """
        self._check_draws(n)
        with speaking(self, "sample"):
            shares = settings.given_shares(given, n, len(self.components_))
            if length is not None:
                whole("length", length)
        rng = np_generator(self._sampling_seed(seed), "sample")
        if shares is None:
            shares = settings.dirichlet(rng, self.doc_topic_prior_, n)
        sizes = np.full(n, length) if length is not None else rng.choice(np.rint(self.lengths_).astype(np.int64), n)
        laws = shares @ self.topics_
        drawn = np.stack([rng.multinomial(size, law / law.sum()) for size, law in zip(sizes, laws, strict=True)])
        return self._bags(drawn, rng)

    def _bags(self, drawn: np.ndarray, rng: np.random.Generator) -> Any:
        """Counts (n, words) as what ``fit`` saw."""
        if self._kind == "table":
            return self._data_out(torch.from_numpy(drawn.astype(np.float64)))
        if self._kind == "sparse":
            import scipy.sparse

            return scipy.sparse.csr_array(drawn.astype(self._fit_origin.dtype))
        lists = [rng.permutation(np.repeat(self.vocabulary_, row)).tolist() for row in drawn]
        return lists if self._kind == "tokens" else [" ".join(words) for words in lists]

    @staticmethod
    def _tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        return tags
