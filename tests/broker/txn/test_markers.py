"""The queue of markers: who is owed what, and what an answer means."""

from __future__ import annotations

import pytest

from tests.support.coordinator import marker_reply
from tests.support.txn_entries import FOO_0, FOO_1, NOW_MS, entry
from txnsim.errors import ErrorCode, InvariantViolation
from txnsim.interbroker.transactions import WriteTxnMarkersReply
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.txn.markers import (
    Debt,
    MarkerBatch,
    MarkerQueue,
    MarkerSending,
    NoLeader,
    debt_of,
    marker_outcome,
)
from txnsim.txn.state import TransactionState
from txnsim.txn.transitions import to_complete
from txnsim.types import BrokerId, CoordinatorEpoch, TopicPartition, TransactionVersion

B1, B2 = BrokerId(1), BrokerId(2)
BAR_0 = TopicPartition("bar", 0)
ALL = frozenset({FOO_0, FOO_1, BAR_0})
LEADERS: dict[TopicPartition, BrokerId | NoLeader] = {FOO_0: B1, FOO_1: B2, BAR_0: B1}


def debt(*, txn_partition: int = 10, epoch: int = 3, producer_id: int = 7) -> Debt:
    txn = entry(TransactionState.PREPARE_COMMIT, producer_id=producer_id)
    return debt_of(
        txn,
        to_complete(txn, now_ms=NOW_MS),
        txn_partition=txn_partition,
        coordinator_epoch=CoordinatorEpoch(epoch),
    )


def owe_and_route(
    queue: MarkerQueue,
    owed_debt: Debt,
    partitions: frozenset[TopicPartition] = ALL,
    leader_by_partition: dict[TopicPartition, BrokerId | NoLeader] = LEADERS,
) -> frozenset[TopicPartition]:
    """Add a debt and route it; return the partitions that no longer exist."""
    queue.add_debt(owed_debt, partitions)
    unroutable: frozenset[TopicPartition] = frozenset()
    for marker_debt, waiting_partitions in queue.take_waiting():
        unroutable |= queue.route(marker_debt, waiting_partitions, leader_by_partition.__getitem__)
    return unroutable


def markers_by_broker(batches: list[MarkerBatch]) -> dict[int, list[str]]:
    return {
        batch.broker_id: [
            " ".join(str(partition) for partition in marker.partitions)
            for marker in batch.command.markers
        ]
        for batch in batches
    }


# Routing and sending


@pytest.mark.parametrize(
    ("state", "committed"),
    [(TransactionState.PREPARE_COMMIT, True), (TransactionState.PREPARE_ABORT, False)],
)
def test_markers_carry_the_identity_the_end_was_prepared_with(
    state: TransactionState, *, committed: bool
) -> None:
    txn = entry(state, epoch=32_767, next_producer_id=1000)
    owed_debt = debt_of(
        txn,
        to_complete(txn, now_ms=NOW_MS),
        txn_partition=10,
        coordinator_epoch=CoordinatorEpoch(3),
    )
    queue = MarkerQueue(release_rules=LATEST_RULES)
    owe_and_route(queue, owed_debt, frozenset({FOO_0}))
    (batch,) = queue.take_batches()
    (marker,) = batch.command.markers
    assert (marker.producer_id, marker.producer_epoch) == (7, 32_767)
    assert (marker.committed, marker.coordinator_epoch) == (committed, 3)
    assert marker.transaction_version == TransactionVersion.TV_2


@pytest.mark.parametrize(
    ("version", "next_producer_id", "is_fencing", "rule"),
    [
        (0, -1, False, "sent.epoch-v1"),
        (0, -1, True, "sent.epoch-fence"),
        (2, -1, False, "sent.epoch-v2"),
        (2, 1000, False, "sent.epoch-overflow"),
    ],
)
def test_a_debt_names_the_rule_of_its_epoch(
    version: int, next_producer_id: int, rule: str, *, is_fencing: bool
) -> None:
    txn = entry(
        TransactionState.PREPARE_ABORT,
        next_producer_id=next_producer_id,
        client_version=TransactionVersion(version),
    )
    owed_debt = debt_of(
        txn,
        to_complete(txn, now_ms=NOW_MS),
        txn_partition=10,
        coordinator_epoch=CoordinatorEpoch(3),
        fences=is_fencing,
    )
    assert owed_debt.epoch_rule == rule


@pytest.mark.parametrize(
    ("error", "rule"),
    [
        (ErrorCode.invalid_producer_epoch, "result.epoch-fenced"),
        (ErrorCode.transaction_coordinator_fenced, "result.coordinator-fenced"),
    ],
)
def test_a_refusal_names_its_rule(error: ErrorCode, rule: str) -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    owe_and_route(queue, debt())
    outcome = marker_outcome(
        queue.take_batches()[0].owed_markers[0], {FOO_0: error}, release_rules=LATEST_RULES
    )
    assert outcome is not None
    assert outcome.refusal_rule == rule


