"""Subcommands of ``txnsim txns`` that Kafka's tool does not have: a search of the whole cluster, a
repair that looks before and after, and why a reader stands still.

Their exit statuses are made for cron: see ``HANGS`` and ``INCOMPLETE``. Nothing is written to a
cluster without ``--yes``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol, Self

import msgspec

from txnsim.cli.output import Columns, Output, progress, rows_of, warn
from txnsim.cli.txns.rights import missing_right
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError, ErrorCode, NotSupportedError
from txnsim.client.inspection.hanging import OpenTransaction
from txnsim.client.inspection.repair import Outcome, Repair, not_known, repair
from txnsim.client.inspection.survey import Survey, survey
from txnsim.client.inspection.waiting_readers import explain
from txnsim.errors import ConfigError
from txnsim.txn.decided import Decision
from txnsim.txn.withheld import Cause, OpenTxnStatus, with_guess
from txnsim.types import TopicPartition

HANGS: Final = 3
"""Exit status: something hangs, or does so still."""
INCOMPLETE: Final = 4
"""Exit status: nothing that was seen hangs, but not all partitions could be looked at."""

_MINUTE_MS: Final = 60_000


class Command(Protocol):
    """One subcommand with its arguments."""

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Do it.

        Raises:
            CommandFailure: With the message to print.
        """


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched: the whole cluster, a topic, or a partition."""

    topic: str | None = None
    partition: int | None = None
    max_transaction_timeout_min: int = 15

    def __post_init__(self) -> None:
        """Refuse what does not go together, before anything is connected."""
        if self.partition is not None and self.topic is None:
            raise ConfigError("The --partition argument requires --topic to be provided")

    async def search(self, admin: Admin, *, now_ms: int) -> Survey:
        """Search it, with progress on a terminal."""
        partitions = await admin.partitions_to_search(self.topic, self.partition)
        return await survey(
            admin,
            now_ms=now_ms,
            partitions=partitions,
            older_than_ms=self.max_transaction_timeout_min * _MINUTE_MS,
            progress=lambda done, total: progress(f"searched {done} of {total} partitions"),
        )


class FindAll(msgspec.Struct, frozen=True, kw_only=True):
    """``find-hanging --all``."""

    scope: Scope
    again: str
    """How this program was called, for the commands that are printed."""

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Search everything, judge everything, tell what hangs, why, and how to end it."""
        found = await self.scope.search(admin, now_ms=now_ms)
        lines = []
        for one in found.hanging:
            start = one.transaction.producer.txn_start_offset
            command = one.command(self.again)
            assert command is not None, "what hangs has one"
            lines += [
                f"{one.transaction.partition} at offset {start}: {one.reason}",
                *([f"  {one.decided}"] if one.decided is not None else []),
                f"  {with_guess(command, one.decided)}",
            ]
        _tell_rest(found)
        columns = hanging_columns(now_ms)
        return Output(
            headers=tuple(columns),
            rows=rows_of(columns, (one.transaction for one in found.hanging)),
            lines=tuple(lines),
            values={
                "partitions": found.partitions,
                "findings": [
                    {
                        "finding": one,
                        "duration_min": one.transaction.duration_min(now_ms),
                        "command": one.command(self.again),
                    }
                    for one in found.findings
                ],
                "unread": {str(partition): str(why) for partition, why in found.unread.items()},
            },
            status=HANGS if found.hanging else INCOMPLETE if found.unread else 0,
        )


