"""Replicas against one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.soundness import (
    batches_of,
    busy_log,
    found_in,
    headers_of,
    note_offset,
    patch,
    write_log_dir,
)
from txnsim.storage import names
from txnsim.types import TopicPartition
from txnsim_spark.soundness.violations import Invariant

ORDERS = TopicPartition("orders", 0)
LAST = "00000000000000000096.log"


@pytest.fixture
def log_dirs(tmp_path: Path) -> tuple[Path, Path]:
    for broker in (1, 2):
        write_log_dir(tmp_path / f"broker-{broker}", broker, {"orders-0": busy_log()})
    return tmp_path / "broker-1", tmp_path / "broker-2"


def test_replicas_that_hold_the_same_are_sound(log_dirs: tuple[Path, Path]) -> None:
    assert found_in(*log_dirs) == []


def test_another_batch_below_the_high_watermark_is_found(log_dirs: tuple[Path, Path]) -> None:
    log = log_dirs[1] / "orders-0" / LAST
    batches = batches_of(log)
    batches[6] = batches[6][:-2] + b"w\0"  # the value of a plain record
    log.write_bytes(b"".join(batches))
    header = patch(log, 6)
    (found,) = found_in(*log_dirs)
    assert (found.rule, found.broker, found.file) == (Invariant.REPLICAS, 2, LAST)
    assert (found.offset, found.position) == (106, sum(map(len, batches[:6])))
    assert f"CRC {header.crc}" in found.found
    assert found.expected.endswith("as broker 1 has it")


def test_a_batch_that_one_lacks_is_found(log_dirs: tuple[Path, Path]) -> None:
    log = log_dirs[1] / "orders-0" / LAST
    log.write_bytes(b"".join(batches_of(log)[:-1]))
    found = {one.rule: one for one in found_in(*log_dirs)}
    assert found[Invariant.REPLICAS].found == "no batch"
    assert found[Invariant.REPLICAS].offset == 107


def test_above_the_high_watermark_they_may_differ(log_dirs: tuple[Path, Path]) -> None:
    log = log_dirs[1] / "orders-0" / LAST
    note_offset(log_dirs[1], names.HIGH_WATERMARKS_NAME, ORDERS, headers_of(log)[6].base_offset)
    patch(log, 6, leader_epoch=4)
    assert Invariant.REPLICAS not in {one.rule for one in found_in(*log_dirs)}


def test_what_was_cleaned_is_not_compared(log_dirs: tuple[Path, Path]) -> None:
    log = log_dirs[1] / "orders-0" / LAST
    patch(log, 6, leader_epoch=4)
    assert Invariant.REPLICAS in {one.rule for one in found_in(*log_dirs)}
    note_offset(log_dirs[0], names.CLEANER_OFFSETS_NAME, ORDERS, 107)
    assert Invariant.REPLICAS not in {one.rule for one in found_in(*log_dirs)}


@pytest.mark.costly
def test_cleaning_of_unknown_reach_ends_the_comparison(log_dirs: tuple[Path, Path]) -> None:
    log = log_dirs[1] / "orders-0" / LAST
    batches = batches_of(log)
    batch = bytearray(batches[6])
    batch[57:61] = bytes(4)  # no records
    batches[6] = bytes(batch)
    log.write_bytes(b"".join(batches))
    patch(log, 6)
    assert Invariant.REPLICAS not in {one.rule for one in found_in(*log_dirs)}
