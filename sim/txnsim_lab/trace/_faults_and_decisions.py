"""Collects from a trace what explanations need in addition to the state: the messages that faults
hold, and the coordinators' decisions about finished transactions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from txnsim.faults.points import FaultPoint
from txnsim.runtime.trace import Event
from txnsim.trace.story import transactional_id_of
from txnsim.txn.marker_payment import (
    BEFORE_ALL_MARKERS_MS,
    CoordinatorRecord,
    DueDecisions,
    PartitionMarker,
    PartitionMarkers,
)
from txnsim.txn.past_decision import DecisionEvidence, NewestTxn
from txnsim.types import TopicPartition
from txnsim_lab.trace.state import GONE_STATES

_PREPARED_PREFIX: Final = "Prepare"
_ONGOING_STATE: Final = "Ongoing"
_HOLDING_ACTIONS: Final = ("hold", "reorder", "stall")
"""Actions that hold a message until it is released."""
_UNLIMITED_ACTIONS: Final = frozenset({"hold", "stall"})
_MARKERS_API: Final = "WriteTxnMarkers"
_VERSION_2: Final = 2


class MessageHeldByRule(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a fault rule holds."""

    rule: str
    concerned_transactions: tuple[Mapping[str, Any], ...]
    """The transactions that it concerns, as in ``fault.hit``; empty if there are none."""
    point: str = ""
    api: str = ""
    source: str = ""
    target: str = ""
    is_unlimited: bool = True
    """Whether it waits until the rule is released, however long that takes."""


