"""Encoder, prior and decoder of a latent-variable model, with the bounds on its likelihood."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from benthic.base.seeds import alike, normal_like
from benthic.nets.flow_laws import Warped
from benthic.nets.invertible.transform import Transform
from benthic.nets.observation import Observation
from benthic.nets.posterior import HIGH, LOW, Diagonal, Posterior, posterior_of
from benthic.nets.prior import NormalPrior


class LatentNetwork(nn.Module):
    r"""Encoder q(z|x) = N(μ(x), Σ(x)), prior p(z) and decoder p(x|z), all perhaps given a condition c.

    encoder: from rows (n, width), with the mask of what is known (n, width) beside them when ``masked``, and with the
    condition (n, conditions) last, to the numbers of ``posterior_of``. decoder: from codes and condition (..., n,
    latent_dim + conditions) to the outputs that ``observation`` reads. prior: standard normal unless given.
    covariance: of q, ``diagonal``, ``full``, or ``flow``, a diagonal one carried on by ``warp``. NaN in x is a missing
    value: the encoder sees 0 there, and the bounds are those of the entries that are known.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        observation: Observation,
        latent_dim: int,
        *,
        prior: nn.Module | None = None,
        covariance: str = "diagonal",
        masked: bool = False,
        warp: Transform | None = None,
    ) -> None:
        super().__init__()
        self.warp = warp
        self.latent_dim, self.covariance, self.masked = latent_dim, covariance, masked
        self.encoder, self.decoder, self.observation = encoder, decoder, observation
        self.prior = prior or NormalPrior(latent_dim)

    # -- the three laws --------------------------------------------------------------------------------

    def posterior(self, x: Tensor, c: Tensor | None = None) -> Posterior | Warped:
        """q(z|x), and q(z|x, c) where there is a condition."""
        return self._law(self.encoded(x, c))

    def _law(self, outputs: Tensor) -> Posterior | Warped:
        found = posterior_of(outputs, self.latent_dim, self.covariance)
        return Warped(found, self.warp) if self.warp is not None and isinstance(found, Diagonal) else found

    def encoded(self, x: Tensor, c: Tensor | None = None) -> Tensor:
        """What the encoder makes of rows and their conditions."""
        view, seen = self.observation.view(x), self._seen(x)
        parts = [view if seen is None else torch.where(seen, view, 0.0)]
        if self.masked:
            parts.append(torch.ones_like(view) if seen is None else seen.to(view.dtype))
        if c is not None:
            parts.append(c)
        inputs = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        found: Tensor = self.encoder(inputs)
        return found

    def _seen(self, x: Tensor) -> Tensor | None:
        """Which entries are known, or None when all are; training asks only where the data have gaps."""
        if self.training and not self.masked:
            return None
        seen = ~torch.isnan(x)
        return None if not self.training and bool(seen.all()) else seen

    def outputs(self, z: Tensor, c: Tensor | None = None) -> Tensor:
        """What the decoder makes of codes (..., n, latent_dim)."""
        if c is not None:
            z = torch.cat([z, c.expand(*z.shape[:-1], c.shape[-1])], -1)
        found: Tensor = self.decoder(z)
        return found

    def log_likelihood(self, x: Tensor, z: Tensor, c: Tensor | None = None) -> Tensor:
        """log p(x|z) of each row; z may have leading sample dimensions, (k, n, latent_dim)."""
        return self.observation.log_prob(x, self.outputs(z, c), self._seen(x))

    def log_prior(self, z: Tensor) -> Tensor:
        """log p(z)."""
        found: Tensor = self.prior.log_prob(z, self.posterior)
        return found

    def mean(self, z: Tensor, c: Tensor | None = None) -> Tensor:
        """E[x|z]."""
        return self.observation.mean(self.outputs(z, c))

    def emit(self, z: Tensor, generator: torch.Generator, c: Tensor | None = None) -> Tensor:
        """A draw of x given z; the generator lives on the CPU, so that every device draws the same."""
        return self.observation.emit(self.outputs(z, c), generator)

    def draw_codes(self, n: int, generator: torch.Generator) -> Tensor:
        """``n`` codes from the prior."""
        like = next(self.parameters())
        found: Tensor = self.prior.draw(n, like, generator, self.posterior)
        return found

    # -- bounds ----------------------------------------------------------------------------------------

    def divergence(self, q: Posterior | Warped, noise: Tensor, free: float = 0.0) -> Tensor:
        """KL(q ‖ p) of each row: in closed form for a standard normal prior, else at z = ``q.place(noise)``.

        free: nats that each coordinate (of a closed form) or each row may use at no cost.
        """
        if self.prior.closed and not isinstance(q, Warped):
            terms = q.kl_terms()
            return (terms.clamp(min=free) if free else terms).sum(-1)
        kl = q.log_prob_of_noise(noise) - self.log_prior(q.place(noise))
        return kl.clamp(min=free * self.latent_dim) if free else kl

    def forward(
        self, x: Tensor, beta: float | Tensor = 1.0, c: Tensor | None = None, *, free: float = 0.0, draws: int = 0
    ) -> Tensor:
        """−ELBO of each row from one draw of z, with the KL term weighted by ``beta``.

        free: see ``divergence``. draws: where positive, minus the importance bound from so many draws instead.
        """
        if draws:
            return -self._importance_bound(x, draws, c)
        z, kl = self._draw(x, c, free)
        return beta * kl - self.log_likelihood(x, z, c)

    def _draw(self, x: Tensor, c: Tensor | None, free: float) -> tuple[Tensor, Tensor]:
        """A code from q(z|x) and the divergence of q from the prior."""
        outputs = self.encoded(x, c)
        if outputs.is_cuda and self.covariance == "diagonal" and self.prior.closed and not free:
            from benthic.nets import fused

            if fused.serves(outputs) and fused.code_fits(self.latent_dim):
                return fused.draw_code(outputs, normal_like(outputs[:, : self.latent_dim]), LOW, HIGH)
        q = self._law(outputs)
        noise = normal_like(outputs[:, : self.latent_dim])
        return q.place(noise), self.divergence(q, noise, free)

    @property
    def noise_dim(self) -> int:
        """How many standard normal numbers make one draw of the code."""
        return self.latent_dim

    def log_ratio(self, x: Tensor, noise: Tensor, c: Tensor | None = None, *, closed: bool = False) -> Tensor:
        """log p(x, z) − log q(z|x) at z = μ + σ·noise; noise: (k, n, noise_dim), result (k, n).

        closed: whether a divergence with a closed form replaces log p(z) − log q(z|x): the mean is the same, and its
        error smaller.
        """
        q = self.posterior(x, c)
        z = q.place(noise)
        fit = self.log_likelihood(x, z, c)
        if closed and self.prior.closed and not isinstance(q, Warped):
            return fit - q.kl()
        return fit + self.log_prior(z) - q.log_prob_of_noise(noise)

    def _importance_bound(self, x: Tensor, draws: int, c: Tensor | None) -> Tensor:
        """The importance bound of each row; its gradient is doubly reparameterized (Tucker et al., 2019).

        The score of q has mean zero but its variance grows with the number of draws: log q is therefore held fixed,
        and the way through z is weighted by the square of the normalized weights.
        """
        q = self.posterior(x, c)
        z = q.place(torch.randn(draws, *q.mean.shape, **alike(q.mean)))
        ratios = self.log_likelihood(x, z, c) + self.log_prior(z) - q.detach().log_prob(z)
        weights = torch.softmax(ratios.detach(), 0)
        if z.requires_grad:
            z.register_hook(lambda gradient: gradient * weights[..., None])
        bound = torch.logsumexp(ratios.detach(), 0) - math.log(draws)
        return bound + (weights * (ratios - ratios.detach())).sum(0)
