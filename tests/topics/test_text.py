"""Text in: the vectorizer, files, and what the model does with words."""

from __future__ import annotations

import gzip
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.feature_extraction.text import CountVectorizer

import benthic
from benthic import LatentDirichletAllocation
from benthic.base.errors import InvalidInput
from benthic.data.text import read_text
from benthic.topics import Vectorizer

TEXTS = [
    "The cat and the dog.",
    "A dog, a cat and a pet!",
    "Bonds rise; stocks fall.",
    "stocks and bonds: a fund",
    "",
] * 6
PLAIN = {"stop_words": "english"}


@pytest.fixture(scope="module")
def model():
    return LatentDirichletAllocation(2, vectorizer=PLAIN, doc_topic_prior=0.1, max_iter=60, random_state=0).fit(TEXTS)


@pytest.mark.parametrize(
    "settings", [{}, {"min_df": 2}, {"max_df": 0.5}, {"max_features": 3}, {"lowercase": False}, {"min_df": 0.3}]
)
def test_counts_are_those_of_scikit_learn(settings):
    peer = CountVectorizer(**settings)
    expected = peer.fit_transform(TEXTS).toarray()
    ours = Vectorizer(**settings)
    words = ours.learn(TEXTS)
    if "max_features" not in settings:  # ties are broken otherwise
        assert words.tolist() == peer.get_feature_names_out().tolist()
        np.testing.assert_array_equal(ours.count(TEXTS, words)[0].toarray(), expected)
    else:
        assert ours.count(TEXTS, words)[0].sum() == expected.sum()


@pytest.mark.parametrize(
    ("settings", "texts", "words"),
    [
        (PLAIN, ["the and of", "to be"], "no words are left in 2 documents"),
        ({}, ["", "."], "no words are left"),
        ({"min_df": 3}, ["cat dog", "bird"], "none of 3 words stands in at least 3"),
        ({"min_df": -1}, ["cat"], "min_df is -1"),
        ({"token_pattern": "("}, ["cat"], "no regular expression"),
        ({"stop_words": "klingon"}, ["cat"], "stop_words is 'klingon'"),
        ({"max_features": 0}, ["cat"], "max_features is 0"),
        ({"min_dff": 3}, ["cat"], "did you mean 'min_df'"),
    ],
)
def test_unusable_text_settings(settings, texts, words):
    with pytest.raises(InvalidInput, match=f"LatentDirichletAllocation.fit: .*{words}"):
        LatentDirichletAllocation(2, vectorizer=settings).fit(texts)


def test_strings_tokens_and_counts_are_one(model):
    words = Vectorizer.of(PLAIN).learn(TEXTS)
    counts = Vectorizer.of(PLAIN).count(TEXTS, words)[0]
    tokens = Vectorizer.of(PLAIN).split(TEXTS)
    settings = {"doc_topic_prior": 0.1, "max_iter": 60, "random_state": 0}
    by_tokens = LatentDirichletAllocation(2, **settings).fit(tokens)
    for X in (counts, scipy.sparse.csc_matrix(counts), counts.toarray(), torch.tensor(counts.toarray())):
        by_counts = LatentDirichletAllocation(2, vocabulary=words, **settings).fit(X)
        np.testing.assert_array_equal(by_counts.components_, model.components_)
    np.testing.assert_array_equal(by_tokens.components_, model.components_)
    frame = LatentDirichletAllocation(2, **settings).fit(pd.DataFrame(counts.toarray(), columns=words))
    assert frame.top_words() == model.top_words() == by_tokens.top_words() == by_counts.top_words()
    series = LatentDirichletAllocation(2, vectorizer=PLAIN, **settings).fit(pd.Series(TEXTS))
    np.testing.assert_array_equal(series.components_, model.components_)


@pytest.mark.spec("H-03")
def test_words_of_topics(model):
    found = {frozenset(words) for words in model.top_words(2)}
    assert found == {frozenset({"cat", "dog"}), frozenset({"bonds", "stocks"})}
    rows = model.transform(["cat dog pet", "fund bonds"])
    assert rows.max(1).min() > 0.8 and rows.argmax(1)[0] != rows.argmax(1)[1]
    assert "bonds" in model.summary() and "6 of them empty" in model.summary()


def test_empty_documents_have_the_priors_topics(model):
    expected = model.doc_topic_prior_ / model.doc_topic_prior_.sum()
    np.testing.assert_allclose(model.transform([""])[0], expected)
    with pytest.raises(InvalidInput, match="all 2 documents are empty"):
        LatentDirichletAllocation(2).fit(np.zeros((2, 3)))


