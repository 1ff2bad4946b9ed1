"""``txnsim txns``: Kafka's ``kafka-transactions.sh``, for any cluster, with the same options,
columns and messages.

Beyond Kafka's tool: ``--json`` on every subcommand, global options also behind the subcommand, an
error at once where there is no broker or no such topic (Kafka's waits a minute), and a second line
that says what to do. What is sent is exactly what Kafka's tool sends. Kafka's counterpart is
``TransactionsCommand``; ``txns_commands`` holds what each subcommand does.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from txnsim import TXNSIM
from txnsim.cli._txns import commands as txns_commands
from txnsim.cli._txns import kip_text as txns_kip_text
from txnsim.cli._txns.audit import AUDIT_FILE
from txnsim.cli._txns.commands import CommandFailure, MisuseFailure
from txnsim.cli._txns.operator import HANGS, INCOMPLETE, Command
from txnsim.cli._txns.rights import missing_right
from txnsim.cli.client_properties import bootstrap_of, read_client_properties
from txnsim.cli.output import complain, warn
from txnsim.cli.parsing import MISUSE_STATUS
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import (
    ClientError,
    ClientTooOldError,
    ConnectionLostError,
    ErrorCode,
    NotSupportedError,
    RequestTimeoutError,
)
from txnsim.text import time_text
from txnsim.txn.open_txn_verdict import program_at
from txnsim.variables import BOOTSTRAP
from txnsim.wire.filters import TransactionFilters

FAILED: Final = 1
"""Exit status of what the cluster refuses."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare subcommands and options, those of Kafka's tool."""
    _add_globals(parser, default=None)
    parser.add_argument(
        "-v", "--version", action="version", version=TXNSIM, help="print the version"
    )
    commands = parser.add_subparsers(
        dest="txns_command", metavar="COMMAND", title="commands", required=True
    )

    def branch(name: str, line: str) -> argparse.ArgumentParser:
        child = commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        # Given behind the subcommand they replace those before it; not given they change nothing.
        _add_globals(child, default=argparse.SUPPRESS)
        child.add_argument("--json", action="store_true", help="print JSON instead of a table")
        txns_kip_text.add_options(name, child)
        return child

    _add_list(branch("list", "list transactions"))
    describe = branch("describe", "describe the state of an active transactional-id")
    describe.add_argument("--transactional-id", required=True, help="transactional id")
    _add_describe_producers(
        branch(
            "describe-producers", "describe the states of active producers for a topic partition"
        )
    )
    _add_abort(branch("abort", "abort a hanging transaction (requires administrative privileges)"))
    find = branch("find-hanging", "find hanging transactions")
    _add_find_hanging(find)
    _add_watch(find)
    force = branch(
        "forceTerminateTransaction",
        "force abort an ongoing transaction on transactionalId (requires administrative"
        " privileges)",
    )
    force.add_argument(
        "--transactionalId", required=True, dest="transactional_id", help="transactional id"
    )
    _add_repair(
        branch("repair", "end hanging transactions, each judged again right before (--yes)")
    )
    why = branch("why", "explain why read_committed consumers of a partition stand still")
    why.add_argument("topic", metavar="TOPIC[-PARTITION]", help="as in orders 0, or orders-0")
    why.add_argument("partition", metavar="PARTITION", nargs="?", type=_integer, help="its number")
    _add_watch(why)


def _add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--watch",
        type=float,
        metavar="SECONDS",
        help="do it again and again, so many seconds apart, until Ctrl-C",
    )


def _add_globals(parser: argparse.ArgumentParser, *, default: Any) -> None:
    parser.add_argument(
        "--bootstrap-server",
        metavar="host:port",
        default=default,
        help=f"broker to connect to; several separated by commas (default: {BOOTSTRAP})",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        type=Path,
        default=default,
        help="property file with client configuration",
    )
    parser.add_argument(
        txns_kip_text.FLAG,
        action="store_true",
        default=False if default is None else default,
        help="take the words of KIP-664 and KIP-994 too (docs/kip-text.md)",
    )


def _add_list(parser: argparse.ArgumentParser) -> None:
    off = TransactionFilters()
    for name, row in TransactionFilters.NAMES.items():
        if row.option:
            parser.add_argument(
                row.option,
                dest=name,
                type=_long if isinstance(getattr(off, name), int) else str,
                metavar=row.metavar,
                help=row.help,
            )


def _add_describe_producers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--broker-id", type=_integer, help="describe the state on this replica, not the leader's"
    )
    parser.add_argument("--topic", required=True, help="topic name")
    parser.add_argument("--partition", type=_integer, required=True, help="partition number")


