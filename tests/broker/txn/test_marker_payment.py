"""Which decision a partition's markers have paid, and the advice that follows: never COMMIT for
what no transaction held, COMMIT for what a lost marker left open (KAFKA-20734).

Each history is made with its truth: what every record of the open run was written in. The advice
sees the two logs alone.
"""

from __future__ import annotations

from typing import Final

import msgspec
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.support.txn_entries import entry
from txnsim.txn.marker_payment import (
    AFTER_ALL_MARKERS_MS,
    BEFORE_ALL_MARKERS_MS,
    NO_MARKERS,
    SKEW_MS,
    CoordinatorRecord,
    DueDecisions,
    PartitionMarker,
    PartitionMarkers,
    Payment,
)
from txnsim.txn.past_decision import DecisionEvidence, PastDecision
from txnsim.txn.state import TransactionState
from txnsim.txn.transitions import to_prepared_v1
from txnsim.types import TopicPartition, TransactionVersion

HERE, THERE = TopicPartition("orders", 1), TopicPartition("orders", 2)
PID: Final = 1001
START_MS: Final = 1_000_000


class Txn(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a drawn history: the producer runs a transaction."""

    is_commit: bool
    is_here: bool = True
    """It has the partition."""
    records: int = 1
    """Written on the partition before the decision."""
    duration_ms: int = 50
    pause_ms: int = 5
    """Before it begins."""
    marker: str = "written"
    """``written``, ``lost``, or ``twice``."""


class Stray(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a drawn history: the producer writes a record outside of transactions."""

    pause_ms: int = 60_000


class OperatorAbort(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a drawn history: an operator's marker, without a decision, ends a transaction."""


Step = Txn | Stray | OperatorAbort


class History:
    """The logs of the coordinator and of the partition after all steps, and the true outcomes."""

    def __init__(
        self, steps: list[Step], *, is_v2: bool, skew_ms: int, backdated_ms: int = 0
    ) -> None:
        self._backdated_ms = backdated_ms
        self.noted: list[CoordinatorRecord] = []
        self.markers: list[PartitionMarker] = []
        self.run: list[str] = []
        """What each open record was written in: ``committed``, ``aborted``, ``nothing``."""
        self._owed: list[tuple[int, bool]] = []
        """Decisions with the partition since the last marker: epoch, and whether they commit."""
        self.last_write_ms = -1
        self.start_offset = -1
        self._is_v2, self._skew_ms = is_v2, skew_ms
        self._now_ms, self._offset, self._epoch = START_MS, 0, 0
        self.leader_epoch = 0
        self.gaps_ms: list[int] = []
        """From the last marker to each decision with the partition."""
        self._note_state("Empty", frozenset(), self._now_ms)
        for step in steps:
            match step:
                case Txn():
                    self._play_transaction(step)
                case Stray():
                    self._now_ms += step.pause_ms
                    self._write("nothing")
                case OperatorAbort():
                    self._now_ms += 60_000
                    self._mark(self.leader_epoch, is_commit=False)

    def _note_state(self, state: str, partitions: frozenset[TopicPartition], start_ms: int) -> None:
        self.noted.append(
            CoordinatorRecord(
                state=state,
                producer_id=PID,
                producer_epoch=self._epoch,
                partitions=partitions,
                is_v2=self._is_v2,
                timestamp_ms=self._now_ms,
                start_timestamp_ms=start_ms,
            )
        )

    def _play_transaction(self, txn: Txn) -> None:
        self._now_ms += txn.pause_ms
        start_ms = self._now_ms
        for _ in range(txn.records if txn.is_here else 0):
            self._write("committed" if txn.is_commit else "aborted")
        self._now_ms += txn.duration_ms
        self._epoch += self._is_v2
        partitions = frozenset({HERE} if txn.is_here else {THERE})
        self._note_state("PrepareCommit" if txn.is_commit else "PrepareAbort", partitions, start_ms)
        if not txn.is_here:
            return
        if self.markers:
            self.gaps_ms.append(self._now_ms + self._skew_ms - self.markers[-1].timestamp_ms)
        self._owed.append((self._epoch, txn.is_commit))
        for _ in range({"written": 1, "lost": 0, "twice": 2}[txn.marker]):
            self._now_ms += 2
            self._mark(self._epoch, is_commit=txn.is_commit)

    def _write(self, origin: str) -> None:
        if self._epoch < self.leader_epoch:
            return  # the leader fences it
        self.leader_epoch = self._epoch
        if not self.run:
            self.start_offset = self._offset
        self.run.append(origin)
        self.last_write_ms = self._now_ms - self._backdated_ms
        self._offset += 1

    def _mark(self, epoch: int, *, is_commit: bool) -> None:
        self.markers.append(
            PartitionMarker(
                offset=self._offset,
                producer_epoch=epoch,
                is_commit=is_commit,
                timestamp_ms=self._now_ms + self._skew_ms,
            )
        )
        self.leader_epoch = max(self.leader_epoch, epoch)
        self.run, self._owed = [], []
        self._offset += 1

    @property
    def owed(self) -> list[bool]:
        """Whether they commit: the decisions that the open records lack. Under transactions v2 the
        epoch tells; a later transaction without a record here has no part in them.
        """
        epochs = {self.leader_epoch + 1} if self._is_v2 else {epoch for epoch, _ in self._owed}
        return [is_commit for epoch, is_commit in self._owed if epoch in epochs]

    def advice(self, *, compacted: int = 0, retained_from: int = 0) -> PastDecision:
        """The decision that the logs tell.

        Args:
            compacted: Records that are gone from the front of the coordinator's log.
            retained_from: Markers that are gone from the front of the partition's log.
        """
        due_decisions = DueDecisions.for_partition(
            HERE, PID, self.leader_epoch, self.noted[compacted:]
        )
        markers_left = tuple(self.markers[retained_from:])
        whole_since_ms = BEFORE_ALL_MARKERS_MS
        if retained_from:
            whole_since_ms = markers_left[0].timestamp_ms if markers_left else AFTER_ALL_MARKERS_MS
        markers = PartitionMarkers(markers=markers_left, complete_since_ms=whole_since_ms)
        evidence = DecisionEvidence.from_log(
            due_decisions, markers, last_write_ms=self.last_write_ms
        )
        return PastDecision.UNKNOWN if evidence is None else evidence.decision


durations = st.sampled_from([3, 50, 900, 3_000, 30_000])
transactions = st.builds(
    Txn,
    is_commit=st.booleans(),
    is_here=st.sampled_from([True, True, True, False]),
    records=st.integers(0, 2),
    duration_ms=durations,
    pause_ms=durations,
    marker=st.sampled_from(["written", "written", "lost", "twice"]),
)
strays = st.builds(Stray, pause_ms=st.sampled_from([1, 60_000]))
steps = st.lists(transactions | strays | st.just(OperatorAbort()), min_size=1, max_size=7)
skews = st.integers(1 - SKEW_MS, SKEW_MS - 1)


@settings(max_examples=600, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    steps=steps,
    is_v2=st.booleans(),
    skew_ms=skews,
    compacted=st.integers(0, 3),
    retained_from=st.integers(0, 2),
    backdated_ms=st.sampled_from([0, 3_600_000]),
)
@example(  # a lost marker, then one that is paid, and a stray record behind it
    steps=[Txn(is_commit=True, marker="lost"), Txn(is_commit=True), Stray()],
    is_v2=False,
    skew_ms=-900,
    compacted=0,
    retained_from=0,
    backdated_ms=3_600_000,
)
@example(  # the next transaction has the partition, and no record on it
    steps=[
        Txn(is_commit=True, marker="lost"),
        Txn(is_commit=False, records=0, marker="lost"),
    ],
    is_v2=True,
    skew_ms=0,
    compacted=0,
    retained_from=0,
    backdated_ms=0,
)
def test_commit_is_advised_for_records_of_committed_transactions_alone(
    steps: list[Step],
    *,
    is_v2: bool,
    skew_ms: int,
    compacted: int,
    retained_from: int,
    backdated_ms: int,
) -> None:
    history = History(steps, is_v2=is_v2, skew_ms=skew_ms, backdated_ms=backdated_ms)
    assume(history.run)
    advised_decision = history.advice(
        compacted=compacted, retained_from=min(retained_from, len(history.markers))
    )
    if advised_decision is PastDecision.COMMITTED:
        # A late record in front of a transaction's own is committed with it, as Kafka's marker
        # would have done (story z02). The one that is owed says so.
        assert history.owed
        assert history.owed[-1]
        # Two lost markers in a row with two outcomes show only while the log has both decisions.
        assert compacted or all(history.owed)


@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    txns_before=st.lists(
        st.builds(Txn, is_commit=st.booleans(), duration_ms=durations, pause_ms=durations),
        max_size=4,
    ),
    last_txn=st.builds(
        Txn,
        is_commit=st.booleans(),
        records=st.just(1),
        duration_ms=durations,
        pause_ms=durations,
        marker=st.just("lost"),
    ),
    is_v2=st.booleans(),
    skew_ms=skews,
)
def test_a_lost_marker_is_still_due(
    txns_before: list[Txn], last_txn: Txn, *, is_v2: bool, skew_ms: int
) -> None:
    """Certainly under transactions v2, for the first of an epoch, and where two seconds lie
    between the last marker and the decision. Else the clocks may not tell; never the opposite."""
    history = History([*txns_before, last_txn], is_v2=is_v2, skew_ms=skew_ms)
    advised_decision = history.advice()
    expected_decision = PastDecision.COMMITTED if last_txn.is_commit else PastDecision.ABORTED
    is_ordered = not txns_before or history.gaps_ms[-1] > 2 * SKEW_MS
    # Where a leader's clock is behind, an earlier decision may seem to lack its marker, too.
    is_alike = skew_ms >= 0 or all(txn.is_commit == last_txn.is_commit for txn in txns_before)
    if is_v2 or (is_ordered and is_alike):
        assert advised_decision is expected_decision
    assert advised_decision in (expected_decision, PastDecision.UNKNOWN)


@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    transactions=st.lists(
        st.builds(
            Txn,
            is_commit=st.booleans(),
            is_here=st.booleans(),
            duration_ms=durations,
            pause_ms=durations,
        ),
        min_size=1,
        max_size=5,
    ),
    stray_count=st.integers(1, 2),
    is_v2=st.booleans(),
    skew_ms=st.integers(-100_000, 100_000),
)
def test_what_lies_behind_the_marker_of_the_last_decision_is_never_committed(
    transactions: list[Txn], stray_count: int, *, is_v2: bool, skew_ms: int
) -> None:
    """However wrong the clocks are, as the logs are whole: each decision has its marker."""
    history = History(
        [*transactions, *[Stray()] * stray_count],
        is_v2=is_v2,
        skew_ms=skew_ms,
        backdated_ms=3_600_000,  # as producers that stamp events do: their clock tells nothing
    )
    assume(history.run)
    assert history.advice() is not PastDecision.COMMITTED


