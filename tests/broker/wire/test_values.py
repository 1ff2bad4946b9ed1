from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.errors import ErrorCode
from txnsim.wire import values
from txnsim.wire.values import (
    Batches,
    duration_ms,
    time_ms,
    to_duration,
    to_error_code,
    to_time,
    to_uuid,
    uuid_bytes,
)

INT32 = st.integers(min_value=-(2**31), max_value=2**31 - 1)


@given(ms=INT32)
def test_every_int32_duration_survives(ms: int) -> None:
    assert duration_ms(to_duration(ms)) == ms
    assert duration_ms(ms) == ms


def test_durations_beyond_python_become_the_longest() -> None:
    assert to_duration(2**63 - 1) == timedelta.max
    assert to_duration(-(2**63)) == timedelta.min


@given(ms=st.integers(min_value=0, max_value=253402300799999))
def test_every_time_up_to_the_year_9999_survives(ms: int) -> None:
    time = to_time(ms)
    assert time_ms(time) == ms
    assert time is not None
    assert time.tzinfo is UTC


def test_no_time_is_minus_one() -> None:
    assert to_time(-1) is None
    assert time_ms(None) == -1
    assert time_ms(-1) == -1


def test_times_beyond_python_become_the_latest() -> None:
    assert to_time(2**63 - 1) == datetime.max.replace(tzinfo=UTC)


@given(data=st.binary(min_size=16, max_size=16))
def test_every_id_survives(data: bytes) -> None:
    assert uuid_bytes(to_uuid(data)) == data


def test_zero_is_no_id() -> None:
    assert to_uuid(bytes(16)) is None
    assert uuid_bytes(None) == bytes(16)


def test_flood_of_ids_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_UUIDS_MAX", 8)
    for number in range(1, 100):
        assert to_uuid(number.to_bytes(16, "big")) == UUID(int=number)
        assert to_uuid(bytes(16)) is None
    assert len(values._uuids) <= 8


def test_known_error_codes_are_themselves() -> None:
    assert all(to_error_code(int(code)) is code for code in ErrorCode)


def test_newer_error_codes_read_as_unknown_server_error() -> None:
    assert to_error_code(30000) is ErrorCode.unknown_server_error


def test_batches_in_a_row_are_their_bytes() -> None:
    batches = Batches((b"ab", b"c"), 3)
    assert (len(batches), bytes(batches)) == (3, b"abc")
