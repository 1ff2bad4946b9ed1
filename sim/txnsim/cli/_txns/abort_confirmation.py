"""Checks around ``abort``: it shows what would be lost, needs ``--force`` if that is known to be
committed, and records what was done.

Kafka's tool has none of this: its abort discards records that were acknowledged as committed
(KAFKA-20734), and records whose COMMIT marker is on its way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from txnsim.cli._txns.audit import AUDIT_FILE, Audit
from txnsim.cli.output import TERMINAL
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.client.inspection.txn_views import AbortSpec
from txnsim.shell_text import ShellText
from txnsim.txn.open_txn_verdict import PROGRAM, OpenTxnStatus
from txnsim.txn.past_decision import PastDecision


class GuardedAbort(msgspec.Struct, frozen=True, kw_only=True):
    """An abort that judges the transaction before it writes the marker."""

    force: bool = False
    audit_file: Path = AUDIT_FILE
    program: ShellText = PROGRAM
    """The command line of this program, for advice."""

    async def abort(
        self,
        admin: Admin,
        spec: AbortSpec,
        *,
        now_ms: int,
        send_abort: Callable[[], Awaitable[None]],
    ) -> None:
        """Judge the transaction, then send the marker.

        Raises:
            ClientError: The transaction is known to be committed and ``--force`` was not given; or
                the leader refused.
            ConfigError: The audit file can't be written; nothing was done.
        """
        judged_txn = await self._judge_transaction(admin, spec, now_ms)
        commit_reason = None if judged_txn is None else _commit_reason(judged_txn)
        if judged_txn is not None and commit_reason is not None:
            loss_warning = (
                f"It was committed: {commit_reason}. An abort takes its records"
                f" from readers for good"
            )
            if not self.force:
                raise NeedsForceError(
                    f"{loss_warning}. {self._commit_advice(judged_txn)} To abort it: --force"
                )
            TERMINAL.warn(f"{loss_warning}.")
        elif judged_txn is not None and judged_txn.is_two_phase and not self.force:
            raise NeedsForceError(
                f"It may be prepared: {judged_txn.reason}, which may have decided to"
                f" commit. Ask that"
                " one first. To abort it: --force"
            )
        with Audit(self.audit_file, admin.cluster.view.cluster_id or "") as audit:
            audit.write(abort=spec, attempt=judged_txn, at_ms=now_ms)
            try:
                await send_abort()
            except ClientError as refused:
                audit.write(abort=spec, outcome="refused", error=str(refused))
                raise
            audit.write(abort=spec, outcome="written", error=None)
        if judged_txn is not None:
            _warn_of_effects(judged_txn)

    def _commit_advice(self, judged_txn: JudgedTransaction) -> str:
        commit_command = judged_txn.command(self.program)
        if commit_command is None:
            return "Its coordinator writes COMMIT as soon as it reaches the leader."
        return f"To end it with COMMIT: {commit_command}"

    @staticmethod
    async def _judge_transaction(
        admin: Admin, spec: AbortSpec, now_ms: int
    ) -> JudgedTransaction | None:
        """The judged transaction; None if the survey fails, which does not prevent the abort."""
        try:
            survey_result = await survey(
                admin, now_ms=now_ms, partitions=[spec.partition], older_than_ms=ANY_AGE
            )
        except ClientError as failure:
            TERMINAL.warn(f"What was decided is unknown: {failure}.")
            return None
        for finding in survey_result.findings:
            producer = finding.transaction.producer
            if (producer.producer_id, producer.producer_epoch) == (
                spec.producer_id,
                spec.producer_epoch,
            ):
                return finding
        return None


class NeedsForceError(ClientError):
    """An abort would discard committed records."""


def _warn_of_effects(judged_txn: JudgedTransaction) -> None:
    """Warn, after Kafka's own output, of what the abort may have destroyed."""
    if judged_txn.verdict is OpenTxnStatus.ALIVE:
        TERMINAL.warn(
            f"It did not hang: {judged_txn.reason}. What it had written here is aborted,"
            f" what it writes"
            " from now on is not."
        )
    elif judged_txn.decided is not None and judged_txn.decided.decision is PastDecision.UNKNOWN:
        TERMINAL.warn(
            f"{judged_txn.decided}. If it was committed, its records are lost to readers."
        )


def _commit_reason(judged_txn: JudgedTransaction) -> str | None:
    if judged_txn.verdict is OpenTxnStatus.DECIDED:
        return judged_txn.reason if judged_txn.state == "PrepareCommit" else None
    if judged_txn.decided is None or judged_txn.decided.decision is not PastDecision.COMMITTED:
        return None
    return judged_txn.decided.because
