"""The coordinator over plain lists: what clients are told, and when.

The traces are those of Kafka 4.3; state, epoch and reply of each step are pinned.
"""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from tests.support.at_once import load_whole, read_whole
from tests.support.coordinator import (
    BROKER,
    FOO_0,
    FOO_1,
    HOME,
    PARTITIONS,
    START_MS,
    TID,
    CoordinatorBench,
    ManualClock,
    error_of,
    identity,
    prepared_transactions,
)
from tests.support.txn_entries import entry
from txnsim.coordinators.txn.service import ProducerIdSource
from txnsim.errors import ErrorCode, PeerDisconnectedError, Rejection
from txnsim.interbroker.transactions import AllocateProducerIdsReply
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.runtime.tasks import LoopTasks
from txnsim.settings import Settings
from txnsim.txn.commands import (
    AddPartitions,
    DescribedTxn,
    EndTxn,
    InitProducerId,
    PartitionsVerified,
    VerifyPartitions,
)
from txnsim.txn.list_filter import FilteredListing, ListTransactions
from txnsim.txn.log_format import encode_batch
from txnsim.txn.log_reader import read_log
from txnsim.txn.state import TransactionState, TxnMetadata
from txnsim.txn.transitions import apply, to_first, to_ongoing
from txnsim.types import (
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    ProducerIdAndEpoch,
    TransactionalId,
    TransactionVersion,
)

TV_0, TV_1, TV_2 = TransactionVersion
CONCURRENT = ErrorCode.concurrent_transactions
FENCED = ErrorCode.producer_fenced
INVALID_STATE = ErrorCode.invalid_txn_state


async def ongoing() -> tuple[CoordinatorBench, ProducerIdAndEpoch]:
    """A coordinator with an open transaction of one partition, and the identity of its producer."""
    coordinator_bench = CoordinatorBench()
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0)
    return coordinator_bench, session


def shape(txn: TxnMetadata) -> str:
    return f"{txn.state.wire_name} {txn.producer_id}:{txn.producer_epoch}"


def replayed_entries(
    coordinator_bench: CoordinatorBench, partition: int = HOME
) -> dict[TransactionalId, TxnMetadata]:
    return read_log(coordinator_bench.log.get(partition, ()), release_rules=LATEST_RULES).entries


def records(coordinator_bench: CoordinatorBench) -> list[str]:
    """The records in the log of the id's partition, one line each."""
    return [
        shape(next(iter(read_log([batch], release_rules=LATEST_RULES).entries.values())))
        for batch in coordinator_bench.log[HOME]
    ]


async def expire(coordinator_bench: CoordinatorBench, ms: int = 80_000) -> None:
    coordinator_bench.clock.advance(ms)
    await coordinator_bench.settle()


async def at_epoch(
    coordinator_bench: CoordinatorBench, epoch: int, *, producer_id: int = 7
) -> ProducerIdAndEpoch:
    """Start over with an entry that is Empty at ``epoch``; ids come from a block at 1000."""
    loaded_metadata = apply(
        None,
        to_first(TID, producer_id=ProducerId(producer_id), timeout_ms=60_000, now_ms=START_MS),
        release_rules=LATEST_RULES,
    )
    assert loaded_metadata is not None
    fields = {
        field_name: getattr(loaded_metadata, field_name)
        for field_name in loaded_metadata.__struct_fields__
    }
    txn = TxnMetadata(**{**fields, "producer_epoch": ProducerEpoch(epoch)})
    owned_partition = coordinator_bench.service._ownership.find(TID)
    assert not isinstance(owned_partition, Rejection)
    owned_partition.entries[TID] = txn
    return identity(producer_id, epoch)


async def ids_from(coordinator_bench: CoordinatorBench, first_id: int) -> None:
    """Let the coordinator take producer ids from ``first_id`` on."""
    coordinator_bench._next_block = first_id
    idempotent_init = InitProducerId(transactional_id=None, timeout_ms=0)
    assert error_of(await coordinator_bench.service.init_producer_id(idempotent_init)) == 14


# Worked traces


async def test_a_day_in_the_life_of_a_transactional_id() -> None:
    coordinator_bench = CoordinatorBench()
    await ids_from(coordinator_bench, 7)
    coordinator_bench.answers_markers = False
    session = await coordinator_bench.init()  # 1
    assert session == identity(7, 0)
    assert error_of(await coordinator_bench.add(identity(7, 0), FOO_0)) == 0  # 2
    assert await coordinator_bench.end(identity(7, 0)) == identity(7, 1)  # 3
    assert error_of(await coordinator_bench.end(identity(7, 0))) is CONCURRENT  # 4
    await coordinator_bench.settle()
    (marker,) = coordinator_bench.sent[0].command.markers
    assert (marker.producer_id, marker.producer_epoch, marker.committed) == (7, 1, True)
    coordinator_bench.sent[0].reply()  # 5
    await coordinator_bench.settle()
    assert shape(coordinator_bench.entry()) == "CompleteCommit 7:1"
    assert await coordinator_bench.end(identity(7, 0)) == identity(7, 1)  # 6
    assert (
        error_of(await coordinator_bench.end(identity(7, 0), committed=False)) is INVALID_STATE
    )  # 7
    assert await coordinator_bench.end(identity(7, 1), committed=False) == identity(7, 2)  # 8
    await coordinator_bench.settle()
    assert shape(coordinator_bench.entry()) == "CompleteAbort 7:2"
    assert error_of(await coordinator_bench.end(identity(7, 2))) is INVALID_STATE  # 9
    assert error_of(await coordinator_bench.add(identity(7, 2), FOO_0)) == 0  # 10
    await expire(coordinator_bench)
    coordinator_bench.sent[1].reply()
    await coordinator_bench.settle()
    assert shape(coordinator_bench.entry()) == "CompleteAbort 7:3"
    assert error_of(await coordinator_bench.add(identity(7, 2), FOO_0)) is FENCED  # 11
    assert await coordinator_bench.end(identity(7, 2), committed=False) == identity(7, 3)  # 12
    assert error_of(await coordinator_bench.add(identity(7, 3), FOO_0)) == 0  # 13
    assert error_of(await coordinator_bench.init()) is CONCURRENT
    await coordinator_bench.settle()
    assert error_of(await coordinator_bench.init()) is CONCURRENT  # 14
    coordinator_bench.sent[2].reply()
    await coordinator_bench.settle()
    assert await coordinator_bench.init() == identity(7, 5)
    assert error_of(await coordinator_bench.end(identity(7, 3))) is FENCED  # 15
    assert records(coordinator_bench) == [
        "Empty 7:0",
        "Ongoing 7:0",
        "PrepareCommit 7:1",
        "CompleteCommit 7:1",
        "PrepareAbort 7:2",
        "CompleteAbort 7:2",
        "Ongoing 7:2",
        "PrepareAbort 7:3",
        "CompleteAbort 7:3",
        "Ongoing 7:3",
        "PrepareAbort 7:4",
        "CompleteAbort 7:4",
        "Empty 7:5",
    ]


