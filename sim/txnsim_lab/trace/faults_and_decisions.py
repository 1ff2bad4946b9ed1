"""What an explanation needs beside the state of a trace: whose messages faults hold, and what
coordinators wrote down about transactions that they have finished.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from txnsim.runtime.trace import Event
from txnsim.trace.story import id_of
from txnsim.txn.past_decision import Decided, Newest, Noted
from txnsim.types import TopicPartition
from txnsim_lab.trace.state import GONE

_PREPARED: Final = "Prepare"
_ONGOING: Final = "Ongoing"
_HOLDING: Final = ("hold", "reorder", "stall")
"""Actions that keep a crossing until a release."""
_V2: Final = 2


class Strike(msgspec.Struct, frozen=True, kw_only=True):
    """A crossing that a fault rule holds."""

    rule: str
    about: tuple[Mapping[str, Any], ...]
    """Subjects as in ``fault.hit``; empty if no transaction is concerned."""


class Remembered(msgspec.Struct, kw_only=True):
    """Follow every event in order, or begin with nothing."""

    strikes: dict[int, Strike] = {}
    """Position -> strike, of each crossing that is held."""
    ended: dict[str, int] = {}
    """Transactional id -> position of the move that ended its last transaction."""
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
            if event.d.get("held") and str(event.d.get("action")).startswith(_HOLDING):
                about = tuple(event.d.get("about", ()))
                self.strikes[event.i] = Strike(rule=event.d["rule"], about=about)
        elif event.k == "fault.release":
            if event.p:
                self.strikes.pop(event.p[0], None)
        elif event.k == "txn.complete":
            self._move(event, event.d)

    def _move(self, event: Event, data: Mapping[str, Any]) -> None:
        if data["state"] in GONE:
            self.ended.pop(id_of(event.tx), None)
        elif data["state"].startswith(_PREPARED):
            noted = _noted(data)
            self.decisions.setdefault(noted.producer_id, []).append(noted)
            self.order.append((event.i, noted.producer_id))
        elif data["state"] != _ONGOING:
            self.ended[id_of(event.tx)] = event.i

    def held(
        self, transactional_id: str | None, producer_id: int, partition: str
    ) -> Iterator[tuple[int, str]]:
        """Held crossings of the id's newest transaction: positions and rules."""
        since = -1 if transactional_id is None else self.ended.get(transactional_id, -1)
        for at, strike in self.strikes.items():
            if at > since and any(
                _is_of(one, transactional_id, producer_id, partition) for one in strike.about
            ):
                yield at, strike.rule

    def forget(self, before: int) -> None:
        """Forget what events before a position have told, as a reader does who can't have them."""
        cut = bisect_left(self.order, (before,))
        for _, producer_id in self.order[:cut]:
            of_producer = self.decisions[producer_id]
            del of_producer[0]
            if not of_producer:
                del self.decisions[producer_id]
        del self.order[:cut]
        self.strikes = {at: one for at, one in self.strikes.items() if at >= before}

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
        outcome = Decided.by_log(place, producer_id, producer_epoch, log)
        if outcome is not None:
            return outcome
        newest = None if entry is None else _newest(entry)
        return Decided.by_newest(producer_id, producer_epoch, last_timestamp_ms, newest)


def _is_of(
    about: Mapping[str, Any], transactional_id: str | None, producer_id: int, partition: str
) -> bool:
    """Whether a message is of a transaction. Where it names the transactional id, all of the
    transaction waits for it; a marker names the producer alone, and is of its partitions.
    """
    if about.get("id") is not None:
        return bool(about["id"] == transactional_id)
    return bool(about.get("pid") == producer_id and partition in about["partitions"])


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