# One decision and the last marker in front of the open transaction, by each kind of evidence.


def decision(
    epoch: int = 3, *, at_ms: int = START_MS, duration_ms: int = 10, is_v2: bool = False
) -> CoordinatorRecord:
    return CoordinatorRecord(
        state="PrepareCommit",
        producer_id=PID,
        producer_epoch=epoch,
        partitions=frozenset({HERE}),
        is_v2=is_v2,
        timestamp_ms=at_ms,
        start_timestamp_ms=at_ms - duration_ms,
    )


@pytest.mark.parametrize(
    ("version", "start_ms", "is_v2", "started_ms"),
    [
        (TransactionVersion.TV_0, START_MS - 10, False, START_MS - 10),
        (TransactionVersion.TV_1, 0, False, 0),
        (TransactionVersion.TV_2, -1, True, START_MS),
    ],
)
def test_a_record_without_a_start_begins_when_it_was_written(
    version: TransactionVersion, start_ms: int, started_ms: int, *, is_v2: bool
) -> None:
    transition = msgspec.structs.replace(
        to_prepared_v1(
            entry(TransactionState.ONGOING, partitions=frozenset({HERE}), start_ms=start_ms),
            is_commit=True,
            now_ms=START_MS,
        ),
        client_version=version,
    )
    assert CoordinatorRecord.of_transition(transition) == CoordinatorRecord(
        state="PrepareCommit",
        producer_id=7,
        producer_epoch=5,
        partitions=frozenset({HERE}),
        is_v2=is_v2,
        timestamp_ms=START_MS,
        start_timestamp_ms=started_ms,
    )