async def test_the_epoch_overflows_into_the_next_producer_id() -> None:
    coordinator_bench = CoordinatorBench()
    coordinator_bench.answers_markers = False
    old_identity = await at_epoch(coordinator_bench, 32_766)
    await ids_from(coordinator_bench, 1000)
    await coordinator_bench.add(old_identity, FOO_0)
    assert await coordinator_bench.end(old_identity) == identity(1000, 0)
    await coordinator_bench.settle()
    assert coordinator_bench.entry().next_producer_id == 1000
    assert error_of(await coordinator_bench.add(identity(1000, 0), FOO_0)) is CONCURRENT
    assert error_of(await coordinator_bench.end(identity(1000, 0))) is CONCURRENT
    (marker,) = coordinator_bench.sent[0].command.markers
    assert (marker.producer_id, marker.producer_epoch) == (7, 32_767)
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    assert shape(coordinator_bench.entry()) == "CompleteCommit 1000:0"
    assert coordinator_bench.entry().prev_producer_id == 7
    assert await coordinator_bench.end(old_identity) == identity(1000, 0)
    assert error_of(await coordinator_bench.end(old_identity, committed=False)) is INVALID_STATE
    assert error_of(await coordinator_bench.add(identity(1000, 0), FOO_0)) == 0


async def test_an_overflow_survives_a_coordinator_that_moves() -> None:
    """The next producer id is in the record, since KAFKA-20310."""
    coordinator_bench = CoordinatorBench()
    coordinator_bench.answers_markers = False
    old_identity = await at_epoch(coordinator_bench, 32_766)
    await ids_from(coordinator_bench, 1000)
    await coordinator_bench.add(old_identity, FOO_0)
    await coordinator_bench.end(old_identity)
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    coordinator_bench.answers_markers = True
    await coordinator_bench.settle()
    assert shape(coordinator_bench.entry()) == "CompleteCommit 1000:0"
    assert await coordinator_bench.end(old_identity) == identity(1000, 0)


async def test_without_a_producer_id_an_overflow_is_to_be_tried_again() -> None:
    coordinator_bench = CoordinatorBench()
    old_identity = await at_epoch(coordinator_bench, 32_766)
    await coordinator_bench.add(old_identity, FOO_0)
    assert (
        error_of(await coordinator_bench.end(old_identity))
        is ErrorCode.coordinator_load_in_progress
    )
    assert coordinator_bench.entry().pending_state is None
    assert await coordinator_bench.end(old_identity) == identity(0, 0)


@pytest.mark.parametrize("transaction_version", [TV_0, TV_1, TV_2])
async def test_a_fence_is_followed_by_the_next_session(
    transaction_version: TransactionVersion,
) -> None:
    coordinator_bench = CoordinatorBench(transaction_version=transaction_version)
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0, version=TV_0)
    assert error_of(await coordinator_bench.init()) is CONCURRENT
    await coordinator_bench.settle()
    assert shape(coordinator_bench.entry()) == "CompleteAbort 0:1"
    assert await coordinator_bench.init() == identity(0, 2)


async def test_a_stale_expected_epoch_aborts_the_newer_session_all_the_same() -> None:
    coordinator_bench = CoordinatorBench()
    await coordinator_bench.ready()
    await coordinator_bench.init()
    await coordinator_bench.add(identity(0, 1), FOO_0)
    assert error_of(await coordinator_bench.init(expected_identity=identity(0, 0))) is CONCURRENT
    await coordinator_bench.settle()
    assert error_of(await coordinator_bench.init(expected_identity=identity(0, 0))) is FENCED


async def test_a_lost_answer_of_init_producer_id_can_be_asked_for_again() -> None:
    coordinator_bench = CoordinatorBench()
    session = await coordinator_bench.ready()
    assert await coordinator_bench.init(expected_identity=session) == identity(0, 1)
    assert await coordinator_bench.init(expected_identity=session) == identity(0, 1)
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    # the last epoch is never logged
    assert error_of(await coordinator_bench.init(expected_identity=session)) is FENCED


async def test_version_1_retries_succeed_without_a_record() -> None:
    coordinator_bench = CoordinatorBench(transaction_version=TV_1)
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0, version=TV_0)
    assert await coordinator_bench.end(session, version=TV_1) == session
    assert error_of(await coordinator_bench.end(session, version=TV_1)) is CONCURRENT
    await coordinator_bench.settle()
    length_before = len(coordinator_bench.log[HOME])
    assert await coordinator_bench.end(session, version=TV_1) == session
    assert (
        error_of(await coordinator_bench.end(session, version=TV_1, committed=False))
        is INVALID_STATE
    )
    assert len(coordinator_bench.log[HOME]) == length_before
    assert error_of(await coordinator_bench.end(session, version=TV_2)) is INVALID_STATE


async def test_adding_what_is_there_writes_nothing() -> None:
    coordinator_bench, session = await ongoing()
    length_before = len(coordinator_bench.log[HOME])
    assert error_of(await coordinator_bench.add(session, FOO_0)) == 0
    assert len(coordinator_bench.log[HOME]) == length_before


async def test_a_transaction_without_partitions_completes_by_itself() -> None:
    coordinator_bench = CoordinatorBench()
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session)
    await coordinator_bench.end(session)
    await coordinator_bench.settle()
    assert (shape(coordinator_bench.entry()), coordinator_bench.sent) == ("CompleteCommit 0:1", [])


# Lookup, validation


async def test_validation_comes_before_ownership_and_ownership_before_the_rest() -> None:
    coordinator_bench = CoordinatorBench(is_loaded=False)
    empty_id = TransactionalId("")
    assert (
        error_of(await coordinator_bench.init(timeout_ms=0))
        is ErrorCode.invalid_transaction_timeout
    )
    assert error_of(await coordinator_bench.init()) is ErrorCode.not_coordinator
    assert error_of(await coordinator_bench.add(identity(7, 0), FOO_0)) is ErrorCode.not_coordinator
    assert error_of(await coordinator_bench.end(identity(7, 0))) is ErrorCode.not_coordinator
    assert error_of(coordinator_bench.service.describe(TID)) is ErrorCode.not_coordinator
    assert error_of(coordinator_bench.service.describe(empty_id)) is ErrorCode.invalid_request
    add = AddPartitions(
        transactional_id=empty_id,
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(0),
        partitions=frozenset(),
        transaction_version=TV_2,
    )
    assert (
        error_of(await coordinator_bench.service.add_partitions(add)) is ErrorCode.invalid_request
    )
    end = EndTxn(
        transactional_id=empty_id,
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(0),
        committed=True,
        transaction_version=TV_2,
    )
    assert error_of(await coordinator_bench.service.end_txn(end)) is ErrorCode.invalid_request


def verify(transactional_id: TransactionalId = TID) -> VerifyPartitions:
    return VerifyPartitions(
        transactional_id=transactional_id,
        producer_id=ProducerId(0),
        producer_epoch=ProducerEpoch(0),
        partitions=(FOO_0, FOO_1),
    )


