"""The coordinator's switches, on and off, that show with a log, timers and markers around it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from tests.support.at_once import load_whole
from tests.support.coordinator import FOO_0, HOME, TID, CoordinatorBench, error_of, identity
from tests.support.txn_entries import NOW_MS, entry
from txnsim.coordinators.txn._transition_effects import RETRY_PAUSE_MS
from txnsim.errors import ErrorCode
from txnsim.interbroker.transactions import AllocateProducerIdsReply
from txnsim.releases import LATEST_RULES, Rules
from txnsim.settings import Settings
from txnsim.txn.commands import VerifyPartitions
from txnsim.txn.list_filter import ListTransactions
from txnsim.txn.log_format import encode_batch
from txnsim.txn.state import TransactionState
from txnsim.txn.transitions import to_kept, to_ongoing
from txnsim.types import (
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerIdAndEpoch,
    TransactionalId,
    TransactionVersion,
)

HOUR_MS: Final = 3_600_000
TV_0: Final = TransactionVersion.TV_0
TV_2: Final = TransactionVersion.TV_2
PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT


# ``service``: what each switch of a release changes


async def bench_awaiting_markers(rules: Rules) -> CoordinatorBench:
    """A bench with an ended transaction whose markers have no answer."""
    coordinator_bench = CoordinatorBench(rules=rules)
    coordinator_bench.answers_markers = False
    producer_identity = await coordinator_bench.ready()
    await coordinator_bench.add(producer_identity, FOO_0)
    await coordinator_bench.end(producer_identity)
    await coordinator_bench.settle()
    return coordinator_bench


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        (LATEST_RULES, ErrorCode.coordinator_load_in_progress),
        (Rules(never_waits_for_ids=False), ErrorCode.none),
    ],
)
async def test_the_first_producer_id_after_a_start(rules: Rules, error: ErrorCode) -> None:
    coordinator_bench = CoordinatorBench(rules=rules)
    assert error_of(await coordinator_bench.init()) is error


async def test_who_waits_for_a_block_in_vain_is_told_to_come_again() -> None:
    coordinator_bench = CoordinatorBench(rules=Rules(never_waits_for_ids=False))
    coordinator_bench.id_replies.append(
        AllocateProducerIdsReply(error=ErrorCode.stale_broker_epoch)
    )
    assert error_of(await coordinator_bench.init()) is ErrorCode.coordinator_load_in_progress
    # Within the pause after the failure nobody asks, so nobody waits.
    assert error_of(await coordinator_bench.init()) is ErrorCode.coordinator_load_in_progress
    coordinator_bench.clock.pass_ms(50)
    assert isinstance(await coordinator_bench.init(), ProducerIdAndEpoch)
    assert coordinator_bench.id_requests == 2


async def test_a_clock_set_back_between_two_transactions() -> None:
    for rules, error in (
        (LATEST_RULES, ErrorCode.none),
        (Rules(start_may_step_back=False), ErrorCode.unknown_server_error),
    ):
        coordinator_bench = CoordinatorBench(rules=rules)
        producer_identity = await coordinator_bench.ready()
        coordinator_bench.clock.advance(1_000)
        await coordinator_bench.add(producer_identity, FOO_0)
        identity_2 = await coordinator_bench.end(producer_identity)
        assert isinstance(identity_2, ProducerIdAndEpoch)
        await coordinator_bench.settle()
        coordinator_bench.clock.advance(-10)
        assert error_of(await coordinator_bench.add(identity_2, FOO_0)) is error
        expected_error = (
            ErrorCode.none if error is ErrorCode.none else ErrorCode.concurrent_transactions
        )
        assert error_of(await coordinator_bench.add(identity_2, FOO_0)) is expected_error, (
            "locked for good"
        )


@pytest.mark.parametrize("committed", [True, False])
async def test_an_end_from_a_future_epoch_is_logged_and_goes_no_further(committed: bool) -> None:
    """A real 2.5.1 answers INVALID_PRODUCER_EPOCH, then CONCURRENT_TRANSACTIONS, and sends no
    marker.
    """
    coordinator_bench = CoordinatorBench(rules=Rules(end_needs_exact_epoch=False))
    own_identity = await coordinator_bench.ready()
    await coordinator_bench.add(own_identity, FOO_0)
    future_identity = identity(own_identity.producer_id, own_identity.producer_epoch + 1)
    answer = await coordinator_bench.end(future_identity, committed=committed, version=TV_0)
    assert error_of(answer) is ErrorCode.invalid_producer_epoch
    await coordinator_bench.settle()
    prepared_state = "PrepareCommit" if committed else "PrepareAbort"
    assert (coordinator_bench.entry().state.wire_name, coordinator_bench.sent) == (
        prepared_state,
        [],
    )
    for late_answer in (
        await coordinator_bench.end(future_identity, committed=committed, version=TV_0),
        await coordinator_bench.end(own_identity, committed=committed, version=TV_0),
        await coordinator_bench.add(own_identity, FOO_0, version=TV_0),
        await coordinator_bench.init(),
    ):
        assert error_of(late_answer) is ErrorCode.concurrent_transactions
    assert coordinator_bench.sent == []
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    await coordinator_bench.settle()
    assert coordinator_bench.entry().state.wire_name == prepared_state.replace(
        "Prepare", "Complete"
    )


@pytest.mark.parametrize("is_kept", [True, False])
async def test_the_next_identity_of_a_kept_transaction_is_loaded_or_not(*, is_kept: bool) -> None:
    """The log also has an open transaction that is not kept (KIP-939)."""
    plain_transition = to_ongoing(
        entry(), partitions=frozenset({FOO_0}), client_version=TV_2, now_ms=NOW_MS
    )
    kept_transition = to_kept(
        entry(TransactionState.ONGOING), next_identity=identity(8, 0), now_ms=NOW_MS
    )
    log = [
        encode_batch(
            (msgspec.structs.replace(record, transactional_id=TransactionalId(name)),),
            finalized_version=TV_2,
            now_ms=NOW_MS,
            release_rules=LATEST_RULES,
        )
        for name, record in (("plain", plain_transition), ("kept", kept_transition))
    ]
    coordinator_bench = CoordinatorBench(
        is_loaded=False, rules=Rules(prepared_transactions_are_kept=is_kept)
    )
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), log)
    assert {
        loaded_metadata.transactional_id: loaded_metadata.next_producer_epoch
        for loaded_metadata in coordinator_bench.service.entries()
    } == {"plain": -1, "kept": 0 if is_kept else -1}


async def test_an_id_whose_first_record_was_lost_expires() -> None:
    settings = Settings(
        transactional_id_expiration_ms=HOUR_MS,
        transaction_remove_expired_cleanup_interval_ms=HOUR_MS,
    )
    for rules, is_forgotten in ((LATEST_RULES, True), (Rules(unnumbered_ids_expire=False), False)):
        coordinator_bench = CoordinatorBench(settings=settings, rules=rules)
        await coordinator_bench.init()
        coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
        assert error_of(await coordinator_bench.init()) is ErrorCode.coordinator_not_available
        assert coordinator_bench.entry().producer_epoch == -1
        coordinator_bench.clock.advance(2 * HOUR_MS)
        await coordinator_bench.settle()
        assert (coordinator_bench.entry_or_none() is None) is is_forgotten


async def test_a_late_answer_to_a_marker_of_an_older_coordinator_epoch() -> None:
    for rules, state in (
        (LATEST_RULES, "CompleteCommit"),
        (Rules(stale_answers_spare_newer_debt=False), "PrepareCommit"),
    ):
        coordinator_bench = await bench_awaiting_markers(rules)
        (first_markers,) = coordinator_bench.sent
        # The partition is lost and comes back to the same broker under a newer epoch.
        load_whole(
            coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME]
        )
        first_markers.reply()
        await coordinator_bench.settle()
        coordinator_bench.sent[1].reply()
        await coordinator_bench.settle()
        assert coordinator_bench.entry().state.wire_name == state
        assert not coordinator_bench.entry().partitions


NO_RETRY: Final = Rules(storage_errors_are_retried=False)


@pytest.mark.parametrize(
    ("rules", "error", "sent_count"),
    [
        (LATEST_RULES, ErrorCode.kafka_storage_error, 2),
        (NO_RETRY, ErrorCode.kafka_storage_error, 1),
        (NO_RETRY, ErrorCode.not_leader_or_follower, 2),
    ],
)
async def test_a_leader_whose_disk_failed(rules: Rules, error: ErrorCode, sent_count: int) -> None:
    coordinator_bench = await bench_awaiting_markers(rules)
    coordinator_bench.sent[0].reply(error)
    await coordinator_bench.settle()
    coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
    await coordinator_bench.settle()
    assert len(coordinator_bench.sent) == sent_count
    assert coordinator_bench.entry().state is PREPARE_COMMIT


# A coordinator whose broker has lost its partition and has not unloaded it (KAFKA-21181)


CHECKED: Final = Rules(coordinator_checks_leadership=True)
ENDED: Final = Rules(empty_commits_are_ended=True)


async def bench_with_commit(rules: Rules) -> tuple[CoordinatorBench, ProducerIdAndEpoch]:
    """Commit a transaction; return the bench and the identity for the next transaction."""
    bench = CoordinatorBench(rules=rules)
    first_identity = await bench.ready()
    await bench.add(first_identity, FOO_0)
    next_identity = await bench.end(first_identity)
    await bench.settle()
    assert isinstance(next_identity, ProducerIdAndEpoch)
    return bench, next_identity


@pytest.mark.parametrize(("rules", "checks_leadership"), [(LATEST_RULES, False), (CHECKED, True)])
async def test_a_coordinator_that_lost_its_partition_answers_from_memory_or_not_at_all(
    rules: Rules, checks_leadership: bool
) -> None:
    bench, own_identity = await bench_with_commit(rules)
    bench.lost.add((HOME, CoordinatorEpoch(0)))
    verify = VerifyPartitions(
        transactional_id=TID,
        producer_id=own_identity.producer_id,
        producer_epoch=own_identity.producer_epoch,
        partitions=(FOO_0,),
    )
    errors = {
        "commit": error_of(await bench.end(own_identity)),
        "verify": error_of(bench.service.verify(verify)),
        "describe": error_of(bench.service.describe(TID)),
    }
    if checks_leadership:
        assert set(errors.values()) == {ErrorCode.not_coordinator}
        assert error_of(await bench.init()) is ErrorCode.not_coordinator
        assert error_of(await bench.add(own_identity, FOO_0)) is ErrorCode.not_coordinator
        bench.service.begin_load(HOME, CoordinatorEpoch(1))
        assert error_of(await bench.end(own_identity)) is ErrorCode.coordinator_load_in_progress
    else:
        assert errors == {
            "commit": ErrorCode.invalid_txn_state,
            "verify": ErrorCode.none,
            "describe": ErrorCode.none,
        }


async def test_leading_again_under_another_epoch_is_not_enough() -> None:
    bench, own_identity = await bench_with_commit(CHECKED)
    bench.lost.add((HOME, CoordinatorEpoch(7)))
    assert error_of(await bench.end(own_identity)) is ErrorCode.invalid_txn_state, (
        "it leads under epoch 0"
    )


@pytest.mark.parametrize("rules", [LATEST_RULES, Rules(lost_partitions_are_not_listed=True)])
async def test_ids_of_a_lost_partition_are_listed_or_not(rules: Rules) -> None:
    bench, _ = await bench_with_commit(rules)

    def listed() -> list[str]:
        listing = bench.service.list_transactions(ListTransactions())
        assert not isinstance(listing, ErrorCode)
        return [row.transactional_id for row in _rows(listing)]

    assert listed() == [TID]
    bench.lost.add((HOME, CoordinatorEpoch(0)))
    assert listed() == ([] if rules.lost_partitions_are_not_listed else [TID])


def _rows(listing: Any) -> list[Any]:
    return [txn for txn in listing.txns if listing.has(txn)]


@pytest.mark.parametrize("repeat_count", [1, 2])
async def test_a_commit_of_nothing_is_ended_with_the_next_epoch(repeat_count: int) -> None:
    bench, own_identity = await bench_with_commit(ENDED)
    record_count = len(bench.log[HOME])
    for _ in range(repeat_count):
        end_answer = await bench.end(own_identity)
        await bench.settle()
        assert end_answer == ProducerIdAndEpoch(
            producer_id=own_identity.producer_id,
            producer_epoch=ProducerEpoch(own_identity.producer_epoch + 1),
        ), "repeated with the old epoch, it is the same end"
    assert len(bench.log[HOME]) - record_count == 2, "prepared and completed"
    txn_metadata = bench.entry()
    assert (txn_metadata.state, txn_metadata.pending_state) == (
        TransactionState.COMPLETE_COMMIT,
        None,
    )
    assert not bench.sent[1:], "there is no marker to send"


async def test_a_new_producer_may_commit_nothing() -> None:
    bench = CoordinatorBench(rules=ENDED)
    own_identity = await bench.ready()
    assert isinstance(await bench.end(own_identity), ProducerIdAndEpoch)
    v1_bench = CoordinatorBench(rules=ENDED)
    own_identity = await v1_bench.ready()
    answer = await v1_bench.end(own_identity, version=TransactionVersion.TV_0)
    assert error_of(answer) is ErrorCode.invalid_txn_state, "the old protocol is left as it is"


async def test_a_stale_coordinator_can_not_end_nothing() -> None:
    bench, own_identity = await bench_with_commit(ENDED)
    bench.append_errors.append(ErrorCode.not_leader_or_follower)
    assert error_of(await bench.end(own_identity)) is ErrorCode.not_coordinator
