"""What runs are called by their files, and which lines have something to say."""

from __future__ import annotations

import re

import pytest

from txnsim_spark.traces._files import SILENT_LINE, path_of, run_names


@pytest.mark.parametrize(
    ("files", "runs"),
    [
        ([], []),
        (["x.jsonl"], ["x"]),
        (["/tmp/a/x.jsonl"], ["x"]),
        (["/tmp/a/x.jsonl", "/tmp/a/y.jsonl.gz"], ["x", "y"]),
        (["/tmp/a/x.jsonl", "/tmp/b/x.jsonl"], ["a/x", "b/x"]),
        (["/tmp/a/x.json", "/tmp/a/x.jsonl"], ["x.json", "x.jsonl"]),
        (["/a/x.jsonl", "/b/x.jsonl"], ["a/x", "b/x"]),
        (["file:///tmp/a%20b/TV2+.armed.jsonl"], ["TV2+.armed"]),
        (["s3a://bucket/one/x.jsonl", "s3a://bucket/two/x.jsonl"], ["one/x", "two/x"]),
        (["/tmp/a/.jsonl"], [".jsonl"]),
    ],
)
def test_a_run_is_called_what_tells_its_file_from_others(files: list[str], runs: list[str]) -> None:
    assert run_names(files) == dict(zip(files, runs, strict=True))


def test_a_file_is_named_as_people_write_it() -> None:
    assert path_of("file:///tmp/a%20b/%C3%A4.jsonl") == "/tmp/a b/ä.jsonl"
    assert path_of("s3a://bucket/x.jsonl") == "s3a://bucket/x.jsonl"


@pytest.mark.parametrize(
    ("line", "is_silent"),
    [
        ("", True),
        ("   ", True),
        (": connected", True),
        ("id: 7", True),
        ("event: log.lso", True),
        ("retry: 10", True),
        ('data: {"i":7}', False),
        ('{"i":7}', False),
        ('{"i":7,"t"', False),
        ("id", False),
    ],
)
def test_what_an_event_stream_says_between_events_is_no_damage(line: str, is_silent: bool) -> None:
    assert bool(re.search(SILENT_LINE, line)) is is_silent
