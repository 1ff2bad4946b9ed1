"""A broker's log directory that grows as a living broker's does: logs are appended to, every other
file is replaced in one step.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import LogDriver, config_of
from txnsim.group.log_format import encode_batch
from txnsim.group.records import ClassicGroupStored, GroupRecord, OffsetCommitted
from txnsim.interbroker.share_state import ShareKey
from txnsim.share_state.log_format import encode_batch as encode_share_batch
from txnsim.share_state.records import ShareUpdate
from txnsim.storage import names
from txnsim.types import TopicPartition
from txnsim.wire.batch import assign

PIDS: Final = (7, 8, 9)
OFFSETS_FOLDER: Final = "__consumer_offsets-0"
SHARE_STATES_FOLDER: Final = "__share_group_state-0"


class GrowingDir:
    """The directory of one broker.

    Args:
        path: To be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = LogDriver(config_of(roll_bytes=2_000, index_interval_bytes=300))
        self._turns = 0
        self._names: list[str] = []
        path.mkdir()

    def grow(self, turn_count: int = 7) -> None:
        """Add some transactions. Every third is aborted. Every seventh stays open for a while, so
        by default the last of each growth. The coordinators' logs have records about each.
        """
        for _ in range(turn_count):
            self._turn(self._turns)
            self._turns += 1
        with tempfile.TemporaryDirectory() as scratch_path:
            _follow(self._make_broker_dir(Path(scratch_path) / "broker").kill(), self.path)

    def stop(self) -> None:
        """Write the state that a clean shutdown leaves."""
        with tempfile.TemporaryDirectory() as scratch_path:
            _follow(self._make_broker_dir(Path(scratch_path) / "broker").stop(), self.path)

    def _turn(self, turn: int) -> None:
        producer_id = PIDS[turn % len(PIDS)]
        assert self._log.txn(2 * (turn // len(PIDS)), count=2, producer_id=producer_id) == 0
        if turn % 7 < 6:
            assert self._log.end(committed=turn % 3 > 0, producer_id=producer_id) == 0

    def _make_broker_dir(self, path: Path) -> BrokerDir:
        broker_dir = BrokerDir(path)
        broker_dir.replica(self._log)
        broker_dir.coordinator(
            *(
                move(
                    state,
                    *partitions,
                    name=f"app-{turn % len(PIDS)}",
                    producer_id=PIDS[turn % len(PIDS)],
                )
                for turn in range(self._turns)
                for state, partitions in (
                    ("Ongoing", (TopicPartition("orders", 0),)),
                    ("CompleteCommit", ()),
                )
            )
        )
        for file_name, encode_turn in (
            (OFFSETS_FOLDER, _encode_commit),
            (SHARE_STATES_FOLDER, _encode_share_update),
        ):
            folder = path / file_name
            folder.mkdir()
            log = folder / names.Suffix.LOG.file_name(0)
            log.write_bytes(b"".join(map(encode_turn, range(self._turns))))
        return broker_dir


def _encode_commit(turn: int) -> bytes:
    committed_offset = OffsetCommitted(
        group_id="readers",
        topic_partition=TopicPartition("orders", 0),
        position=turn,
        commit_timestamp_ms=turn,
    )
    records: list[GroupRecord] = [committed_offset, ClassicGroupStored(group_id="readers")]
    return assign(
        encode_batch(records, now_ms=turn), base_offset=turn * len(records), leader_epoch=0
    )


def _encode_share_update(turn: int) -> bytes:
    update = ShareUpdate(
        key=ShareKey("workers", "A" * 22, 0),
        snapshot_epoch=0,
        leader_epoch=0,
        start_offset=turn,
        delivery_complete_count=0,
    )
    return assign(encode_share_batch([update], now_ms=turn), base_offset=turn, leader_epoch=0)


def _follow(newer_folder: Path, path: Path) -> None:
    """Update a directory to the state of a newer one that extends it."""
    for source_path in sorted(newer_folder.rglob("*")):
        target_path = path / source_path.relative_to(newer_folder)
        if source_path.is_dir():
            target_path.mkdir(exist_ok=True)
        elif source_path.suffix == names.Suffix.LOG:
            size_before = target_path.stat().st_size if target_path.exists() else 0
            with target_path.open("ab") as file:
                file.write(source_path.read_bytes()[size_before:])
        else:
            temporary_file = target_path.with_name(f"{target_path.name}.tmp")
            temporary_file.write_bytes(source_path.read_bytes())
            os.replace(temporary_file, target_path)
    for old_path in sorted(path.rglob("*")):
        if not (newer_folder / old_path.relative_to(path)).exists():
            old_path.unlink()  # a snapshot that another one has taken the place of
