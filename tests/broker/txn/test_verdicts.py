"""What is said of transactions: verdicts on open ones, lists, decisions of the past."""

from __future__ import annotations

import pytest

from tests.support.txn_entries import FOO_0, FRESH, NOW_MS, TID, entry
from txnsim.errors import ErrorCode, PatternError, Rejection
from txnsim.txn import commands
from txnsim.txn.kip_text import record_to_log, restore_last_epoch
from txnsim.txn.list_filter import FilteredListing, ListTransactions, list_transactions
from txnsim.txn.marker_payment import (
    BEFORE_ALL_MARKERS_MS,
    CoordinatorRecord,
    DueDecisions,
    PartitionMarkers,
)
from txnsim.txn.open_txn_verdict import CoordinatedTxn, OpenTxnStatus, program_at, why_command
from txnsim.txn.past_decision import DecisionEvidence, NewestTxn, PastDecision
from txnsim.txn.refusals import (
    concurrent_rejection,
    empty_id_rejection,
    fencing_rejection,
    no_id_block_rejection,
    not_found_rejection,
    other_producer_rejection,
    unknown_id_rejection,
)
from txnsim.txn.state import TIMEOUT_NEVER_MS, TransactionState, TxnMetadata, TxnTransition
from txnsim.txn.transitions import to_complete, to_first, to_ongoing, to_prepared_v2
from txnsim.types import ProducerId, TopicPartition, TransactionalId, TransactionVersion

PARTITION = TopicPartition("t", 0)


def coordinator_answer(
    state: str = "Ongoing",
    *,
    producer_id: int = 7,
    epoch: int = 0,
    lists_partition: bool = True,
    timeout_ms: int = 60_000,
) -> CoordinatedTxn:
    return CoordinatedTxn(
        transactional_id="app",
        coordinator_id=2,
        state=state,
        producer_id=producer_id,
        producer_epoch=epoch,
        lists_partition=lists_partition,
        timeout_ms=timeout_ms,
    )


@pytest.mark.parametrize(
    ("transactional_id", "coordinated", "status", "expected_words"),
    [
        (None, None, OpenTxnStatus.HANGING, "no coordinator knows producer id 7"),
        ("app", None, OpenTxnStatus.HANGING, "has forgotten transactional id app"),
        (
            "app",
            coordinator_answer(producer_id=8),
            OpenTxnStatus.HANGING,
            "goes on with producer id 8",
        ),
        (
            "app",
            coordinator_answer(lists_partition=False),
            OpenTxnStatus.HANGING,
            "without this partition",
        ),
        (
            "app",
            coordinator_answer("PrepareAbort", epoch=1),
            OpenTxnStatus.DECIDED,
            "the outcome stands",
        ),
        ("app", coordinator_answer(epoch=1), OpenTxnStatus.HANGING, "which no marker will end"),
        ("app", coordinator_answer(), OpenTxnStatus.ALIVE, "transaction.timeout.ms=60000"),
        (
            "app",
            coordinator_answer(timeout_ms=TIMEOUT_NEVER_MS),
            OpenTxnStatus.ALIVE,
            "it waits for its external coordinator",
        ),
        (
            "app",
            coordinator_answer("PrepareCommit", timeout_ms=TIMEOUT_NEVER_MS),
            OpenTxnStatus.DECIDED,
            "the outcome stands",
        ),
    ],
)
def test_an_open_transaction_is_judged_by_what_its_coordinator_says(
    transactional_id: str | None,
    coordinated: CoordinatedTxn | None,
    status: OpenTxnStatus,
    expected_words: str,
) -> None:
    judged_status, reason = OpenTxnStatus.judge(7, 0, transactional_id, coordinated)
    assert judged_status is status
    assert expected_words in reason


@pytest.mark.parametrize(
    ("state", "timeout_ms", "is_two_phase"),
    [
        ("Ongoing", TIMEOUT_NEVER_MS, True),
        ("Ongoing", TIMEOUT_NEVER_MS - 1, False),
        ("CompleteCommit", TIMEOUT_NEVER_MS, False),
    ],
)
def test_an_open_transaction_without_a_timeout_is_one_of_two_phase_commit(
    state: str, timeout_ms: int, *, is_two_phase: bool
) -> None:
    assert coordinator_answer(state, timeout_ms=timeout_ms).is_two_phase is is_two_phase


