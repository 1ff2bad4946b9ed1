"""``txns commit``, and ``txns abort`` by transactional id: they end the transaction of one exact
identity.

Nothing is sent without ``--yes``. Each attempt is written to the audit file before it is made, and
its outcome after it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import msgspec

from txnsim.cli._txns.audit import Audit
from txnsim.cli._txns.operator_commands import HANGS
from txnsim.cli.output import TERMINAL, Columns, Output, rows_of
from txnsim.client.admin import Admin
from txnsim.client.inspection.ending import (
    EndedPart,
    EndOutcome,
    TransactionEnd,
    TxnIdentity,
    end,
    look_at,
)
from txnsim.errors import ConfigError
from txnsim.txn.past_decision import PastDecision

_OLD_FORM: Final = {
    "topic": "--topic",
    "partition": "--partition",
    "start_offset": "--start-offset",
    "coordinator_epoch": "--coordinator-epoch",
    "force": "--force",
}
"""Options of Kafka's own form of ``abort``, which names a partition."""


class EndTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """The ``commit`` command, and ``abort`` by transactional id."""

    identity: TxnIdentity
    decision: PastDecision
    yes: bool = False
    """If False, only show what would be done."""
    audit_file: Path

    async def execute(self, admin: Admin, *, now_ms: int) -> Output:
        """Look, end it with ``--yes``, and say what readers get.

        Raises:
            ConfigError: The audit file can't be written; nothing was done.
        """
        txn_end = await look_at(admin, self.identity, self.decision)
        if txn_end.outcome is EndOutcome.WOULD_END and self.yes:
            cluster_id = (await admin.describe_cluster()).cluster_id
            with Audit(self.audit_file, cluster_id) as audit:
                audit.write(attempt=txn_end, at_ms=now_ms)
                txn_end = await end(admin, txn_end, self.decision)
                audit.write(end=txn_end)
            TERMINAL.warn(f"What was done is written down in {self.audit_file}.")
        elif txn_end.outcome is EndOutcome.WOULD_END:
            TERMINAL.warn("Nothing was changed. To do it: the same command with --yes.")
        return Output(
            headers=tuple(_COLUMNS),
            rows=rows_of(_COLUMNS, [txn_end]),
            lines=tuple(_reader_line(txn_end, part) for part in txn_end.parts),
            values={"end": txn_end, "dry_run": not self.yes},
            status=HANGS if txn_end.outcome in _NOT_ENDED else 0,
        )


_NOT_ENDED: Final = frozenset({EndOutcome.REFUSED, EndOutcome.DECIDED})
_COLUMNS: Final[Columns[TransactionEnd]] = {
    "TransactionalId": lambda attempt: attempt.identity.transactional_id,
    "ProducerId": lambda attempt: attempt.identity.producer_id,
    "ProducerEpoch": lambda attempt: attempt.identity.producer_epoch,
    "TransactionState": lambda attempt: attempt.state or "",
    "Marker": lambda attempt: attempt.marker,
    "Outcome": lambda attempt: attempt.outcome,
    "Reason": lambda attempt: attempt.reason,
}


def _reader_line(txn_end: TransactionEnd, ended_part: EndedPart) -> str:
    """What ``read_committed`` readers of a partition get."""
    if ended_part.start_offset is None:
        return f"{ended_part.partition}: nothing of it is open there"
    get_words = "get" if txn_end.marker == PastDecision.COMMITTED.marker else "never get"
    return (
        f"{ended_part.partition}: readers {get_words} what it wrote from offset"
        f" {ended_part.start_offset} on, in {ended_part.offsets} offsets"
        " (those of other producers included)"
    )


def end_command(args: argparse.Namespace, decision: PastDecision) -> EndTransaction:
    """The command that the arguments ask for.

    Raises:
        ConfigError: An argument is missing, or belongs to the other form of ``abort``.
    """
    for attribute, option_name in _OLD_FORM.items():
        value = getattr(args, attribute, None)
        if value is not None and value is not False:
            raise ConfigError(
                f"{option_name}: does not go with --transactional-id, which ends the transaction on"
                " all its partitions"
            )
    for attribute, option_name in (
        ("producer_id", "--producer-id"),
        ("producer_epoch", "--producer-epoch"),
    ):
        if getattr(args, attribute) is None:
            raise ConfigError(f"{option_name} is missing: the identity has to be whole")
    return EndTransaction(
        identity=TxnIdentity(
            transactional_id=args.transactional_id,
            producer_id=args.producer_id,
            producer_epoch=args.producer_epoch,
        ),
        decision=decision,
        yes=args.yes,
        audit_file=args.audit_file,
    )
