"""Snapshots against the log below them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from txnsim.log.producer_state import SnapshotEntry
from txnsim.pipeline.soundness.parts import FirstMarker, ProducerStretch
from txnsim.pipeline.soundness.snapshot_rules import Known, judge_snapshot
from txnsim.wire.batch import BatchHeader, ControlRecord
from txnsim.wire.control import COMMIT

DAY_MS = 86_400_000
BATCH = {"last_sequence": 4, "last_offset": 20, "offset_delta": 1}
NO_BATCH = {"last_sequence": -1, "last_offset": -1, "offset_delta": 0}


def known(*, open_offset: int = -1, last_timestamp: int = 50) -> Known:
    saved = SnapshotEntry(
        producer_id=7,
        producer_epoch=1,
        **BATCH,
        timestamp=last_timestamp,
        coordinator_epoch=0,
        txn_first_offset=open_offset,
    )
    return Known(saved=saved, last_offset=20)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000030.snapshot"
    path.touch()
    os.utime(path, (DAY_MS // 1_000, DAY_MS // 1_000))
    return path


def found(
    path: Path, entries: list[SnapshotEntry], one: Known | None, judged_from: int = 0
) -> list[str]:
    told = judge_snapshot(
        entries,
        {} if one is None else {7: one},
        offset=30,
        path=path,
        judged_from=judged_from,
        expiration_ms=DAY_MS,
    )
    return [broken.found for broken in told]


def test_a_snapshot_says_what_the_log_leads_to(snapshot: Path) -> None:
    assert found(snapshot, [known().saved], known()) == []
    assert found(snapshot, [known(open_offset=3).saved], known()) == [
        "producer 7: txn_first_offset 3"
    ]
    assert found(snapshot, [known(open_offset=3).saved], known(), judged_from=21) == []


def test_a_producer_that_is_missing_may_have_expired(snapshot: Path) -> None:
    assert found(snapshot, [], known(last_timestamp=0)) == []
    assert found(snapshot, [], known(last_timestamp=1)) == ["producer 7: no such producer"]
    # Its file was copied without its time.
    assert found(snapshot, [], known(last_timestamp=DAY_MS + 1)) == []
    assert len(found(snapshot, [], known(open_offset=3, last_timestamp=0))) == 1


def test_what_only_the_snapshot_knows_was_deleted(snapshot: Path) -> None:
    entry = known().saved
    assert found(snapshot, [entry], None, judged_from=21) == []
    assert found(snapshot, [entry], None, judged_from=20) == [
        "producer 7 with a batch at offset 20"
    ]


def test_an_entry_of_an_emptied_marker_says_nothing(snapshot: Path) -> None:
    empty = SnapshotEntry(
        producer_id=9,
        producer_epoch=-1,
        last_sequence=-1,
        last_offset=-1,
        offset_delta=0,
        timestamp=-1,
        coordinator_epoch=-1,
        txn_first_offset=-1,
    )
    assert found(snapshot, [empty], None) == []


def stretch(
    *, epoch: int = 1, has_batch: bool = False, marker: bool = False, open_at: int = -1
) -> ProducerStretch:
    ending = FirstMarker(
        header=BatchHeader(40, 66, 0, 2, 0, 0x30, 0, 60, 60, 7, epoch, -1, 1),
        control=ControlRecord(type=COMMIT, version=0, coordinator_epoch=5),
        position=0,
        opened_at=-1,
    )
    left = SnapshotEntry(
        producer_id=7,
        producer_epoch=epoch,
        **(BATCH if has_batch else NO_BATCH),
        timestamp=60,
        coordinator_epoch=5 if marker else -1,
        txn_first_offset=open_at,
    )
    return ProducerStretch(
        first_data=None,
        first_marker=ending if marker else None,
        left=left,
        last_offset=40,
        keeps_batches=not has_batch,
    )


def batch_in(entry: SnapshotEntry) -> dict[str, int]:
    return {name: getattr(entry, name) for name in BATCH}


def test_state_is_carried_over_a_stretch() -> None:
    before = Known(saved=known(open_offset=3).saved)
    after = Known.after(before, stretch(has_batch=True, open_at=35))
    assert (after.open_offset, after.saved.coordinator_epoch) == (3, 0)
    after = Known.after(before, stretch(marker=True))
    assert (after.open_offset, after.saved.coordinator_epoch) == (-1, 5)
    assert batch_in(after.saved) == BATCH
    after = Known.after(before, stretch(marker=True, epoch=2))
    assert batch_in(after.saved) == NO_BATCH
    after = Known.after(None, stretch(has_batch=True, open_at=35))
    assert (after.open_offset, after.last_offset, batch_in(after.saved)) == (35, 40, BATCH)


@pytest.mark.parametrize("has_batch", [True, False])
def test_a_partition_keeps_what_a_snapshot_says(*, has_batch: bool) -> None:
    one = Known.after(None, stretch(has_batch=has_batch, open_at=35 if has_batch else -1))
    assert one.state().to_snapshot() == (one.saved,)
