"""``txnsim practise upgrade``: brokers go from one release to another, one by one, under a producer
with transactions; then the cluster's features are raised.

At each step it tells what is at risk for transactions in these releases, by the table of switches
(``txnsim.releases.rules``), what happened here, and what to look at. Virtual time, so the same
releases give the same text. It does not know your clients, your load or your configs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.inspection.reading import read_topic
from txnsim.client.inspection.survey import survey
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError
from txnsim.releases import Release
from txnsim.releases.rules import Rules
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.event_loop import ClusterLoop
from txnsim.testing.options import Wanted

TOPIC: Final = "orders"
PARTITIONS: Final = 3
BROKERS: Final = (2, 3, 1)
"""The controller's node last, as Kafka's guide has it."""
COMMITS: Final = 5
"""Transactions at each step, each with a record for every partition."""
FEATURES: Final = ("metadata.version", "transaction.version")
WITHOUT_ZOOKEEPER: Final = (4, 0)
OF_TRANSACTIONS: Final = (
    "verification_follows_peer_version", "offset_commits_are_verified",
    "lost_verification_is_retriable", "pending_comes_before_identity",
    "positions_come_before_answer", "stale_answers_spare_newer_debt", "unload_calls_off_load",
    "unknown_records_are_skipped", "swapped_ids_are_logged", "implicit_add_is_repeated",
    "own_epoch_marker_keeps_guard", "stale_epoch_comes_before_guard", "v2_starts_at_sequence_zero",
    "v2_markers_need_higher_epoch", "repeated_v2_markers_are_written", "last_epoch_recovers",
    "leaderless_partitions_keep_markers", "cut_transactions_begin_at_batch",
)  # fmt: skip
"""Switches that decide whether a transaction is lost, torn, hangs or is refused for nothing."""
Tell = Callable[[str], object]


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an upgrade: counts of records, hanging transactions, the slowest commit."""

    committed: int
    read: int
    hanging: int
    slowest_ms: int

    @property
    def is_well(self) -> bool:
        """Every committed record was read, and nothing hangs."""
        return self.committed == self.read and self.hanging == 0


def risks(old: Release, new: Release) -> tuple[list[str], list[str]]:
    """What the upgrade mends, and what it brings: a sentence for each switch that differs."""
    mended: list[str] = []
    brought: list[str] = []
    for name in OF_TRANSACTIONS:
        switch = Rules.documentation()[name]
        had, has = switch.is_on(old.patch_release), switch.is_on(new.patch_release)
        if had != has:
            sentence = f"{switch.ticket}: {switch.after}; without that, {switch.before}."
            (mended if has else brought).append(sentence)
    return mended, brought


def rehearse(old: Release, new: Release, tell: Tell) -> Rehearsal:
    """Play it.

    Raises:
        ConfigError: The new release is not newer, or a cluster can't go from one to the other.
    """
    before, after = (tuple(map(int, one.patch_release.split("."))) for one in (old, new))
    if before >= after:
        raise ConfigError(f"--to {new.name} is not newer than --from {old.name}")
    if before < (3, 3) and after >= WITHOUT_ZOOKEEPER:
        raise ConfigError(
            f"--to {new.name}: a cluster of {old.name} has ZooKeeper, and {new.name} has none:"
            " go to KRaft in 3.9 first, and rehearse from there"
        )
    described = Wanted(topics={TOPIC: PARTITIONS}, as_version=(old.name,), trace="off")

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
        self._committed = 0
        self._slowest_ms = 0

    async def play(self) -> Rehearsal:
        admin = await self._kafka.rebuilt.admin()
        for line in _before(self._old, self._new):
            self._tell(line)
        newest = self._new.patch_release
        async with Producer(admin.cluster, transactional_id="shop") as producer:
            await producer.init_transactions()
            await self._look(admin, producer, f"All brokers run {self._old.patch_release}.")
            for number, broker in enumerate(BROKERS, 1):
                self._tell(f"\n{number}. Stop broker {broker}, start it as {newest}.")
                await self._kafka.brokers.stop(broker)
                await self._look(admin, producer, f"   Broker {broker} is down.")
                await self._kafka.brokers.start(broker, as_version=self._new.name)
                await self._look(admin, producer, f"   Broker {broker} runs {newest}.")
            self._tell(_LOOK_AT_MIXED)
            await self._raise_features(admin)
            await self._look(admin, producer, "   The features are raised.")
        found = await self._result(admin)
        self._tell("\n" + _verdict(found))
        return found

    async def _look(self, admin: Admin, producer: Producer, said: str) -> None:
        """Commit some transactions, and tell how it went."""
        clock = admin.cluster.clock
        slowest_ms = 0
        for _ in range(COMMITS):
            begun_ms = clock.now_ms()
            producer.begin()
            for partition in range(PARTITIONS):
                await producer.send(TOPIC, partition, b"order %d" % self._committed)
            await producer.commit()
            self._committed += PARTITIONS
            slowest_ms = max(slowest_ms, clock.now_ms() - begun_ms)
        self._slowest_ms = max(self._slowest_ms, slowest_ms)
        self._tell(f"{said} {COMMITS} transactions committed, the slowest in {slowest_ms} ms.")

    async def _raise_features(self, admin: Admin) -> None:
        known = self._new.features
        levels = {name: known[name].max_level for name in FEATURES if name in known}
        named = ", ".join(f"{name} {level}" for name, level in levels.items())
        self._tell(f"\n{len(BROKERS) + 1}. Raise the features: {named}. There is no safe way back.")
        await admin.update_features(levels)

    async def _result(self, admin: Admin) -> Rehearsal:
        read = sum(one.is_committed for one in await read_topic(admin, TOPIC))
        found = await survey(admin, now_ms=admin.cluster.clock.now_ms(), older_than_ms=0)
        return Rehearsal(
            committed=self._committed,
            read=read,
            hanging=len(found.findings),
            slowest_ms=self._slowest_ms,
        )


def _before(old: Release, new: Release) -> Iterator[str]:
    mended, brought = risks(old, new)
    yield (
        f"A rehearsal: three brokers go from {old.patch_release} to {new.patch_release}, one by"
        " one, while a producer commits. In virtual time; nothing listens."
    )
    yield "\nBefore: `txnsim txns find-hanging --all` on your cluster. What hangs, end first."
    yield from _listed(f"Mended in {new.name}; at risk while a broker runs {old.name}:", mended)
    yield from _listed(f"New in {new.name}; at risk from the first broker on:", brought)
    yield ""


def _listed(head: str, sentences: list[str]) -> Iterator[str]:
    if sentences:
        yield f"\n{head}"
        yield from (f"  {one}" for one in sentences)


_LOOK_AT_MIXED: Final = (
    "   Look at, after each broker: `txnsim txns find-hanging --all`; transactions that stay"
    " PrepareCommit or PrepareAbort; replicas out of sync. Start the next one when all are back."
)


def _verdict(found: Rehearsal) -> str:
    return (
        f"{found.read} of {found.committed} committed records are read, {found.hanging}"
        f" transactions hang, the slowest took {found.slowest_ms} ms."
        + (" It went well here, without your load and your configs." if found.is_well else "")
    )
