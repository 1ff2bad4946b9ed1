"""A logger costs an import with its first line, and its set-up waits for that."""

from __future__ import annotations

import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from txnsim.loggers import TRIED_MAX, FailureLog, Logger, before_first_line, watched_errors

pytestmark = pytest.mark.usefixtures("all_levels")


def test_the_first_line_sets_up(monkeypatch: pytest.MonkeyPatch) -> None:
    set_ups: list[str] = []
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "structlog")
        before_first_line(lambda: set_ups.append("not this one"))
        before_first_line(lambda: set_ups.append("set up"))
    assert not set_ups
    with capture_logs():
        Logger("txnsim.test").info("first")
        Logger("txnsim.test").info("second")
    assert set_ups == ["set up"]


def test_without_a_line_nothing_is_imported() -> None:
    program = "import sys, txnsim.server.cluster; sys.exit('structlog' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_line_has_the_name_of_its_logger_and_set_up_is_done_at_once_where_lines_were() -> None:
    with capture_logs() as lines:
        Logger("txnsim.test").warning("odd", broker=1)
    assert lines == [{"event": "odd", "broker": 1, "log_level": "warning"}]
    set_ups: list[str] = []
    before_first_line(lambda: set_ups.append("set up"))
    assert set_ups == ["set up"]


def test_what_fails_again_and_again_is_told_once_and_once_more_for_another_error() -> None:
    retries = FailureLog(Logger("txnsim.test"), "no.luck", "what", patience=2)
    with capture_logs() as lines:
        for error in ("LATE", "LATE", "LATE", "LOST", "LOST", "LOST"):
            retries.note_failure("x", error, f"{error} this time")
        assert [(line["what"], line["error"]) for line in lines] == [("x", "LATE"), ("x", "LOST")]
        retries.forget_failures("x")
        retries.note_failure("x", "LATE", "once is ordinary")
        assert len(lines) == 2


def test_what_is_remembered_of_failures_is_bounded() -> None:
    retries = FailureLog(Logger("txnsim.test"), "no.luck", "what", patience=2)
    for number in range(TRIED_MAX + 1):
        retries.note_failure(number, "LATE", "")
    assert list(retries.tried) == [TRIED_MAX]


def test_errors_of_lines_can_be_watched() -> None:
    seen_errors: list[BaseException] = []
    error = KeyError("gone")
    logger = Logger("txnsim.test")
    with capture_logs() as lines:
        with watched_errors(seen_errors.append):
            logger.error("broken", exc_info=error, broker=1)
            logger.error("without an error")
        logger.error("broken", exc_info=error)
    assert seen_errors == [error]
    assert [line["event"] for line in lines] == ["broken", "without an error", "broken"]
