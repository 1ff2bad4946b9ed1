"""``txnsim clock``: show, advance and set the clock of a running simulator."""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError

from txnsim.cli.control._words import duration_ms
from txnsim.cli.control.port import Json, port_of
from txnsim.cli.control.port import add_arguments as add_port
from txnsim.cli.output import TERMINAL
from txnsim.text import time_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``clock``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="what time it is there")
    add_port(show)
    advance = actions.add_parser("advance", help="let time pass: what is then due happens")
    advance.add_argument("time", type=_passes_ms, help="1500ms, 30s, 2m, 1h or 7d")
    add_port(advance)
    set_ = actions.add_parser("set", help="set a clock ahead or back; no time passes")
    way = set_.add_mutually_exclusive_group(required=True)
    way.add_argument("--ahead", type=duration_ms, metavar="TIME", help="as in 5s")
    way.add_argument("--back", type=duration_ms, metavar="TIME", help="as in 5s")
    set_.add_argument("--broker", type=int, metavar="ID", help="only this broker's own clock")
    add_port(set_)


def _passes_ms(text: str) -> int:
    """Parse a duration by which the clock advances."""
    if text.startswith("-"):
        ago = text.removeprefix("-")
        raise ArgumentTypeError(
            f"{text!r}: no time passes backwards; `txnsim clock set --back {ago}` sets a clock back"
        )
    return duration_ms(text)


def run(args: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    port = port_of(args)
    match args.action:
        case "show":
            answer = port.get("clock")
        case "advance":
            answer = port.post("clock", body={"advance_ms": args.time})
        case _:
            by_ms = -args.back if args.ahead is None else args.ahead
            body = {"set_by_ms": by_ms}
            if args.broker is not None:
                body["broker"] = args.broker
            answer = port.post("clock", body=body)
    TERMINAL.tell(args, answer, _lines)
    return 0


def _lines(answer: Json) -> list[str]:
    moved = f"moved by {answer['advanced_ms']} ms in all"
    lines = [f"{time_text(answer['now_ms'])} on the cluster's clock, {moved}"]
    return lines + [
        f"broker {broker}: {abs(ms)} ms {'ahead of' if ms > 0 else 'behind'} it"
        for broker, ms in answer["brokers"].items()
        if ms
    ]
