"""Repairs on a simulated cluster, who is asked for them, and readers that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from tests.support.clusters import (
    VirtualCluster,
    begin_transaction,
    run_cluster,
    until_state,
    values,
)
from tests.support.hanging_transaction import VERIFICATION, make_hanging
from tests.support.waiting import leaderless
from tests.support.within_environment import within
from txnsim.client import requests
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError, NotSupportedError, RetriableError
from txnsim.client.inspection._partition_markers import fetch_markers
from txnsim.client.inspection.coordinators_asked import (
    UNUSED_ID,
    CoordinatorsKnowledge,
    check_sight,
)
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.repair import Outcome, Repair, not_known, repair
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.client.inspection.txn_views import AbortSpec, OpenSince, ProducerState
from txnsim.client.inspection.waiting_readers import Explanation, explain
from txnsim.client.offsets import LATEST_TIMESTAMP
from txnsim.client.producer import Producer
from txnsim.client.versions import ClientApi, VersionedRequest, VersionRange
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Delay, Fail, Hold
from txnsim.faults.points import FaultPoint
from txnsim.txn.marker_payment import BEFORE_ALL_MARKERS_MS, NO_MARKERS
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.past_decision import PastDecision
from txnsim.types import BrokerId, TopicPartition
from txnsim.verdict.reader_standing import Cause
from txnsim.wire.batch import Record, build_batch
from txnsim.wire.plain_values import message_from

# Repairs on a simulated cluster: what hangs is ended, what does not is left alone.


ORDERS_0 = TopicPartition("orders", 0)
SOLO = TopicPartition("solo", 0)
"""Its only replica is on one broker."""
HOME, AWAY = BrokerId(1), BrokerId(2)


async def found_hanging(admin: Admin) -> JudgedTransaction:
    await make_hanging(admin, ORDERS_0, "ghost")
    (judged_transaction,) = (await survey(admin, now_ms=admin.cluster.clock.now_ms())).hanging
    return judged_transaction


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_a_hanging_transaction_is_ended_and_readers_go_on(transaction_version: int) -> None:
    async def story(
        virtual_cluster: VirtualCluster,
    ) -> tuple[Repair, Repair, Repair, list[bytes | None]]:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            judged_transaction = await found_hanging(admin)
            async with Producer(cluster) as bystanding_producer:
                await bystanding_producer.send("orders", 0, b"withheld")
            assert await values(cluster, "orders") == []
            now_ms = cluster.clock.now_ms()
            dry_repair = await repair(admin, judged_transaction, now_ms=now_ms, dry_run=True)
            assert await values(cluster, "orders") == []
            report = await repair(admin, judged_transaction, now_ms=now_ms)
            second_repair = await repair(admin, judged_transaction, now_ms=now_ms)
            return dry_repair, report, second_repair, await values(cluster, "orders")

    dry_repair, report, second_repair, read = run_cluster(story, level=transaction_version)
    assert dry_repair.outcome is Outcome.WOULD_REPAIR
    assert dry_repair.last_stable_offset_after is None
    assert report.outcome is Outcome.REPAIRED
    # The ghost's record, the bystander's, the marker.
    assert (report.last_stable_offset_before, report.last_stable_offset_after) == (0, 3)
    assert report.high_watermark_after == 3
    assert second_repair.outcome is Outcome.NO_LONGER_HANGS
    assert second_repair.reason == "it has ended"
    assert read == [b"withheld"]


class InterveningAdmin(Admin):
    """An admin client whose abort can be refused or lost, as the test sets it."""

    refusal: ClientError | None = None
    is_lost = False

    async def abort_transaction(
        self, which: AbortSpec | OpenSince, *, timeout_ms: float | None = None
    ) -> None:
        if self.refusal is not None:
            raise self.refusal
        if not self.is_lost:
            await super().abort_transaction(which, timeout_ms=timeout_ms)


def test_a_refused_marker_is_reported_and_nothing_claimed() -> None:
    async def story(virtual_cluster: VirtualCluster) -> Repair:
        async with virtual_cluster.client() as cluster:
            admin = InterveningAdmin(cluster)
            judged_transaction = await found_hanging(admin)
            admin.refusal = ClientError("fenced by a newer coordinator")
            return await repair(admin, judged_transaction, now_ms=0)

    report = run_cluster(story)
    assert report.outcome is Outcome.REFUSED
    assert report.reason == "fenced by a newer coordinator"


def test_a_marker_that_changes_nothing_is_not_called_a_repair() -> None:
    async def story(virtual_cluster: VirtualCluster) -> Repair:
        async with virtual_cluster.client() as cluster:
            admin = InterveningAdmin(cluster)
            judged_transaction = await found_hanging(admin)
            admin.is_lost = True
            return await repair(admin, judged_transaction, now_ms=0)

    report = run_cluster(story)
    assert report.outcome is Outcome.STILL_OPEN
    assert report.last_stable_offset_after == report.last_stable_offset_before == 0


@pytest.mark.parametrize(
    ("committed", "outcome"),
    [(False, Outcome.ENDED_TWICE), (True, Outcome.ENDED_OTHERWISE)],
)
def test_who_repairs_beside_somebody_else_says_so(committed: bool, outcome: Outcome) -> None:
    """The leader accepts the markers of both repairs; the first marker decides the outcome."""

    class OvertakenAdmin(Admin):
        async def abort_transaction(
            self, which: AbortSpec | OpenSince, *, timeout_ms: float | None = None
        ) -> None:
            assert isinstance(which, AbortSpec)
            await self.end(which.marker(committed=committed))
            await super().abort_transaction(which, timeout_ms=timeout_ms)

    async def story(virtual_cluster: VirtualCluster) -> Repair:
        async with virtual_cluster.client() as cluster:
            admin = OvertakenAdmin(cluster)
            return await repair(admin, await found_hanging(admin), now_ms=0)

    report = run_cluster(story, level=0)
    first_marker = "COMMIT" if committed else "ABORT"
    assert (report.outcome, report.marker) == (outcome, "ABORT")
    assert report.reason.endswith(
        f"at offsets 1, 2, and the first one, {first_marker}, has ended it"
    )


def test_a_transaction_that_lives_is_never_aborted_whatever_it_was_found_to_be() -> None:
    async def story(virtual_cluster: VirtualCluster) -> tuple[Repair, list[bytes | None]]:
        async with (
            virtual_cluster.client() as cluster,
            Producer(cluster, transactional_id="living") as living_producer,
        ):
            admin = Admin(cluster)
            await living_producer.init_transactions()
            living_producer.begin()
            await living_producer.send("orders", 0, b"mine")
            search = await survey(
                admin, now_ms=cluster.clock.now_ms() + 1, partitions=[ORDERS_0], older_than_ms=0
            )
            report = await repair(admin, search.findings[0], now_ms=0)
            await living_producer.commit()
            return report, await values(cluster, "orders")

    report, read = run_cluster(story)
    assert report.outcome is Outcome.NO_LONGER_HANGS
    assert "Ongoing" in report.reason
    assert read == [b"mine"]


def test_what_cannot_be_looked_at_is_not_touched() -> None:
    class DeafAdmin(InterveningAdmin):
        async def describe_producers(self, *args: object, **kwargs: object) -> object:  # type: ignore[override]
            return {ORDERS_0: ClientError("nobody leads it")}

    async def story(virtual_cluster: VirtualCluster) -> None:
        async with virtual_cluster.client() as cluster:
            judged_transaction = await found_hanging(Admin(cluster))
            with pytest.raises(ClientError, match="nobody leads it") as error_info:
                await repair(DeafAdmin(cluster), judged_transaction, now_ms=0)
            report = not_known(judged_transaction, error_info.value, now_ms=7)
            assert (report.partition, report.outcome, report.at_ms) == (
                ORDERS_0,
                Outcome.NOT_KNOWN,
                7,
            )
            assert "nobody leads it" in report.reason

    run_cluster(story)


# The marker that was decided


async def leave_hanging(
    virtual_cluster: VirtualCluster, admin: Admin, *, later_count: int
) -> JudgedTransaction:
    """KAFKA-20734: committed while the partition had no leader; ``later`` transactions follow."""
    virtual_cluster.sim.metadata.create_topic(
        TopicToCreate(name=SOLO.topic, assignments=((0, (AWAY,)),))
    )
    await admin.cluster.coordinator("shop")
    if virtual_cluster.leader(virtual_cluster.home("shop")) != HOME:
        virtual_cluster.sim.move_leader(virtual_cluster.home("shop"), HOME)
    async with await begin_transaction(admin.cluster, "shop") as shop_producer:
        await shop_producer.send(SOLO.topic, 0, b"paid")
        await virtual_cluster.sim.kill_broker(AWAY)
        await leaderless(virtual_cluster, SOLO)
        await shop_producer.commit()
        await virtual_cluster.sim.start_broker(AWAY)
        for _ in range(later_count):
            shop_producer.begin()
            await shop_producer.send("orders", 0, b"next")
            await shop_producer.commit()
    await admin.wait_for_topic(SOLO.topic)
    now_ms = admin.cluster.clock.now_ms() + 1
    (judged_transaction,) = (
        await survey(admin, now_ms=now_ms, partitions=[SOLO], older_than_ms=0)
    ).hanging
    return judged_transaction


@pytest.mark.parametrize(("transaction_version", "later_count"), [(0, 0), (0, 2), (2, 0), (2, 2)])
def test_what_was_committed_is_ended_with_commit_and_nothing_is_lost(
    transaction_version: int, later_count: int
) -> None:
    """The coordinator's log has the decision even after later transactions."""

    async def story(virtual_cluster: VirtualCluster) -> tuple[Repair, list[bytes | None]]:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            judged_transaction = await leave_hanging(
                virtual_cluster, admin, later_count=later_count
            )
            assert judged_transaction.decided is not None
            assert judged_transaction.decided.decision is PastDecision.COMMITTED
            report = await repair(admin, judged_transaction, now_ms=0, guess=PastDecision.ABORTED)
            return report, await values(cluster, SOLO.topic, partitions=1)

    report, read = run_cluster(story, level=transaction_version)
    assert (report.outcome, report.marker) == (Outcome.REPAIRED, "COMMIT"), (
        "a guess never overrules"
    )
    assert report.records == 1
    assert read == [b"paid"]


