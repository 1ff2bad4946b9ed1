"""``txnsim txns``: Kafka's ``kafka-transactions.sh``, for any cluster, with the same options,
columns and messages.

Beyond Kafka's tool: ``--json`` on every subcommand, global options also behind the subcommand, an
immediate error if there is no broker or no such topic (Kafka's tool waits a minute), and a second
line with advice. The requests are exactly those of Kafka's tool. Kafka's counterpart is
``TransactionsCommand``. What goes beyond it is in ``operator_commands`` and ``ending_commands``.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from txnsim import TXNSIM
from txnsim.cli._txns import kip_text as txns_kip_text
from txnsim.cli._txns.abort_confirmation import GuardedAbort, NeedsForceError
from txnsim.cli._txns.audit import AUDIT_FILE
from txnsim.cli._txns.ending_commands import end_command
from txnsim.cli._txns.missing_rights import missing_right
from txnsim.cli._txns.operator_commands import (
    HANGS,
    INCOMPLETE,
    CheckDecisions,
    Command,
    FindHangingEverywhere,
    RepairHanging,
    WhyCommand,
    hanging_columns,
)
from txnsim.cli._txns.search_scope import NO_PARTITION, SearchScope
from txnsim.cli.client_properties import bootstrap_of, read_client_properties
from txnsim.cli.decision_output import DECISION_STATUSES
from txnsim.cli.output import TERMINAL, Columns, Output, rows_of
from txnsim.cli.parsing import MISUSE_STATUS, new_file
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import (
    ClientError,
    ClientTooOldError,
    ConnectionLostError,
    NotSupportedError,
    RequestTimeoutError,
)
from txnsim.client.inspection.txn_views import (
    AbortSpec,
    OpenSince,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from txnsim.client.inspection.txn_wording import message_of
from txnsim.environment_variables import BOOTSTRAP
from txnsim.errors import ConfigError, ErrorCode
from txnsim.shell_text import ShellText, option
from txnsim.text import time_text
from txnsim.txn.open_txn_verdict import DISCARD_WARNING, is_two_phase, program_at
from txnsim.txn.past_decision import GUESSES, PastDecision
from txnsim.types import TopicPartition
from txnsim.wire.filters import TransactionFilters, fits_in_bits

FAILED: Final = 1
"""Exit status when the cluster refuses."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare subcommands and options, those of Kafka's tool."""
    _add_globals(parser, default=None)
    parser.add_argument(
        "-v", "--version", action="version", version=TXNSIM, help="print the version"
    )
    commands = parser.add_subparsers(
        dest="txns_command", metavar="COMMAND", title="commands", required=True
    )

    def branch(command_name: str, help_line: str) -> argparse.ArgumentParser:
        command_parser = commands.add_parser(
            command_name, help=help_line, description=help_line[0].upper() + help_line[1:] + "."
        )
        # Given behind the subcommand they replace those before it; not given they change nothing.
        _add_globals(command_parser, default=argparse.SUPPRESS)
        command_parser.add_argument(
            "--json", action="store_true", help="print JSON instead of a table"
        )
        txns_kip_text.add_options(command_name, command_parser)
        return command_parser

    _add_list(branch("list", "list transactions"))
    describe_parser = branch("describe", "describe the state of an active transactional-id")
    describe_parser.add_argument("--transactional-id", required=True, help="transactional id")
    _add_describe_producers(
        branch(
            "describe-producers", "describe the states of active producers for a topic partition"
        )
    )
    _add_abort(branch("abort", "abort a hanging transaction (requires administrative privileges)"))
    commit_parser = branch(
        "commit", "commit an open transaction of exactly this identity, as a checkpoint says"
    )
    commit_parser.description = (
        f"{commit_parser.description} Without --yes nothing is changed. Exit status {HANGS}:"
        " refused, or some marker is not written yet."
    )
    _add_commit(commit_parser)
    find_hanging_parser = branch("find-hanging", "find hanging transactions")
    _add_find_hanging(find_hanging_parser)
    _add_watch(find_hanging_parser)
    force_parser = branch(
        "forceTerminateTransaction",
        "force abort an ongoing transaction on transactionalId (requires administrative"
        " privileges)",
    )
    force_parser.add_argument(
        "--transactionalId", required=True, dest="transactional_id", help="transactional id"
    )
    decisions_parser = branch(
        "decisions", "were we hit? compare every decision with the markers of every partition"
    )
    decisions_parser.description = (
        f"{decisions_parser.description} Nothing is written. {DECISION_STATUSES}"
    )
    decisions_parser.add_argument("--topic", help="only this topic")
    _add_repair(
        branch("repair", "end hanging transactions, each judged again right before (--yes)")
    )
    why_parser = branch("why", "explain why read_committed consumers of a partition stand still")
    why_parser.add_argument(
        "topic", metavar="TOPIC[-PARTITION]", help="as in orders 0, or orders-0"
    )
    why_parser.add_argument(
        "partition", metavar="PARTITION", nargs="?", type=_integer, help="its number"
    )
    _add_watch(why_parser)


