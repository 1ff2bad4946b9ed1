"""The open transactions of a whole cluster, judged: ``find-hanging --all``.

Every partition's leader is asked who has a transaction open, every coordinator what it knows of
them (KIP-664). The two can't be asked at one moment: a transaction may end in between, and would
look as if nobody knew it. So whatever seems to hang is asked for again at its leader, and only what
is still open there, the same transaction, is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.client.errors import ClientError
from txnsim.client.inspection.describe_rights import check_sight
from txnsim.client.inspection.hanging import (
    MAX_TRANSACTION_TIMEOUT_MS,
    OpenTransaction,
    candidates,
)
from txnsim.client.inspection.judgement import Finding, Verdict, judge
from txnsim.client.inspection.txn_views import ProducerState
from txnsim.client.txn_admin import TransactionAdmin, batches
from txnsim.types import TopicPartition

ANY_AGE: Final = -(1 << 62)
"""Milliseconds: even what a producer dates to the future is older."""

Progress = Callable[[int, int], None]
"""(partitions asked about, of how many)."""


def _no_progress(_done: int, _total: int) -> None:
    """Nobody watches."""


NOBODY: Final[Progress] = _no_progress


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    partitions: int
    """That were asked about."""
    findings: tuple[Finding, ...]
    """The open transactions without a write for as long as was asked, oldest write first."""
    unread: Mapping[TopicPartition, ClientError]
    """Partitions whose leader could not say, and why."""

    @property
    def hanging(self) -> tuple[Finding, ...]:
        """Those that nobody will end."""
        return tuple(one for one in self.findings if one.verdict is Verdict.HANGING)


async def survey(
    admin: TransactionAdmin,
    *,
    now_ms: int,
    partitions: Sequence[TopicPartition] | None = None,
    older_than_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    progress: Progress = NOBODY,
) -> Survey:
    """Look at every partition.

    Args:
        admin: The cluster.
        now_ms: The wall clock to measure ages by.
        partitions: These alone; all, those of internal topics included, unless given.
        older_than_ms: Transactions with a younger write are not looked at.
        progress: Told after each request to the leaders.

    Raises:
        ClientError: Topics could not be listed, or a coordinator did not answer, or may not tell
            of all transactional ids: what these have open would seem to hang.
    """
    wanted = await admin.partitions_to_search() if partitions is None else list(partitions)
    found: list[OpenTransaction] = []
    unread: dict[TopicPartition, ClientError] = {}
    done = 0
    for batch in batches(wanted):
        producers, failures = await _producers(admin, batch)
        unread.update(failures)
        found += candidates(producers, now_ms=now_ms, max_transaction_timeout_ms=older_than_ms)
        done += len(batch)
        progress(done, len(wanted))
    findings: tuple[Finding, ...] = ()
    if found:
        ids, descriptions = await admin.known_to_coordinators(
            {one.producer.producer_id for one in found}
        )
        judged = judge(found, ids, descriptions)
        gone = await _ended_meanwhile(admin, judged)
        findings = tuple(one for one in judged if one.transaction not in gone)
        if any(one.verdict is Verdict.HANGING for one in findings):
            await check_sight(admin.cluster)
    return Survey(
        partitions=len(wanted),
        findings=tuple(sorted(findings, key=_age)),
        unread=unread,
    )


def _age(finding: Finding) -> tuple[int, TopicPartition]:
    return finding.transaction.producer.last_timestamp_ms, finding.transaction.partition


async def _producers(
    admin: TransactionAdmin, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, tuple[ProducerState, ...]], dict[TopicPartition, ClientError]]:
    producers: dict[TopicPartition, tuple[ProducerState, ...]] = {}
    failures: dict[TopicPartition, ClientError] = {}
    for partition, outcome in (await admin.describe_producers(partitions)).items():
        if isinstance(outcome, ClientError):
            failures[partition] = outcome
        else:
            producers[partition] = outcome
    return producers, failures


async def _ended_meanwhile(
    admin: TransactionAdmin, findings: Sequence[Finding]
) -> frozenset[OpenTransaction]:
    """Which of those that seem to hang are no longer there."""
    seeming = [one.transaction for one in findings if one.verdict is Verdict.HANGING]
    asked = tuple(dict.fromkeys(one.partition for one in seeming))
    gone: set[OpenTransaction] = set()
    for batch in batches(asked):
        producers, _ = await _producers(admin, batch)
        gone.update(
            one
            for one in seeming
            if one.partition in producers
            and not any(one.is_that_of(row) for row in producers[one.partition])
        )
    return frozenset(gone)
