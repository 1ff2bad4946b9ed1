"""The text that Kafka's ``kafka-dump-log`` prints, read for what it says of transactions. Pure.

People post this text, or have nothing else of a cluster. It knows batches, markers where records
were printed, and the entries of the transaction log where that was decoded. It does not know high
watermarks, other replicas or partitions that were not dumped: what is missing for an answer is
named. A verdict holds as far as the text goes: a replica that lags has an old state. Kafka's
counterpart: DumpLogSegments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, Final

import msgspec

from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS
from txnsim.txn.open_txn_verdict import Coordinated, OpenTxnStatus
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition

UNKNOWN_BROKER: Final = -1
_FILE: Final = re.compile(r"Dumping (?P<path>.+)")
_FOLDER: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_BATCH: Final = re.compile(
    r"baseOffset: (?P<first>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) .*?"
    r"producerId: (?P<id>-?\d+) producerEpoch: (?P<epoch>-?\d+) .*?"
    r"isTransactional: (?P<transactional>true|false) isControl: (?P<control>true|false) .*?"
    r"(?:CreateTime|LogAppendTime): (?P<time>-?\d+)"
)
_RECORD: Final = re.compile(
    r"\|? ?offset: (?P<offset>\d+) (?:isvalid: \w+ )?(?:CreateTime|LogAppendTime): (?P<time>-?\d+)"
)
_MARKER: Final = re.compile(r"endTxnMarker: (?P<marker>COMMIT|ABORT)")
_JSON_ENTRY: Final = re.compile(r" key: (?P<key>\{.*?\}\}) payload: (?P<payload>.*)")
_OLD_ENTRY: Final = re.compile(
    r" key: transaction_metadata::transactionalId=(?P<id>.*?) payload: (?P<payload>.*)"
)
_OLD_FIELDS: Final = re.compile(
    r"producerId:(?P<id>-?\d+),producerEpoch:(?P<epoch>-?\d+),state=(?P<state>\w+),"
    r"partitions=\[(?P<partitions>.*?)\].*?txnTimeoutMs=(?P<timeout>-?\d+)"
)
_OTHER: Final = re.compile(
    r"Log starting offset: |producerId: \d+ producerEpoch: |offset: \d+ position: |timestamp: |"
    r"version: \d+ producerId: |Found timestamp mismatch|Mismatches in |Snapshot |\s*Index|\s*$"
)
"""Lines of other files, and of what the tool remarks."""


class DumpedOpen(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction without an end in the text."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    first_timestamp_ms: int
    last_timestamp_ms: int
    verdict: OpenTxnStatus = OpenTxnStatus.UNKNOWN
    reason: str = ""
    """A sentence without its full stop."""
    transactional_id: str | None = None


class DumpedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition, by the longest of its dumped replicas."""

    partition: TopicPartition
    replicas: int
    first_offset: int | None
    last_offset: int | None
    batches: int
    commits: int
    aborts: int
    unread_markers: int
    """Control batches without a printed record: COMMIT or ABORT, either may be."""
    open: tuple[DumpedOpen, ...]


class DumpedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The last thing that a dumped transaction log says of a transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    partitions: frozenset[TopicPartition]
    written_ms: int


class DumpedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a dump: partitions, coordinators' entries, and sentences on gaps."""

    partitions: tuple[DumpedPartition, ...]
    entries: tuple[DumpedEntry, ...]
    missing: tuple[str, ...]
    """Sentences."""

    @property
    def worst(self) -> OpenTxnStatus | None:
        """Of all open transactions: one that hangs, one that can't be judged, or None."""
        found = {one.verdict for each in self.partitions for one in each.open}
        for one in (OpenTxnStatus.HANGING, OpenTxnStatus.UNKNOWN, OpenTxnStatus.RECENT):
            if one in found:
                return one
        return None


class _Replica:
    """What was dumped of one folder."""

    __slots__ = ("aborts", "batches", "commits", "first", "last", "open", "unread")

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self.batches = self.commits = self.aborts = self.unread = 0
        self.open: dict[int, DumpedOpen] = {}

    def add(self, found: re.Match[str]) -> None:
        """A batch."""
        first, last = int(found["first"]), int(found["last"])
        self.first = first if self.first is None else min(self.first, first)
        self.last = max(last, self.last or 0)
        self.batches += 1
        if found["transactional"] == "false":
            return
        producer = int(found["id"])
        if found["control"] == "true":
            self.open.pop(producer, None)
            self.unread += 1
            return
        at_ms = int(found["time"])
        begun = self.open.get(producer)
        self.open[producer] = DumpedOpen(
            producer_id=producer,
            producer_epoch=int(found["epoch"]),
            start_offset=begun.start_offset if begun else first,
            first_timestamp_ms=begun.first_timestamp_ms if begun else at_ms,
            last_timestamp_ms=max(at_ms, begun.last_timestamp_ms) if begun else at_ms,
        )

    def mark(self, marker: str) -> None:
        """The record of a control batch."""
        self.unread -= 1
        if marker == "COMMIT":
            self.commits += 1
        else:
            self.aborts += 1