def _add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--watch",
        type=float,
        metavar="SECONDS",
        help="do it again and again, so many seconds apart, until Ctrl-C; with --json a line each",
    )


def _add_globals(parser: argparse.ArgumentParser, *, default: Any) -> None:
    add_connection(parser, default=default)
    parser.add_argument(
        txns_kip_text.FLAG,
        action="store_true",
        default=False if default is None else default,
        help="take the words of KIP-664 and KIP-994 too (docs/kip-text.md)",
    )


def add_connection(parser: argparse.ArgumentParser, *, default: Any) -> None:
    """Declare the options that say which cluster to connect to, and how to log in."""
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


def _add_list(parser: argparse.ArgumentParser) -> None:
    default_filters = TransactionFilters()
    for filter_name, option_row in TransactionFilters.NAMES.items():
        if option_row.option:
            parser.add_argument(
                option_row.option,
                dest=filter_name,
                type=_number_parser(option_row.bits)
                if isinstance(getattr(default_filters, filter_name), int)
                else str,
                metavar=option_row.metavar,
                help=option_row.help,
            )


def _add_describe_producers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--broker-id", type=_integer, help="describe the state on this replica, not the leader's"
    )
    parser.add_argument("--topic", required=True, help="topic name")
    parser.add_argument("--partition", type=_integer, required=True, help="partition number")


def _add_abort(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", help="topic name")
    parser.add_argument("--partition", type=_integer, help="partition number")
    offset_group = parser.add_argument_group("by start offset")
    offset_group.add_argument(
        "--start-offset", type=_parse_int64, help="start offset of the transaction to abort"
    )
    identity_group = parser.add_argument_group("by identity, all three of them")
    identity_group.add_argument("--producer-id", type=_parse_int64, help="producer id")
    identity_group.add_argument("--producer-epoch", type=_parse_int16, help="producer epoch")
    identity_group.add_argument("--coordinator-epoch", type=_integer, help="coordinator epoch")
    own_arguments = parser.add_argument_group("beyond Kafka's tool")
    own_arguments.add_argument(
        "--force", action="store_true", help="abort also what is known to be committed"
    )
    own_arguments.add_argument(
        "--transactional-id",
        help="end a transaction that its coordinator still has open, on all its partitions: with"
        " --producer-id and --producer-epoch, without --topic and --partition",
    )
    own_arguments.add_argument(
        "--yes", action="store_true", help="with --transactional-id: do it, and do not only look"
    )
    _add_audit_file(own_arguments)


def _add_commit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--transactional-id", required=True, help="transactional id")
    parser.add_argument("--producer-id", type=_parse_int64, required=True, help="producer id")
    parser.add_argument("--producer-epoch", type=_parse_int16, required=True, help="producer epoch")
    mode_group = parser.add_mutually_exclusive_group()
    mode_group.add_argument(
        "--dry-run", action="store_true", help="only say what would be done (the default)"
    )
    mode_group.add_argument("--yes", action="store_true", help="do it")
    _add_audit_file(parser)


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
    mode_group = parser.add_mutually_exclusive_group()
    mode_group.add_argument(
        "--dry-run", action="store_true", help="only say what would be done (the default)"
    )
    mode_group.add_argument("--yes", action="store_true", help="do it")
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
        type=new_file,
        default=AUDIT_FILE,
        metavar="FILE",
        help="where each attempt and its outcome is written down (default %(default)s)",
    )


def _number_parser(bit_count: int) -> Callable[[str], int]:
    def parse(number_text: str) -> int:
        number = int(number_text)
        if not fits_in_bits(number, bit_count):
            raise argparse.ArgumentTypeError(f"{number_text} does not fit in {bit_count} bits")
        return number

    parse.__name__ = "number"  # argparse says "invalid number value"
    return parse