class FaultsAndDecisions(msgspec.Struct, kw_only=True):
    """Held messages and decisions; follows every event in order."""

    held_message_by_position: dict[int, MessageHeldByRule] = {}
    """Position -> strike, for each message that is held."""
    end_positions: dict[str, int] = {}
    """Transactional id -> position of the event that ended its last transaction."""
    decisions_by_producer: dict[int, list[CoordinatorRecord]] = {}
    """Producer id -> the decisions about its transactions, oldest first."""
    decision_order: list[tuple[int, int]] = []
    """Position and producer id of all decisions, in order."""
    markers: dict[tuple[TopicPartition, int], list[PartitionMarker]] = {}
    """(partition, producer id) -> the markers written there; each has its position as time."""
    ending_markers: set[int] = msgspec.field(default_factory=set)
    """Positions of the markers that have ended records."""
    begin_positions: dict[str, int] = {}
    """Transactional id -> position at which its present transaction began."""
    producer_ids: dict[int, str] = {}
    """Producer id -> its transactional id, of all that were decided."""
    changed_producers: set[tuple[TopicPartition, int]] = msgspec.field(default_factory=set)
    """(partition, producer id) with new markers; a reader takes them away."""
    forgotten_before: int = BEFORE_ALL_MARKERS_MS
    """Events before this position are forgotten."""

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> FaultsAndDecisions:
        """Collect what these events leave."""
        faults_and_decisions = cls()
        for event in events:
            faults_and_decisions.follow(event)
        return faults_and_decisions

    def follow(self, event: Event) -> None:
        """Take the next event."""
        if not isinstance(event.d, Mapping):
            return
        if event.k == "fault.hit":
            if event.d.get("held") and str(event.d.get("action")).startswith(_HOLDING_ACTIONS):
                concerned_transactions = tuple(event.d.get("about", ()))
                action_word = str(event.d.get("action"))
                self.held_message_by_position[event.i] = MessageHeldByRule(
                    rule=event.d["rule"],
                    concerned_transactions=concerned_transactions,
                    point=event.d.get("point", ""),
                    api=event.d.get("api", ""),
                    source=event.d.get("source", ""),
                    target=event.d.get("target", ""),
                    is_unlimited=action_word in _UNLIMITED_ACTIONS
                    or action_word.startswith("reorder"),
                )
        elif event.k == "fault.release":
            if event.p:
                self.held_message_by_position.pop(event.p[0], None)
        elif event.k == "txn.complete":
            self._follow_transition(event, event.d)
        elif event.k == "marker.written":
            self._write_marker(event, event.d)
        elif event.k == "pid.close":
            written_markers = self.markers.get((partition_of(event.d["tp"]), event.d["pid"]))
            if written_markers:
                self.ending_markers.add(written_markers[-1].timestamp_ms)
        elif event.k == "node.role" and event.d.get("role") == "leader":
            self._cut_markers(partition_of(event.d["tp"]), event.d.get("end", 0))
        elif event.k == "cluster.reset":
            self._forget_cluster()

    def _cut_markers(self, partition: TopicPartition, end_offset: int) -> None:
        """Forget markers that a new leader's log does not have."""
        for marker_key, written_markers in self.markers.items():
            if marker_key[0] == partition and written_markers[-1].offset >= end_offset:
                written_markers[:] = [
                    marker for marker in written_markers if marker.offset < end_offset
                ]
        self.markers = {key: markers for key, markers in self.markers.items() if markers}

    def _forget_cluster(self) -> None:
        for table in (
            self.held_message_by_position,
            self.end_positions,
            self.decisions_by_producer,
            self.markers,
            self.begin_positions,
        ):
            table.clear()
        self.producer_ids.clear()
        self.decision_order.clear()
        self.ending_markers.clear()

    def forget_partition(self, partition: TopicPartition) -> None:
        """Forget the markers of a partition that was deleted."""
        for marker_key in [key for key in self.markers if key[0] == partition]:
            del self.markers[marker_key]

    def marker_hold(
        self, producer_id: int, partition: str, *, source: str, target: str | None
    ) -> str | None:
        """The rule that holds a marker without a limit, or the request before it to the same
        broker; None if none does.
        """
        for held_message in self.held_message_by_position.values():
            if not held_message.is_unlimited:
                continue
            is_request = held_message.api == _MARKERS_API
            if is_request and (held_message.source, held_message.target) == (source, target):
                return held_message.rule
            if (is_request or held_message.point == FaultPoint.LOG_APPEND) and any(
                concerned_transaction.get("pid") == producer_id
                and partition in concerned_transaction["partitions"]
                for concerned_transaction in held_message.concerned_transactions
            ):
                return held_message.rule
        return None

    def _write_marker(self, event: Event, payload: Mapping[str, Any]) -> None:
        marker = PartitionMarker(
            offset=payload["offset"],
            producer_epoch=payload["epoch"],
            is_commit=bool(payload["committed"]),
            timestamp_ms=event.i,
        )
        marker_key = partition_of(payload["tp"]), payload["pid"]
        self.markers.setdefault(marker_key, []).append(marker)
        self.changed_producers.add(marker_key)

    def _follow_transition(self, event: Event, payload: Mapping[str, Any]) -> None:
        transactional_id = transactional_id_of(event.tx)
        if payload["state"] == _ONGOING_STATE:
            self.begin_positions.setdefault(transactional_id, event.i)
        elif not payload["state"].startswith(_PREPARED_PREFIX):
            self.begin_positions.pop(transactional_id, None)
        if payload["state"] in GONE_STATES:
            self.end_positions.pop(transactional_id, None)
        elif payload["state"].startswith(_PREPARED_PREFIX):
            decision = _decision_of(
                event.i, payload, self.begin_positions.get(transactional_id, event.i)
            )
            self.producer_ids[decision.producer_id] = transactional_id
            self.decisions_by_producer.setdefault(decision.producer_id, []).append(decision)
            self.decision_order.append((event.i, decision.producer_id))
        elif payload["state"] != _ONGOING_STATE:
            self.end_positions[transactional_id] = event.i

    def held_strikes(
        self, transactional_id: str | None, producer_id: int, partition: str
    ) -> Iterator[tuple[int, str]]:
        """Held messages of the id's newest transaction, as position and rule."""
        ended_at = -1 if transactional_id is None else self.end_positions.get(transactional_id, -1)
        for position, held_message in self.held_message_by_position.items():
            if position > ended_at and any(
                _concerns(held_transaction, transactional_id, producer_id, partition)
                for held_transaction in held_message.concerned_transactions
            ):
                yield position, held_message.rule

    def forget(self, position: int) -> None:
        """Forget the events before a position, like a reader that does not have them."""
        forgotten_count = bisect_left(self.decision_order, (position,))
        for _, producer_id in self.decision_order[:forgotten_count]:
            producer_decisions = self.decisions_by_producer[producer_id]
            del producer_decisions[0]
            if not producer_decisions:
                del self.decisions_by_producer[producer_id]
        del self.decision_order[:forgotten_count]
        self.held_message_by_position = {
            strike_position: held_message
            for strike_position, held_message in self.held_message_by_position.items()
            if strike_position >= position
        }
        self.forgotten_before = position
        later_markers = (
            (marker_key, [marker for marker in written_markers if marker.timestamp_ms >= position])
            for marker_key, written_markers in self.markers.items()
        )
        self.markers = {
            marker_key: written_markers
            for marker_key, written_markers in later_markers
            if written_markers
        }

    def decision_of(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        first_offset: int,
        opening_position: int,
        last_timestamp_ms: int,
        transaction: Mapping[str, Any] | None,
    ) -> DecisionEvidence:
        """The decision about a hanging transaction, as it would be found on a running cluster.

        Args:
            partition: The partition on which it is open.
            producer_id: The producer id in the leader's state.
            producer_epoch: The epoch in the leader's state.
            first_offset: First offset of the transaction.
            opening_position: Position of the event that opened it; -1 if unknown.
            last_timestamp_ms: Time of the producer's last write on the partition.
            transaction: The coordinator's state of the transactional id; None if there is none.
        """
        decisions_of_producer = self.decisions_by_producer.get(producer_id, ())
        # The trace has one order for both sides: positions take the part of times.
        due_decisions = DueDecisions.for_partition(
            partition, producer_id, producer_epoch, decisions_of_producer, skew_ms=0
        )
        markers = PartitionMarkers(
            markers=tuple(
                marker
                for marker in self.markers.get((partition, producer_id), ())
                if marker.offset < first_offset
            ),
            complete_since_ms=self.forgotten_before,
        )
        past_decision = DecisionEvidence.from_log(
            due_decisions, markers, last_write_ms=opening_position
        )
        if past_decision is not None:
            return past_decision
        newest_record = None if transaction is None else _newest_record(transaction)
        return DecisionEvidence.from_newest_txn(
            producer_id, producer_epoch, last_timestamp_ms, newest_record
        )