def test_unknown_words_are_counted_and_said_once(model):
    with pytest.warns(UserWarning, match=r"transform: 3 words \(2 different ones, such as 'zebra'") as caught:
        rows = model.transform(["cat zebra zebra", "dog yak"])
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(rows, model.transform(["cat", "dog"]))


def test_words_that_were_left_out_on_purpose_are_not_complained_of():
    texts = ["cat dog rare1", "dog cat rare2", "cat dog", "dog cat"]
    model = LatentDirichletAllocation(2, vectorizer={"min_df": 2}, max_iter=5, random_state=0).fit(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform(texts)
    with pytest.warns(UserWarning, match="3 words"):
        model.transform(["rare1 rare3 rare4 cat"])


def test_counts_without_names_do_not_take_text():
    model = LatentDirichletAllocation(2, max_iter=5, random_state=0).fit(np.ones((4, 3)))
    with pytest.raises(InvalidInput, match="fitted on counts of 3 words without names"):
        model.transform(["cat"])
    assert model.words() == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([[1, -2]], "Negative values in data passed to LatentDirichletAllocation.*column 1"),
        (scipy.sparse.csr_array(np.array([[0.0, -2.0]])), "Negative values"),
        ([[1.0, 0.5]], "document 0 has a count of 0.5, but Gibbs sampling needs whole counts"),
        ("one string", "X is one string"),
        (["text", 3], "document 1 is 3"),
        (scipy.sparse.csr_array(np.array([[np.nan, 1.0]])), "NaN"),
    ],
)
def test_unusable_documents(X, words):
    with pytest.raises(InvalidInput, match=f"LatentDirichletAllocation.fit: .*{words}"):
        LatentDirichletAllocation(2, method="gibbs").fit(X)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_components": 0}, "n_components is 0"),
        ({"method": "gibs"}, "did you mean 'gibbs'"),
        ({"sampler": "fast"}, "sampler 'fast' is unknown"),
        ({"doc_topic_prior": -1.0}, "doc_topic_prior is -1.0"),
        ({"doc_topic_prior": [0.1, 0.2, 0.3]}, "give one number or 2"),
        ({"topic_word_prior": 0}, "topic_word_prior is 0"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"learning_decay": 0.2}, "between 0.5 and 1"),
        ({"vocabulary": ["a", "b", "a"]}, "'a' twice"),
        ({"vocabulary": ["a"]}, "vocabulary has 1 words, but X has 3 columns"),
        ({"n_jobs": 0}, "n_jobs is 0"),
    ],
)
def test_unusable_settings(settings, words):
    model = LatentDirichletAllocation(**{"n_components": 2, **settings})
    with pytest.raises(InvalidInput, match=words):
        model.fit(np.ones((4, 3)))


def test_more_topics_than_words_are_warned_of():
    with pytest.warns(UserWarning, match="9 topics for 3 words"):
        LatentDirichletAllocation(9, max_iter=5, random_state=0).fit(np.ones((4, 3)))


def test_auto_takes_gibbs_for_whole_counts_alone():
    counts = np.ones((6, 4))
    assert LatentDirichletAllocation(2, max_iter=3, random_state=0).fit(counts).method_ == "gibbs"
    assert LatentDirichletAllocation(2, max_iter=3, random_state=0).fit(counts / 3).method_ == "variational"


# -- what comes out -----------------------------------------------------------------------------------------------


@pytest.mark.spec("H-03")
def test_likelihoods_say_what_they_are(planted):
    counts, _, _ = planted
    model = LatentDirichletAllocation(4, max_iter=40, random_state=0).fit(counts)
    found = model.likelihood(counts[:20])
    assert (found.kind, found.bound, found.measure) == ("left_to_right(20)", "estimate", "mass")
    assert found.value.shape == found.stderr.shape == (20,) and (found.stderr > 0).all()
    bound = model.likelihood(counts[:20], "elbo")
    assert bound.bound == "lower" and (bound.value < found.value + 5 * found.stderr).all()
    assert model.likelihood(counts[:20] / 2).kind == "elbo"
    assert model.score(counts[:20]) == pytest.approx(found.value.mean())
    np.testing.assert_allclose(model.likelihood(counts[3:4]).value, found.value[3:4])
    half = model.likelihood(counts[:20], "completion")
    assert half.kind == "completion" and (half.value > found.value).all()
    with pytest.raises(InvalidInput, match="did you mean 'elbo'"):
        model.likelihood(counts, "elboo")
    per_word = np.exp(-found.value.sum() / counts[:20].sum())
    assert model.perplexity(counts[:20], "left_to_right") == pytest.approx(per_word)


