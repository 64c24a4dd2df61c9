"""The network of a variational autoencoder whose codes come from clusters, and how it starts."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from benthic.base.quiet import quiet
from benthic.base.seeds import generator, normal_like
from benthic.manifold import TSNE
from benthic.mixture.gaussian import GaussianMixture
from benthic.nets.conv import ConvDecoder
from benthic.nets.latent import LatentNetwork
from benthic.nets.mlp import MLP
from benthic.nets.posterior import Posterior
from benthic.nets.prior import MixturePrior

_SHARE = 0.1  # of the variance within clusters, that of a posterior at the start
_LEAST = 1e-4  # variance of a direction or a cluster at the start, as a share of the largest
WAYS = ("mixture", "map")
_MAP_ROWS, _MAP_ROWS_CUDA = 5000, 1 << 17  # codes on a map
_ROWS = 5  # rows that each column of each full covariance asks for


class ClusterNetwork(LatentNetwork):
    """A latent network with a mixture of normals as prior, trained on the bound of Jiang et al., 2017."""

    prior: MixturePrior

    def responsibilities(self, z: Tensor) -> Tensor:
        """p(c|z) of codes (..., d), (..., k)."""
        return torch.softmax(self.prior.joint(z), -1)

    def divergence(self, q: Posterior, noise: Tensor, free: float = 0.0, shares: Tensor | None = None) -> Tensor:
        r"""KL between q(z|x) q(c|x) and p(z, c) of each row, with q(c|x) = p(c|z) at z = ``q.place(noise)``.

        .. math:: \sum_c \gamma_c \left[\log \frac{\gamma_c}{\pi_c}
            + \frac12 \sum_j \left(\log \sigma_{cj}^2 + \frac{s_j^2 + (m_j - \mu_{cj})^2}{\sigma_{cj}^2}\right)\right]
            - \frac12 \sum_j (1 + \log s_j^2)

        where q(z|x) = N(m, s²): given the responsibilities γ every term has a closed form.
        free: nats that a row may use at no cost, for each coordinate. shares: (n, k) another q(c|x) to use instead.
        """
        prior = self.prior
        if shares is None:
            log_gamma = torch.log_softmax(prior.joint(q.place(noise)), -1)
            gamma = torch.exp(log_gamma)
        else:
            gamma, log_gamma = shares, torch.log(shares.clamp(min=1e-30))
        precision = torch.exp(-prior.log_vars)
        second = q.mean.square() + torch.exp(q.log_var)  # E z², (n, d)
        gaps = second @ precision.mT - 2.0 * (q.mean @ (prior.means * precision).mT)
        constant = (prior.means.square() * precision + prior.log_vars).sum(-1)
        cross = 0.5 * (gaps + constant) - torch.log_softmax(prior.logits, 0)  # −E log p(z, c), less d/2 log 2π
        kl = (gamma * (log_gamma + cross)).sum(-1) - 0.5 * (1.0 + q.log_var).sum(-1)
        return kl.clamp(min=free * self.latent_dim) if free else kl

    def forward(
        self,
        x: Tensor,
        beta: float | Tensor = 1.0,
        c: Tensor | None = None,
        *,
        free: float = 0.0,
        draws: int = 0,
        plain: bool = False,
        shares: Tensor | None = None,
    ) -> Tensor:
        """−ELBO of each row; plain: of an autoencoder instead, −log p(x|z) at the mean of q(z|x).

        shares: (n, k) a known q(c|x).
        """
        if shares is not None:
            q = self.posterior(x, c)
            noise = normal_like(q.mean)
            return beta * self.divergence(q, noise, free, shares) - self.log_likelihood(x, q.place(noise), c)
        if not plain:
            return super().forward(x, beta, c, free=free, draws=draws)
        idle = sum(p.sum() for p in self.prior.parameters())  # every weight takes part in every backward pass
        return 0.0 * idle - self.log_likelihood(x, self.posterior(x, c).mean, c)


class Start(NamedTuple):
    """Clusters found among codes: weights (k,), means (k, d), covariances (k, d, d).

    shares: (m, k) the probability of each cluster for the codes that were looked at; rows: which those are.
    """

    weights: Tensor
    means: Tensor
    covariances: Tensor
    shares: Tensor
    rows: Tensor


@torch.no_grad()
def start_clusters(network: ClusterNetwork, codes: Tensor, way: Any, starts: int, seed: int) -> Start:
    """Set the prior to a mixture of Gaussians fitted to codes (n, d), and the posteriors' variances to a part of it.

    The axes of an autoencoder's code mean nothing, while the clusters of the prior lie along them. So the mixture has
    full covariances, and the code is first turned and stretched until the mean covariance within clusters is the
    identity; where the decoder is ours, its first layer undoes that, so that nothing changes for it.
    way: one of ``WAYS``, or an estimator that makes the map. starts: of the mixture.
    """
    prior = network.prior
    k, wide = len(prior.logits), codes.double()
    if way == "mixture" or len(codes) < _ROWS * k:  # too few for a map
        found = _mixture(wide, k, starts, seed)
    else:
        found = _on_a_map(wide, k, _mapper(way, seed), starts, seed)
    weights, means, covariances = found[:3]
    into, out = first_linear(network.decoder), last_linear(network.encoder)
    if into is not None:
        within = (weights[:, None, None] * covariances).sum(0)
        values, vectors = torch.linalg.eigh(within)
        values = values.clamp(min=_LEAST * values.max()).clamp(min=1e-12)
        turn, back = (vectors * values.rsqrt()).mT, vectors * values.sqrt()
        center = weights @ means
        means, covariances = (means - center) @ turn.mT, turn @ covariances @ turn.mT
        _turn_codes(out, into, turn, back, center)
    variances = torch.diagonal(covariances, dim1=-2, dim2=-1)
    variances = torch.maximum(variances, _LEAST * variances.amax(0)).clamp(min=1e-8)
    prior.logits.copy_(torch.log(weights.clamp(min=1e-8)))
    prior.means.copy_(means)
    prior.log_vars.copy_(torch.log(variances))
    part = slice(network.latent_dim, 2 * network.latent_dim)
    out.weight[part] = 0.0
    out.bias[part] = torch.log(_SHARE * (weights[:, None] * variances).sum(0)).to(out.bias)
    return found


def _mixture(codes: Tensor, k: int, starts: int, seed: int) -> Start:
    """The clusters of a mixture fitted to codes."""
    mean, scale = codes.mean(0), codes.std(0, unbiased=False)
    scale = torch.where(scale > 0, scale, 1.0)
    rows, d = codes.shape
    kind = "full" if rows >= _ROWS * k * d else "tied"
    mixture = GaussianMixture(k, covariance_type=kind, n_init=starts, reg_covar=1e-4, random_state=seed)
    with quiet(ConvergenceWarning):
        joint = mixture.fit((codes - mean) / scale)._log_joint((codes - mean) / scale)
    weights, means, covariances = (
        torch.as_tensor(part).to(codes) for part in (mixture.weights_, mixture.means_, mixture.covariances_)
    )
    covariances = (covariances * scale * scale[:, None]).expand(k, d, d)
    everything = torch.arange(rows, device=codes.device)
    return Start(weights, means * scale + mean, covariances, torch.softmax(joint, 1).to(codes), everything)


def _mapper(way: Any, seed: int) -> Any:
    """What makes the map: t-SNE whose attraction stays raised, which parts clusters (Böhm, Berens & Kobak, 2022)."""
    if way == "map":
        return TSNE(early_exaggeration=4.0, exaggeration_iter=500, max_iter=500, random_state=seed)
    made = clone(way)
    return made.set_params(random_state=seed % 2**32) if "random_state" in made.get_params() else made


def _on_a_map(codes: Tensor, k: int, mapper: Any, starts: int, seed: int) -> Start:
    """The clusters of a mixture fitted to a map of the codes, on which clusters of any shape become round.

    McConville et al., 2021.
    """
    order = torch.randperm(len(codes), generator=generator(seed, "map")).to(codes.device)
    chosen = order[: _MAP_ROWS_CUDA if codes.is_cuda else _MAP_ROWS].sort().values
    codes = codes[chosen]
    places = torch.as_tensor(mapper.fit_transform(codes.float())).to(codes)
    mixture = GaussianMixture(k, n_init=starts, random_state=seed)
    with quiet(ConvergenceWarning):
        shares = torch.softmax(mixture.fit(places)._log_joint(places), 1).to(codes)
    total = shares.sum(0).clamp(min=1e-8)
    means = shares.mT @ codes / total[:, None]
    gaps = codes[:, None] - means  # (n, k, d)
    covariances = torch.einsum("nk,nki,nkj->kij", shares, gaps, gaps) / total[:, None, None]
    ridge = 1e-4 * torch.diag(codes.var(0, unbiased=False))
    return Start(total / len(codes), means, covariances + ridge, shares, chosen)


def last_linear(encoder: nn.Module) -> nn.Linear:
    """The layer that gives the codes."""
    return [module for module in encoder.modules() if isinstance(module, nn.Linear)][-1]


def first_linear(decoder: nn.Module) -> nn.Linear | None:
    """The layer that takes the codes, where it is known."""
    if not isinstance(decoder, (MLP, ConvDecoder)):
        return None
    return next(module for module in decoder.modules() if isinstance(module, nn.Linear))


def _turn_codes(out: nn.Linear, into: nn.Linear, turn: Tensor, back: Tensor, center: Tensor) -> None:
    """Let codes z become turn (z − center) in the layer that gives them, and undo it in the layer that takes them."""
    d = len(turn)
    out.bias[:d] = (turn @ (out.bias[:d].to(turn) - center)).to(out.bias)
    out.weight[:d] = (turn @ out.weight[:d].to(turn)).to(out.weight)
    into.bias += (into.weight.to(turn) @ center).to(into.bias)
    into.weight.copy_(into.weight.to(turn) @ back)
