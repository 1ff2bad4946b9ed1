"""``txnsim explain``: explains an error; and from a trace, why a last stable offset does not
advance, and what happened to a transaction. ``txnsim txns why`` explains the latter two for running
brokers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL
from txnsim_lab.cli._traces import _explained_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from txnsim.trace.trace_file import Recording


ERROR_ACTION: Final = "error"
TRACE_ACTIONS: Final = ("lso", "txn")


def rewrite(arguments: Sequence[str]) -> list[str]:
    """Turn ``explain NAME`` into ``explain error NAME``."""
    index = arguments.index("explain") + 1
    later_arguments = arguments[index:]
    first_word = next(
        (word for word in later_arguments if word == "-" or not word.startswith("-")), None
    )
    if first_word is None or first_word in (ERROR_ACTION, *TRACE_ACTIONS):
        return list(arguments)
    return [*arguments[:index], ERROR_ACTION, *later_arguments]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "`txnsim explain NAME-OR-MESSAGE` finds what an error means, by docs/troubleshooting.md."
        " A trace comes from `txnsim scenario run NAME --trace DIR` or from the control port"
        " (`curl …/api/v1/trace`). Exit status: 0, 2 for what is no trace or is not in it, 4 for"
        " the end of a trace that was cut off."
    )
    subcommands = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
    _explained_error.add_arguments(
        subcommands.add_parser(ERROR_ACTION, help="what does an error mean, and what to do?")
    )
    lso_parser = subcommands.add_parser("lso", help="why is the last stable offset here?")
    lso_parser.add_argument("subject", metavar="TOPIC-PARTITION", help="as orders-0")
    txn_parser = subcommands.add_parser("txn", help="what has become of a transaction?")
    txn_parser.add_argument("subject", metavar="TRANSACTIONAL-ID")
    for action_parser in (lso_parser, txn_parser):
        action_parser.add_argument("file", type=Path, metavar="FILE", help="a trace")
        action_parser.add_argument(
            "--at", type=int, metavar="N", help="after event N (default: the last one)"
        )
        action_parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    if args.action == ERROR_ACTION:
        return _explained_error.run(args)
    from txnsim.trace.trace_file import Recording
    from txnsim_lab.cli._traces.cut_off import CUT_OFF_STATUS, tell_cut_off
    from txnsim_lab.trace.explain import LsoExplanation, explain_lso, explain_txn
    from txnsim_lab.trace.payload_error import explaining

    recording = Recording.read(args.file)
    status = 0 if args.at is not None or tell_cut_off(args.file, recording) else CUT_OFF_STATUS
    explain = explain_lso if args.action == "lso" else explain_txn
    with explaining(args.file, recording, args.at):
        explanation = explain(recording, args.subject, at=args.at)
    if args.json:
        TERMINAL.json(explanation)
        return status
    for sentence in explanation.sentences:
        TERMINAL.line(sentence)
    if isinstance(explanation, LsoExplanation):
        _print_events("It follows from:", explanation.evidence, recording)
    else:
        _print_events("The last move and what caused it:", explanation.chain, recording)
    return status


def _print_events(title: str, positions: Iterable[int], recording: Recording) -> None:
    from txnsim_lab.trace.brief import brief_line
    from txnsim_lab.trace.cause_chains import by_position

    events = by_position(recording.events)
    events_to_print = [events[position] for position in positions if position in events]
    if events_to_print:
        TERMINAL.line(title)
    for event in events_to_print:
        TERMINAL.line(f"  {brief_line(event, recording.nodes)}")
