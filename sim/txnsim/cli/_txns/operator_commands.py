"""Subcommands of ``txnsim txns`` that Kafka's tool does not have: a search of the whole cluster, a
repair that looks before and after, and why a reader stands still.

Their exit statuses are made for cron: see ``HANGS`` and ``INCOMPLETE``. Nothing is written to a
cluster without ``--yes``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from txnsim.cli._txns.audit import Audit
from txnsim.cli._txns.search_scope import Found, Scope, tell_missing, tell_rest
from txnsim.cli.output import TERMINAL, Columns, Output, rows_of
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.inspection.hanging import OpenTransaction
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.repair import Outcome, Repair, not_known, repair
from txnsim.client.inspection.waiting_readers import explain
from txnsim.txn.open_txn_verdict import Cause
from txnsim.txn.past_decision import READ_THE_LOG, Decided, Decision
from txnsim.types import TopicPartition

HANGS: Final = 3
"""Exit status: something hangs, or does so still."""
INCOMPLETE: Final = 4
"""Exit status: nothing that was seen hangs, but not all partitions could be looked at."""


class Command(Protocol):
    """One subcommand with its arguments."""

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Do it.

        Raises:
            CommandFailure: With the message to print.
        """


class FindAll(msgspec.Struct, frozen=True, kw_only=True):
    """``find-hanging --all``."""

    scope: Scope
    again: str
    """How this program was called, for the commands that are printed."""

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Search everything, judge everything, tell what hangs, why, and how to end it."""
        found = await self.scope.search(admin, now_ms=now_ms)
        lines = []
        for one in (*found.hanging, *found.younger_hanging):
            start = one.transaction.producer.txn_start_offset
            command = one.command(self.again)
            assert command is not None, "what hangs has one"
            lines += [
                f"{one.transaction.partition} at offset {start}: {one.reason}",
                *([f"  {one.decided}"] if one.decided is not None else []),
                f"  {Decided.with_guess(command, one.decided)}",
            ]
        tell_rest(found)
        columns = hanging_columns(now_ms)
        return Output(
            headers=tuple(columns),
            rows=rows_of(columns, (one.transaction for one in found.hanging)),
            lines=tuple(lines),
            values={
                "partitions": found.partitions,
                "findings": [self._told(one, now_ms) for one in found.findings],
                "younger": [self._told(one, now_ms) for one in found.younger],
                "unread": {str(partition): str(why) for partition, why in found.unread.items()},
                "unseen": [str(why) for why in found.unseen],
            },
            status=_status(found, found.hanging),
        )

    def _told(self, one: JudgedTransaction, now_ms: int) -> dict[str, Any]:
        return {
            "finding": one,
            "duration_min": one.transaction.duration_min(now_ms),
            "command": one.command(self.again),
        }


class RepairHanging(msgspec.Struct, frozen=True, kw_only=True):
    """``repair``: end what hangs."""

    scope: Scope
    yes: bool = False
    """False: only show what would be done."""
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
        with Audit(self.audit_file if self.yes and found.hanging else None, cluster_id) as audit:
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
        tell_rest(found)
        for made in done:
            if self.guess not in (None, made.decision) and made.decision is not Decision.UNKNOWN:
                TERMINAL.warn(
                    f"{made.partition}: the guess does not count, as it was {made.decision}."
                )
        if any(one.outcome is Outcome.NEEDS_A_GUESS for one in done):
            TERMINAL.warn(
                "What was decided about some of them is unknown: say --guess abort, and what they"
                " wrote is lost to readers, or --guess commit, and readers get it."
            )
        if any(READ_THE_LOG in one.reason for one in done):
            TERMINAL.warn(f"Before a guess: {READ_THE_LOG}.")
        if found.younger_hanging:
            TERMINAL.warn(
                "What is younger was left alone: name its partition, or say"
                " --max-transaction-timeout 0."
            )
        if done and not self.yes:
            TERMINAL.warn("Nothing was changed. To do it: the same command with --yes.")
        elif self.yes and done:
            TERMINAL.warn(f"What was done is written down in {self.audit_file}.")
        tell_missing("repair", (one.error for one in done))
        left = [one for one in done if one.outcome not in _HEALED]
        return Output(
            headers=tuple(_REPAIRS),
            rows=rows_of(_REPAIRS, done),
            values={"repairs": done, "dry_run": not self.yes},
            status=_status(found, left),
        )


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


_STATUS_OF: Final = {
    Cause.HANGING: HANGS,
    Cause.UNTOLD: INCOMPLETE,
    Cause.OFFLINE: INCOMPLETE,
}


_HEALED: Final = frozenset({Outcome.REPAIRED, Outcome.ENDED_TWICE, Outcome.NO_LONGER_HANGS})


def _status(found: Found, left: Sequence[object]) -> int:
    """Exit status of a search, given the transactions that still hang."""
    if left or found.younger_hanging:
        return HANGS
    return INCOMPLETE if found.is_incomplete else 0


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