async def test_verification_sees_what_is_committed() -> None:
    coordinator_bench = CoordinatorBench()
    assert (
        error_of(coordinator_bench.service.verify(verify()))
        is ErrorCode.invalid_producer_id_mapping
    )
    assert error_of(coordinator_bench.service.verify(verify(TransactionalId("")))) == 42
    session = await coordinator_bench.ready()
    coordinator_bench.held_appends = []
    adding_task = coordinator_bench.start(coordinator_bench.add(session, FOO_0))
    await coordinator_bench.settle()
    verified_before = coordinator_bench.service.verify(verify())
    assert verified_before == PartitionsVerified(partition_errors=((FOO_0, 120), (FOO_1, 120)))
    coordinator_bench.held_appends[0].set_result(ErrorCode.none)
    await adding_task
    verified_after = coordinator_bench.service.verify(verify())
    assert verified_after == PartitionsVerified(partition_errors=((FOO_0, 0), (FOO_1, 120)))
    coordinator_bench.service.unload(HOME, 1)
    assert error_of(coordinator_bench.service.verify(verify())) is ErrorCode.not_coordinator


async def test_idempotent_producers_get_ids_and_leave_nothing_behind() -> None:
    coordinator_bench = CoordinatorBench(is_loaded=False)
    init_request = InitProducerId(
        transactional_id=None, timeout_ms=-1, enable_two_phase_commit=True
    )
    assert error_of(await coordinator_bench.service.init_producer_id(init_request)) == 14
    assert await coordinator_bench.service.init_producer_id(init_request) == identity(0, 0)
    assert await coordinator_bench.service.init_producer_id(init_request) == identity(1, 0)
    assert coordinator_bench.log == {}


async def test_a_new_id_without_a_producer_id_leaves_nothing_behind() -> None:
    coordinator_bench = CoordinatorBench()
    assert error_of(await coordinator_bench.init()) == 14
    assert coordinator_bench.entry_or_none() is None


# Answers wait for the log


async def test_between_decision_and_commit_others_must_wait() -> None:
    coordinator_bench = CoordinatorBench()
    session = await coordinator_bench.ready()
    coordinator_bench.held_appends = []
    adding_task = coordinator_bench.start(coordinator_bench.add(session, FOO_0))
    await coordinator_bench.settle()
    assert not adding_task.done()
    assert coordinator_bench.entry().pending_state is TransactionState.ONGOING
    assert shape(coordinator_bench.entry()) == "Empty 0:0"
    assert error_of(await coordinator_bench.add(session, FOO_1)) is CONCURRENT
    assert error_of(await coordinator_bench.end(session)) is CONCURRENT
    assert error_of(await coordinator_bench.init()) is CONCURRENT
    coordinator_bench.held_appends[0].set_result(ErrorCode.none)
    assert error_of(await adding_task) == 0
    assert shape(coordinator_bench.entry()) == "Ongoing 0:0"


@pytest.mark.parametrize(
    ("of_the_log", "expected_error"),
    [(3, 15), (19, 15), (20, 15), (7, 15), (6, 16), (56, 16), (10, -1), (18, -1), (13, 13)],
)
async def test_a_failed_append_changes_nothing(of_the_log: int, expected_error: int) -> None:
    coordinator_bench = CoordinatorBench()
    session = await coordinator_bench.ready()
    metadata_before = coordinator_bench.entry()
    coordinator_bench.append_errors.append(ErrorCode(of_the_log))
    assert error_of(await coordinator_bench.add(session, FOO_0)) == expected_error
    assert coordinator_bench.entry() == metadata_before
    assert error_of(await coordinator_bench.add(session, FOO_0)) == 0


async def test_an_id_whose_first_record_was_lost_stays_without_an_epoch() -> None:
    coordinator_bench = CoordinatorBench()
    await coordinator_bench.init()
    coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
    assert error_of(await coordinator_bench.init()) is ErrorCode.coordinator_not_available
    assert shape(coordinator_bench.entry()) == "Empty 0:-1"
    assert await coordinator_bench.init() == identity(0, 0)


async def test_a_fence_of_version_1_that_was_lost_is_not_raised_twice() -> None:
    coordinator_bench = CoordinatorBench(transaction_version=TV_1)
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0, version=TV_0)
    coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
    assert error_of(await coordinator_bench.init()) is ErrorCode.coordinator_not_available
    assert shape(coordinator_bench.entry()) == "Ongoing 0:1"
    assert error_of(await coordinator_bench.init()) is CONCURRENT
    await coordinator_bench.settle()
    assert shape(coordinator_bench.entry()) == "CompleteAbort 0:1"
    assert not coordinator_bench.entry().has_failed_epoch_fence


async def test_a_fence_of_version_2_that_was_lost_leaves_nothing_behind() -> None:
    coordinator_bench, _ = await ongoing()
    metadata_before = coordinator_bench.entry()
    coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
    assert error_of(await coordinator_bench.init()) is ErrorCode.coordinator_not_available
    assert coordinator_bench.entry() == metadata_before


@pytest.mark.parametrize(
    ("error", "is_in_the_log"),
    [(ErrorCode.request_timed_out, True), (ErrorCode.not_enough_replicas, False)],
)
async def test_a_move_that_was_not_replicated_in_time_is_withdrawn_but_known_to_be_in_the_log(
    error: ErrorCode, *, is_in_the_log: bool
) -> None:
    coordinator_bench = CoordinatorBench()
    session = await coordinator_bench.ready()
    coordinator_bench.append_errors.append(error)
    assert error_of(await coordinator_bench.add(session, FOO_0)) != 0
    late_states = [
        transition.state
        for transition in coordinator_bench.service.withdrawn_transitions().values()
    ]
    assert late_states == ([TransactionState.ONGOING] if is_in_the_log else [])
    assert error_of(await coordinator_bench.add(session, FOO_0)) == 0
    assert coordinator_bench.service.withdrawn_transitions() == {}


async def test_an_append_has_the_timeout_of_its_transaction() -> None:
    coordinator_bench = CoordinatorBench()
    await coordinator_bench.init()
    await coordinator_bench.init(timeout_ms=50)
    assert coordinator_bench.append_timeouts_ms == [50]


# A coordinator that moves between any two steps


async def begin_held_command(
    coordinator_bench: CoordinatorBench, step: str
) -> asyncio.Task[object]:
    """Send a command whose append is held."""
    session = await coordinator_bench.ready()
    if step == "end":
        await coordinator_bench.add(session, FOO_0)
    coordinator_bench.held_appends = []
    if step == "init":
        return coordinator_bench.start(coordinator_bench.init())
    if step == "add":
        return coordinator_bench.start(coordinator_bench.add(session, FOO_0))
    return coordinator_bench.start(coordinator_bench.end(session))


