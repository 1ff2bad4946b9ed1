"""Trace events of share partitions.

Each event has the state of its share partition afterwards, so that a reader can just take it over:
the start offset, the offset that the next fetch reads from, and which member holds which records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from txnsim.broker._led_share_partition import LedShare
from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.share_state import StateBatch
from txnsim.runtime.trace import NO_CAUSE, Tracer
from txnsim.share.commands import AcknowledgementBatch, AcquiredRange, RecordState
from txnsim.types import IsolationLevel

LISTED_RANGES_MAX: Final = 100
"""Number of record ranges of a kind that an event lists."""
SEARCHED_RANGES_MAX: Final = 1_000
"""Number of record ranges that are searched for acquired records."""
EventFields = dict[str, object]


class ShareTrace:
    """Traces one broker's share partitions."""

    def __init__(
        self, tracer: Tracer, node: str, isolation_of: Callable[[str], IsolationLevel]
    ) -> None:
        self._tracer = tracer
        self._node = node
        self._isolation_of = isolation_of

    def state_fields(self, led_share: LedShare) -> EventFields:
        """The state of a share partition, as event fields.

        ``next`` is the offset of the next fetch; ``held`` lists the first acquired ranges as
        ``first-last:member``. An acknowledgement counts only once it is persisted.
        """
        share_partition = led_share.share_partition
        held_ranges = islice(share_partition.holders(SEARCHED_RANGES_MAX), LISTED_RANGES_MAX)
        return {
            "start": share_partition.start_offset,
            "next": share_partition.next_offset,
            "held": [
                f"{first_offset}-{last_offset}:{member}"
                for first_offset, last_offset, member in held_ranges
            ],
            "isolation": self._isolation_of(share_partition.key.group_id).name.lower(),
        }

    def snapshot(self, led_share: LedShare) -> EventFields:
        return {**_name_fields(led_share), **self.state_fields(led_share), "node": self._node}

    def trace_load(self, led_share: LedShare, rejection: Rejection | None) -> None:
        share_partition = led_share.share_partition
        event_data: EventFields = {
            "state_epoch": share_partition.state_epoch,
            "leader_epoch": share_partition.leader_epoch,
        }
        if rejection is None:
            event_data["end"] = share_partition.end_offset
        self._emit_event(
            "share.load",
            led_share,
            {**event_data, **_error_field(rejection)},
            shows_state=rejection is None,
        )

    def trace_acquisition(
        self,
        led_share: LedShare,
        member_id: str,
        ranges: Sequence[AcquiredRange],
    ) -> None:
        """Trace an acquisition, even an empty one: aborted records may have been skipped."""
        range_texts = [
            f"{acquired_range.first_offset}-{acquired_range.last_offset}:{acquired_range.delivery_count}"
            for acquired_range in ranges[:LISTED_RANGES_MAX]
        ]
        self._emit_event("share.acquire", led_share, {"member": member_id, "ranges": range_texts})

    def trace_acknowledgement(
        self,
        led_share: LedShare,
        member_id: str,
        batches: Sequence[AcknowledgementBatch],
        rejection: Rejection | None,
    ) -> None:
        if not self._tracer.on:
            return
        batch_texts = [
            f"{batch.first_offset}-{batch.last_offset}:{','.join(map(str, batch.types))}"
            for batch in batches[:LISTED_RANGES_MAX]
        ]
        event_data = {"member": member_id, "batches": batch_texts, **_error_field(rejection)}
        self._emit_event("share.acknowledge", led_share, event_data, shows_state=False)

    def trace_lock_timeout(self, lock_ms: int) -> int:
        """Trace an acquisition lock that has timed out with records to release, and make it the
        current cause. Return the previous cause, for ``set_cause``.
        """
        tracer, event_data = self._tracer, {"timer": "share.record.lock", "waited_ms": lock_ms}
        timer_event = tracer.emit("timer.fire", self._node, parents=(NO_CAUSE,), data=event_data)
        return tracer.set_cause(timer_event)

    def set_cause(self, event: int) -> None:
        """Make an event the current cause again."""
        self._tracer.set_cause(event)

    def trace_release(
        self,
        led_share: LedShare,
        batches: Iterable[StateBatch],
        **reason_fields: str,
    ) -> None:
        if self._tracer.on:
            self._emit_event(
                "share.release", led_share, {"batches": _batch_texts(batches), **reason_fields}
            )

    def trace_persisting(
        self,
        led_share: LedShare,
        batches: Iterable[StateBatch],
        rejection: Rejection | None,
    ) -> None:
        if self._tracer.on:
            event_data = {"batches": _batch_texts(batches), **_error_field(rejection)}
            self._emit_event("share.persist", led_share, event_data)

    def trace_log_start(self, led_share: LedShare) -> None:
        self._emit_event("share.start", led_share, {})

    def trace_unload(self, led_share: LedShare) -> None:
        self._emit_event("share.unload", led_share, {}, shows_state=False)

    def _emit_event(
        self,
        event_kind: str,
        led_share: LedShare,
        event_fields: EventFields,
        *,
        shows_state: bool = True,
    ) -> None:
        if self._tracer.on:
            all_fields = {**_name_fields(led_share), **event_fields}
            if shows_state:
                all_fields |= self.state_fields(led_share)
            self._tracer.emit(event_kind, self._node, data=all_fields)


def _name_fields(led_share: LedShare) -> EventFields:
    return {"group": led_share.share_partition.key.group_id, "tp": str(led_share.topic_partition)}


def _batch_texts(batches: Iterable[StateBatch]) -> list[str]:
    return [
        f"{batch.first_offset}-{batch.last_offset}:{RecordState(batch.delivery_state).name.lower()}"
        f":{batch.delivery_count}"
        for batch in islice(batches, LISTED_RANGES_MAX)
    ]


def _error_field(rejection: Rejection | None) -> dict[str, object]:
    return {} if rejection is None else {"error": ErrorCode(rejection.error).name.upper()}
