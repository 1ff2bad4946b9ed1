"""Makes the corpus: ``python -m tests.spark.pipeline.corpus.make [DIR]``.

Two brokers live three times, first for a moment to forget a few transactional ids. The second life
ends with orderly stops, the second broker before the first, so that replicas differ and a partition
that is only on the second broker loses its marker: ``clean``. The third life ends with SIGKILL:
``killed``. ``torn`` is a copy whose last files are damaged on purpose. Real brokers load copies of
these directories, and their reports are kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.clients.kafka_tools.runner import Tools
from tests.spark.pipeline.corpus import asked, clients, second_life, stories
from tests.spark.pipeline.corpus.actors import Actor, Notebook
from tests.spark.pipeline.corpus.brokers import JVM, PROPERTIES, copy_tree, loaded_by_kafka
from tests.spark.pipeline.corpus.damage import as_torn, tear
from tests.spark.pipeline.corpus.raw_brokers import RawBrokers, now_ms
from tests.spark.pipeline.corpus.truth import (
    ActiveProducer,
    CommittedOffset,
    HangingRow,
    LoadedLog,
    PartitionTruth,
    Place,
    Stage,
    Truth,
    write_truth,
)
from tests.support.apache_kafka import KAFKA_VERSION, ApacheKafka

BROKERS: Final = (1, 2)
GROUPS: Final = ("txn-group", "classic-group", "consumer-group")
FORKED: Final = Place("forked", 0)
LONELY: Final = Place("lonely", 0)


class Maker:
    """Makes one corpus.

    Args:
        directory: Directory for the stages; it must not exist.
        kafka: The brokers, not yet started.
    """

    def __init__(self, directory: Path, kafka: ApacheKafka) -> None:
        self.directory = directory
        self.kafka = kafka
        self.stages: dict[str, Stage] = {}
        self.expired: tuple[tuple[Place, int], ...] = ()
        self.forgotten: tuple[str, ...] = ()
        self.pending: list[CommittedOffset] = []

    def run(self) -> Truth:
        """Make all stages; stops the brokers at the end."""
        self.directory.mkdir(parents=True)
        self.kafka.start()
        with RawBrokers(self._addresses()) as raw:
            notebook = Notebook(raw, transaction_version=0)
            self.forgotten = stories.forgotten(notebook)
        self._remember()
        with RawBrokers(self._addresses()) as raw:
            notebook.raw = raw
            self._first_life(notebook)
            self._stop_in_order(notebook)
        self.kafka.start_again(*BROKERS)
        with RawBrokers(self._addresses()) as raw:
            notebook.raw = raw
            self._second_life(notebook)
        truth = Truth(kafka=KAFKA_VERSION, brokers=BROKERS, stages=self.stages)
        write_truth(self.directory, truth)
        return truth

    def _addresses(self) -> dict[int, str]:
        return dict(zip(BROKERS, self.kafka.bootstrap.split(","), strict=True))

    def _remember(self) -> None:
        """Restart the brokers without the properties that make them forget transactional ids
        soon.
        """
        for broker, home in reversed(list(zip(BROKERS, self.kafka.homes, strict=True))):
            self.kafka.stop_broker(broker)
            config = home / "server.properties"
            lines = config.read_text().splitlines(keepends=True)
            config.write_text(
                "".join(line for line in lines if line.split("=")[0] not in stories.FORGETFUL)
            )
        self.kafka.start_again(*BROKERS)

    # The first life

    def _first_life(self, notebook: Notebook) -> None:
        stories.levels(notebook)
        stories.down_and_up(notebook)
        self.long = stories.orders(notebook)
        stories.codecs(notebook)
        stories.plain(notebook)
        self.expired = stories.expired(notebook)
        stories.trimmed(notebook)
        stories.compacted(notebook)
        stories.fenced(notebook)
        stories.ghosts(notebook)
        stories.undecided(notebook)
        clients.librdkafka_transactions(notebook, self.kafka.bootstrap)
        clients.group_members(self.kafka.bootstrap)
        self.pending.append(stories.positions(notebook))

    def _stop_in_order(self, notebook: Notebook) -> None:
        """Record all answers, stop the second broker in the middle of that, and the first one at
        the end.
        """
        raw = notebook.raw
        raw.create_topic(FORKED.topic, partitions=[stories.BOTH])
        raw.create_topic(LONELY.topic, partitions=[(2,)])
        actor_by_partition = {
            partition: Actor(notebook, partition.topic) for partition in (FORKED, LONELY)
        }
        for partition, actor in actor_by_partition.items():
            actor.send(partition, "begun while both brokers are there")
        with Tools(self.kafka.bootstrap) as tools:
            clients.java_batches(notebook, tools)
            layout = asked.Layout(raw)
            hanging_rows = asked.find_hanging(tools, BROKERS)
        offsets = _offsets(raw, layout)
        on_second = layout.alone_on(2)
        partition_by_partition = asked.read_partitions(raw, layout, self.kafka.bootstrap, on_second)
        active_producers = asked.producers(raw, on_second)
        self.kafka.stop_broker(2)
        raw.lose(2)
        actor_by_partition[FORKED].leave_open(
            "lagging", "ended when the second broker was gone", brokers=(2,)
        )
        actor_by_partition[FORKED].finish()
        # A partition without a leader is taken for one that was deleted, and its marker is left out
        # (KAFKA-20734, TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue).
        actor_by_partition[LONELY].leave_open(
            "hanging", "it had no leader when it was committed: KAFKA-20734", brokers=(2,)
        )
        actor_by_partition[LONELY].end(committed=True)
        raw.until_state(LONELY.topic, "CompleteCommit")
        remaining_partitions = [
            partition for partition in layout.places if partition not in partition_by_partition
        ]
        address = self._addresses()[1]
        partition_by_partition |= asked.read_partitions(raw, layout, address, remaining_partitions)
        active_producers += asked.producers(raw, remaining_partitions)
        self._keep_stage(
            "clean",
            notebook,
            layout,
            partition_by_partition,
            active_producers,
            hanging_rows,
            offsets,
        )
        self.kafka.stop_broker(1)
        self._copy("clean")

    # The second life

    def _second_life(self, notebook: Notebook) -> None:
        raw = notebook.raw
        notebook.open = [row for row in notebook.open if row.place != FORKED]
        second_life.more(notebook, [self.long])
        last_segment_by_partition = second_life.to_be_torn(notebook)
        with Tools(self.kafka.bootstrap) as tools:
            layout = asked.Layout(raw)
            hanging_rows = asked.find_hanging(tools, BROKERS)
        offsets = _offsets(raw, layout)
        partition_by_partition = asked.read_partitions(
            raw, layout, self.kafka.bootstrap, layout.places
        )
        active_producers = asked.producers(raw, layout.places)
        writers = second_life.Writers(self._addresses(), transaction_version=notebook.level)
        self._keep_stage(
            "killed",
            notebook,
            layout,
            partition_by_partition,
            active_producers,
            hanging_rows,
            offsets,
        )
        writers.start(raw)
        writers.expect_the_end()
        for broker in BROKERS:
            self.kafka.kill(broker)
        written_batches = [sent_batch for writer in writers.join() for sent_batch in writer.sent]
        self._copy("killed")
        copy_tree(self.directory / "killed", self.directory / "torn")
        damage = tear(self.directory / "torn", last_segment_by_partition)
        loaded_logs = self._loaded("torn")
        harmed = {writer.place for writer in damage}
        killed_stage = msgspec.structs.replace(
            self.stages["killed"],
            sent=(*self.stages["killed"].sent, *written_batches),
            writers=tuple(second_life.WRITERS),
            stopped_at_ms=now_ms(),
            loaded=tuple(writer for writer in loaded_logs if writer.place not in harmed),
        )
        self.stages["killed"] = killed_stage
        self.stages["torn"] = as_torn(killed_stage, damage, loaded_logs)

    # Keeping

    def _keep_stage(
        self,
        stage_name: str,
        notebook: Notebook,
        layout: asked.Layout,
        partition_by_partition: dict[Place, PartitionTruth],
        active_producers: list[ActiveProducer],
        hanging_rows: tuple[HangingRow, ...],
        offsets: list[CommittedOffset],
    ) -> None:
        self.stages[stage_name] = Stage(
            name=stage_name,
            stopped_at_ms=now_ms(),
            topics=asked.topic_truths(layout, partition_by_partition),
            sent=tuple(notebook.sent),
            finished=tuple(notebook.finished),
            open=tuple(second_life.still_open(notebook)),
            listed=asked.listed_transactions(notebook.raw),
            producers=tuple(active_producers),
            find_hanging=hanging_rows,
            offsets=tuple(offsets),
            pending_offsets=tuple(self.pending),
            expired=self.expired,
            forgotten_ids=self.forgotten,
            writers=(),
            damage=(),
            loaded=(),
        )

    def _copy(self, file_name: str) -> None:
        for broker, home in zip(BROKERS, self.kafka.homes, strict=True):
            copy_tree(home / "data", self.directory / file_name / f"broker-{broker}")

    def _loaded(self, file_name: str) -> tuple[LoadedLog, ...]:
        homes = dict(zip(BROKERS, self.kafka.homes, strict=True))
        data = {broker: self.directory / file_name / f"broker-{broker}" for broker in BROKERS}
        return loaded_by_kafka(homes, data)


def _offsets(raw: RawBrokers, layout: asked.Layout) -> list[CommittedOffset]:
    return [row for group in GROUPS for row in asked.committed_offsets(raw, group, layout.places)]


def make(directory: Path) -> Truth:
    """Make a corpus in a directory that does not exist."""
    kafka = ApacheKafka(
        transaction_version=0,
        brokers=len(BROKERS),
        properties={**PROPERTIES, **stories.FORGETFUL},
        jvm_options=JVM,
    )
    try:
        return Maker(directory, kafka).run()
    finally:
        kafka.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Make the corpus in the given directory, or where tests look for it."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.pipeline.corpus.make")
    parser.add_argument("directory", nargs="?", type=Path, metavar="DIR")
    directory = parser.parse_args(argv).directory
    if directory is None:
        from tests.spark.pipeline.corpus.made import corpus

        sys.stdout.write(f"{corpus().directory}\n")
    else:
        make(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
