"""Replicas by the metadata log."""

from __future__ import annotations

import uuid
from pathlib import Path

from tests.support.broker_dirs import BrokerDir
from tests.support.metadata_logs import partition, removed, topic, write_metadata_log
from txnsim.storage.metadata_log import FOLDER_NAME
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition, uuid_text
from txnsim_spark.forensics._coordinator_entries import coordinators_of
from txnsim_spark.forensics._evidence import Assignment
from txnsim_spark.forensics._metadata_copies import KnownTopics, completed, known_topics_in

ID = uuid.UUID(int=7)


def copy_in(log_dir: Path, *records: bytes) -> Path:
    log_dir.mkdir()
    write_metadata_log(log_dir / FOLDER_NAME, records)
    return log_dir


def test_the_newest_copy_counts(tmp_path: Path) -> None:
    old = copy_in(tmp_path / "b1", topic("orders", ID), partition(ID, replicas=(1, 2, 3)))
    new = copy_in(
        tmp_path / "b2",
        topic("orders", ID),
        partition(ID, replicas=(1, 2, 3)),
        partition(ID, replicas=(1, 2, 3), isr=(1, 2), leader=2),
    )
    expected = Assignment(replicas=(1, 2, 3), in_sync=(1, 2), leader=2)
    for order in ([old, new], [new, old]):
        found = known_topics_in(order, print)
        assert found.assignments == {TopicPartition("orders", 0): expected}
        assert found.topic_ids == {"orders": uuid_text(ID)}


def test_an_eligible_leader_counts_where_the_last_one_in_sync_has_stopped(tmp_path: Path) -> None:
    stopped = partition(ID, replicas=(1,), isr=(), leader=-1, elr=(1,))
    log_dir = copy_in(tmp_path / "b1", topic("orders", ID), stopped)
    expected = Assignment(replicas=(1,), in_sync=(1,), leader=-1)
    found = known_topics_in([log_dir], print)
    assert found.assignments == {TopicPartition("orders", 0): expected}


def test_without_a_copy_nothing_is_known(tmp_path: Path) -> None:
    assert known_topics_in([tmp_path], print) == KnownTopics()


def test_a_copy_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    log_dir = copy_in(tmp_path / "b1", b"\x01\x02\x63what?")
    problems: list[str] = []
    assert known_topics_in([log_dir], problems.append) == KnownTopics()
    assert len(problems) == 1
    assert problems[0].startswith(str(log_dir))


def test_deleted_topics_and_the_owners_of_whole_copies_are_told(tmp_path: Path) -> None:
    made = BrokerDir(tmp_path / "b1", 1)
    write_metadata_log(made.path / FOLDER_NAME, [topic("orders", ID), removed(ID)])
    torn = BrokerDir(tmp_path / "b2", 2)
    write_metadata_log(torn.path / FOLDER_NAME, [topic("orders", ID)])
    (log,) = torn.path.glob("*/*.log")
    log.write_bytes(log.read_bytes() + b"torn")
    found = known_topics_in([made.path, torn.path], print)
    assert found == KnownTopics(
        topic_ids={}, removed=frozenset({uuid_text(ID)}), brokers=frozenset({1}), age=(1, 2)
    )


STATE = {
    TopicPartition(TRANSACTION_STATE_TOPIC, number): Assignment(
        replicas=(1, 2, 3), in_sync=(1, 2), leader=1
    )
    for number in range(3)
}
GUESSED = coordinators_of([], forgotten={}, held=[0])
"""One partition was there, so one is thought to exist."""


def test_the_metadata_log_says_how_many_coordinators_logs_there_are() -> None:
    assert (GUESSED.partitions, GUESSED.is_complete) == (1, True)
    found = completed(GUESSED, STATE, {0: {1, 3}})
    assert (found.partitions, found.missing, found.not_in_sync) == (3, (1, 2), {})
    assert not found.is_complete
    assert completed(GUESSED, {}, {0: {1}}) == GUESSED


def test_a_coordinators_log_that_was_seen_out_of_sync_only_is_named() -> None:
    seen = {0: {2}, 1: {3}, 2: {-1}}
    assert completed(GUESSED, STATE, seen).not_in_sync == {
        1: "was seen on broker 3 only; in sync are 1, 2"
    }