@pytest.mark.parametrize("step", ["init", "add", "end"])
@pytest.mark.parametrize("then", ["unloaded", "loading", "reloaded"])
@pytest.mark.parametrize("committed", [True, False])
async def test_an_append_that_outlives_its_coordinator_changes_nothing(
    step: str, then: str, *, committed: bool
) -> None:
    coordinator_bench = CoordinatorBench()
    step_task = await begin_held_command(coordinator_bench, step)
    await coordinator_bench.settle()
    log = list(coordinator_bench.log[HOME]) if committed else coordinator_bench.log[HOME][:-1]
    if then == "unloaded":
        coordinator_bench.service.unload(HOME, 1)
    elif then == "loading":
        coordinator_bench.service.begin_load(HOME, CoordinatorEpoch(1))
    else:
        load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), log)
    await coordinator_bench.settle()
    metadata_entries_after = coordinator_bench.service.entries()
    assert coordinator_bench.held_appends is not None
    coordinator_bench.held_appends[0].set_result(
        ErrorCode.none if committed else ErrorCode.not_leader_or_follower
    )
    error_code = error_of(await step_task)
    await coordinator_bench.settle()
    assert error_code == (14 if then == "loading" else 16)
    if step == "end" and then == "reloaded" and committed:
        return  # the new coordinator is already ending it: its own append is held
    assert coordinator_bench.service.entries() == metadata_entries_after
    assert coordinator_bench.sent == [] or (step, then) == ("end", "reloaded")


async def test_a_crash_after_the_append_is_finished_by_the_next_coordinator() -> None:
    """The record is in the log, the answer was never sent: the retry gets it."""
    coordinator_bench, session = await ongoing()
    coordinator_bench.held_appends = []
    ending_task = coordinator_bench.start(coordinator_bench.end(session))
    await coordinator_bench.settle()
    coordinator_bench.held_appends = None
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    await coordinator_bench.settle()
    assert shape(coordinator_bench.entry()) == "CompleteCommit 0:1"
    assert await coordinator_bench.end(session) == identity(0, 1)
    ending_task.cancel()


async def test_a_crash_before_the_append_leaves_the_transaction_open() -> None:
    coordinator_bench, session = await ongoing()
    coordinator_bench.held_appends = []
    ending_task = coordinator_bench.start(coordinator_bench.end(session))
    await coordinator_bench.settle()
    coordinator_bench.held_appends = None
    load_whole(
        coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME][:-1]
    )
    assert shape(coordinator_bench.entry()) == "Ongoing 0:0"
    assert await coordinator_bench.end(session) == identity(0, 1)
    ending_task.cancel()


async def test_a_crash_before_the_markers_sends_all_of_them_again() -> None:
    coordinator_bench = CoordinatorBench()
    coordinator_bench.answers_markers = False
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0, FOO_1)
    assert await coordinator_bench.end(session) == identity(0, 1)
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    assert coordinator_bench.entry().pending_state is TransactionState.COMPLETE_COMMIT
    await coordinator_bench.settle()
    (marker,) = coordinator_bench.sent[0].command.markers
    assert (marker.coordinator_epoch, marker.partitions) == (1, (FOO_0, FOO_1))


async def test_the_number_of_partitions_is_that_of_the_topic_if_there_is_one() -> None:
    assert CoordinatorBench().service.partitions == PARTITIONS
    assert CoordinatorBench(partitions=7, is_loaded=False).service.partitions == 7


async def test_a_load_shows_while_it_lasts() -> None:
    coordinator_bench = CoordinatorBench()
    await coordinator_bench.ready()
    coordinator_bench.service.begin_load(HOME, CoordinatorEpoch(1))
    assert error_of(await coordinator_bench.init()) is ErrorCode.coordinator_load_in_progress
    assert error_of(coordinator_bench.service.list_transactions(ListTransactions())) == 14
    assert coordinator_bench.service.snapshot().partitions_loading == 1
    assert read_whole(
        coordinator_bench.service.read(HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    )
    assert await coordinator_bench.init() == identity(0, 1)


async def test_a_load_that_was_called_off_is_not_installed() -> None:
    coordinator_bench = CoordinatorBench()
    await coordinator_bench.ready()
    coordinator_bench.service.begin_load(HOME, CoordinatorEpoch(1))
    coordinator_bench.service.unload(HOME, 2)
    assert not read_whole(
        coordinator_bench.service.read(HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    )
    assert error_of(await coordinator_bench.init()) is ErrorCode.not_coordinator


async def test_a_damaged_log_is_loaded_as_far_as_it_can_be_read() -> None:
    coordinator_bench = CoordinatorBench(is_traced=True)
    await coordinator_bench.ready()
    other_transition = to_first(
        TransactionalId("x"), producer_id=ProducerId(9), timeout_ms=1, now_ms=START_MS
    )
    damaged_batch = bytearray(
        encode_batch(
            (other_transition,), finalized_version=TV_2, now_ms=START_MS, release_rules=LATEST_RULES
        )
    )
    damaged_batch[-12:-10] = b"\xff\xff"
    load_whole(
        coordinator_bench.service,
        HOME,
        CoordinatorEpoch(1),
        [*coordinator_bench.log[HOME], bytes(damaged_batch)],
    )
    assert shape(coordinator_bench.entry()) == "Empty 0:0"
    assert coordinator_bench.service.snapshot().load_problems_total == 1
    assert "note" in [event.k for event in coordinator_bench.tracer.events()]


# Versions that clash


async def test_version_2_while_level_0_is_finalized_wedges_the_id_as_on_a_real_broker() -> None:
    coordinator_bench, session = await ongoing()
    coordinator_bench.level = TV_0
    assert error_of(await coordinator_bench.end(session)) is ErrorCode.unsupported_version
    assert error_of(await coordinator_bench.end(session)) is CONCURRENT
    coordinator_bench.level = TV_2
    assert error_of(await coordinator_bench.end(session)) is CONCURRENT
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    assert await coordinator_bench.end(session) == identity(0, 1)


@pytest.mark.parametrize(("transaction_version", "version"), [(TV_0, 0), (TV_1, 1), (TV_2, 1)])
async def test_the_level_says_which_version_of_the_record_is_written(
    transaction_version: TransactionVersion, version: int
) -> None:
    coordinator_bench = CoordinatorBench(transaction_version=transaction_version)
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0, version=TV_0)
    values = [batch[-60:] for batch in coordinator_bench.log[HOME]]
    expected = entry_value(coordinator_bench.entry(), transaction_version)
    assert expected[:2] == version.to_bytes(2, "big")
    assert expected in values[-1]


def entry_value(txn: TxnMetadata, transaction_version: TransactionVersion) -> bytes:
    from txnsim.txn.log_format import encode_value

    base_metadata = entry(
        txn.state, producer_id=txn.producer_id, epoch=txn.producer_epoch, update_ms=START_MS
    )
    record = to_ongoing(
        base_metadata, partitions=txn.partitions, client_version=txn.client_version, now_ms=START_MS
    )
    fields = {field_name: getattr(record, field_name) for field_name in record.__struct_fields__}
    return encode_value(
        type(record)(**{**fields, "start_timestamp_ms": START_MS}),
        finalized_version=transaction_version,
        release_rules=LATEST_RULES,
    )


# Queries


async def test_a_description_follows_the_markers() -> None:
    coordinator_bench = CoordinatorBench()
    coordinator_bench.answers_markers = False
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0, FOO_1)
    await coordinator_bench.end(session)
    await coordinator_bench.settle()
    coordinator_bench.sent[0].reply(ErrorCode.none, ErrorCode.not_leader_or_follower)
    await coordinator_bench.settle()
    description = coordinator_bench.service.describe(TID)
    assert isinstance(description, DescribedTxn)
    assert (description.state, description.partitions) == ("PrepareCommit", (FOO_1,))
    rejection = coordinator_bench.service.describe(TransactionalId("unknown"))
    assert error_of(rejection) is ErrorCode.transactional_id_not_found


