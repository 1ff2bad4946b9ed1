"""Times that are asked for, progress."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tests.support.logs import NOW
from txnsim.cli.output import print_line
from txnsim_spark.cli.logs._searching import (
    add_as_of,
    answering,
    find,
    search_of,
    show_progress,
    time_ms,
)


def test_a_search_is_what_was_asked_for() -> None:
    parser = argparse.ArgumentParser()
    add_as_of(parser)
    args = parser.parse_args(["--as-of", str(NOW)])
    args.directory, args.topic, args.master = [Path("a")], ["orders"], None
    search = search_of(args)
    assert (search.paths, search.topics, search.as_of_ms) == (
        (Path("a"),),
        frozenset({"orders"}),
        NOW,
    )
    assert (search.with_spark, search.now_ms > NOW) == (False, True)


def test_nothing_starts_spark_that_does_not_ask_for_it() -> None:
    assert find(None, lambda asked, *, new_session, progress: (asked, progress), 7) == (
        7,
        show_progress,
    )


def test_times() -> None:
    assert time_ms("12") == 12
    assert time_ms("2023-11-14T22:13:20Z") == NOW
    assert time_ms("now") > NOW
    for wrong in ("soon", "2023-11-14T22:13:20"):
        with pytest.raises(argparse.ArgumentTypeError):
            time_ms(wrong)


def test_progress_that_takes_long_is_told_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    show_progress("looked at 100 replicas")
    show_progress("starting Spark")
    assert capsys.readouterr().err == "starting Spark\n"


@pytest.mark.parametrize(("json", "printed"), [(False, "seven\n"), (True, "7\n")])
def test_for_people_and_as_json(
    json: bool, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = answering(lambda _: 7, lambda _: print_line("seven"), lambda found: found - 6)
    assert run(argparse.Namespace(json=json)) == 1
    assert capsys.readouterr().out == printed


def test_the_exit_status_is_0_unless_it_is_asked_for() -> None:
    assert answering(lambda _: 7, str)(argparse.Namespace(json=False)) == 0
