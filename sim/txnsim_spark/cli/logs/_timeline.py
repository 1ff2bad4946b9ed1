"""``txnsim logs timeline``: prints the history of a transactional id, in order of time."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL
from txnsim_spark.cli.logs._searching import make_run, search_files
from txnsim_spark.cli.logs.spark import add_directory_arguments, add_master_argument

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
DISAGREEMENT_STATUS: Final = 1
INCOMPLETE_STATUS: Final = 4
"""Exit status if a file could not be read, as for ``logs find-hanging``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("transactional_id", metavar="TRANSACTIONAL_ID", help="whose")
    add_directory_arguments(parser)
    add_master_argument(parser)
    parser.add_argument("--json", action="store_true", help="as JSON: docs/logs-reference.md")


def _exit_status(timeline: Timeline) -> int:
    if timeline.problems and not timeline.disagreements:
        return INCOMPLETE_STATUS
    return DISAGREEMENT_STATUS if timeline.disagreements or not timeline.events else 0


def _search_timeline(args: argparse.Namespace) -> Timeline:
    from txnsim_spark.libraries import require_libraries
    from txnsim_spark.scan.segments import replicas_in

    replicas_in(args.directory)  # wrong arguments are refused before anything is read
    require_libraries()
    from txnsim_spark.engine import Engine
    from txnsim_spark.forensics.timeline_reading import read_timeline

    def read(*, new_session: NewSession, progress: Progress) -> Timeline:
        engine = Engine(new_session, progress, with_spark=args.master is not None)
        return read_timeline(engine, args.directory, args.transactional_id, frozenset(args.topic))

    return search_files(args.master, read)


def _print_timeline(timeline: Timeline) -> None:
    from txnsim_spark.forensics.identity import stale_words

    for problem in timeline.problems:
        TERMINAL.warn(f"Something may be missing: {problem}")
    if not timeline.events:
        TERMINAL.warn(
            f"{timeline.transactional_id}: no coordinator's log in these directories has it"
        )
        return
    producer_ids = ", ".join(map(str, timeline.producer_ids))
    TERMINAL.line(
        f"{timeline.transactional_id}: "
        f"producer id{'s' if len(timeline.producer_ids) > 1 else ''} {producer_ids}, "
        f"__transaction_state-{timeline.coordinator_partition}"
    )
    place_width = max(len(_place_text(event)) for event in timeline.events)
    for event in timeline.events:
        event_name = event.event if event.source == "coordinator" else f"  {event.event}"
        TERMINAL.line(
            f"{_time_of_event(event.timestamp_ms)} "
            f" {event_name:<16}{_place_text(event):<{place_width}}  {event.text}"
        )
    for open_stay in timeline.open:
        TERMINAL.line(
            f"Open: {open_stay.topic}-{open_stay.partition} since offset {open_stay.first_offset}, "
            f"{_time_of_event(open_stay.first_timestamp_ms)}, producer {open_stay.producer_id}"
            " epoch "
            f"{open_stay.producer_epoch}; the coordinator's newest record:"
            f" {open_stay.state or 'none'}"
        )
    for line in stale_words(timeline.stale):
        TERMINAL.warn(line)
    for disagreement in timeline.disagreements:
        TERMINAL.line(f"Disagreement: {disagreement}")


def _place_text(event: Event) -> str:
    return f"{event.topic}-{event.partition} @{event.offset}"


def _time_of_event(timestamp_ms: int) -> str:
    """A time in UTC, to the millisecond."""
    timestamp = datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    return f"{timestamp:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1_000:03d}Z"


run = make_run(_search_timeline, _print_timeline, _exit_status)
