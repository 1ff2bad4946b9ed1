"""A real cluster as a ground, behind a fault proxy: everything goes over the wire.

A real broker's clock can't be moved. What a story wants to have timed out is waited for, and then
the clock of those who look from outside is moved, so that they judge as if they had come later.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.authentication import ClientSecurity
from txnsim.client.backoff import Deadline, pause
from txnsim.client.errors import ClientError, code_name
from txnsim.client.inspection.txn_views import TransactionListing
from txnsim.client.partition_requests import (
    alter_partition_reassignments,
    elect_preferred_leaders,
)
from txnsim.client.positions import group_coordinator
from txnsim.client.requests import NewTopic
from txnsim.errors import ConfigError
from txnsim.runtime.env import Environment
from txnsim.security.options import SecurityProtocol
from txnsim.settings import Settings
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
    TransactionalId,
    partition_for,
)
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.scenario._cluster_options import new_topic, topic_of
from txnsim_lab.scenario.actors._operator import TIMEOUT_MS
from txnsim_lab.scenario.answers import StoryFailedError
from txnsim_lab.scenario.ground import _log_care as log_care
from txnsim_lab.scenario.ground.cleaning import ONGOING, Belongings, Cleaner, Left
from txnsim_lab.scenario.model import Scenario, Topic
from txnsim_lab.scenario.steps_model import ClusterAct, needed

FOLLOWED_MAX_MS: Final = 60_000
REALLY_WAITED_MS: Final = 35_000
"""Longest advance that is really waited: brokers retry after 30 s."""
SCAN_MS: Final = 15_000
"""How much later than its timeout a coordinator may end a transaction: its scan, and markers."""


class Hands(log_care.Disks, Protocol):
    """Acts on the processes of a cluster, and reads its disks."""

    async def kill(self, number: int) -> None:
        """End a broker at once."""

    async def shut_down(self, number: int) -> None:
        """End a broker in order."""

    async def start_again(self, number: int) -> None:
        """Start one that was ended."""


class KafkaGround:
    """``Ground`` on real brokers."""

    def __init__(
        self,
        environment: Environment,
        proxy: FaultProxy,
        scenario: Scenario,
        *,
        prefix: str,
        settings: Settings,
        hands: Hands | None = None,
    ) -> None:
        """A ground for one story; ``prepare`` it."""
        self.environment = environment
        self.injector = proxy.injector
        self._proxy = proxy
        self._scenario = scenario
        self.prefix = prefix
        self.settings = settings
        self._hands = hands
        self._topics: dict[str, int] = {}
        self._ids: tuple[int, ...] = ()
        # Past the proxy: what the ground asks is no part of the story, and no fault may strike it.
        self._cluster = proxy.outside(
            msgspec.structs.replace(proxy.options.settings, client_id="txnsim-stage")
        )

    @property
    def bootstrap(self) -> str:
        """The proxy's doors."""
        return self._proxy.bootstrap

    @property
    def security(self) -> ClientSecurity:
        """The login of ``--command-config``: TLS is between the proxy and the brokers."""
        there = self._proxy.options.settings.security
        in_clear = (
            SecurityProtocol.SASL_PLAINTEXT
            if there.protocol.has_sasl
            else SecurityProtocol.PLAINTEXT
        )
        return msgspec.structs.replace(there, protocol=in_clear)

    @property
    def topics(self) -> Mapping[str, int]:
        """The story's topics and the internal ones."""
        settings = self.settings
        return {
            **self._topics,
            TRANSACTION_STATE_TOPIC: settings.transaction_state_log_num_partitions,
            CONSUMER_OFFSETS_TOPIC: settings.offsets_topic_num_partitions,
        }

    async def prepare(self) -> None:
        """Connect, and have the internal topics made, whose partitions a story may name.

        Raises:
            ClientError: The cluster does not answer.
        """
        await self._cluster.connect()
        await self._cluster.coordinator(f"{self.prefix}nobody")
        await group_coordinator(self._cluster, f"{self.prefix}nobody", self._cluster.deadline())
        counts = {}
        for name in (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC):
            topic = await self.admin.wait_for_topic(name)
            counts[name] = len(topic.partitions)
            if self._hands is not None:
                await self._until_whole(name)  # the story before may have ended a broker
        await self._cluster.refresh()
        self._ids = tuple(sorted(broker.broker_id for broker in self._cluster.view.brokers))
        self.settings = msgspec.structs.replace(
            self.settings,
            transaction_state_log_num_partitions=counts[TRANSACTION_STATE_TOPIC],
            offsets_topic_num_partitions=counts[CONSUMER_OFFSETS_TOPIC],
        )

    async def _until_whole(self, name: str) -> None:
        async def is_whole() -> bool:
            (topic,) = (await self._cluster.refresh((name,))).topics
            return topic.led and all(set(one.isr) == set(one.replicas) for one in topic.partitions)

        await self._until(is_whole, f"all replicas of {name} are in sync")

    async def create_topic(self, name: str, topic: Topic) -> None:
        """See ``Ground``.

        Raises:
            ConfigError: The cluster refuses it, or has no leaders for it in time.
        """
        wanted = new_topic(name, topic, brokers=min(len(self._ids), self._scenario.brokers))
        assignments = tuple(
            tuple(self._id(number) for number in replicas) for _, replicas in wanted.assignments
        )
        asked = NewTopic(
            name=name,
            assignments=assignments,
            configs=tuple((key, value or "") for key, value in wanted.configs.items()),
        )
        # From now on it may be there, also where no answer comes.
        self._topics[name] = len(assignments)
        try:
            outcome = (await self.admin.create_topics([asked]))[name]
            if isinstance(outcome, ClientError):
                if outcome.error is not None and not outcome.error.retriable:
                    del self._topics[name]
                raise outcome
            await self.admin.wait_for_topic(name)
        except ClientError as error:
            raise ConfigError(f"{self._scenario.name}: topic {name}: {error}") from None

    async def act(self, stage: Any, act: ClusterAct) -> None:
        """See ``Ground``."""
        del stage  # it is asked over the wire
        match act.do:
            case "move-leader":
                await self._move_leader(await self._place(act), self._id(needed(act.to)))
            case "reload-coordinator":
                await self._reload(await self._place(act))
            case "kill" | "stop" | "start" | "restart":
                await self._care_for_broker(act)
            case "reassign":
                replicas = tuple(map(self._id, needed(act.replicas)))
                await self._reassign(needed(act.partition), replicas)
            case "configure":
                topic, name = act.topic or "", act.name or ""
                await log_care.configure(self.admin, topic, name, act.value)
            case "roll" | "clean" | "delete-old":
                await self._care_for_log(act)
            case "create-topic":
                await self.create_topic(act.topic or "", topic_of(act))
            case "delete-topic":
                await self._delete(act.topic or "")
            case unknown:
                raise StoryFailedError(f"a real cluster can't {unknown}: only a simulator can")

    async def advance(self, ms: int) -> None:
        """Wait for what would time out; the rest is moved past those who look."""
        clock = self.environment.clock
        if ms <= REALLY_WAITED_MS:
            await pause(clock, ms)
        elif ms >= log_care.RETAINED_MS:
            # Nobody's clock goes on: brokers since 3.6 refuse records of the day after.
            await pause(clock, log_care.SHORTLY_RETAINED_MS)
        else:
            await self.wait_out(ms)

    async def wait_out(self, ms: int) -> None:
        await self._wait_for_timeouts(ms)
        self.environment.clock.advance(ms)

    def late(self) -> int | None:
        """Nothing: metrics are not part of Kafka's protocol."""
        return None

    def why_unfinished(self, transactional_id: str) -> list[str]:
        """Nothing beside what was waited for: only the simulator can look inside."""
        return [f"{transactional_id} is not in that state on the real cluster"]

    def is_hidden(self, place: TopicPartition) -> bool:
        return place.topic not in self._topics

    # Transactions

    @property
    def admin(self) -> Admin:
        """An operator's client, past the proxy."""
        return Admin(self._cluster)

    async def _ours(self) -> list[TransactionListing]:
        found: list[TransactionListing] = []
        for listed in (await self.admin.list_transactions()).values():
            if not isinstance(listed, ClientError):
                found += [one for one in listed if one.transactional_id.startswith(self.prefix)]
        return found

    async def _wait_for_timeouts(self, ms: int) -> None:
        """Wait until no transaction is ongoing that times out within ``ms``, or until its
        coordinator should have ended it long ago.
        """
        clock = self.environment.clock
        deadline: Deadline | None = None
        while True:
            names = [one.transactional_id for one in await self._ours() if one.state == ONGOING]
            described = (await self.admin.describe_transactions(names)).values()
            due = [
                one.timeout_ms
                for one in described
                if not isinstance(one, ClientError) and one.state == ONGOING
                if one.timeout_ms <= ms
            ]
            if not due:
                return
            if deadline is None:
                deadline = Deadline(clock, max(due) + SCAN_MS)
            if deadline.passed:
                return
            await pause(clock, log_care.POLL_MS * 5)

    # Leaders and brokers

    def _id(self, number: int) -> int:
        """The broker that a story calls by this number."""
        return self._ids[(number - 1) % len(self._ids)]

    def number_of(self, broker: int) -> int:
        """What a story calls a broker."""
        return self._ids.index(broker) + 1

    async def _place(self, act: ClusterAct) -> TopicPartition:
        if act.partition is not None:
            return act.partition
        count = self.settings.transaction_state_log_num_partitions
        index = partition_for(TransactionalId(needed(act.coordinator_of)), count)
        return TopicPartition(TRANSACTION_STATE_TOPIC, index)

    async def _led(self, place: TopicPartition) -> Any:
        """The partition as metadata shows it; None while it has no leader."""
        return (await self._cluster.refresh((place.topic,))).leader(place)

    async def _reload(self, place: TopicPartition) -> None:
        led = await self._led(place)
        if led is None:
            raise StoryFailedError(f"{place} has no leader")
        away = next(broker for broker in led.isr if broker != led.leader_id)
        await self._move_leader(place, away)
        await self._move_leader(place, led.leader_id)

    async def _move_leader(self, place: TopicPartition, to: int) -> None:
        led = await self._led(place)
        if led is not None and led.leader_id == to:
            return
        if led is None or to not in led.replicas:
            raise StoryFailedError(f"broker {to} has no replica of {place}")
        others = tuple(one for one in led.replicas if one != to)
        await self._reassign(place, (to, *others))

        async def is_leader() -> bool:
            request = elect_preferred_leaders([place], timeout_ms=TIMEOUT_MS)
            await self._cluster.ask_any(request)
            led = await self._led(place)
            return led is not None and led.leader_id == to

        await self._until(is_leader, f"broker {to} leads {place}")

    async def _reassign(self, place: TopicPartition, replicas: tuple[int, ...]) -> None:
        request = alter_partition_reassignments({place: replicas}, timeout_ms=TIMEOUT_MS)
        message = await self._cluster.ask_any(request)
        errors = [row.error_code for topic in message.responses for row in topic.partitions]
        if any(errors):
            raise StoryFailedError(f"{place} is not given to {replicas}: {code_name(errors[0])}")

        async def is_so() -> bool:
            led = await self._led(place)
            return led is not None and set(led.replicas) == set(replicas)

        await self._until(is_so, f"the replicas of {place} are {replicas}")

    async def _care_for_broker(self, act: ClusterAct) -> None:
        broker = needed(act.broker)
        if self._hands is None:
            raise StoryFailedError(f"{act.do}: these brokers are not ours")
        if act.do == "kill" or (act.do == "restart" and act.kill):
            await self._hands.kill(broker)
        elif act.do in ("stop", "restart"):
            await self._hands.shut_down(broker)
        if act.do in ("start", "restart"):
            await self._hands.start_again(broker)

            async def is_there() -> bool:
                await self._cluster.refresh()
                known = {broker.broker_id for broker in self._cluster.view.brokers}
                return broker in known

            await self._until(is_there, f"broker {broker} is there again")

    async def _until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        if not await log_care.until(self.environment.clock, holds, FOLLOWED_MAX_MS):
            raise StoryFailedError(f"waited {FOLLOWED_MAX_MS} ms in vain until {what}")

    # Topics

    async def _care_for_log(self, act: ClusterAct) -> None:
        place = needed(act.partition)
        if self._hands is None:
            raise StoryFailedError(f"{act.do}: these brokers are not ours")
        admin, clock = self.admin, self.environment.clock
        match act.do:
            case "roll":
                await log_care.roll(admin, clock, place)
            case "clean":
                await log_care.clean(admin, clock, self._hands, place)
            case _:
                await log_care.delete_old(admin, clock, self._hands, place)

    async def _delete(self, name: str) -> None:
        outcome = (await self.admin.delete_topics([name]))[name]
        if outcome is not None:
            raise StoryFailedError(f"topic {name}: {outcome}")
        await self.admin.wait_without_topics([name], timeout_ms=TIMEOUT_MS)
        self._topics.pop(name, None)

    # Cleaning up

    async def close(self) -> None:
        """Hang up."""
        await self._cluster.close()

    async def clean(self) -> list[Left]:
        """End what the story left open, and delete its topics and groups.

        Returns:
            What could not be cleaned.
        """
        settings = self._proxy.options.settings
        cleaner = Cleaner(
            self._cluster,
            self.environment.clock,
            prefix=self.prefix,
            bootstrap=self._proxy.options.bootstrap,
            secured=settings.security.protocol is not SecurityProtocol.PLAINTEXT,
        )
        try:
            return await cleaner.clean(self._made())
        finally:
            await self._cluster.close()

    def _made(self) -> Belongings:
        steps = (*self._scenario.steps, *self._scenario.cure)
        actors = self._scenario.actors.values()
        groups = {step.call.group for step in steps if step.call is not None}
        ids = {step.call.transactional_id for step in steps if step.call is not None}
        groups |= {actor.group for actor in actors}
        ids |= {actor.transactional_id for actor in actors}
        return Belongings(
            topics=self._topics,
            groups={name for name in groups if name},
            transactional_ids={name for name in ids if name},
            position_partitions=self.settings.offsets_topic_num_partitions,
        )


@contextlib.asynccontextmanager
async def kafka_ground(
    ground: KafkaGround, *, left: Callable[[list[Left]], object]
) -> AsyncIterator[KafkaGround]:
    """Prepare the ground of one story, and clean it afterwards, also where the story was broken
    off; the clock of those who look is set back.
    """
    clock = ground.environment.clock
    try:
        await ground.prepare()
    except BaseException:
        await ground.close()  # nothing was made yet
        raise
    try:
        yield ground
    finally:
        ground.injector.disarm_all()
        left(await ground.clean())
        clock.shift(-clock.advanced_ms)