class _Reading:
    """The text so far."""

    def __init__(self) -> None:
        self.replicas: dict[str, tuple[TopicPartition, _Replica]] = {}
        self.entries: dict[str, tuple[int, DumpedEntry | None]] = {}
        """Transactional id -> the highest offset that speaks of it, and what it says."""
        self.newest_ms = 0
        self.unknown: list[int] = []
        """Numbers of lines."""
        self.undecoded = 0
        """Records of the transaction log without an entry."""
        self.now: tuple[TopicPartition, _Replica] | None = None

    def line(self, number: int, text: str) -> None:
        if found := _FILE.match(text):
            self._file(PurePath(found["path"].strip()))
        elif found := _BATCH.search(text):
            self.newest_ms = max(self.newest_ms, int(found["time"]))
            if self.now is None:
                self.unknown.append(number)
            else:
                self.now[1].add(found)
        elif found := _RECORD.match(text):
            self._record(text, int(found["offset"]), int(found["time"]))
        elif not _OTHER.match(text):
            self.unknown.append(number)

    def _file(self, path: PurePath) -> None:
        named = _FOLDER.fullmatch(path.parent.name)
        if named is None or path.suffix != ".log":
            self.now = None
            return
        partition = TopicPartition(named["topic"], int(named["partition"]))
        self.now = self.replicas.setdefault(str(path.parent), (partition, _Replica()))

    def _record(self, text: str, offset: int, at_ms: int) -> None:
        if self.now is None:
            return
        partition, replica = self.now
        if found := _MARKER.search(text):
            replica.mark(found["marker"])
        elif partition.topic == TRANSACTION_STATE_TOPIC:
            entry = _entry(text, at_ms)
            if entry is None:
                self.undecoded += 1
                return
            named = entry if isinstance(entry, str) else entry.transactional_id
            # Of several replicas the longest counts, whichever was dumped last.
            if offset >= self.entries.get(named, (0, None))[0]:
                self.entries[named] = (offset, None if isinstance(entry, str) else entry)


def _entry(text: str, at_ms: int) -> DumpedEntry | str | None:
    """What a decoded record says; the transactional id alone where it deletes that."""
    if found := _JSON_ENTRY.search(text):
        transactional_id = msgspec.json.decode(found["key"])["data"]["transactionalId"]
        if not found["payload"].startswith("{"):
            return str(transactional_id)
        return _of_json(transactional_id, msgspec.json.decode(found["payload"])["data"], at_ms)
    if found := _OLD_ENTRY.search(text):
        fields = _OLD_FIELDS.search(found["payload"])
        return found["id"] if fields is None else _of_old(found["id"], fields, at_ms)
    return None


def _of_json(transactional_id: str, data: Mapping[str, Any], at_ms: int) -> DumpedEntry:
    listed = data["transactionPartitions"] or ()
    return DumpedEntry(
        transactional_id=transactional_id,
        producer_id=data["producerId"],
        producer_epoch=data["producerEpoch"],
        state=str(data["transactionStatus"]),
        timeout_ms=data["transactionTimeoutMs"],
        partitions=frozenset(
            TopicPartition(one["topic"], number) for one in listed for number in one["partitionIds"]
        ),
        written_ms=at_ms,
    )


def _of_old(transactional_id: str, fields: re.Match[str], at_ms: int) -> DumpedEntry:
    names = [one.strip() for one in fields["partitions"].split(",") if one.strip()]
    return DumpedEntry(
        transactional_id=transactional_id,
        producer_id=int(fields["id"]),
        producer_epoch=int(fields["epoch"]),
        state=fields["state"],
        timeout_ms=int(fields["timeout"]),
        partitions=frozenset(
            TopicPartition(topic, int(number))
            for topic, _, number in (name.rpartition("-") for name in names)
        ),
        written_ms=at_ms,
    )


