"""How an energy model is built and trained: units found, networks built, chains run and looked at."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from benthic.base.capabilities import to_numpy
from benthic.base.errors import NonFiniteLoss
from benthic.base.seeds import supplied
from benthic.base.validation import speaking
from benthic.data.batch import Batch
from benthic.generative.energy.learning import Course, EnergySettings, chain_reach, energy_gap, settings_of
from benthic.generative.energy.networks import EnergyNetwork, OwnEnergy, body_of
from benthic.generative.energy.replay import ReplayLearner
from benthic.generative.energy.units import Whitening
from benthic.nets.evaluate import device_of
from benthic.training.estimator import Session
from benthic.training.gradient import Player
from benthic.training.intake import Intake
from benthic.training.network import NetworkEstimator, training_dtype

_LOOK = 2048  # rows and chains whose energies are compared


class EnergyEstimator(NetworkEstimator):
    """The learning half of ``EnergyModel``."""

    accepts_images = True
    network_: EnergyNetwork
    units_: Whitening

    network: Any
    hidden_layer_sizes: Any
    channels: Any
    activation: str

    def _capturable(self) -> bool:
        """Whether updates can become CUDA graphs: not where the host looks at acceptances, or a user's module might."""
        return not isinstance(self.network, nn.Module) and not self._settings.adaptive

    def _learn(self, X: Any, session: Session) -> None:
        intake = Intake(self, X)
        with speaking(self, "fit"):
            self._enter(intake, session)
        course = Course(self._settings, self._width, self._limits, self.units_.still)
        dtype = training_dtype(session)

        def prepare(batch: Batch) -> Batch:
            return Batch(self.units_.inward(batch.X.double()).to(dtype), None, batch.weight)

        def learner_of(network: nn.Module, session: Session) -> ReplayLearner:
            course.begin(network, session.trainer)
            player = Player(network, lambda batch: course.loss(network, batch), session.trainer)
            return ReplayLearner(
                {"fit": player},
                session.trainer,
                world=session.world,
                capturable=self._capturable(),
                replay=course.replay,
            )

        try:
            self._fit_learner(intake, session, learner_of, prepare)
        except NonFiniteLoss as error:
            if not self._settings.by_chains or self._settings.adaptive:
                raise
            raise NonFiniteLoss(
                f"{error}; or the chains ran away: lower step_size, {self._settings.step_size:g} here, or use "
                "sampler='mala', whose steps can be refused"
            ) from error
        self._keep(course, prepare(intake.sample(_LOOK, session.seed)).X)

    def _enter(self, intake: Intake, session: Session) -> None:
        """Look at the data, and settle what the settings leave open."""
        self._width = intake.width
        self._settings = settings_of(self, self._event, session.trainer)
        self.units_ = Whitening.of(intake, session.seed, picture=self._settings.picture)
        rows = self.units_.inward(intake.sample(_LOOK, session.seed).X.double())
        self._limits = (float(rows.min()), float(rows.max()))
        self._normalizers: dict[str, tuple[float, float]] = {}
        with supplied():
            body: Any = self._body()
        self._n_features_out = 1 if isinstance(body, OwnEnergy) else int(body.size)

    def _keep(self, course: Course, rows: Tensor) -> None:
        """What remains of training besides the network: where the chains are, and how their energies compare."""
        points = None if course.replay is None else course.replay.points
        self.buffer_ = None if points is None or not len(points) else to_numpy(points)
        if not self._settings.by_chains:
            return
        network = self.network_
        rows = course.stirred(rows.to(device_of(network)))
        drawn = course.chains(network, rows)
        with speaking(self, "fit"):
            self.energy_gap_ = energy_gap(network, rows, drawn)
            if self._settings.objective == "contrastive_divergence":
                chain_reach(rows, drawn)

    @property
    def _event(self) -> tuple[int, ...]:
        return getattr(self, "_event_shape", None) or (self._width,)

    def _body(self) -> nn.Module:
        leveled = self._settings.leveled
        return body_of(
            self.network, self._event, self.hidden_layer_sizes, self.channels, self.activation, leveled=leveled
        )

    def _build_network(self, name: str) -> nn.Module:
        settings: EnergySettings = self._settings
        made = EnergyNetwork(
            self._body(),
            temperature=settings.temperature,
            reference=settings.reference,
            limits=self._limits,
            wall=settings.wall,
            smallest=settings.noise or 1.0,
        )
        made.log_normalizer.requires_grad_(settings.objective == "noise_contrastive")
        return made
