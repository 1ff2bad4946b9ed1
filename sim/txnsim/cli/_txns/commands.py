"""What each subcommand of ``txnsim txns`` does: checks, requests, rows.

A command is name, arguments, execution over the wire, like the nested classes of Kafka's
``TransactionsCommand``, whose messages and columns stand here letter by letter. A command returns
what is to be printed and prints nothing.
"""

from __future__ import annotations

import argparse
from typing import Final

import msgspec

from txnsim.cli._txns import kip_text as txns_kip_text
from txnsim.cli._txns.aborting import Guarded, NeedsForceError
from txnsim.cli._txns.operator import (
    Command,
    FindAll,
    RepairHanging,
    Why,
    hanging_columns,
)
from txnsim.cli._txns.searching import Scope
from txnsim.cli.output import Columns, Output, rows_of, warn
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError, ErrorCode
from txnsim.client.inspection.txn_views import (
    AbortSpec,
    OpenSince,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from txnsim.client.inspection.txn_wording import message_of
from txnsim.errors import ConfigError
from txnsim.txn.open_txn_verdict import is_two_phase
from txnsim.txn.past_decision import GUESSES
from txnsim.types import TopicPartition
from txnsim.wire.filters import TransactionFilters

NONE: Final = "None"
_MINUTE_MS: Final = 60_000


class CommandFailure(Exception):
    """The command failed; ``text`` is what Kafka's tool would say, ``cause`` what led to it."""

    def __init__(self, text: str, cause: ClientError | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.cause = cause


class MisuseFailure(CommandFailure):
    """Arguments that don't go together, in the words of Kafka's own tool."""


def failed(what: str, cause: ClientError) -> CommandFailure:
    """A failure in the words of ``TransactionsCommand.printErrorAndExit``."""
    return CommandFailure(f"{what}: {cause}. Enable debug logging for additional detail.", cause)


class ListTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """``list``."""

    filters: TransactionFilters = TransactionFilters()
    broker_ids: tuple[int, ...] | None = None

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:  # noqa: ARG002 - all commands are called alike
        """Ask every broker."""
        what = "Failed to list transactions"
        try:
            outcomes = await admin.list_transactions(self.filters, broker_ids=self.broker_ids)
        except ClientError as error:
            raise failed(what, error) from error
        listings: list[TransactionListing] = []
        for outcome in outcomes.values():
            if isinstance(outcome, ClientError):
                raise failed(what, outcome)
            listings += outcome
        return Output(
            headers=("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
            rows=tuple(
                (one.transactional_id, str(one.coordinator_id), str(one.producer_id), one.state)
                for one in listings
            ),
            values=listings,
        )


class DescribeTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """``describe``."""

    transactional_id: str
    broker_id: int | None = None
    """Ask this broker, not the coordinator."""

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Ask its coordinator. The duration goes on growing after the end, as the start stays."""
        key = self.transactional_id
        found = (await admin.describe_transactions((key,), broker_id=self.broker_id))[key]
        if isinstance(found, ClientError):
            what = f"Failed to describe transaction state of transactional-id `{key}`"
            raise failed(what, found)
        start, duration = NONE, NONE
        if found.start_time_ms is not None:
            start, duration = str(found.start_time_ms), str(now_ms - found.start_time_ms)
        cells = {
            "CoordinatorId": str(found.coordinator_id),
            "TransactionalId": self.transactional_id,
            "ProducerId": str(found.producer_id),
            "ProducerEpoch": str(found.producer_epoch),
            "TransactionState": found.state,
            "TransactionTimeoutMs": str(found.timeout_ms),
            "CurrentTransactionStartTimeMs": start,
            "TransactionDurationMs": duration,
            "TopicPartitions": ",".join(str(partition) for partition in found.partitions),
        }
        return Output(headers=tuple(cells), rows=(tuple(cells.values()),), values=found)


class DescribeProducers(msgspec.Struct, frozen=True, kw_only=True):
    """``describe-producers``."""

    partition: TopicPartition
    broker_id: int | None = None

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:  # noqa: ARG002 - all commands are called alike
        """Ask the leader, or the replica on one broker."""
        where = "leader" if self.broker_id is None else f"broker {self.broker_id}"
        what = f"Failed to describe producers for partition {self.partition} on {where}"
        await _must_exist(admin, self.partition, what)
        found = (await admin.describe_producers((self.partition,), broker_id=self.broker_id))[
            self.partition
        ]
        if isinstance(found, ClientError):
            raise failed(what, found)
        return Output(headers=tuple(_PRODUCERS), rows=rows_of(_PRODUCERS, found), values=found)


_PRODUCERS: Final[Columns[ProducerState]] = {
    "ProducerId": lambda one: one.producer_id,
    "ProducerEpoch": lambda one: one.producer_epoch,
    "LatestCoordinatorEpoch": lambda one: (
        -1 if one.coordinator_epoch is None else one.coordinator_epoch
    ),
    "LastSequence": lambda one: one.last_sequence,
    "LastTimestamp": lambda one: one.last_timestamp_ms,
    "CurrentTransactionStartOffset": lambda one: (
        NONE if one.txn_start_offset is None else one.txn_start_offset
    ),
}


class AbortTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """``abort``: by start offset, which wins, or by the whole identity."""

    partition: TopicPartition
    start_offset: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    coordinator_epoch: int | None = None
    guarded: Guarded = Guarded()

    def __post_init__(self) -> None:
        """Refuse what can't be sent, before anything is connected."""
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
        what = f"Failed to abort transaction {spec}"
        await _must_exist(admin, self.partition, what)
        try:
            await self.guarded.abort(
                admin, spec, now_ms=now_ms, send=lambda: admin.abort_transaction(spec)
            )
        except NeedsForceError:
            raise
        except ClientError as error:
            raise failed(what, error) from error
        return Output(values={"aborted": spec})

    async def spec(self, admin: Admin) -> AbortSpec:
        """Whose transaction it is, asked of the leader where only its start was given.

        Raises:
            CommandFailure: It could not be asked, or no transaction is open since there.
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
        what = f"Failed to validate producer state for partition {self.partition}"
        await _must_exist(admin, self.partition, what)
        try:
            return await admin.identify(
                OpenSince(partition=self.partition, start_offset=self.start_offset)
            )
        except ClientError as error:
            if error.error == ErrorCode.invalid_txn_state:
                raise CommandFailure(str(error)) from None
            raise failed(what, error) from error


class FindHanging(msgspec.Struct, frozen=True, kw_only=True):
    """``find-hanging``."""

    topic: str | None = None
    partition: int | None = None
    broker_id: int | None = None
    max_transaction_timeout_min: int = 15

    def __post_init__(self) -> None:
        """Refuse a search without bounds, before anything is connected."""
        if self.topic is None and self.broker_id is None:
            raise MisuseFailure(
                "The `find-hanging` command requires either --topic or --broker-id to limit the"
                " scope of the search"
            )
        if self.partition is not None and self.topic is None:
            raise MisuseFailure("The --partition argument requires --topic to be provided")

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Search, compare, list."""
        if self.topic is not None and self.partition is not None:
            what = "Failed to describe producers for 1 partitions on broker "
            what += "Optional.empty" if self.broker_id is None else f"Optional[{self.broker_id}]"
            await _must_exist(admin, TopicPartition(self.topic, self.partition), what)
        try:
            found = await admin.find_hanging(
                now_ms=now_ms,
                topic=self.topic,
                partition=self.partition,
                broker_id=self.broker_id,
                max_transaction_timeout_ms=self.max_transaction_timeout_min * _MINUTE_MS,
            )
        except ClientError as error:
            text = f"{error}. Enable debug logging for additional detail."
            raise CommandFailure(text, error) from error
        columns = hanging_columns(now_ms)
        return Output(
            headers=tuple(columns),
            rows=rows_of(columns, found),
            values=[
                {
                    "partition": one.partition,
                    "producer": one.producer,
                    "duration_min": one.duration_min(now_ms),
                }
                for one in found
            ],
        )


class ForceTerminate(msgspec.Struct, frozen=True, kw_only=True):
    """``forceTerminateTransaction``."""

    transactional_id: str

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:  # noqa: ARG002 - all commands are called alike
        """Fence the producer, which aborts what it has open."""
        found = (await admin.describe_transactions((self.transactional_id,))).get(
            self.transactional_id
        )
        if isinstance(found, TransactionDescription) and is_two_phase(
            found.state, found.timeout_ms
        ):
            warn(
                f"The transaction of {self.transactional_id} may have been prepared, and its"
                " external coordinator may have decided to commit (KIP-939). This aborts it."
            )
        try:
            await admin.force_terminate_transaction(self.transactional_id)
        except ClientError as error:
            what = f"Failed to force terminate transactionalId `{self.transactional_id}`"
            raise failed(what, error) from error
        return Output(values={"terminated": self.transactional_id})


def command_from(args: argparse.Namespace, again: str) -> Command:
    """The command that the arguments ask for.

    Args:
        args: As parsed.
        again: How the program was called, with its global options, for commands that are printed.

    Raises:
        ConfigError: As below.
        CommandFailure: The arguments do not go together.
    """
    word = txns_kip_text.misplaced(args)
    if word is not None:
        raise ConfigError(f"{word}: only with {txns_kip_text.FLAG}")
    match args.txns_command:
        case "list":
            return _list(args)
        case "describe":
            shipped = DescribeTransaction(
                transactional_id=args.transactional_id, broker_id=args.kip_coordinator
            )
            return txns_kip_text.Describe(shipped=shipped) if args.kip_text else shipped
        case "describe-producers":
            return _describe_producers(args)
        case "abort":
            return _abort(args, again)
        case "find-hanging" if args.all:
            if _broker_id(args) is not None:
                raise ConfigError("--all asks leaders; --broker-id does not go with it")
            return FindAll(scope=_scope(args), again=again)
        case "repair":
            return RepairHanging(
                scope=_scope(args),
                yes=args.yes,
                audit_file=args.audit_file,
                guess=GUESSES.get(args.guess),
            )
        case "why":
            return Why(partition=_partition_of(args), again=again)
        case "find-hanging":
            found = FindHanging(
                topic=args.topic,
                partition=args.partition,
                broker_id=_broker_id(args),
                max_transaction_timeout_min=(
                    15 if args.max_transaction_timeout is None else args.max_transaction_timeout
                ),
            )
            return txns_kip_text.FindHanging(shipped=found) if args.kip_text else found
        case "forceTerminateTransaction":
            return ForceTerminate(transactional_id=args.transactional_id)
        case unknown:
            raise AssertionError(f"argparse let {unknown!r} through")


def _partition_of(args: argparse.Namespace) -> TopicPartition:
    """``orders 0``, or ``orders-0`` as it is printed."""
    if args.partition is not None:
        return TopicPartition(args.topic, args.partition)
    topic, hyphen, number = args.topic.rpartition("-")
    if not hyphen or not topic or not number.isdecimal():
        raise ConfigError(f"{args.topic}: which partition? expected TOPIC-PARTITION, as orders-0")
    return TopicPartition(topic, int(number))


def _list(args: argparse.Namespace) -> Command:
    asked = [one for one in (args.kip_broker, args.kip_coordinator) if one is not None]
    try:
        producer_ids = tuple(int(one) for one in txns_kip_text.listed(args.kip_producer_ids))
    except ValueError:
        raise ConfigError(
            f"--producer-ids: numbers are expected, not {args.kip_producer_ids!r}"
        ) from None
    # Options are named for their filters; what is not given is off.
    said = {name: getattr(args, name, None) for name in TransactionFilters.NAMES}
    said |= {"states": txns_kip_text.listed(args.kip_states), "producer_ids": producer_ids}
    if args.kip_duration is not None:
        said["duration_ms"] = args.kip_duration
    given = {name: value for name, value in said.items() if value is not None}
    return ListTransactions(
        filters=TransactionFilters(**given), broker_ids=tuple(asked) if asked else None
    )


def _describe_producers(args: argparse.Namespace) -> Command:
    partition = TopicPartition(args.topic, args.partition)
    shipped = DescribeProducers(partition=partition, broker_id=_broker_id(args))
    if not args.kip_text:
        return shipped
    return txns_kip_text.DescribeProducers(shipped=shipped, partition=partition)


def _abort(args: argparse.Namespace, again: str) -> Command:
    partition = TopicPartition(args.topic, args.partition)
    start_offset = args.start_offset if args.kip_start is None else args.kip_start
    shipped = AbortTransaction(
        partition=partition,
        start_offset=start_offset,
        producer_id=args.producer_id,
        producer_epoch=args.producer_epoch,
        coordinator_epoch=args.coordinator_epoch,
        guarded=Guarded(force=args.force, audit_file=args.audit_file, again=again),
    )
    if not args.kip_text or start_offset is None:
        return shipped
    which = OpenSince(partition=partition, start_offset=start_offset)
    return txns_kip_text.Abort(shipped=shipped, which=which)


def _broker_id(args: argparse.Namespace) -> int | None:
    chosen: int | None = args.broker_id if args.kip_broker is None else args.kip_broker
    return chosen


def _scope(args: argparse.Namespace) -> Scope:
    return Scope(
        topic=args.topic,
        partition=args.partition,
        max_transaction_timeout_min=args.max_transaction_timeout,
    )


async def _must_exist(admin: Admin, partition: TopicPartition, what: str) -> None:
    """Fail at once for a partition that does not exist; Kafka's tool asks for it a minute long."""
    try:
        topics = await admin.describe_topics((partition.topic,))
    except ClientError as error:
        raise failed(what, error) from error
    for topic in topics:
        missing = topic.error == ErrorCode.unknown_topic_or_partition
        if missing or (not topic.error and topic.partition(partition.partition) is None):
            code = ErrorCode.unknown_topic_or_partition
            raise failed(what, ClientError(message_of(code), error=code))