async def test_listing_shows_what_this_broker_coordinates() -> None:
    coordinator_bench = CoordinatorBench()
    await coordinator_bench.ready()
    listing = coordinator_bench.service.list_transactions(ListTransactions())
    assert isinstance(listing, FilteredListing)
    assert [txn.transactional_id for txn in listing.txns] == [TID]


async def test_a_stopped_coordinator_neither_lists_nor_describes_nor_fires_timers() -> None:
    coordinator_bench, session = await ongoing()
    await coordinator_bench.end(session)
    coordinator_bench.service.stop()
    await coordinator_bench.settle()
    assert coordinator_bench.sent == []
    assert coordinator_bench.clock.armed_timers == 0
    assert error_of(coordinator_bench.service.describe(TID)) is ErrorCode.coordinator_not_available
    listing = coordinator_bench.service.list_transactions(ListTransactions())
    assert error_of(listing) is ErrorCode.coordinator_not_available


async def test_the_snapshot_counts() -> None:
    coordinator_bench = CoordinatorBench(is_loaded=False)
    coordinator_bench.answers_markers = False
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(0), ())
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0)
    await coordinator_bench.end(session)
    await coordinator_bench.settle()
    snapshot = coordinator_bench.service.snapshot()
    assert [
        txn_metadata.state.wire_name for txn_metadata in coordinator_bench.service.entries()
    ] == ["PrepareCommit"]
    assert (snapshot.partitions_owned, snapshot.pending_marker_count) == (1, 1)
    assert (snapshot.markers_sent_total, snapshot.completions_waiting) == (1, 0)


# Timeouts


async def test_the_timeout_aborts_and_the_producer_learns_of_it_at_its_next_call() -> None:
    coordinator_bench = CoordinatorBench(is_traced=True)
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0)
    await expire(coordinator_bench, 60_000)
    assert shape(coordinator_bench.entry()) == "Ongoing 0:0"
    await expire(coordinator_bench, 10_000)
    assert shape(coordinator_bench.entry()) == "CompleteAbort 0:1"
    assert error_of(await coordinator_bench.end(session)) is INVALID_STATE
    assert await coordinator_bench.end(session, committed=False) == identity(0, 1)
    assert coordinator_bench.service.timeouts_total == 1
    events = list(coordinator_bench.tracer.events())
    (fired_event,) = [event for event in events if event.k == "timer.fire"]
    (decision_event,) = [
        event for event in events if event.k == "txn.decide" and fired_event.i in event.p
    ]
    assert isinstance(decision_event.d, dict)
    assert (fired_event.p, decision_event.d["command"], decision_event.d["rule"]) == (
        (),
        "timeout",
        "timeout.bumps-v2",
    )


async def test_under_version_1_the_timeout_fences_the_producer_for_good() -> None:
    coordinator_bench = CoordinatorBench(transaction_version=TV_1)
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0, version=TV_0)
    await expire(coordinator_bench)
    assert error_of(await coordinator_bench.end(session, version=TV_1, committed=False)) is FENCED


async def test_a_timeout_that_needs_a_producer_id_waits_for_one() -> None:
    coordinator_bench = CoordinatorBench()
    old_identity = await at_epoch(coordinator_bench, 32_766)
    await coordinator_bench.add(old_identity, FOO_0)
    await expire(coordinator_bench, 70_000)
    assert shape(coordinator_bench.entry()) == "Ongoing 7:32766"
    await expire(coordinator_bench, 10_000)
    assert shape(coordinator_bench.entry()) == "CompleteAbort 0:0"
    assert await coordinator_bench.end(old_identity, committed=False) == identity(0, 0)


async def test_two_phase_commit_outlives_every_timeout() -> None:
    settings = Settings(
        transaction_two_phase_commit_enable=True,
        transaction_abort_timed_out_cleanup_interval_ms=10**7,  # seldom: 1,000,000 seconds pass
    )
    coordinator_bench = CoordinatorBench(settings=settings)
    await coordinator_bench.ready()
    init_request = InitProducerId(transactional_id=TID, timeout_ms=1, enable_two_phase_commit=True)
    session = await coordinator_bench.service.init_producer_id(init_request)
    assert isinstance(session, ProducerIdAndEpoch)
    await coordinator_bench.add(session, FOO_0)
    await expire(coordinator_bench, 10**9)
    assert shape(coordinator_bench.entry()) == "Ongoing 0:1"


async def test_an_open_transaction_keeps_its_timeout_over_a_load() -> None:
    coordinator_bench, _ = await ongoing()
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    await expire(coordinator_bench)
    assert shape(coordinator_bench.entry()) == "CompleteAbort 0:1"


async def test_a_timeout_whose_append_fails_is_tried_again_by_the_next_scan() -> None:
    coordinator_bench, _ = await ongoing()
    coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
    await expire(coordinator_bench, 70_000)
    assert shape(coordinator_bench.entry()) == "Ongoing 0:0"
    await expire(coordinator_bench, 10_000)
    assert shape(coordinator_bench.entry()) == "CompleteAbort 0:1"


# Live and loaded


async def test_what_was_lived_through_is_what_is_loaded() -> None:
    coordinator_bench = CoordinatorBench()
    session = await coordinator_bench.ready()
    for round_ in range(6):
        await coordinator_bench.add(session, FOO_0, FOO_1)
        end_answer = await coordinator_bench.end(session, committed=round_ % 2 == 0)
        assert isinstance(end_answer, ProducerIdAndEpoch)
        session = end_answer
        await coordinator_bench.settle()
    live_metadata = coordinator_bench.entry()
    fields = {
        field_name: getattr(live_metadata, field_name)
        for field_name in live_metadata.__struct_fields__
    }
    expected_metadata = TxnMetadata(**{**fields, "last_producer_epoch": ProducerEpoch(-1)})
    assert replayed_entries(coordinator_bench) == {TID: expected_metadata}


async def test_everything_that_happens_is_in_the_trace() -> None:
    coordinator_bench = CoordinatorBench(is_traced=True)
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0)
    await coordinator_bench.end(session)
    await coordinator_bench.settle()
    await expire(coordinator_bench, 1)
    coordinator_bench.service.unload(HOME, 1)
    kinds = [event.k for event in coordinator_bench.tracer.events()]
    for event_kind in ("txn.decide", "txn.prepare", "txn.append", "txn.complete", "txn.load"):
        assert event_kind in kinds
    for event_kind in ("txn.unload", "marker.owed", "marker.sent", "marker.acked"):
        assert event_kind in kinds


