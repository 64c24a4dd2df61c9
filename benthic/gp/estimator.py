"""What Gaussian-process regression and classification share as estimators."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from benthic.base.arrays import memory_of
from benthic.base.errors import InvalidInput
from benthic.base.seeds import np_generator
from benthic.base.settings import number, one_of, whole
from benthic.data.batch import Batch
from benthic.gp.naming import free_entries, split_noise
from benthic.gp.search import Found, Level, maximize
from benthic.gp.sparse import Inducing, greedy_inducing
from benthic.gp.variational import Likelihood, Variational
from benthic.kernels.kernel import Kernel
from benthic.training.estimator import Session, TrainedEstimator
from benthic.training.gradient import GradientLearner, Player
from benthic.training.intake import Intake, Prepare
from benthic.training.network import with_budget

_OPTIMIZERS = ("lbfgs", "fmin_l_bfgs_b")
_CANDIDATES = 20_000  # rows among which inducing points are looked for


class _GaussianProcess(TrainedEstimator):
    """Base of regressor and classifier: settings, search for hyper-parameters, inducing points by minibatches."""

    defaults: ClassVar[dict[str, Any]] = {"lr": 0.01}
    methods: ClassVar[tuple[str, ...]] = ()
    kernel: Any
    kernel_: Any
    inducing_points_: Tensor
    log_marginal_likelihood_value_: float
    _mean: Tensor
    _root: Tensor
    optimizer: Any
    n_restarts_optimizer: int
    ard: bool
    fixed: Any
    bounds: Any
    tol: Any
    max_iter: int
    method: str
    inducing: int | None

    def _check_settings(self) -> None:
        one_of("method", self.method, ("auto", *self.methods))
        if self.optimizer is not None and self.optimizer not in _OPTIMIZERS:
            raise InvalidInput(f"optimizer is {self.optimizer!r}; use 'lbfgs', or None to keep the kernel as it is")
        for name, least in (("n_restarts_optimizer", 0), ("max_iter", 1), ("inducing", 1)):
            whole(name, getattr(self, name), least, optional=name == "inducing")
        number("tol", self.tol, ends="(]")
        bounds = tuple(np.ravel(np.asarray(self.bounds, dtype=float)))
        if len(bounds) != 2 or not 0 < bounds[0] < 1 < bounds[1]:
            raise InvalidInput(f"bounds are {self.bounds!r}; they are two positive factors around 1, as (1e-5, 1e5)")

    # -- hyper-parameters ----------------------------------------------------------------------------------

    def _search(self, level: Level, rows: int, kernel: Kernel, seed: int) -> Found:
        """Where the evidence is largest; without an optimizer, where the kernel is."""
        free = free_entries(kernel, True if self.optimizer is None else self.fixed)
        low, high = (float(bound) for bound in np.ravel(self.bounds))
        found = maximize(
            level,
            rows,
            kernel.theta.detach(),
            (low, high),
            free=free,
            restarts=int(self.n_restarts_optimizer),
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            rng=np_generator(seed, "restarts"),
        )
        if not math.isfinite(found.value):
            raise InvalidInput("the marginal likelihood is not finite; scale X and y, or raise alpha")
        if not found.converged:
            warnings.warn(
                f"{type(self).__name__}.fit: the search for hyper-parameters stopped before the gradient was below "
                f"tol={self.tol:g}; raise max_iter, or look at the scales of X",
                ConvergenceWarning,
                stacklevel=4,
            )
        return found

    def _note(self, rows: int) -> None:
        """One entry of history, as training by minibatches leaves many: minus the evidence, a row."""
        loss = -self.log_marginal_likelihood_value_ / rows
        self.history_ = [{"epoch": 1, "step": int(self.n_iter_), "loss": float(loss)}]

    def _check_memory(self, rows: int, device: torch.device, matrices: int) -> None:
        """Refuse sizes whose matrices do not fit, and say what would."""
        need, have = 8.0 * matrices * rows**2, memory_of(device)
        if need > have:
            raise InvalidInput(
                f"{rows} rows need about {need / 2**30:.0f} GiB for the exact method, and {device} has "
                f"{have / 2**30:.0f} GiB; give inducing=500 for {' or '.join(map(repr, self.methods[1:]))}, "
                "or fewer rows"
            )

    # -- inducing points by minibatches --------------------------------------------------------------------

    def _candidates(self, intake: Intake, seed: int) -> Batch:
        return intake.sample(_CANDIDATES, seed)

    def _points(self, kernel: Kernel, X: Tensor, count: int) -> Tensor:
        """Inducing points among the rows, (m, d)."""
        latent, _ = split_noise(kernel)
        if latent is None:
            raise InvalidInput(f"the kernel {kernel!r} is noise alone; add a kernel that ties rows together")
        return X[greedy_inducing(latent, X, count)].clone()

    def _fit_variational(
        self,
        intake: Intake,
        session: Session,
        kernel: Kernel,
        start: Inducing,
        likelihood: Likelihood,
        prepare: Prepare,
        noise: float = 0.0,
    ) -> Variational:
        """Train kernel, inducing points and their law through the loop."""
        free = free_entries(kernel, True if self.optimizer is None else self.fixed)
        network = Variational(kernel, start, likelihood, intake.rows, free, noise)
        size = session.trainer.batch_size or min(intake.rows, 256)
        trainer = with_budget(replace(session.trainer, batch_size=size), intake.rows)
        trainer = trainer if trainer.schedule is not None else replace(trainer, schedule="cosine")
        player = Player(network, network.objective, trainer)
        learner = GradientLearner({"fit": player}, trainer, world=session.world)
        feed = intake.feed(
            batch_size=size,
            shuffle=True,
            prepare=prepare,
            seed=session.seed,
            device=session.device,
            world=session.world,
        )
        self._train(learner, feed, replace(session, trainer=trainer))
        return network

    def _keep_inducing(self, kernel: Kernel, at: Inducing) -> None:
        self.kernel_ = detached(kernel)
        self.inducing_points_ = at.Z.detach().clone()
        self._mean, self._root = at.mean.detach().clone(), at.root.detach().clone()

    def _inducing(self) -> Inducing:
        return Inducing(self.inducing_points_, self._mean, self._root)


def detached(kernel: Kernel) -> Kernel:
    """The kernel with parameters that are plain float64 numbers on the CPU."""
    return kernel._rebuilt(iter([value.detach().cpu().double().clone() for _, value in kernel.tensors()]))
