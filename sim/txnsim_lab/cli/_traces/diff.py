"""``txnsim diff``: finds where two runs differ."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL

if TYPE_CHECKING:
    from txnsim.trace.trace_file import Recording
    from txnsim_lab.trace.diff import RunSide

DIFFERENT_STATUS: Final = 1
NOTHING_COMPARED_STATUS: Final = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Runs are compared role by role, without times and positions. Exit status: 0 they do the"
        " same, 1 they differ, 2 for what is no trace, 4 they do the same and one was cut off, or"
        " neither has an event."
    )
    parser.add_argument("a", type=Path, metavar="A", help="a trace")
    parser.add_argument("b", type=Path, metavar="B", help="another one")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    from txnsim.trace.trace_file import Recording
    from txnsim_lab.cli._traces.cut_off import CUT_OFF_STATUS, tell_cut_off
    from txnsim_lab.trace.diff import diff

    left_recording, right_recording = Recording.read(args.a), Recording.read(args.b)
    if not left_recording.events and not right_recording.events:
        TERMINAL.complain(
            f"{args.a} and {args.b} have no event: nothing was compared; record the runs again"
        )
        return NOTHING_COMPARED_STATUS
    divergence = diff(left_recording, right_recording)
    completeness_flags = [
        tell_cut_off(path, recording)
        for path, recording in ((args.a, left_recording), (args.b, right_recording))
    ]
    same_status = 0 if all(completeness_flags) else CUT_OFF_STATUS
    if args.json:
        TERMINAL.json(divergence)
        return same_status if divergence is None else DIFFERENT_STATUS
    if divergence is None:
        TERMINAL.line(
            "They do the same."
            if all(completeness_flags)
            else "As far as they go, they do the same."
        )
        return same_status
    TERMINAL.line(divergence.sentence)
    for setting_name, (left_value, right_value) in divergence.settings.items():
        TERMINAL.line(f"  {setting_name}: A {left_value}, B {right_value}")
    _print_side("A", args.a, divergence.left, left_recording)
    _print_side("B", args.b, divergence.right, right_recording)
    TERMINAL.line(f"Events of its own: A {divergence.only_left}, B {divergence.only_right}.")
    return DIFFERENT_STATUS


def _print_side(side_name: str, path: Path, side: RunSide, recording: Recording) -> None:
    from txnsim_lab.trace.brief import brief_line
    from txnsim_lab.trace.cause_chains import by_position

    events = by_position(recording.events)
    TERMINAL.line(f"{side_name}  {path}")
    for position in side.context:
        arrow = "->" if position == side.at else "  "
        TERMINAL.line(f"  {arrow} {brief_line(events[position], recording.nodes)}")
    if side.at is None:
        TERMINAL.line("  -> nothing more")
