"""Consume, transform, produce, with positions in the transaction (KIP-98, KIP-447).

A worker takes inputs, writes an output for each, and commits outputs and positions together. Who
has lost its partitions in the middle must not commit: else an input has two outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tests.clients.drivers.base import ConsumedRecord, Driver, DriverMember, DriverProducer, Record
from tests.clients.python.lab import Lab, create_topic, error_of, expect, until, until_read

PARTITIONS: Final = 4
INPUTS: Final = 60
TAKE: Final = 7
"""So many inputs go into one transaction at most."""


class Pipeline:
    """An input topic that is full, an output topic that is empty, a group."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver = driver
        self.source, self.sink, self.group = (
            f"{name}-{role}" for role in ("source", "sink", "group")
        )
        for topic in (self.source, self.sink):
            create_topic(driver, topic, PARTITIONS)
        self.inputs = 0
        self.feed()

    def feed(self) -> None:
        """Send more inputs, to all partitions of the source."""
        input_numbers = range(self.inputs, self.inputs + INPUTS)
        with self.driver.producer() as producer:
            producer.send(
                self.source,
                [
                    Record(b"%d" % input_number, input_number % PARTITIONS)
                    for input_number in input_numbers
                ],
            )
        self.inputs += INPUTS

    def positions(self) -> list[int]:
        return self.driver.positions(self.group, self.source, PARTITIONS)

    def until_at_least(self, targets: Mapping[int, int]) -> None:
        """Wait until the group's position on each partition has reached its target."""

        def is_so() -> bool:
            positions = self.positions()
            return all(positions[partition] >= offset for partition, offset in targets.items())

        until(f"positions {targets}", is_so)

    def is_done(self) -> bool:
        """Whether the group's positions are behind the last input."""
        return sum(self.positions()) == self.inputs

    def expect_each_input_once(self) -> None:
        """Every input has one output that read_committed shows."""
        until_read(
            self.driver, self.sink, [b"%d" % input_number for input_number in range(self.inputs)]
        )


class Worker:
    """A member of the group with a transactional producer."""

    def __init__(self, pipeline: Pipeline, member: DriverMember, producer: DriverProducer) -> None:
        self._pipeline = pipeline
        self.member = member
        self._producer = producer

    def take(self) -> list[ConsumedRecord]:
        """Poll until inputs have come."""
        inputs: list[ConsumedRecord] = []

        def has_inputs() -> bool:
            inputs.extend(self.member.poll(TAKE))
            return bool(inputs)

        until("inputs", has_inputs)
        return inputs

    def begin(self, inputs: Sequence[ConsumedRecord]) -> None:
        """Begin a transaction, and write the outputs."""
        self._producer.begin()
        outputs = [Record(record.value, record.partition) for record in inputs]
        self._producer.send(self._pipeline.sink, outputs)

    def commit(self, inputs: Sequence[ConsumedRecord], group_metadata: Any) -> None:
        """Commit outputs and positions."""
        positions = {record.partition: record.offset + 1 for record in inputs}
        self._producer.send_offsets(positions, self.member, group_metadata)
        self._producer.commit()
        if not self._pipeline.driver.fences_generations:
            # Nor does it ask for stable positions (KIP-447), when it takes over a partition.
            self._pipeline.until_at_least(positions)
        self.member.end_turn()

    def abort(self) -> None:
        """Abort, and go back to the group's positions."""
        self._producer.abort()
        self.member.rewind()
        self.member.end_turn()

    def step(self) -> int:
        """Run a transaction, if there are inputs; return their number, or 0 if it was aborted."""
        inputs = self.member.poll(TAKE)
        if not inputs:
            return 0
        group_metadata = self.member.metadata()
        self.begin(inputs)
        try:
            self.commit(inputs, group_metadata)
        except Exception as error:
            if not self._pipeline.driver.is_left_behind(error):
                raise
            self.abort()
            return 0
        return len(inputs)


