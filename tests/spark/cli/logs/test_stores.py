"""Arguments that name no store are left as they are; stores: tests/spark/pipeline/test_stores."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

from txnsim_spark.cli.logs._stores import with_local_copies
from txnsim_spark.cli.logs.spark import add_directories


def test_directories_of_this_machine_start_nothing() -> None:
    args = argparse.Namespace(directory=[Path("a")], master=None)
    with ExitStack() as stack:
        with_local_copies(args, stack)
    assert args.directory == [Path("a")]
    assert args.master is None


def test_what_hadoop_reads_stays_text() -> None:
    parser = argparse.ArgumentParser()
    add_directories(parser)
    args = parser.parse_args(["file:///a%20b", "s3a://b/x", "--spark-conf", "spark.a=b=c"])
    assert args.directory == [Path("/a b"), "s3a://b/x"]
    assert args.spark_conf == [("spark.a", "b=c")]
