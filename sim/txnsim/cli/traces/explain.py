"""``txnsim explain``: why a last stable offset stands where it stands, and what has become of a
transaction, read from a trace. It says what ``txnsim txns why`` says of brokers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from txnsim.cli.output import complain, print_json, print_line
from txnsim.cli.parsing import MISUSE_STATUS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from txnsim.trace.reading import Recording


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``explain`` takes."""
    parser.epilog = (
        "A trace comes from `txnsim scenario run NAME --trace DIR` or from the control port"
        " (`curl …/api/v1/trace`). Exit status: 0, 2 for what is no trace or is not in it."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
    lso = actions.add_parser("lso", help="why is the last stable offset here?")
    lso.add_argument("subject", metavar="TOPIC-PARTITION", help="as orders-0")
    txn = actions.add_parser("txn", help="what has become of a transaction?")
    txn.add_argument("subject", metavar="TRANSACTIONAL-ID")
    for one in (lso, txn):
        one.add_argument("file", type=Path, metavar="FILE", help="a trace")
        one.add_argument(
            "--at", type=int, metavar="N", help="after event N (default: the last one)"
        )
        one.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit status."""
    from txnsim.errors import BadInputError
    from txnsim.trace.explain import explain_lso, explain_txn
    from txnsim.trace.reading import read

    try:
        found = read(args.file)
        if args.action == "lso":
            lso = explain_lso(found, args.subject, at=args.at)
            if args.json:
                print_json(lso)
            else:
                _print(lso.sentences)
                _print_events("It follows from:", lso.evidence, found)
            return 0
        txn = explain_txn(found, args.subject, at=args.at)
    except BadInputError as error:
        complain(str(error))
        return MISUSE_STATUS
    if args.json:
        print_json(txn)
    else:
        _print(txn.sentences)
        _print_events("The last move and what caused it:", txn.chain, found)
    return 0


def _print(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        print_line(sentence)


def _print_events(title: str, positions: Iterable[int], found: Recording) -> None:
    from txnsim.trace.brief import line
    from txnsim.trace.reading import by_position

    events = by_position(found.events)
    shown = [events[position] for position in positions if position in events]
    if shown:
        print_line(title)
    for event in shown:
        print_line(f"  {line(event, found.nodes)}")
