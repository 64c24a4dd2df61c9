"""
A network for classes and one for numbers
=========================================

A fully connected network is a stack of linear maps with a nonlinearity between them. With an activation
that is not a polynomial and enough width it comes as close to any continuous function as one likes; this
example looks at how close, and at what a classifier learns about digits.
"""

# %%
# Width buys accuracy
# -------------------
# One hidden layer, growing; the target is a wave that no straight line follows.

import matplotlib.pyplot as plt
import numpy as np

import benthic

X = np.linspace(-3, 3, 400)[:, None]
y = np.sin(1.5 * X[:, 0]) * np.exp(-0.1 * X[:, 0] ** 2)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
axes[0].plot(X, y, color="black", linewidth=2, label="target")
widths, errors = [1, 2, 4, 16, 64], []
for width in widths:
    trainer = benthic.Trainer(steps=1500, lr=0.02, schedule="cosine")
    model = benthic.MLPRegressor((width,), alpha=0.0, trainer=trainer, random_state=0).fit(X, y)
    errors.append(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
    if width in (2, 16):
        axes[0].plot(X, model.predict(X), label=f"{width} hidden units")
axes[0].legend(frameon=False)
axes[1].loglog(widths, errors, "o-")
axes[1].set(xlabel="hidden units", ylabel="root mean squared error")

# %%
# Digits
# ------
# ``find_lr`` proposes a learning rate from one short run; early stopping holds some rows out and goes back
# to the best epoch.

from benthic.data import load, train_test
from benthic.training import find_lr

digits = load("digits")
X_train, X_test, y_train, y_test = train_test(digits.X, digits.y, fraction=0.3, stratify=True, seed=0)

model = benthic.MLPClassifier((64,), trainer=benthic.Trainer(epochs=60, early_stopping=8), random_state=0)
search = find_lr(model, X_train, y_train)
model.set_params(trainer__lr=search.best).fit(X_train, y_train)
print(model.summary())
print(f"held-out accuracy {model.score(X_test, y_test):.3f} with the rate {search.best:.2g}")

# %%
# The loss over training, as every network draws it:

picture = model.plot()
picture

# %%
# What it is unsure about:

probabilities = model.predict_proba(X_test)
unsure = np.argsort(probabilities.max(1))[:10]
figure, axes = plt.subplots(1, 10, figsize=(9, 1.4), layout="constrained")
for cell, i in zip(axes, unsure, strict=True):
    cell.imshow(np.asarray(X_test)[i].reshape(8, 8), cmap="gray_r")
    cell.set_title(f"{model.classes_[probabilities[i].argmax()]}? ({y_test[i]})", fontsize="small")
    cell.set_axis_off()
plt.show()