def due(*log: CoordinatorRecord, skew_ms: int = SKEW_MS) -> DueDecisions:
    due_decisions = DueDecisions.for_partition(
        HERE, PID, log[-1].producer_epoch, log, skew_ms=skew_ms
    )
    assert due_decisions is not None
    return due_decisions


def markers_after(
    after_ms: int, *, epoch: int = 3, whole_since_ms: int = BEFORE_ALL_MARKERS_MS
) -> PartitionMarkers:
    """A COMMIT marker whose timestamp is ``after_ms`` after the decision."""
    marker = PartitionMarker(
        offset=8, producer_epoch=epoch, is_commit=True, timestamp_ms=START_MS + after_ms
    )
    return PartitionMarkers(markers=(marker,), complete_since_ms=whole_since_ms)


@pytest.mark.parametrize(
    ("markers", "payment"),
    [
        (markers_after(5_000), Payment.PAID),
        (markers_after(-5_000), Payment.UNPAID),
        (markers_after(5), Payment.UNKNOWN),  # nothing to count from
        (markers_after(5, epoch=2), Payment.UNPAID),
        (markers_after(5_000, epoch=2), Payment.PAID),  # of nobody, yet behind the decision
        (markers_after(5, epoch=4), Payment.PAID),
        (markers_after(-5_000, epoch=4), Payment.UNKNOWN),
        (markers_after(5_000, whole_since_ms=AFTER_ALL_MARKERS_MS), Payment.PAID),
        (markers_after(-5_000, whole_since_ms=AFTER_ALL_MARKERS_MS), Payment.UNKNOWN),
        (PartitionMarkers(complete_since_ms=BEFORE_ALL_MARKERS_MS), Payment.UNPAID),
        (NO_MARKERS, Payment.UNKNOWN),
    ],
)
def test_epoch_and_order_tell_what_is_paid(markers: PartitionMarkers, payment: Payment) -> None:
    assert due(decision()).payment(markers) is payment


