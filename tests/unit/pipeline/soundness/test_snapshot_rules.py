"""Snapshots against the log below them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from txnsim.log.producer_state import BatchMetadata, SnapshotEntry
from txnsim.pipeline.soundness.parts import FirstMarker, ProducerStretch
from txnsim.pipeline.soundness.snapshot_rules import (
    Known,
    judge_snapshot,
    known_of_snapshot,
)

DAY_MS = 86_400_000
NEWEST = BatchMetadata(last_sequence=4, last_offset=20, offset_delta=1, timestamp=50)


def known(*, open_offset: int = -1, last_timestamp: int = 50) -> Known:
    return Known(
        producer_id=7,
        producer_epoch=1,
        newest=NEWEST,
        last_timestamp=last_timestamp,
        last_offset=20,
        coordinator_epoch=0,
        open_offset=open_offset,
    )


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
    assert found(snapshot, [known().saved()], known()) == []
    assert found(snapshot, [known(open_offset=3).saved()], known()) == [
        "producer 7: txn_first_offset 3"
    ]
    assert found(snapshot, [known(open_offset=3).saved()], known(), judged_from=21) == []


def test_a_producer_that_is_missing_may_have_expired(snapshot: Path) -> None:
    assert found(snapshot, [], known(last_timestamp=0)) == []
    assert found(snapshot, [], known(last_timestamp=1)) == ["producer 7: no such producer"]
    # Its file was copied without its time.
    assert found(snapshot, [], known(last_timestamp=DAY_MS + 1)) == []
    assert len(found(snapshot, [], known(open_offset=3, last_timestamp=0))) == 1


def test_what_only_the_snapshot_knows_was_deleted(snapshot: Path) -> None:
    entry = known().saved()
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
    *, epoch: int = 1, newest: BatchMetadata | None = None, marker: bool = False, open_at: int = -1
) -> ProducerStretch:
    ending = FirstMarker(
        producer_epoch=epoch,
        coordinator_epoch=5,
        offset=40,
        position=0,
        timestamp=60,
        committed=True,
        opened_at=-1,
    )
    return ProducerStretch(
        producer_id=7,
        first_data=None,
        first_marker=ending if marker else None,
        last_epoch=epoch,
        last_timestamp=60,
        last_offset=40,
        newest=newest,
        keeps_batches=newest is None,
        coordinator_epoch=5 if marker else -1,
        open_offset=open_at,
    )


def test_state_is_carried_over_a_stretch() -> None:
    (before,) = known_of_snapshot([known(open_offset=3).saved()]).values()
    after = Known.after(before, stretch(newest=NEWEST, open_at=35))
    assert (after.open_offset, after.coordinator_epoch) == (3, 0)
    after = Known.after(before, stretch(marker=True))
    assert (after.open_offset, after.coordinator_epoch, after.newest) == (-1, 5, before.newest)
    after = Known.after(before, stretch(marker=True, epoch=2))
    assert after.newest is None
    after = Known.after(None, stretch(newest=NEWEST, open_at=35))
    assert (after.open_offset, after.entry().batches) == (35, (NEWEST,))


def test_a_snapshot_without_batches_is_read(snapshot: Path) -> None:
    entry = Known.after(None, stretch(marker=True)).saved()
    assert (entry.last_sequence, entry.last_offset, entry.offset_delta) == (-1, -1, 0)
    (again,) = known_of_snapshot([entry]).values()
    assert again.newest is None
    assert again.saved() == entry
