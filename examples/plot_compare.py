"""
Which model should I take?
==========================

One call fits models of different families on the same rows, gives each the same time, judges them on rows that none
of them saw, and says which to take and how sure that is. One of the models here is a fraud: it hands back the rows it
was given. It is found out.
"""

# %%
# One model
# ---------
# The data are points around eight spots. A model of their density takes one line. Is its likelihood a good one? Would
# another family do better, or the same in less time? One model alone cannot say.

import benthic
from benthic.data import load
from benthic.leaderboard.contest.baselines import ResampledRows

rings = load("rings_of_gaussians", n=4000).X
flow = benthic.NormalizingFlow("nsf", trainer={"seconds": 1}, random_state=0).fit(rings)
print(f"{flow.score(rings):.3f} nats a row")

# %%
# Four models
# -----------
# Any model with ``fit`` and ``sample`` may take part: those of the catalogue by name or with settings, those of
# scikit-learn, and your own. Baselines are added, so that it shows what a score is worth.

models = {
    "mixture of 16": benthic.GaussianMixture(16),
    "mixture of 3": benthic.GaussianMixture(3),
    "spline flow": benthic.NormalizingFlow("nsf"),
    "copier": ResampledRows(),  # draws the rows it was fitted on again
}
found = benthic.compare(models, rings, budget="1s", seeds=3, n_jobs=0, progress=False)
print(found)

# %%
# How sure the order is
# ---------------------
# A score of 0 is as good as other real rows, 1 as bad as the baseline. Scores, ranks and the probability of being best
# come from a bootstrap over the judged rows and the seeds, the same for all models.

from benthic.leaderboard.contest.showing import charts, gallery, maps

charts.rank_intervals(found)

# %%
# What they made
# --------------
# Rows of every model, over held-out ones in gray.

gallery.plane_samples(found)

# %%
# The densities they learned; where a model gives none, that of its rows.

maps.densities(found)

# %%
# Quality against time
# --------------------
# The dashed line joins the models that no other beats in both. The copier is not in the picture, since it does not
# rank: its rows are perfect, and nothing was learned.

charts.quality_against_time(found)

# %%
# All of this and more is in one page, ``found.report("report.html")``, and one command does the same for a file:
# ``benthic compare YOUR.csv --budget 30s``.
