"""``txnsim clock``: show, advance and set the clock of a running simulator."""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError

from txnsim.cli.control._answers import ClockAnswer
from txnsim.cli.control._words import duration_ms
from txnsim.cli.control.port import Json, port_of
from txnsim.cli.control.port import add_arguments as add_port
from txnsim.cli.output import TERMINAL
from txnsim.text import time_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show_parser = actions.add_parser("show", help="what time it is there")
    add_port(show_parser)
    advance_parser = actions.add_parser("advance", help="let time pass: what is then due happens")
    advance_parser.add_argument("time", type=_passes_ms, help="1500ms, 30s, 2m, 1h or 7d")
    add_port(advance_parser)
    set_parser = actions.add_parser("set", help="set a clock ahead or back; no time passes")
    direction_group = set_parser.add_mutually_exclusive_group(required=True)
    direction_group.add_argument("--ahead", type=duration_ms, metavar="TIME", help="as in 5s")
    direction_group.add_argument("--back", type=duration_ms, metavar="TIME", help="as in 5s")
    set_parser.add_argument("--broker", type=int, metavar="ID", help="only this broker's own clock")
    add_port(set_parser)


def _passes_ms(duration_text: str) -> int:
    """Parse a duration by which the clock advances."""
    if duration_text.startswith("-"):
        unsigned_text = duration_text.removeprefix("-")
        raise ArgumentTypeError(
            f"{duration_text!r}: no time passes backwards; `txnsim clock set --back"
            f" {unsigned_text}` sets a clock back"
        )
    return duration_ms(duration_text)


def run(args: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    control_port = port_of(args)
    match args.action:
        case "show":
            answer = control_port.get("clock", form=ClockAnswer)
        case "advance":
            answer = control_port.post("clock", body={"advance_ms": args.time}, form=ClockAnswer)
        case _:
            shift_ms = -args.back if args.ahead is None else args.ahead
            body = {"set_by_ms": shift_ms}
            if args.broker is not None:
                body["broker"] = args.broker
            answer = control_port.post("clock", body=body, form=ClockAnswer)
    TERMINAL.tell(args, answer, _clock_lines)
    return 0


def _clock_lines(answer: Json) -> list[str]:
    moved_text = f"moved by {answer['advanced_ms']} ms in all"
    lines = [f"{time_text(answer['now_ms'])} on the cluster's clock, {moved_text}"]
    return lines + [
        f"broker {broker}: {abs(ahead_ms)} ms {'ahead of' if ahead_ms > 0 else 'behind'} it"
        for broker, ahead_ms in answer["brokers"].items()
        if ahead_ms
    ]