@pytest.mark.parametrize(("after_ms", "payment"), [(0, Payment.PAID), (-1, Payment.UNPAID)])
def test_on_one_clock_the_order_tells_all(after_ms: int, payment: Payment) -> None:
    one_clock = msgspec.structs.replace(due(decision()), skew_ms=0)
    decided_after_ms = one_clock.newest_decision.timestamp_ms - START_MS
    assert one_clock.payment(markers_after(decided_after_ms + after_ms)) is payment


def test_markers_are_needed_from_the_pause_before_a_decision_on() -> None:
    earlier_record = decision(at_ms=START_MS - 60_000)
    assert due(earlier_record, decision()).markers_needed_since_ms == START_MS - 10 - SKEW_MS
    near_record = decision(at_ms=START_MS - 100)
    assert due(near_record, decision()).markers_needed_since_ms == START_MS - 110 - SKEW_MS


def test_a_pause_is_a_place_to_count_from() -> None:
    """Each of two decisions, which are a minute apart, has its own marker."""
    due_markers = due(decision(at_ms=START_MS - 60_000), decision())
    assert (
        due_markers.payment(markers_after(3, whole_since_ms=due_markers.markers_needed_since_ms))
        is Payment.PAID
    )
    cut_off_markers = markers_after(3, whole_since_ms=due_markers.markers_needed_since_ms + 1)
    assert due_markers.payment(cut_off_markers) is Payment.UNKNOWN, (
        "a marker before these may be gone"
    )


@pytest.mark.parametrize(("after_ms", "payment"), [(1, Payment.PAID), (-1, Payment.UNPAID)])
def test_of_one_clock_the_order_is_certain(after_ms: int, payment: Payment) -> None:
    assert due(decision(), skew_ms=0).payment(markers_after(after_ms)) is payment
