"""What a server says and writes while it runs: its log, its ready file, its memory."""

from __future__ import annotations

import gc
import json
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from structlog.contextvars import bound_contextvars

from txnsim.cli import _ready_file as ready_file
from txnsim.cli import event_log
from txnsim.cli.event_log import (
    KINDS_MAX,
    LEVELS,
    QUIET_MS,
    REASONS_MAX,
    FloodFilter,
    LogFormat,
    set_up_logs,
    tell_left_out,
)
from txnsim.cli.garbage_collection import THRESHOLDS, no_garbage_collection, rare_garbage_collection
from txnsim.errors import ConfigError, ErrorCode

# One line per kind of trouble and second; the rest is counted.


class Time:
    ms = 5_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Iterator[Time]:
    """A log of JSON that goes by a clock of its own."""
    config_before = structlog.get_config()
    clock = Time()
    monkeypatch.setattr(event_log, "monotonic_ms", clock)
    set_up_logs(level="debug", log_format=LogFormat.JSON)
    yield clock
    logging.getLogger("asyncio").removeFilter(event_log._flood_filter)
    structlog.configure(**config_before)


def lines(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, int]]:
    """(event, left out) of each line since the last look."""
    events = map(json.loads, capsys.readouterr().err.splitlines())
    return [(event_line["event"], event_line.get("left_out", 0)) for event_line in events]


def fail(*, is_deep: bool) -> None:
    if is_deep:
        raise ValueError("one place")
    raise ValueError("another place")


def log_failure(*, is_deep: bool) -> None:
    try:
        fail(is_deep=is_deep)
    except ValueError as error:
        structlog.get_logger("txnsim.server").error("bug", exc_info=error)


