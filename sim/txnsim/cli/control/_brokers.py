"""``txnsim brokers``: list, kill, stop, start and isolate brokers of a running simulator."""

from __future__ import annotations

import argparse
from typing import Final

from txnsim.cli.control._answers import BrokerAnswer
from txnsim.cli.control._words import duration_ms
from txnsim.cli.control.port import Json, port_of
from txnsim.cli.control.port import add_arguments as add_port
from txnsim.cli.output import TERMINAL, Columns
from txnsim.text import host_and_port

PATIENCE_MORE_SECONDS: Final = 10
WAIT_MS: Final = 30_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def branch(action_name: str, help_line: str) -> argparse.ArgumentParser:
        action_parser = actions.add_parser(
            action_name, help=help_line, description=f"{help_line[0].upper()}{help_line[1:]}."
        )
        if action_name != "list":
            action_parser.add_argument("broker", type=int, metavar="ID", help="the broker's id")
        add_port(action_parser)
        return action_parser

    branch("list", "every broker, whether it runs or not")
    kill_parser = branch(
        "kill", "end a broker at once; the controller notices when its session ends"
    )
    kill_parser.add_argument(
        "--lose-unflushed",
        action="store_true",
        help="its machine broke down too: what was not on disk is lost",
    )
    stop_parser = branch("stop", "stop a broker in order: its leaders move away first")
    start_parser = branch("start", "start a broker that is down, on its port and its disk")
    start_parser.add_argument(
        "--as-version", metavar="RELEASE", help="as that release of Kafka from now"
    )
    for action in (stop_parser, start_parser):
        action.add_argument(
            "--wait",
            type=duration_ms,
            default=WAIT_MS,
            metavar="TIME",
            help="answer after so long also while the work goes on (default 30s)",
        )
    isolate_parser = branch("isolate", "cut a broker off from the controller and the other brokers")
    isolate_parser.add_argument("--from-clients", action="store_true", help="from clients as well")
    branch("heal", "undo an isolation")


def run(args: argparse.Namespace) -> int:
    """Run the subcommand; returns the exit status."""
    control_port = port_of(args)
    if args.action == "list":
        TERMINAL.tell(args, control_port.get("brokers", form=list[BrokerAnswer]), _COLUMNS)
        return 0
    broker_path = ("brokers", args.broker, args.action)
    match args.action:
        case "kill":
            answer = control_port.post(
                *broker_path, body={"lose_unflushed": args.lose_unflushed}, form=BrokerAnswer
            )
        case "isolate":
            answer = control_port.post(
                *broker_path, body={"from_clients": args.from_clients}, form=BrokerAnswer
            )
        case "stop" | "start":
            body = {"as_version": args.as_version} if args.action == "start" else None
            patience_s = args.wait / 1_000 + PATIENCE_MORE_SECONDS
            answer = control_port.post(
                *broker_path,
                body=body,
                form=BrokerAnswer,
                patience_s=patience_s,
                wait_ms=args.wait,
            )
        case _:
            answer = control_port.post(*broker_path, form=BrokerAnswer)
    TERMINAL.tell(args, answer, lambda broker: _broker_line(broker, args.action))
    return 0


_COLUMNS: Final[Columns[Json]] = {
    "Broker": lambda broker: broker["id"],
    "State": lambda broker: broker["state"],
    "Address": lambda broker: host_and_port(broker["host"], broker["port"]),
    "Release": lambda broker: broker["release"],
    "Leads": lambda broker: broker["leads"],
    "Trouble": lambda broker: _trouble_text(broker),
}


def _trouble_text(broker: Json) -> str:
    text_by_trouble = {
        "fenced": "fenced",
        "isolated": "isolated",
        "cut_off_from_clients": "cut off from clients",
    }
    return ", ".join(
        trouble_text
        for trouble_name, trouble_text in text_by_trouble.items()
        if broker[trouble_name]
    )


def _broker_line(broker: Json, action: str) -> str:
    trouble_text = _trouble_text(broker)
    broker_state_text = (
        f"broker {broker['id']} is {broker['state']}{f' ({trouble_text})' if trouble_text else ''}"
    )
    broker_state_text += f", leads {broker['leads']} partitions by the controller's word"
    undo_command = {
        "kill": f"txnsim brokers start {broker['id']}",
        "stop": f"txnsim brokers start {broker['id']}",
        "isolate": f"txnsim brokers heal {broker['id']}",
    }.get(action)
    return (
        broker_state_text
        if undo_command is None
        else f"{broker_state_text}; to undo it: {undo_command}"
    )
