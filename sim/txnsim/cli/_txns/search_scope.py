"""The search of ``find-hanging --all`` and ``repair``: its scope, the open transactions, what could
not be seen.

An age only limits what is shown: young transactions hold readers back too. So every open
transaction is judged, and those younger than the requested age are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from txnsim.cli._txns.missing_rights import EVERY_TOPIC, lacking, missing_right
from txnsim.cli.output import TERMINAL
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError, NotSupportedError
from txnsim.client.inspection.coordinators_asked import sight_failures
from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.errors import ConfigError, ErrorCode
from txnsim.text import printable
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import TopicPartition

_MINUTE_MS: Final = 60_000
_LISTED_PARTITIONS_MAX: Final = 5
NO_PARTITION: Final = "the cluster lists no such partition for this user"


class HangingSearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search for open transactions."""

    partition_count: int
    findings: tuple[JudgedTransaction, ...]
    """Open transactions of the requested age, oldest write first."""
    younger_transactions: tuple[JudgedTransaction, ...]
    """Open transactions younger than the requested age."""
    unread: Mapping[TopicPartition, ClientError]
    unread_topics: Mapping[str, ClientError] = {}
    """Topics whose partitions are not known."""
    rights_errors: tuple[ClientError, ...]
    """Missing rights, for which the search may be incomplete."""

    @property
    def hanging(self) -> tuple[JudgedTransaction, ...]:
        """The open transactions of the requested age that no marker will end."""
        return _hanging_findings(self.findings)

    @property
    def hanging_younger_findings(self) -> tuple[JudgedTransaction, ...]:
        """The open transactions below the requested age that no marker will end."""
        return _hanging_findings(self.younger_transactions)

    @property
    def is_incomplete(self) -> bool:
        """Whether some partitions or transactions could not be examined, or nothing was."""
        return bool(
            self.unread or self.unread_topics or self.rights_errors or not self.partition_count
        )


class SearchScope(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched: the whole cluster, a topic, or a partition."""

    topic: str | None = None
    partition: int | None = None
    max_transaction_timeout_min: int | None = None
    """Only older transactions; None means 15 minutes, or any age if a partition is named."""

    def __post_init__(self) -> None:
        """Refuse contradictory arguments before connecting."""
        if self.partition is not None and self.topic is None:
            raise ConfigError("The --partition argument requires --topic to be provided")

    @property
    def older_than_ms(self) -> int:
        """The exclusive lower bound of the age in ms."""
        if self.max_transaction_timeout_min is not None:
            return self.max_transaction_timeout_min * _MINUTE_MS
        return MAX_TRANSACTION_TIMEOUT_MS if self.partition is None else ANY_AGE

    async def search(self, admin: Admin, *, now_ms: int) -> HangingSearchResult:
        """Search the scope, with progress on a terminal.

        Raises:
            ClientError: The topic or partition does not exist or has no leader, or a coordinator
                could not be asked.
        """
        if self.topic is not None and self.partition is not None:
            await admin.leader_of(TopicPartition(self.topic, self.partition))
        survey_result = await survey(
            admin,
            now_ms=now_ms,
            partitions=await admin.search_targets(self.topic, self.partition),
            older_than_ms=ANY_AGE,
            progress=lambda searched, total: TERMINAL.progress(
                f"searched {searched} of {total} partitions"
            ),
        )
        age_flags = [
            finding.transaction.is_older(self.older_than_ms, now_ms)
            for finding in survey_result.findings
        ]
        findings_with_age = list(zip(survey_result.findings, age_flags, strict=True))
        return HangingSearchResult(
            partition_count=survey_result.partitions,
            findings=tuple(finding for finding, is_old in findings_with_age if is_old),
            younger_transactions=tuple(
                finding for finding, is_old in findings_with_age if not is_old
            ),
            unread=survey_result.unread,
            unread_topics=survey_result.unread_topics,
            rights_errors=await sight_failures(
                admin.cluster, covers_every_topic=self.topic is None
            ),
        )


def print_search_summary(search_result: HangingSearchResult) -> None:
    """Print what was searched, and open transactions that do not hang."""
    count_by_verdict = Counter(finding.verdict for finding in search_result.findings)
    summary_parts = [
        f"partitions searched: {search_result.partition_count}",
        f"hanging: {count_by_verdict[OpenTxnStatus.HANGING]}",
    ]
    for verdict, verdict_text in (
        (OpenTxnStatus.DECIDED, "decided and not yet marked"),
        (OpenTxnStatus.ALIVE, "old and alive"),
    ):
        if count_by_verdict[verdict]:
            summary_parts.append(f"{verdict_text}: {count_by_verdict[verdict]}")
    if search_result.younger_transactions:
        hanging_count = len(search_result.hanging_younger_findings)
        summary_parts.append(
            f"open and younger: {len(search_result.younger_transactions)}"
            + (f", {hanging_count} of them hanging" if hanging_count else "")
        )
    TERMINAL.warn("; ".join(summary_parts) + ".")
    _print_unread_partitions(search_result)


def _print_unread_partitions(search_result: HangingSearchResult) -> None:
    if not search_result.partition_count and not search_result.unread_topics:
        TERMINAL.warn(f"nothing was searched: {NO_PARTITION}")
    partitions_by_reason: dict[str, list[str]] = {}
    for partition, read_failure in sorted(search_result.unread.items()):
        partitions_by_reason.setdefault(str(read_failure), []).append(str(partition))
    for topic, read_failure in sorted(search_result.unread_topics.items()):
        partitions_by_reason.setdefault(str(read_failure), []).append(f"topic {printable(topic)}")
    for reason, partitions in partitions_by_reason.items():
        unlisted_text = (
            f" and {len(partitions) - _LISTED_PARTITIONS_MAX} more"
            if len(partitions) > _LISTED_PARTITIONS_MAX
            else ""
        )
        TERMINAL.warn(
            f"not searched:"
            f" {', '.join(partitions[:_LISTED_PARTITIONS_MAX])}{unlisted_text}: {reason}"
        )
    tell_missing(
        "find-hanging", (read_failure.error for read_failure in search_result.unread.values())
    )
    if any(
        isinstance(read_failure, NotSupportedError)
        for read_failure in search_result.unread.values()
    ):
        TERMINAL.warn(
            "These brokers can't be searched: txnsim txns why TOPIC PARTITION reads their logs."
        )
    for unseen_gap in search_result.rights_errors:
        TERMINAL.warn(f"{unseen_gap}.")
        if unseen_gap.error is ErrorCode.topic_authorization_failed:
            TERMINAL.warn(lacking(EVERY_TOPIC))
        else:
            tell_missing("find-hanging", (unseen_gap.error,))


def tell_missing(command: str, errors: Iterable[ErrorCode | None]) -> None:
    """Print each missing right once."""
    for missing_right_text in dict.fromkeys(missing_right(command, error) for error in errors):
        if missing_right_text is not None:
            TERMINAL.warn(missing_right_text)


def _hanging_findings(findings: Iterable[JudgedTransaction]) -> tuple[JudgedTransaction, ...]:
    return tuple(finding for finding in findings if finding.verdict is OpenTxnStatus.HANGING)