def test_ten_thousand_bad_connections_are_a_line_and_a_count(
    time: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    log = structlog.get_logger("txnsim.server")
    for connection_number in range(10_000):
        log.warning("connection closed: bad request", connection=connection_number)
    assert lines(capsys) == [("connection closed: bad request", 0)]
    time.ms += QUIET_MS
    log.warning("connection closed: bad request")
    assert lines(capsys) == [("connection closed: bad request", 9_999)]


def test_what_was_left_out_is_told_when_the_flood_has_ended(
    time: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        structlog.get_logger("txnsim.server").warning("trouble")
    tell_left_out()
    assert lines(capsys) == [("trouble", 0)], "it goes on, perhaps"
    time.ms += QUIET_MS
    tell_left_out()
    tell_left_out()
    assert lines(capsys) == [("trouble", 2)]
    for _ in range(5):
        structlog.get_logger("txnsim.server").warning("trouble")
    time.ms += QUIET_MS
    tell_left_out(tells_at_once=True)
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
        log_failure(is_deep=True)
        log_failure(is_deep=False)
    assert lines(capsys) == [("bug", 0), ("bug", 0)]


def test_a_traceback_of_the_present_exception_counts_too(
    time: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        try:
            fail(is_deep=True)
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
    """An advance of the clock may let 10,000 transactions time out."""
    log = structlog.get_logger("txnsim.txn")
    for id_number in range(10_000):
        log.info("txn.timed_out", node="broker/1/txn/0", transactional_id=f"app-{id_number}")
    log_lines = [json.loads(printed_line) for printed_line in capsys.readouterr().err.splitlines()]
    assert [line["transactional_id"] for line in log_lines] == [
        f"app-{id_number}" for id_number in range(21)
    ]
    time.ms += QUIET_MS
    tell_left_out()
    assert lines(capsys) == [("txn.timed_out", 10_000 - REASONS_MAX - 1)]


def test_the_loops_own_complaints_are_counted_as_well(time: Time) -> None:
    records = [
        logging.LogRecord("asyncio", logging.ERROR, "x.py", 1, "Fatal error", None, None)
        for _ in range(3)
    ]
    logger = logging.getLogger("asyncio")
    assert [bool(logger.filter(record)) for record in records] == [True, False, False]
    time.ms += QUIET_MS
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
    floods = FloodFilter(Time())
    for number in range(10 * KINDS_MAX):
        assert floods.admit(("logger", number)) == 0
    assert len(floods._told_ms) <= KINDS_MAX


def test_each_reason_is_told_and_no_stranger_can_tell_a_thousand(
    time: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    log = structlog.get_logger("txnsim.server")
    for reason in ("byte 17 of 32: a", "byte 3 of 9: a", "byte 1 of 2: b"):
        log.warning("connection closed: bad request", reason=reason)
    reasons = [
        json.loads(printed_line)["reason"] for printed_line in capsys.readouterr().err.splitlines()
    ]
    assert reasons == ["byte 17 of 32: a", "byte 1 of 2: b"]
    for number in range(1_000):
        letters = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        log.warning("connection closed: bad request", reason=f"no API {letters}")
    assert len(lines(capsys)) <= REASONS_MAX
    time.ms += QUIET_MS
    log.warning("connection closed: bad request", reason="byte 4 of 5: a")
    assert lines(capsys) == [("connection closed: bad request", 1)]


# The file that says that the cluster is ready.


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_written_whole_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    path.write_text("of before, and longer")
    ready_file.check(path)
    ready_file.write(path, b"{}", is_secret=False)
    assert path.read_bytes() == b"{}"
    assert list(tmp_path.iterdir()) == [path]


def test_with_a_token_it_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    path.touch(mode=0o666)
    ready_file.write(path, b"{}", is_secret=True)
    assert mode(path) == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target_path, link_path = tmp_path / "elsewhere", tmp_path / "ready"
    link_path.symlink_to(target_path)
    ready_file.check(link_path)
    ready_file.write(link_path, b"{}", is_secret=False)
    assert link_path.is_symlink()
    assert target_path.read_bytes() == b"{}"


@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path, *, is_link: bool) -> None:
    pipe_file = tmp_path / "pipe"
    os.mkfifo(pipe_file)
    path = pipe_file
    if is_link:
        path = tmp_path / "link"
        path.symlink_to(pipe_file)
    reader = os.open(pipe_file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ready_file.check(path)
        ready_file.write(path, b"{}", is_secret=True)
        assert os.read(reader, 10) == b"{}"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe_file.stat().st_mode)


def test_a_missing_folder_and_a_folder_are_told_before_anything_starts(tmp_path: Path) -> None:
    missing_path = tmp_path / "missing" / "ready"
    with pytest.raises(ConfigError, match=r"--ready-file .*: there is no directory .*missing"):
        ready_file.check(missing_path)
    with pytest.raises(ConfigError, match=r"--ready-file .*: is a directory"):
        ready_file.check(tmp_path)


def test_a_folder_that_goes_away_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--ready-file .*ready: No such file or directory"):
        ready_file.write(tmp_path / "missing" / "ready", b"{}", is_secret=False)


OURS = b'{"bootstrap":"127.0.0.1:1","http":null,"pid":%d}'


def test_what_a_run_before_has_left_is_removed(tmp_path: Path) -> None:
    path, link_path = tmp_path / "ready", tmp_path / "link"
    link_path.symlink_to(path)
    for name in (path, link_path):
        path.write_bytes(OURS % 1)
        ready_file.remove_old(name)
        assert not path.exists()
    ready_file.remove_old(path)


def test_at_the_end_only_our_own_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    path.write_bytes(OURS % 1)
    ready_file.remove_ours(path)
    assert path.exists()
    path.write_bytes(OURS % os.getpid())
    ready_file.remove_ours(path)
    assert not path.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"precious",
        b"[1]",
        b'{"pid": 1}',
        b"\xff",
        b'{"bootstrap":"a","http":1,"pid":1}' * 50_000,
    ],
)
def test_what_is_not_ours_is_never_removed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes"
    path.write_bytes(content)
    ready_file.remove_old(path)
    assert path.read_bytes() == content
    ready_file.remove_old(tmp_path)
    pipe_file = tmp_path / "pipe"
    os.mkfifo(pipe_file)
    ready_file.remove_old(pipe_file)
    assert pipe_file.exists()


def test_a_folder_that_may_not_be_written_to_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ready"
    path.write_bytes(OURS % 1)

    def refuse(_self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(ConfigError, match="Permission denied"):
        ready_file.remove_old(path)


# Lines of the log: for people and as JSON, from a level on, with what is bound.


def test_a_line_of_json_begins_with_when_how_bad_who_and_what(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logs(log_format=LogFormat.JSON)
    with bound_contextvars(correlation_id=7):
        structlog.get_logger("txnsim.test").info("broker.registered", broker=1)
    output, error_output = capsys.readouterr()
    assert output == ""
    printed_line = json.loads(error_output)
    assert list(printed_line) == [
        "timestamp",
        "level",
        "logger",
        "event",
        "broker",
        "correlation_id",
    ]
    assert printed_line.pop("timestamp").endswith("Z")
    assert printed_line == {
        "level": "info",
        "logger": "txnsim.test",
        "event": "broker.registered",
        "broker": 1,
        "correlation_id": 7,
    }


def test_json_tells_what_it_has_no_word_for_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(log_format=LogFormat.JSON)
    structlog.get_logger().warning("odd", values={ErrorCode.none: {1}}, thing=object)
    printed_line = json.loads(capsys.readouterr().err)
    assert (printed_line["logger"], printed_line["thing"]) == ("txnsim", "<class 'object'>")


@pytest.mark.parametrize("log_format", LogFormat)
def test_an_exception_has_its_stack(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logs(log_format=log_format)
    error = ValueError("bad day")
    structlog.get_logger().error("task.failed", exc_info=error)
    assert "ValueError: bad day" in capsys.readouterr().err


@pytest.mark.parametrize("log_level", LEVELS)
def test_lines_below_the_level_are_left_out(
    log_level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logs(level=log_level)
    log = structlog.get_logger("txnsim.test")
    for level_name in LEVELS:
        getattr(log, level_name)(f"of-level-{level_name}")
    error_output = capsys.readouterr().err
    shown_levels = [level_name for level_name in LEVELS if f"of-level-{level_name}" in error_output]
    assert shown_levels == list(LEVELS[LEVELS.index(log_level) :])


def test_lines_for_people_have_no_colours_where_nobody_looks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logs()
    structlog.get_logger("txnsim.test").info("broker.registered", broker=1)
    error_output = capsys.readouterr().err
    assert "\033" not in error_output
    assert "broker.registered" in error_output
    assert "[txnsim.test] broker=1" in error_output


def test_it_looks_seldom_inside_and_as_before_behind() -> None:
    thresholds_before = gc.get_threshold()
    with rare_garbage_collection():
        assert gc.get_threshold() == THRESHOLDS
        assert not any(collected_object is gc.__dict__ for collected_object in gc.get_objects()), (
            "modules are passed over"
        )
    assert gc.get_threshold() == thresholds_before
    assert gc.get_freeze_count() == 0


def test_nothing_is_collected_while_modules_are_imported() -> None:
    passes: list[str] = []
    gc.callbacks.append(lambda phase, _info: passes.append(phase))
    try:
        with no_garbage_collection():
            passes.clear()
            garbage: list[object] = [[] for _ in range(2 * gc.get_threshold()[0])]
            passes_before = tuple(passes)
        assert not passes_before
        garbage += [[] for _ in range(2 * gc.get_threshold()[0])]
        assert passes, "and again behind it"
    finally:
        gc.callbacks.pop()
