"""
Autoregression: cycles, forecasts and gaps in series
====================================================

Every step is a linear function of the last ones plus a shock. From that alone follow forecasts with exact intervals,
the likelihood of a series, and what a gap held.
"""

# %%
# The lynx of the Mackenzie River
# -------------------------------
# Furs bought each year from 1821 to 1934 (Elton & Nicholson, 1942). In logarithms the numbers rise and fall smoothly.
# How many past years matter? Akaike's criterion pays for a better fit with two for each number learned, Schwarz's
# with the logarithm of the number of years, and is content with fewer.

import matplotlib.pyplot as plt
import numpy as np

import benthic

lynx = """269 321 585 871 1475 2821 3928 5943 4950 2577 523 98 184 279 409 2285 2685 3409 1824 409 151 45 68 213 546
1033 2129 2536 957 361 377 225 360 731 1638 2725 2871 2119 684 299 236 245 552 1623 3311 6721 4254 687 255 473 358 784
1594 1676 2251 1426 756 299 201 229 469 736 2042 2811 4431 2511 389 73 39 49 59 188 377 1292 4031 3495 587 105 153 387
758 1307 3465 6991 6313 3794 1836 345 382 808 1388 2713 3800 3091 2985 3790 374 81 80 108 229 399 1132 2432 3574 2935
1537 529 485 662 1000 1590 2657 3396"""
y = np.log10(np.array(lynx.split(), dtype=float))

models = {name: benthic.AutoRegressive(name, max_order=14).fit([y[:100]]) for name in ("aic", "bic")}
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for name, model in models.items():
    values = model.criteria_[name]
    axes.plot(values, marker="o", markersize=3, label=f"{name.upper()}: order {model.order_}")
axes.set(xlabel="order", ylabel="criterion")
axes.legend(frameon=False)
plt.show()

# %%
# Fourteen years ahead
# --------------------
# The last fourteen years were kept back. Half of the years should fall into the inner band, nine of ten into the
# outer one. The cycle of about ten years is a pair of complex modes near the unit circle: its angle is the period.

model = models["aic"]
print(model.summary())
turning = model.modes_[model.modes_.imag > 0]
strongest = turning[np.abs(turning).argmax()]
print(f"strongest cycle: {2 * np.pi / np.angle(strongest):.1f} years, shrinking by {1 - abs(strongest):.1%} a year")

years = np.arange(1821, 1935)
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.plot(years[50:100], y[50:100], color="0.3")
for level, shade in ((0.9, "#d3e3f1"), (0.5, "#9fc5e2")):
    low, high = model.forecast_interval(14, level)[0].T
    axes.fill_between(years[100:], low, high, color=shade, label=f"{level:.0%}")
axes.plot(years[100:], model.forecast(14)[0], color="C0", label="expected")
axes.plot(years[100:], y[100:], "o-", color="C3", markersize=3, label="what came")
axes.set(ylabel="lynx (log10)")
axes.legend(frameon=False, ncols=4, fontsize="small")
plt.show()

# %%
# Gaps
# ----
# A quarter of the years is deleted, once six in a row. Kalman's filter sums over what they may have been, and its
# smoother fills them from both sides.

holed = y.copy()
rng = np.random.default_rng(1)
holed[rng.random(114) < 0.2] = np.nan
holed[40:46] = np.nan
filled = model.impute([holed])[0]
gone = np.isnan(holed)
error = np.sqrt(np.mean((filled - y)[gone] ** 2))
print(f"root mean squared error in gaps: {error:.2f}, spread of the data {y.std():.2f}")
figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
axes.plot(years, y, color="0.8", linewidth=3, label="all years")
axes.plot(years, holed, "o-", color="0.2", markersize=3, linewidth=1, label="seen")
axes.plot(years[gone], filled[gone], "o", color="C1", markersize=4, label="filled in")
axes.legend(frameon=False, ncols=3, fontsize="small")
plt.show()

# %%
# Two series that chase each other
# --------------------------------
# With more than one number a step the coefficients are matrices. A shock to the prey now shows in the predators
# later; forecasts of both share one fan.

rng = np.random.default_rng(0)
pair = np.zeros((400, 2))
turn = np.array([[0.92, -0.3], [0.25, 0.9]])
for t in range(1, 400):
    pair[t] = turn @ pair[t - 1] + rng.normal(scale=(0.3, 0.15))
both = benthic.AutoRegressive("bic").fit([pair])
print(both.coefficients_.round(2))
both.plot(h=30)