async def write_behind_the_marker(admin: Admin, shop_producer: Producer) -> None:
    """Write one more transactional batch of a producer whose transaction has ended."""
    producer_identity = shop_producer.identity
    batch = build_batch(
        [Record(value=b"stray")],
        timestamp_ms=admin.cluster.clock.now_ms(),
        producer_id=producer_identity.producer_id,
        producer_epoch=producer_identity.producer_epoch,
        base_sequence=1,
        is_transactional=True,
    )
    request = requests.produce(
        {ORDERS_0: batch},
        id_by_topic={},
        transactional_id="shop",
        accepted_versions=VersionRange(11, 11),
    )
    leader = await admin.cluster.leader(ORDERS_0)
    answer = await admin.cluster.ask(leader.leader_id, request)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_the_markers_in_front_of_an_offset_are_fetched() -> None:
    """With what each says, and since when none is missing: from offset 0, or from a time."""

    async def story(virtual_cluster: VirtualCluster) -> None:
        async with (
            virtual_cluster.client() as cluster,
            await begin_transaction(cluster, "shop") as shop_producer,
        ):
            await shop_producer.send(ORDERS_0.topic, ORDERS_0.partition, b"first")
            await shop_producer.abort()
            await asyncio.sleep(60)
            between_ms = cluster.clock.now_ms()
            shop_producer.begin()
            await shop_producer.send(ORDERS_0.topic, ORDERS_0.partition, b"second")
            await shop_producer.commit()
            end = await Admin(cluster).offset_of(ORDERS_0, LATEST_TIMESTAMP)
            producer_id = shop_producer.identity.producer_id
            all_markers = await fetch_markers(
                cluster, ORDERS_0, producer_id, before_offset=end, since_ms=0
            )
            assert [(marker.offset, marker.is_commit) for marker in all_markers.markers] == [
                (1, False),
                (3, True),
            ]
            assert (
                all_markers.markers[0].timestamp_ms
                < between_ms
                < all_markers.markers[1].timestamp_ms
            )
            assert all_markers.complete_since_ms == BEFORE_ALL_MARKERS_MS
            late_markers = await fetch_markers(
                cluster, ORDERS_0, producer_id, before_offset=end, since_ms=between_ms
            )
            assert (late_markers.markers, late_markers.complete_since_ms) == (
                all_markers.markers[1:],
                between_ms,
            )
            markers_before = await fetch_markers(
                cluster, ORDERS_0, producer_id, before_offset=2, since_ms=0
            )
            assert markers_before.markers == all_markers.markers[:1]
            markers_of_other = await fetch_markers(
                cluster, ORDERS_0, producer_id + 1, before_offset=end, since_ms=0
            )
            assert markers_of_other.markers == ()
            await Admin(cluster).delete_records(ORDERS_0, 2)
            cut_markers = await fetch_markers(
                cluster, ORDERS_0, producer_id, before_offset=end, since_ms=0
            )
            assert cut_markers.complete_since_ms == all_markers.markers[1].timestamp_ms
            missing_partition = TopicPartition("gone", 0)
            found_markers = await fetch_markers(
                cluster, missing_partition, producer_id, before_offset=1, since_ms=0
            )
            assert found_markers == NO_MARKERS

    run_cluster(story, level=0)