def _concerns(
    held_transaction: Mapping[str, Any],
    transactional_id: str | None,
    producer_id: int,
    partition: str,
) -> bool:
    """Whether a held message concerns a transaction. A message with a transactional id holds up the
    whole transaction; a marker has only the producer id, and concerns its partitions.
    """
    if held_transaction.get("id") is not None:
        return bool(held_transaction["id"] == transactional_id)
    return bool(
        held_transaction.get("pid") == producer_id and partition in held_transaction["partitions"]
    )


def _decision_of(
    position: int, payload: Mapping[str, Any], begin_position: int
) -> CoordinatorRecord:
    return CoordinatorRecord(
        state=payload["state"],
        producer_id=payload["pid"],
        producer_epoch=payload["epoch"],
        partitions=frozenset(map(partition_of, payload["partitions"])),
        is_v2=payload.get("version", 0) >= _VERSION_2,
        timestamp_ms=position,
        start_timestamp_ms=begin_position,
    )


def _newest_record(transaction: Mapping[str, Any]) -> NewestTxn:
    started_ms = transaction.get("started_ms", -1)
    return NewestTxn(
        state=transaction["state"],
        producer_id=transaction["pid"],
        producer_epoch=transaction["epoch"],
        start_time_ms=started_ms if started_ms >= 0 else None,
    )


def partition_of(partition_name: str) -> TopicPartition:
    """The partition of a name such as ``orders-0``, as events have it."""
    topic, _, partition_index = partition_name.rpartition("-")
    return TopicPartition(topic, int(partition_index))
