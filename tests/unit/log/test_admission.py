"""What a leader asks before it gives a batch its place."""

from __future__ import annotations

import pytest

from tests.support.logs import (
    NOW,
    PARTITION,
    LogDriver,
    batch,
    config_of,
    make_log,
    plain,
)
from tests.support.markers import append_marker
from txnsim.errors import ErrorCode
from txnsim.log import validation
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import (
    append_client,
    append_coordinator,
)
from txnsim.log.verification import SENTINEL
from txnsim.wire.batch import read_batch_header
from txnsim.wire.compression import GZIP

DAY = 86_400_000


def test_refusals_of_producer_state_show_the_log_start(driver: LogDriver) -> None:
    driver.data(0, count=2, epoch=1)
    driver.log.delete_records_before(1)
    for data, error in (
        (batch(9, epoch=1), 45),
        (batch(2, epoch=0), 47),
        (batch(2, epoch=1, transactional=True), 48),
    ):
        answer = append_client(driver.log, data, guard=0, now_ms=NOW)
        assert isinstance(answer, AppendRejection)
        assert (answer.error, answer.log_start_offset) == (error, 1)
        assert str(PARTITION) in answer.reason


@pytest.mark.parametrize(("pid", "epoch"), [(-1, 0), (7, -1)])
def test_a_marker_without_producer_is_our_callers_bug(pid: int, epoch: int) -> None:
    driver = LogDriver()
    assert driver.end(committed=True, pid=pid, epoch=epoch) == -1


@pytest.mark.parametrize(("limit", "error"), [(77, 10), (78, 0)])
def test_a_marker_is_a_message_that_may_be_too_large(limit: int, error: int) -> None:
    driver = LogDriver(config_of(max_message_bytes=limit))
    assert driver.end(committed=True) == error
    assert driver.end(committed=True, pid=-1) == -1


@pytest.mark.parametrize(("bound", "error", "start"), [(100, 10, -1), (1_000, 0, 0)])
def test_a_batch_that_unpacks_to_too_much_is_too_large(
    bound: int, error: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "UNPACKED_BYTES_MAX", bound)
    log = LogDriver().log
    answer = append_client(
        log, batch(pid=-1, value=b"v" * 200, compression=GZIP), guard=SENTINEL, now_ms=NOW
    )
    assert (answer.error if isinstance(answer, AppendRejection) else 0) == error
    assert answer.log_start_offset == start


@pytest.mark.parametrize(
    ("config", "error"),
    [(config_of(max_message_bytes=60), 10), (config_of(segment_bytes=60), 18)],
)
def test_a_coordinators_batch_has_the_same_limits(config: LogConfig, error: int) -> None:
    answer = append_coordinator(make_log(config), plain(), now_ms=NOW)
    assert isinstance(answer, AppendRejection)
    assert (answer.error, answer.log_start_offset) == (error, -1)


def test_the_header_may_be_handed_in(driver: LogDriver) -> None:
    data = plain(2)
    answer = append_client(driver.log, data, guard=0, now_ms=NOW, header=read_batch_header(data))
    assert answer == Appended(
        base_offset=0, last_offset=1, log_append_time_ms=-1, log_start_offset=0
    )


def test_a_marker_of_a_negative_transaction_version_is_refused() -> None:
    refused = append_marker(
        LogDriver().log,
        producer_id=7,
        producer_epoch=0,
        committed=True,
        coordinator_epoch=0,
        transaction_version=-1,
        now_ms=NOW,
    )
    assert refused == AppendRejection(
        error=ErrorCode.unknown_server_error, reason="there is no transaction version -1"
    )
