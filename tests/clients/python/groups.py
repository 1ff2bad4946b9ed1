"""Consume, transform, produce, with positions in the transaction (KIP-98, KIP-447).

A worker takes inputs, writes an output for each, and commits outputs and positions together. Who
has lost its partitions in the middle must not commit: else an input has two outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tests.clients.drivers.base import Driver, DriverMember, DriverProducer, Record, Seen
from tests.clients.python.lab import Lab, create_topic, expect, refused, until, until_read

PARTITIONS: Final = 4
INPUTS: Final = 60
TAKE: Final = 7
"""So many inputs go into one transaction at most."""


class Pipeline:
    """An input topic that is full, an output topic that is empty, a group."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver = driver
        self.source, self.sink, self.group = (
            f"{name}-{what}" for what in ("source", "sink", "group")
        )
        for topic in (self.source, self.sink):
            create_topic(driver, topic, PARTITIONS)
        self.inputs = 0
        self.feed()

    def feed(self) -> None:
        """More inputs, on all partitions."""
        numbers = range(self.inputs, self.inputs + INPUTS)
        with self.driver.producer() as producer:
            producer.send(self.source, [Record(b"%d" % n, n % PARTITIONS) for n in numbers])
        self.inputs += INPUTS

    def positions(self) -> list[int]:
        return self.driver.positions(self.group, self.source, PARTITIONS)

    def until_at_least(self, wanted: Mapping[int, int]) -> None:
        """Wait until the group has gone on so far, partition by partition."""

        def is_so() -> bool:
            found = self.positions()
            return all(found[partition] >= offset for partition, offset in wanted.items())

        until(f"positions {wanted}", is_so)

    def is_done(self) -> bool:
        """The group is behind the last input."""
        return sum(self.positions()) == self.inputs

    def expect_each_input_once(self) -> None:
        """Every input has one output that read_committed shows."""
        until_read(self.driver, self.sink, [b"%d" % each for each in range(self.inputs)])


class Worker:
    """A member of the group with a transactional producer."""

    def __init__(self, pipeline: Pipeline, member: DriverMember, producer: DriverProducer) -> None:
        self._pipeline = pipeline
        self.member = member
        self._producer = producer

    def take(self) -> list[Seen]:
        """Inputs, as soon as there are some."""
        taken: list[Seen] = []

        def some() -> bool:
            taken.extend(self.member.poll(TAKE))
            return bool(taken)

        until("inputs", some)
        return taken

    def begin(self, taken: Sequence[Seen]) -> None:
        """Begin a transaction, and write the outputs."""
        self._producer.begin()
        outputs = [Record(each.value, each.partition) for each in taken]
        self._producer.send(self._pipeline.sink, outputs)

    def commit(self, taken: Sequence[Seen], held: Any) -> None:
        """Commit outputs and positions."""
        positions = {each.partition: each.offset + 1 for each in taken}
        self._producer.send_offsets(positions, self.member, held)
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
        """One transaction, if there are inputs; how many it took, 0 if it was aborted."""
        taken = self.member.poll(TAKE)
        if not taken:
            return 0
        held = self.member.metadata()
        self.begin(taken)
        try:
            self.commit(taken, held)
        except Exception as error:
            if not self._pipeline.driver.is_left_behind(error):
                raise
            self.abort()
            return 0
        return len(taken)


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
    """One worker; a transaction of its is aborted and done again."""
    pipeline = Pipeline(lab.driver, lab.name)
    with worker(pipeline, "worker") as one:
        for _ in range(2):
            taken = one.take()
            before = pipeline.positions()
            one.begin(taken)
            one.commit(taken, one.member.metadata())
            _until_moved(pipeline, before, taken)
        before = pipeline.positions()
        taken = one.take()
        one.begin(taken)
        one.abort()
        expect("positions after an abort", before, pipeline.positions())
        again = one.take()
        one.begin(again)
        one.commit(again, one.member.metadata())

        def is_done() -> bool:
            one.step()
            return pipeline.is_done()

        until("all inputs are taken", is_done)
    pipeline.expect_each_input_once()
    everything = lab.driver.read(pipeline.sink, committed=False)
    expect("outputs with the aborted ones", INPUTS + len(taken), len(everything))


def rebalance(lab: Lab) -> None:
    """A second worker joins in the middle of a transaction of the first, and takes partitions."""
    pipeline = Pipeline(lab.driver, lab.name)
    with worker(pipeline, "first") as first:
        taken, held = first.take(), first.member.metadata()
        first.begin(taken)
        with worker(pipeline, "second") as second:
            if lab.driver.fences_generations:
                until_shared(first, second)
                error = refused(lambda: first.commit(taken, held))
                assert lab.driver.is_left_behind(error), f"not for its generation: {error!r}"
                expect("positions after a refusal", [0] * PARTITIONS, pipeline.positions())
                first.abort()
                second.member.rewind()
            else:
                until(
                    "the first one is asked to yield",
                    lambda: not second.member.poll(1) and first.member.is_asked_to_yield(),
                )
                first.commit(taken, held)
            shared: set[str] = set()

            def is_done() -> bool:
                first.step()
                second.step()
                if first.member.assigned() and second.member.assigned():
                    shared.add("yes")
                return pipeline.is_done()

            until("all inputs are taken", is_done)
            expect("both had partitions", {"yes"}, shared)
    pipeline.expect_each_input_once()


def _until_moved(pipeline: Pipeline, before: Sequence[int], taken: Sequence[Seen]) -> None:
    """From transactions v2 on a commit is answered before its markers are written."""
    wanted = list(before)
    for each in taken:
        wanted[each.partition] = each.offset + 1
    until(f"positions {wanted}", lambda: pipeline.positions() == wanted)


def until_shared(first: Worker, second: Worker) -> None:
    """Each has some of the partitions. What is polled meanwhile is polled again later."""

    def is_shared() -> bool:
        first.member.poll(1)
        second.member.poll(1)
        return len(first.member.assigned()) == len(second.member.assigned()) == PARTITIONS // 2

    until("both have partitions", is_shared)
