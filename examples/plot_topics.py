"""
Topics of documents
===================

Latent Dirichlet allocation explains every document as a mixture of topics, and every topic as a law over words. It
is given nothing but counts of words.
"""

# %%
# Topics that were planted
# ------------------------
# The words are the 25 cells of a small picture; the ten topics are its rows and columns. A document draws a few topics
# and puts sixty dots down by them. Collapsed Gibbs sampling finds the bars again.

import html
import inspect
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import benthic

bars = np.zeros((10, 5, 5))
for k in range(5):
    bars[k, k, :] = bars[5 + k, :, k] = 0.2
rng = np.random.default_rng(0)
shares = rng.dirichlet(np.full(10, 0.2), 600)
X = np.stack([rng.multinomial(60, law / law.sum()) for law in shares @ bars.reshape(10, 25)])

model = benthic.LatentDirichletAllocation(10, random_state=0).fit(X)
order = (bars.reshape(10, 25) @ model.topics_.T).argmax(1)

figure, rows = plt.subplots(3, 10, figsize=(9, 3), layout="constrained")
shown = (bars, X.reshape(-1, 5, 5), model.topics_[order].reshape(10, 5, 5))
for line, pictures, title in zip(rows, shown, ("planted", "documents", "found"), strict=True):
    line[0].set_ylabel(title)
    for axes, picture in zip(line, pictures, strict=False):
        axes.imshow(picture, cmap="magma")
        axes.set(xticks=[], yticks=[])

# %%
# How good are they?
# ------------------
# New documents judge the topics: given one half of each, how likely is the other half? Perplexity falls until there
# are as many topics as were planted; more of them bring nothing.

held = np.stack(
    [rng.multinomial(60, law / law.sum()) for law in rng.dirichlet(np.full(10, 0.2), 300) @ bars.reshape(10, 25)]
)
counts = (2, 4, 6, 8, 10, 12, 16)
perplexity = [benthic.LatentDirichletAllocation(k, random_state=0).fit(X).perplexity(held) for k in counts]
figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.plot(counts, perplexity, marker="o")
axes.set(xlabel="topics", ylabel="perplexity of held-out words")

# %%
# Text
# ----
# Documents may be plain strings. Here they are the descriptions of functions of SciPy.

from scipy import fft, linalg, ndimage, optimize, signal, sparse, special, stats

texts = []
for module in (fft, linalg, ndimage, optimize, signal, sparse, special, stats):
    for name in module.__all__:
        text = inspect.getdoc(getattr(module, name)) or ""
        texts.append(text.split("Examples\n---")[0])
print(len(texts), "documents, such as:", texts[100].splitlines()[0])

words = {"stop_words": "english", "min_df": 5, "max_df": 0.4, "token_pattern": r"\b[a-z]{4,}\b"}
model = benthic.LatentDirichletAllocation(12, vectorizer=words, max_iter=150, random_state=0).fit(texts)
print(model.summary())
model.plot()

# %%
# New documents
# -------------
# A sentence that was never seen is placed among the topics. Words outside the vocabulary are left out, and counted.

sentence = "a filter with a given frequency response, as poles and zeros"
share = model.transform([sentence])[0]
best = int(share.argmax())
print(f"topic {best} ({100 * share[best]:.0f} %):", " ".join(model.top_words(8, relevance=0.6)[best]))
coherence = model.coherence(texts)
print("most coherent:", " ".join(model.top_words(6)[int(coherence.argmax())]))

# %%
# A page to walk through
# ----------------------
# ``to_html`` writes one file that needs no network: a map of the topics, their words, and a slider between words that
# are frequent in a topic and words that are nowhere else.

with tempfile.TemporaryDirectory() as folder:
    page = model.to_html(Path(folder) / "topics.html", title="Topics of SciPy").read_text()


class Frame:
    """The page inside this one."""

    def _repr_html_(self):
        return f'<iframe srcdoc="{html.escape(page)}" width="100%" height="760" style="border:0"></iframe>'


Frame()