@pytest.mark.parametrize("other_transaction_count", [0, 2])
@pytest.mark.parametrize("late_ms", [10, 7_200_000])
def test_what_was_written_behind_its_marker_is_never_published(
    other_transaction_count: int, late_ms: int
) -> None:
    """The old flow, where an epoch has many transactions: the last decision with the partition has
    its marker there. COMMIT was advised, and would have been written, by that decision."""

    async def story(virtual_cluster: VirtualCluster) -> tuple[Repair, list[bytes | None]]:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            await admin.set_broker_default(VERIFICATION, "false")
            await asyncio.sleep(1)  # until every broker has heard of it
            async with await begin_transaction(cluster, "shop") as shop_producer:
                await shop_producer.send(ORDERS_0.topic, ORDERS_0.partition, b"paid")
                await shop_producer.commit()
                for _ in range(other_transaction_count):
                    shop_producer.begin()
                    await shop_producer.send("orders", 1, b"next")
                    await shop_producer.commit()
                await asyncio.sleep(late_ms / 1000)
                await write_behind_the_marker(admin, shop_producer)
            now_ms = cluster.clock.now_ms() + 1
            (judged_transaction,) = (await survey(admin, now_ms=now_ms, older_than_ms=0)).hanging
            assert "was in no transaction" in str(judged_transaction.decided)
            report = await repair(admin, judged_transaction, now_ms=0, guess=PastDecision.COMMITTED)
            return report, await values(cluster, "orders", partitions=2)

    report, read = run_cluster(story, level=0)
    assert (report.outcome, report.marker) == (Outcome.REPAIRED, "ABORT")
    assert b"stray" not in read


