"""Mixtures of any exponential family."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benthic.base.arrays import Origin
from benthic.base.errors import InvalidInput
from benthic.base.seeds import np_generator
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.distributions.exponential import Family
from benthic.distributions.families import family_of
from benthic.mixture.common import Restarts, column_names
from benthic.mixture.law_em import Components, LawEM, Model, refuse_empty
from benthic.mixture.law_families import FamilyLaw
from benthic.mixture.law_start import LawStarter, sorted_sample
from benthic.mixture.lawful import LawMixtureEstimator
from benthic.mixture.start import SAMPLE_ROWS
from benthic.mixture.sticks import Shares, Weights
from benthic.training.estimator import Session
from benthic.training.intake import Intake, Prepare


class ExponentialFamilyMixture(LawMixtureEstimator):
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

    def _learner(self, intake: Intake, session: Session) -> tuple[LawEM, int]:
        rows = intake.data or intake.sample(SAMPLE_ROWS, session.seed)
        refuse_empty(rows.X, column_names(self, intake.width))
        self._checked(rows)
        law, sample = FamilyLaw(range(intake.width), self._families(intake.width)), sorted_sample(rows.X, rows.weight)
        law.settle(*sample)
        starter = LawStarter(Model((law,), Shares(float(self.reg)), float(self.reg)), sample)

        def start(restart: int, best: Components | None) -> Components:
            return starter.clusters(self.n_components, np_generator(session.seed, "start", restart))

        restarts = Restarts(self.n_init, self.tol, self.max_iter)
        learner = LawEM(starter.model, start, restarts, device=session.device, keep=intake.data is not None)
        return learner, law.product.size + self.n_components

    def _prepare(self, intake: Intake) -> Prepare | None:
        return self._checked if intake.data is None else None

    def _checked(self, batch: Batch) -> Batch:
        """The batch, if every value is one its family allows."""
        self._refuse_outsiders(batch.X, "fit")
        return batch

    def _keep(self, learner: LawEM, origin: Origin) -> None:
        """Set the learned attributes: arrays for arrays, tensors for tensors."""
        best, (law,) = learner.restarts.best, learner.model.laws

        def kept(tensor: Tensor) -> Any:
            tensor = tensor.contiguous()
            return tensor.to(origin.device) if origin.kind == "torch" else tensor.numpy()

        self.weights_ = kept(learner.components.weights.value)
        self.natural_ = kept(learner.components.parameters[0]["natural"])
        self.shift_, self.scale_ = kept(law.units["shift"]), kept(law.units["scale"])
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
            FamilyLaw(range(width), self._families(width)).refuse(X, column_names(self, width))

    # -- components ------------------------------------------------------------------------------------

    def _fitted(self, device: torch.device | str = "cpu") -> tuple[tuple[FamilyLaw, ...], Components]:
        """The fitted families and parameters, in float64."""
        parts = (self.shift_, self.scale_, self.weights_, self.natural_)
        shift, scale, weights, natural = (torch.as_tensor(part).to(device) for part in parts)
        law = FamilyLaw(range(len(shift)), self._families(len(shift)), {"shift": shift, "scale": scale})
        return (law,), Components(Weights(weights, weights.log()), ({"natural": natural},), weights)

    @property
    def parameters_(self) -> dict[str, Any]:
        """Readable parameters of the components by name, (k, d) each, NaN where a column has no such one."""
        (law,), components = self._fitted()
        found = law.product.parameters(components.parameters[0]["natural"])
        return {name: self._like_weights(value) for name, value in found.items()}

    @property
    def means_(self) -> Any:
        """The mean of each column in each component, (k, d)."""
        (law,), components = self._fitted()
        return self._like_weights(law.product.mean(components.parameters[0]["natural"]))

    def _like_weights(self, tensor: Tensor) -> Any:
        return tensor.to(self.weights_.device) if isinstance(self.weights_, Tensor) else tensor.numpy()

    # -- words and pictures ------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        names = dict.fromkeys(family.name for family in self._families(len(self.shift_)))
        return {
            "components": f"{self.n_components}, {', '.join(names)}",
            **super()._facts(),
        }
