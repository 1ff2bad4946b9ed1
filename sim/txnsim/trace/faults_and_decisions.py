"""What an explanation needs beside the state of a trace: which faults have struck, and what
coordinators wrote down about transactions that they have finished.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from txnsim.runtime.trace import Event
from txnsim.txn.past_decision import Decided, Newest, Noted, decided, decided_by_log
from txnsim.types import TopicPartition

_PREPARED: Final = "Prepare"
_V2: Final = 2


class Remembered(msgspec.Struct, kw_only=True):
    """Follow every event in order, or begin with nothing."""

    hits: dict[str, int] = {}
    """Fault rule -> position of the last crossing that it has struck."""
    decisions: dict[int, list[Noted]] = {}
    """Producer id -> what was decided about its transactions, oldest first."""
    order: list[tuple[int, int]] = []
    """Position and producer id of all decisions, in order."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> Remembered:
        """What these events leave."""
        found = cls()
        for event in events:
            found.follow(event)
        return found

    def follow(self, event: Event) -> None:
        """One more event, in order."""
        if not isinstance(event.d, Mapping):
            return
        if event.k == "fault.hit":
            self.hits[event.d["rule"]] = event.i
        elif event.k == "txn.complete" and event.d["state"].startswith(_PREPARED):
            noted = _noted(event.d)
            self.decisions.setdefault(noted.producer_id, []).append(noted)
            self.order.append((event.i, noted.producer_id))

    def forget(self, before: int) -> None:
        """Forget what events before a position have told, as a reader does who can't have them."""
        cut = bisect_left(self.order, (before,))
        for _, producer_id in self.order[:cut]:
            of_producer = self.decisions[producer_id]
            del of_producer[0]
            if not of_producer:
                del self.decisions[producer_id]
        del self.order[:cut]
        self.hits = {rule: at for rule, at in self.hits.items() if at >= before}

    def decided(
        self,
        place: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        last_timestamp_ms: int,
        entry: Mapping[str, Any] | None,
    ) -> Decided:
        """What was decided about a transaction that hangs, as a living cluster would tell it."""
        log = self.decisions.get(producer_id, ())
        outcome = decided_by_log(place, producer_id, producer_epoch, log)
        if outcome is not None:
            return outcome
        newest = None if entry is None else _newest(entry)
        return decided(producer_id, producer_epoch, last_timestamp_ms, newest)


def _noted(data: Mapping[str, Any]) -> Noted:
    return Noted(
        state=data["state"],
        producer_id=data["pid"],
        producer_epoch=data["epoch"],
        partitions=frozenset(map(_place, data["partitions"])),
        is_v2=data.get("version", 0) >= _V2,
    )


def _newest(entry: Mapping[str, Any]) -> Newest:
    started_ms = entry.get("started_ms", -1)
    return Newest(
        state=entry["state"],
        producer_id=entry["pid"],
        producer_epoch=entry["epoch"],
        start_time_ms=started_ms if started_ms >= 0 else None,
    )


def _place(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
