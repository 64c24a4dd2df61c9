"""The conditional variational autoencoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn import functional as F

from benthic.base.arrays import is_tensor
from benthic.base.capabilities import Classifies
from benthic.base.condition import Condition, Conditional
from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.generative.vae.bounds import IMPORTANCE_DRAWS, bound
from benthic.generative.vae.conditions import (
    codes_of_labels,
    dimensions,
    one_or_many,
    parse_given,
    rows_of_vectors,
)
from benthic.generative.vae.estimator import VariationalEstimator
from benthic.nets.evaluate import device_of, in_type
from benthic.training.distributed import World
from benthic.training.estimator import Session
from benthic.training.intake import Intake
from benthic.training.network import scales_of
from benthic.uses.latent import Filled, fill
from benthic.uses.strangeness import anomaly
from benthic.uses.verbs import conditions as one_row_or_many

_CHAINS = 8
_ROWS = 1 << 13  # filled at once
_UNLIKELY = 1e-3  # labels less probable than this do not count in the mean of a gap


@dataclass(frozen=True)
class Fixed:
    """A latent network whose condition is set: p(x|z, c) and q(z|x, c) as functions of x and z alone."""

    network: Any
    c: Tensor

    @property
    def latent_dim(self) -> int:
        """The size of the code."""
        return int(self.network.latent_dim)

    def posterior(self, x: Tensor) -> Any:
        """q(z|x, c)."""
        return self.network.posterior(x, self.c)

    def log_prior(self, z: Tensor) -> Tensor:
        """log p(z)."""
        found: Tensor = self.network.log_prior(z)
        return found

    def log_likelihood(self, x: Tensor, z: Tensor) -> Tensor:
        """log p(x|z, c)."""
        found: Tensor = self.network.log_likelihood(x, z, self.c)
        return found

    def mean(self, z: Tensor) -> Tensor:
        """E[x|z, c]."""
        found: Tensor = self.network.mean(z, self.c)
        return found

    def emit(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """A draw of x given z and c."""
        found: Tensor = self.network.emit(z, generator, self.c)
        return found


def _has_labels(model: ConditionalVAE) -> bool:
    return model.condition == "labels"


class ConditionalVAE(Classifies, Conditional, VariationalEstimator):
    r"""Variational autoencoder of the data given a condition: a label or a vector, which both networks see.

    .. math:: \log p(x|y) \ge E_{q(z|x, y)}[\log p(x|z, y)] - KL(q(z|x, y) \,\|\, p(z))

    Kingma et al., 2014; Sohn et al., 2015.

    condition: ``labels`` (any of a few: numbers, strings, bools; they enter as one-hot rows) or ``vectors`` (rows of
    numbers, or pictures, which are flattened; they are standardized). prior: ``normal`` or ``mixture``. The other
    parameters are those of ``VAE``.

    **With labels** it is also a classifier: :math:`p(y|x) \propto p(y)\, p(x|y)`, with class frequencies p(y) and the
    importance bounds for p(x|y). Without a label, ``likelihood`` is :math:`\log \sum_y p(y)\, p(x|y)`: a sum of lower
    bounds, so a lower bound; ``encode`` and ``reconstruct`` take the most probable label; ``decode`` averages over
    labels; ``sample`` draws them; ``impute`` weighs them by p(y|what is known of the row). ``score(X, y)`` is the
    accuracy, ``score(X)`` the mean log-likelihood.

    **With vectors** p(y) is unknown, so every verb needs ``given``, and ``score(X, y)`` is the mean of log p(x|y).

    given: labels or vectors, one or one a row. In ``sample`` it may also be rows with NaN to fill: with labels, what
    has two dimensions or more is rows, and what has none or one is labels. A dict names both,
    ``given={"y": labels, "X": rows}``, and is the way to pass rows beside vectors.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0.0], [9.0]], 100, axis=0)
    >>> y = np.repeat(["low", "high"], 100)
    >>> settings = {"hidden_layer_sizes": (16,), "kl_warmup": 0.5, "trainer": {"steps": 200, "lr": 0.02}}
    >>> model = ConditionalVAE(1, **settings, random_state=0).fit(X, y)
    >>> bool(model.sample(50, given="high", seed=0).mean() > 5), model.predict(X[[0, -1]]).tolist()
    (True, ['low', 'high'])
    """

    classes_: np.ndarray

    def __init__(
        self,
        latent_dim: int = 16,
        *,
        condition: str = "labels",
        network: Any = "auto",
        hidden_layer_sizes: Sequence[int] = (256, 128),
        channels: Sequence[int] | None = None,
        activation: str = "relu",
        decoder: str = "auto",
        noise: str | float = "auto",
        noise_floor: float = 1e-3,
        levels: int = 256,
        binarize: bool = False,
        beta: float = 1.0,
        kl_warmup: float = 0.0,
        free_bits: float = 0.0,
        covariance: str = "diagonal",
        prior: str = "normal",
        prior_components: int = 100,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.condition = condition
        self.network = network
        self.hidden_layer_sizes = hidden_layer_sizes
        self.channels = channels
        self.activation = activation
        self.decoder = decoder
        self.noise = noise
        self.noise_floor = noise_floor
        self.levels = levels
        self.binarize = binarize
        self.beta = beta
        self.kl_warmup = kl_warmup
        self.free_bits = free_bits
        self.covariance = covariance
        self.prior = prior
        self.prior_components = prior_components
        self.trainer = trainer
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or images ``X`` (array, frame, path or source) and their labels or vectors ``y``."""
        with self._session(X) as session:
            labels = self._condition_is_labels()
            with speaking(self, "fit"):
                y = self._checked_condition(y, labels)
            intake = Intake(self, X, y, target="labels" if labels else "numbers")
            self.__dict__.pop("classes_", None)
            if intake.classes is not None:
                self.classes_ = intake.classes
            self._learn(intake, session)
        return self

    def _condition_is_labels(self) -> bool:
        if self.condition not in ("labels", "vectors"):
            raise self._fail("fit", f"condition is {self.condition!r}; use 'labels' or 'vectors'")
        return self.condition == "labels"

    def _checked_condition(self, y: Any, labels: bool) -> Any:
        if labels:
            shape = tuple(getattr(y, "shape", ()))
            if len(shape) > 1 and shape[1] > 1:
                raise InvalidInput(
                    f"y should be a 1d array, got an array of shape {shape} instead; condition='vectors' takes rows"
                )
        elif y is not None and not isinstance(y, (str, int)) and dimensions(y) > 1:
            y = y if is_tensor(y) else np.asarray(y)
            y = y.reshape(len(y), -1)
            y = y[:, 0] if y.shape[1] == 1 else y
        return y

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.prior == "vamp":
            raise InvalidInput("prior='vamp' has pseudo-inputs without a condition; use 'normal' or 'mixture'")

    def _enter(self, intake: Intake, session: Session) -> None:
        super()._enter(intake, session)
        if self.condition == "labels":
            self.class_prior_ = _frequencies(intake, len(self.classes_))
        else:
            self.condition_scales_ = scales_of(intake, "y")

    def _given(self, batch: Batch) -> Tensor | None:
        if batch.y is None:
            return None
        if self.condition == "labels":
            return self._one_hot(batch.y)
        return self.condition_scales_.transform(batch.y[:, None] if batch.y.ndim == 1 else batch.y)

    def _one_hot(self, codes: Tensor) -> Tensor:
        return F.one_hot(codes, len(self.classes_)).to(torch.float32)

    def _conditions(self) -> int:
        return len(self.classes_) if self.condition == "labels" else self.condition_scales_.width

    def _row_losses(self, network: Callable[..., Tensor], x: Tensor, c: Tensor | None, beta: float | Tensor) -> Tensor:
        return super()._row_losses(network, x, None if c is None else c.to(x.dtype), beta)

    def _facts(self) -> dict[str, Any]:
        what = "classes" if self.condition == "labels" else "numbers given"
        return {**super()._facts(), what: self._conditions()}

    @property
    def condition_(self) -> Condition:
        """What ``y`` of ``fit`` was; vectors are needed everywhere, labels are summed out or drawn."""
        check_is_fitted(self)
        if self.condition == "labels":
            return Condition("labels", tuple(self.classes_.tolist()))
        return Condition("vectors", width=self._conditions(), needed=True)

    # -- conditions ------------------------------------------------------------------------------------

    def _condition(self, y: Any, n: int, like: Tensor, method: str) -> Tensor:
        """What the networks are given for each of ``n`` rows, (n, conditions), where the network lies."""
        with speaking(self, method):
            if self.condition == "labels":
                found, name = self._one_hot(codes_of_labels(y, self.classes_)), "labels"
            else:
                vectors = rows_of_vectors(y, self._conditions()).to(device_of(self.network_))
                found, name = self.condition_scales_.transform(vectors), "vectors"
            return one_or_many(found, n, name).to(device_of(self.network_), like.dtype)

    def _need_condition(self, method: str) -> None:
        if self.condition == "vectors":
            raise self._fail(
                method, f"a model of vectors needs them here too: {method}(..., given=vectors), one or one a row"
            )

    def _every_label(self, n: int, like: Tensor) -> list[Tensor]:
        """The condition of ``n`` rows under each label in turn."""
        eye = torch.eye(len(self.classes_), dtype=like.dtype, device=device_of(self.network_))
        return [row.expand(n, -1) for row in eye]

    def _log_labels(self, X: Tensor, method: str) -> Tensor:
        """log p(y|x) of each label by importance bounds whose draws all rows share, (n, k)."""
        self._need_condition(method)
        with speaking(self, method):
            self.space_.check(X)
        network = in_type(self.network_, X.dtype)
        rows = self.scales_.transform(X.to(device_of(network)))
        scores = [
            bound(network, rows, "importance", IMPORTANCE_DRAWS, c, common=True)[0]
            for c in self._every_label(len(rows), rows)
        ]
        return torch.log_softmax(torch.stack(scores, 1) + self._log_prior_of_labels(rows), 1)

    def _log_prior_of_labels(self, like: Tensor) -> Tensor:
        return torch.as_tensor(np.log(self.class_prior_)).to(device_of(self.network_), like.dtype)

    def _condition_or_best(self, X: Tensor, given: Any, method: str) -> Tensor:
        if given is not None:
            return self._condition(given, len(X), X, method)
        return self._one_hot(self._log_labels(X, method).argmax(1)).to(X.dtype)

    # -- labels ----------------------------------------------------------------------------------------

    def _probabilities(self, X: Tensor) -> Tensor:
        return self._log_labels(X, "predict_proba").exp()

    @available_if(_has_labels)
    def predict_proba(self, X: Any) -> Any:
        """Probability of each label, (n, k), columns in the order of ``classes_``."""
        return super().predict_proba(X)

    @available_if(_has_labels)
    def predict(self, X: Any) -> Any:
        """The most probable label of each row."""
        return super().predict(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Without ``y`` the mean log-likelihood; with labels the accuracy, with vectors the mean of log p(x|y)."""
        if y is None:
            return self.likelihood(X).mean()
        if self.condition == "vectors":
            return self.likelihood(X, given=y).mean()
        return super().score(X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self.condition == "vectors":
            tags.estimator_type, tags.classifier_tags = None, None
        return tags

    # -- codes -----------------------------------------------------------------------------------------

    def _encode(self, X: Tensor, c: Tensor | None = None) -> Tensor:
        c = self._condition_or_best(X, None, "encode") if c is None else c
        width = X.shape[1]

        def codes(network: Any, both: Tensor) -> Tensor:
            mean: Tensor = network.posterior(self.scales_.transform(both[:, :width]), both[:, width:]).mean
            return mean

        return self._evaluate(codes, torch.cat([X.to(c.device), c], 1))

    def _decode(self, Z: Tensor, c: Tensor | None = None) -> Tensor:
        size = self.latent_dim

        def data(network: Any, both: Tensor) -> Tensor:
            return self.scales_.inverse(network.mean(both[:, :size], both[:, size:]))

        if c is not None:
            return self._evaluate(data, torch.cat([Z.to(c.device), c], 1))
        self._need_condition("decode")
        labels = self._every_label(len(Z), Z)
        means = [self._evaluate(data, torch.cat([Z.to(c.device), c], 1)) for c in labels]
        return sum((p * mean for p, mean in zip(self.class_prior_.tolist(), means, strict=True)), start=0 * means[0])

    def encode(self, X: Any, given: Any = None) -> Any:
        """Posterior mean of the code of each row, given its condition, or else under its most probable label."""
        tensor, origin = self._arrive(X, "encode")
        return origin.mirror(self._encode(tensor, self._condition_or_best(tensor, given, "encode")))

    def decode(self, Z: Any, given: Any = None) -> Any:
        """The expected example of each code given a condition, or else its average over labels."""
        codes, origin = self._arrive_codes(Z, "decode")
        c = None if given is None else self._condition(given, len(codes), codes, "decode")
        return self._data_out(self._decode(codes, c), origin)

    def reconstruct(self, X: Any, given: Any = None) -> Any:
        """Each row through its code, given its condition, or else under its most probable label."""
        tensor, origin = self._arrive(X, "reconstruct")
        c = self._condition_or_best(tensor, given, "reconstruct")
        return self._data_out(self._decode(self._encode(tensor, c), c), origin)

    # -- samples ---------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None, noise: bool | None = None) -> Any:
        """``n`` new examples; given: labels or vectors, one or ``n``, or rows with NaN to fill (see the class).

        noise: as of ``VAE.sample``.
        """
        self._check_draws(n)
        source = generator(self._sampling_seed(seed), "sample")
        with speaking(self, "sample"):
            known = parse_given(given, self.condition)
        if known.X is not None:
            rows, origin = self._arrive(known.X, "sample", missing=True)
            with speaking(self, "sample"):
                rows = one_row_or_many(rows, n)
            c = None if known.y is None else self._condition(known.y, n, rows, "sample")
            drawn = self._fill_given(rows, c, source).draw
            return self._data_out(torch.where(torch.isnan(rows), drawn.to(rows), rows), replace(origin, index=None))
        network = self._network_for_output()
        like = next(network.parameters())
        c = self._drawn_labels(n, source, like) if known.y is None else self._condition(known.y, n, like, "sample")
        return self._shown(network, network.draw_codes(n, source), source, noise, c)

    def _drawn_labels(self, n: int, noise: torch.Generator, like: Tensor) -> Tensor:
        self._need_condition("sample")
        codes = torch.multinomial(torch.as_tensor(self.class_prior_), n, replacement=True, generator=noise)
        return self._one_hot(codes).to(like)

    def _fill_given(self, X: Tensor, c: Tensor | None, noise: torch.Generator, chains: int = 1) -> Filled:
        """A draw and the mean of the gaps; without a condition the label is drawn given what is known."""
        if c is None:
            probabilities = self._log_labels(X, "sample").exp().double().cpu()
            c = self._one_hot(torch.multinomial(probabilities, 1, generator=noise)[:, 0]).to(X.dtype)
        network = in_type(self.network_, X.dtype)
        c = c.to(device_of(network))
        rows = self.scales_.transform(X.to(device_of(network)))
        parts = [
            fill(Fixed(network, some.repeat(chains, 1)), block, noise, chains=chains)
            for block, some in zip(rows.split(_ROWS), c.split(_ROWS), strict=True)
        ]
        return Filled(*(self.scales_.inverse(torch.cat(part)) for part in zip(*parts, strict=True)))

    def impute(self, X: Any, given: Any = None) -> Any:
        """``X`` with every NaN replaced by its expectation given the rest of its row, and its condition if known."""
        if given is None:
            return super().impute(X)
        tensor, origin = self._arrive(X, "impute", missing=True)
        c = self._condition(given, len(tensor), tensor, "impute")
        filled = self._fill_given(tensor, c, generator(0, "impute"), _CHAINS).mean.to(tensor)
        return self._data_out(torch.where(torch.isnan(tensor), filled, tensor), origin)

    def _impute(self, X: Tensor) -> Tensor:
        """The mean of the gaps under each label, weighed by how probable the label is."""
        probabilities = self._log_labels(X, "impute").exp()
        total = torch.zeros_like(probabilities[:, :1]).expand(-1, X.shape[1]).clone()
        weight = torch.zeros_like(probabilities[:, 0])
        for code, c in enumerate(self._every_label(len(X), X)):
            p = probabilities[:, code]
            rows = torch.nonzero(p >= min(_UNLIKELY, 1.0 / len(self.classes_)))[:, 0]
            if len(rows):
                mean = self._fill_given(X[rows.to(X.device)], c[rows], generator(0, "impute"), _CHAINS).mean
                total[rows] += p[rows, None] * mean
                weight[rows] += p[rows]
        return total / weight[:, None]

    # -- likelihood ------------------------------------------------------------------------------------

    def likelihood(self, X: Any, method: str | None = None, *, given: Any = None) -> Likelihood:
        """Log-likelihood of each row given its condition, or else with the label summed out, log p(x).

        method: as for ``VAE``. given: labels or vectors, one or one a row. Both are lower bounds.
        """
        tensor, origin = self._arrive(X, "likelihood")
        c = None if given is None else self._condition(given, len(tensor), tensor, "likelihood")
        found = self._likelihood(tensor, method) if c is None else self._bound(tensor, method, c)
        return replace(found, value=origin.mirror(found.value), stderr=origin.mirror(found.stderr))

    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        self._need_condition("likelihood")
        parts = [self._bound(X, method, c) for c in self._every_label(len(X), X)]
        joint = torch.stack([part.value for part in parts], 1) + self._log_prior_of_labels(X)
        shares = torch.softmax(joint, 1)
        # the labels share their draws, so that their errors add up
        stderr = (shares * torch.stack([part.stderr for part in parts], 1)).sum(1)
        return replace(parts[0], value=torch.logsumexp(joint, 1), stderr=stderr)

    def anomaly(self, X: Any, given: Any = None, *, kind: str | None = None, reference: Any = None) -> Any:
        """How strange each row is, (n,): its negative log-likelihood, given its condition if that is known.

        kind: ``log_prob``, that; ``typicality`` or ``reconstruction``. reference: rows known to be good (see
        ``benthic.uses.anomaly``).
        """
        return anomaly(self, X, kind, reference=reference, given=given)


def _frequencies(intake: Intake, classes: int) -> np.ndarray:
    """The share of each class among the rows."""
    counts = torch.zeros(classes, dtype=torch.float64)
    device = torch.device("cpu") if intake.data is None else intake.data.X.device
    for part in intake.feed(batch_size=65536, seed=0, device=device, world=World()).open(0):
        if part.batch.y is not None:
            counts += torch.bincount(part.batch.y.cpu(), minlength=classes).double()
    return (counts / counts.sum()).numpy()
