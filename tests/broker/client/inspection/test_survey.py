"""The search of a whole cluster, its judgement, and the words for what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.broker.client.fake_broker import ReceivedRequest
from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster, until_state
from tests.support.hanging_transaction import make_hanging
from tests.support.testing_plays import HANGING, client, write_aborted, write_committed
from tests.support.within_environment import within
from txnsim.cli._txns.search_scope import SearchScope
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.inspection import survey as decision_log
from txnsim.client.inspection.complaints import LISTED_MAX, about_exactly_once, about_hanging
from txnsim.client.inspection.exactly_once import compare
from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS, OpenTransaction
from txnsim.client.inspection.judgement import judge
from txnsim.client.inspection.survey import Survey, read_coordinator_records, survey
from txnsim.client.inspection.topic_reading import Fate
from txnsim.client.inspection.txn_views import (
    AbortSpec,
    ProducerState,
    TransactionDescription,
    parse_description,
    parse_listing,
    parse_producer,
)
from txnsim.client.inspection.txn_wording import (
    describe_failure,
    fence_failure,
    marker_failure,
    message_of,
    producers_failure,
)
from txnsim.client.metadata import ClusterMetadata, TopicMetadata
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.txn.marker_payment import CoordinatorRecord
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition

# The search of a whole cluster, on a simulated one: what hangs, what is on its way, what lives.


GHOSTLY = TopicPartition("orders", 0)
HOUR_MS = 3_600_000


def test_each_verdict_in_one_cluster() -> None:
    async def story(virtual_cluster: VirtualCluster) -> Survey:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            await make_hanging(admin, GHOSTLY, "ghost")
            async with (
                Producer(cluster, transactional_id="living") as living_producer,
                Producer(cluster, transactional_id="decided") as decided_producer,
            ):
                await living_producer.init_transactions()
                living_producer.begin()
                await living_producer.send("orders", 1, b"a")
                await decided_producer.init_transactions()
                decided_producer.begin()
                await decided_producer.send("orders", 2, b"b")
                virtual_cluster.arm(
                    Hold(),
                    FaultPoint.PEER_REQUEST,
                    api="WriteTxnMarkers",
                )
                await decided_producer.commit()
                await until_state(cluster, "decided", "PrepareCommit")
                progress_calls: list[tuple[int, int]] = []
                search = await survey(
                    admin,
                    now_ms=cluster.clock.now_ms() + 1,
                    older_than_ms=0,
                    progress=lambda searched, total: progress_calls.append((searched, total)),
                )
                assert progress_calls[-1] == (search.partitions, search.partitions)
                virtual_cluster.sim.injector.release("f")
                virtual_cluster.sim.injector.disarm("f")
                await living_producer.abort()
                return search

    search = run_cluster(story)
    assert search.unread == {}
    assert search.partitions == 3 + 6  # and those of __transaction_state
    by_partition = {
        judged_transaction.transaction.partition.partition: judged_transaction
        for judged_transaction in search.findings
    }
    assert by_partition[0].verdict is OpenTxnStatus.HANGING
    assert by_partition[1].verdict is OpenTxnStatus.ALIVE
    assert by_partition[2].verdict is OpenTxnStatus.DECIDED
    assert [judged_transaction.transaction.partition for judged_transaction in search.hanging] == [
        GHOSTLY
    ]
    # The oldest write comes first.
    assert search.findings[0].verdict is OpenTxnStatus.HANGING


def test_a_younger_write_is_not_looked_at() -> None:
    async def story(virtual_cluster: VirtualCluster) -> tuple[int, int]:
        async with virtual_cluster.client() as cluster:
            admin = Admin(cluster)
            await make_hanging(admin, GHOSTLY, "ghost", age_ms=HOUR_MS)
            now_ms = cluster.clock.now_ms()
            young_survey = await survey(admin, now_ms=now_ms, older_than_ms=HOUR_MS + 1000)
            old_survey = await survey(admin, now_ms=now_ms, older_than_ms=HOUR_MS - 1000)
            return len(young_survey.findings), len(old_survey.findings)

    assert run_cluster(story) == (0, 1)


class EndingAdmin(Admin):
    """A cluster in which the transaction ends between the first look and the second."""

    looks = 0

    async def describe_producers(
        self, *args: object, **kwargs: object
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | ClientError]:
        self.looks += 1
        producers_by_partition = await super().describe_producers(*args, **kwargs)  # type: ignore[arg-type]
        return (
            producers_by_partition if self.looks == 1 else dict.fromkeys(producers_by_partition, ())
        )


def test_what_ends_while_it_is_judged_does_not_hang() -> None:
    async def story(virtual_cluster: VirtualCluster) -> Survey:
        async with virtual_cluster.client() as cluster:
            await make_hanging(Admin(cluster), GHOSTLY, "ghost")
            return await survey(
                EndingAdmin(cluster), now_ms=cluster.clock.now_ms(), partitions=[GHOSTLY]
            )

    assert run_cluster(story).findings == ()


@within(run_cluster)
async def test_a_topic_that_is_listed_with_an_error_is_not_passed_over(
    virtual_cluster: VirtualCluster,
) -> None:
    async with virtual_cluster.client() as cluster:
        refresh = cluster.refresh

        async def refresh_with_damage(
            topics: Sequence[str] | None = (), **options: Any
        ) -> ClusterMetadata:
            cluster_metadata = await refresh(topics, **options)
            if topics is not None:
                return cluster_metadata
            damaged_topics = (
                TopicMetadata(name="barred", error=ErrorCode.invalid_topic_exception),
                TopicMetadata(name="bare"),
            )
            return msgspec.structs.replace(
                cluster_metadata, topics=(*cluster_metadata.topics, *damaged_topics)
            )

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cluster, "refresh", refresh_with_damage)
            admin = Admin(cluster)
            search = await survey(admin, now_ms=0)
            assert search.partitions > 0
            assert search.unread_topics.keys() == {"barred", "bare"}
            result = await SearchScope().search(admin, now_ms=0)
            assert result.is_incomplete
            with pytest.raises(ClientError, match="Failed to describe it"):
                await admin.find_hanging(now_ms=0)


@within(run_cluster)
async def test_a_refused_list_of_topics_is_no_empty_cluster(
    virtual_cluster: VirtualCluster,
) -> None:
    async with virtual_cluster.client() as cluster:

        async def refused(_topics: Sequence[str] | None = ()) -> ClusterMetadata:
            return ClusterMetadata(error=ErrorCode.rebootstrap_required)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cluster, "refresh", refused)
            with pytest.raises(ClientError, match="Failed to list topics"):
                await survey(Admin(cluster), now_ms=0)


def test_partitions_that_cannot_be_asked_are_named_and_the_others_searched() -> None:
    class DeafAdmin(Admin):
        async def describe_producers(
            self, *args: object, **kwargs: object
        ) -> dict[TopicPartition, tuple[ProducerState, ...] | ClientError]:
            producers_by_partition = await super().describe_producers(*args, **kwargs)  # type: ignore[arg-type]
            return {
                **producers_by_partition,
                TopicPartition("orders", 1): ClientError("nobody leads it"),
            }

    async def story(virtual_cluster: VirtualCluster) -> Survey:
        async with virtual_cluster.client() as cluster:
            await make_hanging(Admin(cluster), GHOSTLY, "ghost")
            return await survey(DeafAdmin(cluster), now_ms=cluster.clock.now_ms())

    search = run_cluster(story)
    ((topic_partition, reason_error),) = search.unread.items()
    assert (topic_partition, str(reason_error)) == (TopicPartition("orders", 1), "nobody leads it")
    assert len(search.hanging) == 1


# The decision of find-hanging, with now as an argument.


P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
NOW_MS = 10_000_000


def producer(producer_id: int = 1, *, last_ms: int = 0, start: int | None = 5) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=0,
        last_sequence=0,
        last_timestamp_ms=last_ms,
        coordinator_epoch=None,
        txn_start_offset=start,
    )


def description(*partitions: TopicPartition, state: str = "Ongoing") -> TransactionDescription:
    return TransactionDescription(
        coordinator_id=1,
        transactional_id="x",
        state=state,
        producer_id=1,
        producer_epoch=3,
        timeout_ms=1,
        start_time_ms=None,
        partitions=partitions,
    )


@pytest.mark.parametrize(
    ("age_ms", "is_candidate"),
    [(MAX_TRANSACTION_TIMEOUT_MS, False), (MAX_TRANSACTION_TIMEOUT_MS + 1, True)],
)
def test_only_older_than_the_limit_counts(age_ms: int, is_candidate: bool) -> None:
    rows_by_partition = {P0: [producer(last_ms=NOW_MS - age_ms)]}
    assert bool(OpenTransaction.candidates(rows_by_partition, now_ms=NOW_MS)) is is_candidate


def test_without_an_open_transaction_nothing_hangs() -> None:
    assert OpenTransaction.candidates({P0: [producer(start=None)]}, now_ms=NOW_MS) == ()


def test_a_transaction_at_offset_0_is_open() -> None:
    assert len(OpenTransaction.candidates({P0: [producer(start=0)]}, now_ms=NOW_MS)) == 1


OPEN_TRANSACTION = OpenTransaction(partition=P0, producer=producer())


@pytest.mark.parametrize(
    ("ids", "descriptions", "is_hanging"),
    [
        ({}, {}, True),
        ({1: "x"}, {"x": None}, True),
        ({1: "x"}, {}, True),
        ({1: "x"}, {"x": description()}, True),
        ({1: "x"}, {"x": description(P1)}, True),
        ({1: "x"}, {"x": description(P0, P1)}, False),
        ({1: "x"}, {"x": description(P0, state="PrepareAbort")}, False),
    ],
    ids=[
        "no id",
        "id forgotten",
        "not described",
        "no partitions",
        "another partition",
        "its partition",
        "marker outstanding",
    ],
)
def test_hanging_is_what_no_coordinator_will_end(
    ids: dict[int, str],
    descriptions: dict[str, TransactionDescription | None],
    is_hanging: bool,
) -> None:
    assert OpenTransaction.hanging((OPEN_TRANSACTION,), ids, descriptions) == (
        (OPEN_TRANSACTION,) if is_hanging else ()
    )


@pytest.mark.parametrize(
    ("elapsed_ms", "minutes"),
    [(59_999, 0), (60_000, 1), (3_659_999, 60), (-59_999, 0), (-60_000, -1)],
)
def test_durations_are_whole_minutes(elapsed_ms: int, minutes: int) -> None:
    open_transaction = OpenTransaction(partition=P0, producer=producer(last_ms=NOW_MS - elapsed_ms))
    assert open_transaction.duration_min(NOW_MS) == minutes


# Sentences of Kafka's Admin, letter by letter.


E = ErrorCode
P = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("error", "message", "expected_text"),
    [
        (6, None, "Failed to describe active producers for partition t-0 on brokerId 3"),
        (
            17,
            None,
            "Failed to fetch metadata for partition t-0 due to invalid topic error: The request"
            " attempted to perform an operation on an invalid topic.",
        ),
        (
            17,
            "bad name",
            "Failed to fetch metadata for partition t-0 due to invalid topic error: bad name",
        ),
        (
            29,
            None,
            "Failed to describe active producers for partition t-0 due to authorization failure"
            " on topic `t`",
        ),
        (56, None, "Failed to describe active producers for partition t-0 due to unexpected error"),
    ],
)
def test_describe_producers(error: int, message: str | None, expected_text: str) -> None:
    assert producers_failure(P, E(error), message, 3) == expected_text


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (105, "because the ID could not be found"),
        (53, "due to authorization failure"),
        (42, "due to unexpected error"),
    ],
)
def test_describe_transactions(error: int, ending: str) -> None:
    expected_text = f"DescribeTransactions request for transactionalId `a` failed {ending}"
    assert describe_failure("a", E(error)) == expected_text


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (31, "cluster authorization failure"),
        (53, "transactional ID authorization failure"),
        (90, "unexpected error"),
    ],
)
def test_fence_producers(error: int, ending: str) -> None:
    expected_text = f"InitProducerId request for transactionalId `a` failed due to {ending}"
    assert fence_failure("a", E(error)) == expected_text


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (31, "due to cluster authorization error"),
        (47, "due an invalid producer epoch"),
        (
            52,
            "since the provided coordinator epoch 4 has been fenced by the active coordinator",
        ),
        (
            -1,
            "due to unexpected error: The server experienced an unexpected error when processing"
            " the request.",
        ),
    ],
)
def test_write_txn_markers(error: int, ending: str) -> None:
    expected_text = f"WriteTxnMarkers request with S failed {ending}"
    assert marker_failure("S", E(error), 4) == expected_text


def test_codes_without_a_sentence_of_ours_are_named() -> None:
    assert message_of(10) == "MESSAGE_TOO_LARGE"


# Open transactions and what becomes of them: one row per case of the comparison.


OPEN = OpenTransaction(
    partition=P0,
    producer=ProducerState(
        producer_id=1,
        producer_epoch=3,
        last_sequence=0,
        last_timestamp_ms=0,
        coordinator_epoch=None,
        txn_start_offset=5,
    ),
)


def coordinator_view(
    state: str, *partitions: TopicPartition, epoch: int = 3, producer_id: int = 1
) -> TransactionDescription:
    return TransactionDescription(
        coordinator_id=2,
        transactional_id="x",
        state=state,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=1000,
        start_time_ms=None,
        partitions=partitions,
    )


@pytest.mark.parametrize(
    ("ids", "description", "status", "reason"),
    [
        ({}, None, OpenTxnStatus.HANGING, "no coordinator knows producer id 1"),
        ({1: "x"}, None, OpenTxnStatus.HANGING, "forgotten transactional id x"),
        (
            {1: "x"},
            coordinator_view("CompleteAbort"),
            OpenTxnStatus.HANGING,
            "CompleteAbort without this",
        ),
        (
            {1: "x"},
            coordinator_view("Ongoing", P1),
            OpenTxnStatus.HANGING,
            "Ongoing without this partition",
        ),
        (
            {1: "x"},
            coordinator_view("PrepareAbort", P1),
            OpenTxnStatus.HANGING,
            "PrepareAbort without this",
        ),
        ({1: "x"}, coordinator_view("Ongoing", P0, epoch=4), OpenTxnStatus.HANGING, "of epoch 3"),
        (
            {1: "x"},
            coordinator_view("Ongoing", P0, producer_id=9),
            OpenTxnStatus.HANGING,
            "producer id 9",
        ),
        (
            {1: "x"},
            coordinator_view("Ongoing", P0, P1),
            OpenTxnStatus.ALIVE,
            "transaction.timeout.ms=1000",
        ),
        (
            {1: "x"},
            coordinator_view("PrepareCommit", P0),
            OpenTxnStatus.DECIDED,
            "PrepareCommit: the outcome",
        ),
        # A transaction that is fenced is ended with the next epoch (transactions v2: each one).
        (
            {1: "x"},
            coordinator_view("PrepareAbort", P0, epoch=4),
            OpenTxnStatus.DECIDED,
            "broker 2",
        ),
        (
            {1: "x"},
            coordinator_view("PrepareEpochFence", P0, epoch=4),
            OpenTxnStatus.DECIDED,
            "broker 2",
        ),
    ],
)
def test_verdicts(
    ids: dict[int, str],
    description: TransactionDescription | None,
    status: OpenTxnStatus,
    reason: str,
) -> None:
    (judged_transaction,) = judge([OPEN], ids, {"x": description})
    assert judged_transaction.verdict is status
    assert reason in judged_transaction.reason
    assert judged_transaction.transaction is OPEN
    assert judged_transaction.transactional_id == ids.get(1)
    assert judged_transaction.state == (description.state if description else None)
    assert judged_transaction.coordinator_id == (2 if description else None)


def test_only_what_hangs_comes_with_a_command() -> None:
    (hanging_transaction,) = judge([OPEN], {}, {})
    assert hanging_transaction.command("txns") == "txns repair --topic t --partition 0 --yes"
    (decided_transaction,) = judge([OPEN], {1: "x"}, {"x": coordinator_view("PrepareCommit", P0)})
    assert decided_transaction.command("txns") is None


@pytest.mark.parametrize(
    ("transaction_state", "expected_state"), [("Ongoing", "Ongoing"), ("Dancing", "Unknown")]
)
def test_states_never_heard_of_are_unknown(transaction_state: str, expected_state: str) -> None:
    state = {"transactional_id": "a", "producer_id": 1, "transaction_state": transaction_state}
    (row,) = ReceivedRequest(66, 2, None).answer(transaction_states=[state]).transaction_states
    listing = parse_listing(3, row)
    assert (listing.coordinator_id, listing.state) == (3, expected_state)


@pytest.mark.parametrize(
    ("start", "expected_start"), [(1_700_000_000_123, 1_700_000_000_123), (None, None)]
)
def test_times_keep_their_milliseconds_and_none_is_none(
    start: int | None, expected_start: int | None
) -> None:
    state = {
        "transactional_id": "a",
        "transaction_state": "Empty",
        "transaction_timeout": 1_234,
        "transaction_start_time": start,
        "producer_id": 1,
        "producer_epoch": 2,
        "topics": [{"topic": "t", "partitions": (0, 2)}],
    }
    (row,) = ReceivedRequest(65, 0, None).answer(transaction_states=[state]).transaction_states
    description = parse_description(1, row)
    assert (description.timeout_ms, description.start_time_ms) == (1_234, expected_start)
    assert description.partitions == (TopicPartition("t", 0), TopicPartition("t", 2))


def test_minus_one_means_none_in_a_producers_state() -> None:
    values = {"producer_id": 1, "producer_epoch": 2, "last_sequence": 3, "last_timestamp": 4}
    states = [
        {**values, "coordinator_epoch": number, "current_txn_start_offset": number}
        for number in (-1, 0)
    ]
    answer = ReceivedRequest(61, 0, None).answer(
        topics=[{"partitions": [{"active_producers": states}]}]
    )
    no_state, state_with_transaction = map(
        parse_producer, answer.topics[0].partitions[0].active_producers
    )
    assert (no_state.coordinator_epoch, no_state.txn_start_offset) == (None, None)
    assert (
        state_with_transaction.coordinator_epoch,
        state_with_transaction.txn_start_offset,
    ) == (0, 0)


def test_an_abort_is_described_as_java_does() -> None:
    spec = AbortSpec(
        partition=TopicPartition("t", 0), producer_id=1, producer_epoch=2, coordinator_epoch=3
    )
    assert str(spec) == (
        "AbortTransactionSpec(topicPartition=t-0, producerId=1, producerEpoch=2,"
        " coordinatorEpoch=3)"
    )


def test_what_was_written_down_of_an_id_is_read_from_the_running_cluster() -> None:
    async def story(virtual_cluster: VirtualCluster) -> tuple[tuple[CoordinatorRecord, ...], ...]:
        async with (
            virtual_cluster.client() as cluster,
            Producer(cluster, transactional_id="shop") as shop_producer,
        ):
            no_records = await read_coordinator_records(cluster, "shop", since_ms=0)
            await shop_producer.init_transactions()
            for end in (shop_producer.commit, shop_producer.abort):
                shop_producer.begin()
                await shop_producer.send("orders", 0, b"x")
                await end()
            now_ms = cluster.clock.now_ms()
            return (
                no_records,
                await read_coordinator_records(cluster, "shop", since_ms=0),
                await read_coordinator_records(cluster, "other", since_ms=0),
                await read_coordinator_records(
                    cluster, "shop", since_ms=now_ms + decision_log.BEFORE_MS
                ),
            )

    no_records, coordinator_records, records_of_other, later_records = run_cluster(story, level=2)
    assert no_records == records_of_other == later_records == ()
    decided_states = [
        coordinator_record.state
        for coordinator_record in coordinator_records
        if coordinator_record.state.startswith("Prepare")
    ]
    assert decided_states == ["PrepareCommit", "PrepareAbort"]
    assert all(
        coordinator_record.is_v2
        for coordinator_record in coordinator_records
        if coordinator_record.state.startswith("Prepare")
    )
    assert TopicPartition("orders", 0) in coordinator_records[1].partitions


def test_a_log_that_is_too_long_tells_nothing() -> None:
    async def story(virtual_cluster: VirtualCluster) -> tuple[CoordinatorRecord, ...]:
        async with (
            virtual_cluster.client() as cluster,
            Producer(cluster, transactional_id="shop") as shop_producer,
        ):
            await shop_producer.init_transactions()
            for _ in range(3):
                shop_producer.begin()
                await shop_producer.send("orders", 0, b"x")
                await shop_producer.commit()
            return await read_coordinator_records(cluster, "shop", since_ms=0)

    most_records, decision_log.RECORDS_MAX = decision_log.RECORDS_MAX, 2  # type: ignore[misc]
    try:
        assert run_cluster(story) == ()
    finally:
        decision_log.RECORDS_MAX = most_records  # type: ignore[misc]


# What a comparison complains of, and in which words.


def test_everything_once_in_any_order_is_exact() -> None:
    assert compare([b"a", b"b", None], [None, b"b", b"a"]).is_exact
    assert compare([], []).is_exact


def test_a_value_that_is_owed_twice_has_to_be_there_twice() -> None:
    assert compare([b"a", b"a"], [b"a", b"a"]).is_exact
    assert dict(compare([b"a", b"a"], [b"a"]).missing) == {b"a": 1}


def test_each_kind_of_complaint() -> None:
    comparison = compare(
        [b"a", b"b", b"c"], [b"a", b"a", b"a", b"x", b"y", b"b"], aborted_values=[b"x", b"a"]
    )
    assert not comparison.is_exact
    assert dict(comparison.missing) == {b"c": 1}
    assert dict(comparison.repeated) == {b"a": 2}
    assert dict(comparison.aborted_but_read) == {b"x": 1}
    assert dict(comparison.unexpected) == {b"y": 1}


def test_an_aborted_value_that_was_not_read_is_no_complaint() -> None:
    assert compare([b"a"], [b"a"], aborted_values=[b"x"]).is_exact


def test_the_words() -> None:
    comparison = compare(
        [b"a", b"b", None],
        [b"a", b"a", b"a", b"x", b"\xff"],
        aborted_values=[b"x"],
        remarks={b"b": "written there in a transaction that is aborted"},
    )
    assert str(comparison).splitlines() == [
        "missing: 2 records",
        "  'b' (written there in a transaction that is aborted)",
        "  null",
        "more than once: 2 records",
        "  'a' × 2",
        "aborted, but read: 1 record",
        "  'x'",
        "from nowhere: 1 record",
        r"  '\\xff'",
    ]


def test_long_values_and_long_lists_are_cut() -> None:
    text = str(compare([b"x" * 1_000, *(b"%d" % n for n in range(20))], []))
    assert "… and 11 more" in text
    assert max(map(len, text.splitlines())) < 100


# Records of a topic with what has become of them.


@within(run_virtual, topics=["orders"])
async def test_each_record_is_committed_aborted_or_open(kafka: AsyncSimulatedKafka) -> None:
    await write_committed(kafka, "orders", "a")
    await write_aborted(kafka, "orders", "b")
    async with client(kafka) as cluster, await begin_transaction(cluster, "x") as producer:
        await producer.send("orders", 0, b"c")
        await write_committed(kafka, "orders", "d")  # behind the one that is open
        fates = {
            record.value: record.fate for record in await kafka.topics.read("orders", settle_ms=100)
        }
        await producer.commit()
    assert fates == {
        b"a": Fate.COMMITTED,
        b"b": Fate.ABORTED,
        b"c": Fate.OPEN,
        b"d": Fate.OPEN,
    }
    assert await kafka.topics.committed("orders") == [b"a", b"c", b"d"]


@within(run_virtual, topics=["orders"])
async def test_markers_that_are_late_are_waited_for(kafka: AsyncSimulatedKafka) -> None:
    await kafka.faults.arm(
        point="peer.request",
        api="WriteTxnMarkers",
        action={"do": "delay", "delay_ms": 700},
    )
    await write_committed(kafka, "orders", "a")
    assert [record.fate for record in await kafka.topics.read("orders", settle_ms=0)] == [Fate.OPEN]
    assert await kafka.topics.committed("orders") == [b"a"]


@within(run_virtual)
async def test_a_topic_that_is_not_there_is_refused(kafka: AsyncSimulatedKafka) -> None:
    with pytest.raises(ClientError, match="'orders' can't be read"):
        await kafka.topics.read("orders")


# Complaints in words: assertions of Python and of the control port fail with them.


def test_what_hangs_is_named_with_its_reason_and_its_end() -> None:
    assert about_hanging((), bootstrap="b:1") is None
    report_text = about_hanging((HANGING,), bootstrap="b:1")
    assert report_text is not None
    assert report_text.splitlines() == [
        "1 transaction hangs:",
        "  orders-1 since offset 3: producer 7, epoch 0: no coordinator knows producer id 7",
        "    It was committed: end it with COMMIT, as so it is",
        "    txnsim txns --bootstrap-server b:1 repair --topic orders --partition 1 --yes",
    ]
    two = about_hanging((HANGING, HANGING), bootstrap="b:1")
    assert two is not None
    assert two.startswith("2 transactions hang:")
    many = about_hanging((HANGING,) * (LISTED_MAX + 3), bootstrap="b:1")
    assert many is not None
    assert many.startswith(f"{LISTED_MAX + 3} transactions hang:")
    assert many.count("since offset") == LISTED_MAX
    assert many.endswith("\n  and 3 more")


async def test_what_has_ended_is_found_in_one_pass_over_a_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each hanging transaction was compared with each producer."""
    hanging = [
        msgspec.structs.replace(
            HANGING,
            transaction=msgspec.structs.replace(
                HANGING.transaction,
                producer=msgspec.structs.replace(HANGING.transaction.producer, producer_id=number),
            ),
        )
        for number in range(200)
    ]
    still_open = [finding.transaction.producer for finding in hanging[1:]]
    looks: list[int] = []
    identity_of = ProducerState.txn_identity.fget
    assert identity_of is not None

    def look(producer: ProducerState) -> object:
        looks.append(producer.producer_id)
        return identity_of(producer)

    monkeypatch.setattr(ProducerState, "txn_identity", property(look))

    class Leaders:
        """The leaders, which still have all but one transaction open."""

        async def describe_producers(self, partitions: Sequence[TopicPartition]) -> Any:
            return {partition: tuple(still_open) for partition in partitions}

    ended = await decision_log._ended_meanwhile(Leaders(), hanging)  # type: ignore[arg-type]
    assert ended == {hanging[0].transaction}
    assert len(looks) == len(still_open) + len(hanging)


@within(run_virtual, topics={"input": 1})
async def test_what_is_missing_tells_where_it_was_written(kafka: AsyncSimulatedKafka) -> None:
    await write_committed(kafka, "input", "a")
    await write_aborted(kafka, "input", "b")
    admin = await kafka.rebuilt.admin()
    assert await about_exactly_once(admin, ["a"], "input", settle_ms=0) is None
    report_text = await about_exactly_once(admin, ["a", "b"], "input", settle_ms=0)
    assert report_text is not None
    assert report_text.splitlines() == [
        "not exactly once, from what was given to input:",
        "missing: 1 record",
        "  'b' (written there in a transaction that is aborted)",
    ]
