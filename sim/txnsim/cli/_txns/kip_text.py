"""``txnsim txns --kip-text``: options and columns of KIP-664 and KIP-994 that Kafka's tool never
got.

In the texts the commands are flags (``--list``, ``--describe``), some options have other names, and
there are columns that were not shipped. With ``--kip-text`` all of them work beside the shipped
ones, on any cluster. What the texts demand of a *broker* (the time of a transaction's last update,
an abort that checks its start offset) works on the listener that ``txnsim serve --kip-text`` opens;
elsewhere it is unknown, or done in Kafka's way. ``sim/txnsim/api/kip_text/differences.py`` lists
what is left out, with reasons.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from txnsim.cli._txns.abort_confirmation import GuardedAbort
from txnsim.cli._txns.operator_commands import Command
from txnsim.cli.output import Output
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.fetching import fetch
from txnsim.client.inspection.hanging import OpenTransaction
from txnsim.client.inspection.txn_views import (
    AbortSpec,
    OpenSince,
    ProducerState,
    TransactionDescription,
)
from txnsim.client.versions import ClientApi
from txnsim.txn.open_txn_verdict import DECIDED_STATES
from txnsim.types import IsolationLevel, TopicPartition

FLAG: Final = "--kip-text"
UNKNOWN: Final = -1
"""A time that the answer does not contain (KIP-994)."""

_COMMANDS: Final = ("--list", "--describe", "--describe-producers", "--abort", "--find-hanging")
_OPEN_STATES: Final = DECIDED_STATES | {"Ongoing"}
_START: Final = "CurrentTxnStartTimestamp"
_DURATION: Final = "Duration(s)"


def rewrite(arguments: Sequence[str]) -> list[str]:
    """Replace a command that is given as a flag by the subcommand.

    ``--describe`` describes a transactional id, or with ``--topic`` the producers of a partition.
    """
    option_words = list(arguments)
    flag = next((argument for argument in option_words if argument in _COMMANDS), None)
    if FLAG not in option_words or flag is None:
        return option_words
    command = flag.removeprefix("--")
    if command == "describe" and "--topic" in option_words:
        command = "describe-producers"
    option_words.remove(flag)
    txns_arguments = option_words.index("txns") + 1
    return [*option_words[:txns_arguments], command, *option_words[txns_arguments:]]


# Options


class _Option(msgspec.Struct, frozen=True):
    """An option in the notation of KIP-664."""

    name: str
    dest: str
    type: type = str
    help: str = ""


_BROKER: Final = _Option("--broker", "kip_broker", int, "in the place of --broker-id")
_OPTIONS: Final = {
    "list": (
        _Option("--broker", "kip_broker", int, "only transactions that this broker coordinates"),
        _Option("--coordinator", "kip_coordinator", int, "the same"),
        _Option("--states", "kip_states", str, "only these states, separated by commas"),
        _Option("--producer-ids", "kip_producer_ids", str, "only these, separated by commas"),
        _Option("--durationFilter", "kip_duration", int, "in the place of --duration-filter"),
    ),
    "describe": (
        _Option("--coordinator", "kip_coordinator", int, "ask this broker, do not look it up"),
    ),
    "describe-producers": (_BROKER,),
    "find-hanging": (_BROKER,),
    "abort": (
        _Option("--transaction-start-offset", "kip_start", int, "in the place of --start-offset"),
    ),
}
"""Subcommand -> its additional options."""


def add_options(command: str, parser: argparse.ArgumentParser) -> None:
    """Declare the additional options of a subcommand."""
    if command in _OPTIONS:
        group = parser.add_argument_group(f"in the words of the KIPs (with {FLAG})")
        for option in _OPTIONS[command]:
            group.add_argument(option.name, dest=option.dest, type=option.type, help=option.help)


def misplaced_option(args: argparse.Namespace) -> str | None:
    """The first KIP option given without ``--kip-text``; None if there is none."""
    if args.kip_text:
        return None
    return next(
        (
            option.name
            for option in _OPTIONS.get(args.txns_command, ())
            if getattr(args, option.dest) is not None
        ),
        None,
    )


def split_at_commas(text: str | None) -> tuple[str, ...]:
    return (
        ()
        if text is None
        else tuple(part_text.strip() for part_text in text.split(",") if part_text.strip())
    )


# Columns


class DescribeWithDuration(msgspec.Struct, frozen=True, kw_only=True):
    """``describe``; the duration stops growing when the transaction has ended (KIP-994)."""

    shipped: Command

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Add when the transaction in progress started and how many seconds it took."""
        shipped_output = await self.shipped.execute(admin, now_ms=now_ms)
        description: TransactionDescription = shipped_output.values
        is_open = description.state in _OPEN_STATES
        duration_ms = _duration_ms(description, now_ms)
        start_ms = description.start_time_ms if is_open else None
        cells = dict(zip(shipped_output.headers, shipped_output.rows[0], strict=True))
        cells |= {
            "TransactionDurationMs": str(duration_ms),
            _START: str(UNKNOWN if start_ms is None else start_ms),
            _DURATION: _seconds(duration_ms),
            "TransactionLastUpdateTimeMs": str(
                UNKNOWN
                if description.last_update_time_ms is None
                else description.last_update_time_ms
            ),
        }
        return msgspec.structs.replace(
            shipped_output, headers=tuple(cells), rows=(tuple(cells.values()),)
        )


