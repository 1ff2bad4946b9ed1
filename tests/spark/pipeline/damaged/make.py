"""Makes the directory that is kept: ``python -m tests.spark.pipeline.damaged.make``.

One broker lives twice. Its first life ends with an orderly stop (``clean``), its second one with
SIGKILL (``killed``). Kafka's own ``find-hanging`` is run before each end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tests.clients.kafka_tools.runner import Tools
from tests.spark.pipeline.corpus import asked
from tests.spark.pipeline.corpus.actors import Actor, Notebook
from tests.spark.pipeline.corpus.brokers import JVM, copy_tree
from tests.spark.pipeline.corpus.raw_brokers import RawBrokers
from tests.spark.pipeline.corpus.stories import UNKNOWN_PRODUCER, VERIFICATION
from tests.spark.pipeline.corpus.truth import Place
from tests.support.apache_kafka import ApacheKafka

ARCHIVE: Final = Path(__file__).with_name("directory.tar.xz")
STAGES: Final = ("clean", "killed")
LONG_MS: Final = 2_000_000_000
"""Three weeks: no coordinator ends a live transaction while a real broker is asked."""
PROPERTIES: Final = {
    "controlled.shutdown.enable": "true",
    "log.index.size.max.bytes": "4096",
    "log.retention.ms": "-1",
    "transaction.max.timeout.ms": str(LONG_MS),
    "transactional.id.expiration.ms": str(LONG_MS),
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
}
SMALL: Final = {"internal.segment.bytes": "700"}
"""Topic configs for segments of a few batches."""
HERE: Final = ((1,),)


class Story:
    """Writes transactions in two parts, one before each stop.

    Args:
        raw: Connection to the broker.
    """

    def __init__(self, raw: RawBrokers) -> None:
        self.book = Notebook(raw, transaction_version=2)
        for topic, partitions in (("orders", 3), ("payments", 3), ("stock", 2)):
            raw.create_topic(topic, partitions=HERE * partitions, configs=SMALL)
        self.filler = Actor(self.book, "filler", timeout_ms=LONG_MS)
        self.ghosts: list[Actor] = []

    def build_first_stage(self) -> None:
        """Make five hanging and two live transactions, and one partition without an open one."""
        raw, notebook = self.book.raw, self.book
        self.plain("orders-0", 3)
        self.commits("orders-0", 2)
        late_producer = Actor(notebook, "late", timeout_ms=LONG_MS)
        late_producer.send(parse_place("orders-0"), "in time")
        late_producer.finish(committed=False)
        alive_producer = Actor(notebook, "alive", timeout_ms=LONG_MS)
        alive_producer.send(parse_place("orders-1"), "alive")
        report_actor = Actor(notebook, "report", timeout_ms=LONG_MS)
        self.commits("payments-2", 1)
        report_actor.send(parse_place("payments-2"), "alive, too")
        raw.configure(4, "", {VERIFICATION: "false"})
        self.write_unasked(late_producer, "orders-0")
        self.write_unasked(Actor(notebook, "never", timeout_ms=LONG_MS), "orders-2")
        self.stranger("payments-0")
        self.write_unasked(report_actor, "payments-1")
        spread_actor = Actor(notebook, "spread", timeout_ms=LONG_MS)
        for turn in range(5):
            self.write_unasked(spread_actor, "stock-0")
            self.commits("stock-0", 1 + turn % 2)
        raw.configure(4, "", {VERIFICATION: None})
        for name in ("orders-0", "orders-1", "payments-0"):
            self.commits(name, 2)
            self.plain(name, 3)
        for _ in range(3):
            self.commits("stock-1", 2)
            self.plain("stock-1", 1)

    def second(self) -> None:
        for name in ("orders-0", "orders-1", "payments-0", "stock-0", "stock-1"):
            self.plain(name, 2)
            self.commits(name, 2)

    def plain(self, name: str, batch_count: int) -> None:
        """Write batches without a producer."""
        for batch_number in range(batch_count):
            self.book.append(
                parse_place(name),
                self.book.stamp_records(f"{name} plain {batch_number} {'p' * 60}"),
            )

    def commits(self, name: str, count: int) -> None:
        """Write transactions that end."""
        for record_number in range(count):
            self.filler.send(parse_place(name), f"{name} {record_number} {'c' * 60}")
            self.filler.finish(committed=record_number % 2 == 0)

    def write_unasked(self, actor: Actor, name: str) -> None:
        """Write a batch without adding the partition at the coordinator."""
        actor.send_told(
            parse_place(name), self.book.stamp_records(f"hangs on {name}"), skips_adding=True
        )

    def stranger(self, name: str) -> None:
        """Write a batch of a producer id that no coordinator knows."""
        self.book.append(
            parse_place(name),
            self.book.stamp_records("who is this?"),
            transactional_id="stranger",
            producer_id=UNKNOWN_PRODUCER,
            producer_epoch=7,
            base_sequence=0,
            is_transactional=True,
        )


def parse_place(name: str) -> Place:
    """The partition of a name such as ``orders-0``."""
    topic, _, partition = name.rpartition("-")
    return Place(topic, int(partition))


def make(directory: Path) -> None:
    """Make both stages in an existing directory, with the rows of Kafka's tool."""
    kafka = ApacheKafka(properties=PROPERTIES, jvm_options=JVM)
    hanging_by_stage = {}
    kafka.start()
    try:
        address = {1: kafka.bootstrap}
        with RawBrokers(address) as raw, Tools(kafka.bootstrap) as tools:
            story = Story(raw)
            story.build_first_stage()
            hanging_by_stage["clean"] = asked.find_hanging(tools, [1])
        kafka.stop_broker(1)
        copy_tree(kafka.homes[0] / "data", directory / "clean")
        kafka.start_again(1)
        with RawBrokers(address) as raw, Tools(kafka.bootstrap) as tools:
            story.book.raw = raw
            story.second()
            hanging_by_stage["killed"] = asked.find_hanging(tools, [1])
        kafka.kill(1)
        copy_tree(kafka.homes[0] / "data", directory / "killed")
        properties_text = (kafka.homes[0] / "server.properties").read_text()
        (directory / "server.properties").write_text(properties_text)
    finally:
        kafka.stop()
    counts = {stage_name: len(rows) for stage_name, rows in hanging_by_stage.items()}
    assert counts == dict.fromkeys(STAGES, 5), hanging_by_stage
    sys.stdout.write(json.dumps(counts) + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="txnsim-damaged-") as scratch_path:
        directory = Path(scratch_path)
        make(directory)
        subprocess.run(
            [
                *("tar", "-C", scratch_path, "--sort=name", "--owner=0", "--group=0"),
                *("--numeric-owner", "-cJf", str(ARCHIVE), *STAGES, "server.properties"),
            ],
            check=True,
        )


def unpack_stages(directory: Path) -> Path:
    """Unpack both stages into an existing directory; returns the folder with them."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    return directory


if __name__ == "__main__":
    main()
