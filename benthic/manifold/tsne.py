"""t-distributed stochastic neighbor embedding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import pick_device, to_tensor
from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator, seed_of
from benthic.base.settings import is_number, number, one_of, whole
from benthic.base.validation import speaking
from benthic.kernels.distances import METRICS
from benthic.kernels.neighbors import nearest
from benthic.manifold.affinities import conditional, neighbors_for, symmetric
from benthic.manifold.places import _Places
from benthic.manifold.spectrum import choose_solver, spectrum
from benthic.manifold.tsne_descent import Found, Schedule, descend
from benthic.training.callbacks import Progress
from benthic.training.intake import Intake

_METHODS = ("auto", "exact", "fft")
_INITS = ("pca", "random")
_SPREAD = 1e-4  # standard deviation of the first coordinate at the start
_LEAST_ROWS = 4  # below this every row is a neighbor of every other
_FASTER = 4.0  # times the learning rate after the exaggeration
_SETTLING = 100  # steps in which new rows find their places


class TSNE(_Places):
    r"""A map in which neighbors stay neighbors; distances between groups mean little.

    .. math:: \min_Y \sum_{ij} p_{ij} \log \frac{p_{ij}}{q_{ij}}, \qquad q_{ij} \propto (1 + \|y_i - y_j\|^2)^{-1}

    van der Maaten & Hinton, 2008. The width around each row is found by bisection, so that its neighbors have exactly
    the asked perplexity. Repulsion is summed over all pairs (up to 20 000 rows, and always on an accelerator) or
    through a grid and Fourier transforms (Linderman et al., 2019), where that is quicker.

    n_components: dimensions of the map. perplexity: how many neighbors a row has in effect; ``"auto"`` is 30, or a
    third of the other rows if that is less. early_exaggeration: attraction is stronger by this factor in the first
    ``exaggeration_iter`` steps, so that groups form.
    learning_rate: ``"auto"`` is n / early_exaggeration / 4, at least 50, and four times that once attraction is no
    longer exaggerated and longer steps are safe. max_iter: steps. min_grad_norm: stop when
    the slope is shorter. init: ``"pca"``, ``"random"`` or places (n, k). metric: as in ``benthic.kernels.pairwise``.
    method: ``"exact"``, ``"fft"`` or ``"auto"``. device: where to work, by default where the rows are. verbose: show
    progress.

    Learned: ``embedding_`` (n, k), ``kl_divergence_``, ``kl_path_`` (every 50 steps), ``n_iter_``,
    ``learning_rate_``, ``perplexity_``. New rows settle among the old ones, which stay.

    >>> X = np.concatenate([np.random.default_rng(i).normal(size=(40, 5)) + 10 * i for i in range(2)])
    >>> Y = TSNE(perplexity=10, max_iter=300, random_state=0).fit_transform(X)
    >>> bool(np.linalg.norm(Y[:40].mean(0) - Y[40:].mean(0)) > Y[:40].std())
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        perplexity: float | str = "auto",
        early_exaggeration: float = 12.0,
        exaggeration_iter: int = 250,
        learning_rate: float | str = "auto",
        max_iter: int = 1000,
        min_grad_norm: float = 1e-7,
        init: Any = "pca",
        metric: Any = "euclidean",
        method: str = "auto",
        device: Any = "auto",
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.early_exaggeration = early_exaggeration
        self.exaggeration_iter = exaggeration_iter
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.min_grad_norm = min_grad_norm
        self.init = init
        self.metric = metric
        self.method = method
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the map of rows ``X`` (n, d). y: ignored; for a file, a column to leave out."""
        with speaking(self, "fit"):
            self._check_settings()
        intake = Intake(self, X, y if isinstance(X, (str, Path)) else None)
        rows, origin = intake.sample(intake.rows, 0).X, intake.origin
        device = pick_device(self.device, rows)
        rows = (rows if rows.dtype == torch.float64 else rows.float()).to(device)
        with speaking(self, "fit"):
            self._check_rows(len(rows))
            found = self._descended(rows, self._start(rows))
        origin = replace(origin, dtype=origin.dtype if origin.dtype == "float64" else "float32")
        self.embedding_ = origin.mirror(found.places.to(rows.dtype))
        self._rows, self._places = rows.cpu(), found.places.cpu()
        self.kl_divergence_, self.kl_path_ = found.divergence, np.array(found.path)
        self.n_iter_, self.learning_rate_ = found.steps, self._schedule(len(rows)).rate
        self._n_features_out = self.n_components
        return self

    def _descended(self, rows: Tensor, start: Tensor) -> Found:
        if len(rows) < _LEAST_ROWS:  # any places are as good as others
            self.perplexity_ = 1.0
            return Found(start, 0.0, [0.0], 1)
        perplexity: Any = self.perplexity
        self.perplexity_ = float(min(30.0, (len(rows) - 1) / 3) if perplexity == "auto" else perplexity)
        index, probability = self._neighbors(rows, None)[1:]
        progress = Progress("TSNE", self.verbose)
        try:
            return descend(start, symmetric(index, probability), self._schedule(len(rows)), self.method, progress)
        finally:
            progress.close()

    def _neighbors(self, rows: Tensor, fitted: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Distances to neighbors (n, k), which they are, and their probabilities."""
        count = neighbors_for(self.perplexity_, len(rows) if fitted is None else len(fitted) + 1)
        apart, index = nearest(rows, fitted, k=count, metric=self.metric)
        return apart, index, conditional(apart.square(), self.perplexity_)

    def _schedule(self, n: int) -> Schedule:
        rate, faster = self.learning_rate, 1.0
        if rate == "auto":
            rate, faster = max(n / self.early_exaggeration / 4, 50.0), min(_FASTER, self.early_exaggeration)
        early = min(self.exaggeration_iter, self.max_iter)
        rates = float(rate), float(rate) * faster
        return Schedule(*rates, self.early_exaggeration, early, self.max_iter, self.min_grad_norm)

    def _start(self, rows: Tensor) -> Tensor:
        """Places (n, k) to begin with, in float32."""
        n, k = len(rows), self.n_components
        if not isinstance(self.init, str):
            given = to_tensor(self.init, "init")[0].float()
            if given.shape != (n, k):
                raise InvalidInput(f"init has shape {tuple(given.shape)}; expected ({n}, {k})")
            return given.to(rows.device)
        noise = torch.randn(n, k, generator=generator(seed_of(self.random_state), "tsne"))
        if self.init == "random" or rows.shape[1] < k:
            return (_SPREAD * noise).to(rows.device)
        found = spectrum(rows, choose_solver(*rows.shape, k), k, seed_of(self.random_state))
        codes = (rows.double() - found.mean) @ found.directions[:k].T
        return (codes / codes[:, 0].std(correction=0).clamp(min=1e-300) * _SPREAD).float()

    # -- settings ------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        for name, least in (("n_components", 1), ("max_iter", 1), ("exaggeration_iter", 0)):
            whole(name, getattr(self, name), least)
        for name, least in (("perplexity", 0), ("early_exaggeration", 1), ("min_grad_norm", 0)):
            value = getattr(self, name)
            if name != "perplexity" or value != "auto":
                number(name, value, least, ends="[]")
        pick_device(self.device)
        rate = self.learning_rate
        if rate != "auto" and (not is_number(rate) or not rate > 0):
            raise InvalidInput(f"learning_rate is {rate!r}; use 'auto' or a positive number")
        for name, known in (("method", _METHODS), ("init", _INITS), ("metric", METRICS)):
            value = getattr(self, name)
            if isinstance(value, str):
                one_of(name, value, known)

    def _check_rows(self, n: int) -> None:
        wanted: Any = self.perplexity
        if wanted == "auto" or n < _LEAST_ROWS:
            return
        if wanted < 1:
            raise InvalidInput(f"perplexity is {wanted:g}; it must be at least 1")
        if wanted >= n - 1:
            raise InvalidInput(
                f"perplexity is {wanted:g} and each of the {n} rows has {n - 1} others; it must be less than {n - 1}, "
                "or 'auto'"
            )

    # -- use -----------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Places of rows among those fitted on, (n, k): each where its own divergence from its neighbors is least.

        A row that was fitted on keeps its place.
        """
        tensor, origin = self._arrive(X, "transform")
        rows = tensor.to("cpu", self._rows.dtype)
        places = self._places.double()
        if len(places) < _LEAST_ROWS:
            return origin.mirror(places[nearest(rows, self._rows, k=1, metric=self.metric)[1][:, 0]])
        apart, index, probability = self._neighbors(rows, self._rows)
        new = (probability[..., None] * places[index]).sum(1)
        step = max(1, (1 << 22) // len(places))
        settled = [
            _settle(new[a : a + step], places, index[a : a + step], probability[a : a + step])
            for a in range(0, len(new), step)
        ]
        found = torch.where((apart[:, :1] == 0), places[index[:, 0]], torch.cat(settled))
        return origin.mirror(found)

    def _merit(self) -> tuple[str, float]:
        return "divergence", self.kl_divergence_

    def _more_facts(self) -> dict[str, Any]:
        return {"perplexity": self.perplexity_, "steps": self.n_iter_}


def _settle(new: Tensor, places: Tensor, index: Tensor, probability: Tensor) -> Tensor:
    """New points (m, k) where Σ p log(p / q) over their own neighbors is least, the others fixed; by falling steps."""
    scale = float(places.std()) or 1.0
    speed, around, sizes = torch.zeros_like(new), places[index], places.square().sum(1)
    for step in range(_SETTLING):
        apart = torch.addmm(sizes, new, places.T, alpha=-2).add_(new.square().sum(1, keepdim=True))  # squared, (m, n)
        q = apart.clamp_(min=0).add_(1).reciprocal_()
        near = q.gather(1, index) * probability
        pull = (near[..., None] * (new[:, None] - around)).sum(1)
        square = q.square()
        push = (square.sum(1, keepdim=True) * new - square @ places) / q.sum(1, keepdim=True)
        speed = 0.5 * speed - (pull - push)
        length = speed.norm(dim=1, keepdim=True)
        most = scale * 0.1 * (1 - step / _SETTLING)
        new = new + speed * (most / length.clamp(min=most)).clamp(max=1.0)
    return new
