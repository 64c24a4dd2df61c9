"""The conditional generative adversarial network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.capabilities import Classifies
from benthic.base.condition import Condition, Conditional
from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.generative.gan.annealing import annealed_likelihood
from benthic.generative.gan.density import Parzen
from benthic.generative.gan.images import PictureAdversarialEstimator
from benthic.generative.gan.inversion import invert
from benthic.generative.gan.networks import mlp_generator
from benthic.generative.vae.conditions import codes_of_labels, one_or_many, parse_given
from benthic.nets.critic import ProjectionCritic
from benthic.nets.evaluate import device_of, in_blocks, in_type
from benthic.nets.noise import draw_uniform
from benthic.training.estimator import Session
from benthic.training.intake import Intake
from benthic.uses.latent import Filled
from benthic.uses.strangeness import anomaly
from benthic.uses.verbs import conditions

_POINTS = 2048  # draws of all classes that a likelihood is made of
_LEAST = 256  # and of each of them
_CANDIDATES = 256
_LOOK = 4096  # rows whose class means the generator of a table begins at
_WORK = 1 << 16


class GivenGenerator(nn.Module):
    """A generator that sees the class of what it makes, beside the noise and, if ``by_norm``, in its norms.

    width: of rows to which a learned vector of their class is added; 0 for none.
    """

    def __init__(self, body: nn.Module, classes: int, *, by_norm: bool = False, width: int = 0) -> None:
        super().__init__()
        self.body, self.classes, self.by_norm = body, classes, by_norm
        self.offset = nn.Parameter(torch.zeros(classes, width)) if width else None

    def forward(self, codes: Tensor, weights: Tensor | None = None) -> Tensor:
        """Rows from codes (n, k) and classes as weights (n, classes), by default all alike."""
        if weights is None:
            weights = torch.full((len(codes), self.classes), 1.0 / self.classes, dtype=codes.dtype, device=codes.device)
        both = torch.cat([codes, weights], 1)
        rows: Tensor = self.body(both, weights) if self.by_norm else self.body(both)
        return rows if self.offset is None else rows + weights @ self.offset


class ConditionalGAN(Classifies, Conditional, PictureAdversarialEstimator):
    r"""Adversarial model of the data given a label, which both networks see (Mirza & Osindero, 2014).

    .. math:: D(x, y) = v_y^\top \phi(x) + \psi(\phi(x))

    The critic takes the label by projection (Miyato & Koyama, 2018); the generator takes it beside the noise and, for
    pictures with ``norm="conditional"``, in its batch norms (Dumoulin et al., 2017). y: labels of any kind, numbers,
    strings or bools. ``sample(n, given=labels)`` draws rows with these labels, one or n; without them labels are drawn
    as often as they were seen; ``given`` may also be rows with NaN to fill, or ``{"y": labels, "X": rows}``.

    It is also a classifier, :math:`p(y|x) \propto p(y)\, p(x|y)`, by the likelihoods of ``GAN`` for each label; those
    of pictures are rough. ``likelihood(X, given=labels)`` is log p(x|y), without labels the log of
    :math:`\sum_y p(y) p(x|y)`.
    ``encode`` looks for the noise under the most probable label, ``decode`` averages over labels unless one is given.
    ``score(X, y)`` is the accuracy, ``score(X)`` the mean log-likelihood.

    Parameters are those of ``DCGAN`` for pictures and of ``GAN`` for tables, with the penalty of the latter by default;
    ``loss="hinge", penalty=None`` is the loss with spectral norm of Miyato & Koyama.

    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0.0], [9.0]], 100, axis=0)
    >>> y = np.repeat(["low", "high"], 100)
    >>> model = ConditionalGAN(2, hidden_layer_sizes=(32,), trainer={"steps": 300}, random_state=0).fit(X, y)
    >>> bool(model.sample(50, given="high", seed=0).mean() > 5), model.predict(X[[0, -1]]).tolist()
    (True, ['low', 'high'])
    """

    classes_: np.ndarray
    class_prior_: np.ndarray

    def __init__(
        self,
        latent_dim: int = 64,
        *,
        channels: Sequence[int] | None = None,
        norm: str = "conditional",
        critic_norm: str = "auto",
        upsampling: str = "transposed",
        residual: bool = False,
        minibatch: str | None = None,
        network: str = "auto",
        hidden_layer_sizes: Sequence[int] = (128, 128),
        activation: str = "leaky_relu",
        loss: Any = "non_saturating",
        penalty: Any = "r1",
        penalty_weight: float | None = None,
        critic_steps: int = 1,
        generator_lr: float | None = None,
        critic_lr: float | None = None,
        game: str = "alternating",
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.channels = channels
        self.norm = norm
        self.critic_norm = critic_norm
        self.upsampling = upsampling
        self.residual = residual
        self.minibatch = minibatch
        self.network = network
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.loss = loss
        self.penalty = penalty
        self.penalty_weight = penalty_weight
        self.critic_steps = critic_steps
        self.generator_lr = generator_lr
        self.critic_lr = critic_lr
        self.game = game
        self.trainer = trainer
        self.random_state = random_state

    # -- learning --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or images ``X`` (array, frame, path or source) and their labels ``y``."""
        with self._session(X) as session:
            intake = Intake(self, X, y, target="labels")
            if intake.classes is not None:
                self.classes_ = intake.classes
            self._learn(intake, session)
        return self

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.network not in ("auto", "mlp"):
            raise InvalidInput("network is of modules that cannot be told the label; use 'auto' or 'mlp'")
        for name in (self.norm, self.critic_norm):
            if name in ("virtual", "reference"):
                raise InvalidInput(f"norm {name!r} has a reference batch without labels; use DCGAN, or another norm")

    def _enter(self, intake: Intake, session: Session) -> None:
        super()._enter(intake, session)
        if intake.data is not None and intake.data.y is not None:
            codes = intake.data.y.cpu().numpy()
        else:
            codes = np.searchsorted(self.classes_, intake._needs_source().target_values())
        counts = np.bincount(codes, minlength=len(self.classes_))
        self.class_prior_ = counts / counts.sum()
        look = intake.sample(_LOOK, session.seed)
        self._start = self._inward(look.X), self._given(look)

    def _given(self, batch: Batch) -> Tensor | None:
        return None if batch.y is None else self._one_hot(batch.y)

    def _one_hot(self, codes: Tensor) -> Tensor:
        return F.one_hot(codes, len(self.classes_)).to(torch.float32)

    # -- networks ----------------------------------------------------------------------------------------

    def _build_generator(self) -> nn.Module:
        classes = len(self.classes_)
        inputs = self._code_size() + classes
        if self._pictured:
            body = self._conv_generator(inputs, classes=classes)
            return GivenGenerator(body, classes, by_norm=self.norm == "conditional")
        body = mlp_generator(inputs, self._hidden, self._width, self.activation)
        return GivenGenerator(body, classes, width=self._width)

    @torch.no_grad()
    def _begin_network(self, network: nn.Module) -> None:
        """Let untrained rows of a table have the mean of their class and the spread within classes."""
        start, given = self.__dict__.pop("_start")
        offset = network.generator.offset
        if offset is None:
            super()._begin_network(network)
            return
        layers = [m for m in network.generator.body.modules() if isinstance(m, nn.Linear)]
        layers[0].weight[:, self._code_size() :] = 0.0  # classes differ by their means alone at first
        super()._begin_network(network)
        rows, weights = start.to(offset), given.to(offset)
        means = (weights.mT @ rows) / weights.sum(0).clamp_min(1.0)[:, None]
        last = layers[-1]
        within = (rows - weights @ means).square().mean(0).sqrt()
        last.weight *= within[:, None]
        last.bias *= within
        offset.copy_(means)

    def _build_critic(self) -> nn.Module:
        return ProjectionCritic(self._body(), len(self.classes_))

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "classes": len(self.classes_)}

    @property
    def condition_(self) -> Condition:
        """The labels; without one it is drawn or summed out."""
        check_is_fitted(self)
        return Condition("labels", tuple(self.classes_.tolist()))

    # -- labels ------------------------------------------------------------------------------------------

    def _labels(self, y: Any, n: int, method: str) -> Tensor:
        """Codes (n,) of labels that are given, one or one a row."""
        with speaking(self, method):
            return one_or_many(codes_of_labels(y, self.classes_), n, "labels")

    def _weights(self, codes: Tensor, like: Tensor) -> Tensor:
        return self._one_hot(codes).to(like.device, like.dtype)

    def _probabilities(self, X: Tensor) -> Tensor:
        return torch.softmax(self._joint(X, None)[0], 1).to(X.dtype)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Without ``y`` the mean log-likelihood; with labels the accuracy."""
        return self.likelihood(X).mean() if y is None else super().score(X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    # -- samples -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new examples; given: labels, one or ``n``, or rows with NaN to fill, or a dict of both."""
        self._check_draws(n)
        with speaking(self, "sample"):
            parts = parse_given(given, "labels")
        if parts.y is None:
            return super().sample(n, given=parts.X, seed=seed)
        noise, labels = generator(self._sampling_seed(seed), "sample"), self._labels(parts.y, n, "sample")
        if parts.X is None:
            return self._data_out(self._outward(self._make(n, noise, labels)))
        known, origin = self._arrive(parts.X, "sample", missing=True)
        with speaking(self, "sample"):
            known = conditions(known, n)
        rows = torch.where(torch.isnan(known), self._fill_given(known, labels, noise).draw.to(known), known)
        return self._data_out(rows, replace(origin, index=None))

    def _make(self, n: int, noise: torch.Generator, labels: Tensor | None = None) -> Tensor:
        dtype = torch.float64 if self._fit_origin.dtype == "float64" else torch.float32
        network, like = in_type(self.network_, dtype), torch.empty(0, dtype=dtype)
        labels = self._draw_labels(n, noise) if labels is None else labels
        size = self._code_size()
        both = torch.cat([self._codes(n, like, noise), self._weights(labels, like)], 1).to(device_of(network))
        return in_blocks(lambda rows: network.make(rows[:, :size], rows[:, size:]), both, _WORK)

    def _draw_labels(self, n: int, noise: torch.Generator) -> Tensor:
        edges = torch.from_numpy(np.cumsum(self.class_prior_))
        return torch.searchsorted(edges, draw_uniform((n,), edges, noise)).clamp_max(len(edges) - 1)

    @torch.no_grad()
    def impute(self, X: Any, given: Any = None) -> Any:
        """``X`` with every NaN replaced by its expectation given the rest of its row, and its label if known."""
        if given is None:
            return super().impute(X)
        tensor, origin = self._arrive(X, "impute", missing=True)
        mean = self._fill_given(tensor, self._labels(given, len(tensor), "impute"), generator(0, "impute")).mean
        return self._data_out(torch.where(torch.isnan(tensor), mean.to(tensor), tensor), origin)

    def _fill_given(self, X: Tensor, labels: Tensor, noise: torch.Generator) -> Filled:
        """A draw and the mean of the gaps of rows with these labels."""
        network, rows = self._at_work(X)
        drawn, mean = rows.clone(), rows.clone()
        for code in labels.unique().tolist():
            chosen = (labels == code).nonzero()[:, 0].to(rows.device)
            drawn[chosen], mean[chosen] = self._class_law(network, rows, code).fill(rows[chosen], noise)
        return Filled(self._outward(drawn), self._outward(mean))

    # -- codes -------------------------------------------------------------------------------------------

    def _encode(self, X: Tensor, labels: Tensor | None = None) -> Tensor:
        labels = self._joint(X, None)[0].argmax(1).cpu() if labels is None else labels
        network, rows = self._at_work(X)
        candidates = self._codes(_CANDIDATES, rows, generator(0, "candidates"))
        found = rows.new_zeros(len(rows), self._code_size())
        for code in labels.unique().tolist():
            chosen = (labels == code).nonzero()[:, 0].to(rows.device)
            found[chosen] = invert(lambda z, c=code: self._made(network, z, c), rows[chosen], candidates)
        return found

    def _made(self, network: Any, codes: Tensor, code: int) -> Tensor:
        """Rows of one class from codes."""
        rows: Tensor = network.make(codes, self._weights(torch.tensor([code]), codes).expand(len(codes), -1))
        return rows

    def _decode(self, Z: Tensor, labels: Tensor | None = None) -> Tensor:
        if labels is not None:
            size = self._code_size()
            both = torch.cat([Z, self._weights(labels, Z)], 1)
            return self._evaluate(lambda net, part: self._outward(net.make(part[:, :size], part[:, size:])), both)
        shares = self.class_prior_.tolist()
        parts = [
            share * self._evaluate(lambda net, z, c=code: self._outward(self._made(net, z, c)), Z)
            for code, share in enumerate(shares)
        ]
        return torch.stack(parts).sum(0)

    def encode(self, X: Any, given: Any = None) -> Any:
        """The noise that each row is made from, under its label if that is given, else under the most probable one."""
        tensor, origin = self._arrive(X, "encode")
        labels = None if given is None else self._labels(given, len(tensor), "encode")
        return origin.mirror(self._encode(tensor, labels))

    def decode(self, Z: Any, given: Any = None) -> Any:
        """The example of each code under its label, or else the average over labels."""
        codes, origin = self._arrive_codes(Z, "decode")
        labels = None if given is None else self._labels(given, len(codes), "decode")
        return self._data_out(self._decode(codes, labels), origin)

    def reconstruct(self, X: Any, given: Any = None) -> Any:
        """Each row through its code, under its label if that is given, else under the most probable one."""
        tensor, origin = self._arrive(X, "reconstruct")
        if given is None:
            labels = self._joint(tensor, None)[0].argmax(1).cpu()
        else:
            labels = self._labels(given, len(tensor), "reconstruct")
        return self._data_out(self._decode(self._encode(tensor, labels), labels), origin)

    # -- likelihood ----------------------------------------------------------------------------------------

    def _class_law(self, network: Any, like: Tensor, code: int, points: int | None = None) -> Parzen:
        """The smoothed law of one class, always of the same draws."""
        points = points or max(_LEAST, _POINTS // len(self.classes_))
        codes = self._codes(points, like[:0].cpu(), generator(0, "parzen", code)).to(like.device)
        return Parzen(self._made(network, codes, code), self.bandwidth_)

    @torch.no_grad()
    def _parzen(self, network: Any, like: Tensor) -> Parzen:
        counts = np.maximum(np.round(_POINTS * self.class_prior_), 1).astype(int).tolist()
        laws = [self._class_law(network, like, code, count) for code, count in enumerate(counts)]
        return Parzen(torch.cat([law.points for law in laws]), self.bandwidth_)

    @torch.no_grad()
    def _of_class(self, X: Tensor, method: str | None, code: int) -> tuple[Tensor, Tensor]:
        """log p(x|y) of rows for one class, with its error."""
        kind, temperatures = self._parse(method)
        network, rows = self._at_work(X)
        if kind == "kde":
            value, stderr = self._class_law(network, rows, code).log_prob(rows)
        else:
            size = self._code_size()
            value, stderr = annealed_likelihood(
                lambda z: self._made(network, z, code), rows, size, self.bandwidth_, temperatures
            )
        return value + self._log_jacobian(), stderr

    def _joint(self, X: Tensor, method: str | None) -> tuple[Tensor, Tensor]:
        """log p(x, y) for every class, (n, k), and its errors."""
        parts = [self._of_class(X, method, code) for code in range(len(self.classes_))]
        values, errors = (torch.stack(part, 1) for part in zip(*parts, strict=True))
        return values + torch.as_tensor(np.log(self.class_prior_)).to(values), errors

    def likelihood(self, X: Any, method: str | None = None, *, given: Any = None) -> Likelihood:
        """Log-likelihood of each row given its label, or else with the label summed out; method: as for ``GAN``."""
        if given is None:
            return super().likelihood(X, method)
        tensor, origin = self._arrive(X, "likelihood")
        labels = self._labels(given, len(tensor), "likelihood")
        values, errors = (torch.zeros_like(tensor[:, 0]) for _ in range(2))
        for code in labels.unique().tolist():
            chosen = (labels == code).nonzero()[:, 0].to(tensor.device)
            value, stderr = self._of_class(tensor[chosen], method, code)
            values[chosen], errors[chosen] = value.to(values), stderr.to(values)
        return Likelihood(origin.mirror(values), origin.mirror(errors), *self._declared(method))

    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        joint, errors = self._joint(X, method)
        shares = torch.softmax(joint, 1)
        stderr = (shares * errors).square().sum(1).sqrt()  # the draws of classes are independent
        return Likelihood(torch.logsumexp(joint, 1), stderr, *self._declared(method))

    def _declared(self, method: str | None) -> tuple[str, str, str]:
        kind, _ = self._parse(method)
        return kind, "estimate" if kind == "kde" else "lower", "density"

    def anomaly(self, X: Any, given: Any = None, *, kind: str | None = None, reference: Any = None) -> Any:
        """How strange each row is, (n,): its negative log-likelihood, given its label if that is known.

        kind: ``log_prob``, that; ``typicality`` or ``reconstruction``. reference: rows known to be good (see
        ``benthic.uses.anomaly``).
        """
        return anomaly(self, X, kind, reference=reference, given=given)
