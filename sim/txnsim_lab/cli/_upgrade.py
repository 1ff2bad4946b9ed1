"""``txnsim practise upgrade``: upgrades the brokers of a cluster one by one while producers make
transactions, and then raises the cluster's features. At each step it prints the risks for
transactions in these releases, by the table of switches (``txnsim.releases.rules``), what happened,
and what to observe. It uses virtual time, so the same releases give the same text. It does not know
your clients, your load or your configs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Final

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.backoff import Deadline, pause
from txnsim.client.inspection.survey import survey
from txnsim.client.inspection.topic_reading import read_topic
from txnsim.client.producer import Producer
from txnsim.errors import ClientError, ConfigError
from txnsim.releases import Release
from txnsim.releases.rules import Rules
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.event_loop import ClusterLoop
from txnsim.testing.options import SimulatedClusterOptions
from txnsim.types import TopicPartition

TOPIC: Final = "orders"
PARTITIONS: Final = 3
BROKERS: Final = (2, 3, 1)
"""Order of the upgrade; the controller's node is last, as in Kafka's guide."""
IDS: Final = ("shop-1", "shop-2", "shop-3", "shop-4", "shop-5")
"""Transactional ids whose coordinators are on all brokers. At every step each makes a transaction
with a record for every partition.
"""
GIVE_UP_MS: Final = 6_000
"""A record that is not acknowledged after this time counts as a failure."""
IN_SYNC_MS: Final = 60_000
"""Limit of the time until the replicas of a restarted broker are in sync."""
FEATURES: Final = ("metadata.version", "transaction.version")
WITHOUT_ZOOKEEPER: Final = (4, 0)
OF_TRANSACTIONS: Final = (
    "transactions_are_verified", "guards_are_compared", "earlier_sequence_goes_first",
    "verify_ignores_pending", "verification_follows_peer_version", "offset_commits_are_verified",
    "lost_verification_is_retriable", "pending_comes_before_identity",
    "positions_come_before_answer", "stale_answers_spare_newer_debt", "unload_calls_off_load",
    "unknown_records_are_skipped", "swapped_ids_are_logged", "implicit_add_is_repeated",
    "own_epoch_marker_keeps_guard", "stale_epoch_comes_before_guard", "v2_starts_at_sequence_zero",
    "v2_markers_need_higher_epoch", "repeated_v2_markers_are_written", "last_epoch_recovers",
    "leaderless_partitions_keep_markers", "cut_transactions_begin_at_batch",
)  # fmt: skip
"""Switches that decide whether a transaction is lost, torn, hangs or is refused without reason."""
Tell = Callable[[str], object]


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an upgrade: number of records, of failed and of hanging transactions; the
    slowest commit.
    """

    committed: int
    read: int
    failed: int
    hanging: int
    slowest_ms: int

    @property
    def is_well(self) -> bool:
        """Whether every transaction was committed, every record of it was read, and nothing
        hangs.
        """
        return self.committed == self.read and self.failed == self.hanging == 0


def risks(old: Release, new: Release) -> tuple[list[str], list[str]]:
    """Sentences about what the upgrade fixes, and about the risks that it brings: one for each
    switch that differs.
    """
    mended: list[str] = []
    brought: list[str] = []
    asks_first = new.rules.transactions_are_verified and not old.rules.transactions_are_verified
    for name in OF_TRANSACTIONS:
        switch = Rules.documentation()[name]
        had, is_on_after = switch.is_on(old.patch_release), switch.is_on(new.patch_release)
        if asks_first and name == "verification_follows_peer_version":
            had = True  # no broker asked another
        if had != is_on_after:
            sentence = (
                f"{switch.ticket}: {switch.behaviour_after}; without that,"
                f" {switch.behaviour_before}."
            )
            (mended if is_on_after else brought).append(sentence)
    return mended, brought


def rehearse(old: Release, new: Release, tell: Tell) -> Rehearsal:
    """Play the upgrade.

    Raises:
        ConfigError: The new release is not newer, or a cluster can't be upgraded from the old one.
    """
    old_version, new_version = _version(old), _version(new)
    if old_version >= new_version:
        raise ConfigError(f"--to {new.name} is not newer than --from {old.name}")
    if old_version < (3, 3) and new_version >= WITHOUT_ZOOKEEPER:
        raise ConfigError(
            f"--to {new.name}: a cluster of {old.name} has ZooKeeper, and {new.name} has none:"
            " go to KRaft in 3.9 first, and rehearse from there"
        )
    described = SimulatedClusterOptions(
        topics={TOPIC: PARTITIONS}, as_version=(old.name,), trace="off"
    )

    async def whole(environment: VirtualEnvironment) -> Rehearsal:
        kafka = AsyncSimulatedKafka.of(
            described, cluster_loop=ClusterLoop(environment.loop), environment=environment
        )
        async with kafka:
            return await _Upgrade(kafka, old, new, tell).play()

    return run_virtual(whole, seed=1)


