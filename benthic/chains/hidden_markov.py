"""The hidden Markov model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from benthic.base.errors import InvalidInput
from benthic.base.likelihood import Measure
from benthic.base.progress import Bar
from benthic.base.seeds import generator, np_generator, seed_of
from benthic.base.sequences import Ragged, ScoresSequences, SequenceEstimator, SequenceOrigin
from benthic.base.threads import one_torch_thread, threads
from benthic.base.validation import speaking
from benthic.chains.emissions import Sums, check_prior
from benthic.chains.emissions_gaussian import GaussianEmission
from benthic.chains.emissions_loops import walk
from benthic.chains.hidden_learning import Blocks, HiddenChain, Priors, Run, add, best_of, expect, maximize, run_em
from benthic.chains.hidden_picture import draw_law, draw_sequence
from benthic.chains.hidden_settings import check_counts, check_settings, emission_of, make_plan, symbolic
from benthic.chains.hidden_start import Starter
from benthic.chains.messages import marginals, viterbi
from benthic.uses.verbs import OddSequences

_THREADS = 8  # at most, if n_jobs does not say
_FADING = 0.7  # power by which a new batch counts less and less


class HiddenMarkovModel(OddSequences, ScoresSequences, SequenceEstimator):
    r"""Sequences emitted by states that follow one another as a Markov chain and are not seen.

    .. math:: p(x_1, \dots, x_t) = \sum_{s} \pi_{s_1} b_{s_1}(x_1) \prod_{i=2}^t A_{s_{i-1} s_i} b_{s_i}(x_i)

    Baum et al., 1970; Rabiner, 1989. Learned by EM over all sequences, of any lengths, from several starts; the
    objective (log-likelihood plus log-prior) never falls. Steps or entries that are NaN, and symbols that are None or
    -1, are missing and integrated out.

    n_states: how many, or ``"bic"`` or ``"aic"`` to try 1 to ``max_states``. emission: ``"gaussian"``, ``"mixture"``
    (of ``n_components`` Gaussians), ``"categorical"`` (symbols), ``"poisson"`` (counts), or ``"auto"``: symbols if
    ``X`` holds integers, strings or labels, else Gaussian. covariance_type: ``"full"``, ``"diag"``, ``"tied"`` (one
    for all) or ``"spherical"``. topology: ``"full"`` or ``"left-right"`` (start in the first state; stay or go one
    on); other shapes are zeros of ``transitions_init``, which stay zero. start_init, transitions_init, means_init,
    covariances_init, emissions_init: where to start. start_prior, transition_prior, emission_prior: parameters of
    Dirichlet priors, 1 for none, 2 for one more of each kind. symbols: the alphabet, if not all of it may be in ``X``.
    min_covar: no variance falls below this part of its column's. tol: a start ends when it gains less than this a
    step of data. n_jobs: threads, as many as cores (up to 8) by default; the result does not depend on it.

    Learned: ``start_`` (k,), ``transitions_`` (k, k), ``means_``, ``covariances_`` and ``weights_``, or
    ``emissions_`` (k, m) of ``symbols_``, or ``rates_``; ``log_likelihoods_`` (the objective after each pass of the
    best start), ``occupancy_`` (share of time in each state), ``n_states_``, ``n_iter_``, ``converged_``, ``choice_``.

    >>> import numpy as np
    >>> X = [np.array([0.1, -0.1, 0.0, 5.1, 4.9, 5.0]), np.array([5.0, 5.2, 0.1, 0.2])]
    >>> model = HiddenMarkovModel(2, random_state=0).fit(X)
    >>> sorted(model.means_[:, 0].round(1).tolist())
    [0.1, 5.0]
    >>> path = model.predict(X)
    >>> bool(path[0][0] != path[0][5]), len(path[1])
    (True, 4)
    """

    accepts_missing = True

    def __init__(
        self,
        n_states: int | str = 2,
        *,
        emission: str = "auto",
        covariance_type: str = "full",
        n_components: int = 2,
        topology: str = "full",
        start_init: Any = None,
        transitions_init: Any = None,
        means_init: Any = None,
        covariances_init: Any = None,
        emissions_init: Any = None,
        start_prior: Any = 1.0,
        transition_prior: Any = 1.0,
        emission_prior: float = 1.0,
        symbols: Any = None,
        min_covar: float = 1e-6,
        n_init: int = 3,
        max_iter: int = 100,
        tol: float = 1e-5,
        max_states: int = 8,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_states = n_states
        self.emission = emission
        self.covariance_type = covariance_type
        self.n_components = n_components
        self.topology = topology
        self.start_init = start_init
        self.transitions_init = transitions_init
        self.means_init = means_init
        self.covariances_init = covariances_init
        self.emissions_init = emissions_init
        self.start_prior = start_prior
        self.transition_prior = transition_prior
        self.emission_prior = emission_prior
        self.symbols = symbols
        self.min_covar = min_covar
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.max_states = max_states
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from sequences: an array (n, t, d) or (n, t), or a list of sequences of any lengths. y: ignored."""
        self._forget()
        with speaking(self, "fit"):
            check_settings(self)
            self.emission_ = self._kind(X)
        data, _ = self._arrive_any(X, "fit", reset=True)
        with speaking(self, "fit"):
            self._learn(data)
        return self

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        self.__dict__.pop("_kept", None)

    def _kind(self, X: Any) -> str:
        if self.emission != "auto":
            return self.emission
        return "categorical" if symbolic(X) else "gaussian"

    def _learn(self, data: Ragged) -> None:
        seed = seed_of(self.random_state)
        blocks = Blocks(data, threads(self.n_jobs, _THREADS))
        steps = _observed(data)
        if not isinstance(self.n_states, str):
            self._keep(self._best_run(data, blocks, int(self.n_states), seed, steps), data)
            return
        tried: dict[int, tuple[float, Run]] = {}
        for k in range(1, min(self.max_states, steps) + 1):
            run = self._best_run(data, blocks, k, seed, steps)
            cost = np.log(steps) if self.n_states == "bic" else 2.0
            tried[k] = (float(cost * run.chain.n_parameters - 2 * run.objective), run)
        best = min(tried, key=lambda k: tried[k][0])
        self._keep(tried[best][1], data)
        self.choice_ = {"n_states": list(tried), self.n_states: [value for value, _ in tried.values()]}

    def _best_run(self, data: Ragged, blocks: Blocks, k: int, seed: int, steps: int) -> Run:
        """The best of several runs of EM with ``k`` states."""
        if steps < k:
            raise InvalidInput(f"n_states={k}, but X has only {steps} observed steps; use fewer states or more steps")
        symbols = len(self.symbols_) if self.emission_ == "categorical" else 0
        plan = make_plan(self, self.emission_, k, symbols or self.n_features_in_, isinstance(self.n_states, str))
        starter = Starter(data, plan, symbols)
        priors = self._priors(k)
        bar = Bar(type(self).__name__, self.n_init * self.max_iter, bool(self.verbose), "passes")
        settings: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol}
        settings["tick"] = lambda value: bar.tick(1, f"{value:.4f} nats a step")
        chains = (starter(np_generator(seed, "hidden", number)) for number in range(self.n_init))
        with one_torch_thread():
            runs = [run_em(chain, blocks, priors, **settings) for chain in chains]
        bar.close()
        return best_of(runs)

    def _priors(self, k: int) -> Priors:
        return Priors(
            check_prior("start_prior", self.start_prior, (k,)),
            check_prior("transition_prior", self.transition_prior, (k, k)),
        )

    def _keep(self, run: Run, data: Ragged) -> None:
        self._keep_law(run.chain)
        self.log_likelihoods_ = np.array(run.history)
        self.n_iter_ = len(run.history) - 1
        self.converged_ = run.converged
        self.occupancy_ = run.occupancy.numpy()
        self.typical_length_ = int(np.median(data.lengths.numpy()))
        if not run.converged:
            warnings.warn(
                f"{type(self).__name__}.fit: the best start still improved after {self.n_iter_} passes; "
                "raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _keep_law(self, chain: HiddenChain) -> None:
        chain = chain.to("cpu")
        self.n_states_ = chain.k
        self.start_ = chain.start.numpy()
        self.transitions_ = chain.transitions.numpy()
        for name, value in chain.emission.arrays().items():
            setattr(self, name, value)
        if isinstance(chain.emission, GaussianEmission):
            self._bounds = (chain.emission.floor.numpy(), chain.emission.middle.numpy())

    # -- statistics that add ---------------------------------------------------------------------------------

    def statistics(self, X: Any) -> Sums:
        """Expected counts of sequences under the present parameters; those of several sets of sequences add.

        ``update`` of their sum is one pass of EM over all of them, wherever they were counted.
        """
        data, _ = self._arrive_any(X, "statistics")
        with speaking(self, "statistics"):
            return expect(self._chain(), Blocks(data, threads(self.n_jobs, _THREADS)))

    def update(self, statistics: Mapping[str, Tensor]) -> Self:
        """One M step: the parameters that follow from expected counts, summed over ``statistics`` of all data."""
        check_is_fitted(self)
        chain = self._chain()
        if set(statistics) != set(expect(chain, self._nothing())):
            raise self._fail("update", "these are not sums of this model's statistics(X)")
        self._keep_law(maximize(chain, statistics, self._priors(chain.k)))
        self.occupancy_ = (statistics["steps"] / statistics["steps"].sum()).numpy()
        return self

    def _nothing(self) -> Blocks:
        """One step of which nothing is observed."""
        if self.emission_ == "categorical":
            value = torch.full((1,), -1, dtype=torch.int64)
        else:
            value = torch.full((1, self.n_features_in_), torch.nan, dtype=torch.float64)
        return Blocks(Ragged(value, torch.ones(1, dtype=torch.int64)))

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more batch of sequences by stepwise EM (Cappé & Moulines, 2009); the first is fitted alone.

        Symbols that later batches may bring are named by ``symbols``.
        """
        if not hasattr(self, "start_"):
            self.fit(X, y)
            self._kept = {"batches": 1, "sums": _numpy(_per_step(self.statistics(X)))}
            return self
        data, _ = self._arrive_any(X, "partial_fit")
        with speaking(self, "partial_fit"):
            chain = self._chain()
            sums = _per_step(expect(chain, Blocks(data, threads(self.n_jobs, _THREADS))))
            kept = getattr(self, "_kept", None) or {"batches": 1, "sums": _numpy(sums)}
            old = {name: torch.from_numpy(np.array(value)) for name, value in kept["sums"].items()}
            rate = (kept["batches"] + 1.0) ** -_FADING
            mixed = add(_scaled(old, 1 - rate), _scaled(sums, rate))
            seen = float(len(data.values)) * (kept["batches"] + 1)  # what the priors are weighed against
            after = maximize(chain, _scaled(mixed, seen), self._priors(chain.k))
            self._keep_law(after)
            moved = {**mixed, **after.emission.moved(mixed, chain.emission)}
            self._kept = {"batches": kept["batches"] + 1, "sums": _numpy(moved)}
            self.occupancy_ = (mixed["steps"] / mixed["steps"].sum()).numpy()
        return self

    # -- use -----------------------------------------------------------------------------------------------

    def _arrive_any(self, X: Any, method: str, reset: bool = False) -> tuple[Ragged, SequenceOrigin]:
        if not reset:
            check_is_fitted(self)
        if self.emission_ == "categorical":
            return self._arrive_symbols(X, method, reset=reset, missing=True, known=self.symbols)
        data, origin = self._arrive_sequences(X, method, reset=reset, missing=True)
        if self.emission_ == "poisson":
            with speaking(self, method):
                check_counts(data)
        return data, origin

    def _chain(self) -> HiddenChain:
        """The fitted law, on the CPU."""
        start, transitions = (torch.from_numpy(np.array(part)) for part in (self.start_, self.transitions_))
        return HiddenChain(start, transitions, emission_of(self))

    def _blocks(self, data: Ragged) -> Blocks:
        return Blocks(data, threads(self.n_jobs, _THREADS))

    def _measure(self) -> Measure:
        return "mass" if self.emission_ in ("categorical", "poisson") else "density"

    def _log_prob_of(self, X: Any, method: str) -> tuple[Tensor, SequenceOrigin]:
        data, origin = self._arrive_any(X, method)
        chain = self._chain()
        blocks = self._blocks(data)
        if blocks.device.type != "cpu":
            return self._on_device(chain, data, "log_partition"), origin
        moves = chain.moves()
        found = blocks.each(lambda values, offsets: moves.partition(chain.emission.steps(values), offsets))
        return torch.from_numpy(np.concatenate(found)), origin

    def _on_device(self, chain: HiddenChain, data: Ragged, what: str) -> Tensor:
        """Log-likelihoods (n,), posteriors (total, k) or best paths (total,) by tensor operations."""
        chain = chain.to(data.values.device)
        values = data.values.double() if data.values.is_floating_point() else data.values
        unary, mask = data.replace(chain.emission.log_prob(values)).padded()
        unary[:, 0] += chain.start.log()
        if what == "path":
            path, score = viterbi(unary, chain.transitions.log(), data.lengths)
            self._check_possible(score, "predict")
            return path[mask]
        found = marginals(unary, chain.transitions.log(), data.lengths)
        if what == "log_partition":
            return found.log_partition
        self._check_possible(found.log_partition, "predict_proba")
        return found.single[mask]

    def _check_possible(self, values: Any, method: str) -> None:
        impossible = np.flatnonzero(np.isneginf(np.asarray(torch.as_tensor(values).cpu())))
        if len(impossible):
            raise self._fail(method, f"sequence {impossible[0]} is impossible under this model: no path can emit it")

    def predict(self, X: Any) -> Any:
        """The most probable path of states of each sequence (Viterbi, 1967): (n, t), or a list of (t_i,)."""
        data, origin = self._arrive_any(X, "predict")
        chain = self._chain()
        if data.values.device.type != "cpu":
            return self._sequences_out(data.replace(self._on_device(chain, data, "path")), origin)
        moves = chain.moves()
        found = self._blocks(data).each(
            lambda values, offsets: moves.best_paths(chain.emission.log_prob(values).numpy(), offsets)
        )
        self._check_possible(np.concatenate([score for _, score in found]), "predict")
        return self._sequences_out(data.replace(torch.from_numpy(np.concatenate([path for path, _ in found]))), origin)

    def predict_proba(self, X: Any) -> Any:
        """Probability of each state at each step given the whole sequence: (n, t, k), or a list of (t_i, k)."""
        data, origin = self._arrive_any(X, "predict_proba")
        return self._sequences_out(data.replace(self._posterior(data)), origin)

    def _posterior(self, data: Ragged) -> Tensor:
        chain = self._chain()
        if data.values.device.type != "cpu":
            return self._on_device(chain, data, "single")
        moves = chain.moves()
        found = self._blocks(data).each(
            lambda values, offsets: moves.marginals(chain.emission.steps(values), offsets)[:2]
        )
        self._check_possible(np.concatenate([log_z for log_z, _ in found]), "predict_proba")
        return torch.from_numpy(np.concatenate([single for _, single in found]))

    def fit_predict(self, X: Any, y: Any = None) -> Any:
        """Fit, then the most probable paths."""
        return self.fit(X, y).predict(X)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of sequences, lower is better; every observed step counts as one."""
        return self._criterion(X, "bic")

    def aic(self, X: Any) -> float:
        """Akaike's information criterion of sequences; lower is better."""
        return self._criterion(X, "aic")

    def _criterion(self, X: Any, name: str) -> float:
        total = float(self._log_prob_of(X, name)[0].double().sum())
        data, _ = self._arrive_any(X, name)
        cost = float(np.log(_observed(data))) if name == "bic" else 2.0
        return cost * self._chain().n_parameters - 2 * total

    # -- draws ---------------------------------------------------------------------------------------------

    def sample(self, n: int = 1, *, length: Any = None, given: Any = None, seed: Any = None) -> Any:
        """``n`` new sequences, like those of ``fit``.

        length: steps of each, one number or ``n``; the median of ``fit`` by default. given: one sequence or ``n`` with
        missing steps or entries to fill; the rest is kept. seed: decides the draw; without it an integer
        ``random_state`` does, else the draw is fresh.
        """
        check_is_fitted(self)
        self._check_request("sample", n=n)
        chance = generator(self._sampling_seed(seed), "sample")
        chain = self._chain()
        if given is not None:
            return self._filled(chain, n, given, chance)
        lengths = self._lengths(n, length)
        longest = int(lengths.max())
        level = torch.rand(n * longest, generator=chance, dtype=torch.float64).numpy()
        path = np.empty(n * longest, dtype=np.int64)
        walk(_cumulative(self.start_), _cumulative(self.transitions_), level, longest, path)
        kept = torch.arange(longest) < lengths[:, None]
        states = torch.from_numpy(path).view(n, longest)[kept]
        return self._values_out(Ragged(chain.emission.draw(states, chance), lengths), self._sequence_origin)

    def _lengths(self, n: int, length: Any) -> Tensor:
        values = np.atleast_1d(np.asarray(self.typical_length_ if length is None else length))
        if values.dtype.kind not in "iu" or (values < 1).any() or values.shape not in ((1,), (n,)):
            raise self._fail("sample", f"length is {length!r}; it must be a whole number of at least 1, or {n} of them")
        return torch.from_numpy(np.broadcast_to(values, n).astype(np.int64))

    def _filled(self, chain: HiddenChain, n: int, given: Any, chance: torch.Generator) -> Any:
        data, origin = self._arrive_any(given, "sample")
        if len(data) not in (1, n):
            raise self._fail("sample", f"given holds {len(data)} sequences; pass one sequence or {n}")
        values = data.values.cpu()
        values = values.double() if values.is_floating_point() else values
        if len(data) == 1:
            values = values.repeat(n, *([1] * (values.ndim - 1)))
        whole = Ragged(values, data.lengths.expand(n).contiguous())
        level = torch.rand(len(values), generator=chance, dtype=torch.float64).numpy()
        moves = chain.moves()
        path, log_z = moves.drawn_paths(chain.emission.log_prob(values).numpy(), whole.offsets.numpy(), level)
        self._check_possible(log_z, "sample")
        return self._values_out(whole.replace(chain.emission.fill(values, torch.from_numpy(path), chance)), origin)

    def _values_out(self, data: Ragged, origin: SequenceOrigin) -> Any:
        if self.emission_ == "categorical":
            return self._symbols_out(data, origin)
        return self._sequences_out(data, origin, data=True)

    # -- words and pictures ----------------------------------------------------------------------------------

    def plot(self, X: Any = None, sequence: int = 0) -> Any:
        """Transitions and emissions; or, given sequences, one of them with the probability of states over time."""
        check_is_fitted(self)
        symbols = [str(label) for label in self.symbols_] if self.emission_ == "categorical" else None
        if X is None:
            return draw_law(self.transitions_, emission_of(self).arrays(), self.covariance_type, symbols)
        data, _ = self._arrive_any(X, "plot")
        if not 0 <= sequence < len(data):
            raise self._fail("plot", f"sequence is {sequence}, but there are {len(data)}, counted from 0")
        one = Ragged.of([data.split()[sequence].cpu()])
        chain = self._chain()
        values = one.values.double() if one.values.is_floating_point() else one.values
        path, _ = chain.moves().best_paths(chain.emission.log_prob(values).numpy(), one.offsets.numpy())
        return draw_sequence(values.numpy(), path, self._posterior(one).numpy(), symbols)

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"states": self.n_states_, "emission": self.emission_}
        if self.emission_ == "categorical":
            facts["symbols"] = len(self.symbols_)
        facts["parameters"] = self._chain().n_parameters
        facts["passes"] = self.n_iter_
        facts["log-likelihood"] = float(self.log_likelihoods_[-1])
        stay = np.diag(self.transitions_)
        facts["share of time"] = ", ".join(f"{share:.2f}" for share in self.occupancy_)
        facts["mean stay"] = ", ".join("forever" if p == 1 else f"{1 / (1 - p):.1f}" for p in stay) + " steps"
        return facts


def _observed(data: Ragged) -> int:
    """Steps of which something is observed."""
    if data.values.is_floating_point():
        if not bool(torch.isnan(data.values.sum())):
            return len(data.values)
        return int((~torch.isnan(data.values)).any(1).sum())
    return int((data.values >= 0).sum())


def _cumulative(probabilities: np.ndarray) -> np.ndarray:
    """Cumulative probabilities; states without a chance are never passed through to by rounding."""
    total = np.cumsum(probabilities, axis=-1)
    shares: np.ndarray = total / total[..., -1:]
    return shares


def _scaled(sums: Mapping[str, Tensor], factor: float) -> Sums:
    return {name: factor * value for name, value in sums.items()}


def _per_step(sums: Mapping[str, Tensor]) -> Sums:
    return _scaled(sums, 1.0 / float(sums["steps"].sum()))


def _numpy(sums: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: value.cpu().numpy().copy() for name, value in sums.items()}
