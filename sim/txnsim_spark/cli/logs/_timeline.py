"""``txnsim logs timeline``: prints the history of a transactional id, in order of time."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL
from txnsim_spark.cli.logs._searching import answering, find
from txnsim_spark.cli.logs.spark import add_directories, add_master

if TYPE_CHECKING:
    from txnsim_spark.engine import NewSession, Progress
    from txnsim_spark.forensics.timeline import Event, Timeline

DESCRIPTION: Final = (
    "Tell the life of a transactional id from log directories of stopped brokers, or from copies of"
    " them: what its coordinator wrote, and first record, last record and marker on each partition,"
    " in order of time; what is still open, and where the two sides disagree. Exit status 0: known;"
    " 1: they disagree, or nothing is known of the id; 4: neither, but something could not be read;"
    " 2: a misuse."
)
DISAGREEMENT: Final = 1
INCOMPLETE: Final = 4
"""Exit status if a file could not be read, as for ``logs find-hanging``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``logs timeline``."""
    parser.add_argument("transactional_id", metavar="TRANSACTIONAL_ID", help="whose")
    add_directories(parser)
    add_master(parser)
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def _status(timeline: Timeline) -> int:
    if timeline.problems and not timeline.disagreements:
        return INCOMPLETE
    return DISAGREEMENT if timeline.disagreements or not timeline.events else 0


def _read(args: argparse.Namespace) -> Timeline:
    from txnsim_spark.libraries import require_libraries
    from txnsim_spark.scan.segments import replicas_in

    replicas_in(args.directory)  # wrong arguments are refused before anything is read
    require_libraries()
    from txnsim_spark.engine import Engine
    from txnsim_spark.forensics.timeline_reading import read_timeline

    def read(*, new_session: NewSession, progress: Progress) -> Timeline:
        engine = Engine(new_session, progress, with_spark=args.master is not None)
        return read_timeline(engine, args.directory, args.transactional_id, frozenset(args.topic))

    return find(args.master, read)


def _print(timeline: Timeline) -> None:
    from txnsim_spark.forensics.identity import stale_words

    for problem in timeline.problems:
        TERMINAL.warn(f"Something may be missing: {problem}")
    if not timeline.events:
        TERMINAL.warn(
            f"{timeline.transactional_id}: no coordinator's log in these directories has it"
        )
        return
    ids = ", ".join(map(str, timeline.producer_ids))
    TERMINAL.line(
        f"{timeline.transactional_id}: "
        f"producer id{'s' if len(timeline.producer_ids) > 1 else ''} {ids}, "
        f"__transaction_state-{timeline.coordinator_partition}"
    )
    width = max(len(_where(event)) for event in timeline.events)
    for event in timeline.events:
        name = event.event if event.source == "coordinator" else f"  {event.event}"
        TERMINAL.line(
            f"{_time(event.timestamp_ms)}  {name:<16}{_where(event):<{width}}  {event.text}"
        )
    for stay in timeline.open:
        TERMINAL.line(
            f"Open: {stay.topic}-{stay.partition} since offset {stay.first_offset}, "
            f"{_time(stay.first_timestamp_ms)}, producer {stay.producer_id} epoch "
            f"{stay.producer_epoch}; the coordinator's newest record: {stay.state or 'none'}"
        )
    for line in stale_words(timeline.stale):
        TERMINAL.warn(line)
    for text in timeline.disagreements:
        TERMINAL.line(f"Disagreement: {text}")


def _where(event: Event) -> str:
    return f"{event.topic}-{event.partition} @{event.offset}"


def _time(timestamp_ms: int) -> str:
    """A time in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1_000:03d}Z"


run = answering(_read, _print, _status)
