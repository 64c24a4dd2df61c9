"""Adversarial models of tables whose columns are of several kinds."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benthic.base.errors import InvalidInput, nearest
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator
from benthic.generative.gan.columns import ColumnCode
from benthic.generative.gan.columns_layer import ColumnActivation
from benthic.generative.gan.dense import DenseAdversarialEstimator
from benthic.generative.gan.density import Parzen
from benthic.generative.gan.networks import drawn_rows
from benthic.nets.evaluate import device_of, in_type
from benthic.training.estimator import Session
from benthic.training.intake import Intake
from benthic.uses.latent import Filled

COLUMNS = ("auto", "standard", "modes")
_LOOK = 10_000  # rows that the modes of columns are learned from
_POINTS = 2048


def expected(layer: ColumnActivation, outputs: Tensor) -> Tensor:
    """What a layer gives without its draws: numbers in their range, and the probabilities of states."""
    bounds = layer._bounds.to(outputs.dtype)
    numbers = bounds * torch.tanh(outputs.index_select(1, layer._numbers) / (bounds + (bounds == 0)))
    parts = [numbers]
    if len(layer._places):
        parts.append(torch.softmax(layer._padded(outputs), 2).flatten(1))
    return torch.cat(parts, 1).index_select(1, layer._order)


class TableGenerator(nn.Module):
    """A generator of codes of columns: states are drawn while it learns; at rest they are probabilities."""

    def __init__(self, body: nn.Module, layer: ColumnActivation) -> None:
        super().__init__()
        self.body, self.layer = body, layer

    def forward(self, codes: Tensor) -> Tensor:
        """Rows (n, width) as a ``ColumnCode`` writes them."""
        outputs = self.body(codes)
        return self.layer(outputs) if self.training else expected(self.layer, outputs)

    def draw(self, codes: Tensor) -> Tensor:
        """The same with states that are drawn."""
        return self.layer(self.body(codes), hard=True)


class TableAdversarialEstimator(DenseAdversarialEstimator):
    """Base of models that take the columns of a table by their kinds."""

    # modes of a table are narrow: a critic must be allowed slopes that show their width
    usual_weights = {"r1": 0.01, "r2": 0.01}
    columns: str = "auto"
    columns_: ColumnCode | None

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.columns not in COLUMNS:
            raise InvalidInput(
                f"columns {self.columns!r} is unknown{nearest(str(self.columns), COLUMNS)}; use one of "
                f"{', '.join(COLUMNS)}"
            )

    def _enter(self, intake: Intake, session: Session) -> None:
        super()._enter(intake, session)
        self.columns_ = None
        schema = getattr(self, "schema_", None)
        labels = schema is not None and any(c.kind in ("category", "boolean") for c in schema.columns)
        if self.columns == "modes" or (self.columns == "auto" and labels and isinstance(self.network, str)):
            if not isinstance(self.network, str):
                raise InvalidInput("columns='modes' gives the generator its last layer; use network='mlp'")
            rows = intake.sample(_LOOK, session.seed).X.double().cpu().numpy()
            self.columns_ = ColumnCode(random_state=session.seed).fit(rows, schema)

    def _row_size(self) -> int:
        return self._width if self.columns_ is None else self.columns_.width

    def _starts_like_data(self) -> bool:
        return self.columns_ is None and super()._starts_like_data()

    def _build_generator(self) -> nn.Module:
        body = super()._build_generator()
        return body if self.columns_ is None else TableGenerator(body, self.columns_.layer())

    def _inward(self, X: Tensor) -> Tensor:
        return super()._inward(X) if self.columns_ is None else self.columns_.encode(X)

    def _outward(self, rows: Tensor) -> Tensor:
        return super()._outward(rows) if self.columns_ is None else self.columns_.decode(rows)

    def _smooth_units(self, rows: Tensor) -> Tensor:
        return rows if self.columns_ is None else self.scales_.transform(self.columns_.decode(rows))

    def _make(self, n: int, noise: torch.Generator) -> Tensor:
        if self.columns_ is None:
            return super()._make(n, noise)
        wide = self._fit_origin.dtype == "float64"
        network = in_type(self.network_, torch.float64 if wide else torch.float32)
        codes = self._codes(n, next(network.parameters()).cpu(), noise)
        seed = int(torch.randint(1 << 31, (), generator=noise))
        return drawn_rows(network, codes.to(device_of(network)), None, seed)

    @torch.no_grad()
    def _parzen(self, network: Any, like: Tensor) -> Parzen:
        if self.columns_ is None:
            return super()._parzen(network, like)
        codes = self._codes(_POINTS, like[:0].cpu(), generator(0, "parzen"))
        rows = drawn_rows(network, codes.to(device_of(network)), None)
        return Parzen(self._smooth_units(rows), self.bandwidth_)

    def _standard(self, X: Tensor) -> tuple[Any, Tensor]:
        """The network, and rows in the units in which its law is smoothed."""
        dtype = X.dtype if X.dtype in (torch.float32, torch.float64) else torch.float32
        network = in_type(self.network_, dtype)
        return network, self.scales_.transform(X.detach().to(device_of(network), dtype))

    @torch.no_grad()
    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        if self.columns_ is None:
            return super()._likelihood(X, method)
        if self._parse(method)[0] != "kde":
            raise self._fail("likelihood", "'ais' needs rows without drawn states; use 'kde', or columns='standard'")
        network, rows = self._standard(X)
        value, stderr = self._parzen(network, rows).log_prob(rows)
        return Likelihood(value + self._log_jacobian(), stderr, "kde", "estimate", "density")

    @torch.no_grad()
    def _fill(self, X: Tensor, noise: torch.Generator) -> Filled:
        if self.columns_ is None:
            return super()._fill(X, noise)
        network, rows = self._standard(X)
        found = self._parzen(network, rows).fill(rows, noise)
        return Filled(*(self.scales_.inverse(part) for part in found))

    def _facts(self) -> dict[str, Any]:
        kinds = {} if self.columns_ is None else {"columns": str(self.columns_)}
        return {**super()._facts(), **kinds}
