"""What actions on Spark have in common; their sessions are judged in tests/spark/pipeline."""

from __future__ import annotations

import argparse
from pathlib import Path

from txnsim_spark.cli.logs.spark import add_directories, add_master


def test_directories_topics_and_a_master_are_taken() -> None:
    parser = argparse.ArgumentParser()
    add_directories(parser)
    add_master(parser)
    args = parser.parse_args(["a", "b", "--topic", "t", "--topic", "u", "--master", "local[2]"])
    assert args.directory == [Path("a"), Path("b")]
    assert (args.topic, args.master) == (["t", "u"], "local[2]")
