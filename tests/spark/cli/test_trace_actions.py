"""``txnsim trace export`` and ``analyse`` without Spark; with it:
tests/spark/pipeline/test_trace.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from txnsim.cli.main import main
from txnsim.cli.parsing import CommandParser
from txnsim.errors import MissingExtraError
from txnsim_spark.cli import trace_actions as trace


def arguments(*given: str) -> argparse.Namespace:
    parser = CommandParser()
    trace.add_arguments(parser.add_subparsers(dest="action"))
    return parser.parse_args(list(given))


def test_traces_a_place_and_a_master_are_taken() -> None:
    args = arguments("export", "a.jsonl", "b", "--to", "out", "--master", "local[2]", "--json")
    assert (args.action, args.trace, args.to) == ("export", ["a.jsonl", "b"], "out")
    assert (args.master, args.json) == ("local[2]", True)


def test_five_ids_of_every_analysis_are_shown_unless_told_otherwise() -> None:
    args = arguments("analyse", "a")
    assert (args.ids, args.only, args.plots) == (5, [], None)
    args = arguments("analyse", "a", "--ids", "0", "--only", "lso_lag", "--plots", "p")
    assert (args.ids, args.only, args.plots) == (0, ["lso_lag"], Path("p"))


@pytest.mark.parametrize("count", ["-1", "x", "1.5", "²"])
def test_no_number_of_ids_is_a_misuse(count: str) -> None:
    assert main(["trace", "analyse", "a", "--ids", count]) == 2


def test_an_analysis_that_is_none_is_refused_before_spark_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["trace", "analyse", "a", "--only", "lag"]) == 2
    told = capsys.readouterr().err
    assert "'lag'" in told
    assert "lso_lag" in told


def test_what_is_missing_on_this_machine_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def without(_master: str | None) -> Iterator[Any]:
        raise MissingExtraError("Apache Spark needs Java 17")
        yield

    monkeypatch.setattr(trace, "session", without)
    assert main(["trace", "export", "a.jsonl", "--to", "out"]) == 2
    assert "Java 17" in capsys.readouterr().err


def summary(**changes: object) -> dict[str, object]:
    return {"runs": 1, "events": 2, "unknown_kinds": {}, "unreadable": [], **changes}


def test_all_is_well_where_every_line_was_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace._warned(summary()) == 0
    assert capsys.readouterr().err == ""


def test_kinds_that_nobody_knows_are_named_and_no_fault(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert trace._warned(summary(unknown_kinds={"txn.dream": 3})) == 0
    assert "3 events of kind 'txn.dream'" in capsys.readouterr().err


def test_unreadable_lines_are_shown_up_to_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    torn = [
        {"file": f"{number}.jsonl", "reason": "cut off", "lines": 1, "text": "{"}
        for number in range(8)
    ]
    assert trace._warned(summary(unreadable=torn)) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "txnsim: 0.jsonl: 1 × cut off: {"
    assert told[-1] == "txnsim: … and 3 more files like that"
    assert len(told) == trace.SHOWN_MAX + 1


def test_a_table_leaves_out_columns_in_which_nothing_is() -> None:
    table = trace._table(
        [
            {"grouped_by": "all", "transaction_version": None, "transactional_id": None, "p50": 1.5}
            | {"p99": None},
            {"grouped_by": "transactional_id", "transaction_version": 2, "transactional_id": "app"}
            | {"p50": None, "p99": None},
        ]
    )
    assert [line.split() for line in table.splitlines()] == [
        ["transaction_version", "transactional_id", "p50"],
        ["all", "1.5"],
        ["2", "app"],
    ]


def test_a_trace_without_any_of_it_is_said_to_be_so() -> None:
    assert trace._table([]) == "nothing of it in this trace\n"


def test_only_directories_of_this_machine_are_looked_into(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").touch()
    assert trace._entries(tmp_path) == ["x.jsonl"]
    assert trace._entries(tmp_path / "x.jsonl") == []
    assert trace._entries(Path("s3a://bucket/x")) == []