async def test_the_trace_tells_the_decision_on_each_request_of_a_transaction() -> None:
    coordinator_bench = CoordinatorBench(is_traced=True)
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0)
    await coordinator_bench.end(session)
    decided_commands = [
        event.d["command"]  # type: ignore[index]
        for event in coordinator_bench.tracer.events()
        if event.k == "txn.decide"
    ]
    # InitProducerId is decided once more with a new producer id.
    assert list(dict.fromkeys(decided_commands)) == [
        "InitProducerId",
        "AddPartitionsToTxn",
        "EndTxn",
    ]


async def test_the_trace_tells_nothing_of_a_partition_that_was_not_loaded() -> None:
    coordinator_bench = CoordinatorBench(is_traced=True)
    coordinator_bench.service.unload(HOME, 1)
    coordinator_bench.service.unload(HOME, 2)
    kinds = [event.k for event in coordinator_bench.tracer.events()]
    assert kinds.count("txn.unload") == 1


async def test_the_trace_tells_what_led_to_the_completion() -> None:
    coordinator_bench = CoordinatorBench(is_traced=True)
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0)
    coordinator_bench.tasks.drive(coordinator_bench.end(session), lambda *_: None, name="end")
    await coordinator_bench.settle()
    events = list(coordinator_bench.tracer.events())
    event_chain = [events[-1]]
    while event_chain[-1].p and event_chain[-1].k != "txn.decide":
        event_chain.append(events[event_chain[-1].p[0]])
    assert [event.k for event in reversed(event_chain)] == [
        "txn.decide",
        "txn.prepare",
        "txn.append",
        "txn.complete",
        "txn.prepare",  # the completion is pending now
        "marker.sent",
        "marker.acked",
        "txn.append",
        "txn.complete",
    ]


async def test_a_load_sends_the_markers_of_all_prepared_transactions_in_one_request() -> None:
    coordinator_bench = CoordinatorBench(is_loaded=False)
    load_whole(
        coordinator_bench.service, HOME, CoordinatorEpoch(4), prepared_transactions(["a", "b", "c"])
    )
    await coordinator_bench.settle()
    (sent_markers,) = coordinator_bench.sent
    assert sent_markers.broker_id == BROKER
    assert [marker.producer_id for marker in sent_markers.command.markers] == [0, 1, 2]
    assert {txn.state for txn in coordinator_bench.service.entries()} == {
        TransactionState.COMPLETE_COMMIT
    }


async def test_of_transactions_that_a_load_is_about_none_causes_the_other() -> None:
    coordinator_bench = CoordinatorBench(is_loaded=False, is_traced=True)
    coordinator_bench.answers_markers = False
    cause_event_index = coordinator_bench.tracer.emit(
        "note", "cluster", data={"text": "a broker leads now"}
    )
    coordinator_bench.tracer.set_cause(cause_event_index)
    load_whole(
        coordinator_bench.service, HOME, CoordinatorEpoch(4), prepared_transactions(["a", "b"])
    )
    await coordinator_bench.settle()
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    events = {
        kind: [event for event in coordinator_bench.tracer.events() if event.k == kind]
        for kind in ("txn.prepare", "marker.owed", "marker.sent", "marker.acked", "txn.append")
    }
    due_causes = [[event.i] for event in events["txn.prepare"]]
    assert [list(event.p) for event in events["txn.prepare"]] == [
        [cause_event_index],
        [cause_event_index],
    ]
    assert [list(event.p) for event in events["marker.owed"]] == due_causes
    assert [list(event.p) for event in events["marker.sent"]] == due_causes
    assert [list(event.p) for event in events["marker.acked"]] == [
        [event.i, cause_event_index] for event in events["marker.sent"]
    ]
    assert [list(event.p) for event in events["txn.append"]] == [
        [event.i] for event in events["marker.acked"]
    ]


# Queries, and an id that is aged for a story


async def test_entries_are_found_by_their_id_where_they_are_coordinated() -> None:
    coordinator_bench, _ = await ongoing()
    coordinator = coordinator_bench.service
    assert coordinator.entry(TID) is coordinator_bench.entry()
    assert coordinator.entry(TransactionalId("nobody")) is None
    assert [
        owned_partition.partition for owned_partition in coordinator.owned_partitions()
    ] == list(range(PARTITIONS))
    coordinator.unload(HOME, 1)
    assert coordinator.entry(TID) is None


async def age(coordinator_bench: CoordinatorBench, epoch: int, name: str = TID) -> ErrorCode:
    """Let a transactional id go on at a higher epoch; return the error."""
    transactional_id = TransactionalId(name)
    return error_of(await coordinator_bench.service.age(transactional_id, ProducerEpoch(epoch)))


async def test_an_idle_id_is_aged_with_a_record() -> None:
    coordinator_bench = CoordinatorBench()
    await coordinator_bench.ready()
    assert await age(coordinator_bench, 30_000) is ErrorCode.none
    assert shape(coordinator_bench.entry()) == "Empty 0:30000"
    assert replayed_entries(coordinator_bench) == {TID: coordinator_bench.entry()}
    assert coordinator_bench.append_timeouts_ms[-1] == 60_000
    assert await age(coordinator_bench, 30_000) is ErrorCode.invalid_producer_epoch
    assert await age(coordinator_bench, 30_001) is ErrorCode.none
    assert await coordinator_bench.init() == identity(0, 30_002)


async def test_only_an_id_without_a_transaction_is_aged() -> None:
    coordinator_bench = CoordinatorBench()
    coordinator_bench.answers_markers = False
    session = await coordinator_bench.ready()
    assert await age(coordinator_bench, 9, "nobody") is INVALID_STATE
    coordinator_bench.held_appends = []
    adds_task = coordinator_bench.start(coordinator_bench.add(session, FOO_0))
    await coordinator_bench.settle()
    assert await age(coordinator_bench, 9) is INVALID_STATE, "a change is pending"
    coordinator_bench.held_appends[0].set_result(ErrorCode.none)
    coordinator_bench.held_appends = None
    await adds_task
    assert await age(coordinator_bench, 9) is INVALID_STATE, "it is open"
    await coordinator_bench.end(session)
    assert await age(coordinator_bench, 9) is INVALID_STATE, "it is prepared"
    await coordinator_bench.settle()
    coordinator_bench.sent[0].reply()
    await coordinator_bench.settle()
    assert await age(coordinator_bench, 9) is ErrorCode.none


async def test_an_id_whose_record_is_refused_or_moves_away_is_not_aged() -> None:
    coordinator_bench = CoordinatorBench()
    await coordinator_bench.ready()
    coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
    assert await age(coordinator_bench, 9) is ErrorCode.not_enough_replicas
    assert shape(coordinator_bench.entry()) == "Empty 0:0"
    coordinator_bench.held_appends = []
    aging_task = coordinator_bench.start(age(coordinator_bench, 9))
    await coordinator_bench.settle()
    coordinator_bench.service.unload(HOME, 1)
    coordinator_bench.held_appends[0].set_result(ErrorCode.none)
    assert await aging_task is ErrorCode.not_coordinator
    assert await age(coordinator_bench, 9) is ErrorCode.not_coordinator


# The text of KIP-890


