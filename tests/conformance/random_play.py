"""Random requests to a real Apache Kafka and to the simulator, answer by answer.

    python -m tests.conformance.random_play --level 2 --operations 10000 --seed 1

A play goes through worlds: each has topics and producers of its own, made fresh, so that a
difference in one can't spoil the next. The same seed asks the same things as long as the answers
are the same. It ends with the differences, each with what led to it, and with what was visited.
"""

from __future__ import annotations

import argparse
import contextlib
import random  # noqa: TID251 - for the type; the stream is seeded
import re
import sys
import tempfile
import time  # noqa: TID251 - how long a play took
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from sim.runtime.rng import SeededRng
from tests.conformance.drawing import Drawer
from tests.conformance.model import PARTITIONS, PREPARED, STATES, Identity, Producer, World
from tests.conformance.operations import Batch, Operation
from tests.conformance.sides import Pair, error_codes, state_name
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer

PROPERTIES: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""What both brokers are started with."""
REAL_ONLY: Final = {
    # Records carry a time long past: at the first check the real broker would forget who wrote.
    "producer.id.expiration.check.interval.ms": str(2**31 - 1),
}

EXPLAINED: Final[dict[str, str]] = {}
"""Pattern of a difference -> the entry of DEVIATIONS.md that tells users of it."""

OPERATIONS_PER_WORLD: Final = 250
LONG_MS: Final = 600_000
SHORT_MS: Final = 300
"""Transactions of that timeout are always waited for until they have timed out."""
CLIMB_EVERY: Final = 12
"""In every so many-th world one transactional id starts near its last epoch."""
NEARLY_LAST_EPOCH: Final = 32_762
STUCK_MAX: Final = 12
"""So many operations on a transactional id that stays in PrepareX, then another takes its place."""
TRAIL: Final = 12

_OF_LOGS: Final = ("open", "not open")
REACHABLE: Final = {
    **dict.fromkeys(("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn"), STATES),
    "WriteTxnMarkers": _OF_LOGS,
    "DescribeProducers": _OF_LOGS,
    "ListOffsets": _OF_LOGS,
    "Fetch": _OF_LOGS,
    "DeleteRecords": _OF_LOGS,
    "DescribeTransactions": ("any",),
    "ListTransactions": ("any",),
    "UpdateFeatures": ("any",),
}
"""API -> states in which a long play asks it; a log's state is whether a transaction is open."""

Visit = tuple[int, str, str, str]
"""(level, API, state, mode)."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Where the two brokers parted, and what led to it."""

    number: int
    operation: Operation
    lines: tuple[str, ...]
    before: tuple[Operation, ...]

    def __str__(self) -> str:
        told = "\n".join(f"      {one}" for one in self.before)
        lines = "\n".join(f"    {line}" for line in self.lines)
        return f"operation {self.number}: {self.operation}\n{lines}\n    after\n{told}"


class Result(msgspec.Struct, kw_only=True):
    """What a play found."""

    level: int
    seed: int
    visits: Counter[Visit] = msgspec.field(default_factory=Counter)
    succeeded: Counter[Visit] = msgspec.field(default_factory=Counter)
    refusals: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    """(API, name of an error that the real broker answered)."""
    differences: list[Difference] = msgspec.field(default_factory=list)
    explained: Counter[str] = msgspec.field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def operations(self) -> int:
        """How many."""
        return self.visits.total()


class Play:
    """A play of one seed against one pair of brokers.

    Args:
        addresses: Of the real broker and of ours.
        level: Finalized level of ``transaction.version``, to which the play always returns.
        seed: Of every choice.
    """

    def __init__(self, addresses: tuple[str, str], *, level: int, seed: int) -> None:
        self.result = Result(level=level, seed=seed)
        self._addresses = addresses
        self._level = level
        self._chance: random.Random = SeededRng(seed).stream("play")

    def run(self, operations: int) -> Result:
        """Play that many operations."""
        begun_s = time.monotonic()
        number = 0
        while self.result.operations < operations:
            number += 1
            self._play_world(number, min(operations, self.result.operations + OPERATIONS_PER_WORLD))
        self.result.seconds = time.monotonic() - begun_s
        return self.result

    def _play_world(self, number: int, until: int) -> None:
        prefix = f"play{self._level}-{self.result.seed}-w{number}"
        pair = Pair(self._addresses, scene=prefix, level=self._level)
        stretch = _Stretch(pair, self._world(prefix), self._chance, self._level, self.result)
        try:
            pair.prepare(stretch.world, PARTITIONS)
            if number % CLIMB_EVERY == 0:
                stretch.exhaust()
            while self.result.operations < until and stretch.step():
                pass
            stretch.switch_level(self._level, surely=True)
        finally:
            pair.close()

    def _world(self, prefix: str) -> World:
        styles = ("old", "new", "mixed", self._chance.choice(("old", "new")))
        producers = [
            Producer(f"{prefix}-id-{index}", timeout_ms=LONG_MS, style=style)
            for index, style in enumerate(styles)
        ]
        short = Producer(f"{prefix}-short", timeout_ms=SHORT_MS, style="mixed")
        return World(prefix, [f"{prefix}-a", f"{prefix}-b"], [*producers, short])


