"""The pipeline on a cluster: a standalone master and two worker processes, as it is on one machine,
and through ``spark-submit`` of the installed package.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import txnsim.cli.submit
from benchmarks.log_data import TOPIC, Scale, small_batches
from tests.pipeline.corpus.made import Corpus
from tests.support.standalone_spark import WORKERS, StandaloneSpark, Task

pytestmark = [pytest.mark.spark, pytest.mark.real]

FIND = ("logs", "find-hanging", "--json", "--read-all", "--max-transaction-timeout", "1")

SCALE = Scale(
    partitions=4, segment_bytes=9_000_000, transactions=36_000, batches=20, hanging=5, alive=5
)
"""Some seventy megabytes: for several tasks, as sixteen are the least for one."""
SUBMITTED = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "txnsim.pipeline.daemon",
}
"""What makes tasks cheap; a session of our own has it anyway."""

READ = """
import sys
from txnsim.pipeline.session import spark_session
master, paths = sys.argv[1:]
spark = spark_session(master)
reader = spark.read.format("kafka_log").option("table", "batches").option("taskBytes", "20000")
print(reader.load(paths).where("not is_control").selectExpr("sum(records)").first()[0])
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """A master and its workers."""
    with StandaloneSpark(tmp_path_factory.mktemp("spark")) as running:
        yield running


def shared_out(tasks: list[Task]) -> bool:
    """Whether there was more than one task, and each worker had some: a worker's only core makes
    one executor.
    """
    return len(tasks) > 1 and len({one.executor for one in tasks}) == WORKERS


Hanging = set[tuple[str, int, int, int]]
"""Topic, partition, producer id and start offset."""


def hanging(printed: str) -> Hanging:
    """What was found. ``spark-submit`` prints what a program says on stderr in front of it."""
    findings: list[dict[str, Any]] = json.loads(printed[printed.index("{") :])["findings"]
    return {
        (one["topic"], one["partition"], one["producer_id"], one["start_offset"])
        for one in findings
        if one["verdict"] == "hanging"
    }


def test_a_table_is_read_by_both_workers(cluster: StandaloneSpark, corpus: Corpus) -> None:
    paths = ",".join(map(str, corpus.brokers("killed")))
    done = cluster.run(sys.executable, "-c", READ, cluster.url, paths)
    assert done.returncode == 0, done.stderr
    sent = sum(len(one.records) for one in corpus.stage("killed").sent)
    assert int(done.stdout) > sent
    tasks = cluster.tasks()
    assert shared_out(tasks), tasks


def test_hanging_transactions_are_found_by_both_workers(cluster: StandaloneSpark) -> None:
    made = small_batches(SCALE)
    program = str(Path(sys.executable).with_name("txnsim"))
    done = cluster.run(program, *FIND, "--master", cluster.url, made.directory)
    assert done.returncode == 3, done.stderr
    assert hanging(done.stdout) == {
        (TOPIC, one.partition, one.producer_id, one.start_offset)
        for one in made.strays
        if one.is_hanging
    }
    tasks = cluster.tasks()
    assert shared_out(tasks), tasks


def test_the_installed_package_is_submitted(cluster: StandaloneSpark, corpus: Corpus) -> None:
    assert txnsim.cli.submit.__file__ is not None
    script = Path(txnsim.cli.submit.__file__)
    brokers = map(str, corpus.brokers("killed"))
    # Its master is that of spark-submit; that one is named asks for Spark also where it is little.
    done = cluster.submit(script, *FIND, "--master", "-", *brokers, config=SUBMITTED)
    assert done.returncode == 3, done.stderr
    assert hanging(done.stdout) == {
        (*one.place, one.producer_id, one.start_offset)
        for one in corpus.stage("killed").open
        if one.verdict == "hanging"
    }
    assert len(cluster.tasks()) > 1
