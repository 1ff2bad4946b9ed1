"""What actions on Spark have in common; their sessions are judged in tests/pipeline."""

from __future__ import annotations

import argparse
import errno
from pathlib import Path

import pytest

from txnsim.errors import BadInputError
from txnsim_spark.cli.logs.spark import add_directories, add_master, misused


def test_directories_topics_and_a_master_are_taken() -> None:
    parser = argparse.ArgumentParser()
    add_directories(parser)
    add_master(parser)
    args = parser.parse_args(["a", "b", "--topic", "t", "--topic", "u", "--master", "local[2]"])
    assert args.directory == [Path("a"), Path("b")]
    assert (args.topic, args.master) == (["t", "u"], "local[2]")


def test_a_misuse_is_told_with_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    misused(FileNotFoundError(2, "No such file or directory", "x.log"))
    misused(BadInputError("y is no directory"))
    misused(OSError(errno.ENOSPC, "No space left on device"))
    assert capsys.readouterr().err.splitlines() == [
        "txnsim: x.log: No such file or directory",
        "txnsim: y is no directory",
        "txnsim: a temporary file: No space left on device; make room, or name another place, and"
        " run the command again",
    ]