@pytest.mark.parametrize(
    ("guessed_decision", "read"), [(PastDecision.ABORTED, []), (PastDecision.COMMITTED, [b"paid"])]
)
def test_who_does_not_know_has_to_guess_aloud(
    guessed_decision: PastDecision, read: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object, **__: object) -> tuple[()]:
        return ()  # the log may not be read, or has been compacted

    monkeypatch.setattr("txnsim.client.inspection.survey.read_coordinator_records", nothing)

    async def story(virtual_cluster: VirtualCluster) -> tuple[Repair, Repair, list[bytes | None]]:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            judged_transaction = await leave_hanging(virtual_cluster, admin, later_count=2)
            first_repair = await repair(admin, judged_transaction, now_ms=0)
            assert await values(cluster, SOLO.topic, partitions=1) == []
            second_repair = await repair(
                admin, judged_transaction, now_ms=0, guess=guessed_decision
            )
            return first_repair, second_repair, await values(cluster, SOLO.topic, partitions=1)

    first_repair, second_repair, values_read = run_cluster(story)
    assert (first_repair.outcome, first_repair.decision) == (
        Outcome.NEEDS_A_GUESS,
        PastDecision.UNKNOWN,
    )
    assert "has gone on" in first_repair.reason
    assert second_repair.outcome is Outcome.REPAIRED
    assert values_read == read


