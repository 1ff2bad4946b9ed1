"""``txnsim brokers``: list, kill, stop, start and isolate brokers of a running simulator."""

from __future__ import annotations

import argparse
from typing import Final

from txnsim.cli.control._words import duration_ms
from txnsim.cli.control.port import Json, port_of
from txnsim.cli.control.port import add_arguments as add_port
from txnsim.cli.output import TERMINAL, Columns
from txnsim.text import host_and_port

PATIENCE_MORE_SECONDS: Final = 10
WAIT_MS: Final = 30_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``brokers``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def branch(name: str, line: str) -> argparse.ArgumentParser:
        child = actions.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}.")
        if name != "list":
            child.add_argument("broker", type=int, metavar="ID", help="the broker's id")
        add_port(child)
        return child

    branch("list", "every broker, whether it runs or not")
    kill = branch("kill", "end a broker at once; the controller notices when its session ends")
    kill.add_argument(
        "--lose-unflushed",
        action="store_true",
        help="its machine broke down too: what was not on disk is lost",
    )
    stop = branch("stop", "stop a broker in order: its leaders move away first")
    start = branch("start", "start a broker that is down, on its port and its disk")
    start.add_argument("--as-version", metavar="RELEASE", help="as that release of Kafka from now")
    for action in (stop, start):
        action.add_argument(
            "--wait",
            type=duration_ms,
            default=WAIT_MS,
            metavar="TIME",
            help="answer after so long also while the work goes on (default 30s)",
        )
    isolate = branch("isolate", "cut a broker off from the controller and the other brokers")
    isolate.add_argument("--from-clients", action="store_true", help="from clients as well")
    branch("heal", "undo an isolation")


def run(args: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    port = port_of(args)
    if args.action == "list":
        TERMINAL.tell(args, port.get("brokers"), _COLUMNS)
        return 0
    where = ("brokers", args.broker, args.action)
    match args.action:
        case "kill":
            answer = port.post(*where, body={"lose_unflushed": args.lose_unflushed})
        case "isolate":
            answer = port.post(*where, body={"from_clients": args.from_clients})
        case "stop" | "start":
            body = {"as_version": args.as_version} if args.action == "start" else None
            patience = args.wait / 1_000 + PATIENCE_MORE_SECONDS
            answer = port.post(*where, body=body, patience=patience, wait_ms=args.wait)
        case _:
            answer = port.post(*where)
    TERMINAL.tell(args, answer, lambda broker: _line(broker, args.action))
    return 0


_COLUMNS: Final[Columns[Json]] = {
    "Broker": lambda broker: broker["id"],
    "State": lambda broker: broker["state"],
    "Address": lambda broker: host_and_port(broker["host"], broker["port"]),
    "Release": lambda broker: broker["release"],
    "Leads": lambda broker: broker["leads"],
    "Trouble": lambda broker: _trouble(broker),
}


def _trouble(broker: Json) -> str:
    words = {
        "fenced": "fenced",
        "isolated": "isolated",
        "cut_off_from_clients": "cut off from clients",
    }
    return ", ".join(word for name, word in words.items() if broker[name])


def _line(broker: Json, action: str) -> str:
    trouble = _trouble(broker)
    state = f"broker {broker['id']} is {broker['state']}{f' ({trouble})' if trouble else ''}"
    state += f", leads {broker['leads']} partitions by the controller's word"
    nxt = {
        "kill": f"txnsim brokers start {broker['id']}",
        "stop": f"txnsim brokers start {broker['id']}",
        "isolate": f"txnsim brokers heal {broker['id']}",
    }.get(action)
    return state if nxt is None else f"{state}; to undo it: {nxt}"
