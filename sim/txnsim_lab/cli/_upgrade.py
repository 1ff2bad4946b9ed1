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
TRANSACTIONAL_IDS: Final = ("shop-1", "shop-2", "shop-3", "shop-4", "shop-5")
"""Transactional ids whose coordinators are on all brokers. At every step each makes a transaction
with a record for every partition.
"""
DELIVERY_TIMEOUT_MS: Final = 6_000
"""A record that is not acknowledged after this time counts as a failure."""
IN_SYNC_MS: Final = 60_000
"""Limit of the time until the replicas of a restarted broker are in sync."""
FEATURES: Final = ("metadata.version", "transaction.version")
WITHOUT_ZOOKEEPER: Final = (4, 0)
TRANSACTION_SWITCHES: Final = (
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
PrintText = Callable[[str], object]


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


def risks(old_release: Release, new_release: Release) -> tuple[list[str], list[str]]:
    """Sentences about what the upgrade fixes, and about the risks that it brings: one for each
    switch that differs.
    """
    fixed_risks: list[str] = []
    new_risks: list[str] = []
    verification_is_new = (
        new_release.rules.transactions_are_verified
        and not old_release.rules.transactions_are_verified
    )
    for switch_name in TRANSACTION_SWITCHES:
        switch = Rules.documentation()[switch_name]
        is_on_before, is_on_after = (
            switch.is_on(old_release.patch_release),
            switch.is_on(new_release.patch_release),
        )
        if verification_is_new and switch_name == "verification_follows_peer_version":
            is_on_before = True  # no broker asked another
        if is_on_before != is_on_after:
            sentence = (
                f"{switch.ticket}: {switch.behaviour_after}; without that,"
                f" {switch.behaviour_before}."
            )
            (fixed_risks if is_on_after else new_risks).append(sentence)
    return fixed_risks, new_risks


def rehearse(old_release: Release, new_release: Release, print_text: PrintText) -> Rehearsal:
    """Play the upgrade.

    Raises:
        ConfigError: The new release is not newer, or a cluster can't be upgraded from the old one.
    """
    old_version, new_version = _version_numbers(old_release), _version_numbers(new_release)
    if old_version >= new_version:
        raise ConfigError(f"--to {new_release.name} is not newer than --from {old_release.name}")
    if old_version < (3, 3) and new_version >= WITHOUT_ZOOKEEPER:
        raise ConfigError(
            f"--to {new_release.name}: a cluster of {old_release.name} has ZooKeeper, and"
            f" {new_release.name} has none: go to KRaft in 3.9 first, and rehearse from there"
        )
    cluster_options = SimulatedClusterOptions(
        topics={TOPIC: PARTITIONS}, as_version=(old_release.name,), trace="off"
    )

    async def play_upgrade(environment: VirtualEnvironment) -> Rehearsal:
        kafka = AsyncSimulatedKafka.from_description(
            cluster_options, cluster_loop=ClusterLoop(environment.loop), environment=environment
        )
        async with kafka:
            return await _Upgrade(kafka, old_release, new_release, print_text).play()

    return run_virtual(play_upgrade, seed=1)


class _Upgrade:
    def __init__(
        self,
        kafka: AsyncSimulatedKafka,
        old_release: Release,
        new_release: Release,
        print_text: PrintText,
    ) -> None:
        self._kafka = kafka
        self._old_release, self._new_release = old_release, new_release
        self._print_text = print_text
        self._producers: list[Producer] = []
        self._committed_count = 0
        self._failure_count = 0
        self._slowest_ms = 0

    async def play(self) -> Rehearsal:
        admin = await self._kafka.rebuilt.admin()
        for introduction_line in _introduction_lines(self._old_release, self._new_release):
            self._print_text(introduction_line)
        newest_version = self._new_release.patch_release
        async with AsyncExitStack() as exit_stack:
            for transactional_id in TRANSACTIONAL_IDS:
                producer = Producer(
                    admin.cluster,
                    transactional_id=transactional_id,
                    delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
                )
                self._producers.append(await exit_stack.enter_async_context(producer))
                await producer.init_transactions()
            await self._commit_and_report(
                admin, f"All brokers run {self._old_release.patch_release}."
            )
            for step_number, broker in enumerate(BROKERS, 1):
                self._print_text(
                    f"\n{step_number}. Stop broker {broker}, start it as {newest_version}."
                )
                await self._kafka.brokers.stop(broker)
                await self._commit_and_report(admin, f"   Broker {broker} is down.")
                await self._kafka.brokers.start(broker, as_version=self._new_release.name)
                await self._restore_leaders(admin)
                await self._commit_and_report(
                    admin, f"   Broker {broker} runs {newest_version}, and leads again."
                )
            self._print_text(_MIXED_RELEASES_HINT)
            await self._raise_features(admin)
            await self._commit_and_report(admin, "   The features are raised.")
        rehearsal = await self._rehearsal_result(admin)
        self._print_text("\n" + _verdict_sentence(rehearsal))
        return rehearsal

    async def _restore_leaders(self, admin: Admin) -> None:
        """Let the preferred leaders lead, as brokers do after five minutes
        (auto.leader.rebalance.enable).
        """
        coordinating_partitions = {
            await self._kafka.topics.of_transactional_id(transactional_id)
            for transactional_id in TRANSACTIONAL_IDS
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

    async def _commit_and_report(self, admin: Admin, heading: str) -> None:
        """Commit a transaction of each id, and print how it went."""
        clock = admin.cluster.clock
        slowest_ms, error_counts = 0, Counter[str]()
        for producer in self._producers:
            begun_ms = clock.now_ms()
            producer.begin()
            try:
                for partition in range(PARTITIONS):
                    await producer.send(TOPIC, partition, b"order %d" % self._committed_count)
                await producer.commit()
            except ClientError as error:
                error_counts[str(error)] += 1
                await producer.abort()
                continue
            self._committed_count += PARTITIONS
            slowest_ms = max(slowest_ms, clock.now_ms() - begun_ms)
        self._slowest_ms = max(self._slowest_ms, slowest_ms)
        self._failure_count += error_counts.total()
        committed_count = len(TRANSACTIONAL_IDS) - error_counts.total()
        committed_text = (
            f"{committed_count} transactions committed, the slowest in {slowest_ms} ms."
        )
        failed_text = "".join(f" {count} FAILED: {error}." for error, count in error_counts.items())
        self._print_text(f"{heading} {committed_text}{failed_text}")

    async def _raise_features(self, admin: Admin) -> None:
        known_features = self._new_release.features
        feature_levels = {
            feature_name: known_features[feature_name].max_level
            for feature_name in FEATURES
            if feature_name in known_features
        }
        levels_text = ", ".join(
            f"{feature_name} {level}" for feature_name, level in feature_levels.items()
        )
        self._print_text(
            f"\n{len(BROKERS) + 1}. Raise the features: {levels_text}. There is no safe way back."
        )
        await admin.update_features(feature_levels)

    async def _rehearsal_result(self, admin: Admin) -> Rehearsal:
        read_count = sum(record.is_committed for record in await read_topic(admin, TOPIC))
        hanging_survey = await survey(admin, now_ms=admin.cluster.clock.now_ms(), older_than_ms=0)
        return Rehearsal(
            committed=self._committed_count,
            read=read_count,
            failed=self._failure_count,
            hanging=len(hanging_survey.findings),
            slowest_ms=self._slowest_ms,
        )


def _version_numbers(release: Release) -> tuple[int, ...]:
    return tuple(map(int, release.patch_release.split(".")))


def _introduction_lines(old_release: Release, new_release: Release) -> Iterator[str]:
    fixed_risks, new_risks = risks(old_release, new_release)
    yield (
        f"A rehearsal: three brokers go from {old_release.patch_release} to"
        f" {new_release.patch_release}, one by one, while five producers commit."
        " In virtual time; nothing listens."
    )
    yield "\nBefore: `txnsim txns find-hanging --all` on your cluster. What hangs, end first."
    if _version_numbers(old_release) < WITHOUT_ZOOKEEPER <= _version_numbers(new_release):
        yield (
            f"A cluster of {old_release.name} may have ZooKeeper, and {new_release.name} has none:"
            " this rehearsal is of KRaft. With ZooKeeper go to KRaft in 3.9 first, and rehearse"
            " from there."
        )
    yield from _indented_list(
        f"Mended in {new_release.name}; at risk while a broker runs {old_release.name}:",
        fixed_risks,
    )
    yield from _indented_list(
        f"New in {new_release.name}; at risk from the first broker on:", new_risks
    )
    yield ""


def _indented_list(heading: str, sentences: list[str]) -> Iterator[str]:
    if sentences:
        yield f"\n{heading}"
        yield from (f"  {sentence}" for sentence in sentences)


_MIXED_RELEASES_HINT: Final = (
    "   Look at, after each broker: `txnsim txns find-hanging --all`; transactions that stay"
    " PrepareCommit or PrepareAbort; replicas out of sync. Start the next one when all are back."
)


def _verdict_sentence(rehearsal: Rehearsal) -> str:
    return (
        f"{rehearsal.read} of {rehearsal.committed} committed records are read,"
        f" {rehearsal.failed} transactions failed, {rehearsal.hanging} hang,"
        f" the slowest took {rehearsal.slowest_ms} ms."
        + (" It went well here, without your load and your configs." if rehearsal.is_well else "")
    )