class _Stretch:
    """The operations of one world."""

    def __init__(
        self, pair: Pair, world: World, chance: random.Random, level: int, result: Result
    ) -> None:
        self.world = world
        self._pair = pair
        self._chance = chance
        self._result = result
        self._drawer = Drawer(chance, world, level)
        self._home = level
        self._trail: deque[Operation] = deque(maxlen=400)
        self._renamed = 0

    def step(self) -> bool:
        """One operation; False once the world is spoilt by a difference."""
        if self._chance.random() < (0.004 if self._drawer.level == self._home else 0.05):
            others = [one for one in (0, 1, 2) if one != self._drawer.level]
            away = self._drawer.level != self._home
            return self.switch_level(self._home if away else self._chance.choice(others))
        return self._ask(self._drawer.draw())

    def exhaust(self) -> bool:
        """Bring a transactional id near its last epoch (KIP-360: then comes a new producer id)."""
        producer = self.world.producers[self._chance.randrange(len(self.world.producers) - 1)]
        assert producer.name is not None
        self._pair.climb(producer.name, NEARLY_LAST_EPOCH)
        return self._ask(self._drawer.plain_init(producer))

    def _ask(self, operation: Operation) -> bool:
        producer = self._producer_of(operation)
        state = self._state_before(operation, producer)
        real, ours = self._pair.ask(operation)
        fine = self._judge(operation, state, real)
        if fine:
            self._learn(operation, producer, real, ours)
            touched = {operation.transactional_id, operation.also} - {None}
            fine = all(
                self._look(operation, one) for one in self.world.producers if one.name in touched
            )
        self._replace_stuck()
        return fine

    def switch_level(self, level: int, *, surely: bool = False) -> bool:
        """Finalize another level of ``transaction.version``."""
        if level == self._drawer.level:
            return True
        operation = self._drawer.update_features(level, surely=surely)
        real, _ = self._pair.ask(operation)
        fine = self._judge(operation, "any", real)
        if fine and real.error_code == 0:
            self._pair.await_level(level)
            self._drawer.level = level
        return fine

    # One operation

    def _producer_of(self, operation: Operation) -> Producer | None:
        wanted = operation.transactional_id
        return next((one for one in self.world.producers if one.name == wanted), None)

    def _state_before(self, operation: Operation, producer: Producer | None) -> str:
        if producer is not None:
            return producer.state
        if operation.partition is not None:
            return "open" if self.world.has_open(operation.partition) else "not open"
        return "any"

    def _judge(self, operation: Operation, state: str, real: Any) -> bool:
        """Count the operation; False if the answers differ without an explanation."""
        visit = (self._drawer.level, operation.api, state, operation.mode)
        self._result.visits[visit] += 1
        refusals = {code.name for code in error_codes(real)} - {"none"}
        if not refusals:
            self._result.succeeded[visit] += 1
        self._result.refusals.update((operation.api, name) for name in refusals)
        fine = self._compare(operation)
        self._trail.append(operation)
        return fine

    def _compare(self, operation: Operation) -> bool:
        left = []
        for line in self._pair.differences():
            reason = next((why for what, why in EXPLAINED.items() if re.search(what, line)), None)
            if reason is None:
                left.append(line)
            else:
                self._result.explained[reason] += 1
        if left:
            related = [one for one in self._trail if _related(one, operation)]
            self._result.differences.append(
                Difference(
                    number=self._result.operations,
                    operation=operation,
                    lines=tuple(left),
                    before=tuple(related[-TRAIL:]),
                )
            )
        return not left

    def _look(self, operation: Operation, producer: Producer) -> bool:
        """What both coordinators say of the producer after the operation."""
        assert producer.name is not None
        row = self._pair.state_of(
            producer.name,
            times_out=producer.timeout_ms == SHORT_MS,
            stuck=producer.state in PREPARED,
        )
        producer.is_in(state_name(row))
        if producer.state == "Ongoing":
            producer.added = {(one.topic, index) for one in row.topics for index in one.partitions}
        return self._compare(operation)

    def _learn(self, operation: Operation, producer: Producer | None, real: Any, ours: Any) -> None:
        match operation.api:
            case "InitProducerId" if real.error_code == 0:
                if producer is None:
                    producer = Producer(None, timeout_ms=0, style="mixed")
                    self.world.loose.append(producer)
                self._takes(producer, real, ours)
            case "EndTxn" if operation.version >= 5 and real.error_code == 0:
                assert producer is not None
                self._takes(producer, real, ours)
            case "Produce" if all(code == 0 for code in error_codes(real)):
                self._wrote(operation)

    def _takes(self, producer: Producer, real: Any, ours: Any) -> None:
        number = self._pair.real.number(real.producer_id)
        assert number == self._pair.ours.number(ours.producer_id)
        producer.takes(Identity(number, real.producer_epoch))

    def _wrote(self, operation: Operation) -> None:
        assert operation.partition is not None
        topic, _ = operation.partition
        for row in operation.values["topic_data"][0]["partition_data"]:
            batch: Batch = row["records"]
            if batch.pid is None or batch.pid.shift or batch.pid.number < 0:
                continue
            identity, place = Identity(batch.pid.number, batch.epoch), (topic, row["index"])
            after = batch.sequence + len(batch.values)
            for one in (*self.world.producers, *self.world.loose):
                if identity in one.history:
                    one.wrote(identity, place, max(after, one.next_sequence(identity, place)))

    def _replace_stuck(self) -> None:
        for index, one in enumerate(self.world.producers):
            if one.state in PREPARED and one.stuck_for > STUCK_MAX:
                self._renamed += 1
                name = f"{self.world.prefix}-x-{self._renamed}"
                fresh = Producer(name, timeout_ms=LONG_MS, style=one.style)
                self.world.producers[index] = fresh