# Why readers stand still: each cause made on a simulated cluster.


async def explain_where(admin: Admin) -> Explanation:
    return await explain(admin, ORDERS_0, now_ms=admin.cluster.clock.now_ms())


def test_nothing_is_withheld() -> None:
    async def story(virtual_cluster: VirtualCluster) -> Explanation:
        async with virtual_cluster.client() as cluster, Producer(cluster) as producer:
            await producer.send("orders", 0, b"x")
            return await explain_where(Admin(cluster))

    explanation = run_cluster(story)
    assert explanation.cause is Cause.NOTHING
    assert (explanation.last_stable_offset, explanation.high_watermark) == (1, 1)
    assert "No transaction holds readers back" in explanation.sentences[0]


def test_a_hanging_one_is_named_with_its_cure() -> None:
    async def story(virtual_cluster: VirtualCluster) -> Explanation:
        async with virtual_cluster.client() as cluster, Producer(cluster) as producer:
            admin = Admin(cluster)
            await producer.send("orders", 0, b"x")
            await make_hanging(admin, ORDERS_0, "ghost")
            await producer.send("orders", 0, b"y")
            return await explain_where(admin)

    explanation = run_cluster(story)
    assert explanation.cause is Cause.HANGING
    assert (
        explanation.log_start_offset,
        explanation.last_stable_offset,
        explanation.high_watermark,
    ) == (0, 1, 3)
    where_readers_stop, holder_sentence, advice = explanation.sentences
    assert "stop at offset 1" in where_readers_stop
    assert "so they do not get the last 2 offsets" in where_readers_stop
    assert "its newest record is stamped 1 h ago" in holder_sentence
    assert advice.endswith("txnsim txns repair --topic orders --partition 0 --yes")


def test_open_and_decided_transactions_differ() -> None:
    async def story(virtual_cluster: VirtualCluster) -> tuple[Explanation, Explanation]:
        async with (
            virtual_cluster.client() as cluster,
            Producer(cluster, transactional_id="first") as first_producer,
            Producer(cluster, transactional_id="second") as second_producer,
        ):
            admin = Admin(cluster)
            for producer in (first_producer, second_producer):
                await producer.init_transactions()
                producer.begin()
                await producer.send("orders", 0, b"x")
            alive_explanation = await explain_where(admin)
            virtual_cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
            await first_producer.commit()
            await until_state(cluster, "first", "PrepareCommit")
            decided_explanation = await explain_where(admin)
            virtual_cluster.sim.injector.release("f")
            virtual_cluster.sim.injector.disarm("f")
            await second_producer.abort()
            return alive_explanation, decided_explanation

    alive_explanation, decided_explanation = run_cluster(story)
    assert alive_explanation.cause is Cause.ALIVE
    assert "forceTerminateTransaction --transactionalId first" in alive_explanation.sentences[2]
    assert alive_explanation.sentences[3] == "Transactions that are open behind it: 1."
    assert decided_explanation.cause is Cause.DECIDED
    assert "does not hang" in decided_explanation.sentences[2]


