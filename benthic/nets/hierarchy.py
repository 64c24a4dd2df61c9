"""Latent-variable models with several levels of codes, each the prior of the one below."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benthic.base.errors import InvalidInput
from benthic.base.seeds import alike
from benthic.nets.activations import activation
from benthic.nets.latent import LatentNetwork
from benthic.nets.mlp import MLP
from benthic.nets.noise import draw_normal
from benthic.nets.observation import Observation
from benthic.nets.posterior import Diagonal, posterior_of
from benthic.nets.prior import NormalPrior

INFERENCES = ("top_down", "bottom_up")
_SHARP = 2.0  # by which log-variances seen on the way up start lower, so that training starts near an autoencoder


class Level(NamedTuple):
    """A code z, the law q it was drawn from, and the law p it has in the model; p is None at the top, N(0, I)."""

    z: Tensor
    q: Diagonal
    p: Diagonal | None


class Shape(NamedTuple):
    """How the levels of codes hang together.

    dims: sizes of z_1, ..., z_T, the lowest first. inference: ``top_down`` or ``bottom_up``. skip: whether every code
    and the data see all codes above. hidden: widths between two levels. nonlinearity: in there.
    """

    dims: tuple[int, ...]
    inference: str = "top_down"
    skip: bool = False
    hidden: tuple[int, ...] = ()
    nonlinearity: str = "relu"

    @property
    def features(self) -> int:
        """How many numbers are handed up from level to level when inference runs from the top."""
        if self.inference == "bottom_up" or len(self.dims) == 1:
            return 0
        return self.hidden[-1] if self.hidden else max(self.dims)

    @property
    def encoder_outputs(self) -> int:
        """How many numbers the encoder gives: the law of z_1, and what is handed up."""
        return 2 * self.dims[0] + self.features

    @property
    def decoder_inputs(self) -> int:
        """How many numbers of the codes the decoder sees."""
        return sum(self.dims) if self.skip else self.dims[0]


def divergence_terms(q: Diagonal, p: Diagonal | None) -> Tensor:
    r"""KL(q ‖ p) of each coordinate of two normal laws; p is N(0, I) when None.

    .. math:: \tfrac12 \left( \frac{(\mu_q - \mu_p)^2 + \sigma_q^2}{\sigma_p^2} - 1 -
        \log \frac{\sigma_q^2}{\sigma_p^2} \right)

    >>> one = Diagonal(torch.zeros(1), torch.zeros(1))
    >>> divergence_terms(Diagonal(torch.ones(1), torch.zeros(1)), one)
    tensor([0.5000])
    """
    if p is None:
        return q.kl_terms()
    gap = (q.mean - p.mean).square() * torch.exp(-p.log_var)
    ratio = q.log_var - p.log_var
    return 0.5 * (gap + ratio.exp() - 1.0 - ratio)


def merged(a: Diagonal, b: Diagonal) -> Diagonal:
    """The normal law in proportion to the product of two: precisions add, means are weighted by them.

    >>> both = merged(Diagonal(torch.tensor([1.0]), torch.zeros(1)), Diagonal(torch.tensor([3.0]), torch.zeros(1)))
    >>> both.mean, both.log_var.exp()
    (tensor([2.]), tensor([0.5000]))
    """
    ratio = a.log_var - b.log_var
    return Diagonal(b.mean + torch.sigmoid(-ratio) * (a.mean - b.mean), b.log_var + F.logsigmoid(ratio))


class HierarchicalPosterior:
    """q(z_1, ..., z_T | x), whose levels are drawn one after the other; codes are laid side by side, z_1 first."""

    def __init__(self, network: HierarchicalNetwork, outputs: Tensor) -> None:
        self.network, self.encoded = network, outputs

    def levels(self, noise: Tensor) -> list[Level]:
        """The levels that standard normal numbers (..., n, latent_dim) lead to."""
        parts = self.network.split(noise)
        return self.network.walk(self.encoded, lambda level, q: q.place(parts[level]))

    def place(self, noise: Tensor) -> Tensor:
        """All codes that standard normal numbers lead to."""
        return codes_of(self.levels(noise))

    @property
    def mean(self) -> Tensor:
        """Each code at the mean of its law, given the means of those it is drawn after."""
        like = self.encoded[..., :1]
        return self.place(torch.zeros_like(like).expand(*like.shape[:-1], self.network.latent_dim))

    def log_prob(self, z: Tensor) -> Tensor:
        """log q(z|x)."""
        parts = self.network.split(z)
        levels = self.network.walk(self.encoded, lambda level, q: parts[level])
        return sum((level.q.log_prob(level.z) for level in levels), start=z.new_zeros(()))


class HierarchicalNetwork(LatentNetwork):
    r"""Codes at T levels: :math:`p(z_T) \prod_t p(z_{t-1}|z_t)\, p(x|z_1)`, normal laws with networks between them.

    Inference ``bottom_up`` is a Markov chain, :math:`q(z_1|x) \prod_t q(z_t|z_{t-1})`. ``top_down`` first goes up
    without drawing, and then draws z_T, ..., z_1, where what was seen on the way up and the law that the model has for
    z_t given z_{t+1} are multiplied: :math:`q(z_t|z_{t+1}, x) \propto \hat q(z_t|x)\, p(z_t|z_{t+1})` (Sønderby et al.,
    2016). With ``skip`` the law of z_t and that of the data are given all codes above, not only the next.

    One level is a ``LatentNetwork``, to the bit. encoder: to the numbers of ``Shape.encoder_outputs``. decoder: from
    ``Shape.decoder_inputs`` numbers and the condition. A code is (..., n, latent_dim), all levels, z_1 first.
    """

    def __init__(
        self, encoder: nn.Module, decoder: nn.Module, observation: Observation, shape: Shape, *, masked: bool = False
    ) -> None:
        dims = shape.dims
        super().__init__(encoder, decoder, observation, sum(dims), prior=NormalPrior(dims[-1]), masked=masked)
        if shape.inference not in INFERENCES:
            raise InvalidInput(f"inference is {shape.inference!r}; use 'top_down' or 'bottom_up'")
        self.shape = shape
        self.nonlinearity = activation(shape.nonlinearity)
        up, down = [], []
        for t in range(1, len(dims)):
            inputs, outputs = shape.features or dims[t - 1], 2 * dims[t] + shape.features * (t < len(dims) - 1)
            up.append(MLP([inputs, *shape.hidden, outputs], shape.nonlinearity))
            above = sum(dims[t:]) if shape.skip else dims[t]
            down.append(MLP([above, *reversed(shape.hidden), 2 * dims[t - 1]], shape.nonlinearity))
        self.up, self.down = nn.ModuleList(up), nn.ModuleList(down)

    # -- laws ------------------------------------------------------------------------------------------

    def split(self, codes: Tensor) -> tuple[Tensor, ...]:
        """Codes (or noise) of each level."""
        return codes.split(self.shape.dims, -1)

    def law(self, level: int, above: Sequence[Tensor]) -> Diagonal | None:
        """p(z_t|codes above), where level 0 is z_1; None for the highest, N(0, I)."""
        if not above:
            return None
        given = torch.cat(list(above), -1) if self.shape.skip else above[0]
        return _diagonal(self.down[level](given), self.shape.dims[level])

    def walk(self, outputs: Tensor, place: Callable[[int, Diagonal], Tensor]) -> list[Level]:
        """All levels, z_1 first; place: the code at a level (0 is z_1), given the law it is drawn from."""
        if self.shape.inference == "bottom_up":
            return self._walk_up(outputs, place)
        hats = self._seen_on_the_way_up(outputs)
        levels: list[Level] = []
        for t in reversed(range(len(hats))):
            p = self.law(t, [level.z for level in levels])
            q = hats[t] if p is None else merged(hats[t], p)
            levels.insert(0, Level(place(t, q), q, p))
        return levels

    def _walk_up(self, outputs: Tensor, place: Callable[[int, Diagonal], Tensor]) -> list[Level]:
        found: list[tuple[Tensor, Diagonal]] = []
        for t, size in enumerate(self.shape.dims):
            q = _diagonal(self.up[t - 1](found[-1][0]) if found else outputs, size)
            found.append((place(t, q), q))
        codes = [z for z, _ in found]
        return [Level(z, q, self.law(t, codes[t + 1 :])) for t, (z, q) in enumerate(found)]

    def _seen_on_the_way_up(self, outputs: Tensor) -> list[Diagonal]:
        hats = []
        for t, size in enumerate(self.shape.dims):
            if t:
                outputs = self.up[t - 1](self.nonlinearity(outputs[..., -self.shape.features :]))
            law = _diagonal(outputs, size)
            hats.append(Diagonal(law.mean, law.log_var - _SHARP) if self.shape.features else law)
        return hats

    def posterior(self, x: Tensor, c: Tensor | None = None) -> Any:
        """q(z|x), and q(z|x, c) where there is a condition."""
        return HierarchicalPosterior(self, self.encoded(x, c))

    def outputs(self, z: Tensor, c: Tensor | None = None) -> Tensor:
        """What the decoder makes of codes (..., n, latent_dim)."""
        return super().outputs(z[..., : self.shape.decoder_inputs], c)

    def log_prior(self, z: Tensor) -> Tensor:
        """log p(z) of all levels together."""
        parts = self.split(z)
        total: Tensor = self.prior.log_prob(parts[-1], self.posterior)
        for t, part in enumerate(parts[:-1]):
            p = self.law(t, parts[t + 1 :])
            total = total if p is None else total + p.log_prob(part)
        return total

    def draw_codes(self, n: int, generator: torch.Generator) -> Tensor:
        """``n`` codes from the prior, from the highest level down."""
        return self.redraw(next(self.parameters()).new_zeros((n, self.latent_dim)), len(self.shape.dims), generator)

    def redraw(self, codes: Tensor, levels: int, generator: torch.Generator) -> Tensor:
        """Codes (n, latent_dim) whose lowest ``levels`` levels are drawn anew from the model, given those above."""
        noise, kept = self.split(draw_normal(codes.shape, codes, generator)), self.split(codes)
        found = list(kept[levels:])
        for t in reversed(range(levels)):
            p = self.law(t, found)
            found.insert(0, noise[t] if p is None else p.place(noise[t]))
        return torch.cat(found, -1)

    # -- bounds ----------------------------------------------------------------------------------------

    def level_divergences(self, levels: list[Level], noise: Tensor, free: float = 0.0) -> list[Tensor]:
        """What each level adds to KL(q(z|x) ‖ p(z)), z_1 first; they are functions of the levels drawn.

        In closed form where the law of the model is known before the code is drawn, else log q − log p at the code.
        free: nats that each coordinate (of a closed form) or each level may use at no cost.
        """
        found = []
        for level, eps in zip(levels, self.split(noise), strict=True):
            if level.p is None or self.shape.inference == "top_down":
                terms = divergence_terms(level.q, level.p)
                found.append((terms.clamp(min=free) if free else terms).sum(-1))
            else:
                kl = level.q.log_prob_of_noise(eps) - level.p.log_prob(level.z)
                found.append(kl.clamp(min=free * eps.shape[-1]) if free else kl)
        return found

    def _draw(self, x: Tensor, c: Tensor | None, free: float) -> tuple[Tensor, Tensor]:
        if len(self.shape.dims) == 1:
            return super()._draw(x, c, free)
        outputs = self.encoded(x, c)
        noise = _normal((*outputs.shape[:-1], self.latent_dim), outputs)
        levels = HierarchicalPosterior(self, outputs).levels(noise)
        return codes_of(levels), torch.stack(self.level_divergences(levels, noise, free)).sum(0)

    def log_ratio(self, x: Tensor, noise: Tensor, c: Tensor | None = None, *, closed: bool = False) -> Tensor:
        """log p(x, z) − log q(z|x) at the codes that noise (k, n, noise_dim) leads to, (k, n).

        closed: whether divergences with a closed form replace log p − log q: the mean is the same, its error smaller.
        """
        levels = self.posterior(x, c).levels(noise)
        fit = self.log_likelihood(x, codes_of(levels), c)
        if closed:
            for kl in self.level_divergences(levels, noise):
                fit = fit - kl
            return fit
        for level, eps in zip(levels, self.split(noise), strict=True):
            p = self.prior.log_prob(level.z, self.posterior) if level.p is None else level.p.log_prob(level.z)
            fit = fit + p - level.q.log_prob_of_noise(eps)
        return fit

    def _importance_bound(self, x: Tensor, draws: int, c: Tensor | None) -> Tensor:
        outputs = self.encoded(x, c)
        shape = (draws, *outputs.shape[:-1], self.latent_dim)
        ratios = self.log_ratio(x, _normal(shape, outputs), c)
        return torch.logsumexp(ratios, 0) - math.log(draws)


def _normal(shape: Sequence[int], like: Tensor) -> Tensor:
    return torch.randn(*shape, **alike(like))


def codes_of(levels: Sequence[Level]) -> Tensor:
    """The codes of all levels side by side, (..., n, latent_dim)."""
    if len(levels) == 1:
        return levels[0].z
    lead = torch.broadcast_shapes(*(level.z.shape[:-1] for level in levels))
    return torch.cat([level.z.expand(*lead, level.z.shape[-1]) for level in levels], -1)


def _diagonal(outputs: Tensor, size: int) -> Diagonal:
    law = posterior_of(outputs[..., : 2 * size], size, "diagonal")
    return Diagonal(law.mean, law[1])
