"""The simulated cluster as a target; it has every ability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from txnsim.broker.broker import Broker
from txnsim.client.admin import Admin
from txnsim.client.authentication import ClientSecurity
from txnsim.client.errors import code_name
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ClientError, ErrorCode, Rejection
from txnsim.server.cluster import SimCluster
from txnsim.server.user_inputs import advance, input_event
from txnsim.server.views.metric_values import count_late_transactions
from txnsim.server.views.waiting_transactions import describe_unfinished
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    ProducerEpoch,
    TopicPartition,
    TransactionalId,
    partition_for,
)
from txnsim_lab.target import log_care
from txnsim_lab.target.cluster import (
    SIMULATED_ABILITIES,
    Operator,
    TargetError,
    poll_until,
    replicas_from,
)

TIMEOUT_MS: Final = 30_000
DELETION_KNOWN_LIMIT_MS: Final = 1_000
"""Limit of the wait until all brokers know that a topic is deleted; an isolated broker does not
learn it.
"""


class SimulatedTarget:
    """The simulated cluster as a ``Target``, in this process."""

    prefix: Final = ""
    security: Final = ClientSecurity()
    abilities: Final = SIMULATED_ABILITIES

    def __init__(self, cluster: SimCluster, operator: Operator | None = None) -> None:
        self.environment = cluster.environment
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap
        self.injector = cluster.injector
        self.settings = cluster.options.settings
        self.brokers = cluster.options.brokers
        self._operator = operator

    def number_of(self, broker_id: int) -> int:
        return broker_id

    @property
    def topics(self) -> Mapping[str, int]:
        topics = self.cluster.metadata.image.topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    def acts_for(self, operator: Operator) -> None:
        self._operator = operator

    async def admin(self) -> Admin:
        assert self._operator is not None, "an operator acts"
        return await self._operator.admin()

    def _say_to_operator(self, text: str) -> None:
        if self._operator is not None:
            self._operator.say(text)

    # Topics

    async def create_topic(self, topic: TopicToCreate) -> None:
        partition_count = len(topic.assignments)
        with input_event(
            self.environment, "create-topic", topic=topic.name, partitions=partition_count
        ):
            outcome = self.cluster.metadata.create_topic(topic)
        _raise_if_refused(topic.name, outcome)
        self._say_to_operator(f"topic {topic.name} is created with {partition_count} partitions")

    async def grow_topic(self, name: str, partition_count: int, leaders: tuple[int, ...]) -> None:
        metadata = self.cluster.metadata
        topic = metadata.image.topics.get(name)
        replicas = 1 if topic is None else len(topic.partitions[0].replicas)
        assignments = tuple(
            replicas_from(leader, replicas, broker_count=self.brokers) for leader in leaders
        )
        _raise_if_refused(name, self.cluster.grow_topic(name, partition_count, assignments or None))
        self._say_to_operator(f"topic {name} has {partition_count} partitions now")

    async def delete_topic(self, name: str) -> None:
        metadata = self.cluster.metadata
        if name not in metadata.image.topics:
            raise TargetError(f"topic {name}: UNKNOWN_TOPIC_OR_PARTITION")
        with input_event(self.environment, "delete-topic", topic=name):
            metadata.publish(metadata.image.without_topic(name))
        await (await self.admin()).wait_without_topics([name], timeout_ms=DELETION_KNOWN_LIMIT_MS)
        self._say_to_operator(f"topic {name} is deleted with all of its records")

    async def configure(self, topic: str, config_name: str, config_value: str | None) -> None:
        await log_care.configure(await self.admin(), topic, config_name, config_value)

    # Leaders

    async def home_of_id(self, transactional_id: str) -> TopicPartition:
        admin = await self.admin()
        await admin.cluster.coordinator(transactional_id)  # makes the topic where there is none
        topic = self.cluster.metadata.image.topics[TRANSACTION_STATE_TOPIC]
        partition_index = partition_for(TransactionalId(transactional_id), len(topic.partitions))
        return TopicPartition(TRANSACTION_STATE_TOPIC, partition_index)

    async def move_leader(self, topic_partition: TopicPartition, new_leader: int) -> None:
        partition = self.cluster.metadata.image.partition(topic_partition)
        if partition is not None and partition.leader == new_leader:
            return
        self.cluster.move_leader(topic_partition, BrokerId(new_leader))
        self._say_to_operator(f"broker {new_leader} is made the leader of {topic_partition}")

        async def is_leader_seen() -> bool:
            leadership = (
                await (await self.admin()).cluster.refresh((topic_partition.topic,))
            ).leader(topic_partition)
            return leadership is not None and leadership.leader_id == new_leader

        await poll_until(
            self.environment.clock, is_leader_seen, f"broker {new_leader} leads {topic_partition}"
        )

    async def reload_coordinator(self, topic_partition: TopicPartition) -> None:
        partition = self.cluster.metadata.image.partition(topic_partition)
        assert partition is not None
        leader_id = partition.leader
        await self.move_leader(
            topic_partition,
            next(replica_id for replica_id in partition.isr if replica_id != leader_id),
        )
        await self.move_leader(topic_partition, leader_id)

    async def reassign(self, topic_partition: TopicPartition, replicas: tuple[int, ...]) -> None:
        admin = await self.admin()
        error = await admin.alter_partition_reassignment(topic_partition, replicas)
        if error != ErrorCode.none:
            raise TargetError(f"{topic_partition} is not given to {replicas}: {code_name(error)}")

        async def is_reassigned() -> bool:
            partition = self.cluster.metadata.image.partition(topic_partition)
            return partition is not None and tuple(partition.replicas) == replicas

        await poll_until(
            self.environment.clock,
            is_reassigned,
            f"the replicas of {topic_partition} are {replicas}",
        )

    # Brokers

    async def kill(self, broker_id: int, *, lose_unflushed: bool = False) -> None:
        await self.cluster.kill_broker(BrokerId(broker_id), lose_unflushed=lose_unflushed)

    async def stop(self, broker_id: int) -> None:
        await self.cluster.stop_broker(BrokerId(broker_id))

    async def start(self, broker_id: int, *, as_version: str | None = None) -> None:
        await self.cluster.start_broker(BrokerId(broker_id), as_version=as_version)

    async def isolate(self, broker_id: int, *, from_clients: bool = False) -> None:
        self.cluster.isolate(BrokerId(broker_id), from_clients=from_clients)

    async def heal(self, broker_id: int) -> None:
        self.cluster.heal(BrokerId(broker_id))

    async def age(self, transactional_id: str, epoch: int) -> None:
        """Let an idle id continue at an epoch; an unknown id is initialized first."""
        aged_id = TransactionalId(transactional_id)
        admin = await self.admin()
        description = (await admin.describe_transactions([aged_id]))[aged_id]
        if isinstance(description, ClientError):
            await admin.fence_producers([aged_id])
        coordinator_id = BrokerId(await admin.cluster.coordinator(aged_id))
        broker = self.cluster.brokers.get(coordinator_id)
        if broker is None:  # it has died since it answered
            raise TargetError(f"broker {coordinator_id}, which coordinates {aged_id}, is down")
        with input_event(self.environment, "age", transactional_id=aged_id, epoch=epoch):
            rejection = await broker.coordinator.age(aged_id, ProducerEpoch(epoch))
        if rejection is not None:
            raise TargetError(f"{rejection.error.name.upper()}: {rejection.reason}")
        self._say_to_operator(f"{aged_id} is at epoch {epoch}, as after so many transactions")

    # Logs

    async def roll(self, topic_partition: TopicPartition) -> None:
        with self._maintain_logs("roll", topic_partition) as brokers:
            for broker in brokers:
                broker.log_maintenance.roll_segment_now(topic_partition)

    async def clean(self, topic_partition: TopicPartition) -> None:
        with self._maintain_logs("clean", topic_partition) as brokers:
            for broker in brokers:
                broker.log_maintenance.clean_now(topic_partition)

    async def delete_old(self, topic_partition: TopicPartition) -> None:
        with self._maintain_logs("delete-old", topic_partition) as brokers:
            for broker in brokers:
                broker.log_maintenance.delete_old_segments_now(topic_partition)

    @contextmanager
    def _maintain_logs(
        self, act: str, topic_partition: TopicPartition
    ) -> Iterator[Iterable[Broker]]:
        """Make every broker maintain its replica of a partition now."""
        with input_event(self.environment, act, tp=str(topic_partition)):
            yield self.cluster.brokers.values()

    # Time

    async def advance(self, ms: int) -> None:
        advance(self.environment, ms)

    async def wait_out(self, ms: int) -> None:
        """Move the clock, so that every timer that is due fires."""
        await self.advance(ms)

    # Looks

    def late_partition_count(self) -> int | None:
        return count_late_transactions(self.cluster)

    def why_unfinished(self, transactional_id: str) -> list[str]:
        """The state of the transaction at its coordinator, and what the coordinator waits for."""
        return list(describe_unfinished(self.cluster, transactional_id))

    def is_hidden(self, topic_partition: TopicPartition) -> bool:
        """False: no others use the cluster."""
        del topic_partition
        return False


def _raise_if_refused(topic_name: str, outcome: object) -> None:
    if isinstance(outcome, Rejection):
        raise TargetError(f"topic {topic_name}: {outcome.error.name.upper()}: {outcome.reason}")
