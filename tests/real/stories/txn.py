"""What stories about transactions are told with."""

from __future__ import annotations

from typing import Any

from txnsim_lab.conformance._book.frame_player import (
    FramePlayer,
    Topic,
    add_partitions_values,
    fetch,
    produce,
    records,
)


class StoryTxn:
    """A transactional id of a story, with a method for each request."""

    def __init__(self, player: FramePlayer, name: str = "id", *, timeout_ms: int = 60_000) -> None:
        self.player = player
        self.id = player.full_name(name)
        self.timeout_ms = timeout_ms
        self.first = player.init_producer(self.id, timeout_ms)
        self.pid, self.epoch = self.first.producer_id, self.first.producer_epoch

    def init(self, note: str, version: int = 4, *, expected: tuple[int, int] = (-1, -1)) -> Any:
        return self.player.ask(
            "InitProducerId",
            version,
            note,
            transactional_id=self.id,
            transaction_timeout=self.timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )

    def reinit(self, note: str, version: int = 4, *, expected: tuple[int, int] = (-1, -1)) -> Any:
        """Repeat InitProducerId until the coordinator has ended the transaction before, and take
        the new identity.
        """
        answer = self.player.ask_until_settled(
            "InitProducerId",
            version,
            note,
            transactional_id=self.id,
            transaction_timeout=self.timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        if answer.error_code == 0:
            self.pid, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def add(
        self,
        note: str,
        topic: Topic,
        version: int = 3,
        *partitions: int,
        producer_id: int | None = None,
        epoch: int | None = None,
        is_verification: bool = False,
    ) -> Any:
        return self.player.ask(
            "AddPartitionsToTxn",
            version,
            note,
            **add_partitions_values(
                self.id,
                self.pid if producer_id is None else producer_id,
                self.epoch if epoch is None else epoch,
                [(topic[0], list(partitions or (0,)))],
                only_verifies=is_verification,
            ),
        )

    def quiet_add(self, topic: Topic, version: int = 3) -> None:
        self.player.ask_unrecorded(
            "AddPartitionsToTxn",
            version,
            **add_partitions_values(self.id, self.pid, self.epoch, [(topic[0], [0])]),
        )

    def send(
        self,
        note: str,
        topic: Topic,
        version: int,
        sequence: int,
        *,
        producer_id: int | None = None,
        epoch: int | None = None,
        partition: int = 0,
        is_transactional: bool = True,
    ) -> Any:
        batch = records(
            "x",
            producer_id=self.pid if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        return self.player.ask(
            "Produce",
            version,
            note,
            **produce(topic, batch, version, partition=partition, transactional_id=self.id),
        )

    def end(
        self,
        note: str,
        version: int,
        *,
        committed: bool = True,
        producer_id: int | None = None,
        epoch: int | None = None,
    ) -> Any:
        answer = self.player.ask(
            "EndTxn",
            version,
            note,
            transactional_id=self.id,
            producer_id=self.pid if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=committed,
        )
        if version >= 5 and answer.error_code == 0:
            self.pid, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def describe(self, note: str) -> None:
        self.player.ask("DescribeTransactions", 0, note, transactional_ids=[self.id])

    def wait_until_ended(self, state: str) -> None:
        self.player.await_state(self.id, state)
        self.describe(state)


def producers_of(player: FramePlayer, topic: Topic, note: str = "") -> None:
    """The producer state of the topic's first partition."""
    player.ask("DescribeProducers", 0, note, topics=[{"name": topic[0], "partition_indexes": [0]}])


def ask_at_both_levels(player: FramePlayer, topic: Topic, note: str) -> None:
    """Send Fetch and ListOffsets at each isolation level; `note` goes into the record of the
    answers.
    """
    for isolation_level in (0, 1):
        player.ask(
            "Fetch",
            12,
            f"{note}, isolation {isolation_level}",
            **fetch(topic, isolation=isolation_level),
        )
        player.ask(
            "ListOffsets",
            7,
            f"{note}, isolation {isolation_level}",
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[{"name": topic[0], "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        )


def marker(
    player: FramePlayer,
    topic: Topic,
    note: str,
    producer_id: int,
    epoch: int,
    *,
    committed: bool = True,
    coordinator_epoch: int = 0,
    version: int = 1,
    transaction_version: int = 0,
    partitions: tuple[int, ...] = (0,),
) -> None:
    """Write a marker as an operator does."""
    player.ask(
        "WriteTxnMarkers",
        version,
        f"{note} tv{transaction_version}",
        markers=[
            {
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "transaction_result": committed,
                "coordinator_epoch": coordinator_epoch,
                "transaction_version": transaction_version,
                "topics": [{"name": topic[0], "partition_indexes": list(partitions)}],
            }
        ],
    )
