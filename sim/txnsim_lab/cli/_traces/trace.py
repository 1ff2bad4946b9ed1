"""``txnsim trace``: event traces as text and in other tools' formats (``text_formats``), and with
Spark as tables.
"""

from __future__ import annotations

import argparse

from txnsim.on_demand_imports import offered
from txnsim_lab.cli._traces import text_formats


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subcommands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    text_formats.add_arguments(subcommands)
    for extension_module in offered("cli.trace_actions"):
        extension_module.add_arguments(subcommands)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    if args.action in text_formats.ACTIONS:
        return text_formats.run(args)
    chosen_module = next(
        action_module
        for action_module in offered("cli.trace_actions")
        if args.action in action_module.ACTIONS
    )
    exit_status: int = chosen_module.run(args)
    return exit_status
