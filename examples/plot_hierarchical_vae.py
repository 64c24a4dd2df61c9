"""
A hierarchical variational autoencoder: codes of codes
======================================================

The code of a VAE has a simple prior, and data seldom fit it. A hierarchical VAE gives the code a prior that is a VAE
itself: z3 explains z2, z2 explains z1, and z1 explains the data. The levels above learn what is common, those below
what is special.
"""

# %%
# Three levels
# ------------
# Codes are inferred from the top: the network first goes up without drawing, and then each level combines what was
# seen of the data with what the levels above expect. With ``skip`` a level sees all codes above, not only the next, and
# a long warm-up gives the higher levels time to become useful: the loss rises while the divergence gains weight. The
# bars are the nats that each level uses.

import numpy as np

import benthic
from benthic.data import load
from benthic.pictures.grids import image_grid

digits = load("digits")
X = (np.asarray(digits.X) > 0.5).astype(float)
common = {
    "hidden_layer_sizes": (128,),
    "decoder": "bernoulli",
    "kl_warmup": 0.8,
    "trainer": benthic.Trainer(epochs=25, lr=4e-3, schedule="cosine"),
    "random_state": 0,
}
model = benthic.HierarchicalVAE((8, 6, 4), skip=True, level_layer_sizes=(64,), **common).fit(X[:1500])
print(model.summary())
figure = model.plot()
figure

# %%
# What the levels know
# --------------------
# On the left a held-out digit. In each row more levels are drawn anew, given those above: with z1 and z2 drawn anew the
# digit keeps its kind while its strokes vary, and with all levels drawn anew nothing of it is left.

codes = model.encode(X[1503:1504])
rows = [
    np.concatenate([X[1503:1504], model.decode(model.redraw(np.repeat(codes, 9, 0), levels, seed=1))])
    for levels in range(4)
]
figure = image_grid(
    np.concatenate(rows).reshape(-1, 8, 8), rows_title=["as inferred", "z1 anew", "z1, z2 anew", "z1, z2, z3 anew"]
)
figure

# %%
# Is it worth it?
# ---------------
# The same networks at the first level, with one level of codes and with three. All values are lower bounds; the second
# is closer than the first.

plain = benthic.VAE(16, **common).fit(X[:1500])
for name, one in (("one level", plain), ("three levels", model)):
    values = [one.likelihood(X[1500:], method).mean() for method in ("elbo", "importance(64)")]
    print(f"{name:13} " + "  ".join(f"{value:8.2f}" for value in values))

# %%
# Annealed importance sampling
# ----------------------------
# How much does the importance bound still miss? Chains that walk from the inferred law of the codes to their true
# posterior estimate the likelihood without the encoder's errors.

some = X[1500:1520]
for method in ("elbo", "importance(64)", "ais(20)"):
    found = model.likelihood(some, method)
    print(f"{found.kind:16} {found.mean():8.2f}  {found.bound} bound, error of a row {found.stderr.mean():.2f}")
