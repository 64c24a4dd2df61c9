"""
K-means: centers, their number, a picture made of few colors
============================================================

K-means puts every row to the nearest of k centers and every center in the middle of its rows, in turn. The sum of
squared distances falls with each pass and never rises.
"""

# %%
# Clusters and the way there
# --------------------------
# Starts are spread out by k-means++, so that few passes are left to do.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image, make_blobs

import benthic
from benthic.cluster import choose_clusters

X, _ = make_blobs(1500, centers=9, cluster_std=0.9, random_state=4)
model = benthic.KMeans(9, random_state=0).fit(X)
print(model.summary())
model.plot(X)

# %%
# How many?
# ---------
# Three ways to ask. The silhouette looks for groups that are tight and apart, the gap statistic compares the
# distortion with that of data without any groups, the elbow is where the curve bends.

Y, _ = make_blobs(400, centers=[[0, 0], [9, 1], [2, 8], [12, 9]], cluster_std=1.2, random_state=0)
for criterion in ("silhouette", "gap", "elbow"):
    found = choose_clusters(Y, criterion, 7, seed=0)
    print(f"{criterion:11} {found.best} clusters")
found.plot()

# %%
# A picture of sixteen colors
# ---------------------------
# The pixels of a photograph are rows of three numbers; the centers are a palette.

photo = load_sample_image("flower.jpg")[::3, ::3] / 255.0
pixels = photo.reshape(-1, 3)
few = benthic.KMeans(16, random_state=0, algorithm="minibatch", trainer={"epochs": 3, "verbose": False}).fit(pixels)
painted = few.cluster_centers_[few.predict(pixels)].reshape(photo.shape)

figure, both = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for axes, image, title in zip(both, (photo, painted), ("the photograph", "16 colors"), strict=True):
    axes.imshow(np.clip(image, 0, 1))
    axes.set(title=title, xticks=[], yticks=[])
plt.show()