def answer(lines: Iterable[str]) -> DumpedAnswer:
    """Read lines of the tool's output and judge each open transaction by the newest entry."""
    reading = _Reading()
    for number, text in enumerate(lines, 1):
        reading.line(number, text.rstrip("\r\n"))
    logs: dict[TopicPartition, list[_Replica]] = {}
    for partition, replica in reading.replicas.values():
        logs.setdefault(partition, []).append(replica)
    entries = [one for _, (_, one) in sorted(reading.entries.items()) if one is not None]
    owners = {one.producer_id: one for one in entries}
    partitions = tuple(
        _partition(partition, logs[partition], owners, reading.newest_ms)
        for partition in sorted(logs)
        if partition.topic != TRANSACTION_STATE_TOPIC
    )
    return DumpedAnswer(
        partitions=partitions,
        entries=tuple(entries),
        missing=tuple(_missing(reading, partitions)),
    )


def _partition(
    partition: TopicPartition,
    replicas: list[_Replica],
    owners: Mapping[int, DumpedEntry],
    newest_ms: int,
) -> DumpedPartition:
    longest = max(replicas, key=lambda one: -1 if one.last is None else one.last)
    return DumpedPartition(
        partition=partition,
        replicas=len(replicas),
        first_offset=longest.first,
        last_offset=longest.last,
        batches=longest.batches,
        commits=longest.commits,
        aborts=longest.aborts,
        unread_markers=longest.unread,
        open=tuple(
            _judged(partition, one, owners.get(one.producer_id), newest_ms)
            for one in sorted(longest.open.values(), key=lambda one: one.start_offset)
        ),
    )


def _judged(
    partition: TopicPartition, one: DumpedOpen, entry: DumpedEntry | None, newest_ms: int
) -> DumpedOpen:
    if entry is None:
        reason = f"the text has no entry of the transaction log with producer id {one.producer_id}"
        return msgspec.structs.replace(one, reason=reason)
    verdict, reason = OpenTxnStatus.judged(
        one.producer_id,
        one.producer_epoch,
        entry.transactional_id,
        Coordinated(
            transactional_id=entry.transactional_id,
            coordinator_id=UNKNOWN_BROKER,
            state=entry.state,
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            lists_partition=partition in entry.partitions,
            timeout_ms=entry.timeout_ms,
        ),
    )
    reason = reason.replace(f", broker {UNKNOWN_BROKER},", "")
    if verdict is OpenTxnStatus.HANGING and one.first_timestamp_ms > entry.written_ms:
        verdict = OpenTxnStatus.UNKNOWN
        reason += "; but that was written before the transaction's first record, so it may be old"
    elif verdict is OpenTxnStatus.HANGING and (
        newest_ms - one.last_timestamp_ms < MAX_TRANSACTION_TIMEOUT_MS
    ):
        verdict = OpenTxnStatus.RECENT
        reason += "; but its last write is less than 15 minutes older than the newest of the text"
    return msgspec.structs.replace(
        one, verdict=verdict, reason=reason, transactional_id=entry.transactional_id
    )


def _missing(reading: _Reading, partitions: tuple[DumpedPartition, ...]) -> Iterable[str]:
    logs = {partition.topic for partition, _ in reading.replicas.values()}
    if not reading.replicas:
        yield "No line `Dumping …/TOPIC-PARTITION/….log`: it tells which partition a batch is of."
        return
    if any(one.open for one in partitions) and TRANSACTION_STATE_TOPIC not in logs:
        yield (
            "What the coordinators know: dump the .log files of __transaction_state-* with"
            " --transaction-log-decoder."
        )
    if reading.entries:
        yield (
            "Whether the dumped replicas of __transaction_state are whole: one that lags has an"
            " old state. Dump the leader's, and ask the brokers once they run."
        )
    if reading.undecoded:
        yield (
            f"{reading.undecoded} records of __transaction_state are not decoded: dump them with"
            " --transaction-log-decoder."
        )
    if any(one.unread_markers for one in partitions):
        yield "Whether a marker is COMMIT or ABORT: dump with --deep-iteration."
    late = [str(one.partition) for one in partitions if one.first_offset]
    if late:
        yield (
            f"What lies before the first dumped batch of {', '.join(late)}: a transaction may have"
            " begun there. Dump the segments before, or the .snapshot beside."
        )
    if reading.unknown:
        places = ", ".join(map(str, reading.unknown[:5]))
        yield f"{len(reading.unknown)} lines say nothing that is known here: {places}."
    if partitions:
        yield "High watermarks, and replicas that were not dumped: the text never has them."
