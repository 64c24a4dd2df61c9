"""The hierarchical variational autoencoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import nn

from benthic.base.errors import InvalidInput
from benthic.base.seeds import generator
from benthic.base.settings import is_whole, sizes
from benthic.generative.vae.estimator import VariationalEstimator
from benthic.nets.evaluate import device_of, in_type
from benthic.nets.hierarchy import INFERENCES, HierarchicalNetwork, Shape
from benthic.pictures.canvas import new_figure
from benthic.training.intake import Intake

_LOOK = 4096  # rows over which the divergence of each level is averaged


class HierarchicalVAE(VariationalEstimator):
    r"""Variational autoencoder whose code has several levels, each the prior of the one below.

    .. math:: p(x) = \int p(z_T) \prod_{t=2}^T p(z_{t-1}|z_t)\, p(x|z_1)\, dz

    Trained on the evidence lower bound, whose divergence is a sum over levels. Markov posterior as in Rezende et al.,
    2014, and Burda et al., 2016; posterior from the top as in Sønderby et al., 2016. One level is a ``VAE``, to the
    bit.

    level_dims: sizes of z_1, ..., z_T, the lowest first. hidden_layer_sizes: widths of the encoder of z_1, mirrored in
    the decoder. level_layer_sizes: widths of the networks between two levels.
    inference: ``top_down`` goes up without drawing and then draws z_T, ..., z_1, each from the product of what was seen
    and what the model expects; ``bottom_up`` is a Markov chain q(z_1|x) q(z_2|z_1) ... .
    skip: whether each code and the data are given all codes above rather than only the next.
    kl_warmup: share of training over which the weight of the divergence rises from 0; without it higher levels often
    stay unused. The other parameters are those of ``VAE``.

    A code is the codes of all levels side by side, z_1 first; ``level_slices()`` says where. ``encode`` gives the means
    level by level; only z_1 matters to ``decode`` unless ``skip``. ``level_kl_``: nats that each level uses, its term
    of KL(q(z|x) ‖ p(z)) averaged over rows; with ``bottom_up`` a single term may be negative, their sum not.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3)) @ np.ones((3, 3))
    >>> model = HierarchicalVAE((2, 1), trainer={"steps": 50}, random_state=0).fit(X)
    >>> model.encode(X).shape, model.level_kl_.shape, model.level_slices()
    ((200, 3), (2,), [slice(0, 2, None), slice(2, 3, None)])
    """

    def __init__(
        self,
        level_dims: Sequence[int] = (16, 8),
        *,
        inference: str = "top_down",
        skip: bool = False,
        level_layer_sizes: Sequence[int] = (64,),
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
        kl_warmup: float = 0.2,
        free_bits: float = 0.0,
        trainer: Any = None,
        random_state: Any = None,
    ) -> None:
        self.level_dims = level_dims
        self.inference = inference
        self.skip = skip
        self.level_layer_sizes = level_layer_sizes
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
        self.trainer = trainer
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows or images ``X`` (array, frame, path or source); ``y`` is ignored."""
        with self._session(X) as session:
            self._learn(Intake(self, X), session)
        return self

    @property
    def latent_dim(self) -> int:
        """The size of the codes of all levels together."""
        return sum(self._dims())

    def level_slices(self) -> list[slice]:
        """Where each level lies in a code, z_1 first."""
        ends = [sum(self._dims()[: t + 1]) for t in range(len(self._dims()))]
        return [slice(end - size, end) for end, size in zip(ends, self._dims(), strict=True)]

    @torch.no_grad()
    def redraw(self, Z: Any, levels: int = 1, *, seed: Any = None) -> Any:
        """Codes like ``Z`` (n, latent_dim), with the lowest ``levels`` levels drawn anew given those above.

        What ``decode`` makes of them shows what the higher levels know: they keep it, and the rest varies.
        """
        codes, origin = self._arrive_codes(Z, "redraw")
        if not is_whole(levels, 0, len(self._dims())):
            raise self._fail("redraw", f"levels is {levels!r}; it is a whole number from 0 to {len(self._dims())}")
        network: Any = in_type(self.network_, codes.dtype)
        noise = generator(self._sampling_seed(seed), "redraw")
        return origin.mirror(network.redraw(codes.to(device_of(network)), levels, noise))

    def _dims(self) -> tuple[int, ...]:
        return sizes("level_dims", self.level_dims, empty=True)

    def _check_settings(self) -> None:
        if not self._dims():
            raise InvalidInput(f"level_dims is {self.level_dims!r}; it holds a positive size for each level, z_1 first")
        sizes("level_layer_sizes", self.level_layer_sizes, empty=True)
        if self.inference not in INFERENCES:
            raise InvalidInput(f"inference is {self.inference!r}; use 'top_down' or 'bottom_up'")
        super()._check_settings()

    def _shape(self) -> Shape:
        widths = sizes("level_layer_sizes", self.level_layer_sizes, empty=True)
        return Shape(self._dims(), self.inference, bool(self.skip), widths, self.activation)

    def _build_network(self, name: str) -> nn.Module:
        plan, law, shape = self._plan(), self.space_.observation(self.noise, self.noise_floor), self._shape()
        return HierarchicalNetwork(
            plan.encoder(shape.encoder_outputs),
            plan.decoder(shape.decoder_inputs + plan.conditions, law.outputs),
            law,
            shape,
            masked=self._masked,
        )

    @torch.no_grad()
    def _look_at_codes(self, intake: Intake) -> None:
        super()._look_at_codes(intake)
        network: Any = self.network_
        rows = intake.sample(_LOOK, 0).X.to(device_of(network))
        x = self.scales_.transform(rows).to(next(network.parameters()).dtype)
        noise = torch.randn((len(x), network.latent_dim), generator=torch.Generator().manual_seed(0), dtype=x.dtype)
        levels = network.posterior(x).levels(noise.to(x.device))
        found = network.level_divergences(levels, noise.to(x.device))
        self.level_kl_ = torch.stack([kl.mean() for kl in found]).double().cpu().numpy()

    def _facts(self) -> dict[str, Any]:
        nats = ", ".join(f"{kl:.3g}" for kl in self.level_kl_)
        return {**super()._facts(), "levels": "-".join(map(str, self._dims())), "nats of each level": nats}

    def plot(self) -> Any:
        """The loss over training, and the nats that each level uses, as a matplotlib figure."""
        figure, (left, right) = new_figure(7.0, 3.2, columns=2)
        for name, label in (("loss", "training"), ("val_loss", "held out")):
            if name in self.history_[0]:
                left.plot(
                    [entry["epoch"] for entry in self.history_], [entry[name] for entry in self.history_], label=label
                )
        left.set(xlabel="epoch", ylabel="loss", title=type(self).__name__)
        left.legend(frameon=False)
        names = [f"z{t + 1}" for t in range(len(self.level_kl_))]
        right.bar(names, self.level_kl_, color="C0")
        right.set(xlabel="level", ylabel="nats")
        return figure
