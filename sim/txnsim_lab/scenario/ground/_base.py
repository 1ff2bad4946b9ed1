"""The interface of all grounds: what a story asks of the cluster it is played on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from txnsim.client.authentication import ClientSecurity
from txnsim.injection.injector import Injector
from txnsim.runtime.env import Environment
from txnsim.settings import Settings
from txnsim.types import TopicPartition
from txnsim_lab.scenario.model import Topic
from txnsim_lab.scenario.steps_model import ClusterAct


class Ground(Protocol):
    """A cluster, as a story needs it."""

    environment: Environment
    """The run's world; its clock is that of an outside observer."""

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        ...

    @property
    def security(self) -> ClientSecurity:
        """How clients log in there."""
        ...

    @property
    def injector(self) -> Injector:
        """Makes the faults of the story happen."""
        ...

    @property
    def settings(self) -> Settings:
        """Of the brokers, as far as a story has to know them."""
        ...

    @property
    def topics(self) -> Mapping[str, int]:
        """How many partitions each topic has that there is now, internal ones included."""
        ...

    @property
    def prefix(self) -> str:
        """What the names of all topics, ids and groups of the story begin with; empty where the
        cluster is the story's own.
        """
        ...

    async def create_topic(self, name: str, topic: Topic) -> None:
        """Create a topic whose leaders are where the story wants them.

        Raises:
            ConfigError: It can't be created.
        """

    async def act(self, stage: Any, act: ClusterAct) -> None:
        """Do to the cluster what a step says.

        Raises:
            ConfigError: There is no such broker or partition, or it can't do that.
            StoryFailedError: The cluster did not follow.
        """

    async def advance(self, ms: int) -> None:
        """Let time pass."""

    async def wait_out(self, ms: int) -> None:
        """Let enough time pass at the end of a story that no timeout is pending."""

    def late(self) -> int | None:
        """Partitions with late transactions, as brokers' metrics say; None where they were not
        asked.
        """

    def why_unfinished(self, transactional_id: str) -> list[str]:
        """Lines with the known causes of a transaction that does not finish."""

    def is_hidden(self, place: TopicPartition) -> bool:
        """Whether a partition belongs to others who use the same cluster."""
