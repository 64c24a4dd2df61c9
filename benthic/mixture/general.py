"""Mixtures of any laws."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from benthic.base.arrays import Origin
from benthic.base.capabilities import to_numpy
from benthic.base.errors import InvalidInput, nearest
from benthic.base.seeds import np_generator, seed_of
from benthic.base.settings import number, one_of
from benthic.base.validation import check_weights, speaking
from benthic.data.batch import Batch
from benthic.mixture.common import Restarts, column_names
from benthic.mixture.criteria import CRITERIA, criterion
from benthic.mixture.law import Law
from benthic.mixture.law_em import Components, LawEM, Model, Start, Stepwise, refuse_empty
from benthic.mixture.law_start import LawStarter, settle, sorted_sample
from benthic.mixture.lawful import LawMixtureEstimator
from benthic.mixture.naming import check_setting, law_of_tree, laws_of, tree_of, variables_of
from benthic.mixture.start import SAMPLE_ROWS
from benthic.mixture.sticks import Shares, Sticks, WeightRule, Weights
from benthic.training.estimator import Session
from benthic.training.intake import Intake, Prepare
from benthic.training.loop import Loop

_WAYS = ("kmeans++", "random")


class Mixture(LawMixtureEstimator):
    r"""Weighted sum of products of any laws, fitted by expectation maximization.

    .. math:: p(x) = \sum_k w_k \prod_b p_b(x_b; \theta_{kb})

    The E step is the same for all laws; each brings its own weighted maximum likelihood (Dempster, Laird & Rubin,
    1977). Given the component, groups b of columns are independent. Missing values (NaN) are integrated out.

    n_components: number of components, or ``bic`` or ``icl`` to try 1 to ``max_components`` and keep the best by
    the Bayesian information criterion, or by the integrated completed likelihood, which prefers clusters that do not
    overlap (Biernacki, Celeux & Govaert, 2000).

    components: ``normal`` (whole rows, full covariance), ``t`` (whole rows, degrees of freedom learned),
    ``von_mises_fisher`` (directions of rows; lengths do not count), or a law for every column: ``poisson``,
    ``bernoulli``, ``categorical`` (whole numbers as codes), ``exponential``, ``geometric``, ``gamma``, ``beta``,
    ``lognormal``. A list has one law a column, where ``normal`` and ``t`` are those of a single number. A dict maps
    columns to laws, and tuples of columns to laws of vectors; columns it leaves out are guessed. ``auto`` guesses
    all: categories of a frame are categorical, booleans Bernoulli, whole numbers from 0 to 1000 Poisson, other
    numbers normal with a full covariance. Categories of a frame are always categorical.

    df: degrees of freedom of every t; None learns them. tol: stop when the mean objective changes by less.
    max_iter: EM steps of a start. n_init: starts, of which the best is kept. split_merge: further starts, each
    from the best so far with two components merged and one split (Ueda et al., 2000).
    init: ``kmeans++``, ``random``, or labels (n,) or shares (n, k) of the rows to start from.
    reg: how many rows like the whole table every component is given against collapse.
    weight_concentration: None for plain weights; a number is the concentration of a Dirichlet process truncated at
    ``n_components``: superfluous components end with next to no weight (Blei & Jordan, 2006); they empty slowly, so
    give ``tol`` near 1e-6 and a large ``max_iter``.
    batch_size: None takes whole passes; a number updates after so many rows by running means of the statistics, for
    data too large for many passes (Cappé & Moulines, 2009), in ``trainer.epochs`` passes (5). step_power: how fast
    those means forget, above 0.5 and at most 1. ``partial_fit`` does the same for streams.
    trainer: device, block rows (``batch_size``), checkpoint.

    Learned: ``weights_`` (k,), ``parameters_`` (a dict of readable parameters for each law), ``n_components_``,
    ``converged_``, ``n_iter_``, ``lower_bound_`` (mean log-likelihood of the last E step), ``history_`` (objective
    and log-likelihood of every step), ``selection_`` (criterion by number of components, if it was chosen).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.r_[rng.poisson(2, (300, 1)), rng.poisson(20, (300, 1))]
    >>> model = Mixture(2, components="poisson", random_state=0).fit(X)
    >>> np.sort(model.parameters_[0]["rate"], axis=0).round().tolist()
    [[2.0], [20.0]]
    >>> Mixture("bic", components="poisson", max_components=4, random_state=0).fit(X).n_components_
    2
    """

    advice = "raise max_iter or tol, or use more typical rows (reg)"

    def __init__(
        self,
        n_components: int | str = 1,
        *,
        components: Any = "auto",
        df: float | None = None,
        tol: float = 1e-3,
        max_iter: int = 100,
        n_init: int = 1,
        split_merge: int = 0,
        init: Any = "kmeans++",
        reg: float = 1e-3,
        weight_concentration: float | None = None,
        max_components: int = 10,
        batch_size: int | None = None,
        step_power: float = 0.7,
        random_state: Any = None,
        trainer: Any = None,
    ) -> None:
        self.n_components = n_components
        self.components = components
        self.df = df
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.split_merge = split_merge
        self.init = init
        self.reg = reg
        self.weight_concentration = weight_concentration
        self.max_components = max_components
        self.batch_size = batch_size
        self.step_power = step_power
        self.random_state = random_state
        self.trainer = trainer

    # -- settings ------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        counts = ["max_iter", "n_init", "max_components", *(["batch_size"] if self.batch_size is not None else [])]
        if isinstance(self.n_components, str):
            if self.n_components not in CRITERIA:
                hint = nearest(self.n_components, CRITERIA)
                raise InvalidInput(f"n_components is {self.n_components!r}{hint}; use a number, 'bic' or 'icl'")
        else:
            counts.append("n_components")
        self._check_numbers(counts, ("tol", "reg", "split_merge"))
        number("step_power", self.step_power, 0.5, 1, ends="(]")
        for name in ("weight_concentration", "df"):
            number(name, getattr(self, name), ends="(]", optional=True)
        if isinstance(self.init, str):
            one_of("init", self.init, _WAYS)
        check_setting(self.components)

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows ``X`` (array, frame, path or source), NaN for missing values.

        y: ignored; for a file, the name of a column to leave out. sample_weight: how often each row counts.
        """
        with speaking(self, "fit"):
            self._check_settings()
            if self.batch_size is not None and sample_weight is not None:
                raise InvalidInput("sample_weight needs whole passes; leave out batch_size")
        if isinstance(self.n_components, str):
            return self._select(X, y, sample_weight)
        self.__dict__.pop("stream_", None)
        return super().fit(X, y, sample_weight)

    def _select(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit 1, 2, ... components and keep the best by the criterion."""
        name, seed, best = str(self.n_components), seed_of(self.random_state), None
        found: dict[int, float] = {}
        for k in range(1, self.max_components + 1):
            model = clone(self).set_params(n_components=k, random_state=seed)
            if best is not None and k > best.n_rows_:
                break
            model.fit(X, y, sample_weight)
            found[k] = criterion(name, model, X, y, sample_weight)
            if best is None or found[k] < min(list(found.values())[:-1]):
                best = model
        settings = self.get_params(deep=False)
        if best is not None:
            self.__dict__.update({key: value for key, value in vars(best).items() if key not in settings})
        self.selection_ = found
        return self

    def _learner(self, intake: Intake, session: Session) -> tuple[LawEM, int]:
        rows = intake.data or intake.sample(SAMPLE_ROWS, session.seed)
        starter = self._starter(rows, intake.width)
        self.n_rows_ = rows.X.shape[0] if rows.weight is None else int((rows.weight > 0).sum())
        model, k = starter.model, int(self.n_components)
        self._unchecked = model.laws
        numbers = sum(len(law.columns) for law in model.laws) + k
        if self.batch_size is not None:
            start = self._start(starter, rows, session.seed, Restarts(1, 0.0, 1))
            return Stepwise(model, start, device=session.device, power=self.step_power), numbers
        restarts = Restarts(self.n_init + self.split_merge, self.tol, self.max_iter)
        start = self._start(starter, rows, session.seed, restarts)
        return LawEM(model, start, restarts, device=session.device, keep=intake.data is not None), numbers

    def _starter(self, rows: Batch, width: int) -> LawStarter:
        """Laws measured on the rows, and what makes starts from them."""
        names = column_names(self, width)
        refuse_empty(rows.X if rows.weight is None else rows.X[rows.weight > 0], names)
        variables = variables_of(getattr(self, "schema_", None), getattr(self, "feature_names_in_", None), width)
        sample = sorted_sample(rows.X, rows.weight)
        laws = tuple(laws_of(self.components, variables, sample.X, self.df))
        for law in laws:
            law.refuse(rows.X, names)
        settle(laws, sample)
        return LawStarter(Model(laws, self._rule(laws), float(self.reg)), sample)

    def _rule(self, laws: Sequence[Law]) -> WeightRule:
        alpha = self.weight_concentration
        if alpha is None:
            return Shares(float(self.reg))
        return Sticks(float(alpha), sum(law.freedom for law in laws))

    def _start(self, starter: LawStarter, rows: Batch, seed: int, restarts: Restarts) -> Start:
        k = int(self.n_components)
        given = (
            None if isinstance(self.init, str) else starter.given(rows.X.cpu(), _cpu(rows.weight), self._given(rows))
        )

        def start(number: int, best: Components | None) -> Components:
            if best is not None and number >= self.n_init:
                tried = number - max(self.n_init, int(restarts.best["restart"]) + 1)
                changed = starter.split_merge(best, tried)
                if changed is not None:
                    return changed
            if given is not None:
                return given
            return starter.clusters(k, np_generator(seed, "start", number), self.init)

        return start

    def _given(self, rows: Batch) -> Tensor:
        """Shares (k, n) from the labels or shares that ``init`` is."""
        values, n, k = np.asarray(to_numpy(self.init)), len(rows.X), int(self.n_components)
        if values.shape == (n,) and np.isin(values, np.arange(k)).all():
            return torch.nn.functional.one_hot(torch.as_tensor(values.astype(np.int64)), k).T.double()
        if values.shape == (n, k) and (values >= 0).all() and np.allclose(values.sum(1), 1, atol=1e-6):
            return torch.as_tensor(values.astype(np.float64)).T.contiguous()
        raise InvalidInput(
            f"init has shape {values.shape}; it must be labels 0 to {k - 1} of {n} rows, or shares ({n}, {k}) "
            "that sum to 1"
        )

    def _prepare(self, intake: Intake) -> Prepare | None:
        """Rows of a file are checked as they come; those in memory were."""
        if intake.data is not None:
            return None
        laws, names = self._unchecked, column_names(self, intake.width)

        def checked(batch: Batch) -> Batch:
            for law in laws:
                law.refuse(batch.X, names)
            return batch

        return checked

    def _order(self, session: Session, numbers: int) -> dict[str, Any]:
        if self.batch_size is None:
            return super()._order(session, numbers)
        return {"batch_size": self.batch_size, "shuffle": True}

    def _train(self, learner: Any, feed: Any, session: Session, validation: Any = None) -> Loop:
        if self.batch_size is not None and session.trainer.epochs is None and session.trainer.steps is None:
            session = dataclasses.replace(session, trainer=dataclasses.replace(session.trainer, epochs=5))
        return super()._train(learner, feed, session, validation)

    def _keep(self, learner: LawEM, origin: Origin) -> None:
        """Set the learned attributes: arrays for arrays, tensors for tensors."""
        best = learner.restarts.best

        def kept(tensor: Tensor) -> Any:
            tensor = tensor.detach().contiguous()
            return tensor.to(origin.device) if origin.kind == "torch" else tensor.numpy()

        laws, found = learner.model.laws, learner.components
        self.__dict__.pop("_unchecked", None)
        self.weights_ = kept(found.weights.value)
        self.laws_ = [tree_of(law, p, kept) for law, p in zip(laws, found.parameters, strict=True)]
        self.n_components_ = len(self.weights_)
        self.converged_, self.n_iter_ = bool(best["converged"]), int(best["iterations"])
        self.lower_bound_ = float(best["bound"])

    # -- streams -------------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one more batch of rows by stepwise EM; the first call also starts the components.

        Running means of the statistics move to those of the batch by steps that shrink as (t + 2) to the power of
        minus ``step_power``. After a ``fit``, the stream begins with what was fitted.
        """
        with speaking(self, "partial_fit"):
            self._check_settings()
            if isinstance(self.n_components, str):
                raise InvalidInput("choosing n_components needs all rows at once; use fit, or give a number")
        first = not hasattr(self, "laws_")
        with self._session(X) as session:
            tensor, origin = self._arrive(X, "partial_fit", reset=first)
            with speaking(self, "partial_fit"):
                batch = Batch(tensor.cpu(), None, _cpu(check_weights(sample_weight, tensor)))
                learner = self._opened(batch, session) if first else self._resumed()
            learner.begin("fit")
            learner.update(learner.statistics(batch, "fit", 1.0), "fit", _no_pass)
            learner.finish()
            self._keep(learner, origin)
            kept = {name: value.numpy() for name, value in learner.means.items()}
            self.stream_ = {"means": kept, "steps": learner.steps, "seen": learner.seen}
        return self

    def _opened(self, batch: Batch, session: Session) -> Stepwise:
        rows = len(batch.X) if batch.weight is None else int((batch.weight > 0).sum())
        if rows < int(self.n_components):
            raise InvalidInput(f"the first batch has {rows} rows, fewer than n_components={self.n_components}")
        starter = self._starter(batch, batch.X.shape[1])
        start = self._start(starter, batch, session.seed, Restarts(1, 0.0, 1))
        return Stepwise(starter.model, start, device=torch.device("cpu"), power=self.step_power)

    def _resumed(self) -> Stepwise:
        laws, components = self._fitted()
        model = Model(laws, self._rule(laws), float(self.reg))
        learner = Stepwise(model, lambda number, best: components, device=torch.device("cpu"), power=self.step_power)
        stream = getattr(self, "stream_", None)
        if stream is not None:
            means = {name: torch.as_tensor(value) for name, value in stream["means"].items()}
            learner.resume(means, int(stream["steps"]), float(stream["seen"]))
        return learner

    # -- components ----------------------------------------------------------------------------------------

    def _fitted(self, device: torch.device | str = "cpu") -> tuple[tuple[Law, ...], Components]:
        """The fitted laws and components, in float64."""
        weights = torch.as_tensor(self.weights_).to(device, torch.float64)
        pairs = [law_of_tree(tree, device) for tree in self.laws_]
        laws, parameters = (tuple(part) for part in zip(*pairs, strict=True))
        return laws, Components(Weights(weights, weights.clamp(min=1e-300).log()), parameters, weights.cpu())

    @property
    def parameters_(self) -> list[dict[str, Any]]:
        """For each law its name, its encoded columns and its readable parameters, the components first."""
        found = []
        laws, components = self._fitted()
        for law, parameters in zip(laws, components.parameters, strict=True):
            values = {name: self._like_weights(value) for name, value in law.readable(parameters).items()}
            found.append({"law": law.name, "columns": list(law.columns), **values})
        return found

    def _like_weights(self, tensor: Tensor) -> Any:
        return tensor.to(self.weights_.device) if isinstance(self.weights_, Tensor) else tensor.numpy()

    def _refuse_outsiders(self, X: Tensor, method: str) -> None:
        names = column_names(self, X.shape[1])
        with speaking(self, method):
            for law in self._fitted(X.device)[0]:
                law.refuse(X, names)

    def icl(self, X: Any) -> float:
        """Integrated completed likelihood on ``X``, as twice a cost; lower is better."""
        return criterion("icl", self, X)

    # -- words ---------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        names = [f"{law.label} ({len(law.columns)})" for law in self._fitted()[0]]
        facts = {"components": f"{self.n_components_}, {', '.join(names)}", **super()._facts()}
        if hasattr(self, "selection_"):
            facts["chosen by"] = f"{self.n_components}, of {len(self.selection_)} numbers of components"
        return facts


def _cpu(weight: Tensor | None) -> Tensor | None:
    return None if weight is None else weight.cpu()


def _no_pass(function: Any) -> Any:
    raise InvalidInput("partial_fit sees one batch only")
