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


class HistoryBuilder:
    """Builds a history. Every method adds one observation and returns its index. Further arguments
    are fields of the observation.
    """

    def __init__(self, now_ms: int = 0) -> None:
        self.history = History()
        self._now_ms = now_ms

    def wait(self, minutes: float) -> None:
        self._now_ms += int(minutes * MINUTE_MS)

    def _common_fields(self, client_name: str) -> dict[str, Any]:
        self._now_ms += 1000
        return {"at_ms": self._now_ms, "who": client_name}

    def _note(self, observation: Seen) -> int:
        self.history.add(observation)
        return len(self.history) - 1

    # Producers

    def initialise(
        self, client_name: str = "p", transactional_id: str = "app", **more_fields: Any
    ) -> int:
        defaults: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "timeout_ms": MINUTE_MS}
        return self._note(
            Initialised(
                **self._common_fields(client_name),
                transactional_id=transactional_id,
                **(defaults | more_fields),
            )
        )

    def begin(
        self, transaction_label: str = "T1", client_name: str = "p", transactional_id: str = "app"
    ) -> int:
        return self._note(
            Began(
                **self._common_fields(client_name),
                transaction=transaction_label,
                transactional_id=transactional_id,
            )
        )

    def add_partitions(
        self, transaction_label: str = "T1", client_name: str = "p", **more_fields: Any
    ) -> int:
        return self._note(
            Added(
                **self._common_fields(client_name),
                transaction=transaction_label,
                partitions=(T0,),
                **more_fields,
            )
        )

    def write(
        self,
        transaction_label: str | None,
        record_value: str | None,
        offset: int = -1,
        *,
        client_name: str = "p",
        **more_fields: Any,
    ) -> int:
        defaults: dict[str, Any] = {"topic": "t", "partition": 0}
        return self._note(
            Wrote(
                **self._common_fields(client_name),
                transaction=transaction_label,
                value=record_value,
                offset=offset,
                **(defaults | more_fields),
            )
        )

    def send_offsets(
        self,
        transaction_label: str | None,
        offset: int,
        *,
        client_name: str = "p",
        **more_fields: Any,
    ) -> int:
        defaults: dict[str, Any] = {"group": "g", "topic": "in", "partition": 0}
        return self._note(
            SentOffsets(
                **self._common_fields(client_name),
                transaction=transaction_label,
                position=offset,
                **(defaults | more_fields),
            )
        )

    def commit(
        self, transaction_label: str = "T1", client_name: str = "p", **more_fields: Any
    ) -> int:
        return self._note(
            Ended(
                **self._common_fields(client_name),
                transaction=transaction_label,
                commit=True,
                **more_fields,
            )
        )

    def abort(
        self, transaction_label: str = "T1", client_name: str = "p", **more_fields: Any
    ) -> int:
        return self._note(
            Ended(
                **self._common_fields(client_name),
                transaction=transaction_label,
                commit=False,
                **more_fields,
            )
        )

    # Readers

    def read(
        self,
        asked_offset: int,
        records: dict[int, str | None],
        following: int,
        *,
        client_name: str = "r",
        keys: dict[int, str] | None = None,
        **more_fields: Any,
    ) -> int:
        defaults: dict[str, Any] = {
            "topic": "t",
            "partition": 0,
            "last_stable_offset": following,
            "high_watermark": following,
            "log_start_offset": 0,
        }
        delivered_records = tuple(
            Record(offset=offset, value=record_value, key=(keys or {}).get(offset))
            for offset, record_value in records.items()
        )
        return self._note(
            Read(
                **self._common_fields(client_name),
                asked=asked_offset,
                records=delivered_records,
                next_offset=following,
                **(defaults | more_fields),
            )
        )

    def positions(self, offset: int, *, client_name: str = "r", **more_fields: Any) -> int:
        position = Position(topic="in", partition=0, offset=offset)
        return self._note(
            PositionsRead(
                **self._common_fields(client_name), group="g", positions=(position,), **more_fields
            )
        )

    # Operators

    def describe(self, state: str, *partitions: TopicPartition, **more_fields: Any) -> int:
        defaults: dict[str, Any] = {
            "transactional_id": "app",
            "producer_id": 7,
            "producer_epoch": 0,
            "timeout_ms": MINUTE_MS,
        }
        return self._note(
            Described(
                **self._common_fields("o"),
                state=state,
                partitions=partitions,
                **(defaults | more_fields),
            )
        )

    def list_transactions(self, *transactions: tuple[str, int, str]) -> int:
        listings = tuple(
            Listing(transactional_id=transactional_id, producer_id=producer_id, state=state)
            for transactional_id, producer_id, state in transactions
        )
        return self._note(Listed(**self._common_fields("o"), transactions=listings))

    def list_producers(self, *producers: tuple[int, int | None], **more_fields: Any) -> int:
        """Add a DescribeProducers result: producer id and start of the open transaction,
        for each.
        """
        producer_states = tuple(
            ProducerSeen(producer_id=producer_id, producer_epoch=0, start_offset=start)
            for producer_id, start in producers
        )
        defaults: dict[str, Any] = {"topic": "t", "partition": 0}
        return self._note(
            Producers(
                **self._common_fields("o"), producers=producer_states, **(defaults | more_fields)
            )
        )

    def abort_by_operator(self, producer_id: int = 7, **more_fields: Any) -> int:
        return self._note(
            Aborted(
                **self._common_fields("o"),
                topic="t",
                partition=0,
                producer_id=producer_id,
                **more_fields,
            )
        )

    def delete(self, topic: str = "t", **more_fields: Any) -> int:
        return self._note(Deleted(**self._common_fields("o"), topic=topic, **more_fields))

    def clean(self) -> int:
        return self._note(Cleaned(**self._common_fields("o"), topic="t", partition=0))

    def heal(self) -> int:
        return self._note(Healed(**self._common_fields("o")))


def kinds(anomalies: tuple[Anomaly, ...]) -> list[str]:
    """The sorted names of the anomalies' kinds."""
    return sorted(anomaly.kind for anomaly in anomalies)


def ghost(builder: HistoryBuilder) -> None:
    """Add an aborted transaction, of which a late record then arrives at t-0@1."""
    builder.initialise()
    builder.begin()
    builder.write("T1", "late", outcome=UNKNOWN)
    builder.abort()
    builder.write(None, "after", 2, client_name="bystander")


def hangs(builder: HistoryBuilder) -> None:
    ghost(builder)
    builder.list_producers((7, 1))
    builder.describe("CompleteAbort")
    builder.list_producers((7, 1))
    builder.read(1, {}, 1, high_watermark=3)
