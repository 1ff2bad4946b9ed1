"""One line per kind of trouble and second; the rest is counted."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from txnsim.cli import event_log
from txnsim.cli.event_log import (
    KINDS_MAX,
    ONCE_MS,
    REASONS_MAX,
    Floods,
    LogFormat,
    set_up_logs,
    tell_left_out,
)


class Time:
    ms = 5_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Iterator[Time]:
    """A log of JSON that goes by a clock of its own."""
    before = structlog.get_config()
    clock = Time()
    monkeypatch.setattr(event_log, "monotonic_ms", clock)
    set_up_logs(level="debug", log_format=LogFormat.JSON)
    yield clock
    logging.getLogger("asyncio").removeFilter(event_log._floods)
    structlog.configure(**before)


def lines(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, int]]:
    """(event, left out) of each line since the last look."""
    told = map(json.loads, capsys.readouterr().err.splitlines())
    return [(line["event"], line.get("left_out", 0)) for line in told]


def fail(*, deep: bool) -> None:
    if deep:
        raise ValueError("one place")
    raise ValueError("another place")


def log_failure(*, deep: bool) -> None:
    try:
        fail(deep=deep)
    except ValueError as error:
        structlog.get_logger("txnsim.server").error("bug", exc_info=error)


def test_ten_thousand_bad_connections_are_a_line_and_a_count(
    time: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    log = structlog.get_logger("txnsim.server")
    for number in range(10_000):
        log.warning("connection closed: bad request", connection=number)
    assert lines(capsys) == [("connection closed: bad request", 0)]
    time.ms += ONCE_MS
    log.warning("connection closed: bad request")
    assert lines(capsys) == [("connection closed: bad request", 9_999)]


def test_what_was_left_out_is_told_when_the_flood_has_ended(
    time: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        structlog.get_logger("txnsim.server").warning("trouble")
    tell_left_out()
    assert lines(capsys) == [("trouble", 0)], "it goes on, perhaps"
    time.ms += ONCE_MS
    tell_left_out()
    tell_left_out()
    assert lines(capsys) == [("trouble", 2)]
    for _ in range(5):
        structlog.get_logger("txnsim.server").warning("trouble")
    time.ms += ONCE_MS
    tell_left_out(at_once=True)
    assert lines(capsys) == [("trouble", 5)]


def test_kinds_do_not_hide_each_other(time: Time, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("txnsim.server", "txnsim.tasks"):
        structlog.get_logger(name).warning("trouble")
        structlog.get_logger(name).warning("other trouble")
    assert len(lines(capsys)) == 4


def test_tracebacks_are_told_by_the_line_that_raised_them(
    time: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(880):
        log_failure(deep=True)
        log_failure(deep=False)
    assert lines(capsys) == [("bug", 0), ("bug", 0)]


def test_a_traceback_of_the_present_exception_counts_too(
    time: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        try:
            fail(deep=True)
        except ValueError:
            structlog.get_logger("txnsim.server").exception("bug")
    assert lines(capsys) == [("bug", 0)]


def test_what_is_no_trouble_is_told_as_it_is(
    time: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        structlog.get_logger("txnsim.server").info("broker.registered")
        structlog.get_logger("txnsim.server").debug("request.received")
    assert len(lines(capsys)) == 6


def test_thousands_of_timeouts_are_some_lines_and_a_count(
    time: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    """An advance of the clock may let 10,000 transactions time out: it was 540 kB."""
    log = structlog.get_logger("txnsim.txn")
    for number in range(10_000):
        log.info("txn.timed_out", node="broker/1/txn/0", transactional_id=f"app-{number}")
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [one["transactional_id"] for one in told] == [f"app-{at}" for at in range(21)]
    time.ms += ONCE_MS
    tell_left_out()
    assert lines(capsys) == [("txn.timed_out", 10_000 - REASONS_MAX - 1)]


def test_the_loops_own_complaints_are_counted_as_well(time: Time) -> None:
    records = [
        logging.LogRecord("asyncio", logging.ERROR, "x.py", 1, "Fatal error", None, None)
        for _ in range(3)
    ]
    logger = logging.getLogger("asyncio")
    assert [bool(logger.filter(record)) for record in records] == [True, False, False]
    time.ms += ONCE_MS
    assert logger.filter(records[0])
    assert records[0].msg == "Fatal error (2 more left out)"


@pytest.mark.usefixtures("time")
def test_a_log_that_is_set_up_again_counts_anew() -> None:
    record = logging.LogRecord("asyncio", logging.ERROR, "x.py", 1, "Fatal error", None, None)
    logger = logging.getLogger("asyncio")
    assert logger.filter(record)
    set_up_logs(level="debug", log_format=LogFormat.JSON)
    assert logger.filter(record)
    assert not logger.filter(record)


def test_the_memory_of_kinds_has_a_bound() -> None:
    floods = Floods(Time())
    for number in range(10 * KINDS_MAX):
        assert floods.admit(("logger", number)) == 0
    assert len(floods._told_ms) <= KINDS_MAX


def test_each_reason_is_told_and_no_stranger_can_tell_a_thousand(
    time: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight malformed requests in 0.2 s had one line, with ``left_out=7``."""
    log = structlog.get_logger("txnsim.server")
    for reason in ("byte 17 of 32: a", "byte 3 of 9: a", "byte 1 of 2: b"):
        log.warning("connection closed: bad request", reason=reason)
    told = [json.loads(line)["reason"] for line in capsys.readouterr().err.splitlines()]
    assert told == ["byte 17 of 32: a", "byte 1 of 2: b"]
    for number in range(1_000):
        word = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        log.warning("connection closed: bad request", reason=f"no API {word}")
    assert len(lines(capsys)) <= REASONS_MAX
    time.ms += ONCE_MS
    log.warning("connection closed: bad request", reason="byte 4 of 5: a")
    assert lines(capsys) == [("connection closed: bad request", 1)]