def test_a_marker_that_is_not_replicated_is_no_transaction() -> None:
    async def story(virtual_cluster: VirtualCluster) -> Explanation:
        async with (
            virtual_cluster.client() as cluster,
            Producer(cluster, transactional_id="tx") as producer,
        ):
            admin = Admin(cluster)
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"x")
            # Followers ask no more, and have been in sync until now.
            virtual_cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="Fetch")
            await producer.abort()
            explanation = await explain_where(admin)
            virtual_cluster.sim.injector.release("f")
            virtual_cluster.sim.injector.disarm("f")
            return explanation

    explanation = run_cluster(
        story,
        default_replication_factor=3,
        transaction_state_log_replication_factor=1,
        transaction_state_log_min_isr=1,
    )
    assert explanation.cause is Cause.UNREPLICATED
    assert "matter of replication" in explanation.sentences[1]


def test_without_a_leader_no_broker_is_asked() -> None:
    leaderless_partition = TopicPartition("alone", 0)

    async def story(virtual_cluster: VirtualCluster) -> Explanation:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            # The brokers' default is one replica.
            await admin.create_topic(leaderless_partition.topic, partitions=1)
            await virtual_cluster.sim.kill_broker(virtual_cluster.leader(leaderless_partition))
            for _ in range(60):
                await asyncio.sleep(1)
                if virtual_cluster.leader(leaderless_partition) < 0:
                    break
            return await explain(admin, leaderless_partition, now_ms=0)

    explanation = run_cluster(story)
    assert explanation.cause is Cause.OFFLINE
    assert "no leader" in explanation.sentences[0]


@pytest.mark.parametrize("stamp_ms", [0, 2**31 - 1, 2**53, 2**63 - 1])
@within(run_cluster, message_timestamp_after_max_ms=2**63 - 1)
async def test_an_open_transaction_is_seen_whatever_its_record_is_stamped(
    virtual_cluster: VirtualCluster, stamp_ms: int
) -> None:
    async with virtual_cluster.client() as cluster:
        producer = await begin_transaction(cluster, "stamped")
        await producer.send(ORDERS_0.topic, ORDERS_0.partition, b"x", timestamp_ms=stamp_ms)
        explanation = await explain_where(Admin(cluster))
        assert explanation.cause is Cause.ALIVE
        (judged_transaction,) = explanation.findings
        assert judged_transaction.transaction.producer.last_timestamp_ms == stamp_ms
        search = await survey(Admin(cluster), now_ms=cluster.clock.now_ms(), older_than_ms=ANY_AGE)
        assert [open_txn.transaction.partition for open_txn in search.findings] == [ORDERS_0]
        await producer.abort()


@within(run_cluster)
async def test_a_partition_that_does_not_exist_is_an_error(virtual_cluster: VirtualCluster) -> None:
    async with virtual_cluster.client() as cluster:
        with pytest.raises(ClientError, match="no partition orders-9"):
            await explain(Admin(cluster), TopicPartition("orders", 9), now_ms=0)


class OlderAdmin(Admin):
    """An admin client of brokers before Kafka 2.8, which have no DescribeProducers."""

    async def describe_producers(
        self, partitions: Collection[TopicPartition], **_: object
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | ClientError]:
        return dict.fromkeys(partitions, NotSupportedError("The node does not support it"))


def test_where_no_broker_describes_transactions_the_log_is_read() -> None:
    async def story(virtual_cluster: VirtualCluster) -> tuple[Explanation, Explanation, int]:
        async with virtual_cluster.client() as cluster, Producer(cluster) as producer:
            admin = OlderAdmin(cluster)
            await producer.send("orders", 0, b"x")
            healthy_explanation = await explain_where(admin)
            producer_identity = await make_hanging(admin, ORDERS_0, "ghost")
            return healthy_explanation, await explain_where(admin), producer_identity.producer_id

    healthy_explanation, stuck_explanation, ghost = run_cluster(story)
    assert healthy_explanation.cause is Cause.NOTHING
    assert stuck_explanation.cause is Cause.UNTOLD
    assert (
        stuck_explanation.log_start_offset,
        stuck_explanation.last_stable_offset,
        stuck_explanation.high_watermark,
    ) == (0, 1, 2)
    withheld_sentence, holder_sentence, untold, advice = stuck_explanation.sentences
    assert "stop at offset 1" in withheld_sentence
    assert f"producer id {ghost}, epoch 0" in holder_sentence
    assert "Kafka 3.0 is needed" in untold
    assert f"--producer-id {ghost} --producer-epoch 0 --coordinator-epoch 0" in advice


