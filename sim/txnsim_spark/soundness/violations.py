"""Violations in log directories, and the rules by name.

Kafka itself relies on each rule: a leader enforces it on append, or Kafka's tools check it.
Violations that the cleaner or a retried marker can cause are only notices. So is damage after the
recovery point of a broker that did not stop in order, because the broker recovers that part of the
log when it starts (LogLoader.recoverLog).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from txnsim.errors import CorruptLogRecordError
from txnsim.storage.names import FileNameError
from txnsim.storage.regular_file import RegularFile

T = TypeVar("T")
SAME_FINDINGS_MAX: Final = 100
"""Limit per rule and segment; a last finding counts the rest."""


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """No broker would have written this log."""
    NOTICE = "notice"
    """Unusual, but sound; or repaired by a broker that starts with it."""


class Invariant(StrEnum):
    """A rule that a log must keep."""

    CRC = "crc"
    TORN = "torn"
    NO_BATCH = "no-batch"
    OFFSET_ORDER = "offset-order"
    OFFSET_GAP = "offset-gap"
    SEQUENCE = "sequence"
    PRODUCER_EPOCH = "producer-epoch"
    COORDINATOR_EPOCH = "coordinator-epoch"
    OUTSIDE_TRANSACTION = "outside-transaction"
    IDLE_MARKER = "idle-marker"
    UNREADABLE_MARKER = "unreadable-marker"
    ABORTED_MISSING = "aborted-missing"
    ABORTED_EXTRA = "aborted-extra"
    ABORTED_DIFFERS = "aborted-differs"
    SNAPSHOT = "snapshot"
    LEADER_EPOCH = "leader-epoch"
    CHECKPOINT = "checkpoint"
    UNREADABLE_FILE = "unreadable-file"
    FOREIGN_FOLDER = "foreign-folder"
    ABSENT_REPLICA = "absent-replica"
    REPLICAS = "replicas"


MEANINGS: Final = {
    Invariant.CRC: "a batch has the CRC-32C that it states (DefaultRecordBatch.ensureValid)",
    Invariant.TORN: "a segment ends with a whole batch (LogSegment.recover cuts off what follows)",
    Invariant.NO_BATCH: "where a log has bytes, at least one batch of it can be read",
    Invariant.OFFSET_ORDER: "offsets ascend from batch to batch and segment to segment, from the"
    " segment's own number on",
    Invariant.OFFSET_GAP: "no offset is left out, except where the cleaner has been",
    Invariant.SEQUENCE: "a producer's sequences go on without gap and repetition within an epoch,"
    " and begin at 0 in a new one (ProducerAppendInfo.checkSequence)",
    Invariant.PRODUCER_EPOCH: "a producer's epoch never goes back"
    " (ProducerAppendInfo.checkProducerEpoch)",
    Invariant.COORDINATOR_EPOCH: "the coordinator's epoch in a producer's markers never goes back"
    " (ProducerAppendInfo.checkCoordinatorEpoch)",
    Invariant.OUTSIDE_TRANSACTION: "while its transaction is open a producer writes nothing"
    " outside of it (ProducerAppendInfo.appendDataBatch)",
    Invariant.IDLE_MARKER: "a marker ends a transaction; a repeated one, or one for a partition"
    " that was added and never written, ends nothing",
    Invariant.UNREADABLE_MARKER: "a control record of a producer can be read, and is COMMIT or"
    " ABORT; at another type a real broker ends as it starts (EndTransactionMarker.deserialize)",
    Invariant.ABORTED_MISSING: "each aborted transaction is in .txnindex"
    " (LogSegment.updateTxnIndex)",
    Invariant.ABORTED_EXTRA: "what .txnindex calls aborted was aborted",
    Invariant.ABORTED_DIFFERS: "an entry of .txnindex has the transaction's first offset and the"
    " last stable offset as the marker was appended (ProducerStateManager.lastStableOffset)",
    Invariant.SNAPSHOT: "a .snapshot says what the log below its offset leads to"
    " (ProducerStateManager.writeSnapshot)",
    Invariant.LEADER_EPOCH: "leader epochs never go back, and are those of leader-epoch-checkpoint"
    " (LeaderEpochFileCache)",
    Invariant.CHECKPOINT: "log start, high watermark and recovery point lie within the log",
    Invariant.UNREADABLE_FILE: "a file beside the log can be read",
    Invariant.FOREIGN_FOLDER: "a folder that holds segments is named TOPIC-PARTITION"
    " (UnifiedLog.parseTopicPartitionName); another one is not looked at",
    Invariant.ABSENT_REPLICA: "each partition with a high watermark has a folder; another"
    " one was not copied, or a broker was killed as it deleted it",
    Invariant.REPLICAS: "below the high watermark all replicas hold the same batches",
}
"""What each rule demands, and which part of Kafka demands it."""
DUMP_LOG: Final = "kafka-dump-log"
_DUMP_LOG_DEEP: Final = f"{DUMP_LOG} --deep-iteration, within a segment"
REPORTED_BY: Final = {
    Invariant.CRC: DUMP_LOG,
    Invariant.TORN: f"{DUMP_LOG}; zeros: a broker that starts ends",
    Invariant.NO_BATCH: DUMP_LOG,
    Invariant.OFFSET_ORDER: _DUMP_LOG_DEEP,
    Invariant.OFFSET_GAP: _DUMP_LOG_DEEP,
    Invariant.UNREADABLE_MARKER: "a broker that recovers the segment ends",
    Invariant.UNREADABLE_FILE: "a broker that starts ends",
    Invariant.FOREIGN_FOLDER: "a broker that starts ends",
}
"""Rule -> the Kafka tool or broker that reports a violation, too; for the other rules there is
none.
"""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a rule is broken."""

    rule: Invariant
    severity: Severity
    broker: int
    """-1 if the directory does not name the broker."""
    log_dir: str
    topic: str
    partition: int
    file: str
    """Name within the replica's folder, or within the log directory."""
    position: int | None
    """Position of the first byte in the file; None where the finding has no bytes."""
    offset: int | None
    found: str
    expected: str
    producer_id: int | None = None
    producer_epoch: int | None = None