class RepairHanging(msgspec.Struct, frozen=True, kw_only=True):
    """``repair``: end what hangs."""

    scope: Scope
    yes: bool = False
    """Really; else it only says what would be done."""
    audit_file: Path
    guess: Decision | None = None
    """What to write where the decision is unknown."""

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Search; judge each one anew, abort it, look whether it is gone; keep a record.

        Raises:
            ConfigError: The audit file can't be written: then nothing is done.
        """
        found = await self.scope.search(admin, now_ms=now_ms)
        cluster_id = (await admin.describe_cluster()).cluster_id
        done: list[Repair] = []
        with _Audit(self.audit_file if self.yes and found.hanging else None, cluster_id) as audit:
            for one in found.hanging:
                audit.write(attempt=one, at_ms=now_ms)
                try:
                    outcome = await repair(
                        admin, one, now_ms=now_ms, dry_run=not self.yes, guess=self.guess
                    )
                except ClientError as failure:
                    outcome = not_known(one, failure, now_ms=now_ms)
                audit.write(repair=outcome)
                done.append(outcome)
        _tell_rest(found)
        if any(one.outcome is Outcome.NEEDS_A_GUESS for one in done):
            warn(
                "What was decided about some of them is unknown: say --guess abort, and what they"
                " wrote is lost to readers, or --guess commit, and readers get it."
            )
        if done and not self.yes:
            warn("Nothing was changed. To do it: the same command with --yes.")
        elif self.yes and done:
            warn(f"What was done is written down in {self.audit_file}.")
        _tell_missing("repair", (one.error for one in done))
        left = [one for one in done if one.outcome not in _HEALED]
        return Output(
            headers=tuple(_REPAIRS),
            rows=rows_of(_REPAIRS, done),
            values={"repairs": done, "dry_run": not self.yes},
            status=HANGS if left else INCOMPLETE if found.unread else 0,
        )


class _Audit:
    """The file that says what was done: a line of JSON before each attempt, one after it."""

    def __init__(self, path: Path | None, cluster_id: str) -> None:
        """None: nothing will be done, so nothing is written down."""
        self._cluster_id = cluster_id
        try:
            self._file = None if path is None else path.open("ab", buffering=0)
        except OSError as failure:
            raise ConfigError(f"{path}: {failure.strerror}; nothing was done") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, **entry: Any) -> None:
        """Add a line. What can't be written down is not done: an OSError ends the command."""
        if self._file is not None:
            line = msgspec.json.encode({"cluster_id": self._cluster_id, **entry})
            self._file.write(line + b"\n")


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """``why TOPIC PARTITION``."""

    partition: TopicPartition
    again: str

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Ask and explain."""
        known = await explain(admin, self.partition, now_ms=now_ms, program=self.again)
        return Output(
            lines=known.sentences,
            values=known,
            status=_STATUS_OF.get(known.cause, 0),
        )


_STATUS_OF: Final = {Cause.HANGING: HANGS, Cause.UNTOLD: INCOMPLETE}
_HEALED: Final = frozenset({Outcome.REPAIRED, Outcome.NO_LONGER_HANGS})


def hanging_columns(now_ms: int) -> Columns[OpenTransaction]:
    """Those of Kafka's ``find-hanging``; durations are counted to a time."""
    return {
        "Topic": lambda one: one.partition.topic,
        "Partition": lambda one: one.partition.partition,
        "ProducerId": lambda one: one.producer.producer_id,
        "ProducerEpoch": lambda one: one.producer.producer_epoch,
        "CoordinatorEpoch": lambda one: _or_none(one.producer.coordinator_epoch),
        "StartOffset": lambda one: _or_none(one.producer.txn_start_offset),
        "LastTimestamp": lambda one: one.producer.last_timestamp_ms,
        "Duration(min)": lambda one: one.duration_min(now_ms),
    }


def _or_none(number: int | None) -> int:
    """As Kafka's tool writes that there is none."""
    return -1 if number is None else number


def _stable(one: Repair) -> str:
    before, after = one.last_stable_offset_before, one.last_stable_offset_after
    return str(before) if after is None else f"{before} -> {after}"


_REPAIRS: Final[Columns[Repair]] = {
    "Topic": lambda one: one.partition.topic,
    "Partition": lambda one: one.partition.partition,
    "ProducerId": lambda one: one.producer_id,
    "ProducerEpoch": lambda one: one.producer_epoch,
    "CoordinatorEpoch": lambda one: one.coordinator_epoch,
    "StartOffset": lambda one: one.start_offset,
    "Decided": lambda one: one.decision,
    "Marker": lambda one: one.marker,
    "Offsets": lambda one: "" if one.records is None else one.records,
    "Outcome": lambda one: one.outcome,
    "LastStableOffset": _stable,
    "HighWatermark": lambda one: (
        "" if one.high_watermark_after is None else one.high_watermark_after
    ),
    "Reason": lambda one: one.reason,
}


def _tell_rest(found: Survey) -> None:
    """What was searched, and what was old and yet does not hang, for people."""
    counts = Counter(one.verdict for one in found.findings)
    hang, decided, alive = (
        counts[one] for one in (OpenTxnStatus.HANGING, OpenTxnStatus.DECIDED, OpenTxnStatus.ALIVE)
    )
    parts = [f"partitions searched: {found.partitions}", f"hanging: {hang}"]
    if decided:
        parts.append(f"decided and not yet marked: {decided}")
    if alive:
        parts.append(f"old and alive: {alive}")
    warn("; ".join(parts) + ".")
    by_reason: dict[str, list[str]] = {}
    for partition, why in sorted(found.unread.items()):
        by_reason.setdefault(str(why), []).append(str(partition))
    for reason, partitions in by_reason.items():
        more = f" and {len(partitions) - _FEW} more" if len(partitions) > _FEW else ""
        warn(f"not searched: {', '.join(partitions[:_FEW])}{more}: {reason}")
    _tell_missing("find-hanging", (why.error for why in found.unread.values()))
    if any(isinstance(why, NotSupportedError) for why in found.unread.values()):
        warn("These brokers can't be searched: txnsim txns why TOPIC PARTITION reads their logs.")


def _tell_missing(command: str, errors: Iterable[ErrorCode | None]) -> None:
    """Each right that was missing, once."""
    for missing in dict.fromkeys(missing_right(command, error) for error in errors):
        if missing is not None:
            warn(missing)


_FEW: Final = 5