@pytest.mark.parametrize("follows_kip_text", [True, False])
async def test_the_epoch_before_is_restored_by_the_text_of_the_kip_alone(
    *, follows_kip_text: bool
) -> None:
    coordinator_bench = CoordinatorBench(settings=Settings(kip_text=follows_kip_text))
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0)
    await coordinator_bench.end(session)
    await coordinator_bench.settle()
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), coordinator_bench.log[HOME])
    assert coordinator_bench.entry().last_producer_epoch == (0 if follows_kip_text else -1)


@pytest.mark.parametrize("follows_kip_text", [True, False])
async def test_lowering_the_level_is_harmless_by_the_text_of_the_kip_alone(
    *, follows_kip_text: bool
) -> None:
    coordinator_bench = CoordinatorBench(settings=Settings(kip_text=follows_kip_text))
    session = await coordinator_bench.ready()
    coordinator_bench.level = TV_0
    error = error_of(await coordinator_bench.add(session, FOO_0))
    assert error is (ErrorCode.none if follows_kip_text else ErrorCode.unsupported_version)


# Scans whose partition moves


@pytest.mark.usefixtures("all_levels")
async def test_a_timeout_that_moves_away_is_not_told() -> None:
    coordinator_bench, _ = await ongoing()
    coordinator_bench.held_appends = []
    with capture_logs() as lines:
        await expire(coordinator_bench, 70_000)
        coordinator_bench.service.unload(HOME, 1)
        coordinator_bench.held_appends[0].set_result(ErrorCode.not_enough_replicas)
        await coordinator_bench.settle()
    assert [line["event"] for line in lines] == ["txn.timed_out"]
    assert not coordinator_bench.service._unaborted.tried


async def test_a_bug_in_an_abort_by_timeout_is_not_swallowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> ErrorCode:
        raise ValueError("a bug")

    coordinator_bench, _ = await ongoing()
    monkeypatch.setattr(coordinator_bench.service._writer.log, "write", fail)
    with pytest.raises(ValueError, match="a bug"):
        coordinator_bench.clock.advance(70_000)


async def test_a_scan_ends_where_its_partition_moves_away() -> None:
    coordinator_bench = await many_idle()
    coordinator_bench.service.stop()
    coordinator_bench.clock.advance(1_000_000)
    length_before = len(coordinator_bench.log[HOME])
    steps = coordinator_bench.service._scans._expiries()
    assert next(steps) == 1
    coordinator_bench.service.unload(HOME, 1)
    assert list(steps) == []
    await coordinator_bench.settle()
    assert len(coordinator_bench.log[HOME]) == length_before


async def test_a_scan_passes_over_ids_that_are_gone_when_it_comes_to_them() -> None:
    coordinator_bench = await many_idle()
    owned_partition = coordinator_bench.service._ownership.find(TID)
    assert not isinstance(owned_partition, Rejection)
    steps = coordinator_bench.service._scans._timeouts()
    assert next(steps) == 1
    del owned_partition.entries[TransactionalId("id-1")]
    assert list(steps) == [1, 1, 1]


# Expiry of idle transactional ids

SETTINGS = Settings(
    transactional_id_expiration_ms=1_000_000,
    transaction_remove_expired_cleanup_interval_ms=500_000,
)


async def idle(*, settings: Settings = SETTINGS) -> tuple[CoordinatorBench, ProducerIdAndEpoch]:
    coordinator_bench = CoordinatorBench(settings=settings)
    return coordinator_bench, await coordinator_bench.ready()


async def test_an_idle_id_is_forgotten_and_starts_over() -> None:
    coordinator_bench, session = await idle()
    coordinator_bench.clock.advance(999_999)
    await coordinator_bench.settle()
    assert coordinator_bench.entry_or_none() is not None
    coordinator_bench.clock.advance(1)
    await coordinator_bench.settle()
    assert coordinator_bench.entry_or_none() is None
    assert read_log(coordinator_bench.log[HOME], release_rules=LATEST_RULES).entries == {}
    assert coordinator_bench.service.snapshot().expired_total == 1
    result = await coordinator_bench.add(session, FOO_0)
    assert error_of(result) is ErrorCode.invalid_producer_id_mapping
    assert error_of(coordinator_bench.service.describe(TID)) is ErrorCode.transactional_id_not_found
    assert await coordinator_bench.init(expected_identity=session) == identity(1, 0)


async def test_meanwhile_callers_must_wait() -> None:
    coordinator_bench, _ = await idle()
    coordinator_bench.held_appends = []
    coordinator_bench.clock.advance(1_000_000)
    await coordinator_bench.settle()
    assert coordinator_bench.entry().pending_state is TransactionState.DEAD
    assert error_of(await coordinator_bench.init()) is ErrorCode.concurrent_transactions
    coordinator_bench.held_appends[0].set_result(ErrorCode.not_enough_replicas)
    coordinator_bench.held_appends = None
    await coordinator_bench.settle()
    assert coordinator_bench.entry().pending_state is None
    assert await coordinator_bench.init() == identity(0, 1)


async def test_an_id_without_an_epoch_expires_too() -> None:
    coordinator_bench = CoordinatorBench(settings=SETTINGS)
    await coordinator_bench.init()
    coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
    await coordinator_bench.init()
    assert coordinator_bench.entry().producer_epoch == -1
    coordinator_bench.clock.advance(1_000_000)
    await coordinator_bench.settle()
    assert coordinator_bench.entry_or_none() is None


async def test_open_transactions_do_not_expire() -> None:
    coordinator_bench, session = await idle()
    coordinator_bench.service.stop()
    coordinator_bench.service.start()
    await coordinator_bench.add(session, FOO_0)
    coordinator_bench.clock.advance(1)
    assert coordinator_bench.entry().state is TransactionState.ONGOING


async def test_a_tombstone_that_outlives_its_coordinator_changes_nothing() -> None:
    coordinator_bench, _ = await idle()
    log = list(coordinator_bench.log[HOME])
    coordinator_bench.held_appends = []
    coordinator_bench.clock.advance(1_000_000)
    await coordinator_bench.settle()
    load_whole(coordinator_bench.service, HOME, CoordinatorEpoch(1), log)
    coordinator_bench.held_appends[0].set_result(ErrorCode.none)
    await coordinator_bench.settle()
    assert coordinator_bench.entry().pending_state is None
    assert coordinator_bench.service.snapshot().expired_total == 0


async def test_a_tombstone_that_the_log_refuses_is_tried_again_by_the_next_scan() -> None:
    coordinator_bench, _ = await idle()
    coordinator_bench.append_errors.append(ErrorCode.not_enough_replicas)
    coordinator_bench.clock.advance(1_000_000)
    await coordinator_bench.settle()
    refused_metadata = coordinator_bench.entry()
    assert (refused_metadata.state, refused_metadata.pending_state) == (
        TransactionState.EMPTY,
        None,
    )
    assert coordinator_bench.service.snapshot().expired_total == 0
    coordinator_bench.clock.advance(500_000)
    await coordinator_bench.settle()
    assert coordinator_bench.entry_or_none() is None
    assert coordinator_bench.service.snapshot().expired_total == 1


