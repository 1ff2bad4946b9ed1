"""Random requests to a real Apache Kafka and to the simulator, answer by answer.

    python -m tests.conformance.random_play --level 0,1,2 --operations 10000 --seed 1
    python -m tests.conformance.random_play --operations 1500 --keep 25  # writes random_plays.jsonl

The player is the Hypothesis state machine of ``tests.conformance.machine``. The same seed asks the
same things as long as the answers are the same. It ends with the differences, each with the
shortest play that shows it, and with a map of what was visited (``--json`` for tools). A long play
goes on until it has been everywhere, but at most twice as long. Exit status 1 if a difference is
left, if the map does not know a place that was visited, or if a long play left out a place that it
can reach.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time  # noqa: TID251 - how long a play took
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.conformance import cells, recorded_play
from tests.conformance.result import Result
from tests.conformance.session import PLAYS_PER_SEED, SHRINKS, Addresses, Session
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer

PROPERTIES: Final = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""What both brokers are started with."""
REAL_ONLY: Final = {
    # Records carry a time long past: at the first check the real broker would forget who wrote.
    "producer.id.expiration.check.interval.ms": str(2**31 - 1),
}
JVM_OPTIONS: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

LONG_PLAY: Final = 10_000
"""So many operations at a level must have been everywhere."""
LONGER_MAX: Final = 2
"""So many times as long as was asked for, while it has not been."""
DIFFERENCES_MAX: Final = 3
"""Of one level; then it ends."""

Missing = Callable[[Result], Iterable[str]]


def play(
    addresses: Addresses,
    *,
    transaction_version: int,
    seed: int,
    operation_count: int,
    play_count: int = PLAYS_PER_SEED,
    shrink_count: int = SHRINKS,
    find_missing: Missing = cells.cells_not_visited,
    reports_progress: bool = False,
    keeps_plays: bool = False,
) -> Result:
    """Play at least so many operations at a level.

    Args:
        addresses: Of the real broker and of ours.
        transaction_version: Finalized level of ``transaction.version``.
        seed: Of the first plays.
        operation_count: How many; the plays of a seed are always played to their end.
        play_count: Of one seed, then comes the next.
        shrink_count: So often it looks for a shorter play that parts the brokers.
        missing: Where a long play still has to go.
        reports_progress: Whether to write on stderr how it goes.
        keeps_plays: Whether the result has the plays, to play them again without a real broker.
    """
    begun_s = time.monotonic()
    session = Session(
        addresses,
        transaction_version=transaction_version,
        seed=seed,
        play_count=play_count,
        shrink_count=shrink_count,
    )
    result = session.result
    result.recorded_plays = [] if keeps_plays else None
    number, differences_told = seed, 0
    while not has_ended(result, operation_count, find_missing):
        session.play(number)
        number += 1
        result.seconds = time.monotonic() - begun_s
        if reports_progress:
            progress = f"level {transaction_version}: {result.operations} operations"
            progress += f", {result.seconds:.0f} s"
            sys.stderr.write(f"{progress}, {len(result.differences)} differences\n")
            sys.stderr.writelines(
                f"  {difference}\n" for difference in result.differences[differences_told:]
            )
        differences_told = len(result.differences)
    return result


def has_ended(result: Result, operation_count: int, find_missing: Missing) -> bool:
    """Whether ``operations`` were played, and a long play has visited every cell."""
    if len(result.differences) >= DIFFERENCES_MAX:
        return True
    if operation_count < LONG_PLAY or result.operations >= LONGER_MAX * operation_count:
        return result.operations >= operation_count
    return result.operations >= operation_count and not any(find_missing(result))


def missing_anywhere(earlier_results: Sequence[Result], result: Result) -> Iterator[str]:
    """The cells that the last level's play, or the plays of all levels, have not visited yet."""
    yield from cells.cells_not_visited(result)
    yield from cells.unvisited_anywhere([*earlier_results, result])


@contextlib.contextmanager
def both_brokers(transaction_version: int) -> Iterator[Addresses]:
    """Start a real broker and ours with the same properties; their addresses."""
    properties = {**PROPERTIES, **REAL_ONLY}
    with (
        ApacheKafka(
            transaction_version=transaction_version, properties=properties, jvm_options=JVM_OPTIONS
        ) as real_kafka,
        our_broker(transaction_version) as our_address,
    ):
        yield real_kafka.bootstrap, our_address