def _add_abort(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", required=True, help="topic name")
    parser.add_argument("--partition", type=_integer, required=True, help="partition number")
    newer = parser.add_argument_group("by start offset")
    newer.add_argument(
        "--start-offset", type=_long, help="start offset of the transaction to abort"
    )
    older = parser.add_argument_group("by identity, all three of them")
    older.add_argument("--producer-id", type=_long, help="producer id")
    older.add_argument("--producer-epoch", type=_short, help="producer epoch")
    older.add_argument("--coordinator-epoch", type=_integer, help="coordinator epoch")
    ours = parser.add_argument_group("beyond Kafka's tool")
    ours.add_argument(
        "--force", action="store_true", help="abort also what is known to be committed"
    )
    _add_audit_file(ours)


def _add_find_hanging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--broker-id", type=_integer, help="only partitions with a replica there")
    _add_scope(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="search the whole cluster, or all of --topic, compare epochs and states too, tell"
        f" reasons and commands; exit status {HANGS}: something hangs, {INCOMPLETE}: nothing seen"
        " does, but not every partition could be looked at",
    )


def _add_scope(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-transaction-timeout",
        type=_integer,
        metavar="MIN",
        help="only transactions without a write for longer than this (default 15 minutes; with"
        " --all and in repair any age where --partition is given)",
    )
    parser.add_argument("--topic", help="only this topic (required with --partition)")
    parser.add_argument("--partition", type=_integer, help="only this partition")


def _add_repair(parser: argparse.ArgumentParser) -> None:
    _add_scope(parser)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--dry-run", action="store_true", help="only say what would be done (the default)"
    )
    mode.add_argument("--yes", action="store_true", help="do it")
    parser.add_argument(
        "--guess",
        choices=("abort", "commit"),
        help="the marker where the coordinator's decision is unknown; a known decision is always"
        " followed",
    )
    _add_audit_file(parser)


def _add_audit_file(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--audit-file",
        type=Path,
        default=AUDIT_FILE,
        metavar="FILE",
        help="where each attempt and its outcome is written down (default %(default)s)",
    )


def _number(bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        number = int(text)
        if not -limit <= number < limit:
            raise argparse.ArgumentTypeError(f"{text} does not fit in {bits} bits")
        return number

    parse.__name__ = "number"  # argparse says "invalid number value"
    return parse


_short = _number(16)
_integer = _number(32)
_long = _number(64)


rewrite = txns_kip_text.rewrite
"""What the command line means, before it is parsed."""


# Run


def run(args: argparse.Namespace) -> int:
    """Run one subcommand; a failure is a message and exit status 1, as of Kafka's tool, misuse one
    with the status that it has in every command.
    """
    try:
        settings, bootstrap = _settings(args)
        command = txns_commands.command_from(args, _again(args))
        watch_s = getattr(args, "watch", None)
        if watch_s is None:
            return asyncio.run(_run(bootstrap, settings, command, as_json=args.json))
        return asyncio.run(_watch(bootstrap, settings, command, args=args, pause_s=watch_s))
    except (CommandFailure, ClientError) as failure:
        _complain(failure, args.txns_command)
        return MISUSE_STATUS if isinstance(failure, MisuseFailure) else FAILED


def _again(args: argparse.Namespace) -> str:
    """This program with the global options that it was given."""
    config = args.command_config
    options = () if config is None else ("--command-config", str(config))
    return program_at(args.bootstrap_server, *options)


def _complain(failure: CommandFailure | ClientError, command: str) -> None:
    match failure:
        case CommandFailure():
            warn(failure.text)
            cause = failure.cause
        case ClientError():
            complain(str(failure))
            cause = failure
    if cause is not None:
        _advise(cause, command)


def _settings(args: argparse.Namespace) -> tuple[ClientSettings, str]:
    settings, bootstrap = ClientSettings(), None
    if args.command_config is not None:
        settings, bootstrap, ignored = read_client_properties(args.command_config)
        if ignored:
            warn(f"{args.command_config}: without effect here: {', '.join(ignored)}")
    return settings, bootstrap_of(args.bootstrap_server or bootstrap)


async def _run(bootstrap: str, settings: ClientSettings, command: Command, *, as_json: bool) -> int:
    async with Cluster(bootstrap, settings=settings) as cluster:
        output = await command.execute(Admin(cluster), now_ms=cluster.clock.now_ms())
    output.print(as_json=as_json)
    return output.status


async def _watch(
    bootstrap: str,
    settings: ClientSettings,
    command: Command,
    *,
    args: argparse.Namespace,
    pause_s: float,
) -> NoReturn:
    """Repeat the command; report and retry failures after the first connection."""
    async with Cluster(bootstrap, settings=settings) as cluster:
        while True:
            now_ms = cluster.clock.now_ms()
            warn(time_text(now_ms))
            try:
                output = await command.execute(Admin(cluster), now_ms=now_ms)
            except (CommandFailure, ClientError) as failure:
                _complain(failure, args.txns_command)
            else:
                output.print(as_json=args.json)
            await asyncio.sleep(pause_s)


def _advise(error: ClientError, command: str) -> None:
    """A second line: what may be done about it."""
    cause = error.__cause__
    match error:
        case ConnectionLostError() if isinstance(cause, OSError):
            if cause.errno == errno.ECONNREFUSED:
                warn(
                    "No broker listens there. Check --bootstrap-server; `txnsim serve` prints the"
                    " address of its brokers when it starts."
                )
            else:
                warn("Check host and port of --bootstrap-server.")
        case ConnectionLostError() if error.error == ErrorCode.broker_not_available:
            pass  # the message names the brokers that there are
        case ConnectionLostError():
            warn(
                "If the listener asks for TLS or SASL: --command-config FILE with security.protocol"
                " and what goes with it, as for Kafka's tools."
            )
        case RequestTimeoutError():
            warn("Is the address that of a Kafka broker, and is the broker alive?")
        case ClientTooOldError():
            warn("That is a limit of this txnsim, not of the broker: a newer txnsim may have it.")
        case NotSupportedError():
            warn("The broker's release is too old for this, or it is no Kafka broker.")
        case _ if error.error is not None:
            missing = missing_right(command, error.error)
            more = "" if missing is None else f" {missing}"
            warn(f"The broker answered {error.error.name.upper()} ({int(error.error)}).{more}")
        case _:
            pass
