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


ERROR: Final = "error"
OF_TRACES: Final = ("lso", "txn")


def rewrite(arguments: Sequence[str]) -> list[str]:
    """Turn ``explain NAME`` into ``explain error NAME``."""
    index = arguments.index("explain") + 1
    following = arguments[index:]
    first_word = next((word for word in following if word == "-" or not word.startswith("-")), None)
    if first_word is None or first_word in (ERROR, *OF_TRACES):
        return list(arguments)
    return [*arguments[:index], ERROR, *following]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``explain``."""
    parser.epilog = (
        "`txnsim explain NAME-OR-MESSAGE` finds what an error means, by docs/troubleshooting.md."
        " A trace comes from `txnsim scenario run NAME --trace DIR` or from the control port"
        " (`curl …/api/v1/trace`). Exit status: 0, 2 for what is no trace or is not in it."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
    _explained_error.add_arguments(
        actions.add_parser(ERROR, help="what does an error mean, and what to do?")
    )
    lso = actions.add_parser("lso", help="why is the last stable offset here?")
    lso.add_argument("subject", metavar="TOPIC-PARTITION", help="as orders-0")
    txn = actions.add_parser("txn", help="what has become of a transaction?")
    txn.add_argument("subject", metavar="TRANSACTIONAL-ID")
    for action in (lso, txn):
        action.add_argument("file", type=Path, metavar="FILE", help="a trace")
        action.add_argument(
            "--at", type=int, metavar="N", help="after event N (default: the last one)"
        )
        action.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    if args.action == ERROR:
        return _explained_error.run(args)
    from txnsim.trace.trace_file import Recording
    from txnsim_lab.trace.explain import LsoExplanation, explain_lso, explain_txn

    recording = Recording.read(args.file)
    explain = explain_lso if args.action == "lso" else explain_txn
    explained = explain(recording, args.subject, at=args.at)
    if args.json:
        TERMINAL.json(explained)
        return 0
    for sentence in explained.sentences:
        TERMINAL.line(sentence)
    if isinstance(explained, LsoExplanation):
        _print_events("It follows from:", explained.evidence, recording)
    else:
        _print_events("The last move and what caused it:", explained.chain, recording)
    return 0


def _print_events(title: str, positions: Iterable[int], recording: Recording) -> None:
    from txnsim_lab.trace.brief import line
    from txnsim_lab.trace.cause_chains import by_position

    events = by_position(recording.events)
    events_to_print = [events[position] for position in positions if position in events]
    if events_to_print:
        TERMINAL.line(title)
    for event in events_to_print:
        TERMINAL.line(f"  {line(event, recording.nodes)}")
