"""A cluster that a client is tried on: the simulator, or a real Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from tests.support.apache_kafka import ApacheKafka
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.testing import SimulatedKafka

T = TypeVar("T")

VERIFICATION: Final = "transaction.partition.verification.enable"
SETTINGS: Final = ClientSettings(
    retry_backoff_ms=5, retry_backoff_max_ms=100, api_timeout_ms=60_000
)


class KafkaTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A running cluster."""

    kind: str
    """``txnsim`` or ``apache``."""
    bootstrap: str
    simulated: SimulatedKafka | None = None
    """The simulator, through which tests arm faults; None for a real Kafka."""

    def ask(self, action: Callable[[Admin], Awaitable[T]]) -> T:
        """Run an action with our own admin client."""

        async def act_as_client() -> T:
            async with Cluster(self.bootstrap, settings=SETTINGS) as cluster:
                return await action(Admin(cluster))

        return asyncio.run(act_as_client())

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic and wait until it has leaders."""

        async def make(admin: Admin) -> None:
            await admin.create_topic(topic, partitions=partitions)

        self.ask(make)


@contextmanager
def kafka_target(
    kind: str, *, transaction_version: int = 1, verifies_partitions: bool = True
) -> Iterator[KafkaTarget]:
    """Start a cluster of one broker.

    Args:
        kind: ``txnsim`` or ``apache``.
        transaction_version: Level of the feature.
        verifies_partitions: Whether its brokers verify partitions (KIP-890).
    """
    if kind == "txnsim":
        with SimulatedKafka(
            brokers=1,
            transaction_version=transaction_version,
            settings={VERIFICATION: verifies_partitions},
        ) as simulated:
            yield KafkaTarget(kind=kind, bootstrap=simulated.bootstrap, simulated=simulated)
    else:
        with ApacheKafka(
            transaction_version=transaction_version,
            properties={VERIFICATION: str(verifies_partitions).lower()},
            jvm_options=("-Xmx512m",),
        ) as apache:
            yield KafkaTarget(kind=kind, bootstrap=apache.bootstrap)