def test_a_log_without_an_answer_names_no_transaction() -> None:
    async def story(virtual_cluster: VirtualCluster) -> Explanation:
        async with virtual_cluster.client() as cluster, Producer(cluster) as producer:
            admin = OlderAdmin(cluster)
            await make_hanging(admin, ORDERS_0, "ghost")
            await producer.send("orders", 0, b"y")
            # Deleted up to another producer's record, which lies where readers stop.
            await delete_records(admin, ORDERS_0, 1)
            return await explain_where(admin)

    stuck_explanation = run_cluster(story)
    assert stuck_explanation.cause is Cause.UNTOLD
    assert stuck_explanation.last_stable_offset == 1
    assert len(stuck_explanation.sentences) == 3
    assert "does not tell whose" in stuck_explanation.sentences[1]


async def delete_records(admin: Admin, topic_partition: TopicPartition, before_offset: int) -> None:
    partition = {"partition_index": topic_partition.partition, "offset": before_offset}
    topic = {"name": topic_partition.topic, "partitions": [partition]}
    request = VersionedRequest(
        api=ClientApi.DELETE_RECORDS,
        build=lambda schema: message_from(
            schema.DeleteRecordsRequest, {"topics": [topic], "timeout": 1_000}
        ),
    )
    leader = await admin.cluster.leader(topic_partition)
    await admin.cluster.ask(leader.leader_id, request)


# Before a search says that a transaction hangs, it needs the right to see every transactional id,
# and the answer of every coordinator.


