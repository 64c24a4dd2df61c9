"""
Energies: a law known up to a constant
======================================

An energy-based model is a network that says how strange an example is; the law is the exponential of minus that. What
is missing, the normalizer, is never needed to train it, and can be estimated afterwards.
"""

# %%
# Three ways to learn one ring
# ----------------------------
# Sliced score matching compares slopes, persistent chains contrast rows with draws of the model, and noise-contrastive
# estimation tells rows from noise. All three give nearly the same energy.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import benthic

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, 1000)
X = 2 * np.stack([np.cos(angle), np.sin(angle)], 1) + 0.3 * rng.normal(size=(1000, 2))
models = {}
for objective in ("sliced", "persistent", "noise_contrastive"):
    models[objective] = benthic.EnergyModel(
        objective,
        hidden_layer_sizes=(32, 32),
        chain_steps=5,
        trainer={"steps": 150, "lr": 0.01, "schedule": "cosine", "verbose": False},
        random_state=0,
    ).fit(X)
    found = models[objective].likelihood(X)
    print(f"{objective:18} {found.mean():.3f} ± {found.stderr[0]:.3f} nats, by annealed importance sampling")

# %%
# Chains that begin at noise end on the ring.

models["sliced"].plot()

# %%
# Rows that do not belong
# -----------------------
# The energy itself ranks rows by how strange they are. Rows of a normal law with the same mean and covariance lie where
# the ring is not; the area under the ROC curve says how well they are told apart.

strange = rng.multivariate_normal(X.mean(0), np.cov(X.T), 1000)
labels = np.repeat([0, 1], 1000)
for objective, model in models.items():
    print(f"{objective:18} AUROC {roc_auc_score(labels, model.energy(np.concatenate([X, strange]))):.3f}")

# %%
# Pictures out of noise
# ---------------------
# Of pictures the energy is learned with noise at many levels, which the network is told. Chains begin at noise alone
# and go down the levels; with the lower half held, they draw the other.

pictures = load_digits().images[:, None].astype("float32") / 16
model = benthic.EnergyModel(
    channels=(32, 64),
    trainer={"steps": 800, "batch_size": 64, "lr": 2e-3, "schedule": "cosine", "ema": 0.99, "verbose": False},
    random_state=0,
).fit(pictures)
print(f"loss {model.history_[-1]['loss']:.1f} of {pictures[0].size / 2:.0f} where only the variance of pixels is known")
halves = pictures[:12].copy()
halves[:, :, :4] = np.nan
figure = benthic.pictures.grids.image_grid(
    np.concatenate([model.sample(12, seed=0), pictures[:12], model.impute(halves)])[:, 0],
    columns=12,
    rows_title=["from noise", "digit", "upper half drawn"],
)
figure

# %%
# The classical case
# ------------------
# A restricted Boltzmann machine has binary units and an energy that is linear in each of them. Its partition function
# can be counted while one side is small; annealing from both ends encloses it, also where counting ends.

digits = (load_digits().data / 16 > 0.5).astype(float)
machine = benthic.BernoulliRBM(
    12, trainer={"epochs": 40, "lr": 0.2, "batch_size": 50, "verbose": False}, random_state=0
).fit(digits)
for method in ("exact", "ais(500)", "reverse(500)"):
    print(f"log Z, {method:12} {machine.log_partition(method).value:.3f} ± {machine.log_partition(method).stderr:.3f}")
print(f"log-likelihood {machine.score(digits):.2f} nats a digit")
machine.plot()

# %%
# Half of a digit is enough to draw the other half.

holed = digits[:12].copy()
holed[:, 32:] = np.nan
halves = machine.impute(holed)
figure = benthic.pictures.grids.image_grid(
    np.concatenate([digits[:12], halves]).reshape(-1, 8, 8), columns=12, rows_title=["digit", "drawn"]
)
figure
