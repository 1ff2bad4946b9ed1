"""The simulated cluster as a ground, on which every step is possible."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final

from txnsim.client.authentication import ClientSecurity
from txnsim.errors import ConfigError
from txnsim.metadata.image import TopicImage
from txnsim.runtime.env import Environment
from txnsim.server.cluster import SimCluster
from txnsim.server.inputs import advance, input_event
from txnsim.server.views.readings import late_transactions
from txnsim.server.views.waiting_transactions import entry_of, waits_for
from txnsim.types import TopicPartition
from txnsim_lab.scenario._cluster_options import new_topic, options_of
from txnsim_lab.scenario._cluster_steps import act_on_cluster
from txnsim_lab.scenario.model import Run, Scenario, Topic
from txnsim_lab.scenario.steps_model import ClusterAct

if TYPE_CHECKING:
    from txnsim_lab.scenario.stage import Stage


class SimulatedGround:
    """``Ground`` in this process."""

    prefix: Final = ""
    security: Final = ClientSecurity()

    def __init__(self, cluster: SimCluster, scenario: Scenario) -> None:
        self.environment = cluster.environment
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap
        self.injector = cluster.injector
        self.settings = cluster.options.settings
        self._scenario = scenario

    @property
    def topics(self) -> Mapping[str, int]:
        """See ``Ground``."""
        topics = self.cluster.metadata.image.topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    async def create_topic(self, name: str, topic: Topic) -> None:
        """See ``Ground``.

        Raises:
            ConfigError: The controller refuses it.
        """
        with input_event(self.environment, "create-topic", topic=name, partitions=topic.partitions):
            created = self.cluster.metadata.create_topic(
                new_topic(name, topic, brokers=self._scenario.brokers)
            )
        if not isinstance(created, TopicImage):
            raise ConfigError(f"{self._scenario.name}: topic {name}: {created.reason}")

    async def act(self, stage: Stage, act: ClusterAct) -> None:
        """See ``Ground``."""
        await act_on_cluster(stage, act, self.cluster)

    async def advance(self, ms: int) -> None:
        """Move the clock."""
        advance(self.environment, ms)

    async def wait_out(self, ms: int) -> None:
        """Move the clock: every timer that is due then fires."""
        await self.advance(ms)

    def late(self) -> int | None:
        """See ``Ground``."""
        return late_transactions(self.cluster)

    def why_unfinished(self, transactional_id: str) -> list[str]:
        """Its coordinator's state, and whom it waits for."""
        found = entry_of(self.cluster, transactional_id)
        state = "not known to any coordinator" if found is None else found[1].state.wire_name
        return [
            f"{transactional_id} is {state}",
            *waits_for(self.cluster, transactional_id),
        ]

    def is_hidden(self, place: TopicPartition) -> bool:
        """Never: no other story uses the cluster."""
        del place
        return False


@contextlib.asynccontextmanager
async def simulated_ground(
    scenario: Scenario, run: Run, environment: Environment
) -> AsyncIterator[SimulatedGround]:
    """Start the cluster of a run, and stop it afterwards.

    Raises:
        ConfigError: A setting or a release is none.
    """
    cluster = SimCluster(environment, options_of(scenario, run))
    await cluster.start()
    try:
        yield SimulatedGround(cluster, scenario)
    finally:
        await cluster.stop()