def _duration_ms(description: TransactionDescription, now_ms: int) -> int:
    """Milliseconds from start to now, or to the last update of a finished transaction."""
    if description.start_time_ms is None:
        return UNKNOWN
    if description.state in _OPEN_STATES:
        return now_ms - description.start_time_ms
    if description.last_update_time_ms is None:
        return UNKNOWN
    return description.last_update_time_ms - description.start_time_ms


class DescribeProducersWithStart(msgspec.Struct, frozen=True, kw_only=True):
    """``describe-producers``, or ``--describe --topic T --partition P``."""

    shipped: Command
    partition: TopicPartition

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Add when each open transaction started: DescribeProducers has its start offset, and the
        record at that offset has the time.
        """
        shipped_output = await self.shipped.execute(admin, now_ms=now_ms)
        producers: Sequence[ProducerState] = shipped_output.values
        rows = []
        for row, producer in zip(shipped_output.rows, producers, strict=True):
            began_ms = await self._began_ms(admin, producer)
            duration_ms = UNKNOWN if began_ms == UNKNOWN else now_ms - began_ms
            rows.append((*row, str(began_ms), _seconds(duration_ms)))
        return msgspec.structs.replace(
            shipped_output, headers=(*shipped_output.headers, _START, _DURATION), rows=tuple(rows)
        )

    async def _began_ms(self, admin: Admin, producer: ProducerState) -> int:
        start_offset = producer.txn_start_offset
        if start_offset is None:
            return UNKNOWN
        try:
            fetch_result = await fetch(
                admin.cluster,
                self.partition.topic,
                self.partition.partition,
                start_offset,
                isolation=IsolationLevel.READ_UNCOMMITTED,
                max_wait_ms=0,
                max_bytes=1,  # the first batch comes whole (KIP-74)
            )
        except ClientError:
            return UNKNOWN  # deleted, or not ours to read
        return next(
            (
                record.timestamp_ms
                for record in fetch_result.records
                if record.offset == start_offset
            ),
            UNKNOWN,
        )


class FindHangingInSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """``find-hanging``, with seconds besides the minutes."""

    shipped: Command

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Add the seconds since the last write."""
        shipped_output = await self.shipped.execute(admin, now_ms=now_ms)
        open_transactions: Sequence[OpenTransaction] = [
            OpenTransaction(
                partition=hanging_fields["partition"], producer=hanging_fields["producer"]
            )
            for hanging_fields in shipped_output.values
        ]
        return msgspec.structs.replace(
            shipped_output,
            headers=(*shipped_output.headers, _DURATION),
            rows=tuple(
                (*row, _seconds(now_ms - transaction.producer.last_timestamp_ms))
                for row, transaction in zip(shipped_output.rows, open_transactions, strict=True)
            ),
        )


class ShippedAbort(Command, Protocol):
    """``kafka-transactions.sh abort`` with the options of the released tool."""

    @property
    def guarded(self) -> GuardedAbort:
        """The checks around the request."""

    async def spec(self, admin: Admin) -> AbortSpec: ...


class AbortByStartOffset(msgspec.Struct, frozen=True, kw_only=True):
    """``abort`` by start offset, which a broker that follows the text checks itself."""

    shipped: ShippedAbort
    open_since: OpenSince

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Send the start offset if the broker understands it; else abort as shipped."""
        if not await _follows_kip_text(admin):
            return await self.shipped.execute(admin, now_ms=now_ms)
        spec = await self.shipped.spec(admin)
        await self.shipped.guarded.abort(
            admin,
            spec,
            now_ms=now_ms,
            send_abort=lambda: admin.abort_named_transaction(
                self.open_since.partition,
                producer_id=spec.producer_id,
                producer_epoch=spec.producer_epoch,
                start_offset=self.open_since.start_offset,
            ),
        )
        return Output(values={"aborted": self.open_since})


async def _follows_kip_text(admin: Admin) -> bool:
    """Whether the broker's listener follows the text: only that one has DescribeTransactions v1."""
    broker_versions = (await admin.cluster.any_connection()).versions.get(
        ClientApi.DESCRIBE_TRANSACTIONS
    )
    return broker_versions is not None and broker_versions.highest >= 1


def _seconds(duration_ms: int) -> str:
    return str(UNKNOWN if duration_ms == UNKNOWN else duration_ms // 1_000)