@contextlib.contextmanager
def our_broker(transaction_version: int, **fields: str) -> Iterator[str]:
    """A simulated broker with the settings of a play; its address."""
    with tempfile.TemporaryDirectory(prefix="txnsim-play-") as directory:
        properties_file = Path(directory) / "server.properties"
        all_properties = {
            **PROPERTIES,
            **{name.replace("_", "."): value for name, value in fields.items()},
        }
        properties_file.write_text(
            "".join(
                f"{property_name}={property_value}\n"
                for property_name, property_value in all_properties.items()
            )
        )
        arguments = ("--config", str(properties_file))
        with TxnsimServer(
            transaction_version=transaction_version, brokers=1, arguments=arguments
        ) as server:
            yield server.bootstrap


def report(result: Result) -> Iterator[str]:
    """The lines of a report on the play and its findings."""
    share = 100 * result.succeeded / max(1, result.operations)
    yield (
        f"level {result.level}, seed {result.seed}: {result.operations} operations in"
        f" {result.plays} plays and {result.seconds:.0f} s, {share:.0f} % of them without an error;"
        f" {len(result.differences)} unexplained differences"
    )
    yield f"  again: {result.command(result.seed, result.operations)}"
    yield from (f"  {line}" for line in cells.table(result))
    for race, times in sorted(result.races.items(), key=lambda race: race[0].name):
        yield f"  waited {times} times: {race.name}: {race.value}"
    for reason, times in result.explained.items():
        yield f"  explained {times} times: {reason}"
    for difference in result.differences:
        yield f"  {difference}"


def complaints(result: Result) -> Iterator[str]:
    """The reasons for which a play proves nothing."""
    if result.differences:
        yield f"level {result.level}: {len(result.differences)} differences"
    yield from (
        f"level {result.level}: not on the map: {cell_line}"
        for cell_line in cells.cells_off_the_map(result)
    )
    if result.operations < LONG_PLAY:
        return
    yield from (
        f"level {result.level}: never visited: {cell_line}"
        for cell_line in cells.cells_not_visited(result)
    )
    if result.succeeded < 0.3 * result.operations:
        yield f"level {result.level}: only {result.succeeded} operations without an error"


def main(argv: Sequence[str] | None = None) -> int:
    """Play and report; 1 if there is anything to complain about."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.random_play")
    parser.add_argument("--level", default="0,1,2", help="levels of transaction.version")
    parser.add_argument("--operations", type=int, default=1_000, help="at each level")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plays", type=int, default=PLAYS_PER_SEED, help="of one seed")
    parser.add_argument("--shrink", type=int, default=SHRINKS, metavar="PLAYS")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the report for tools, too")
    parser.add_argument(
        "--keep", type=int, metavar="PLAYS", help="keep so many plays of each level for the gate"
    )
    parsed_arguments = parser.parse_args(argv)
    results: list[Result] = []
    transaction_versions = [int(level) for level in parsed_arguments.level.split(",")]
    for transaction_version in transaction_versions:
        is_last = (
            set(transaction_versions) == set(cells.LEVELS)
            and transaction_version == transaction_versions[-1]
        )
        with both_brokers(transaction_version) as addresses:
            result = play(
                addresses,
                transaction_version=transaction_version,
                seed=parsed_arguments.seed,
                operation_count=parsed_arguments.operations,
                play_count=parsed_arguments.plays,
                shrink_count=parsed_arguments.shrink,
                find_missing=partial(missing_anywhere, results)
                if is_last
                else cells.cells_not_visited,
                reports_progress=True,
                keeps_plays=parsed_arguments.keep is not None,
            )
        results.append(result)
        sys.stdout.write("\n".join(report(result)) + "\n")
        sys.stdout.flush()
    if parsed_arguments.keep is not None and not any(result.differences for result in results):
        recorded_play.write_plays(
            recorded
            for result in results
            for recorded in (result.recorded_plays or ())[: parsed_arguments.keep]
        )
    if parsed_arguments.json is not None:
        parsed_arguments.json.write_text(
            json.dumps([cells.as_json(result) for result in results], indent=1) + "\n"
        )
    complaint_lines = [
        complaint_line for result in results for complaint_line in complaints(result)
    ]
    long_plays = [result for result in results if result.operations >= LONG_PLAY]
    if {long_play_result.level for long_play_result in long_plays} == set(cells.LEVELS):
        complaint_lines += [
            f"never visited: {cell_line}" for cell_line in cells.unvisited_anywhere(long_plays)
        ]
    sys.stdout.writelines(f"{line}\n" for line in complaint_lines)
    return 1 if complaint_lines else 0


if __name__ == "__main__":
    sys.exit(main())
