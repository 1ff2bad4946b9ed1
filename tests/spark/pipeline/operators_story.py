"""``python -m tests.spark.pipeline.operators_story --write``: outputs of operators_story.md, from
three brokers of a real Apache Kafka. It needs Java 17 and Maven, and takes half a minute.

The text of the page is written by hand; each output stands below a comment with its name. Times,
ports and producer ids differ each time. Without ``--write`` the outputs are printed.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.spark.pipeline.corpus.actors import Actor, Notebook
from tests.spark.pipeline.corpus.brokers import JVM, copy_tree
from tests.spark.pipeline.corpus.raw_brokers import GROUP, RawBrokers, wait_for
from tests.spark.pipeline.corpus.stories import VERIFICATION
from tests.spark.pipeline.corpus.truth import Place
from tests.spark.pipeline.told_page import Desk, hand_over
from tests.support.apache_kafka import ApacheKafka
from txnsim.errors import ErrorCode
from txnsim.storage import names
from txnsim.storage.checkpoints import decode_offsets
from txnsim.types import TopicPartition

PAGE: Final = Path(__file__).with_suffix(".md")
BROKERS: Final = (1, 2, 3)
COPIES: Final = tuple(f"copies/broker-{broker}" for broker in BROKERS)
SHOWN_SERVER: Final = "localhost:9092"
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "replica.high.watermark.checkpoint.interval.ms": "200",
}
ORDERS: Final = Place("orders", 0)
PAYMENTS: Final = Place("payments", 0)
READERS: Final = "shippers"
CULPRIT: Final = "billing"
LOST: Final = (
    "SELECT topic, `offset`, outcome, key, value FROM kafka_outcomes"
    " WHERE producer_id = {} ORDER BY topic, `offset`"
)


class Story:
    """Events on the cluster, and commands that an operator runs.

    Args:
        kafka: A cluster of three brokers.
        scratch: The operator's working folder.
    """

    def __init__(self, kafka: ApacheKafka, scratch_folder: Path) -> None:
        self._kafka = kafka
        self._desk = Desk(scratch_folder, {self._first_address: SHOWN_SERVER})
        self.start_offset = -1
        """Start offset of the hanging transaction."""

    def happen(self) -> None:
        """Let ``billing`` abort a payment run; one of its batches arrives afterwards."""
        addresses = dict(zip(BROKERS, self._kafka.bootstrap.split(","), strict=True))
        with RawBrokers(addresses) as raw:
            for topic in (ORDERS.topic, PAYMENTS.topic):
                raw.create_topic(topic, partitions=[BROKERS])
            # As on a cluster whose operator has switched it off, or before Apache Kafka 3.6.
            raw.configure(4, "", {VERIFICATION: "false"})
            notebook = Notebook(raw, transaction_version=2)
            checkout_actor = Actor(notebook, "checkout")
            billing_actor = Actor(notebook, CULPRIT)
            for order_number in range(4):
                checkout_actor.send(ORDERS, f"order {order_number}", key=f"customer-{order_number}")
                checkout_actor.finish()
            billing_actor.send(PAYMENTS, "invoice 17", key="customer-1")
            billing_actor.send(ORDERS, "order 1 is invoiced", key="customer-1")
            billing_actor.finish(committed=False)
            _stand(raw, raw.offset(ORDERS, -1))
            late_records = notebook.stamp_records(
                "order 2 is invoiced", "order 3 is invoiced", key="customer-2"
            )
            wait_for(
                lambda: raw.offset(ORDERS, -1, committed=True),
                lambda stable: stable == raw.offset(ORDERS, -1),
                "the abort to be written",
            )
            sent_batch = billing_actor.send_told(ORDERS, late_records, skips_adding=True)
            self.start_offset = sent_batch.base_offset
            for order_number in range(4, 9):
                checkout_actor.send(ORDERS, f"order {order_number}", key=f"customer-{order_number}")
                checkout_actor.finish()

    def ask(self) -> dict[str, str]:
        """Run the operator's commands; returns the outputs by name."""
        desk = self._desk
        fields = {"lag": self._lag()}
        self._copy()
        fields["waiting"] = desk.tell_command(
            "logs", "waiting", *COPIES, title="logs waiting", status=3
        )
        search = ("logs", "find-hanging")
        fields["find-hanging"] = desk.tell_command(
            *search, *COPIES, title="logs find-hanging", status=3
        )
        (finding,) = json.loads(desk.run(*search, "--json", *COPIES, status=3).stdout)["findings"]
        fields["evidence"] = _pretty(finding["evidence"])
        fields["timeline"] = desk.tell_command(
            "logs", "timeline", CULPRIT, *COPIES, title="logs timeline", status=1
        )
        query = LOST.format(finding["producer_id"])
        fields["lost"] = desk.tell_command("logs", "sql", query, *COPIES, title="logs sql")
        command = finding["command"].replace(SHOWN_SERVER, self._first_address).split()
        fields["repair"] = desk.tell_command(*command[1:], title="txns repair")
        full_command = ("txns", "--bootstrap-server", self._first_address, "find-hanging", "--all")
        fields["searched"] = desk.tell_command(*full_command, title="txns find-hanging --all")
        self._copy()
        fields["after"] = desk.tell_command("logs", "waiting", *COPIES)
        return {**fields, "times": desk.times()}

    def _ends(self) -> dict[TopicPartition, int]:
        with RawBrokers({1: self._first_address}) as raw:
            return {
                TopicPartition(topic.topic, topic.partition): raw.offset(topic, -1)
                for topic in (ORDERS, PAYMENTS)
            }

    @staticmethod
    def _noted_high_watermarks(home: Path) -> dict[TopicPartition, int]:
        file = home / "data" / names.FileName.HIGH_WATERMARKS
        return decode_offsets(file.read_text(), error_prefix=str(file)) if file.exists() else {}

    @property
    def _first_address(self) -> str:
        return self._kafka.bootstrap.split(",")[0]

    def _lag(self) -> str:
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        tool_run = self._kafka.run_tool(tool, "--describe", "--group", READERS)
        assert tool_run.code == 0, tool_run.stderr
        printed_lines = [
            printed_line.rstrip()
            for printed_line in tool_run.stdout.splitlines()
            if printed_line.strip()
        ]
        return "".join(f"{line}\n" for line in printed_lines)

    def _copy(self) -> None:
        """Copy the log directories as an operator does: while the brokers run, after a checkpoint
        of their high watermarks.
        """
        end_by_partition = self._ends()
        wait_for(
            lambda: [self._noted_high_watermarks(home) for home in self._kafka.homes],
            lambda noted: all(match.items() >= end_by_partition.items() for match in noted),
            "high watermarks to be noted",
        )
        shutil.rmtree(self._desk.scratch / "copies", ignore_errors=True)
        for home, copy in zip(self._kafka.homes, COPIES, strict=True):
            copy_tree(home / "data", self._desk.scratch / copy)


def _stand(raw: RawBrokers, offset: int) -> None:
    """Commit this offset for the group of readers."""
    row = {
        "partition_index": ORDERS.partition,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    answer = raw.ask_coordinator(
        "OffsetCommit",
        8,
        READERS,
        GROUP,
        group_id=READERS,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": ORDERS.topic, "partitions": [row]}],
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.none, answer


def _pretty(value: object) -> str:
    """JSON with lists of numbers on one line."""
    text = json.dumps(value, indent=2)
    return (
        re.sub(r"\[\s+([\d,\s]+?)\s+\]", lambda match: f"[{' '.join(match[1].split())}]", text)
        + "\n"
    )


def tell() -> tuple[dict[str, str], int]:
    """Start the cluster and run the story; returns the outputs, and the start offset of the hanging
    transaction.
    """
    kafka = ApacheKafka(brokers=len(BROKERS), properties=PROPERTIES, jvm_options=JVM)
    with kafka, tempfile.TemporaryDirectory(prefix="txnsim-story-") as scratch_path:
        story = Story(kafka, Path(scratch_path))
        story.happen()
        return story.ask(), story.start_offset


if __name__ == "__main__":
    hand_over(PAGE, tell()[0], sys.argv[1:])
