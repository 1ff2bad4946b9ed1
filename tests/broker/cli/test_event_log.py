"""Lines of the log: for people and as JSON, from a level on, with what is bound."""

from __future__ import annotations

import json

import pytest
import structlog
from structlog.contextvars import bound_contextvars

from txnsim.cli.event_log import LEVELS, LogFormat, set_up_logs
from txnsim.errors import ErrorCode


def test_a_line_of_json_begins_with_when_how_bad_who_and_what(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logs(log_format=LogFormat.JSON)
    with bound_contextvars(correlation_id=7):
        structlog.get_logger("txnsim.test").info("broker.registered", broker=1)
    out, err = capsys.readouterr()
    assert out == ""
    line = json.loads(err)
    assert list(line) == ["timestamp", "level", "logger", "event", "broker", "correlation_id"]
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "txnsim.test",
        "event": "broker.registered",
        "broker": 1,
        "correlation_id": 7,
    }


def test_json_tells_what_it_has_no_word_for_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(log_format=LogFormat.JSON)
    structlog.get_logger().warning("odd", values={ErrorCode.none: {1}}, thing=object)
    line = json.loads(capsys.readouterr().err)
    assert (line["logger"], line["thing"]) == ("txnsim", "<class 'object'>")


@pytest.mark.parametrize("log_format", LogFormat)
def test_an_exception_has_its_stack(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logs(log_format=log_format)
    error = ValueError("bad day")
    structlog.get_logger().error("task.failed", exc_info=error)
    assert "ValueError: bad day" in capsys.readouterr().err


@pytest.mark.parametrize("level", LEVELS)
def test_lines_below_the_level_are_left_out(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(level=level)
    log = structlog.get_logger("txnsim.test")
    for each in LEVELS:
        getattr(log, each)(f"of-level-{each}")
    err = capsys.readouterr().err
    shown = [each for each in LEVELS if f"of-level-{each}" in err]
    assert shown == list(LEVELS[LEVELS.index(level) :])


def test_lines_for_people_have_no_colours_where_nobody_looks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logs()
    structlog.get_logger("txnsim.test").info("broker.registered", broker=1)
    err = capsys.readouterr().err
    assert "\033" not in err
    assert "broker.registered" in err
    assert "[txnsim.test] broker=1" in err