_parse_int16 = _number_parser(16)
_integer = _number_parser(32)
_parse_int64 = _number_parser(64)


rewrite = txns_kip_text.rewrite
"""Translates other spellings of the command line before it is parsed."""


# Run


def run(args: argparse.Namespace) -> int:
    """Run one subcommand. A failure prints a message and returns 1, as Kafka's tool does; misuse
    has the same status as in every command.
    """
    try:
        settings, bootstrap = settings_of(args)
        command = command_from(args, _program_text(args))
        watch_s = getattr(args, "watch", None)
        if watch_s is None:
            return asyncio.run(_run(bootstrap, settings, command, as_json=args.json))
        return asyncio.run(
            _run_repeatedly(bootstrap, settings, command, args=args, watch_pause_s=watch_s)
        )
    except (CommandFailure, ClientError) as failure:
        complain(failure, args.txns_command)
        return MISUSE_STATUS if isinstance(failure, MisuseFailure) else FAILED


def _program_text(args: argparse.Namespace) -> ShellText:
    """The command line of this program with its global options, for printed commands."""
    config = args.command_config
    options = () if config is None else option("--command-config", config)
    return program_at(args.bootstrap_server, *options)


def complain(failure: CommandFailure | ClientError, command: str) -> None:
    """Print why a command failed, and advice."""
    match failure:
        case CommandFailure():
            TERMINAL.fail(failure.text)
            client_error = failure.cause
        case ClientError():
            TERMINAL.complain(failure)
            client_error = failure
    if client_error is not None:
        _advise(client_error, command)


def settings_of(args: argparse.Namespace) -> tuple[ClientSettings, str]:
    """The client settings and bootstrap servers that ``add_connection``'s options name."""
    settings, bootstrap = ClientSettings(), None
    if args.command_config is not None:
        settings, bootstrap, ignored_settings = read_client_properties(args.command_config)
        if ignored_settings:
            TERMINAL.warn(
                f"{args.command_config}: without effect here: {', '.join(ignored_settings)}"
            )
    return settings, bootstrap_of(args.bootstrap_server or bootstrap)


async def _run(bootstrap: str, settings: ClientSettings, command: Command, *, as_json: bool) -> int:
    async with Cluster(bootstrap, settings=settings) as cluster:
        output = await command.execute(Admin(cluster), now_ms=cluster.clock.now_ms())
    output.print(as_json=as_json)
    return output.status


async def _run_repeatedly(
    bootstrap: str,
    settings: ClientSettings,
    command: Command,
    *,
    args: argparse.Namespace,
    watch_pause_s: float,
) -> NoReturn:
    """Repeat the command; report and retry failures after the first connection."""
    async with Cluster(bootstrap, settings=settings) as cluster:
        while True:
            now_ms = cluster.clock.now_ms()
            TERMINAL.warn(time_text(now_ms))
            try:
                output = await command.execute(Admin(cluster), now_ms=now_ms)
            except (CommandFailure, ClientError) as failure:
                complain(failure, args.txns_command)
            else:
                output.print(as_json=args.json, as_line=True)
            await asyncio.sleep(watch_pause_s)


def _advise(error: ClientError, command: str) -> None:
    """Print advice as a second line."""
    os_error = error.__cause__
    match error:
        case ConnectionLostError() if isinstance(os_error, OSError):
            if os_error.errno == errno.ECONNREFUSED:
                TERMINAL.warn(
                    "No broker listens there. Check --bootstrap-server; `txnsim serve` prints the"
                    " address of its brokers when it starts."
                )
            else:
                TERMINAL.warn("Check host and port of --bootstrap-server.")
        case ConnectionLostError() if error.error == ErrorCode.broker_not_available:
            pass  # the message names the brokers that there are
        case ConnectionLostError():
            TERMINAL.warn(
                "If the listener asks for TLS or SASL: --command-config FILE with security.protocol"
                " and what goes with it, as for Kafka's tools."
            )
        case RequestTimeoutError():
            TERMINAL.warn("Is the address that of a Kafka broker, and is the broker alive?")
        case ClientTooOldError():
            TERMINAL.warn(
                "That is a limit of this txnsim, not of the broker: a newer txnsim may have it."
            )
        case NotSupportedError():
            TERMINAL.warn("The broker's release is too old for this, or it is no Kafka broker.")
        case _ if error.error is not None:
            missing_right_text = missing_right(command, error.error)
            advice_suffix = "" if missing_right_text is None else f" {missing_right_text}"
            TERMINAL.warn(
                f"The broker answered {error.error.name.upper()} ({int(error.error)})."
                f"{advice_suffix}"
            )
        case _:
            pass


