"""Latent Dirichlet allocation beside tomotopy, scikit-learn and gensim, all judged by one held-out estimate."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Quality, alternate
from benchmarks.report import Claim, Result, exact

TITLE = "LatentDirichletAllocation, 50 topics, 5000 documents of 200 tokens, 10000 words, 2 workers"
ALPHA, ETA, WORKERS = 0.1, 0.01, 2
LADDER = (5, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300)
SLACK = 0.01  # nats a word by which two seeds of one sampler differ


def planted(documents: int, tokens: int, words: int, topics: int, seed: int = 0) -> Any:
    """Documents of planted topics as sparse counts; words are as frequent as Zipf says."""
    import scipy.sparse

    rng = np.random.default_rng(seed)
    zipf = 1 / np.arange(1, words + 1)
    phi = rng.gamma(np.maximum(300 * zipf / zipf.sum(), 1e-3), size=(topics, words))
    phi /= phi.sum(1, keepdims=True)
    shares = rng.dirichlet(np.full(topics, ALPHA), documents)
    drawn = np.empty((documents, tokens), np.int64)
    for d, law in enumerate(shares):
        drawn[d] = rng.choice(words, tokens, p=law @ phi)
    offsets = np.arange(0, documents * tokens + 1, tokens)
    table = scipy.sparse.csr_array((np.ones(drawn.size), drawn.ravel(), offsets), shape=(documents, words))
    table.sum_duplicates()
    return table


def associated_press() -> Any:
    """The Associated Press corpus, if the folder of real data is there."""
    import scipy.sparse

    path = Path(os.environ.get("BENTHIC_DATA", "")) / "ap_corpus" / "ap_bow.npz"
    if not path.is_file():
        return None
    with np.load(path) as file:
        shape = (int(file["doc"].max()) + 1, len(file["vocab"]))
        table = scipy.sparse.csr_array((file["count"].astype(float), (file["doc"], file["word"])), shape=shape)
    return table[np.random.default_rng(0).permutation(shape[0])]


def judged(held: Any, topics: Any, alpha: Any) -> float:
    """Nats a word by document completion: the same function, halves and inference for every library."""
    from benthic.topics import completion

    return completion(held, topics, alpha, n_jobs=WORKERS).per_word


def ours(X: Any, held: Any, k: int, sweeps: int, seed: int = 0) -> Quality:
    """Collapsed Gibbs from counts to topics, priors held."""
    from benthic import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        k, method="gibbs", doc_topic_prior=ALPHA, topic_word_prior=ETA, learn_priors=False, max_iter=sweeps,
        n_jobs=WORKERS, random_state=seed,
    )  # fmt: skip
    begun = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "nats": judged(held, model.components_, ALPHA)}


def tomotopy(X: Any, held: Any, k: int, sweeps: int, seed: int = 0) -> Quality:
    """Its sampler; only the sweeps are timed, not the reading of documents."""
    import tomotopy as peer

    model = peer.LDAModel(k=k, alpha=ALPHA, eta=ETA, seed=seed)
    model.optim_interval = 0
    for row in range(X.shape[0]):
        part = slice(X.indptr[row], X.indptr[row + 1])
        model.add_doc([str(w) for w in np.repeat(X.indices[part], X.data[part].astype(int))])
    model.train(0)
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that several workers differ from run to run
        model.train(sweeps, workers=WORKERS)
    seconds = time.perf_counter() - begun
    sizes = np.asarray(model.get_count_by_topics(), dtype=float)[:, None]
    topics = np.repeat(ETA / (sizes + X.shape[1] * ETA), X.shape[1], axis=1)  # words it has not seen
    topics[:, [int(word) for word in model.used_vocabs]] = [model.get_topic_word_dist(t) for t in range(k)]
    return {"seconds": seconds, "nats": judged(held, topics, ALPHA)}


def sklearn_online(X: Any, held: Any, k: int, passes: int) -> Quality:
    """Online variational inference."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        k, doc_topic_prior=ALPHA, topic_word_prior=ETA, learning_method="online", max_iter=passes, n_jobs=WORKERS,
        random_state=0,
    )  # fmt: skip
    begun = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "nats": judged(held, model.components_, ALPHA)}