def test_markers_are_grouped_by_leader_in_a_fixed_order() -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    assert owe_and_route(queue, debt()) == frozenset()
    assert queue.has_markers_to_send
    assert markers_by_broker(queue.take_batches()) == {1: ["bar-0 foo-0"], 2: ["foo-1"]}


def test_at_most_one_request_is_under_way_to_each_broker() -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    owe_and_route(queue, debt(producer_id=7))
    first_batches = queue.take_batches()
    owe_and_route(queue, debt(producer_id=8), frozenset({FOO_0}))
    owe_and_route(queue, debt(producer_id=9), frozenset({FOO_0}))
    assert queue.take_batches() == []
    queue.on_reply(first_batches[0], marker_reply(first_batches[0].command))
    assert queue.has_markers_to_send
    assert markers_by_broker(queue.take_batches()) == {1: ["foo-0", "foo-0"]}


def test_partitions_that_are_gone_are_reported_and_not_sent() -> None:
    leader_by_partition = {**LEADERS, FOO_0: NoLeader.NO_SUCH_PARTITION}
    queue = MarkerQueue(release_rules=LATEST_RULES)
    assert owe_and_route(queue, debt(), leader_by_partition=leader_by_partition) == {FOO_0}
    assert markers_by_broker(queue.take_batches()) == {1: ["bar-0"], 2: ["foo-1"]}


def test_partitions_without_a_known_leader_are_looked_at_again() -> None:
    leader_by_partition = {**LEADERS, FOO_0: NoLeader.UNKNOWN}
    queue = MarkerQueue(release_rules=LATEST_RULES)
    owed_debt = debt()
    assert owe_and_route(queue, owed_debt, frozenset({FOO_0}), leader_by_partition) == frozenset()
    assert (queue.leader_unknown_count, queue.take_batches()) == (1, [])
    assert queue.take_waiting() == [(owed_debt, frozenset({FOO_0}))]
    assert queue.leader_unknown_count == 0


# Answers

ALL_ERRORS = dict.fromkeys(ErrorCode, "broken")
ALL_ERRORS.update(
    {ErrorCode(code): "done" for code in (0, 43, 35)}
    | {ErrorCode(code): "retry" for code in (3, 6, 19, 20, 7, 56)}
    | {ErrorCode(code): "refused" for code in (47, 52)}
)


@pytest.mark.parametrize(("error", "meaning"), ALL_ERRORS.items())
def test_every_error_has_its_meaning(error: ErrorCode, meaning: str) -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    owe_and_route(queue, debt(), frozenset({FOO_0}))
    (batch,) = queue.take_batches()
    outcome = marker_outcome(batch.owed_markers[0], {FOO_0: error}, release_rules=LATEST_RULES)
    if outcome is None:
        assert meaning == "broken"
        return
    assert (outcome.written_partitions == {FOO_0}) is (meaning == "done")
    assert (outcome.partitions_to_retry == {FOO_0}) is (meaning == "retry")
    assert outcome.refusal_error == (error if meaning == "refused" else 0)


def test_partitions_of_one_marker_are_judged_one_by_one() -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    owe_and_route(queue, debt(), leader_by_partition=dict.fromkeys(ALL, B1))
    (batch,) = queue.take_batches()
    error_by_partition = {BAR_0: ErrorCode.none, FOO_0: ErrorCode.not_leader_or_follower}
    outcome = marker_outcome(batch.owed_markers[0], error_by_partition, release_rules=LATEST_RULES)
    assert outcome is not None
    # foo-1 is left out of the answer: it stays owed
    assert (outcome.written_partitions, outcome.partitions_to_retry) == (
        frozenset({BAR_0}),
        frozenset({FOO_0}),
    )


@pytest.mark.parametrize("is_asked_again", [True, False])
def test_a_leader_whose_disk_has_failed_is_asked_again_or_not(*, is_asked_again: bool) -> None:
    rules = Rules(storage_errors_are_retried=is_asked_again)
    queue = MarkerQueue(release_rules=rules)
    owe_and_route(queue, debt(), frozenset({FOO_0}))
    (batch,) = queue.take_batches()
    retried_by_error = {
        error: outcome is not None and outcome.partitions_to_retry == {FOO_0}
        for error in (ErrorCode.kafka_storage_error, ErrorCode.not_leader_or_follower)
        for outcome in [marker_outcome(batch.owed_markers[0], {FOO_0: error}, release_rules=rules)]
    }
    assert retried_by_error == {
        ErrorCode.kafka_storage_error: is_asked_again,
        ErrorCode.not_leader_or_follower: True,
    }


def test_a_missing_producer_id_ends_the_reading_of_an_answer() -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    for producer_id in (7, 8, 9):
        owe_and_route(queue, debt(producer_id=producer_id), frozenset({FOO_0}))
    (batch,) = queue.take_batches()
    whole_reply = marker_reply(batch.command)
    cut_reply = WriteTxnMarkersReply(results=(whole_reply.results[0], whole_reply.results[2]))
    assert [outcome.debt.producer_id for outcome in queue.on_reply(batch, cut_reply)] == [7]
    assert [outcome.debt.producer_id for outcome in queue.outcomes(batch, cut_reply)] == [7]


