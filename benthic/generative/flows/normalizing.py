"""The normalizing flow, by many kinds of invertible maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.capabilities import Encodes, HasExactDensity, Samples, to_numpy
from benthic.base.condition import Condition, Conditional
from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator
from benthic.base.validation import speaking
from benthic.generative.flows.judging import JudgingFlowEstimator
from benthic.generative.flows.model import FlowModel
from benthic.generative.flows.picture import draw_density
from benthic.generative.latent_pictures import training_picture
from benthic.generative.vae.conditions import dimensions, parse_given
from benthic.nets.evaluate import device_of, in_blocks
from benthic.nets.noise import draw_normal
from benthic.uses.strangeness import anomaly
from benthic.uses.verbs import Uses, conditions

_where_exact: Callable[[Callable[..., Any]], Any] = available_if(lambda model: model._exact)


class NormalizingFlow(Uses, Encodes, Samples, HasExactDensity, Conditional, JudgingFlowEstimator):
    r"""Normalizing flow: a standard normal carried to the data by invertible maps whose Jacobians are known.

    .. math:: \log p(x) = \log N(T(x); 0, I) + \log\left|\det \frac{\partial T}{\partial x}\right|

    kind: the maps, one after another.

    - ``nsf`` (for tables): autoregressive rational-quadratic splines (Durkan et al., 2019);
      ``nsf_coupling``: splines in coupling layers
    - ``realnvp``: affine coupling (Dinh et al., 2017); ``glow`` (for pictures): with actnorm and learned mixing of
      columns or channels (Kingma & Dhariwal, 2018). Both, and ``nsf_coupling``, are convolutional and multi-scale on
      pictures; those whose sides cannot be halved have one scale, coupled like the squares of a checkerboard
    - ``maf``: masked autoregressive (Papamakarios et al., 2017); ``iaf``: its inverse, fast to sample from and slow to
      learn (Kingma et al., 2016); ``naf``: neural autoregressive, with monotone networks (Huang et al., 2018)
    - ``residual``: contractive residual networks (Chen et al., 2019); ``planar`` (Rezende & Mohamed, 2015);
      ``cnf``: the maps of ``ContinuousFlow``, whose field sees the condition at every time; on pictures the field is
      convolutional, and probes estimate the trace in training, in ``elbo`` and where gaps are filled (elsewhere the
      trace is exact, which takes long with many pixels)
    - or a ``Transform`` of ``benthic.nets.invertible``, which stays out of model files

    hidden_layer_sizes, activation: of the networks inside. transforms: how many maps, on pictures for each scale.
    bins, bound: of splines, and their interval in standard units. scales, channels: of pictures.
    condition: None, ``labels`` or ``vectors`` that come as ``y`` and later as ``given``.
    columns: column name (or number) -> ``real``, ``positive`` (its logarithm is learned), (low, high) (its logit is),
    or ``discrete`` (a grid, read from the data). In frames whole numbers, booleans and categories are discrete anyway.
    dequantize: noise that fills the steps of grids, ``uniform`` or ``variational``, a learned one (Ho et al., 2019);
    None for pictures whose pixels are numbers. levels: of pixels, 0 .. levels - 1, or as many between 0 and 1.
    trainer: a ``Trainer`` or dict; if it names no budget there is one update for every 5 rows, 200 to 4000 of them.

    ``log_prob`` and ``likelihood`` are exact densities in the units of the data. With discrete columns ``likelihood``
    is a lower bound on their probability, ``elbo`` or the tighter ``importance(k)``, with measure ``mass`` if all are
    discrete, and ``bits_per_dimension`` takes it as it is (``level=1``); ``log_prob`` is absent then. Of a flow with
    labels, all verbs without ``given`` sum or draw them. Gaps are filled by Metropolis moves of rows and of codes.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    >>> model = NormalizingFlow("maf", transforms=2, trainer={"steps": 50}, random_state=0).fit(X)
    >>> model.sample(4).shape, model.log_prob(X).shape
    ((4, 2), (300,))
    >>> bool(np.abs(model.decode(model.encode(X)) - X).max() < 1e-6)
    True
    """

    invertible = True
    defaults = {"lr": 3e-3, "optimizer": "adam", "schedule": "cosine", "batch_size": 256}

    def __init__(
        self,
        kind: Any = "auto",
        *,
        hidden_layer_sizes: Sequence[int] = (64, 64),
        activation: str = "relu",
        transforms: int | None = None,
        bins: int = 8,
        bound: float = 5.0,
        scales: int | None = None,
        channels: int = 64,
        condition: str | None = None,
        columns: Mapping[Any, Any] | None = None,
        dequantize: str | None = "uniform",
        levels: int = 256,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.kind = kind
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.transforms = transforms
        self.bins = bins
        self.bound = bound
        self.scales = scales
        self.channels = channels
        self.condition = condition
        self.columns = columns
        self.dequantize = dequantize
        self.levels = levels
        self.trainer = trainer
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or pictures ``X`` (array, frame, path or source); ``y``: conditions, where there are any."""
        with self._session(X) as session:
            self._learn(X, y, session)
        return self

    # -- codes -------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _encode(self, X: Tensor, c: Tensor | None = None) -> Tensor:
        with speaking(self, "encode"):
            self.columns_.check(X)
        network = self._network(X)
        rows, _ = self._rows_ready(X, network)
        c = self._best_label(X, rows, network) if c is None else c
        return self._blocks(lambda y, given: network.codes(self._filled(y, network), given), rows, c).to(X.dtype)

    @staticmethod
    def _filled(rows: Tensor, network: FlowModel) -> Tensor:
        """Grids at the middle of their steps."""
        if network.dequantizer is None:
            return rows
        middle = torch.full_like(network.dequantizer.codes(rows), 0.5)
        return network.dequantizer.forward(rows, middle)[0]

    @torch.no_grad()
    def _decode(self, Z: Tensor, c: Tensor | None = None) -> Tensor:
        network = self._network(Z)
        if c is None and self.condition is not None:
            self._need_condition("decode")
            c = self._every_label(len(Z), Z)[int(np.argmax(self.class_prior_))]
        return self._data(self._emitted(Z, c, network)).to(Z.dtype)

    def _emitted(self, Z: Tensor, c: Tensor | None, network: FlowModel) -> Tensor:
        """Rows of the network for codes, with whole numbers on grids."""
        like = next(network.parameters())
        c = None if c is None else c.to(like)
        rows = self._blocks(network.numbers, Z.to(like), c)
        return rows if network.dequantizer is None else network.dequantizer.inverse(rows)

    def _best_label(self, X: Tensor, rows: Tensor, network: FlowModel) -> Tensor | None:
        if self.condition is None:
            return None
        self._need_condition("encode")
        joint = self._joint(rows, network, 1)[0]
        return self._one_hot(joint.argmax(1)).to(rows)

    def encode(self, X: Any, given: Any = None) -> Any:
        """The code of each row, (n, d): standard normal if the flow is right; of grids the middle of steps.

        given: conditions, one or one a row; without them each row's most probable label.
        """
        tensor, origin = self._arrive(X, "encode")
        c = None if given is None else self._condition(given, len(tensor), tensor, "encode")
        return origin.mirror(self._encode(tensor, c))

    def decode(self, Z: Any, given: Any = None) -> Any:
        """The example of each code; given: conditions, without them the most frequent label."""
        codes, origin = self._arrive_codes(Z, "decode")
        c = None if given is None else self._condition(given, len(codes), codes, "decode")
        return self._data_out(self._decode(codes, c), origin)

    def reconstruct(self, X: Any, given: Any = None) -> Any:
        """Each row through its code and back: itself, to rounding."""
        tensor, origin = self._arrive(X, "reconstruct")
        network = self._network(tensor)
        known = None if given is None else self._condition(given, len(tensor), tensor, "reconstruct")
        c = self._best_label(tensor, self._rows_ready(tensor, network)[0], network) if known is None else known
        return self._data_out(self._decode(self._encode(tensor, c), c), origin)

    # -- likelihood --------------------------------------------------------------------------------------

    def _log_prob(self, X: Tensor) -> Tensor:
        return self._log_values(X, None, 1)[0]

    @_where_exact
    def log_prob(self, X: Any, given: Any = None) -> Any:
        """Exact log-density of each row, (n,), given its condition if there is one; absent with discrete columns."""
        return self.likelihood(X, given=given).value

    @_where_exact
    def grad_log_prob(self, X: Any, t: Any = None, *, given: Any = None) -> Any:
        """Gradient of the log-density at each row (the Stein score), like ``X``; absent with discrete columns."""
        tensor, origin = self._arrive(X, "grad_log_prob")
        c = None if given is None else self._condition(given, len(tensor), tensor, "grad_log_prob")
        if c is None and self.condition is not None:
            self._need_condition("grad_log_prob")
        with speaking(self, "grad_log_prob"), torch.enable_grad():
            self.columns_.check(tensor)
            leaf = tensor.detach().clone().requires_grad_()
            (gradient,) = torch.autograd.grad(self._log_values(leaf, c, 1).sum(), leaf)
        event = getattr(self, "_event_shape", None)
        return origin.mirror(gradient if event is None else gradient.reshape(-1, *event))

    def likelihood(self, X: Any, method: str | None = None, *, given: Any = None) -> Likelihood:
        """Log-likelihood of each row, with how it was obtained.

        method: None or ``exact``; with discrete columns ``elbo``, ``elbo(k)`` or ``importance(k)``, k draws of noise.
        given: conditions, one or one a row; without them labels are summed out.
        """
        tensor, origin = self._arrive(X, "likelihood")
        c = None if given is None else self._condition(given, len(tensor), tensor, "likelihood")
        with speaking(self, "likelihood"), torch.no_grad():
            self.columns_.check(tensor)
            found = self._judged(tensor, c, method)
        return replace(found, value=origin.mirror(found.value), stderr=origin.mirror(found.stderr))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood per row in nats; with conditions ``y`` that of the rows given them."""
        if y is None:
            self._need_condition("score", "score(X, vectors)")
        return self.likelihood(X, given=y if self.condition is not None else None).mean()

    def anomaly(self, X: Any, given: Any = None, *, kind: str | None = None, reference: Any = None) -> Any:
        """How strange each row is, (n,): its negative log-likelihood, given its condition if that is known.

        kind: ``log_prob``, that; ``typicality`` or ``reconstruction``. reference: rows known to be good (see
        ``benthic.uses.anomaly``).
        """
        check_is_fitted(self)
        if given is None:
            self._need_condition("anomaly")
        return anomaly(self, X, kind, reference=reference, given=given)

    @property
    def condition_(self) -> Condition:
        """What ``y`` of ``fit`` was; vectors are needed everywhere, labels are summed out or drawn."""
        check_is_fitted(self)
        if self.condition is None:
            return Condition()
        if self.condition == "labels":
            return Condition("labels", tuple(self.classes_.tolist()))
        return Condition("vectors", width=self._conditions(), needed=True)

    # -- samples -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new examples.

        given: rows with NaN (one or ``n``) whose gaps are drawn given the rest; of a conditional flow labels or
        vectors, one or ``n``, or a dict ``{"y": conditions, "X": rows}``.
        """
        self._check_draws(n)
        noise = generator(self._sampling_seed(seed), "sample")
        with speaking(self, "sample"):
            if self.condition is None and given is not None and not isinstance(given, dict) and dimensions(given) < 2:
                raise InvalidInput(
                    "given is not rows (1 or n, columns), and the flow was fitted without conditions; "
                    "pass rows with NaN in their gaps, or set condition and fit(X, y)"
                )
            known = parse_given(given if self.condition or isinstance(given, dict) else self._as_rows(given), "labels")
            if self.condition == "vectors" and not isinstance(given, dict):
                known = parse_given(given, "vectors")
        wide = torch.float64 if self._fit_origin.dtype == "float64" else torch.float32
        like = torch.empty(0, dtype=wide)
        c = None if known.y is None else self._condition(known.y, n, like, "sample")
        if known.X is not None:
            return self._sample_gaps(known.X, n, c, noise)
        if c is None and self.condition is not None:
            c = self._drawn_labels(n, noise, like)
        z = draw_normal((n, self.columns_.size), like, noise)
        return self._data_out(self._data(self._emitted(z, c, self._network(like))).to(wide))

    @staticmethod
    def _as_rows(given: Any) -> Any:
        return None if given is None else {"X": given}

    def _drawn_labels(self, n: int, noise: torch.Generator, like: Tensor) -> Tensor:
        self._need_condition("sample")
        codes = torch.multinomial(torch.as_tensor(self.class_prior_), n, replacement=True, generator=noise)
        return self._one_hot(codes).to(device_of(self.network_), like.dtype)

    def _sample_gaps(self, X: Any, n: int, c: Tensor | None, noise: torch.Generator) -> Any:
        if c is None:
            self._need_condition("sample", "sample(n, given={'y': vectors, 'X': rows})")
        rows, origin = self._arrive(X, "sample", missing=True)
        with speaking(self, "sample"):
            self.columns_.check(rows)
            rows = conditions(rows, n)
        drawn = self._fill(rows, noise, c).draw.to(rows)
        rows = torch.where(torch.isnan(rows), drawn, rows)
        return self._data_out(rows, replace(origin, index=None))  # new rows have no labels

    def impute(self, X: Any, given: Any = None) -> Any:
        """``X`` with every NaN replaced by its expectation given the rest of its row, and its condition if known."""
        tensor, origin = self._arrive(X, "impute", missing=True)
        gaps = torch.isnan(tensor)
        if not bool(gaps.any()):
            return self._data_out(tensor, origin)
        with speaking(self, "impute"):
            self.columns_.check(tensor)
        return self._data_out(torch.where(gaps, self._impute(tensor, given).to(tensor), tensor), origin)

    def _impute(self, X: Tensor, given: Any = None) -> Tensor:
        return self._expected(X, None if given is None else self._condition(given, len(X), X, "impute"))

    # -- words and pictures --------------------------------------------------------------------------------

    def plot(self, X: Any = None) -> Any:
        """The density of two columns as a map, of one as a curve; of pictures samples beside the loss; else the loss.

        X: rows to show over the density, instead of samples.
        """
        check_is_fitted(self)
        if self._picture is not None:
            return training_picture(self, X, samples=self.condition != "vectors")
        if self.columns_.width > 2 or not self._exact or self.condition == "vectors":
            return super().plot()
        points = self.sample(500, seed=0) if X is None else X
        points, _ = self._arrive(points, "plot")

        def log_density(grid: np.ndarray) -> np.ndarray:
            rows = torch.as_tensor(grid, dtype=torch.float32)
            return np.asarray(to_numpy(in_blocks(self._log_prob_anywhere, rows)))

        return draw_density(log_density, to_numpy(points.double()), "samples" if X is None else "rows")

    def _log_prob_anywhere(self, X: Tensor) -> Tensor:
        """Minus infinity where a column cannot be."""
        return self._log_prob(X).nan_to_num(nan=-math.inf, neginf=-math.inf, posinf=-math.inf)
