"""What operators and the controller say, followed: configurations, quotas, pauses, drops and placements."""

import logging
from dataclasses import dataclass, replace

from admission.world import World
from schemas.catalogue import ConfigCatalogue
from schemas.overlay import overlay
from schemas.tenants import Quota, Tenants
from schemas.topics import Catalogue
from streams.control import Controls
from streams.kafka.followed import Followed
from streams.kafka.log import Record
from streams.kafka.settings import KafkaSettings
from streams.kafka.view import CompactedView
from streams.metrics import AdmissionMetrics

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Built:
    """What was made of so many changes, and of what was declared."""

    changes: int
    reconfigured: int
    declared: World
    configs: ConfigCatalogue
    tenants: Tenants

    def of(self, changes: int, declared: World) -> bool:
        """Whether it would come out the same again. Other parts of the world do not matter here."""
        return (
            changes == self.changes
            and declared.configs is self.declared.configs
            and declared.tenants is self.declared.tenants
        )


class ControlFact(Followed):
    name = "control"

    def __init__(
        self, kafka: KafkaSettings, catalogue: Catalogue, declared: ConfigCatalogue, metrics: AdmissionMetrics
    ) -> None:
        """The hashes of `declared` are published: control cannot give its versions others."""
        self.controls = Controls(declared.hashes())
        super().__init__(CompactedView(kafka, catalogue.control, self.fold))
        self._metrics = metrics
        self._built: _Built | None = None
        self._told: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        return None if self._view.ready else "control is not read to its end yet"

    def fold(self, record: Record) -> None:
        """What cannot come true is said once, and decides nothing: the rest of the deployment goes on."""
        passed_over = self.controls.fold(record)
        if passed_over is not None:
            _LOG.warning("%s", passed_over.message)
            self._metrics.count("control_passed_over_total", reason=passed_over.reason)

    def into(self, world: World) -> World:
        controls = self.controls
        if self._built is None or not self._built.of(controls.changes, world):
            self._built = self._build(world)
        return replace(
            world,
            configs=self._built.configs,
            tenants=self._built.tenants,
            paused=controls.paused,
            dropped=controls.dropped,
            placements=controls.placements,
        )

    def _build(self, declared: World) -> _Built:
        controls = self.controls
        said = {name: _still_signed(quota, declared.tenants.quota_of(name)) for name, quota in controls.quotas.items()}
        tenants = declared.tenants.model_copy(update={"tenants": {**declared.tenants.tenants, **said}})
        return _Built(controls.changes, controls.reconfigured, declared, self._configs(declared.configs), tenants)

    def _configs(self, declared: ConfigCatalogue) -> ConfigCatalogue:
        """The same one until a configuration changes: a pause, or a placement a minute, is nothing to thousands."""
        controls, built = self.controls, self._built
        if built is not None and built.reconfigured == controls.reconfigured and built.declared.configs is declared:
            return built.configs
        in_force = overlay(declared, controls.configs, controls.channels, controls.retired)
        for problem in in_force.problems:
            if problem not in self._told:
                _LOG.warning("%s", problem)
        self._told = in_force.problems
        self._metrics.set("control_problems", len(in_force.problems))
        return in_force.configs


def _still_signed(said: Quota, declared: Quota | None) -> Quota:
    """Control says how much a tenant may have, and may ask for its signature; it cannot take that back, since who may
    speak for a tenant is for tenants.yaml to say."""
    must = declared is not None and declared.signed and not said.signed
    return said.model_copy(update={"signed": True}) if must else said
