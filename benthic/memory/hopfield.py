"""The Hopfield network as an estimator: patterns in, recall out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from benthic.base.capabilities import Encodes
from benthic.base.errors import InvalidInput, nearest
from benthic.base.estimator import Estimator
from benthic.base.seeds import seed_of
from benthic.base.settings import one_of, whole
from benthic.base.validation import speaking
from benthic.memory.limits import capacity
from benthic.memory.network import DYNAMICS, STORAGE, Recall, energy, recall, store
from benthic.training.intake import Intake


class Hopfield(Encodes, Estimator):
    r"""An associative memory: patterns become valleys of an energy, and recall runs down into them.

    .. math:: E(x) = -\tfrac{1}{2} x^\top W x + b^\top x, \qquad
        x_i \leftarrow \operatorname{sign}\bigl(\textstyle\sum_j W_{ij} x_j - b_i\bigr)

    Hopfield, 1982. A cell above its threshold is 1, any other -1, so that patterns of 1 and -1, of 1 and 0 and of
    booleans are taken as they are, and numbers are cut in two. ``transform`` gives the recalled states of 1 and -1,
    ``inverse_transform`` puts states into the units of the data, ``reconstruct`` recalls in these units, and ``impute``
    completes cells that are NaN while the others stay.

    storage: ``"hebbian"``, :math:`W = (\sum x x^\top - n I) / d`, or ``"pseudo-inverse"``, the projection onto the
    patterns without its diagonal, which keeps patterns that are alike. dynamics: ``"asynchronous"`` or
    ``"synchronous"``. threshold: a number, numbers (d,), or ``"median"`` of each column. bias: None, a number or
    numbers (d,), the b above. max_sweeps: visits of every unit. random_state: decides the order of the units, which is
    the same for all rows.

    weights_: (d, d). patterns_: (n, d) of 1 and -1. levels_: (2, d) what -1 and 1 stand for: the two values of the
    data, or the means of a column below and above its threshold. threshold_, bias_: (d,).

    >>> memory = Hopfield().fit([[1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 0, 1]])
    >>> memory.reconstruct([[1, 1, 1, 0, 0, 1]])
    array([[1., 1., 1., 0., 0., 0.]])
    >>> memory.impute([[0, 1, 0, 1, np.nan, np.nan]])
    array([[0., 1., 0., 1., 0., 1.]])
    """

    def __init__(
        self,
        storage: str = "hebbian",
        *,
        dynamics: str = "asynchronous",
        threshold: Any = 0.0,
        bias: Any = None,
        max_sweeps: int = 100,
        random_state: Any = None,
    ) -> None:
        self.storage = storage
        self.dynamics = dynamics
        self.threshold = threshold
        self.bias = bias
        self.max_sweeps = max_sweeps
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the rows of X (n, d), or of a file, as patterns."""
        with speaking(self, "fit"):
            self._check_settings()
        before = dict(self.__dict__)
        try:
            intake = Intake(self, X, None)
            rows = (intake.data or intake.sample(intake.rows, 0)).X
            with speaking(self, "fit"):
                self._keep(rows.double().cpu(), fresh=True)
        except (ValueError, TypeError):
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Store more patterns; thresholds and levels stay as the first rows set them."""
        with speaking(self, "partial_fit"):
            self._check_settings()
        fresh = not hasattr(self, "patterns_")
        rows, _ = self._arrive(X, "partial_fit", reset=fresh)
        with speaking(self, "partial_fit"):
            self._keep(rows.double().cpu(), fresh)
        return self

    def _check_settings(self) -> None:
        for name, known in (("storage", STORAGE), ("dynamics", DYNAMICS)):
            one_of(name, getattr(self, name), known)
        whole("max_sweeps", self.max_sweeps)
        if isinstance(self.threshold, str) and self.threshold != "median":
            hint = nearest(self.threshold, ("median",))
            raise InvalidInput(f"threshold is {self.threshold!r}{hint}; use a number, numbers (d,) or 'median'")

    def _numbers(self, name: str, value: Any, width: int) -> np.ndarray:
        """A setting that is one number or one for each column, as (d,)."""
        try:
            values = np.asarray(value, dtype=float)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{name} is {value!r}; use a number or numbers ({width},)") from error
        if values.ndim > 1 or values.size not in (1, width) or not np.isfinite(values).all():
            raise InvalidInput(f"{name} has shape {values.shape}; use finite numbers, one or ({width},)")
        return np.broadcast_to(values.reshape(-1), (width,)).copy()

    def _keep(self, rows: Tensor, fresh: bool) -> None:
        width = rows.shape[1]
        bias = self._numbers("bias", 0.0 if self.bias is None else self.bias, width)
        if fresh:
            median = isinstance(self.threshold, str)
            cut = rows.quantile(0.5, 0).numpy() if median else self._numbers("threshold", self.threshold, width)
            self.threshold_, self.seed_ = cut, seed_of(self.random_state)
        states = self._signs(rows)
        if fresh:
            self.levels_ = _levels(rows.numpy(), states.numpy() > 0)
        else:
            states = torch.cat([torch.as_tensor(self.patterns_).double(), states])
        self.bias_, self._n_features_out = bias, width
        self.weights_ = store(states, self.storage).numpy()
        self.patterns_ = states.to(torch.int8).numpy()

    def _signs(self, X: Tensor) -> Tensor:
        cut = torch.as_tensor(self.threshold_).to(X.device, torch.float64)
        return torch.where(X.double() > cut, 1.0, -1.0).double()

    # -- recall ----------------------------------------------------------------------------------------

    def _run(self, states: Tensor, weights: Tensor | None = None) -> Recall:
        W = torch.as_tensor(self.weights_).to(states) if weights is None else weights
        bias = torch.as_tensor(self.bias_).to(states)
        return recall(states, W, bias, dynamics=self.dynamics, max_sweeps=int(self.max_sweeps), seed=self.seed_)

    def recall(self, X: Any) -> Recall:
        """Recall with its trace: states (n, d), energies (sweeps + 1, n) and whether each row came to rest."""
        tensor, origin = self._arrive(X, "recall")
        return Recall(*(origin.mirror(part) for part in self._run(self._signs(tensor))))

    def _encode(self, X: Tensor) -> Tensor:
        return self._run(self._signs(X)).state

    def _decode(self, Z: Tensor) -> Tensor:
        low, high = torch.as_tensor(self.levels_).to(Z.device, torch.float64)
        return torch.where(Z > 0, high, low)

    def impute(self, X: Any) -> Any:
        """``X`` with every NaN replaced by what recall makes of it, while the cells that are known are held.

        A missing unit starts with the sign of the field that the known units exert on it, and of 1 where that is 0.
        """
        tensor, origin = self._arrive(X, "impute", missing=True)
        gaps = torch.isnan(tensor)
        states = torch.where(gaps, 0.0, self._signs(tensor))
        W, bias = (torch.as_tensor(part).to(states) for part in (self.weights_, self.bias_))
        states = torch.where(gaps, torch.where(states @ W - bias >= 0, 1.0, -1.0), states).double()
        for row in torch.nonzero(gaps.any(1)).squeeze(1).tolist():
            states[row] = self._complete(states[row], gaps[row], W, bias)
        return self._data_out(torch.where(gaps, self._decode(states).to(tensor), tensor), origin)

    def _complete(self, state: Tensor, gaps: Tensor, W: Tensor, bias: Tensor) -> Tensor:
        """Recall of the missing units alone: the known ones are part of their bias."""
        known = ~gaps
        pull = bias[gaps] - W[gaps][:, known] @ state[known]
        settings = {"dynamics": self.dynamics, "max_sweeps": int(self.max_sweeps), "seed": self.seed_}
        state = state.clone()
        state[gaps] = recall(state[gaps][None], W[gaps][:, gaps], pull, **settings).state[0]
        return state

    # -- what is stored --------------------------------------------------------------------------------

    def energy(self, X: Any) -> Any:
        """The energy of each row (n,), cut at the thresholds."""
        tensor, origin = self._arrive(X, "energy")
        states = self._signs(tensor)
        return origin.mirror(energy(states, *(torch.as_tensor(p).to(states) for p in (self.weights_, self.bias_))))

    def cross_talk(self) -> np.ndarray:
        r"""What the other patterns add to the field of each stored bit (n, d), against it.

        .. math:: C_i^\mu = -x_i^\mu \frac{1}{d} \sum_{\nu \ne \mu} \sum_{j \ne i} x_i^\nu x_j^\nu x_j^\mu

        A bit is stable where this is below :math:`(d - 1) / d`, the field of its own pattern. For the pseudo-inverse
        the own field is :math:`1 - P_{ii}` and the cross-talk of independent patterns is 0.
        """
        states = self.patterns_.astype(float)
        return self._own() - states * (states @ self.weights_)

    def _own(self) -> np.ndarray:
        """(d,) the field of a stored bit's own pattern."""
        d = self.patterns_.shape[1]
        if self.storage == "hebbian":
            return np.full(d, (d - 1) / d)
        states = torch.as_tensor(self.patterns_).double()
        _, s, V = torch.linalg.svd(states, full_matrices=False)
        basis = V[s > s[0] * max(states.shape) * torch.finfo(states.dtype).eps * 4]
        return (1 - basis.square().sum(0)).numpy()

    def _facts(self) -> dict[str, Any]:
        n, d = self.patterns_.shape
        limits = capacity(d) if d > 1 else {"retrieval": 0.0, "perfect": 0.0}
        kept = torch.as_tensor(self.patterns_).double()
        field = kept * (kept @ torch.as_tensor(self.weights_) - torch.as_tensor(self.bias_))
        talk = self.cross_talk()
        return {
            "patterns": n,
            "storage": f"{self.storage}, {self.dynamics} recall",
            "load": f"{n / d:.3g} patterns for each unit",
            "capacity (Hebb)": f"{limits['retrieval']:.3g} at 1.6 % wrong bits, {limits['perfect']:.3g} without",
            "cross-talk": f"mean {talk.mean():.3g}, largest {talk.max():.3g}",
            "unstable bits": f"{float((field < -1e-12).double().mean()):.2%}",
        }

    def plot(self) -> Any:
        """The weights, the cross-talk of the stored bits beside its limit, and the energies of the patterns."""
        from sklearn.utils.validation import check_is_fitted

        from benthic.memory.picture import plot_memory

        check_is_fitted(self)
        kept = torch.as_tensor(self.patterns_).double()
        energies = energy(kept, torch.as_tensor(self.weights_), torch.as_tensor(self.bias_))
        n, d = self.patterns_.shape
        return plot_memory(
            self.weights_,
            self.cross_talk(),
            self._own(),
            energies.numpy(),
            f"{n} patterns in {d} units, {self.storage}",
        )


def _levels(rows: np.ndarray, above: np.ndarray) -> np.ndarray:
    """(2, d) what the two states stand for in each column."""
    values = np.unique(rows)
    if len(values) <= 2 and set(values.tolist()) <= {-1.0, 0.0, 1.0}:
        low = -1.0 if values[0] == -1.0 else 0.0
        return np.stack([np.full(rows.shape[1], low), np.ones(rows.shape[1])])
    counts = np.stack([(~above).sum(0), above.sum(0)])
    sums = np.stack([np.where(above, 0.0, rows).sum(0), np.where(above, rows, 0.0).sum(0)])
    means = sums / np.maximum(counts, 1)
    # A column that lies on one side of its threshold has one level.
    return np.where(counts > 0, means, means[::-1])