@pytest.mark.parametrize("status", OpenTxnStatus)
def test_only_what_hangs_has_a_command(status: OpenTxnStatus) -> None:
    command = status.repair_command(PARTITION, program=program_at("b:1", "--command-config", "f"))
    assert command == (
        "txnsim txns --bootstrap-server b:1 --command-config f repair --topic t --partition 0 --yes"
        if status is OpenTxnStatus.HANGING
        else None
    )


def test_the_command_that_tells_who_holds_readers_back_names_the_partition() -> None:
    command = why_command(TopicPartition("a b", 3), program_at("kafka:9092"))
    assert command == "txnsim txns --bootstrap-server kafka:9092 why 'a b' 3"


def test_advice_to_abort_says_that_it_discards_records() -> None:
    for decision in (PastDecision.ABORTED, PastDecision.UNKNOWN):
        evidence = DecisionEvidence(decision=decision, because="a log says so")
        advice = f"{evidence}. {DecisionEvidence.with_guess('repair', evidence)}"
        assert "discards its records" in advice


def test_a_decision_names_the_marker_that_is_owed() -> None:
    assert {decision: decision.marker for decision in PastDecision} == {
        PastDecision.COMMITTED: "COMMIT",
        PastDecision.ABORTED: "ABORT",
        PastDecision.UNKNOWN: "",
    }


# The filters of ListTransactions.


def named_entry(
    name: str, state: TransactionState, *, producer_id: int = 7, start_ms: int | None = None
) -> TxnMetadata:
    txn = entry(state, producer_id=producer_id, start_ms=start_ms)
    fields = {field_name: getattr(txn, field_name) for field_name in txn.__struct_fields__}
    return TxnMetadata(**{**fields, "transactional_id": TransactionalId(name)})


TXNS = [
    named_entry("Orders", TransactionState.EMPTY, producer_id=1),
    named_entry("orders-2", TransactionState.ONGOING, producer_id=2, start_ms=NOW_MS - 100),
    named_entry(
        "payments", TransactionState.COMPLETE_COMMIT, producer_id=3, start_ms=NOW_MS - 5_000
    ),
    named_entry("buried", TransactionState.DEAD, producer_id=4),
]


def listed_ids(query: ListTransactions) -> list[str]:
    listing = list_transactions(TXNS, query, now_ms=NOW_MS)
    assert isinstance(listing, FilteredListing)
    return [txn.transactional_id for txn in TXNS if listing.has(txn)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (ListTransactions(), ["Orders", "orders-2", "payments"]),
        (ListTransactions(states=("Ongoing", "Empty")), ["Orders", "orders-2"]),
        (ListTransactions(states=("ongoing",)), []),
        (ListTransactions(states=("Dead",)), []),
        (ListTransactions(producer_ids=(3,)), ["payments"]),
        (ListTransactions(duration_ms=0), ["Orders", "orders-2", "payments"]),
        (ListTransactions(duration_ms=99), ["Orders", "orders-2", "payments"]),
        (ListTransactions(duration_ms=100), ["Orders", "payments"]),
        (ListTransactions(duration_ms=5_000), ["Orders"]),
        (ListTransactions(lists_running_only=True), ["orders-2"]),
        (ListTransactions(lists_running_only=True, duration_ms=100), []),
        (ListTransactions(pattern=""), ["Orders", "orders-2", "payments"]),
        (ListTransactions(pattern="orders"), []),
        (ListTransactions(pattern="orders.*"), ["orders-2"]),
        (ListTransactions(pattern="(?i)orders.*?"), ["Orders", "orders-2"]),
        (ListTransactions(pattern=".*s", states=("Empty",)), ["Orders"]),
    ],
)
def test_every_filter_must_pass(query: ListTransactions, expected: list[str]) -> None:
    assert listed_ids(query) == expected


@pytest.mark.parametrize(
    ("duration_ms", "started_ago_ms", "is_listed"),
    [
        (-(2**63), 0, True),
        (-1, 0, True),
        (0, 0, False),
        (1, 0, False),
        (0, 1, True),
        (-1, -1, True),  # the clock was set back: below 0 nothing is filtered all the same
    ],
)
def test_a_duration_filters_from_0_on_what_has_not_run_for_longer(
    duration_ms: int, started_ago_ms: int, is_listed: bool
) -> None:
    start_ms = NOW_MS - started_ago_ms
    txn = named_entry("orders", TransactionState.ONGOING, start_ms=start_ms)
    listing = list_transactions([txn], ListTransactions(duration_ms=duration_ms), now_ms=NOW_MS)
    assert isinstance(listing, FilteredListing)
    assert listing.has(txn) is is_listed


