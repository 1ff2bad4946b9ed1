"""What is the end of a log, and what is damage: by the rules of Kafka's own readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.log_tables import broker_dir, overwrite, segment, write_dense_index
from tests.support.logs import plain
from txnsim_spark.scan.log_end import is_log_end
from txnsim_spark.scan.segments import SegmentFile, replicas_in, segments_of
from txnsim_spark.scan.walk import damage_of

BATCH = len(plain())
ALLOCATED = 5 << 20
"""More than is read at once."""


def answers_of(log_dir: Path) -> list[bool | None]:
    """Whether the log ends in each segment, in order; None if no segment has damage."""
    return [_answer(segment) for segment in segments_of(replicas_in([log_dir])[0])]


def _answer(segment: SegmentFile) -> bool | None:
    damage = damage_of(Path(segment.path), end_position=segment.size)
    return None if damage is None else is_log_end(segment, damage)


@pytest.mark.parametrize("size", [1, 11, 61, BATCH - 1])
@pytest.mark.parametrize("is_clean", [True, False])
def test_half_a_batch_is_the_end_of_what_a_broker_was_writing(
    tmp_path: Path, size: int, is_clean: bool
) -> None:
    log_dir = broker_dir(tmp_path, is_clean=is_clean)
    log = segment(log_dir / "orders-0", [plain(), plain()])
    log.write_bytes(log.read_bytes()[: BATCH + size])
    assert answers_of(log_dir) == [not is_clean]
    segment(log_dir / "orders-0", [plain()], base_offset=2)
    assert answers_of(log_dir) == [False, None], "a closed segment was finished"


def test_zeros_that_were_allocated_are_the_end(tmp_path: Path) -> None:
    log_dir = broker_dir(tmp_path, is_clean=False)
    log = segment(log_dir / "orders-0", [plain()])
    log.write_bytes(log.read_bytes() + bytes(ALLOCATED))
    assert answers_of(log_dir) == [True]
    overwrite(log, ALLOCATED, b"!")
    assert answers_of(log_dir) == [False]


def test_a_batch_that_came_meanwhile_does_not_make_the_end_damage(tmp_path: Path) -> None:
    log_dir = broker_dir(tmp_path, is_clean=False)
    log = segment(log_dir / "orders-0", [plain()])
    log.write_bytes(log.read_bytes() + bytes(ALLOCATED))
    (planned_segment,) = segments_of(replicas_in([log_dir])[0])
    damage = damage_of(log, end_position=planned_segment.size)
    assert damage is not None
    overwrite(log, BATCH, plain())
    assert is_log_end(planned_segment, damage)


def test_a_changed_length_is_no_end_where_the_index_knows_what_follows(tmp_path: Path) -> None:
    log_dir = broker_dir(tmp_path, is_clean=False)
    log = segment(log_dir / "orders-0", [plain()] * 6)
    overwrite(log, BATCH + 9, b"\x01")
    assert answers_of(log_dir) == [True], "without an index nothing tells"
    overwrite(log, BATCH + 9, b"\x00")
    write_dense_index(log)
    overwrite(log, BATCH + 9, b"\x01")
    assert answers_of(log_dir) == [False]