def test_samples_are_like_the_documents(planted, sparse_planted, model):
    counts, _, _ = planted
    fitted = LatentDirichletAllocation(4, max_iter=60, random_state=0).fit(counts)
    drawn = fitted.sample(4000, seed=1)
    assert drawn.shape == (4000, 80) and (drawn.sum(1) == 60).all()
    shares, truth = drawn.mean(0) / 60, counts.mean(0) / 60
    assert np.abs(shares - truth).sum() / 2 < 0.05
    one = fitted.sample(500, given=np.eye(4)[2], length=9, seed=1)
    assert (one.sum(1) == 9).all()
    np.testing.assert_allclose(one.mean(0) / 9, fitted.topics_[2], atol=0.03)
    assert scipy.sparse.issparse(LatentDirichletAllocation(4, max_iter=3).fit(sparse_planted).sample(2))
    texts = model.sample(3, length=4, seed=0)
    assert all(isinstance(text, str) and len(text.split()) == 4 for text in texts)
    assert texts == model.sample(3, length=4, seed=0)
    with pytest.raises(InvalidInput, match="one row or 3"):
        fitted.sample(3, given=np.ones((2, 4)))


def test_saved_text_models_agree(model, tmp_path):
    loaded = benthic.load(model.save(tmp_path / "topics.safetensors"))
    assert loaded.top_words() == model.top_words() and loaded.summary() == model.summary()
    np.testing.assert_array_equal(loaded.transform(TEXTS), model.transform(TEXTS))
    assert loaded.sample(3, seed=1) == model.sample(3, seed=1)


def test_a_partial_fit_goes_on_after_saving(planted, tmp_path):
    counts = planted[0]
    one = LatentDirichletAllocation(3, random_state=0).partial_fit(counts[:100])
    two = benthic.load(one.save(tmp_path / "topics.safetensors"))
    for model in (one, two):
        model.partial_fit(counts[100:200])
    np.testing.assert_array_equal(one.components_, two.components_)


def test_the_page_is_complete_in_itself(model, tmp_path):
    page = model.to_html(tmp_path / "topics.html", title="Cats & <bonds>").read_text()
    assert "Cats &amp; &lt;bonds&gt;" in page
    assert not re.search(r"(src|href)\s*=", page) and "@import" not in page and "fetch(" not in page
    assert set(re.findall(r"https?://[^\"'\s]+", page)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert len(data["topics"]) == 2 and data["total"] == model.word_counts_.sum()
    for k, topic in enumerate(data["topics"]):
        listed = {word: chance for word, chance, *_ in topic["words"]}
        best = model.top_words(1)[k][0]
        assert listed[best] == pytest.approx(model.topics_[k].max(), rel=1e-4)


def test_words_cannot_end_the_script(tmp_path):
    words = ["</script><b>", "plain"]
    model = LatentDirichletAllocation(2, vocabulary=words, max_iter=5, random_state=0).fit(np.ones((4, 2)))
    page = model.to_html(tmp_path / "topics.html").read_text()
    assert page.count("</script>") == 2


def test_relevance_prefers_words_of_the_topic(model):
    assert model.top_words(3, relevance=0.0) != [] and len(model.top_words(3, relevance=0.5)[0]) == 3
    lift = model.topics_ / (model.topic_shares_ @ model.topics_)
    names = np.array(model.words())
    for k, words in enumerate(model.top_words(2, relevance=0.0)):
        assert lift[k][names == words[0]] == pytest.approx(lift[k].max())


# -- files ---------------------------------------------------------------------------------------------------------


def test_text_files(tmp_path):
    plain, packed = tmp_path / "notes.txt", tmp_path / "notes.txt.gz"
    plain.write_bytes("\ufefffirst läuft\r\n\r\nthird".encode())
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_text(plain) == read_text(packed) == ["first läuft", "", "third"]
    model = LatentDirichletAllocation(2, max_iter=5, random_state=0).fit(plain)
    assert model.vocabulary_.tolist() == ["first", "läuft", "third"] and model.n_documents_ == 3
    assert LatentDirichletAllocation(2, max_iter=5, random_state=0).fit(str(plain)).n_empty_ == 1


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("notes.txt", b"\xff\xfe\x00", "not text in utf-8"),
        ("empty.txt", b"\n \n", "has no words"),
        ("bad.txt.gz", b"plain", "not a whole gzip file"),
    ],
)
def test_unusable_text_files(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match=words):
        read_text(path)


def test_missing_text_files(tmp_path):
    (tmp_path / "notes.txt").write_text("words")
    with pytest.raises(InvalidInput, match="did you mean 'notes.txt'"):
        read_text(tmp_path / "note.txt")
    with pytest.raises(InvalidInput, match="is a folder"):
        read_text(tmp_path)
    with pytest.raises(InvalidInput, match="no encoding 'utf-99'"):
        read_text(tmp_path / "notes.txt", encoding="utf-99")