def gensim(X: Any, held: Any, k: int, passes: int) -> Quality:
    """Online variational inference in two processes."""
    from gensim.models import LdaMulticore

    rows = [slice(X.indptr[row], X.indptr[row + 1]) for row in range(X.shape[0])]
    bags = [list(zip(X.indices[part].tolist(), X.data[part].astype(int).tolist(), strict=True)) for part in rows]
    names = {word: str(word) for word in range(X.shape[1])}
    begun = time.perf_counter()
    model = LdaMulticore(
        bags, num_topics=k, id2word=names, workers=WORKERS, passes=passes, alpha=[ALPHA] * k, eta=ETA, random_state=0
    )
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "nats": judged(held, model.get_topics(), ALPHA)}


def sweeps_to(level: float, X: Any, held: Any, k: int) -> int:
    """The fewest sweeps of the ladder after which ours is as good as ``level``."""
    for sweeps in LADDER:
        if ours(X, held, k, sweeps)["nats"] >= level:
            return sweeps
    raise RuntimeError(f"{LADDER[-1]} sweeps do not reach {level:.4f} nats a word")


def throughput(name: str, X: Any, held: Any, k: int, sweeps: int, repeats: int) -> tuple[list[Claim], Any]:
    """The same sweeps by ours and tomotopy, in turn."""
    labels = f"benthic, {name}", f"tomotopy, {name}"
    nats: dict[str, list[float]] = {label: [] for label in labels}

    def work(label: str, fit: Callable[..., Quality]) -> Quality:
        found = fit(X, held, k, sweeps, seed=len(nats[label]))
        nats[label].append(found["nats"])
        return found

    works = {label: partial(work, label, fit) for label, fit in zip(labels, (ours, tomotopy), strict=True)}
    timings = alternate(works, repeats=repeats)
    gap = float(np.mean(nats[labels[1]]) - np.mean(nats[labels[0]]))
    rate = X.sum() * sweeps / timings.median(labels[0]) / 1e6
    claims = [
        Claim(f"tomotopy / benthic, {sweeps} sweeps, {name}", timings.ratio(labels[1], labels[0]), ">=", 0.7, "x"),
        Claim(f"tomotopy - benthic, held-out nats a word over seeds, {name}", exact(gap), "<=", SLACK, ""),
        Claim(f"benthic, million tokens a second, {name}", exact(rate), ">=", 0.0, ""),
    ]
    return claims, timings


def run(quick: bool = False) -> Result:
    """Throughput beside tomotopy, then time to the held-out likelihood of the variational peers."""
    k, n, tokens, words = (10, 300, 80, 1000) if quick else (50, 5000, 200, 10_000)
    table = planted(n + n // 10, tokens, words, k)
    X, held = table[:n], table[n:]
    sweeps = 30 if quick else 100
    claims, timings = throughput("planted", X, held, k, sweeps, 2 if quick else 5)
    real = None if quick else associated_press()
    if real is not None:
        cut = real.shape[0] * 9 // 10
        claims += throughput("Associated Press", real[:cut], real[cut:], k, 200, 3)[0]
    for name, work in (("scikit-learn online", sklearn_online), ("gensim", gensim)):
        peer = work(X, held, k, 2 if quick else 10)
        enough = sweeps_to(peer["nats"], X, held, k)
        own = [ours(X, held, k, enough) for _ in range(3)]
        ratio = peer["seconds"] / float(np.median([found["seconds"] for found in own]))
        text = f"{name} / benthic, to {peer['nats']:.3f} held-out nats a word ({enough} sweeps)"
        claims.append(Claim(text, exact(ratio), ">=", 20.0, "x"))
    sizes = {"documents": n, "tokens": tokens, "words": words, "topics": k, "sweeps": sweeps, "workers": WORKERS}
    return Result("topics", TITLE, claims, timings, sizes)
