"""Searches by time, inside batches too."""

from __future__ import annotations

import struct

import pytest

from sim.errors import MissingExtraError
from sim.log import timestamps
from sim.log.batch_store import BatchStore
from sim.log.timestamps import first_at_or_after, first_of_max
from sim.wire.batch import GZIP, Record, build_batch, read_batch_header


def store(*batches: tuple[int, ...], compression: int = 0, append_time: bool = False) -> BatchStore:
    made = BatchStore()
    offset = 0
    for times in batches:
        data = build_batch(
            [Record(value=b"v", timestamp_ms=time) for time in times],
            timestamp_ms=max(times),
            compression=compression,
            log_append_time=append_time,
            base_offset=offset,
            leader_epoch=0,
        )
        made.append(data, offset)
        offset += len(times)
    return made


@pytest.mark.parametrize("compression", [0, GZIP])
@pytest.mark.parametrize(
    ("timestamp", "start", "found"),
    [
        (0, 0, (10, 0)),
        (10, 0, (10, 0)),
        (11, 0, (30, 1)),
        (31, 0, (40, 4)),
        (41, 0, None),
        (0, 1, (30, 1)),
        (0, 2, (20, 2)),
        (30, 2, (40, 4)),
    ],
)
def test_the_first_record_of_at_least_a_time(
    compression: int, timestamp: int, start: int, found: tuple[int, int] | None
) -> None:
    made = store((10, 30, 20), (25, 40), compression=compression)
    assert first_at_or_after(made, timestamp, start=start) == found


def test_the_first_record_of_the_largest_time() -> None:
    assert first_of_max(store((10, 30, 20), (30, 25), (5,)), start=0) == (30, 1)
    assert first_of_max(store((10,), (5, 5), (4,)), start=1) == (5, 1)
    assert first_of_max(store(), start=0) is None
    assert first_of_max(store((-1,)), start=0) is None


def test_with_append_time_every_record_has_the_batchs_time() -> None:
    made = store((10, 30), append_time=True)
    assert first_at_or_after(made, 20, start=0) == (30, 0)
    assert first_of_max(made, start=0) == (30, 0)


def test_a_header_whose_maximum_no_record_has_answers_the_last_record() -> None:
    made = store((10, 30))
    data = bytearray(made.batch(0))
    struct.pack_into(">q", data, 35, 99)
    lying = BatchStore()
    lying.append(bytes(data), 0)
    assert read_batch_header(lying.batch(0)).max_timestamp_ms == 99
    assert first_of_max(lying, start=0) == (99, 1)
    assert first_at_or_after(lying, 50, start=0) is None


def test_a_batch_without_codec_is_known_by_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> list[Record]:
        raise MissingExtraError("no codec")

    made = store((10, 20, 30))
    monkeypatch.setattr(timestamps, "read_records", missing)
    assert first_at_or_after(made, 10, start=0) == (10, 0)
    assert first_at_or_after(made, 15, start=0) == (30, 2)
    assert first_of_max(made, start=0) == (30, 2)
