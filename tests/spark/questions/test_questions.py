"""Positions of groups in log directories."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker_dirs import BrokerDir
from tests.support.position_logs import (
    ORDERS,
    commit_record,
    end_marker,
    offsets_log,
    position_batch,
)
from txnsim.group.records import OffsetDeleted
from txnsim.storage import names
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from txnsim_spark.questions._positions import group_positions, leading_states

# Where groups stand, by the log of their coordinators.


def offsets_by_group(tmp_path: Path, *batches: bytes) -> dict[str, int]:
    broker = BrokerDir(tmp_path / "broker-1")
    offsets_log(broker.path, *batches)
    positions = group_positions([broker.stop()], print)
    assert positions.partitions == (0,)
    return {
        group: position.offset
        for (group, partition), position in positions.position_by_group_partition.items()
        if partition == ORDERS
    }


def test_the_newest_position_counts_until_its_tombstone(tmp_path: Path) -> None:
    offset_deleted = OffsetDeleted(group_id="h", topic_partition=ORDERS)
    batches = (
        position_batch(commit_record(1), commit_record(9, "h")),
        position_batch(commit_record(4)),
        position_batch(offset_deleted),
    )
    assert offsets_by_group(tmp_path, *batches) == {"g": 4}


def test_a_position_of_a_transaction_counts_with_its_commit(tmp_path: Path) -> None:
    batches = (
        position_batch(commit_record(1), commit_record(1, "a"), commit_record(1, "p")),
        position_batch(commit_record(7), producer_id=5),
        position_batch(commit_record(8, "a"), producer_id=6),
        position_batch(commit_record(9, "p"), producer_id=7),
        end_marker(committed=True, producer_id=5),
        end_marker(committed=False, producer_id=6),
    )
    assert offsets_by_group(tmp_path, *batches) == {"g": 7, "a": 1, "p": 1}


def test_a_later_position_is_not_overtaken_by_a_commit(tmp_path: Path) -> None:
    batches = (
        position_batch(commit_record(7), producer_id=5),
        position_batch(commit_record(8)),
        end_marker(committed=True, producer_id=5),
    )
    assert offsets_by_group(tmp_path, *batches) == {"g": 8}


def test_positions_a_torn_end_is_told(tmp_path: Path) -> None:
    broker = BrokerDir(tmp_path / "broker-1")
    folder = offsets_log(broker.path, position_batch(commit_record(3)))
    with (folder / names.Suffix.LOG.file_name(0)).open("ab") as file:
        file.write(b"torn")
    problems: list[str] = []
    positions = group_positions([broker.kill()], problems.append)
    assert [position.offset for position in positions.position_by_group_partition.values()] == [3]
    assert any("4 bytes, less than a header" in problem_text for problem_text in problems)


def test_the_longest_log_of_the_newest_epoch_is_read(tmp_path: Path) -> None:
    brokers = [BrokerDir(tmp_path / f"broker-{broker_number}") for broker_number in (1, 2)]
    offsets_log(brokers[0].path, position_batch(commit_record(1)))
    longer_log = offsets_log(
        brokers[1].path, position_batch(commit_record(1)), position_batch(commit_record(2))
    )
    paths = [broker.stop() for broker in brokers]
    problems: list[str] = []
    replica_states = list(leading_states(paths, CONSUMER_OFFSETS_TOPIC, problems.append))
    assert [
        (replica_state.replica.path, replica_state.ends.end_offset)
        for replica_state in replica_states
    ] == [(str(longer_log), 2)]
    assert not list(leading_states(paths, TRANSACTION_STATE_TOPIC, problems.append))
    assert problems == []