async def many_idle(rules: Rules = LATEST_RULES, *, more_count: int = 4) -> CoordinatorBench:
    """Five ids of one partition that expire at once; two of their tombstones fit into a batch."""
    coordinator_bench = CoordinatorBench(settings=SETTINGS, rules=rules)
    await coordinator_bench.ready()
    owned_partition = coordinator_bench.service._ownership.find(TID)
    assert not isinstance(owned_partition, Rejection)
    template_metadata = coordinator_bench.entry()
    fields = {
        field_name: getattr(template_metadata, field_name)
        for field_name in template_metadata.__struct_fields__
    }
    for id_number in range(more_count):
        transactional_id = TransactionalId(f"id-{id_number}")
        owned_partition.entries[transactional_id] = TxnMetadata(
            **{**fields, "transactional_id": transactional_id}
        )
    coordinator_bench.batch_bytes_max = 100
    return coordinator_bench


async def test_tombstones_of_one_partition_share_a_batch_as_long_as_the_topic_takes_it() -> None:
    """A real 4.3.1 cuts by the topic's max.message.bytes, not by the broker's (KAFKA-13099)."""
    coordinator_bench = await many_idle()
    length_before = len(coordinator_bench.log[HOME])
    coordinator_bench.clock.advance(1_000_000)
    await coordinator_bench.settle()
    assert coordinator_bench.service.entries() == ()
    assert len(coordinator_bench.log[HOME]) - length_before == 3


async def test_very_many_tombstones_are_made_and_taken_up_in_slices() -> None:
    """100,000 ids expired in one step of 260 ms."""
    coordinator_bench = await many_idle(more_count=2_000)
    coordinator_bench.batch_bytes_max = 1_000_000
    coordinator_bench.service.stop()
    coordinator_bench.clock.advance(1_000_000)
    length_before = len(coordinator_bench.log[HOME])
    element_counts = list(coordinator_bench.service._scans._expiries())
    assert element_counts == [*[1] * 2_001, *[1] * 2_001, 2_001]
    assert len(coordinator_bench.log[HOME]) - length_before == 1
    assert len(coordinator_bench.service.entries()) > 0, "others have their turns meanwhile"
    await coordinator_bench.settle()
    assert coordinator_bench.service.entries() == ()


async def test_tombstones_of_a_coordinator_that_moves_meanwhile_are_not_written() -> None:
    coordinator_bench = await many_idle()
    coordinator_bench.service.stop()
    coordinator_bench.clock.advance(1_000_000)
    length_before = len(coordinator_bench.log[HOME])
    steps = coordinator_bench.service._scans._expiries()
    for _ in range(5 + 3):
        next(steps)
    coordinator_bench.service.unload(HOME, 1)
    list(steps)
    await coordinator_bench.settle()
    assert len(coordinator_bench.log[HOME]) == length_before


@pytest.mark.usefixtures("all_levels")
async def test_before_kafka_13099_they_go_together_or_never_and_it_is_told_once() -> None:
    """A real 2.8.0 logs "Failed to remove expired transactionalId" at every scan."""
    coordinator_bench = await many_idle(rules=Rules(expired_ids_take_many_batches=False))
    with capture_logs() as lines:
        for _ in range(3):
            coordinator_bench.clock.advance(1_000_000)
            await coordinator_bench.settle()
        assert len(coordinator_bench.service.entries()) == 5
        assert [line["event"] for line in lines] == ["txn.expiry.refused"]
        assert lines[0]["error"] == "MESSAGE_TOO_LARGE"
        assert f"partition {HOME} of __transaction_state" in lines[0]["reason"]
        coordinator_bench.batch_bytes_max = 1_000
        coordinator_bench.clock.advance(1_000_000)
        await coordinator_bench.settle()
    assert coordinator_bench.service.entries() == ()
    assert len(lines) == 1


@pytest.mark.usefixtures("all_levels")
async def test_a_timeout_whose_abort_is_never_logged_is_told_once() -> None:
    coordinator_bench = CoordinatorBench()
    await coordinator_bench.add(await coordinator_bench.ready(), FOO_0)
    coordinator_bench.append_errors.extend([ErrorCode.not_enough_replicas] * 3)
    with capture_logs() as lines:
        for _ in range(10):
            coordinator_bench.clock.advance(10_000)
            await coordinator_bench.settle()
    refused_timeouts = [line for line in lines if line["event"] == "txn.timeout.refused"]
    assert [(line["transactional_id"], line["error"]) for line in refused_timeouts] == [
        (TID, "COORDINATOR_NOT_AVAILABLE")
    ]
    assert coordinator_bench.entry().state is TransactionState.COMPLETE_ABORT
    assert not coordinator_bench.service._unaborted.tried


# Producer ids

BLOCK = AllocateProducerIdsReply(first_producer_id=0, producer_id_count=1_000)


class Controller:
    """A controller that gives the test's answers to AllocateProducerIds."""

    def __init__(self, *answers: AllocateProducerIdsReply | Exception) -> None:
        self.clock = ManualClock()
        self.answers = list(answers)
        self.asked = 0
        self.source = ProducerIdSource(
            clock=self.clock,
            tasks=LoopTasks(asyncio.get_running_loop()),
            allocate=self.allocate,
        )

    async def allocate(self) -> AllocateProducerIdsReply:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_block_is_asked_for_when_the_first_id_is() -> None:
    controller = Controller(BLOCK)
    assert controller.source.take() is None
    assert (controller.source.take(), controller.asked) == (0, 1)


@pytest.mark.parametrize(
    "failure",
    [PeerDisconnectedError("cut"), AllocateProducerIdsReply(error=ErrorCode.stale_broker_epoch)],
)
async def test_after_a_failure_it_pauses(failure: AllocateProducerIdsReply | Exception) -> None:
    controller = Controller(failure, BLOCK)
    controller.source.take()
    assert (controller.source.take(), controller.asked) == (None, 1)
    controller.clock.pass_ms(50)
    controller.source.take()
    assert (controller.source.take(), controller.asked) == (0, 2)


async def test_who_waits_for_a_block_goes_on_when_it_is_there() -> None:
    controller = Controller(BLOCK)
    allocated_future: asyncio.Future[AllocateProducerIdsReply] = (
        asyncio.get_running_loop().create_future()
    )

    async def allocate() -> AllocateProducerIdsReply:
        return await allocated_future

    controller.source.allocate = allocate
    tasks = LoopTasks(asyncio.get_running_loop())
    waiting_tasks = [tasks.spawn(controller.source.ready(), name="waits") for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting_tasks)
    allocated_future.set_result(BLOCK)
    await asyncio.gather(*waiting_tasks)
    assert controller.source.take() == 0
    await controller.source.ready()
    assert controller.asked == 0, "there are ids left"


async def test_a_coordinator_is_ready_with_its_first_block() -> None:
    coordinator_bench = CoordinatorBench()
    await coordinator_bench.service.ready()
    assert coordinator_bench.id_requests == 1
    assert await coordinator_bench.init() == identity(0, 0)


async def test_a_bug_is_not_taken_for_a_lost_answer() -> None:
    controller = Controller(ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        controller.source.take()