def test_unknown_states_are_returned_once_and_match_nothing() -> None:
    query = ListTransactions(states=("Open", "PrepareEpochFence", "Open"))
    listing = list_transactions(TXNS, query, now_ms=NOW_MS)
    assert isinstance(listing, FilteredListing)
    assert listing.unknown_state_names == ("Open",)
    assert not any(map(listing.has, TXNS))


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "a++", "["])
def test_what_re2_does_not_compile_is_refused(pattern: str) -> None:
    query = ListTransactions(pattern=pattern, states=("Open",))
    answer = list_transactions(TXNS, query, now_ms=NOW_MS)
    assert isinstance(answer, Rejection)
    assert answer.error is ErrorCode.invalid_regular_expression


def test_a_listing_goes_by_the_committed_state() -> None:
    txn = entry(TransactionState.ONGOING, pending_state=TransactionState.PREPARE_ABORT)
    listing = list_transactions([txn], ListTransactions(states=("Ongoing",)), now_ms=NOW_MS)
    assert isinstance(listing, FilteredListing)
    assert listing.has(txn)


def test_a_pattern_is_matched_with_ids_that_may_be_seen_and_with_no_others() -> None:
    """A match can be slow, because the pattern comes from any client."""
    names_asked: list[str] = []

    def may_describe(name: str) -> bool:
        names_asked.append(name)
        return False

    query = ListTransactions(pattern="(a?){1000}x", may_describe=may_describe)
    txn = named_entry("a" * 100_000, TransactionState.ONGOING)
    listing = list_transactions([txn], query, now_ms=NOW_MS)
    assert isinstance(listing, FilteredListing)
    assert not listing.has(txn)
    assert len(names_asked) == 1


def test_a_pattern_that_would_take_long_for_an_id_is_refused() -> None:
    query = ListTransactions(pattern="(a?){1000}x")
    txn = named_entry("a" * 100_000, TransactionState.ONGOING)
    listing = list_transactions([txn], query, now_ms=NOW_MS)
    assert isinstance(listing, FilteredListing)
    assert listing.filtering_work(txn) > 100_000
    with pytest.raises(PatternError):
        listing.has(txn)


# What was decided about a transaction that hangs: committed, aborted or not known.


PID, EPOCH, WRITTEN_MS = 7, 3, 1_000
BEFORE, AFTER = WRITTEN_MS - 100, WRITTEN_MS + 100
COMMITTED, ABORTED, UNKNOWN = PastDecision.COMMITTED, PastDecision.ABORTED, PastDecision.UNKNOWN


@pytest.mark.parametrize(
    ("state", "epoch", "start_ms", "expected_decision"),
    [
        # Transactions v2: the entry is one epoch further.
        # A commit is not known to be of this partition, which may have had its marker, too.
        ("CompleteCommit", EPOCH + 1, BEFORE, UNKNOWN),
        ("CompleteAbort", EPOCH + 1, BEFORE, ABORTED),
        # Before: one epoch has many transactions, and the newest is meant if it began before.
        ("CompleteCommit", EPOCH, BEFORE, UNKNOWN),
        ("CompleteAbort", EPOCH, BEFORE, ABORTED),
        ("CompleteCommit", EPOCH, AFTER, UNKNOWN),
        ("CompleteAbort", EPOCH, AFTER, UNKNOWN),
        ("CompleteCommit", EPOCH + 1, AFTER, UNKNOWN),
        ("CompleteCommit", EPOCH + 1, None, UNKNOWN),
        # Decided, and this partition was dropped while others are still owed their marker.
        ("PrepareCommit", EPOCH + 1, BEFORE, UNKNOWN),
        ("PrepareAbort", EPOCH, BEFORE, ABORTED),
        # Never begun at this epoch, gone on, or another transaction.
        ("Empty", EPOCH, None, ABORTED),
        ("Empty", EPOCH + 1, None, UNKNOWN),
        ("Ongoing", EPOCH + 1, BEFORE, UNKNOWN),
        ("Ongoing", EPOCH, BEFORE, UNKNOWN),
        ("CompleteCommit", EPOCH + 2, BEFORE, UNKNOWN),
        ("CompleteCommit", EPOCH - 1, BEFORE, UNKNOWN),
    ],
)
def test_by_state_epoch_and_clock(
    state: str, epoch: int, start_ms: int | None, expected_decision: PastDecision
) -> None:
    newest_txn = NewestTxn(
        state=state, producer_id=PID, producer_epoch=epoch, start_time_ms=start_ms
    )
    assert (
        DecisionEvidence.from_newest_txn(PID, EPOCH, WRITTEN_MS, newest_txn).decision
        is expected_decision
    )


