"""Replicas from and to disks."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.support.log_dirs import write_partition
from tests.support.logs import NOW, LogDriver, driven_log, plain
from txnsim.errors import ConfigError
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names, producer_snapshot
from txnsim.storage.replica_loading import CheckpointedOffsets, LoadedReplica, load_replica
from txnsim.types import STORED_EPOCH_MAX, TopicPartition
from txnsim.wire.batch import assign, iter_batches
from txnsim.wire.batch_header import pack_batch
from txnsim.wire.codec import run_to_end

# A replica's log, made from its folder.


CONFIG = LogConfig(rules=LATEST_RULES, roll_bytes=200)


@pytest.fixture
def driver() -> LogDriver:
    return driven_log()


@pytest.fixture
def folder(tmp_path: Path, driver: LogDriver) -> Path:
    write_partition(tmp_path / "t-0", driver.log, topic_id=uuid.UUID(int=1))
    return tmp_path / "t-0"


def load(
    folder: Path, *, is_clean: bool = False, noted_offsets: CheckpointedOffsets | None = None
) -> LoadedReplica:
    bytes_before_by_path = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    loaded_replica = load_replica(
        names.PartitionDirectory(topic_partition=TopicPartition("t", 0), path=folder),
        config=CONFIG,
        checkpointed_offsets=noted_offsets or CheckpointedOffsets(),
        was_clean=is_clean,
        now_ms=NOW,
    )
    loaded_replica.log.check_invariants()
    assert {path: path.read_bytes() for path in sorted(folder.iterdir())} == bytes_before_by_path
    return loaded_replica


def logs(folder: Path) -> list[Path]:
    return [path for _, path in names.Suffix.LOG.files_in(folder)]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_sound_folder_becomes_the_log_that_it_was(
    folder: Path, driver: LogDriver, is_clean: bool
) -> None:
    loaded_replica = load(folder, is_clean=is_clean)
    assert list(loaded_replica.log.batches()) == list(driver.log.batches())
    loaded_replica.log.advance_high_watermark(driver.log.high_watermark)
    driver.log.reopen(
        driver.log.high_watermark, log_start_offset=driver.log.log_start_offset, now_ms=NOW
    )
    assert loaded_replica.log.snapshot() == driver.log.snapshot()
    assert loaded_replica.losses == ()
    (first_segment, *_) = tuple(loaded_replica.log.local.segments)
    assert first_segment.modified_ms == logs(folder)[0].stat().st_mtime_ns // 1_000_000


def test_what_follows_the_last_sound_batch_is_cut_off_and_reported(
    folder: Path, driver: LogDriver
) -> None:
    path = logs(folder)[-1]
    place_when_whole = path.read_bytes()
    path.write_bytes(place_when_whole[:-3])
    loaded_replica = load(folder)
    assert list(loaded_replica.log.batches()) == list(driver.log.batches())[:-1]
    (loss,) = loaded_replica.losses
    assert loss.path == str(path)
    assert loss.position + loss.size == len(place_when_whole) - 3
    assert str(loss) == (
        f"{path}, byte {loss.position}: {loss.reason}; {loss.size} bytes are thrown away"
    )


def test_a_damaged_batch_in_the_midst_ends_the_log_with_all_segments_behind(
    folder: Path, driver: LogDriver
) -> None:
    first_file, *other_files = logs(folder)
    file_bytes = bytearray(first_file.read_bytes())
    file_bytes[-1] ^= 0xFF
    first_file.write_bytes(file_bytes)
    loaded_replica = load(folder)
    assert len(loaded_replica.log.local.segments) == 1
    assert [loss.path for loss in loaded_replica.losses] == [
        str(file) for file in (first_file, *other_files)
    ]
    assert "another CRC" in loaded_replica.losses[0].reason
    assert "behind the damage" in loaded_replica.losses[1].reason


def test_what_lies_below_the_recovery_point_is_not_looked_at(
    folder: Path, driver: LogDriver
) -> None:
    """A broker does not look at such segments either; a reader would find the damage."""
    first_file = logs(folder)[0]
    file_bytes = bytearray(first_file.read_bytes())
    file_bytes[-1] ^= 0xFF
    first_file.write_bytes(file_bytes)
    second_base_offset = names.Suffix.LOG.files_in(folder)[1][0]
    for noted_offsets, is_clean in (
        (CheckpointedOffsets(recovery_point=second_base_offset), False),
        (CheckpointedOffsets(), True),
    ):
        loaded_replica = load(folder, noted_offsets=noted_offsets, is_clean=is_clean)
        assert loaded_replica.log.log_end_offset == driver.log.log_end_offset
        assert loaded_replica.losses == ()
    assert load(
        folder, noted_offsets=CheckpointedOffsets(recovery_point=second_base_offset - 1)
    ).losses


def test_a_segment_without_its_index_is_recovered_after_a_stop_in_order_too(
    folder: Path, driver: LogDriver
) -> None:
    first_file = logs(folder)[0]
    first_file.with_suffix(".index").unlink()
    first_file.with_suffix(".txnindex").unlink(missing_ok=True)
    file_bytes = first_file.read_bytes()
    first_file.write_bytes(file_bytes + b"torn")
    loaded_replica = load(folder, is_clean=True)
    assert [loss.path for loss in loaded_replica.losses] == [str(first_file)]
    assert loaded_replica.log.log_end_offset == driver.log.log_end_offset
    assert loaded_replica.log.snapshot().aborted == driver.log.snapshot().aborted


def test_a_structure_that_is_lost_ends_the_log_after_a_stop_in_order_too(folder: Path) -> None:
    first_file, *other_files = logs(folder)
    first_file.write_bytes(first_file.read_bytes()[:-1])
    loaded_replica = load(folder, is_clean=True)
    assert [loss.path for loss in loaded_replica.losses] == [
        str(file) for file in (first_file, *other_files)
    ]


def test_offsets_that_go_back_end_the_log(folder: Path) -> None:
    path = logs(folder)[-1]
    place_when_whole = path.read_bytes()
    path.write_bytes(place_when_whole + assign(plain(), base_offset=0, leader_epoch=0))
    (loss,) = load(folder).losses
    assert (loss.position, loss.reason[:21]) == (len(place_when_whole), "offset 0 comes behind")


@pytest.mark.parametrize("damage", [b"short", bytes(34)])
def test_a_damaged_index_of_aborted_transactions_is_made_anew(
    folder: Path, driver: LogDriver, damage: bytes
) -> None:
    aborted_until = driver.log.snapshot().aborted[0].last_offset
    path = next(
        path.with_suffix(".txnindex")
        for offset, path in reversed(names.Suffix.LOG.files_in(folder))
        if offset <= aborted_until
    )
    data = damage
    if damage == bytes(34):
        data = path.read_bytes()[:18] + (500).to_bytes(8, "big") + path.read_bytes()[26:]
    path.write_bytes(data)
    loaded_replica = load(folder, is_clean=True)
    assert loaded_replica.log.snapshot().aborted == driver.log.snapshot().aborted
    assert [loss.path for loss in loaded_replica.losses] == [str(path)]


def test_a_damaged_snapshot_is_thrown_away(folder: Path) -> None:
    path = names.Suffix.SNAPSHOT.files_in(folder)[-1][1]
    path.write_bytes(b"damaged")
    loaded_replica = load(folder, is_clean=True)
    assert [loss.path for loss in loaded_replica.losses] == [str(path)]
    assert loaded_replica.log.producers.open_transaction_of(7) == 4


def test_leader_epochs_that_cannot_be_read_are_taken_from_the_batches(folder: Path) -> None:
    path = folder / "leader-epoch-checkpoint"
    path.write_text("7\n")
    loaded_replica = load(folder, is_clean=True)
    assert loaded_replica.log.snapshot().leader_epochs == ((0, 0),)
    assert [loss.path for loss in loaded_replica.losses] == [str(path)]
    path.unlink()
    assert load(folder, is_clean=True).log.snapshot().leader_epochs == ((0, 0),)


def test_a_log_that_ends_below_its_start_is_given_up(folder: Path) -> None:
    loaded_replica = load(folder, noted_offsets=CheckpointedOffsets(log_start_offset=900))
    assert loaded_replica.log.log_end_offset == 900
    assert loaded_replica.losses[-1].reason == "the log ends at 8, below its start 900"
    assert loaded_replica.losses[-1].size == sum(path.stat().st_size for path in logs(folder))


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("base_offset", "leader_epoch", "complaint"),
    [
        (0, 2**31 - 1, "a batch has leader epoch 2147483647"),
        (0, STORED_EPOCH_MAX + 1, "a batch has leader epoch 1073741825"),
        (2**63 - 2, 0, "a batch ends at offset 9223372036854775806"),
    ],
)
def test_a_batch_behind_which_no_broker_could_go_on_is_refused_by_name(
    tmp_path: Path, base_offset: int, leader_epoch: int, complaint: str, is_clean: bool
) -> None:
    batch = assign(plain(), base_offset=base_offset, leader_epoch=leader_epoch)
    path = tmp_path / names.Suffix.LOG.file_name(0)
    path.write_bytes(batch)
    with pytest.raises(ConfigError) as error_info:
        load(tmp_path, is_clean=is_clean)
    expected_text = f"{path}, byte 0: {complaint}, which leaves no room for the next ones"
    assert str(error_info.value) == expected_text


def test_a_batch_with_the_last_epoch_that_has_room_is_loaded(tmp_path: Path) -> None:
    batch = assign(plain(), base_offset=0, leader_epoch=STORED_EPOCH_MAX)
    (tmp_path / names.Suffix.LOG.file_name(0)).write_bytes(batch)
    assert load(tmp_path).log.epochs.latest == STORED_EPOCH_MAX


def test_a_log_that_begins_where_none_can_go_on_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the log begins at 9223372036854775807, which leaves no"):
        load(tmp_path, noted_offsets=CheckpointedOffsets(log_start_offset=2**63 - 1))
    (tmp_path / names.Suffix.LOG.file_name(2**63 - 1)).write_bytes(b"")
    with pytest.raises(ConfigError, match="the log begins at 9223372036854775807"):
        load(tmp_path)


def test_a_leader_epoch_without_room_is_taken_from_the_batches(folder: Path) -> None:
    path = folder / "leader-epoch-checkpoint"
    path.write_text("0\n1\n2147483647 0\n")
    loaded_replica = load(folder, is_clean=True)
    assert loaded_replica.log.snapshot().leader_epochs == ((0, 0),)
    assert "leader epoch 2147483647, which leaves no room" in loaded_replica.losses[0].reason


def test_an_empty_folder_is_an_empty_log(tmp_path: Path) -> None:
    loaded_replica = load(
        tmp_path, noted_offsets=CheckpointedOffsets(log_start_offset=4, cleaned_until=2)
    )
    assert (loaded_replica.log.log_start_offset, loaded_replica.log.log_end_offset) == (4, 4)
    assert loaded_replica.log.local.cleaned_until == 2


def test_batches_of_an_old_format_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / names.Suffix.LOG.file_name(0)
    # A message of format 1: offset, size, CRC, magic, attributes, time, null key, null value.
    message = bytes(4) + b"\x01\x00" + bytes(8) + b"\xff" * 8
    path.write_bytes(bytes(8) + len(message).to_bytes(4, "big") + message + bytes(60))
    with pytest.raises(ConfigError, match=r"0\.log, byte 0: a batch of format 1, only 2 is loaded"):
        load(tmp_path)


@pytest.mark.parametrize("tail", [b"\0" * 4, b"\0" * 400])
def test_zeros_are_damage_and_no_old_format(tmp_path: Path, tail: bytes) -> None:
    (tmp_path / names.Suffix.LOG.file_name(0)).write_bytes(tail)
    assert [loss.size for loss in load(tmp_path).losses] == [len(tail)]


def with_a_marker_that_is_none(folder: Path) -> Path:
    """A segment whose first marker has a record of another kind, under a CRC that fits."""
    path = logs(folder)[0]
    file_bytes = path.read_bytes()
    for position, header in iter_batches(file_bytes):
        if header.is_control:
            fake = pack_batch(
                b"\x10\0\0\0\x02\x01\x02\x01\0",
                base_offset=header.base_offset,
                leader_epoch=header.leader_epoch,
                attributes=header.attributes,
                last_offset_delta=0,
                base_timestamp_ms=NOW,
                max_timestamp_ms=NOW,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=-1,
                records_count=1,
            )
            path.write_bytes(file_bytes[:position] + fake)
            return path
    raise AssertionError("no marker")


def test_after_a_kill_a_marker_that_is_none_ends_the_log(folder: Path, driver: LogDriver) -> None:
    path = with_a_marker_that_is_none(folder)
    loaded_replica = load(folder)
    assert loaded_replica.losses[0].path == str(path)
    assert "control record" in loaded_replica.losses[0].reason


def test_where_files_are_believed_a_marker_that_is_none_is_named(
    folder: Path, driver: LogDriver
) -> None:
    with_a_marker_that_is_none(folder)
    for path in folder.glob("*.snapshot"):
        if path.name != "00000000000000000000.snapshot":
            path.unlink()
    for path in logs(folder)[1:]:
        path.unlink()
    (folder / "00000000000000000000.snapshot").write_bytes(
        run_to_end(producer_snapshot.encode_in_steps([]))
    )
    with pytest.raises(ConfigError, match="t-0: control record"):
        load(folder, is_clean=True)
