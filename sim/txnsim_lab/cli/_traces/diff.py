"""``txnsim diff``: where two runs part."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL

if TYPE_CHECKING:
    from txnsim.trace.trace_file import Recording
    from txnsim_lab.trace.diff import Side

DIFFERENT_STATUS: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``diff`` takes."""
    parser.epilog = (
        "Runs are compared role by role, without times and positions. Exit status: 0 they do the"
        " same, 1 they differ, 2 for what is no trace."
    )
    parser.add_argument("a", type=Path, metavar="A", help="a trace")
    parser.add_argument("b", type=Path, metavar="B", help="another one")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit status."""
    from txnsim.trace.trace_file import Recording
    from txnsim_lab.trace.diff import diff

    left, right = Recording.read(args.a), Recording.read(args.b)
    found = diff(left, right)
    if args.json:
        TERMINAL.json(found)
        return 0 if found is None else DIFFERENT_STATUS
    if found is None:
        TERMINAL.line("They do the same.")
        return 0
    TERMINAL.line(found.sentence)
    for name, (one, other) in found.settings.items():
        TERMINAL.line(f"  {name}: A {one}, B {other}")
    _print("A", args.a, found.left, left)
    _print("B", args.b, found.right, right)
    TERMINAL.line(f"Events of its own: A {found.only_left}, B {found.only_right}.")
    return DIFFERENT_STATUS


def _print(name: str, path: Path, side: Side, found: Recording) -> None:
    from txnsim_lab.trace.brief import line
    from txnsim_lab.trace.cause_chains import by_position

    events = by_position(found.events)
    TERMINAL.line(f"{name}  {path}")
    for position in side.context:
        mark = "->" if position == side.at else "  "
        TERMINAL.line(f"  {mark} {line(events[position], found.nodes)}")
    if side.at is None:
        TERMINAL.line("  -> nothing more")