def test_who_has_gone_on_tells_nothing() -> None:
    assert DecisionEvidence.from_newest_txn(PID, EPOCH, WRITTEN_MS, None).decision is UNKNOWN
    newest_txn = NewestTxn(
        state="CompleteCommit", producer_id=8, producer_epoch=0, start_time_ms=BEFORE
    )
    evidence = DecisionEvidence.from_newest_txn(PID, EPOCH, WRITTEN_MS, newest_txn)
    assert evidence.decision is UNKNOWN
    assert "goes on as producer 8" in str(evidence)


def test_it_says_which_marker_ends_it() -> None:
    def advice_for(state: str) -> str:
        newest_txn = NewestTxn(
            state=state, producer_id=PID, producer_epoch=EPOCH, start_time_ms=BEFORE
        )
        return str(DecisionEvidence.from_newest_txn(PID, EPOCH, WRITTEN_MS, newest_txn))

    assert "was in that transaction and has had its marker" in advice_for("CompleteCommit")
    assert advice_for("CompleteAbort").startswith("It was not committed: end it with ABORT")


HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def note(
    state: str, epoch: int = EPOCH, topic_partition: TopicPartition = HERE, *, is_v2: bool = False
) -> CoordinatorRecord:
    return CoordinatorRecord(
        state=state,
        producer_id=PID,
        producer_epoch=epoch,
        partitions=frozenset({topic_partition}),
        is_v2=is_v2,
        timestamp_ms=WRITTEN_MS,
        start_timestamp_ms=WRITTEN_MS,
    )


NO_MARKER = PartitionMarkers(complete_since_ms=BEFORE_ALL_MARKERS_MS)


def by_log(log: list[CoordinatorRecord], producer_id: int = PID) -> DecisionEvidence | None:
    due_decisions = DueDecisions.for_partition(HERE, producer_id, EPOCH, log)
    return DecisionEvidence.from_log(due_decisions, NO_MARKER, last_write_ms=WRITTEN_MS)


@pytest.mark.parametrize(
    ("log", "expected_decision"),
    [
        ([note("PrepareCommit"), note("CompleteCommit")], COMMITTED),
        ([note("PrepareCommit", EPOCH + 1, is_v2=True)], COMMITTED),
        ([note("PrepareAbort", EPOCH + 1)], ABORTED),  # a fence
        ([note("PrepareCommit"), note("PrepareAbort", topic_partition=THERE)], COMMITTED),
        ([note("PrepareAbort"), note("PrepareAbort")], ABORTED),
        ([note("PrepareCommit"), note("PrepareAbort")], UNKNOWN),  # neither has its marker
        ([note("PrepareCommit", EPOCH + 1)], None),  # a later transaction of an older protocol
        ([note("PrepareCommit", is_v2=True)], None),  # the one before
        ([note("PrepareCommit", EPOCH + 2, is_v2=True)], None),
        ([note("Ongoing"), note("CompleteCommit")], None),
        ([note("PrepareCommit", topic_partition=THERE)], None),
        ([], None),
    ],
)
def test_the_log_tells_of_transactions_that_are_long_over(
    log: list[CoordinatorRecord], expected_decision: PastDecision | None
) -> None:
    evidence = by_log(log)
    assert (None if evidence is None else evidence.decision) == expected_decision
    assert by_log(log, PID + 1) is None


# The transaction log by the text of KIP-890.


S = TransactionState
TV_1, TV_2 = TransactionVersion.TV_1, TransactionVersion.TV_2