@contextmanager
def worker(pipeline: Pipeline, name: str, member: DriverMember | None = None) -> Iterator[Worker]:
    """A worker with a transactional id of its own."""
    driver = pipeline.driver
    with (
        driver.producer(f"{pipeline.group}-{name}") as producer,
        member or driver.member(pipeline.group, pipeline.source) as member,
    ):
        producer.init()
        yield Worker(pipeline, member, producer)


def transform(lab: Lab) -> None:
    """A worker aborts a transaction and does it again."""
    pipeline = Pipeline(lab.driver, lab.name)
    with worker(pipeline, "worker") as transforming_worker:
        for _ in range(2):
            inputs = transforming_worker.take()
            positions_before = pipeline.positions()
            transforming_worker.begin(inputs)
            transforming_worker.commit(inputs, transforming_worker.member.metadata())
            _until_moved(pipeline, positions_before, inputs)
        positions_before = pipeline.positions()
        inputs = transforming_worker.take()
        transforming_worker.begin(inputs)
        transforming_worker.abort()
        expect("positions after an abort", positions_before, pipeline.positions())
        repeated_inputs = transforming_worker.take()
        transforming_worker.begin(repeated_inputs)
        transforming_worker.commit(repeated_inputs, transforming_worker.member.metadata())

        def is_done() -> bool:
            transforming_worker.step()
            return pipeline.is_done()

        until("all inputs are taken", is_done)
    pipeline.expect_each_input_once()
    all_outputs = lab.driver.read(pipeline.sink, committed=False)
    expect("outputs with the aborted ones", INPUTS + len(inputs), len(all_outputs))


def rebalance(lab: Lab) -> None:
    """A second worker joins in the middle of a transaction of the first, and takes partitions."""
    pipeline = Pipeline(lab.driver, lab.name)
    with worker(pipeline, "first") as first_worker:
        inputs, group_metadata = first_worker.take(), first_worker.member.metadata()
        first_worker.begin(inputs)
        with worker(pipeline, "second") as second_worker:
            if lab.driver.fences_generations:
                until_shared(first_worker, second_worker)
                error = error_of(lambda: first_worker.commit(inputs, group_metadata))
                assert lab.driver.is_left_behind(error), f"not for its generation: {error!r}"
                expect("positions after a refusal", [0] * PARTITIONS, pipeline.positions())
                first_worker.abort()
                second_worker.member.rewind()
            else:
                until(
                    "the first one is asked to yield",
                    lambda: (
                        not second_worker.member.poll(1) and first_worker.member.is_asked_to_yield()
                    ),
                )
                first_worker.commit(inputs, group_metadata)
            shared_flags: set[str] = set()

            def is_done() -> bool:
                first_worker.step()
                second_worker.step()
                if (
                    first_worker.member.assigned_partitions()
                    and second_worker.member.assigned_partitions()
                ):
                    shared_flags.add("yes")
                return pipeline.is_done()

            until("all inputs are taken", is_done)
            expect("both had partitions", {"yes"}, shared_flags)
    pipeline.expect_each_input_once()


def _until_moved(
    pipeline: Pipeline, positions_before: Sequence[int], inputs: Sequence[ConsumedRecord]
) -> None:
    """From transactions v2 on a commit is answered before its markers are written."""
    targets = list(positions_before)
    for record in inputs:
        targets[record.partition] = record.offset + 1
    until(f"positions {targets}", lambda: pipeline.positions() == targets)


def until_shared(first_worker: Worker, second_worker: Worker) -> None:
    """Wait until each worker has some partitions; records polled meanwhile come again later."""

    def is_shared() -> bool:
        first_worker.member.poll(1)
        second_worker.member.poll(1)
        return (
            len(first_worker.member.assigned_partitions())
            == len(second_worker.member.assigned_partitions())
            == PARTITIONS // 2
        )

    until("both have partitions", is_shared)