def _related(one: Operation, other: Operation) -> bool:
    if one.api == "UpdateFeatures":
        return True
    same_id = other.transactional_id is not None and one.transactional_id == other.transactional_id
    same_log = other.partition is not None and one.partition == other.partition
    return same_id or same_log


# Report


def report(result: Result) -> Iterator[str]:
    """What was played and found, line by line."""
    succeeded = 100 * result.succeeded.total() / max(1, result.operations)
    yield (
        f"level {result.level}, seed {result.seed}: {result.operations} operations in"
        f" {result.seconds:.0f} s, {succeeded:.0f} % of them without an error;"
        f" {len(result.differences)} unexplained differences"
    )
    states = (*STATES, "open", "not open", "any")
    yield "  visits (modes) by API and state; the state is the transactional id's or the log's"
    yield "  " + " ".join(f"{name:>15}" for name in ("", *states))
    for api in sorted({api for _, api, _, _ in result.visits}):
        cells = [_cell(result, api, state) for state in states]
        yield "  " + " ".join(f"{cell:>15}" for cell in (api[:15], *cells))
        refused = sorted((name, n) for (its, name), n in result.refusals.items() if its == api)
        if refused:
            yield "    refused: " + ", ".join(f"{name} {times}" for name, times in refused)
    yield f"  never visited: {', '.join(sorted(_never_visited(result))) or 'nothing'}"
    for reason, times in result.explained.items():
        yield f"  explained {times} times: {reason}"
    for one in result.differences:
        yield f"  {one}"


def _cell(result: Result, api: str, state: str) -> str:
    found: Counter[str] = Counter()
    for (_, its_api, its_state, mode), times in result.visits.items():
        if its_api == api and its_state == state:
            found[mode] += times
    return f"{found.total()} ({len(found)})" if found else "-"


def _never_visited(result: Result) -> Iterator[str]:
    visited = {(api, state) for _, api, state, _ in result.visits}
    for api, states in REACHABLE.items():
        yield from (f"{api} in {state}" for state in states if (api, state) not in visited)


# The command


@contextlib.contextmanager
def both_brokers(level: int) -> Iterator[tuple[str, str]]:
    """A real broker and ours, started alike; their addresses."""
    with (
        ApacheKafka(transaction_version=level, properties={**PROPERTIES, **REAL_ONLY}) as real,
        our_broker(level) as ours,
    ):
        yield real.bootstrap, ours


@contextlib.contextmanager
def our_broker(level: int, **more: str) -> Iterator[str]:
    """A simulated broker with the settings of a play; its address."""
    with tempfile.TemporaryDirectory(prefix="txnsim-play-") as directory:
        properties = Path(directory) / "server.properties"
        wanted = {**PROPERTIES, **{name.replace("_", "."): value for name, value in more.items()}}
        properties.write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))
        arguments = ("--config", str(properties))
        with TxnsimServer(transaction_version=level, brokers=1, arguments=arguments) as server:
            yield server.bootstrap


def main(argv: Sequence[str] | None = None) -> int:
    """Play and report; 1 if a difference is left."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.random_play")
    parser.add_argument("--level", type=int, choices=(0, 1, 2), default=2)
    parser.add_argument("--operations", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args(argv)
    with both_brokers(wanted.level) as addresses:
        result = Play(addresses, level=wanted.level, seed=wanted.seed).run(wanted.operations)
    sys.stdout.write("\n".join(report(result)) + "\n")
    return 1 if result.differences else 0


if __name__ == "__main__":
    sys.exit(main())
