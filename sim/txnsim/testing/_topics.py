"""Topics and transactions of a cluster, for Python tests: created, changed and observed from
outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from txnsim.client.errors import ClientError
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.repair import Repair, repair
from txnsim.client.inspection.survey import hanging_ones
from txnsim.client.inspection.topic_reading import SETTLE_MS, Fate, ReadRecord, read_topic
from txnsim.client.inspection.txn_views import (
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from txnsim.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from txnsim.controller.controller import TopicToCreate
from txnsim.controller.partition_growth import grown_topic
from txnsim.errors import ConfigError, Rejection
from txnsim.metadata.image import TopicImage
from txnsim.server.views.waiting_transactions import WAIT_MS, check_states, waited_in_vain_text
from txnsim.testing.event_loop import in_cluster_loop
from txnsim.testing.rebuilt_cluster import ClusterPart, RebuiltCluster
from txnsim.txn.past_decision import PastDecision
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    IsolationLevel,
    TopicPartition,
    partition_for,
)

REPLICAS_MAX: Final = 3


class Offsets(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of a partition."""

    log_start: int
    last_stable: int
    """Offset at which ``read_committed`` readers stop."""
    high_watermark: int


class AsyncTopics(ClusterPart):
    """Creates, writes, reads and checks topics of a cluster, from a running loop."""

    def __init__(self, rebuilt_cluster: RebuiltCluster) -> None:
        super().__init__(rebuilt_cluster)
        self.deletions: list[tuple[str, int]] = []
        """(topic that the test has deleted, time of the deletion in ms of the cluster clock)."""

    @in_cluster_loop
    async def create(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; every client can use it when this returns.

        Args:
            name: Name of the topic.
            partitions: Number of partitions.
            replication_factor: Number of replicas; three, or as many as there are brokers, unless
                given.
            configs: Configs by Kafka's names: ``{"cleanup.policy": "compact"}``.

        Raises:
            ConfigError: The topic can't be created; the message says why.
        """
        sim = self._rebuilt.sim
        default_factor = min(REPLICAS_MAX, len(sim.members))
        created_topic = sim.metadata.create_topic(
            TopicToCreate(
                name=name,
                partition_count=partitions,
                replication_factor=default_factor
                if replication_factor is None
                else replication_factor,
                configs=dict(configs or {}),
            )
        )
        if not isinstance(created_topic, TopicImage):
            raise ConfigError(f"topic {name}: {created_topic.reason}")

    @in_cluster_loop
    async def delete(self, name: str) -> None:
        """Delete a topic with all its records, as DeleteTopics does.

        Args:
            name: Name of the topic.

        Raises:
            ConfigError: There is no such topic.
        """
        metadata = self._rebuilt.sim.metadata
        if name not in metadata.image.topics:
            raise ConfigError(f"topic {name}: UNKNOWN_TOPIC_OR_PARTITION")
        metadata.publish(metadata.image.without_topic(name))
        self.deletions.append((name, self._rebuilt.environment.clock.now_ms()))

    @in_cluster_loop
    async def grow(self, name: str, partitions: int) -> None:
        """Adds partitions to a topic, as CreatePartitions does.

        Args:
            name: Name of the topic.
            partitions: New total number of partitions.

        Raises:
            ConfigError: The topic can't have that many; the message says why.
        """
        metadata = self._rebuilt.sim.metadata
        grown_image = grown_topic(metadata.image, name, partition_count=partitions)
        if isinstance(grown_image, Rejection):
            raise ConfigError(
                f"topic {name}: {grown_image.error.name.upper()}: {grown_image.reason}"
            )
        metadata.publish(metadata.image.with_topics([grown_image]))

    @in_cluster_loop
    async def of_group(self, group: str) -> TopicPartition:
        """The partition of ``__consumer_offsets`` that a group belongs to."""
        settings = self._rebuilt.sim.options.settings
        partition_count = settings.offsets_topic_num_partitions
        return TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_for(group, partition_count))

    @in_cluster_loop
    async def of_transactional_id(self, transactional_id: str) -> TopicPartition:
        """The partition of ``__transaction_state`` that a transactional id belongs to."""
        settings = self._rebuilt.sim.options.settings
        partition_count = settings.transaction_state_log_num_partitions
        return TopicPartition(
            TRANSACTION_STATE_TOPIC, partition_for(transactional_id, partition_count)
        )

    @in_cluster_loop
    async def names(self) -> tuple[str, ...]:
        """Names of all topics except Kafka's internal ones."""
        topics = self._rebuilt.sim.metadata.image.topics
        return tuple(sorted(name for name, topic in topics.items() if not topic.is_internal))

    @in_cluster_loop
    async def read(self, name: str, *, settle_ms: int = SETTLE_MS) -> tuple[ReadRecord, ...]:
        """All records of a topic, each with its fate.

        Args:
            name: Name of the topic.
            settle_ms: Longest wait for open transactions to end.

        Raises:
            ClientError: The topic can't be read.
        """
        return await read_topic(await self._rebuilt.admin(), name, settle_ms=settle_ms)

    @in_cluster_loop
    async def committed(self, name: str, *, settle_ms: int = SETTLE_MS) -> list[bytes | None]:
        """The values that a ``read_committed`` reader gets, by partition and offset.

        Args:
            name: Name of the topic.
            settle_ms: Longest wait for open transactions to end.

        Raises:
            ClientError: The topic can't be read.
        """
        records = await read_topic(await self._rebuilt.admin(), name, settle_ms=settle_ms)
        return [record.value for record in records if record.fate is Fate.COMMITTED]

    @in_cluster_loop
    async def offsets(self, name: str, partition: int = 0) -> Offsets:
        """The offsets of a partition, as its leader tells a reader.

        Raises:
            ClientError: The cluster does not answer.
        """
        admin = await self._rebuilt.admin()
        topic_partition = TopicPartition(name, partition)
        return Offsets(
            log_start=await admin.offset_of(topic_partition, EARLIEST_TIMESTAMP),
            last_stable=await admin.offset_of(
                topic_partition, LATEST_TIMESTAMP, IsolationLevel.READ_COMMITTED
            ),
            high_watermark=await admin.offset_of(topic_partition, LATEST_TIMESTAMP),
        )


class AsyncTransactions(ClusterPart):
    """The transactions of one cluster, as an operator sees them."""

    @in_cluster_loop
    async def list(self) -> tuple[TransactionListing, ...]:
        """Every transactional id that a coordinator knows, by name.

        Raises:
            ClientError: A coordinator does not answer.
        """
        listings: list[TransactionListing] = []
        for listings_or_error in (await (await self._rebuilt.admin()).list_transactions()).values():
            if isinstance(listings_or_error, ClientError):
                raise listings_or_error
            listings += listings_or_error
        return tuple(sorted(listings, key=lambda listing: listing.transactional_id))

    @in_cluster_loop
    async def describe(self, transactional_id: str) -> TransactionDescription | None:
        """The coordinator's description of a transactional id; None if the id is unknown."""
        return await self._describe_transaction(transactional_id)

    @in_cluster_loop
    async def producers(self, topic: str, partition: int = 0) -> tuple[ProducerState, ...]:
        """The producers that a partition's leader knows.

        Raises:
            ClientError: The leader does not answer.
        """
        topic_partition = TopicPartition(topic, partition)
        outcome = (await (await self._rebuilt.admin()).describe_producers([topic_partition]))[
            topic_partition
        ]
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome

    @in_cluster_loop
    async def wait_for_state(
        self, transactional_id: str, *states: str, timeout_ms: int = WAIT_MS
    ) -> TransactionDescription:
        """Wait until the coordinator describes a transaction with one of these states.

        Args:
            transactional_id: The transactional id.
            states: The states: ``Ongoing``, ``CompleteAbort`` …
            timeout_ms: Longest wait.

        Raises:
            ConfigError: A state does not exist.
            TimeoutError: The transaction has none of the states by then; the message has its state,
                and what it waits for.
        """
        check_states(states)
        onlooker = await self._rebuilt.onlooker()
        deadline, backoff = onlooker.deadline(timeout_ms), onlooker.backoff()
        while True:
            description = await self._describe_transaction(transactional_id)
            if description is not None and description.state in states:
                return description
            if deadline.has_passed:
                raise TimeoutError(
                    waited_in_vain_text(self._rebuilt.sim, transactional_id, states, timeout_ms)
                )
            await backoff.wait(deadline, at_most_ms=50)

    @in_cluster_loop
    async def hanging(self) -> tuple[JudgedTransaction, ...]:
        """The open transactions that no marker will end, however young, each with the reason.

        Raises:
            ClientError: A coordinator does not answer; or a partition's leader does not, and
                nothing hangs on the others.
        """
        return await self._hanging()

    @in_cluster_loop
    async def repair(self) -> tuple[Repair, ...]:
        """Ends hanging transactions as an operator does: judges each again, writes the marker of
        the decision (an abort if the decision is unknown), and checks the result.

        Raises:
            ClientError: A broker does not answer.
        """
        admin = await self._rebuilt.admin()
        now_ms = self._rebuilt.environment.clock.now_ms()
        hanging_txns = await self._hanging()
        guessed_decision = PastDecision.ABORTED
        return tuple(
            [
                await repair(admin, hanging_txn, now_ms=now_ms, guess=guessed_decision)
                for hanging_txn in hanging_txns
            ]
        )

    async def _hanging(self) -> tuple[JudgedTransaction, ...]:
        now_ms = self._rebuilt.environment.clock.now_ms()
        admin = await self._rebuilt.admin()
        return await hanging_ones(admin, now_ms=now_ms)

    async def _describe_transaction(self, transactional_id: str) -> TransactionDescription | None:
        admin = await self._rebuilt.admin()
        description_or_error = (await admin.describe_transactions([transactional_id]))[
            transactional_id
        ]
        return None if isinstance(description_or_error, ClientError) else description_or_error