GHOSTLY = TopicPartition("orders", 0)
REFUSED = Fail(error="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
"""As an authorizer would, of every id that is asked for."""


def blind(virtual_cluster: VirtualCluster) -> None:
    """Refuse every DescribeTransactions from now on."""
    virtual_cluster.arm(REFUSED, FaultPoint.CLIENT_REQUEST, api="DescribeTransactions")


@within(run_cluster)
async def test_the_right_to_describe_an_unused_name_is_the_right_to_describe_all(
    virtual_cluster: VirtualCluster,
) -> None:
    async with virtual_cluster.client() as cluster:
        await check_sight(cluster)
        description_by_id = await Admin(cluster).describe_transactions([UNUSED_ID])
        assert isinstance(description_by_id[UNUSED_ID], ClientError), "and it stays nobody's"


@within(run_cluster)
async def test_a_missing_right_is_reported(virtual_cluster: VirtualCluster) -> None:
    async with virtual_cluster.client() as cluster:
        blind(virtual_cluster)
        with pytest.raises(ClientError, match="may not describe every") as error_info:
            await check_sight(cluster)
        assert error_info.value.error is ErrorCode.transactional_id_authorization_failed


@within(run_cluster)
async def test_a_search_that_seems_to_find_something_is_refused_then(
    virtual_cluster: VirtualCluster,
) -> None:
    async with virtual_cluster.client() as cluster:
        admin = Admin(cluster)
        await make_hanging(admin, GHOSTLY, "ghost")
        now_ms = cluster.clock.now_ms()
        assert (await survey(admin, now_ms=now_ms, partitions=[GHOSTLY])).hanging
        assert await admin.find_hanging(now_ms=now_ms, topic="orders")
        virtual_cluster.arm(REFUSED, FaultPoint.CLIENT_REQUEST, api="DescribeTransactions", limit=3)
        for search_coroutine in (
            survey(admin, now_ms=now_ms, partitions=[GHOSTLY]),
            admin.find_hanging(now_ms=now_ms, topic="orders"),
        ):
            with pytest.raises(ClientError) as error_info:
                await search_coroutine
            assert error_info.value.error is ErrorCode.transactional_id_authorization_failed


@within(run_cluster)
async def test_a_search_that_finds_nothing_needs_no_sight(virtual_cluster: VirtualCluster) -> None:
    async with (
        virtual_cluster.client() as cluster,
        await begin_transaction(cluster, "tx") as producer,
    ):
        await producer.send("orders", 1, b"v")
        await producer.commit()
        blind(virtual_cluster)
        admin = Admin(cluster)
        search = await survey(admin, now_ms=cluster.clock.now_ms(), older_than_ms=0)
        assert search.findings == ()
        assert await admin.find_hanging(now_ms=cluster.clock.now_ms(), topic="orders") == ()


HOUR_MS = 3_600_000


@pytest.mark.parametrize("late_ms", [300, 2_500])
def test_a_coordinator_that_has_just_moved_is_waited_for(late_ms: int) -> None:
    """The broker does not know of the move yet; it leaves the id out and reports no error."""

    async def story(virtual_cluster: VirtualCluster) -> None:
        async with (
            virtual_cluster.client() as cluster,
            await begin_transaction(cluster, "tx") as producer,
        ):
            await producer.send("orders", 0, b"v")
            home_partition = virtual_cluster.home("tx")
            image = virtual_cluster.sim.metadata.image.partition(home_partition)
            assert image is not None
            heir_id = next(replica for replica in image.isr if replica != image.leader)
            virtual_cluster.arm(Delay(delay_ms=late_ms), FaultPoint.METADATA_APPLY, broker=heir_id)
            virtual_cluster.sim.move_leader(home_partition, heir_id)
            await asyncio.sleep(late_ms / 2_000)
            now_ms = cluster.clock.now_ms() + HOUR_MS
            admin = Admin(cluster)
            assert await admin.known_to_coordinators({producer.identity.producer_id}) == ({}, {})
            assert await admin.find_hanging(now_ms=now_ms, topic="orders") == ()
            virtual_cluster.sim.move_leader(home_partition, image.leader)
            search = await survey(admin, now_ms=now_ms, partitions=[GHOSTLY])
            assert [judged_transaction.verdict for judged_transaction in search.findings] == [
                OpenTxnStatus.ALIVE
            ]
            await producer.commit()

    run_cluster(story)


@within(run_cluster)
async def test_coordinators_that_move_all_the_time_are_no_ground_for_a_verdict(
    virtual_cluster: VirtualCluster,
) -> None:
    class RestlessAdmin(Admin):
        """A client at whose every question the coordinator moves."""

        async def known_to_coordinators(self, producer_ids: set[int]) -> CoordinatorsKnowledge:
            virtual_cluster.move(virtual_cluster.home("ghost"))
            return await super().known_to_coordinators(producer_ids)

    async with (
        virtual_cluster.client() as cluster,
        virtual_cluster.client(api_timeout_ms=500) as impatient_cluster,
    ):
        await make_hanging(Admin(cluster), GHOSTLY, "ghost")
        now_ms = cluster.clock.now_ms()
        with pytest.raises(RetriableError, match="coordinators move all the time"):
            await RestlessAdmin(impatient_cluster).find_hanging(now_ms=now_ms, topic="orders")


@within(run_cluster)
async def test_a_coordinator_that_does_not_serve_in_time_is_no_ground_for_a_verdict(
    virtual_cluster: VirtualCluster,
) -> None:
    async with (
        virtual_cluster.client() as cluster,
        virtual_cluster.client(api_timeout_ms=500) as impatient_cluster,
    ):
        await make_hanging(Admin(cluster), GHOSTLY, "ghost")
        fail_action = Fail(error="COORDINATOR_LOAD_IN_PROGRESS")
        virtual_cluster.arm(fail_action, FaultPoint.CLIENT_REQUEST, api="DescribeTransactions")
        with pytest.raises(ClientError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await Admin(impatient_cluster).find_hanging(
                now_ms=cluster.clock.now_ms(), topic="orders"
            )
