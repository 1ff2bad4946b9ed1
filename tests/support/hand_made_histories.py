"""Histories made by hand, observation by observation; a second passes between two of them."""

from __future__ import annotations

from typing import Any

from txnsim.types import TopicPartition
from txnsim_lab.check.anomaly import Anomaly
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import (
    Aborted,
    Added,
    Began,
    Cleaned,
    Deleted,
    Described,
    Ended,
    Healed,
    Initialised,
    Listed,
    Listing,
    Outcome,
    Position,
    PositionsRead,
    Producers,
    ProducerSeen,
    Read,
    Record,
    Seen,
    SentOffsets,
    Wrote,
)

OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN
MINUTE_MS = 60_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Told:
    """A history being told. Every method notes one observation and returns its index; the further
    arguments are fields of it.
    """

    def __init__(self, now_ms: int = 0) -> None:
        self.history = History()
        self._now_ms = now_ms

    def wait(self, minutes: float) -> None:
        self._now_ms += int(minutes * MINUTE_MS)

    def _at(self, who: str) -> dict[str, Any]:
        self._now_ms += 1000
        return {"at_ms": self._now_ms, "who": who}

    def _note(self, seen: Seen) -> int:
        self.history.add(seen)
        return len(self.history) - 1

    # Producers

    def initialised(self, who: str = "p", transactional_id: str = "app", **more: Any) -> int:
        given: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "timeout_ms": MINUTE_MS}
        return self._note(
            Initialised(**self._at(who), transactional_id=transactional_id, **(given | more))
        )

    def began(self, label: str = "T1", who: str = "p", transactional_id: str = "app") -> int:
        return self._note(
            Began(**self._at(who), transaction=label, transactional_id=transactional_id)
        )

    def added(self, label: str = "T1", who: str = "p", **more: Any) -> int:
        return self._note(Added(**self._at(who), transaction=label, partitions=(T0,), **more))

    def wrote(
        self, label: str | None, value: str | None, offset: int = -1, *, who: str = "p", **more: Any
    ) -> int:
        given: dict[str, Any] = {"topic": "t", "partition": 0}
        return self._note(
            Wrote(**self._at(who), transaction=label, value=value, offset=offset, **(given | more))
        )

    def sent(self, label: str | None, offset: int, *, who: str = "p", **more: Any) -> int:
        given: dict[str, Any] = {"group": "g", "topic": "in", "partition": 0}
        return self._note(
            SentOffsets(**self._at(who), transaction=label, position=offset, **(given | more))
        )

    def committed(self, label: str = "T1", who: str = "p", **more: Any) -> int:
        return self._note(Ended(**self._at(who), transaction=label, commit=True, **more))

    def aborted(self, label: str = "T1", who: str = "p", **more: Any) -> int:
        return self._note(Ended(**self._at(who), transaction=label, commit=False, **more))

    # Readers

    def read(
        self,
        asked: int,
        records: dict[int, str | None],
        following: int,
        *,
        who: str = "r",
        keys: dict[int, str] | None = None,
        **more: Any,
    ) -> int:
        given: dict[str, Any] = {
            "topic": "t",
            "partition": 0,
            "last_stable_offset": following,
            "high_watermark": following,
            "log_start_offset": 0,
        }
        delivered = tuple(
            Record(offset=offset, value=value, key=(keys or {}).get(offset))
            for offset, value in records.items()
        )
        return self._note(
            Read(
                **self._at(who),
                asked=asked,
                records=delivered,
                next_offset=following,
                **(given | more),
            )
        )

    def positions(self, offset: int, *, who: str = "r", **more: Any) -> int:
        position = Position(topic="in", partition=0, offset=offset)
        return self._note(PositionsRead(**self._at(who), group="g", positions=(position,), **more))

    # Operators

    def described(self, state: str, *partitions: TopicPartition, **more: Any) -> int:
        given: dict[str, Any] = {
            "transactional_id": "app",
            "producer_id": 7,
            "producer_epoch": 0,
            "timeout_ms": MINUTE_MS,
        }
        return self._note(
            Described(**self._at("o"), state=state, partitions=partitions, **(given | more))
        )

    def listed(self, *transactions: tuple[str, int, str]) -> int:
        listings = tuple(
            Listing(transactional_id=name, producer_id=producer_id, state=state)
            for name, producer_id, state in transactions
        )
        return self._note(Listed(**self._at("o"), transactions=listings))

    def producers(self, *producers: tuple[int, int | None], **more: Any) -> int:
        """Producer id and start of its open transaction, of each."""
        seen = tuple(
            ProducerSeen(producer_id=producer_id, producer_epoch=0, start_offset=start)
            for producer_id, start in producers
        )
        given: dict[str, Any] = {"topic": "t", "partition": 0}
        return self._note(Producers(**self._at("o"), producers=seen, **(given | more)))

    def operator_aborted(self, producer_id: int = 7, **more: Any) -> int:
        return self._note(
            Aborted(**self._at("o"), topic="t", partition=0, producer_id=producer_id, **more)
        )

    def deleted(self, topic: str = "t", **more: Any) -> int:
        return self._note(Deleted(**self._at("o"), topic=topic, **more))

    def cleaned(self) -> int:
        return self._note(Cleaned(**self._at("o"), topic="t", partition=0))

    def healed(self) -> int:
        return self._note(Healed(**self._at("o")))


def kinds(anomalies: tuple[Anomaly, ...]) -> list[str]:
    """Their names, sorted."""
    return sorted(anomaly.kind for anomaly in anomalies)


def ghost(told: Told) -> None:
    """A transaction that was aborted, and after that a record of it comes to t-0@1."""
    told.initialised()
    told.began()
    told.wrote("T1", "late", outcome=UNKNOWN)
    told.aborted()
    told.wrote(None, "after", 2, who="bystander")


def hangs(told: Told) -> None:
    ghost(told)
    told.producers((7, 1))
    told.described("CompleteAbort")
    told.producers((7, 1))
    told.read(1, {}, 1, high_watermark=3)
