"""The continuous normalizing flow."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from benthic.base.capabilities import Encodes, HasExactDensity, Samples, to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator
from benthic.base.settings import is_number, is_whole, number, one_of, sizes, whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.dynamics import SolveError
from benthic.generative.flows.gaps import Moments, fill_gaps
from benthic.generative.flows.network import FlowNetwork, log_normal, rademacher
from benthic.generative.flows.picture import draw_density
from benthic.nets.evaluate import device_of, in_blocks, in_type
from benthic.nets.field import TimeField, curve
from benthic.nets.noise import draw_normal
from benthic.training.intake import Intake
from benthic.training.network import NetworkEstimator, scales_of, training_dtype
from benthic.training.trainer import Trainer
from benthic.uses.latent import Filled
from benthic.uses.verbs import Uses

DIVERGENCES = ("auto", "exact", "hutchinson")
CONTROLLED = ("bogacki_shampine", "dormand_prince", "tsitouras", "heun")  # know their own error
METHODS = (*CONTROLLED, "rk4", "midpoint", "euler")
_EXACT_COLUMNS = 16  # with deeper fields, up to so many columns the exact trace is affordable
_PROBES = 16
_ROWS_AN_UPDATE, _LEAST_UPDATES, _MOST_UPDATES = 5, 100, 3000
_BLOCK = 1 << 13  # rows solved at once
_GRADIENT_BLOCK = 1 << 8  # rows whose steps are all kept
_MOMENT_DRAWS = 1024
_IMPUTE_CHAINS = 16
_COARSE = 1e-3  # tolerance of log-densities that only choose among candidates for a gap, or color a picture


def _with_updates(trainer: Trainer, rows: int) -> Trainer:
    """The trainer with a budget that grows with the data."""
    if trainer.limited:
        return trainer
    return replace(trainer, steps=min(max(rows // _ROWS_AN_UPDATE, _LEAST_UPDATES), _MOST_UPDATES))


_with_exact_trace: Callable[[Callable[..., Any]], Any] = available_if(lambda model: model._exact)


class ContinuousFlow(Uses, Encodes, Samples, HasExactDensity, NetworkEstimator):
    r"""Continuous normalizing flow: a standard normal carried to the data by a learned field.

    .. math:: \dot z = f(t, z), \quad z(0) \sim N(0, I), \quad x = z(1), \qquad
              \log p(x) = \log N(z(0)) - \int_0^1 \operatorname{tr} \frac{\partial f}{\partial z}(t, z(t))\, dt

    Chen et al., 2018; Hutchinson's estimate of the trace as in Grathwohl et al., 2019; the penalty on kinetic energy
    of Finlay et al., 2020. Columns are standardized inside, densities are in the units of the data.

    hidden_layer_sizes: widths of the field's hidden layers. activation: ``tanh``, ``softplus`` or ``silu``;
    with the first the field is bounded, and rows far from the data do no harm.
    divergence: ``exact``, ``hutchinson`` (a random probe, fixed during a solve), or ``auto``: exact with up to two
    hidden layers, where the trace costs no more than the field, and with up to 16 columns.
    method, training_tolerance: the solver of training and the error it may make in a step, in standard deviations
    and nats. The steps fit the rows of a batch together, so batches that are split, or shared among processes, agree
    to this tolerance only.
    solver_steps: instead, a fixed number of equal steps (``rk4``, ``midpoint`` and ``euler`` need it), with which
    training keeps its pace; with too few the field learns to profit from their error, and ``score`` falls far below
    minus the training loss. rtol, atol: tolerances of the solver (Dormand & Prince) behind everything but training.
    regularization: weight of the kinetic energy ∫\|f\|² dt of the paths; more makes them straighter and the field
    easier to solve, and less prone to fit noise. trainer: a ``Trainer`` or dict; if it names no budget there is one
    update for every 5 rows, but 100 at least and 3000 at most: few rows are soon learned by heart.

    ``likelihood`` is of kind ``ode``: with the exact trace its bound is ``exact``, to the solver's tolerance, and
    ``log_prob`` gives the same; with ``method="hutchinson"`` or ``"hutchinson(k)"``, k probes a row, it is an
    unbiased ``estimate`` with its standard error. Gaps are drawn by importance resampling and Metropolis steps.
    With labels or vectors as conditions, and of pictures, it is ``NormalizingFlow("cnf", condition=...)``.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    >>> model = ContinuousFlow((16,), trainer={"steps": 50}, random_state=0).fit(X)
    >>> model.sample(4).shape, model.log_prob(X).shape
    ((4, 2), (200,))
    >>> bool(np.abs(model.decode(model.encode(X)) - X).max() < 1e-3)
    True
    """

    invertible = True
    network_: FlowNetwork
    defaults = {"lr": 1e-2, "optimizer": "adam", "schedule": "cosine", "batch_size": 256}

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (64, 64),
        *,
        activation: str = "tanh",
        divergence: str = "auto",
        method: str = "bogacki_shampine",
        training_tolerance: float = 1e-2,
        solver_steps: int | None = None,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        regularization: float = 0.01,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.divergence = divergence
        self.method = method
        self.training_tolerance = training_tolerance
        self.solver_steps = solver_steps
        self.rtol = rtol
        self.atol = atol
        self.regularization = regularization
        self.trainer = trainer
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows ``X`` (array, frame, path or source); ``y`` is ignored."""
        with self._session(X) as session:
            self._check_settings()
            intake = Intake(self, X)
            self._width = self._n_features_out = intake.width
            self.scales_ = scales_of(intake)
            session = replace(session, trainer=_with_updates(session.trainer, intake.rows))
            dtype = training_dtype(session)

            def prepare(batch: Batch) -> Batch:
                return Batch(self.scales_.transform(batch.X).to(dtype), None, batch.weight)

            try:
                self._fit_network(intake, session, self._loss, prepare)
            except SolveError as error:
                raise SolveError(
                    f"{type(self).__name__}.fit: the field became too hard to solve ({error}); lower the learning rate "
                    "of the trainer or raise regularization"
                ) from error
        return self

    def _check_settings(self) -> None:
        with speaking(self, "fit"):
            curve(self.activation)
            one_of("divergence", self.divergence, DIVERGENCES)
            one_of("method", self.method, METHODS)
            sizes("hidden_layer_sizes", self.hidden_layer_sizes)
            self._check_solver()
            number("regularization", self.regularization)

    def _check_solver(self) -> None:
        if self.solver_steps is None and self.method not in CONTROLLED:
            raise InvalidInput(
                f"method {self.method!r} does not know its own error; give solver_steps, or use {', '.join(CONTROLLED)}"
            )
        whole("solver_steps", self.solver_steps, optional=True)
        tolerances = (self.rtol, self.atol, self.training_tolerance)
        if not all(is_number(value) and value > 0 for value in tolerances):
            raise InvalidInput(
                f"rtol is {self.rtol}, atol {self.atol} and training_tolerance {self.training_tolerance}; "
                "tolerances must be positive"
            )

    @property
    def _hidden(self) -> tuple[int, ...]:
        return sizes("hidden_layer_sizes", self.hidden_layer_sizes)

    @property
    def _exact(self) -> bool:
        """Whether the trace is summed exactly."""
        if self.divergence != "auto":
            return self.divergence == "exact"
        return len(self._hidden) <= 2 or getattr(self, "_width", 0) <= _EXACT_COLUMNS

    def _loss(self, network: Callable[..., Tensor], batch: Batch) -> Tensor:
        losses = network(batch.X, self.regularization)
        return losses.sum() if batch.weight is None else (losses * batch.weight).sum()

    def _build_network(self, name: str) -> nn.Module:
        field = TimeField(self._width, self._hidden, self.activation)
        return FlowNetwork(
            field,
            exact=self._exact,
            method=self.method,
            steps=self.solver_steps,
            tolerance=self.training_tolerance,
        )

    # -- codes -----------------------------------------------------------------------------------------

    def _encode(self, X: Tensor) -> Tensor:
        return self._evaluate(lambda network, rows: self._carry(network, self.scales_.transform(rows), 1.0, 0.0), X)

    def _decode(self, Z: Tensor) -> Tensor:
        return self._evaluate(lambda network, codes: self.scales_.inverse(self._carry(network, codes, 0.0, 1.0)), Z)

    def _carry(self, network: FlowNetwork, points: Tensor, *times: float) -> Tensor:
        return network.carry(points, times, self.rtol, self.atol)[-1]

    @torch.no_grad()
    def paths(self, Z: Any, times: Any = 9) -> Any:
        """How codes become examples: where each lies at some times, (m, n, d), in the units of the data.

        Z: (n, d) codes, for instance of ``encode``. times: rising, from 0 (codes) to 1 (examples), or how many.
        """
        codes, origin = self._arrive_codes(Z, "paths")
        with speaking(self, "paths"):
            times = np.linspace(0, 1, times) if is_whole(times) else np.asarray(times, dtype=float)
        if times.ndim != 1 or len(times) < 2 or times[0] != 0 or times[-1] > 1 or not (np.diff(times) > 0).all():
            raise self._fail("paths", "times must rise from 0 to at most 1, two or more of them")
        network = in_type(self.network_, codes.dtype)
        states = network.carry(codes.to(device_of(network)), times.tolist(), self.rtol, self.atol)
        return origin.mirror(self.scales_.inverse(states.flatten(0, 1)).reshape(states.shape))

    # -- samples ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new examples; given: rows with NaN (one or ``n``) whose gaps are drawn given the rest."""
        self._check_draws(n)
        noise = generator(self._sampling_seed(seed), "sample")
        if given is not None:
            return self._draw_gaps(given, n, noise)
        return self._data_out(self._draw(n, noise))

    def _draw(self, n: int, noise: torch.Generator) -> Tensor:
        dtype = torch.float64 if self._fit_origin.dtype == "float64" else torch.float32
        return self._decode(draw_normal((n, self._width), torch.empty(0, dtype=dtype), noise))

    def _fill(self, X: Tensor, noise: torch.Generator, chains: int = 1) -> Filled:
        """A draw and the mean of the gaps of rows in data units."""
        network = in_type(self.network_, X.dtype)
        rows = self.scales_.transform(X.to(device_of(network)))
        codes = draw_normal((_MOMENT_DRAWS, self._width), rows, generator(0, "moments"))
        moments = Moments.of(self._carry(network, codes, 0.0, 1.0))
        tolerances = max(self.rtol, _COARSE), max(self.atol, _COARSE)
        found = fill_gaps(lambda full: network.log_density(full, *tolerances), rows, moments, noise, chains=chains)
        return Filled(*(self.scales_.inverse(part) for part in found))

    @torch.no_grad()
    def _impute(self, X: Tensor) -> Tensor:
        return self._fill(X, generator(0, "impute"), _IMPUTE_CHAINS).mean  # the same gaps, the same answer

    # -- likelihood ------------------------------------------------------------------------------------

    def _log_prob(self, X: Tensor, least: float = 0.0) -> Tensor:
        """The log-density of rows in data units, with tolerances not below ``least``."""
        network = in_type(self.network_, X.dtype)
        rows = self.scales_.transform(X.to(device_of(network)))
        tolerances = max(self.rtol, least), max(self.atol, least)
        parts = [network.log_density(block, *tolerances) for block in rows.split(_BLOCK)]
        return torch.cat(parts) + self.scales_.log_jacobian()

    @_with_exact_trace
    def log_prob(self, X: Any) -> Any:
        """Log-density of each row, (n,), to the tolerance of the solver; absent where the trace is estimated."""
        with torch.no_grad():
            return super().log_prob(X)

    def grad_log_prob(self, X: Any, t: Any = None) -> Any:
        """Gradient of the log-density at each row (the Stein score), like ``X``; by the exact trace."""
        tensor, origin = self._arrive(X, "grad_log_prob")
        parts = []
        for block in tensor.detach().split(_GRADIENT_BLOCK):
            leaf = block.clone().requires_grad_()
            with torch.enable_grad():
                parts.append(torch.autograd.grad(self._log_prob(leaf).sum(), leaf)[0])
        return origin.mirror(torch.cat(parts))

    @torch.no_grad()
    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        probes = self._parse(method)
        if not probes:
            value = self._log_prob(X)
            return Likelihood(value, torch.zeros_like(value), "ode", "exact", "density")
        network = in_type(self.network_, X.dtype)
        rows = self.scales_.transform(X.to(device_of(network)))
        noise = generator(0, "likelihood")  # fixed, so that scores can be compared
        found = torch.cat([self._estimates(network, block, probes, noise) for block in rows.split(_BLOCK // 4)])
        stderr = found.std(1) / math.sqrt(probes) if probes > 1 else torch.full_like(found[:, 0], math.nan)
        return Likelihood(found.mean(1) + self.scales_.log_jacobian(), stderr, "ode", "estimate", "density")

    def _estimates(self, network: FlowNetwork, rows: Tensor, probes: int, noise: torch.Generator) -> Tensor:
        """The log-density of standardized rows by each probe, (n, probes)."""
        signs = rademacher((probes, *rows.shape), rows, noise)
        z, change = network.backward_flow(rows, self.rtol, self.atol, signs)
        return log_normal(z)[:, None] + change

    def _parse(self, method: str | None) -> int:
        """The number of probes, 0 for the exact trace."""
        if method in (None, "ode"):
            return 0 if self._exact else _PROBES
        if method == "exact":
            return 0
        match = re.fullmatch(r"hutchinson(?:\((\d+)\))?", str(method))
        if match is None or match[1] == "0":
            raise self._fail("likelihood", f"method {method!r} is unknown; use 'exact' or 'hutchinson(k)'")
        return int(match[1] or _PROBES)

    # -- words and pictures ------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        return {"trace": "exact" if self._exact else "estimated by Hutchinson's probes", **super()._facts()}

    def plot(self, X: Any = None) -> Any:
        """The density of two columns as a map, of one as a curve; with more columns the loss over training.

        X: rows to show over the density, instead of samples.
        """
        check_is_fitted(self)
        if self._width > 2:
            return super().plot()
        points = self._draw(500, generator(0, "plot")) if X is None else self._arrive(X, "plot")[0]

        def log_density(grid: np.ndarray) -> np.ndarray:
            rows = torch.as_tensor(grid, dtype=torch.float32, device=device_of(self.network_))
            return np.asarray(to_numpy(in_blocks(lambda block: self._log_prob(block, _COARSE), rows)))

        return draw_density(log_density, to_numpy(points.double()), "samples" if X is None else "rows")