class _Upgrade:
    def __init__(self, kafka: AsyncSimulatedKafka, old: Release, new: Release, tell: Tell) -> None:
        self._kafka = kafka
        self._old, self._new = old, new
        self._tell = tell
        self._producers: list[Producer] = []
        self._committed = 0
        self._failed = 0
        self._slowest_ms = 0

    async def play(self) -> Rehearsal:
        admin = await self._kafka.rebuilt.admin()
        for line in _introduction(self._old, self._new):
            self._tell(line)
        newest = self._new.patch_release
        async with AsyncExitStack() as stack:
            for name in IDS:
                producer = Producer(
                    admin.cluster, transactional_id=name, delivery_timeout_ms=GIVE_UP_MS
                )
                self._producers.append(await stack.enter_async_context(producer))
                await producer.init_transactions()
            await self._look(admin, f"All brokers run {self._old.patch_release}.")
            for number, broker in enumerate(BROKERS, 1):
                self._tell(f"\n{number}. Stop broker {broker}, start it as {newest}.")
                await self._kafka.brokers.stop(broker)
                await self._look(admin, f"   Broker {broker} is down.")
                await self._kafka.brokers.start(broker, as_version=self._new.name)
                await self._lead_again(admin)
                await self._look(admin, f"   Broker {broker} runs {newest}, and leads again.")
            self._tell(_LOOK_AT_MIXED)
            await self._raise_features(admin)
            await self._look(admin, "   The features are raised.")
        rehearsal = await self._result(admin)
        self._tell("\n" + _verdict(rehearsal))
        return rehearsal

    async def _lead_again(self, admin: Admin) -> None:
        """Let the preferred leaders lead, as brokers do after five minutes
        (auto.leader.rebalance.enable).
        """
        coordinating_partitions = {
            await self._kafka.topics.of_transactional_id(name) for name in IDS
        }
        deadline = Deadline(admin.cluster.clock, IN_SYNC_MS)
        for topic_partition in sorted(
            {
                *coordinating_partitions,
                *(TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)),
            }
        ):
            while not deadline.has_passed:
                await admin.elect_preferred_leader(topic_partition)
                partition_image = self._kafka.rebuilt.sim.metadata.image.partition(topic_partition)
                if partition_image is None or partition_image.leader == partition_image.replicas[0]:
                    break
                await pause(admin.cluster.clock, 100)

    async def _look(self, admin: Admin, heading: str) -> None:
        """Commit a transaction of each id, and print how it went."""
        clock = admin.cluster.clock
        slowest_ms, errors = 0, Counter[str]()
        for producer in self._producers:
            begun_ms = clock.now_ms()
            producer.begin()
            try:
                for partition in range(PARTITIONS):
                    await producer.send(TOPIC, partition, b"order %d" % self._committed)
                await producer.commit()
            except ClientError as error:
                errors[str(error)] += 1
                await producer.abort()
                continue
            self._committed += PARTITIONS
            slowest_ms = max(slowest_ms, clock.now_ms() - begun_ms)
        self._slowest_ms = max(self._slowest_ms, slowest_ms)
        self._failed += errors.total()
        went = (
            f"{len(IDS) - errors.total()} transactions committed, the slowest in {slowest_ms} ms."
        )
        failed = "".join(f" {count} FAILED: {error}." for error, count in errors.items())
        self._tell(f"{heading} {went}{failed}")

    async def _raise_features(self, admin: Admin) -> None:
        known_features = self._new.features
        levels = {
            name: known_features[name].max_level for name in FEATURES if name in known_features
        }
        named = ", ".join(f"{name} {level}" for name, level in levels.items())
        self._tell(f"\n{len(BROKERS) + 1}. Raise the features: {named}. There is no safe way back.")
        await admin.update_features(levels)

    async def _result(self, admin: Admin) -> Rehearsal:
        read = sum(record.is_committed for record in await read_topic(admin, TOPIC))
        hanging_survey = await survey(admin, now_ms=admin.cluster.clock.now_ms(), older_than_ms=0)
        return Rehearsal(
            committed=self._committed,
            read=read,
            failed=self._failed,
            hanging=len(hanging_survey.findings),
            slowest_ms=self._slowest_ms,
        )


def _version(release: Release) -> tuple[int, ...]:
    return tuple(map(int, release.patch_release.split(".")))


def _introduction(old: Release, new: Release) -> Iterator[str]:
    mended, brought = risks(old, new)
    yield (
        f"A rehearsal: three brokers go from {old.patch_release} to {new.patch_release}, one by"
        " one, while five producers commit. In virtual time; nothing listens."
    )
    yield "\nBefore: `txnsim txns find-hanging --all` on your cluster. What hangs, end first."
    if _version(old) < WITHOUT_ZOOKEEPER <= _version(new):
        yield (
            f"A cluster of {old.name} may have ZooKeeper, and {new.name} has none: this rehearsal"
            " is of KRaft. With ZooKeeper go to KRaft in 3.9 first, and rehearse from there."
        )
    yield from _indented_list(
        f"Mended in {new.name}; at risk while a broker runs {old.name}:", mended
    )
    yield from _indented_list(f"New in {new.name}; at risk from the first broker on:", brought)
    yield ""


def _indented_list(head: str, sentences: list[str]) -> Iterator[str]:
    if sentences:
        yield f"\n{head}"
        yield from (f"  {sentence}" for sentence in sentences)


_LOOK_AT_MIXED: Final = (
    "   Look at, after each broker: `txnsim txns find-hanging --all`; transactions that stay"
    " PrepareCommit or PrepareAbort; replicas out of sync. Start the next one when all are back."
)


def _verdict(rehearsal: Rehearsal) -> str:
    return (
        f"{rehearsal.read} of {rehearsal.committed} committed records are read,"
        f" {rehearsal.failed} transactions failed, {rehearsal.hanging} hang,"
        f" the slowest took {rehearsal.slowest_ms} ms."
        + (" It went well here, without your load and your configs." if rehearsal.is_well else "")
    )
