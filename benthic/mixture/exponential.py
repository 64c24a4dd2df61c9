"""Mixtures of any exponential family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.arrays import FLOATS, Origin
from benthic.base.capabilities import to_numpy
from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Likelihood
from benthic.base.seeds import generator, np_generator
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.distributions.exponential import Family
from benthic.distributions.families import family_of
from benthic.distributions.product import Product
from benthic.mixture.common import Restarts, choose, column_names
from benthic.mixture.estimator import MixtureEstimator
from benthic.mixture.exponential_em import Components, ExponentialEM, Prior, log_joint
from benthic.mixture.exponential_start import Starter
from benthic.mixture.margins import draw_margins
from benthic.mixture.start import SAMPLE_ROWS
from benthic.training.estimator import Session
from benthic.training.intake import Intake, Prepare
from benthic.uses.verbs import conditions


class ExponentialFamilyMixture(MixtureEstimator):
    r"""Weighted sum of products of exponential families, fitted by expectation maximization.

    .. math:: p(x) = \sum_k w_k \prod_j h_j(x_j) \exp(\langle \eta_{kj}, T_j(x_j) \rangle - A_j(\eta_{kj}))

    Given its component, the columns of a row are independent; counts, shares, waiting times and yes-or-no
    answers may stand in one table. Dempster, Laird & Rubin, 1977. Missing values (NaN) are left out of the
    product, which is exact.

    n_components: number of components. family: ``normal``, ``poisson``, ``bernoulli``, ``exponential``,
    ``geometric`` (failures before a success), ``gamma``, ``beta``, ``lognormal`` or a
    ``benthic.distributions.exponential.Family``; a list has one for each column.
    tol: stop when the mean log-likelihood, with its prior, changes by less. max_iter: EM steps of a start.
    n_init: starts, of which the best is kept. reg: how many rows like the whole table every component is
    given against collapse, a conjugate prior. trainer: device, block rows (``batch_size``), checkpoint.

    Learned: ``weights_`` (k,), ``parameters_`` (name: (k, d)), ``means_`` (k, d), ``natural_`` (k, P) natural
    parameters of (x - ``shift_``) / ``scale_``, family after family; ``converged_``, ``n_iter_``,
    ``lower_bound_`` (mean log-likelihood of the last E step), ``history_``.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).poisson([[2.0], [20.0]], size=(2, 300)).reshape(-1, 1)
    >>> model = ExponentialFamilyMixture(2, family="poisson", random_state=0).fit(X)
    >>> np.sort(model.parameters_["rate"], axis=0).round().tolist()
    [[2.0], [20.0]]
    >>> model.likelihood(X).measure
    'mass'
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        family: Any = "normal",
        tol: float = 1e-3,
        max_iter: int = 100,
        n_init: int = 1,
        reg: float = 1e-3,
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.n_components = n_components
        self.family = family
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.reg = reg
        self.random_state = random_state
        self.trainer = trainer

    # -- learning --------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        self._check_numbers(("n_components", "max_iter", "n_init"), ("tol", "reg"))
        self._named()

    def _learner(self, intake: Intake, session: Session) -> tuple[ExponentialEM, int]:
        rows = intake.data or intake.sample(SAMPLE_ROWS, session.seed)
        self._checked(rows)
        starter = Starter(self._families(intake.width), rows.X, rows.weight)
        learner = ExponentialEM(
            starter.product,
            lambda restart: starter(self.n_components, np_generator(session.seed, "start", restart)),
            Prior(float(self.reg), starter.typical),
            Restarts(self.n_init, self.tol, self.max_iter),
            names=column_names(self, intake.width),
            device=session.device,
        )
        return learner, learner.product.size + self.n_components

    def _prepare(self, intake: Intake) -> Prepare | None:
        return self._checked if intake.data is None else None

    def _checked(self, batch: Batch) -> Batch:
        """The batch, if every value is one its family allows."""
        self._refuse_outsiders(batch.X, "fit")
        return batch

    def _keep(self, learner: ExponentialEM, origin: Origin) -> None:
        """Set the learned attributes: arrays for arrays, tensors for tensors."""
        best = learner.restarts.best

        def kept(tensor: Tensor) -> Any:
            tensor = tensor.contiguous()
            return tensor.to(origin.device) if origin.kind == "torch" else tensor.numpy()

        self.weights_, self.natural_ = map(kept, learner.components)
        self.shift_, self.scale_ = kept(learner.product.shift), kept(learner.product.scale)
        self.converged_, self.n_iter_ = bool(best["converged"]), int(best["iterations"])
        self.lower_bound_ = float(best["bound"])

    # -- families --------------------------------------------------------------------------------------

    def _named(self) -> list[Family]:
        """The families as they were given: one, or one a column."""
        several = isinstance(self.family, (list, tuple, np.ndarray))
        return [family_of(one) for one in (self.family if several else [self.family])]

    def _families(self, width: int) -> list[Family]:
        """The family of each encoded column; a category has its family in all of its columns."""
        named = self._named()
        if isinstance(self.family, (str, Family)):
            return named * width
        schema = getattr(self, "schema_", None)
        if len(named) != width and schema is not None and len(named) == len(schema.columns):
            named = [one for one, column in zip(named, schema.columns, strict=True) for _ in range(column.width)]
        if len(named) != width:
            raise InvalidInput(f"family lists {len(named)} families for {width} columns; give one, or one a column")
        return named

    def _refuse_outsiders(self, X: Tensor, method: str) -> None:
        width = X.shape[1]
        with speaking(self, method):
            unit = torch.ones(width)
            Product(self._families(width), unit, unit).refuse_outsiders(X, column_names(self, width))

    def _arrive(
        self, X: Any, method: str, *, reset: bool = False, missing: bool | None = None
    ) -> tuple[Tensor, Origin]:
        tensor, origin = super()._arrive(X, method, reset=reset, missing=missing)
        if not reset:
            self._refuse_outsiders(tensor, method)
        return tensor, origin

    # -- components ------------------------------------------------------------------------------------

    def _mixture(self, device: torch.device | str = "cpu") -> tuple[Product, Components]:
        """The fitted families and parameters, in float64."""
        parts = (self.shift_, self.scale_, self.weights_, self.natural_)
        shift, scale, weights, natural = (torch.as_tensor(part).to(device) for part in parts)
        return Product(self._families(len(shift)), shift, scale), Components(weights, natural)

    @property
    def parameters_(self) -> dict[str, Any]:
        """Readable parameters of the components by name, (k, d) each, NaN where a column has no such one."""
        product, components = self._mixture()
        return {name: self._like_weights(value) for name, value in product.parameters(components.natural).items()}

    @property
    def means_(self) -> Any:
        """The mean of each column in each component, (k, d)."""
        product, components = self._mixture()
        return self._like_weights(product.mean(components.natural))

    def _like_weights(self, tensor: Tensor) -> Any:
        return tensor.to(self.weights_.device) if isinstance(self.weights_, Tensor) else tensor.numpy()

    def _log_joint(self, X: Tensor) -> Tensor:
        """(n, k)."""
        product, components = self._mixture(X.device)
        return log_joint(product, components, product.read(X)).T

    # -- density ---------------------------------------------------------------------------------------

    def _likelihood(self, X: Tensor, method: str | None) -> Likelihood:
        return replace(super()._likelihood(X, method), measure=self._mixture()[0].measure)

    @property
    def grad_log_prob(self) -> Any:
        """Gradient of the log-density with respect to each complete row (the Stein score), like ``X``.

        Absent where a column is of a family of masses, whose values cannot move a little.
        """
        masses = [family.name for family in self._named() if family.measure == "mass"]
        if masses:
            raise AttributeError(
                f"ExponentialFamilyMixture.grad_log_prob: the {masses[0]} family has a mass and no density, so "
                "there is no gradient; use families of densities for every column"
            )
        return super().grad_log_prob

    def _n_parameters(self) -> int:
        k, size = self.natural_.shape
        return int(k * size + k - 1)

    # -- draws -----------------------------------------------------------------------------------------

    def sample(self, n: int = 1, *, given: Any = None, seed: Any = None) -> Any:
        """``n`` new rows; given: rows with NaN (one or ``n``) whose gaps are drawn given the rest, exactly."""
        self._check_draws(n)
        noise = generator(self._sampling_seed(seed), "sample")
        product, (weights, natural) = self._mixture()
        if given is None:
            chosen = choose(weights.expand(n, -1), noise)
            return self._rows_out(product, product.draw(natural[chosen], noise), self._fit_origin)
        known, origin = self._arrive(given, "sample")
        origin = origin if len(known) == n else replace(origin, index=None)  # one label does not name n rows
        with speaking(self, "sample"):
            known = conditions(known, n)
        chosen = choose(torch.softmax(self._log_joint(known), 1).cpu(), noise)
        drawn = product.draw(natural[chosen], noise).to(known)
        return self._rows_out(product, torch.where(torch.isnan(known), drawn, known), origin)

    def _rows_out(self, product: Product, rows: Tensor, origin: Origin) -> Any:
        """Rows in the type they go out in, which may round them to the end of an open support."""
        return self._data_out(product.pull_in(rows.to(FLOATS[origin.dtype])), origin)

    def _impute(self, X: Tensor) -> Tensor:
        product, components = self._mixture(X.device)
        shares = torch.softmax(self._log_joint(X), 1)
        return product.pull_in((shares @ product.mean(components.natural)).to(X.dtype))

    # -- words and pictures ------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        names = dict.fromkeys(family.name for family in self._families(len(self.shift_)))
        return {
            "components": f"{self.n_components}, {', '.join(names)}",
            **super()._facts(),
        }

    def plot(self, X: Any = None, *, features: Sequence[int] | None = None) -> Any:
        """The density or mass of each column, and what each component adds to it.

        X: rows to show under it. features: which encoded columns, by default the first six.
        """
        check_is_fitted(self)
        points = None if X is None else to_numpy(self._arrive(X, "plot")[0])
        product, components = self._mixture()
        return draw_margins(product, components, points, features, column_names(self, len(self.shift_)))
