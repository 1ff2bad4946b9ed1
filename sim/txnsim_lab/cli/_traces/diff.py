"""``txnsim diff``: where two runs part."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import print_json, print_line

if TYPE_CHECKING:
    from txnsim.trace.reading import Recording
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
    from txnsim.trace.reading import read
    from txnsim_lab.trace.diff import diff

    left, right = read(args.a), read(args.b)
    found = diff(left, right)
    if args.json:
        print_json(found)
        return 0 if found is None else DIFFERENT_STATUS
    if found is None:
        print_line("They do the same.")
        return 0
    print_line(found.sentence)
    for name, (one, other) in found.settings.items():
        print_line(f"  {name}: A {one}, B {other}")
    _print("A", args.a, found.left, left)
    _print("B", args.b, found.right, right)
    print_line(f"Events of its own: A {found.only_left}, B {found.only_right}.")
    return DIFFERENT_STATUS


def _print(name: str, path: Path, side: Side, found: Recording) -> None:
    from txnsim.trace.reading import by_position
    from txnsim_lab.trace.brief import line

    events = by_position(found.events)
    print_line(f"{name}  {path}")
    for position in side.context:
        mark = "->" if position == side.at else "  "
        print_line(f"  {mark} {line(events[position], found.nodes)}")
    if side.at is None:
        print_line("  -> nothing more")
