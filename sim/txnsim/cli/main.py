"""The command ``txnsim``: which subcommands there are, and nothing of what they do.

Only the chosen command is imported, so that ``txnsim --help`` costs what Python costs. A command is
a module with ``add_arguments(parser)`` and ``run(args) -> int``; one that takes other spellings has
``rewrite(arguments)`` too.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from txnsim.cli.output import warn
from txnsim.cli.parsing import CommandParser, VersionAction

COMMANDS: Final = {
    "serve": ("txnsim.cli.serve", "start a cluster of brokers in this process"),
    "check": ("txnsim.cli.check", "judge what clients saw: find anomalies in a recorded history"),
    "scenario": ("txnsim.cli.scenario.command", "list, show and run stories about transactions"),
    "logs": (
        "txnsim.cli.logs.command",
        "Kafka's log directories: write those of a running cluster, read any",
    ),
    "stream": ("txnsim.cli.stream", "stream topics with Spark, and tell what it can't see"),
    "trace": ("txnsim.cli.trace", "event traces: Parquet tables and analyses of them"),
    "txns": (
        "txnsim.cli.txns.command",
        "look at the transactions of any Kafka cluster, and repair them",
    ),
}
"""Name -> module, and its line of help: known without importing the module."""

INTERRUPTED_STATUS: Final = 130
"""128 + SIGINT, as shells report it."""
OPTIMIZED: Final = (
    "txnsim: refusing to run under python -O or PYTHONOPTIMIZE: without its asserts a bug of ours"
    " would pass for Kafka's behaviour. Start it without."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments after the program's name; those of the process unless given.

    Returns:
        The exit status.
    """
    if not __debug__:
        warn(OPTIMIZED)
        return 1
    _open_standard_files()
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = next((one for one in arguments if not one.startswith("-")), None)
    module = _load(name) if name in COMMANDS else None
    rewrite = getattr(module, "rewrite", None)
    if rewrite is not None:
        arguments = rewrite(arguments)
    try:
        args = _parser(name, module).parse_args(arguments)
    except SystemExit as end:  # argparse ends the process: after --help, --version or a misuse
        return end.code if isinstance(end.code, int) else 0
    if module is None:
        _parser(None, None).print_help()
        return 2
    return _run(module, args)


def _open_standard_files() -> None:
    """Where a standard file is closed (``>&-``), nothing else may take its number: libuv aborts a
    process that closes a socket of such a number. Python has no stream then, and prints nothing.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as we


def _load(name: str | None) -> ModuleType:
    assert name is not None
    return importlib.import_module(COMMANDS[name][0])


def _parser(chosen: str | None, module: ModuleType | None) -> CommandParser:
    """The argument tree; only the chosen command's branch has leaves."""
    parser = CommandParser(
        prog="txnsim",
        description="A simulator of a Kafka cluster for transactions: real clients, real states,"
        " faults on demand.",
        epilog="`txnsim COMMAND --help` shows what a command takes.",
    )
    parser.add_argument("--version", action=VersionAction, help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, (_, line) in COMMANDS.items():
        branch = commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        if name == chosen and module is not None:
            module.add_arguments(branch)
    return parser


def _run(module: ModuleType, args: argparse.Namespace) -> int:
    from txnsim.errors import TxnsimError  # it knows kio's error codes: slow to import

    try:
        status: int = module.run(args)
        # Written here, where a reader that went away (`| head`) can still be told from a bug.
        sys.stdout.flush()
    except TxnsimError as error:
        warn(f"txnsim: {error}")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED_STATUS
    except BrokenPipeError:
        # What Python would still flush at its end goes nowhere instead of failing again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
