"""A real cluster as a target, behind a fault proxy: everything goes over the wire.

A real broker's clock can't be moved. So timeouts are waited for, and then the clock of the outside
observers is moved, so that they judge as if more time had passed.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from typing import Any, Final, Protocol

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.authentication import ClientSecurity
from txnsim.client.backoff import Deadline, pause
from txnsim.client.errors import code_name
from txnsim.client.inspection.txn_views import TransactionListing
from txnsim.client.requests import NewTopic
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ClientError, ErrorCode
from txnsim.runtime.environment import Environment
from txnsim.security.options import SecurityProtocol
from txnsim.settings import Settings
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
    TransactionalId,
    partition_for,
)
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.target import log_care
from txnsim_lab.target.cleaning import ONGOING_STATE, TIMEOUT_MS, Cleaner, Leftover, StoryResources
from txnsim_lab.target.cluster import (
    RUNNING_ABILITIES,
    STARTED_ABILITIES,
    Ability,
    Operator,
    TargetError,
    require_ability,
)

FOLLOW_LIMIT_MS: Final = 60_000
REAL_WAIT_MAX_MS: Final = 35_000
"""Longest advance that is waited for in real time: brokers retry after 30 s."""
SCAN_MS: Final = 15_000
"""Time after its timeout within which a coordinator ends a transaction: for its scan, and the
markers.
"""


class Processes(log_care.BrokerDisks, Protocol):
    """Processes and disks of brokers that were started for a story or situation."""

    async def kill(self, broker_number: int) -> None:
        """Kill a broker."""

    async def shut_down(self, broker_number: int) -> None:
        """Stop a broker with a controlled shutdown."""

    async def start_again(self, broker_number: int) -> None:
        """Start a stopped or killed broker again."""


class RealTarget:
    """``Target`` on real brokers, under names that begin with a prefix."""

    def __init__(
        self,
        environment: Environment,
        proxy: FaultProxy,
        *,
        prefix: str,
        settings: Settings,
        processes: Processes | None = None,
        groups: Collection[str] = (),
        transactional_ids: Collection[str] = (),
    ) -> None:
        """A target for one story or situation; ``prepare`` it first.

        Args:
            environment: Environment of the proxy.
            proxy: The proxy in front of the brokers.
            prefix: Prefix of the names of all topics, ids and groups.
            settings: Settings of the brokers.
            processes: The processes of the brokers, if they were started for this.
            groups: Groups that may be used, and are removed afterwards.
            transactional_ids: Ids that may be used, and whose transactions are ended afterwards.
        """
        self.environment = environment
        self.injector = proxy.injector
        self.abilities = RUNNING_ABILITIES if processes is None else STARTED_ABILITIES
        self._proxy = proxy
        self.prefix = prefix
        self.settings = settings
        self._processes = processes
        self._group_names = groups
        self._transactional_ids = transactional_ids
        self._topics: dict[str, int] = {}
        self._broker_ids: tuple[int, ...] = ()
        # Past the proxy: what the target asks is no part of the story, and no fault may strike it.
        self._cluster = proxy.outside(
            msgspec.structs.replace(proxy.options.settings, client_id="txnsim-stage")
        )

    @property
    def bootstrap(self) -> str:
        """Addresses of the proxy's listeners."""
        return self._proxy.bootstrap

    @property
    def security(self) -> ClientSecurity:
        """The login of ``--command-config``, without TLS, which is only between the proxy and the
        brokers.
        """
        security = self._proxy.options.settings.security
        plain_protocol = (
            SecurityProtocol.SASL_PLAINTEXT
            if security.protocol.has_sasl
            else SecurityProtocol.PLAINTEXT
        )
        return msgspec.structs.replace(security, protocol=plain_protocol)

    @property
    def brokers(self) -> int:
        return len(self._broker_ids)

    @property
    def topics(self) -> Mapping[str, int]:
        """Topics that were created here, and the internal ones."""
        settings = self.settings
        return {
            **self._topics,
            TRANSACTION_STATE_TOPIC: settings.transaction_state_log_num_partitions,
            CONSUMER_OFFSETS_TOPIC: settings.offsets_topic_num_partitions,
        }

    async def prepare(self) -> None:
        """Connect, and make the cluster create the internal topics, whose partitions a story may
        name.

        Raises:
            ClientError: The cluster does not answer.
        """
        await self._cluster.connect()
        await self._cluster.coordinator(f"{self.prefix}nobody")
        await self._cluster.group_coordinator(f"{self.prefix}nobody", self._cluster.deadline())
        partition_counts = {}
        for topic_name in (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC):
            topic = await self._admin.wait_for_topic(topic_name)
            partition_counts[topic_name] = len(topic.partitions)
            if self._processes is not None:
                await self._wait_for_in_sync(topic_name)  # the story before may have ended a broker
        await self._cluster.refresh()
        self._broker_ids = tuple(sorted(broker.broker_id for broker in self._cluster.view.brokers))
        self.settings = msgspec.structs.replace(
            self.settings,
            transaction_state_log_num_partitions=partition_counts[TRANSACTION_STATE_TOPIC],
            offsets_topic_num_partitions=partition_counts[CONSUMER_OFFSETS_TOPIC],
        )

    async def _wait_for_in_sync(self, topic_name: str) -> None:
        async def is_in_sync() -> bool:
            (topic,) = (await self._cluster.refresh((topic_name,))).topics
            return topic.is_led and all(
                set(partition.isr) == set(partition.replicas) for partition in topic.partitions
            )

        await self._wait_until(is_in_sync, f"all replicas of {topic_name} are in sync")

    def acts_for(self, operator: Operator) -> None:
        """Do nothing: acts are not traced, as they do not go through the proxy."""

    async def admin(self) -> Admin:
        return self._admin

    @property
    def _admin(self) -> Admin:
        return Admin(self._cluster)

    # Topics

    async def create_topic(self, topic: TopicToCreate) -> None:
        name = topic.name
        assignments = tuple(
            tuple(self._broker_id(broker_number) for broker_number in replicas)
            for _, replicas in topic.assignments
        )
        new_topic = NewTopic(
            name=name,
            assignments=assignments,
            configs=tuple(
                (config_name, config_value or "")
                for config_name, config_value in topic.configs.items()
            ),
        )
        # From now on it may be there, also where no answer comes.
        self._topics[name] = len(assignments)
        try:
            outcome = (await self._admin.create_topics([new_topic]))[name]
            if isinstance(outcome, ClientError):
                if outcome.error is not None and not outcome.error.retriable:
                    del self._topics[name]
                raise outcome
            await self._admin.wait_for_topic(name)
        except ClientError as error:
            raise TargetError(f"topic {name}: {error}") from None

    async def grow_topic(self, name: str, partition_count: int, leaders: tuple[int, ...]) -> None:
        del name, partition_count, leaders
        require_ability(self.abilities, Ability.INSIDE, "grow-topic")

    async def delete_topic(self, name: str) -> None:
        refusal = (await self._admin.delete_topics([name]))[name]
        if refusal is not None:
            raise TargetError(f"topic {name}: {refusal}")
        await self._admin.wait_without_topics([name], timeout_ms=TIMEOUT_MS)
        self._topics.pop(name, None)

    async def configure(self, topic: str, config_name: str, config_value: str | None) -> None:
        if topic in INTERNAL_TOPICS:
            require_ability(self.abilities, Ability.WHOLE_CLUSTER, "configure")
        await log_care.configure(self._admin, topic, config_name, config_value)

    # Time

    async def advance(self, ms: int) -> None:
        """Wait for timeouts that fall into the time; the clock of observers is moved
        by the rest.
        """
        clock = self.environment.clock
        if ms <= REAL_WAIT_MAX_MS:
            await pause(clock, ms)
        elif ms >= log_care.DELETE_RETENTION_MS:
            # Nobody's clock goes on: brokers since 3.6 refuse records of the day after.
            await pause(clock, log_care.SHORT_DELETE_RETENTION_MS)
        else:
            await self.wait_out(ms)

    async def wait_out(self, ms: int) -> None:
        """Wait until the coordinator has ended transactions that time out, and move the clock of
        observers.
        """
        await self._wait_for_timeouts(ms)
        self.environment.clock.advance(ms)

    def late_partition_count(self) -> int | None:
        """None: metrics are not part of Kafka's protocol."""
        return None

    def why_unfinished(self, transactional_id: str) -> list[str]:
        """Only says that the state was not reached: a proxy can't look inside a broker."""
        return [f"{transactional_id} is not in that state on the real cluster"]

    def is_hidden(self, partition: TopicPartition) -> bool:
        return partition.topic not in self._topics

    # Transactions

    async def _listings_of_prefix(self) -> list[TransactionListing]:
        listings: list[TransactionListing] = []
        for broker_listings in (await self._admin.list_transactions()).values():
            if not isinstance(broker_listings, ClientError):
                listings += [
                    listing
                    for listing in broker_listings
                    if listing.transactional_id.startswith(self.prefix)
                ]
        return listings

    async def _wait_for_timeouts(self, ms: int) -> None:
        """Wait until there is no ongoing transaction that times out within ``ms``, or until the
        coordinator is long overdue to end it.
        """
        clock = self.environment.clock
        deadline: Deadline | None = None
        while True:
            transactional_ids = [
                listing.transactional_id
                for listing in await self._listings_of_prefix()
                if listing.state == ONGOING_STATE
            ]
            descriptions = (await self._admin.describe_transactions(transactional_ids)).values()
            due_timeouts_ms = [
                description.timeout_ms
                for description in descriptions
                if not isinstance(description, ClientError) and description.state == ONGOING_STATE
                if description.timeout_ms <= ms
            ]
            if not due_timeouts_ms:
                return
            if deadline is None:
                deadline = Deadline(clock, max(due_timeouts_ms) + SCAN_MS)
            if deadline.has_passed:
                return
            await pause(clock, log_care.POLL_MS * 5)

    # Leaders

    def _broker_id(self, broker_number: int) -> int:
        return self._broker_ids[(broker_number - 1) % len(self._broker_ids)]

    def number_of(self, broker_id: int) -> int:
        return self._broker_ids.index(broker_id) + 1

    async def home_of_id(self, transactional_id: str) -> TopicPartition:
        partition_count = self.settings.transaction_state_log_num_partitions
        partition_index = partition_for(TransactionalId(transactional_id), partition_count)
        return TopicPartition(TRANSACTION_STATE_TOPIC, partition_index)

    async def _partition_metadata(self, partition: TopicPartition) -> Any:
        """The partition in the metadata; None while it has no leader."""
        return (await self._cluster.refresh((partition.topic,))).leader(partition)

    async def move_leader(self, partition: TopicPartition, new_leader: int) -> None:
        self._need_whole_cluster(partition, "move-leader")
        await self._move_leader(partition, self._broker_id(new_leader))

    async def reload_coordinator(self, partition: TopicPartition) -> None:
        self._need_whole_cluster(partition, "reload-coordinator")
        leadership = await self._partition_metadata(partition)
        if leadership is None:
            raise TargetError(f"{partition} has no leader")
        other_broker = next(broker for broker in leadership.isr if broker != leadership.leader_id)
        await self._move_leader(partition, other_broker)
        await self._move_leader(partition, leadership.leader_id)

    def _need_whole_cluster(self, partition: TopicPartition, act_text: str) -> None:
        if partition.topic in INTERNAL_TOPICS:
            require_ability(self.abilities, Ability.WHOLE_CLUSTER, act_text)

    async def _move_leader(self, partition: TopicPartition, new_leader: int) -> None:
        leadership = await self._partition_metadata(partition)
        if leadership is not None and leadership.leader_id == new_leader:
            return
        if leadership is None or new_leader not in leadership.replicas:
            raise TargetError(f"broker {new_leader} has no replica of {partition}")
        other_replicas = tuple(replica for replica in leadership.replicas if replica != new_leader)
        await self._reassign(partition, (new_leader, *other_replicas))

        async def is_leader() -> bool:
            await self._admin.elect_preferred_leader(partition)
            leadership = await self._partition_metadata(partition)
            return leadership is not None and leadership.leader_id == new_leader

        await self._wait_until(is_leader, f"broker {new_leader} leads {partition}")
        if not await self._admin.wait_for_leader(partition, new_leader, timeout_ms=FOLLOW_LIMIT_MS):
            raise TargetError(
                f"waited {FOLLOW_LIMIT_MS} ms in vain until brokers know that {new_leader} leads"
                f" {partition}"
            )

    async def reassign(self, partition: TopicPartition, replicas: tuple[int, ...]) -> None:
        self._need_whole_cluster(partition, "reassign")
        await self._reassign(partition, tuple(map(self._broker_id, replicas)))

    async def _reassign(self, partition: TopicPartition, replicas: tuple[int, ...]) -> None:
        error = await self._admin.alter_partition_reassignment(partition, replicas)
        if error != ErrorCode.none:
            raise TargetError(f"{partition} is not given to {replicas}: {code_name(error)}")

        async def is_reassigned() -> bool:
            leadership = await self._partition_metadata(partition)
            return leadership is not None and set(leadership.replicas) == set(replicas)

        await self._wait_until(is_reassigned, f"the replicas of {partition} are {replicas}")

    # Brokers

    def _own_processes(self, ability: Ability, act_text: str) -> Processes:
        require_ability(self.abilities, ability, act_text)
        assert self._processes is not None, "who is able to do this has them"
        return self._processes

    async def kill(self, broker_id: int, *, lose_unflushed: bool = False) -> None:
        if lose_unflushed:
            require_ability(self.abilities, Ability.INSIDE, "lose what a broker has not flushed")
        await self._own_processes(Ability.BROKERS, "kill").kill(broker_id)

    async def stop(self, broker_id: int) -> None:
        await self._own_processes(Ability.BROKERS, "stop").shut_down(broker_id)

    async def start(self, broker_id: int, *, as_version: str | None = None) -> None:
        if as_version is not None:
            require_ability(self.abilities, Ability.INSIDE, "start a broker as another release")
        await self._own_processes(Ability.BROKERS, "start").start_again(broker_id)

        async def is_registered() -> bool:
            await self._cluster.refresh()
            broker_ids = {broker.broker_id for broker in self._cluster.view.brokers}
            return broker_id in broker_ids

        await self._wait_until(is_registered, f"broker {broker_id} is there again")

    async def isolate(self, broker_id: int, *, from_clients: bool = False) -> None:
        del broker_id, from_clients
        require_ability(self.abilities, Ability.INSIDE, "isolate")

    async def heal(self, broker_id: int) -> None:
        del broker_id
        require_ability(self.abilities, Ability.INSIDE, "heal")

    async def age(self, transactional_id: str, epoch: int) -> None:
        del transactional_id, epoch
        require_ability(self.abilities, Ability.INSIDE, "age")

    async def _wait_until(
        self, condition: Callable[[], Awaitable[bool]], awaited_state: str
    ) -> None:
        if not await log_care.wait_until(self.environment.clock, condition, FOLLOW_LIMIT_MS):
            raise TargetError(f"waited {FOLLOW_LIMIT_MS} ms in vain until {awaited_state}")

    # Logs

    async def roll(self, partition: TopicPartition) -> None:
        self._own_processes(Ability.LOGS, "roll")
        await log_care.roll(self._admin, self.environment.clock, partition)

    async def clean(self, partition: TopicPartition) -> None:
        broker_processes = self._own_processes(Ability.LOGS, "clean")
        await log_care.clean(self._admin, self.environment.clock, broker_processes, partition)

    async def delete_old(self, partition: TopicPartition) -> None:
        broker_processes = self._own_processes(Ability.LOGS, "delete-old")
        await log_care.delete_old(self._admin, self.environment.clock, broker_processes, partition)

    # Cleaning up

    async def close(self) -> None:
        await self._cluster.close()

    async def clear(self) -> list[Leftover]:
        """Ends open transactions, and deletes topics and groups.

        Returns:
            What could not be removed.
        """
        settings = self._proxy.options.settings
        cleaner = Cleaner(
            self._cluster,
            self.environment.clock,
            prefix=self.prefix,
            bootstrap=self._proxy.options.bootstrap,
            is_secured=settings.security.protocol is not SecurityProtocol.PLAINTEXT,
        )
        try:
            return await cleaner.clean(self._story_resources())
        finally:
            await self._cluster.close()

    def _story_resources(self) -> StoryResources:
        return StoryResources(
            topics=self._topics,
            groups=self._group_names,
            transactional_ids=self._transactional_ids,
            offsets_partition_count=self.settings.offsets_topic_num_partitions,
        )


@contextlib.asynccontextmanager
async def real_target(
    target: RealTarget, *, on_leftovers: Callable[[list[Leftover]], object]
) -> AsyncIterator[RealTarget]:
    """Prepare the target of one story or situation, and clean it afterwards, even if it was
    cancelled; the clock of observers is set back.
    """
    clock = target.environment.clock
    try:
        await target.prepare()
    except BaseException:
        await target.close()  # nothing was made yet
        raise
    try:
        yield target
    finally:
        target.injector.disarm_all()
        on_leftovers(await target.clear())
        clock.shift(-clock.advanced_ms)
