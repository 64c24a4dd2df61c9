"""An adversarial network whose codes mean something: InfoGAN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator, stream, streams
from benthic.base.settings import is_whole, number, sizes, whole
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.distributions.tables import mutual_information
from benthic.generative.gan.images import PictureAdversarialEstimator
from benthic.generative.vae.conditions import codes_of_labels, one_or_many, parse_given
from benthic.nets.critic import ConvCritic, DenseCritic, leaky
from benthic.nets.evaluate import device_of, in_blocks, in_type
from benthic.nets.generator import dense_layer
from benthic.nets.jitter import jitter
from benthic.nets.noise import draw_normal, draw_uniform
from benthic.training.estimator import Session
from benthic.training.gradient import GradientLearner
from benthic.training.intake import Intake

_LOOK = 2048  # draws that the bound is estimated from
_WORK = 1 << 16


class InfoCritic(nn.Module):
    """A critic with a second head that tells the codes a row was made from.

    body: with ``describe``; if it has batch norm, so does this head. categories: sizes of the categorical codes.
    continuous: how many numbers.
    """

    def __init__(self, body: ConvCritic | DenseCritic, categories: Sequence[int], continuous: int) -> None:
        super().__init__()
        self.body, self.categories, self.continuous = body, tuple(categories), continuous
        hidden = dense_layer(nn.Linear(body.features, 128), body.norm == "batch", leaky())
        self.told = nn.Sequential(*hidden, nn.Linear(128, sum(categories) + continuous))

    def forward(self, x: Tensor) -> Tensor:
        """Scores (n, 1) of rows."""
        scores: Tensor = self.body(x)
        return scores

    def tell(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """Logs of the categories' probabilities, one (n, k) for each code, and means of the numbers (n, continuous)."""
        *logits, mean = self.told(self.body.describe(x)).split([*self.categories, self.continuous], 1)
        return [torch.log_softmax(part, 1) for part in logits], mean

    def judge_codes(self, x: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        """log Q(c|x) of the categorical codes, (n,), and squared errors of the continuous ones, (n, continuous)."""
        logs, mean = self.tell(x)
        told = codes.split([*self.categories, self.continuous], 1)
        categorical = codes.new_zeros(len(codes))
        for log, part in zip(logs, told, strict=False):
            categorical = categorical + (log * part).sum(1)
        return categorical, (told[-1] - mean).square()

    def agreement(self, x: Tensor, y: Tensor) -> Tensor:
        """What the categories of rows tell of those of their altered copies, in nats, summed over codes."""
        if self.body.norm == "batch":  # whose rows see each other
            mine, theirs = self.tell(x)[0], self.tell(y)[0]
        else:
            both = self.tell(torch.cat([x, y]))[0]
            mine, theirs = [log[: len(x)] for log in both], [log[len(x) :] for log in both]
        found = x.new_zeros(())
        for p, q in zip(mine, theirs, strict=True):
            table = p.exp().T @ q.exp() / len(x)
            found = found + mutual_information(0.5 * (table + table.T))
        return found


class InfoGAN(PictureAdversarialEstimator):
    r"""Adversarial model whose codes c, categories and numbers, can be told from what is made of them.

    .. math:: \min_{G, Q} \max_D V(D, G) - \lambda L_I, \qquad
        L_I = E_{c, x \sim G(z, c)} \log Q(c|x) + H(c) \le I(c; G(z, c))

    Chen et al., 2016. Q shares its features with the critic. Without any label, categories come to stand for what is
    distinct in the data, such as digits, and numbers for what changes smoothly, such as their slant.

    latent_dim: numbers of plain noise. categories: how many values the categorical code has, or several such codes.
    continuous: how many codes are uniform on [-1, 1]; Q tells them as normals of one variance, so they are learned by
    their squared errors, whose pull on the generator does not grow as they are told better.
    information_weight: :math:`\lambda` of categories; continuous_weight: that of numbers. dense: units of a fully
    connected layer in both networks of pictures, next to the codes and shared by critic and Q; 0 for none.
    invariance: the weight of what the category of a real picture tells of that of its copy, moved, turned, stretched
    and slanted a little (Ji et al., 2019), so that categories do not stand for slant or place; 0 for none, which is the
    paper's.
    The other parameters are those of ``DCGAN`` for pictures and ``GAN`` for tables, with the penalty of the latter by
    default. The paper's networks of 28 by 28 pixels are ``penalty=None``, which gives the critic batch norm, and
    ``dense=1024``, with a ``generator_lr`` of five times the critic's.

    ``predict`` gives the value of the first categorical code, ``predict_proba`` its probabilities, ``transform`` all
    codes (probabilities of categories, then means of numbers), ``decode`` makes examples from such codes without noise,
    ``vary`` lets one number move. ``sample(n, given=category)`` draws from a category. ``history_`` and ``summary``
    have the bound :math:`L_I` in nats, of all codes and of categories alone; ``information(X)`` is how much the
    category is told by given examples, ``agreement(X)`` how much it tells of that of their moved copies. ``likelihood``
    is by ``kde`` only, for the codes are not normal.

    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0.0], [9.0]], 100, axis=0)
    >>> settings = {"categories": 2, "continuous": 0, "hidden_layer_sizes": (32,), "trainer": {"steps": 400}}
    >>> model = InfoGAN(2, **settings, random_state=0).fit(X)
    >>> model.sample(4, given=1).shape, bool(model.category_information_ > 0.3)
    ((4, 2), True)
    """

    information_: float
    category_information_: float

    def __init__(
        self,
        latent_dim: int = 62,
        *,
        categories: int | Sequence[int] = 10,
        continuous: int = 2,
        information_weight: float = 1.0,
        continuous_weight: float = 0.1,
        invariance: float = 0.0,
        channels: Sequence[int] | None = None,
        norm: str = "batch",
        critic_norm: str = "auto",
        upsampling: str = "transposed",
        residual: bool = False,
        minibatch: str | None = None,
        dense: int = 0,
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
        self.categories = categories
        self.continuous = continuous
        self.information_weight = information_weight
        self.continuous_weight = continuous_weight
        self.invariance = invariance
        self.channels = channels
        self.norm = norm
        self.critic_norm = critic_norm
        self.upsampling = upsampling
        self.residual = residual
        self.minibatch = minibatch
        self.dense = dense
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

    # -- settings --------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        super()._check_settings()
        if not all(is_whole(k, 2) for k in self._categories):
            raise InvalidInput(f"categories is {self.categories!r}; give at least one code of at least 2 values")
        for name in ("continuous", "dense"):
            whole(name, getattr(self, name), 0)
        for name in ("information_weight", "continuous_weight", "invariance"):
            number(name, getattr(self, name))
        if self.invariance and not self._pictured:
            raise InvalidInput("invariance is for pictures, whose copies are moved and turned; leave it at 0 for rows")
        if self.network not in ("auto", "mlp"):
            raise InvalidInput("network is of modules without a head for codes; use 'auto' or 'mlp'")
        for name in (self.norm, self.critic_norm):
            if name in ("virtual", "reference", "conditional"):
                raise InvalidInput(f"norm {name!r} is not for codes that are learned; use batch, spectral, group, none")

    @property
    def _categories(self) -> tuple[int, ...]:
        return sizes("categories", self.categories)

    def _meaning_size(self) -> int:
        """Numbers that codes with a meaning take: one for each value of a category, one for each number."""
        return sum(self._categories) + self.continuous

    def _code_size(self) -> int:
        return self.latent_dim + self._meaning_size()

    def _entropy(self) -> float:
        """H(c) of the categories in nats, which is all that can be told of them."""
        return sum(math.log(k) for k in self._categories)

    def _enter(self, intake: Intake, session: Session) -> None:
        super()._enter(intake, session)
        self._n_features_out = self._meaning_size()

    # -- the game ----------------------------------------------------------------------------------------

    def _codes(self, n: int, like: Tensor, noise: torch.Generator | None = None) -> Tensor:
        """Noise, then categories as zeros and ones, then numbers."""
        sizes, place = self._categories, {"dtype": like.dtype, "device": like.device}
        flat = len(sizes) + self.continuous
        if noise is not None:
            normal, uniform = draw_normal((n, self.latent_dim), like, noise), draw_uniform((n, flat), like, noise)
        else:
            own: dict[str, Any] = {**place, "generator": stream(like.device)}
            normal, uniform = torch.randn(n, self.latent_dim, **own), torch.rand(n, flat, **own)
        parts = [normal]
        for i, k in enumerate(sizes):
            value = (uniform[:, i : i + 1] * k).floor().clamp_max(k - 1.0)
            parts.append((value == torch.arange(k, **place)).to(like.dtype))
        codes = torch.cat([*parts, 2.0 * uniform[:, len(sizes) :] - 1.0], 1)
        if noise is None:
            self._drawn = codes  # what the rows of this update are made from
        return codes

    def _untold(self, network: Any, rows: Tensor, codes: Tensor) -> Tensor:
        """What both players want small: the weighted loss of telling the codes of rows."""
        categorical, errors = network.critic.judge_codes(rows, codes[:, self.latent_dim :])
        return (0.5 * self.continuous_weight * errors.sum(1) - self.information_weight * categorical).mean()

    def _critic_terms(
        self, network: Any, batch: Batch, fake: Tensor, real_scores: Tensor, fake_scores: Tensor
    ) -> Tensor | float:
        found = self._untold(network, fake, self._drawn)
        if not self.invariance:
            return found
        real = batch.X.detach()
        altered = jitter(real.reshape(-1, *self._event)).flatten(1)
        return found - self.invariance * network.critic.agreement(real, altered)

    def _generator_terms(self, network: Any, batch: Batch, codes: Tensor, fake: Tensor) -> Tensor | float:
        return self._untold(network, fake, codes)

    def _build_critic(self) -> nn.Module:
        return InfoCritic(self._body(), self._categories, self.continuous)

    def _learner(self, network: Any, session: Session, look: Batch) -> GradientLearner:
        learner = super()._learner(network, session, look)
        watch = self._watch

        def informed(players: GradientLearner, step: int) -> dict[str, float]:
            found = watch(players, step)
            if not found:
                return found
            category, number = self._bound(network, look.X)
            return {**found, "information": category + number, "category_information": category}

        learner._watch = informed
        return learner

    @torch.no_grad()
    def _bound(self, network: Any, like: Tensor) -> tuple[float, float]:
        """Lower bounds on what rows tell of categories and of numbers, from draws that are always the same."""
        training = network.training
        network.eval()
        codes = self._codes(_LOOK, like, generator(0, "information"))
        categorical, errors = network.critic.judge_codes(network.make(codes), codes[:, self.latent_dim :])
        network.train(training)
        # the best normals around the means: -E log Q is 0.5 log(2 pi e variance) of each number, its entropy log 2
        numbers = math.log(2.0) - 0.5 * (2 * math.pi * math.e * errors.double().mean(0)).log()
        return float(categorical.mean()) + self._entropy(), float(numbers.sum())

    def _look_back(self, look: Batch, kept: Batch, held: bool) -> None:
        super()._look_back(look, kept, held)
        self.__dict__.pop("_drawn", None)
        self.category_information_, number = self._bound(self.network_, look.X)
        self.information_ = self.category_information_ + number

    def _facts(self) -> dict[str, Any]:
        codes = " x ".join(map(str, self._categories)) + f" values, {self.continuous} numbers"
        number = self.information_ - self.category_information_
        told = f"at least {self.category_information_:.3g} of {self._entropy():.3g} nats of categories"
        told += f", {number:.3g} nats of numbers" if self.continuous else ""
        return {**super()._facts(), "codes": codes, "information": told}

    # -- codes with a meaning ------------------------------------------------------------------------------

    def _tell(self, X: Tensor) -> tuple[list[Tensor], Tensor]:
        """Probabilities of categories and means of numbers for rows in data units."""
        dtype = X.dtype if X.dtype in (torch.float32, torch.float64) else torch.float32
        network = in_type(self.network_, dtype)

        def tell(rows: Tensor) -> Tensor:
            logs, mean = network.critic.tell(self._inward(rows))
            return torch.cat([*(log.exp() for log in logs), mean.clamp(-1.0, 1.0)], 1)

        found = in_blocks(tell, X.detach().to(device_of(network), dtype))
        *shares, means = found.split([*self._categories, self.continuous], 1)
        return shares, means

    def _encode(self, X: Tensor) -> Tensor:
        shares, means = self._tell(X)
        return torch.cat([*shares, means], 1)

    def _decode(self, Z: Tensor) -> Tensor:
        plain = Z.new_zeros(len(Z), self.latent_dim)
        return self._evaluate(lambda network, codes: self._outward(network.make(codes)), torch.cat([plain, Z], 1))

    def encode(self, X: Any) -> Any:
        """The codes of each row: probabilities of the categories, then means of the numbers."""
        return super().encode(X)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the values of the first categorical code, (n, k)."""
        tensor, origin = self._arrive(X, "predict_proba")
        return origin.mirror(self._tell(tensor)[0][0])

    def predict(self, X: Any) -> Any:
        """The most probable value of the first categorical code, whole numbers (n,)."""
        tensor, origin = self._arrive(X, "predict")
        found = self._tell(tensor)[0][0].argmax(1)
        return found.to(tensor.device) if origin.kind == "torch" else found.cpu().numpy()

    def information(self, X: Any) -> float:
        r"""What the first categorical code tells of examples, :math:`H(\bar q) - \overline{H(q)}` in nats.

        It is largest, log k, when every example surely has one value and all values are equally frequent; it needs no
        labels, so that runs can be compared by it.
        """
        tensor, _ = self._arrive(X, "information")
        shares = self._tell(tensor)[0][0].double()
        mean = shares.mean(0)
        return float(torch.special.entr(mean).sum() - torch.special.entr(shares).sum(1).mean())

    def agreement(self, X: Any, seed: int = 0) -> float:
        """What the first categorical code of pictures tells of that of their altered copies, in nats.

        Copies are moved, turned, stretched and slanted a little, as for ``invariance``. Of runs whose categories are
        all sure, it tells those apart that stand for slant or place from those that stand for shapes.
        """
        tensor, _ = self._arrive(X, "agreement")
        if not self._pictured:
            raise self._fail("agreement", "it is of copies of pictures; rows of tables have none")
        with streams(seed, tensor.device):
            altered = jitter(tensor.reshape(-1, *self._event)).reshape(tensor.shape)
        mine, theirs = (self._tell(rows)[0][0].double() for rows in (tensor, altered))
        table = mine.T @ theirs / len(mine)
        return float(mutual_information(0.5 * (table + table.T)))

    def vary(self, unit: int, values: Any, *, category: int = 0, seed: Any = None) -> Any:
        """Examples of one category made from the same noise while the continuous code ``unit`` takes these values."""
        if not 0 <= unit < self.continuous:
            raise self._fail("vary", f"unit is {unit}; there are {self.continuous} continuous codes, counted from 0")
        noise, places = generator(self._sampling_seed(seed), "vary"), torch.as_tensor(np.asarray(values, np.float32))
        codes = self._full(len(places), noise, self._values(category, len(places), "vary"), same=True)
        codes[:, self.latent_dim + sum(self._categories) :] = 0.0
        codes[:, self.latent_dim + sum(self._categories) + unit] = places
        return self._data_out(self._rows_of(codes))

    # -- samples -------------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new examples; given: values of the first category, one or ``n``, or rows with NaN to fill."""
        self._check_draws(n)
        with speaking(self, "sample"):
            parts = parse_given(given, "labels")
            if parts.y is not None and parts.X is not None:
                raise InvalidInput("given has both categories and rows to fill; pass one of them")
        if parts.y is None:
            return super().sample(n, given=parts.X, seed=seed)
        noise = generator(self._sampling_seed(seed), "sample")
        return self._data_out(self._rows_of(self._full(n, noise, self._values(parts.y, n, "sample"))))

    def _values(self, category: Any, n: int, method: str) -> Tensor:
        """Values (n,) of the first categorical code."""
        with speaking(self, method):
            return one_or_many(codes_of_labels(category, np.arange(self._categories[0])), n, "categories")

    def _full(self, n: int, noise: torch.Generator, values: Tensor, same: bool = False) -> Tensor:
        """Codes with these values of the first category; same: whether everything else is alike in all of them."""
        codes = self._codes(1 if same else n, torch.empty(0), noise).expand(n, -1).clone()
        place = slice(self.latent_dim, self.latent_dim + self._categories[0])
        codes[:, place] = nn.functional.one_hot(values, self._categories[0]).to(codes)
        return codes

    @torch.no_grad()
    def _rows_of(self, codes: Tensor) -> Tensor:
        """Rows in data units from full codes."""
        dtype = torch.float64 if self._fit_origin.dtype == "float64" else torch.float32
        network = in_type(self.network_, dtype)
        return self._outward(in_blocks(network.make, codes.to(device_of(network), dtype), _WORK))

    def _parse(self, method: str | None) -> tuple[str, int]:
        if method not in (None, "kde"):
            raise self._fail("likelihood", f"method {method!r} is not for codes that are not normal; use 'kde'")
        return "kde", 0