# What each subcommand of ``txnsim txns`` does: checks, requests, rows.
#
# A command is name, arguments, execution over the wire, like the nested classes of Kafka's
# ``TransactionsCommand``, whose messages and columns stand here letter by letter. A command returns
# what is to be printed and prints nothing.

NONE: Final = "None"
_MINUTE_MS: Final = 60_000


class CommandFailure(Exception):
    """The command failed; ``text`` is the message of Kafka's tool, ``cause`` the error behind
    it.
    """

    def __init__(self, text: str, cause: ClientError | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.cause = cause


class MisuseFailure(CommandFailure):
    """Arguments that don't go together, in the words of Kafka's own tool."""


def command_failure(failure: str, cause: ClientError) -> CommandFailure:
    """A failure with the message of ``TransactionsCommand.printErrorAndExit``."""
    return CommandFailure(f"{failure}: {cause}. Enable debug logging for additional detail.", cause)


class ListCommand(msgspec.Struct, frozen=True, kw_only=True):
    """``kafka-transactions.sh list``: which transactions, and which brokers are asked."""

    filters: TransactionFilters = TransactionFilters()
    broker_ids: tuple[int, ...] | None = None

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:  # noqa: ARG002 - all commands are called alike
        """List the transactions of every broker."""
        failure = "Failed to list transactions"
        try:
            listing_by_broker = await admin.list_transactions(
                self.filters, broker_ids=self.broker_ids
            )
        except ClientError as error:
            raise command_failure(failure, error) from error
        listings: list[TransactionListing] = []
        for broker_listing in listing_by_broker.values():
            if isinstance(broker_listing, ClientError):
                raise command_failure(failure, broker_listing)
            listings += broker_listing
        return Output(
            headers=("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
            rows=tuple(
                (
                    listing.transactional_id,
                    str(listing.coordinator_id),
                    str(listing.producer_id),
                    listing.state,
                )
                for listing in listings
            ),
            values=listings,
        )


class DescribeTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """The ``describe`` command."""

    transactional_id: str
    broker_id: int | None = None
    """Ask this broker instead of the coordinator."""

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Ask the coordinator. As in Kafka's tool the duration keeps growing after the end, because
        the start time stays.
        """
        transactional_key = self.transactional_id
        description_or_error = (
            await admin.describe_transactions((transactional_key,), broker_id=self.broker_id)
        )[transactional_key]
        if isinstance(description_or_error, ClientError):
            failure = (
                f"Failed to describe transaction state of transactional-id `{transactional_key}`"
            )
            raise command_failure(failure, description_or_error)
        start_text, duration_text = NONE, NONE
        if description_or_error.start_time_ms is not None:
            start_text, duration_text = (
                str(description_or_error.start_time_ms),
                str(now_ms - description_or_error.start_time_ms),
            )
        cells = {
            "CoordinatorId": str(description_or_error.coordinator_id),
            "TransactionalId": self.transactional_id,
            "ProducerId": str(description_or_error.producer_id),
            "ProducerEpoch": str(description_or_error.producer_epoch),
            "TransactionState": description_or_error.state,
            "TransactionTimeoutMs": str(description_or_error.timeout_ms),
            "CurrentTransactionStartTimeMs": start_text,
            "TransactionDurationMs": duration_text,
            "TopicPartitions": ",".join(
                str(partition) for partition in description_or_error.partitions
            ),
        }
        return Output(
            headers=tuple(cells), rows=(tuple(cells.values()),), values=description_or_error
        )


class DescribeProducers(msgspec.Struct, frozen=True, kw_only=True):
    """The ``describe-producers`` command."""

    partition: TopicPartition
    broker_id: int | None = None

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:  # noqa: ARG002 - all commands are called alike
        """List the producers that the partition's leader knows, or a replica on one broker."""
        topic_partition = "leader" if self.broker_id is None else f"broker {self.broker_id}"
        failure = (
            f"Failed to describe producers for partition {self.partition} on {topic_partition}"
        )
        await _require_partition(admin, self.partition, failure)
        producers_or_error = (
            await admin.describe_producers((self.partition,), broker_id=self.broker_id)
        )[self.partition]
        if isinstance(producers_or_error, ClientError):
            raise command_failure(failure, producers_or_error)
        return Output(
            headers=tuple(_PRODUCER_COLUMNS),
            rows=rows_of(_PRODUCER_COLUMNS, producers_or_error),
            values=producers_or_error,
        )


_PRODUCER_COLUMNS: Final[Columns[ProducerState]] = {
    "ProducerId": lambda producer: producer.producer_id,
    "ProducerEpoch": lambda producer: producer.producer_epoch,
    "LatestCoordinatorEpoch": lambda producer: (
        -1 if producer.coordinator_epoch is None else producer.coordinator_epoch
    ),
    "LastSequence": lambda producer: producer.last_sequence,
    "LastTimestamp": lambda producer: producer.last_timestamp_ms,
    "CurrentTransactionStartOffset": lambda producer: (
        NONE if producer.txn_start_offset is None else producer.txn_start_offset
    ),
}


class AbortTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """The ``abort`` command: by start offset if given, else by the whole identity."""

    partition: TopicPartition
    start_offset: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    coordinator_epoch: int | None = None
    guarded: GuardedAbort = GuardedAbort()

    def __post_init__(self) -> None:
        """Refuse invalid arguments before connecting."""
        if self.start_offset is not None:
            return
        if self.producer_id is None:
            raise MisuseFailure(
                "The transaction to abort must be identified either with --start-offset (for"
                " brokers on 3.0 or above) or with --producer-id, --producer-epoch, and"
                " --coordinator-epoch (for older brokers)"
            )
        if self.producer_epoch is None:
            raise MisuseFailure("Missing required argument --producer-epoch")
        if self.coordinator_epoch is None:
            raise MisuseFailure("Missing required argument --coordinator-epoch")

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Write one abort marker to the leader."""
        spec = await self.spec(admin)
        failure = f"Failed to abort transaction {spec}"
        await _require_partition(admin, self.partition, failure)
        try:
            await self.guarded.abort(
                admin, spec, now_ms=now_ms, send_abort=lambda: admin.abort_transaction(spec)
            )
        except NeedsForceError:
            raise
        except ClientError as error:
            raise command_failure(failure, error) from error
        return Output(values={"aborted": spec})

    async def spec(self, admin: Admin) -> AbortSpec:
        """The identity of the transaction; if only its start offset is given, the leader is asked.

        Raises:
            CommandFailure: The leader could not be asked, or no open transaction starts at that
                offset.
        """
        if self.start_offset is None:
            assert self.producer_id is not None
            assert self.producer_epoch is not None
            assert self.coordinator_epoch is not None
            return AbortSpec(
                partition=self.partition,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                # A producer that hung before its first marker shows -1; 0 is below any real epoch.
                coordinator_epoch=max(0, self.coordinator_epoch),
            )
        failure = f"Failed to validate producer state for partition {self.partition}"
        await _require_partition(admin, self.partition, failure)
        try:
            return await admin.identify(
                OpenSince(partition=self.partition, start_offset=self.start_offset)
            )
        except ClientError as error:
            if error.error == ErrorCode.invalid_txn_state:
                raise CommandFailure(str(error)) from None
            raise command_failure(failure, error) from error


class FindHanging(msgspec.Struct, frozen=True, kw_only=True):
    """The ``find-hanging`` command."""

    topic: str | None = None
    partition: int | None = None
    broker_id: int | None = None
    max_transaction_timeout_min: int = 15

    def __post_init__(self) -> None:
        """Refuse a search without bounds before connecting."""
        if self.topic is None and self.broker_id is None:
            raise MisuseFailure(
                "The `find-hanging` command requires either --topic or --broker-id to limit the"
                " scope of the search; here --all searches every leader, too"
            )
        if self.partition is not None and self.topic is None:
            raise MisuseFailure("The --partition argument requires --topic to be provided")

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Find open transactions, ask their coordinators, list the hanging ones."""
        if self.topic is not None and self.partition is not None:
            failure = "Failed to describe producers for 1 partitions on broker "
            failure += "Optional.empty" if self.broker_id is None else f"Optional[{self.broker_id}]"
            await _require_partition(admin, TopicPartition(self.topic, self.partition), failure)
        try:
            open_txns = await admin.find_hanging(
                now_ms=now_ms,
                topic=self.topic,
                partition=self.partition,
                broker_id=self.broker_id,
                max_transaction_timeout_ms=self.max_transaction_timeout_min * _MINUTE_MS,
            )
        except ClientError as error:
            table_text = f"{error}. Enable debug logging for additional detail."
            raise CommandFailure(table_text, error) from error
        columns = hanging_columns(now_ms)
        status = 0
        if not open_txns and not await self._has_partitions(admin):
            TERMINAL.warn(f"nothing was searched: {NO_PARTITION}")
            status = INCOMPLETE
        return Output(
            headers=tuple(columns),
            rows=rows_of(columns, open_txns),
            status=status,
            values=[
                {
                    "partition": transaction.partition,
                    "producer": transaction.producer,
                    "duration_min": transaction.duration_min(now_ms),
                }
                for transaction in open_txns
            ],
        )

    async def _has_partitions(self, admin: Admin) -> bool:
        """Whether there is a partition that the search has looked at: a broker may have none."""
        targets = await admin.search_targets(self.topic, self.partition, self.broker_id)
        return bool(targets.partitions)


class ForceTerminate(msgspec.Struct, frozen=True, kw_only=True):
    """The ``forceTerminateTransaction`` command."""

    transactional_id: str

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:  # noqa: ARG002 - all commands are called alike
        """Fence the producer, which aborts its open transaction."""
        description = (await admin.describe_transactions((self.transactional_id,))).get(
            self.transactional_id
        )
        was_open = (
            isinstance(description, TransactionDescription) and description.state == "Ongoing"
        )
        if isinstance(description, TransactionDescription) and is_two_phase(
            description.state, description.timeout_ms
        ):
            TERMINAL.warn(
                f"The transaction of {self.transactional_id} may have been prepared, and its"
                " external coordinator may have decided to commit (KIP-939). This aborts it."
            )
        try:
            await admin.force_terminate_transaction(self.transactional_id)
        except ClientError as error:
            failure = f"Failed to force terminate transactionalId `{self.transactional_id}`"
            raise command_failure(failure, error) from error
        if was_open:
            TERMINAL.warn(
                f"The transaction of {self.transactional_id} was open and is aborted:"
                f" {DISCARD_WARNING}."
            )
        return Output(values={"terminated": self.transactional_id})


def command_from(args: argparse.Namespace, program: ShellText) -> Command:
    """The command that the arguments ask for.

    Args:
        args: The parsed arguments.
        program: The command line of this program with its global options, for printed commands.

    Raises:
        ConfigError: An option needs ``--kip-text``, or does not go with ``--all``.
        CommandFailure: The arguments do not go together.
    """
    misplaced_option = txns_kip_text.misplaced_option(args)
    if misplaced_option is not None:
        raise ConfigError(f"{misplaced_option}: only with {txns_kip_text.FLAG}")
    match args.txns_command:
        case "list":
            return _list_command(args)
        case "describe":
            shipped_command = DescribeTransaction(
                transactional_id=args.transactional_id, broker_id=args.kip_coordinator
            )
            return (
                txns_kip_text.DescribeWithDuration(shipped=shipped_command)
                if args.kip_text
                else shipped_command
            )
        case "describe-producers":
            return _describe_producers(args)
        case "abort" if args.transactional_id is not None:
            return end_command(args, PastDecision.ABORTED)
        case "abort":
            return _abort_command(args, program)
        case "commit":
            return end_command(args, PastDecision.COMMITTED)
        case "find-hanging" if args.all:
            if _broker_id(args) is not None:
                raise ConfigError("--all asks leaders; --broker-id does not go with it")
            return FindHangingEverywhere(scope=_search_scope(args), program=program)
        case "repair":
            return RepairHanging(
                scope=_search_scope(args),
                yes=args.yes,
                audit_file=args.audit_file,
                guess=GUESSES.get(args.guess),
            )
        case "decisions":
            return CheckDecisions(topic=args.topic, program=program)
        case "why":
            return WhyCommand(partition=_partition_of(args), program=program)
        case "find-hanging":
            find_hanging = FindHanging(
                topic=args.topic,
                partition=args.partition,
                broker_id=_broker_id(args),
                max_transaction_timeout_min=(
                    15 if args.max_transaction_timeout is None else args.max_transaction_timeout
                ),
            )
            return (
                txns_kip_text.FindHangingInSeconds(shipped=find_hanging)
                if args.kip_text
                else find_hanging
            )
        case "forceTerminateTransaction":
            return ForceTerminate(transactional_id=args.transactional_id)
        case unknown_command:
            raise AssertionError(f"argparse let {unknown_command!r} through")


def _partition_of(args: argparse.Namespace) -> TopicPartition:
    """Parse a partition: ``orders 0``, or ``orders-0`` as it is printed."""
    if args.partition is not None:
        return TopicPartition(args.topic, args.partition)
    topic, hyphen, number = args.topic.rpartition("-")
    if not hyphen or not topic or not number.isdecimal():
        raise ConfigError(f"{args.topic}: which partition? expected TOPIC-PARTITION, as orders-0")
    return TopicPartition(topic, int(number))


def _list_command(args: argparse.Namespace) -> Command:
    requested_brokers = [
        broker_id for broker_id in (args.kip_broker, args.kip_coordinator) if broker_id is not None
    ]
    try:
        producer_ids = tuple(
            int(producer_id) for producer_id in txns_kip_text.split_at_commas(args.kip_producer_ids)
        )
    except ValueError:
        raise ConfigError(
            f"--producer-ids: numbers are expected, not {args.kip_producer_ids!r}"
        ) from None
    # Options are named for their filters; what is not given is off.
    option_values = {
        filter_name: getattr(args, filter_name, None) for filter_name in TransactionFilters.NAMES
    }
    option_values |= {
        "states": txns_kip_text.split_at_commas(args.kip_states),
        "producer_ids": producer_ids,
    }
    if args.kip_duration is not None:
        option_values["duration_ms"] = args.kip_duration
    filter_values = {
        filter_name: filter_value
        for filter_name, filter_value in option_values.items()
        if filter_value is not None
    }
    return ListCommand(
        filters=TransactionFilters(**filter_values),
        broker_ids=tuple(requested_brokers) if requested_brokers else None,
    )


def _describe_producers(args: argparse.Namespace) -> Command:
    partition = TopicPartition(args.topic, args.partition)
    shipped_command = DescribeProducers(partition=partition, broker_id=_broker_id(args))
    if not args.kip_text:
        return shipped_command
    return txns_kip_text.DescribeProducersWithStart(shipped=shipped_command, partition=partition)


def _abort_command(args: argparse.Namespace, program: ShellText) -> Command:
    missing_options = [
        option_name
        for option_name, value in (("--topic", args.topic), ("--partition", args.partition))
        if value is None
    ]
    if missing_options:
        raise ConfigError(
            f"the following arguments are required: {', '.join(missing_options)}, or"
            " --transactional-id"
        )
    if args.yes:
        raise ConfigError("--yes: only with --transactional-id")
    partition = TopicPartition(args.topic, args.partition)
    start_offset = args.start_offset if args.kip_start is None else args.kip_start
    shipped_command = AbortTransaction(
        partition=partition,
        start_offset=start_offset,
        producer_id=args.producer_id,
        producer_epoch=args.producer_epoch,
        coordinator_epoch=args.coordinator_epoch,
        guarded=GuardedAbort(force=args.force, audit_file=args.audit_file, program=program),
    )
    if not args.kip_text or start_offset is None:
        return shipped_command
    open_since = OpenSince(partition=partition, start_offset=start_offset)
    return txns_kip_text.AbortByStartOffset(shipped=shipped_command, open_since=open_since)


def _broker_id(args: argparse.Namespace) -> int | None:
    broker_id: int | None = args.broker_id if args.kip_broker is None else args.kip_broker
    return broker_id


def _search_scope(args: argparse.Namespace) -> SearchScope:
    return SearchScope(
        topic=args.topic,
        partition=args.partition,
        max_transaction_timeout_min=args.max_transaction_timeout,
    )


async def _require_partition(admin: Admin, partition: TopicPartition, failure: str) -> None:
    """Fail at once for a partition that does not exist; Kafka's tool retries for a minute."""
    try:
        topics = await admin.describe_topics((partition.topic,))
    except ClientError as error:
        raise command_failure(failure, error) from error
    for topic in topics:
        is_topic_missing = topic.error == ErrorCode.unknown_topic_or_partition
        if is_topic_missing or (not topic.error and topic.partition(partition.partition) is None):
            error_code = ErrorCode.unknown_topic_or_partition
            raise command_failure(failure, ClientError(message_of(error_code), error=error_code))
