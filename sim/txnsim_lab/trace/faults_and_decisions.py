"""Collects from a trace what explanations need in addition to the state: the messages that faults
hold, and the coordinators' decisions about finished transactions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from txnsim.runtime.trace import Event
from txnsim.trace.story import id_of
from txnsim.txn.marker_payment import (
    BEFORE_ALL_MARKERS_MS,
    CoordinatorRecord,
    DueDecisions,
    PartitionMarker,
    PartitionMarkers,
)
from txnsim.txn.past_decision import Decided, NewestTxn
from txnsim.types import TopicPartition
from txnsim_lab.trace.state import GONE

_PREPARED: Final = "Prepare"
_ONGOING: Final = "Ongoing"
_HOLDING: Final = ("hold", "reorder", "stall")
"""Actions that hold a message until it is released."""
_V2: Final = 2


class Strike(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a fault rule holds."""

    rule: str
    about: tuple[Mapping[str, Any], ...]
    """The transactions that it concerns, as in ``fault.hit``; empty if there are none."""


class Remembered(msgspec.Struct, kw_only=True):
    """Held messages and decisions; follows every event in order."""

    strikes: dict[int, Strike] = {}
    """Position -> strike, for each message that is held."""
    ended: dict[str, int] = {}
    """Transactional id -> position of the event that ended its last transaction."""
    decisions: dict[int, list[CoordinatorRecord]] = {}
    """Producer id -> the decisions about its transactions, oldest first."""
    order: list[tuple[int, int]] = []
    """Position and producer id of all decisions, in order."""
    markers: dict[tuple[TopicPartition, int], list[PartitionMarker]] = {}
    """(partition, producer id) -> the markers written there; each has its position as time."""
    forgotten_before: int = BEFORE_ALL_MARKERS_MS
    """Events before this position are forgotten."""

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> Remembered:
        """Collect what these events leave."""
        remembered = cls()
        for event in events:
            remembered.follow(event)
        return remembered

    def follow(self, event: Event) -> None:
        """Take the next event."""
        if not isinstance(event.d, Mapping):
            return
        if event.k == "fault.hit":
            if event.d.get("held") and str(event.d.get("action")).startswith(_HOLDING):
                about = tuple(event.d.get("about", ()))
                self.strikes[event.i] = Strike(rule=event.d["rule"], about=about)
        elif event.k == "fault.release":
            if event.p:
                self.strikes.pop(event.p[0], None)
        elif event.k == "txn.complete":
            self._move(event, event.d)
        elif event.k == "marker.written":
            self._write_marker(event, event.d)

    def _write_marker(self, event: Event, data: Mapping[str, Any]) -> None:
        marker = PartitionMarker(
            offset=data["offset"],
            producer_epoch=data["epoch"],
            is_commit=bool(data["committed"]),
            timestamp_ms=event.i,
        )
        whose = _partition_of(data["tp"]), data["pid"]
        self.markers.setdefault(whose, []).append(marker)

    def _move(self, event: Event, data: Mapping[str, Any]) -> None:
        if data["state"] in GONE:
            self.ended.pop(id_of(event.tx), None)
        elif data["state"].startswith(_PREPARED):
            noted = _decision_of(event.i, data)
            self.decisions.setdefault(noted.producer_id, []).append(noted)
            self.order.append((event.i, noted.producer_id))
        elif data["state"] != _ONGOING:
            self.ended[id_of(event.tx)] = event.i

    def held_strikes(
        self, transactional_id: str | None, producer_id: int, partition: str
    ) -> Iterator[tuple[int, str]]:
        """Held messages of the id's newest transaction, as position and rule."""
        since = -1 if transactional_id is None else self.ended.get(transactional_id, -1)
        for position, strike in self.strikes.items():
            if position > since and any(
                _concerns(message, transactional_id, producer_id, partition)
                for message in strike.about
            ):
                yield position, strike.rule

    def forget(self, position: int) -> None:
        """Forget the events before a position, like a reader that does not have them."""
        cut = bisect_left(self.order, (position,))
        for _, producer_id in self.order[:cut]:
            of_producer = self.decisions[producer_id]
            del of_producer[0]
            if not of_producer:
                del self.decisions[producer_id]
        del self.order[:cut]
        self.strikes = {
            strike_position: strike
            for strike_position, strike in self.strikes.items()
            if strike_position >= position
        }
        self.forgotten_before = position
        later_markers = (
            (whose, [marker for marker in written if marker.timestamp_ms >= position])
            for whose, written in self.markers.items()
        )
        self.markers = {whose: written for whose, written in later_markers if written}

    def decision_of(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        first_offset: int,
        opened_by: int,
        last_timestamp_ms: int,
        entry: Mapping[str, Any] | None,
    ) -> Decided:
        """The decision about a hanging transaction, as it would be found on a running cluster.

        Args:
            partition: The partition on which it is open.
            producer_id: The producer id in the leader's state.
            producer_epoch: The epoch in the leader's state.
            first_offset: First offset of the transaction.
            opened_by: Position of the event that opened it; -1 if unknown.
            last_timestamp_ms: Time of the producer's last write on the partition.
            entry: The coordinator's state of the transactional id; None if there is none.
        """
        log = self.decisions.get(producer_id, ())
        # The trace has one order for both sides: positions take the part of times.
        due = DueDecisions.for_partition(partition, producer_id, producer_epoch, log, skew_ms=0)
        markers = PartitionMarkers(
            markers=tuple(
                marker
                for marker in self.markers.get((partition, producer_id), ())
                if marker.offset < first_offset
            ),
            complete_since_ms=self.forgotten_before,
        )
        outcome = Decided.from_log(due, markers, last_write_ms=opened_by)
        if outcome is not None:
            return outcome
        newest = None if entry is None else _newest(entry)
        return Decided.from_newest_txn(producer_id, producer_epoch, last_timestamp_ms, newest)


def _concerns(
    about: Mapping[str, Any], transactional_id: str | None, producer_id: int, partition: str
) -> bool:
    """Whether a held message concerns a transaction. A message with a transactional id holds up the
    whole transaction; a marker has only the producer id, and concerns its partitions.
    """
    if about.get("id") is not None:
        return bool(about["id"] == transactional_id)
    return bool(about.get("pid") == producer_id and partition in about["partitions"])


def _decision_of(position: int, data: Mapping[str, Any]) -> CoordinatorRecord:
    return CoordinatorRecord(
        state=data["state"],
        producer_id=data["pid"],
        producer_epoch=data["epoch"],
        partitions=frozenset(map(_partition_of, data["partitions"])),
        is_v2=data.get("version", 0) >= _V2,
        timestamp_ms=position,
        start_timestamp_ms=position,
    )


def _newest(entry: Mapping[str, Any]) -> NewestTxn:
    started_ms = entry.get("started_ms", -1)
    return NewestTxn(
        state=entry["state"],
        producer_id=entry["pid"],
        producer_epoch=entry["epoch"],
        start_time_ms=started_ms if started_ms >= 0 else None,
    )


def _partition_of(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