def test_an_error_that_no_leader_gives_ends_the_reading_too() -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    for producer_id in (7, 8):
        owe_and_route(queue, debt(producer_id=producer_id), frozenset({FOO_0}))
    (batch,) = queue.take_batches()
    reply = marker_reply(batch.command, ErrorCode.corrupt_message)
    assert queue.on_reply(batch, reply) == []
    assert [*queue.outcomes(batch, reply)] == []
    whole_reply = marker_reply(batch.command)
    assert [outcome.debt.producer_id for outcome in queue.outcomes(batch, whole_reply)] == [7, 8]


def test_a_lost_request_is_to_be_repeated_as_a_whole() -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    owe_and_route(queue, debt())
    first_batch, _ = queue.take_batches()
    (outcome,) = queue.on_lost(first_batch)
    assert (outcome.written_partitions, outcome.partitions_to_retry, outcome.refusal_error) == (
        frozenset(),
        frozenset({BAR_0, FOO_0}),
        0,
    )


def test_an_answer_without_a_request_is_a_breach() -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    owe_and_route(queue, debt(), frozenset({FOO_0}))
    (batch,) = queue.take_batches()
    queue.on_lost(batch)
    with pytest.raises(InvariantViolation, match="to no request"):
        queue.on_lost(batch)


# Debts


def test_an_older_debt_never_deletes_a_newer_one() -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    older_debt, newer_debt = debt(epoch=3), debt(epoch=4)
    queue.add_debt(older_debt, ALL)
    queue.add_debt(newer_debt, ALL)
    assert not queue.forget_debt(older_debt)
    assert queue.forget_debt(newer_debt)
    assert not queue.forget_debt(newer_debt)
    assert queue.debt_count == 0


@pytest.mark.parametrize("spares_newer_debt", [True, False])
def test_an_answer_to_an_older_coordinator_spares_the_newer_debt_or_not(
    *, spares_newer_debt: bool
) -> None:
    queue = MarkerQueue(release_rules=Rules(stale_answers_spare_newer_debt=spares_newer_debt))
    queue.add_debt(debt(epoch=4), ALL)
    queue.on_stale_reply(debt(epoch=3))
    assert queue.debt_count == spares_newer_debt


def test_dropping_a_partition_drops_only_its_markers() -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    leader_by_partition = {**LEADERS, FOO_1: NoLeader.UNKNOWN}
    own_debt = debt(txn_partition=10)
    owe_and_route(queue, own_debt, leader_by_partition=leader_by_partition)
    queue.route_later(own_debt, frozenset({FOO_1}))
    other_txn = entry(TransactionState.PREPARE_ABORT, producer_id=9)
    other_debt = debt_of(
        other_txn,
        to_complete(other_txn, now_ms=NOW_MS),
        txn_partition=11,
        coordinator_epoch=CoordinatorEpoch(0),
    )
    queue.route(other_debt, frozenset({FOO_0}), LEADERS.__getitem__)
    queue.route_later(other_debt, frozenset({FOO_1}))
    assert queue.drop_partition(10) == (own_debt,)
    assert not queue.forget_debt(own_debt)
    assert queue.leader_unknown_count == 0
    assert queue.take_waiting() == [(other_debt, frozenset({FOO_1}))]
    assert markers_by_broker(queue.take_batches()) == {1: ["foo-0"]}
    assert queue.drop_partition(10) == ()


def test_dropping_leaves_no_empty_queue_behind() -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    owe_and_route(queue, debt(), frozenset({FOO_0}))
    queue.drop_partition(10)
    assert (queue.has_markers_to_send, queue.take_batches()) == (False, [])


def test_what_is_in_no_queue_is_not_sent_again() -> None:
    queue = MarkerQueue(release_rules=LATEST_RULES)
    owed_debt, other_debt = debt(), debt_of_other()
    assert queue.sendings() == {}
    queue.add_debt(owed_debt, ALL)
    queue.route_later(other_debt, ALL)
    sending_under_way = MarkerSending.UNDER_WAY
    assert queue.sendings()[owed_debt.transactional_id] == dict.fromkeys(
        ALL, (sending_under_way, None)
    )
    for marker_debt, waiting_partitions in queue.take_waiting():
        queue.route(
            marker_debt, waiting_partitions, {**LEADERS, BAR_0: NoLeader.UNKNOWN}.__getitem__
        )
    queue.take_batches()
    assert queue.sendings()[owed_debt.transactional_id] == {
        FOO_0: (sending_under_way, B1),
        FOO_1: (sending_under_way, B2),
        BAR_0: (MarkerSending.LEADERLESS, None),
    }
    (batch, _) = list(queue._batch_in_flight_by_broker.values())
    queue.on_reply(batch, WriteTxnMarkersReply(results=()))  # Kafka 2.4: neither done nor repeated
    assert FOO_0 not in queue.sendings()[owed_debt.transactional_id]


def debt_of_other() -> Debt:
    """A debt of an earlier entry of the same id, whose markers don't count any more."""
    return debt(epoch=2)