class BrokenRule(msgspec.Struct, frozen=True, kw_only=True):
    """A violation whose replica, and so its severity, is still unknown."""

    rule: Invariant
    file: str
    found: str
    expected: str
    position: int | None = None
    offset: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    is_notice: bool = False
    """Whether it is only a notice in any log."""


class Findings:
    """The findings of one file, at most ``SAME_FINDINGS_MAX`` of each rule."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._counts: Counter[Invariant] = Counter()
        self.found: list[BrokenRule] = []

    def add(self, rule: Invariant, found: str, expected: str, **fields: Any) -> None:
        """Add a violation; ``fields`` are fields of ``BrokenRule``."""
        self.take(BrokenRule(rule=rule, file=self._file, found=found, expected=expected, **fields))

    def take(self, broken_rule: BrokenRule) -> None:
        """Add a violation, which may concern a file next to the segment."""
        self._counts[broken_rule.rule] += 1
        if self._counts[broken_rule.rule] <= SAME_FINDINGS_MAX:
            self.found.append(broken_rule)

    def all(self) -> tuple[BrokenRule, ...]:
        """The listed findings, and a count of the others of each rule."""
        counts_of_others = (
            BrokenRule(
                rule=rule,
                file=self._file,
                found=f"{count - SAME_FINDINGS_MAX} more of these",
                expected="none",
            )
            for rule, count in sorted(self._counts.items())
            if count > SAME_FINDINGS_MAX
        )
        return (*self.found, *counts_of_others)


def misnamed_file(error: FileNameError, expected: str) -> BrokenRule:
    """The broken rule of a file that is named for an offset which no log has."""
    return BrokenRule(
        rule=Invariant.UNREADABLE_FILE,
        file=Path(error.filename).name,
        found=error.strerror or str(error),
        expected=expected,
    )


def read_or_report(
    path: Path,
    decode: Callable[[bytes], T],
    expected: str,
    on_broken: Callable[[BrokenRule], object],
    *,
    offset: int | None = None,
    is_small: bool = False,
    is_there: bool = False,
    missing_content: T | None = None,
) -> T | None:
    """The decoded content of a file next to the log; None if it can't be read, which is reported
    together with an offset. If the file's name was listed (``is_there``), a missing file counts as
    unreadable.
    """
    try:
        return decode(RegularFile(path).read(is_small=is_small))
    except (OSError, CorruptLogRecordError, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError) and not is_there:
            return missing_content
        broken_rule = BrokenRule(
            rule=Invariant.UNREADABLE_FILE,
            file=path.name,
            offset=offset,
            found=(error.strerror if isinstance(error, OSError) else "") or str(error),
            expected=expected,
        )
        on_broken(broken_rule)
        return None