@pytest.mark.parametrize(
    ("state", "epoch", "previous_producer_id", "version", "last_epoch"),
    [
        (S.COMPLETE_COMMIT, 5, 7, TV_2, 4),
        (S.COMPLETE_ABORT, 5, 7, TV_2, 4),
        (S.PREPARE_COMMIT, 5, 7, TV_2, 4),
        # The producer id was used up: its end was asked for under the last but one epoch.
        (S.COMPLETE_COMMIT, 0, 6, TV_2, 32_766),
        # Before version 2 an end does not change the identity.
        (S.COMPLETE_COMMIT, 5, 7, TV_1, -1),
        # Past the end nothing is known, nor where the record does not say.
        (S.EMPTY, 5, 7, TV_2, -1),
        (S.ONGOING, 5, 7, TV_2, -1),
        (S.COMPLETE_COMMIT, 5, -1, TV_2, -1),
    ],
)
def test_the_last_epoch_is_known_again(
    state: TransactionState,
    epoch: int,
    previous_producer_id: int,
    version: TransactionVersion,
    last_epoch: int,
) -> None:
    read_metadata = entry(
        state, epoch=epoch, previous_producer_id=previous_producer_id, client_version=version
    )
    loaded_metadata = entry(
        state,
        epoch=epoch,
        previous_producer_id=previous_producer_id,
        client_version=version,
        last_epoch=last_epoch,
    )
    assert restore_last_epoch(read_metadata) == loaded_metadata


def _prev(record: TxnTransition) -> int:
    return record_to_log(record).prev_producer_id


def test_the_previous_id_is_logged_only_around_the_end() -> None:
    first_transition = to_first(TID, producer_id=ProducerId(7), timeout_ms=1_000, now_ms=NOW_MS)
    open_transition = to_ongoing(
        entry(), partitions=frozenset({FOO_0}), client_version=TV_2, now_ms=NOW_MS
    )
    assert (_prev(first_transition), _prev(open_transition)) == (-1, -1)
    assert record_to_log(record_to_log(open_transition)) == record_to_log(open_transition)
    end_transition = to_prepared_v2(
        entry(S.ONGOING), is_commit=True, fresh_producer_id=None, now_ms=NOW_MS
    )
    assert _prev(end_transition) == 7
    rotating_transition = to_complete(
        entry(S.PREPARE_COMMIT, next_producer_id=FRESH), now_ms=NOW_MS
    )
    assert (_prev(rotating_transition), rotating_transition.producer_id) == (7, FRESH)


# Refusals say what was expected and what was found.


RULE = "end.v5.pending"
MOVING = entry(TransactionState.ONGOING, pending_state=TransactionState.PREPARE_ABORT)


@pytest.mark.parametrize(
    ("rejection", "error", "reason"),
    [
        (empty_id_rejection(RULE), ErrorCode.invalid_request, "empty"),
        (unknown_id_rejection(RULE), ErrorCode.invalid_producer_id_mapping, "expired"),
        (no_id_block_rejection(RULE), ErrorCode.coordinator_load_in_progress, "KAFKA-14694"),
        (
            concurrent_rejection(MOVING, RULE),
            ErrorCode.concurrent_transactions,
            "txn-1: PrepareAbort",
        ),
        (concurrent_rejection(entry(), RULE), ErrorCode.concurrent_transactions, "txn-1: Empty"),
        (
            other_producer_rejection(entry(), 8, RULE),
            ErrorCode.invalid_producer_id_mapping,
            "id 7, not 8",
        ),
        (
            fencing_rejection(entry(), 4, RULE),
            ErrorCode.producer_fenced,
            "5 in Empty, the request has 4",
        ),
        (not_found_rejection(TID), ErrorCode.transactional_id_not_found, "txn-1"),
    ],
)
def test_error_and_reason(rejection: Rejection, error: ErrorCode, reason: str) -> None:
    assert rejection.error is error
    assert reason in rejection.reason
    assert rejection.rule in (RULE, "describe.unknown-id")


# What a coordinator is asked and answers.


def test_a_plain_init_producer_id_expects_no_identity() -> None:
    command = commands.InitProducerId(transactional_id=None, timeout_ms=1)
    assert command.expected_identity is None
    assert not command.enable_two_phase_commit
    assert not command.keeps_prepared
