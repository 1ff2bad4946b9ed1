"""The tables of ``kafka_log`` and their columns: name, type and meaning.

Spark uses the types, docs/kafka-log.md the meanings. Missing values are null.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from textwrap import dedent
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_type_hints

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa


class Column(msgspec.Struct, frozen=True):
    """A column of a table: name, type in Spark, meaning."""

    name: str
    type: str
    """The type in Spark's DDL."""
    meaning: str
    is_nullable: bool = True


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the data source: what a row is, and its columns."""

    about: str
    columns: tuple[Column, ...]

    @classmethod
    def of(
        cls, about: str, *groups: str | Sequence[Column], nullable: Collection[str] | None = None
    ) -> Table:
        """A table from groups of columns.

        Args:
            about: What it tells.
            groups: Columns, or lines of name, type and meaning; an indented line goes on with the
                one before.
            nullable: The columns that may be null; all unless given.
        """
        columns = (
            column
            for group in groups
            for column in (_columns_in(group) if isinstance(group, str) else group)
        )
        if nullable is not None:
            columns = (
                msgspec.structs.replace(column, is_nullable=column.name in nullable)
                for column in columns
            )
        return cls(about=about, columns=tuple(columns))

    @property
    def ddl(self) -> str:
        """The schema as Spark takes it."""
        return ", ".join(f"{column.name} {column.type}" for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its columns, in order."""
        return tuple(column.name for column in self.columns)

    def arrow(self, columns: Sequence[str] = ()) -> pa.Schema:
        """The Arrow schema of some of its columns; of all if none are given."""
        import pyarrow as pa

        type_by_name = arrow_types()
        fields = {
            column.name: pa.field(
                column.name, type_by_name[column.type], nullable=column.is_nullable
            )
            for column in self.columns
        }
        return pa.schema([fields[name] for name in columns or fields])


@cache
def arrow_types() -> dict[str, pa.DataType]:
    """Type in Spark's DDL -> the same as an Arrow type, with Spark's names for its parts."""
    import pyarrow as pa

    def many(element_type: pa.DataType) -> pa.DataType:
        return pa.list_(pa.field("element", element_type))

    return {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        TIMESTAMP_TYPE: pa.timestamp("us", tz="UTC"),
        BROKERS_TYPE: many(pa.int32()),
        TEXTS_TYPE: many(pa.string()),
        HEADERS_TYPE: many(pa.struct((("key", pa.string()), ("value", pa.binary())))),
        PARTITIONS_TYPE: many(pa.struct((("topic", pa.string()), ("partition", pa.int32())))),
        STATE_BATCHES_TYPE: many(
            pa.struct(
                (
                    *((field_name, pa.int64()) for field_name in ("first_offset", "last_offset")),
                    *(
                        (field_name, pa.int32())
                        for field_name in ("delivery_state", "delivery_count")
                    ),
                )
            )
        ),
    }


def _columns_in(lines_text: str) -> Iterator[Column]:
    for line in re.sub(r"\n +", " ", dedent(lines_text).strip()).splitlines():
        column_name, column_type, meaning = line.split(None, 2)
        yield Column(column_name, column_type, meaning)


def columns_of(row_type: type[msgspec.Struct]) -> tuple[Column, ...]:
    """Columns from the fields of a row's struct: a field names its Spark type and its meaning."""
    columns = []
    for field_name, type_hint in get_type_hints(row_type, include_extras=True).items():
        *spark_types, meaning = type_hint.__metadata__
        if not spark_types:  # of what may be null, the type stands within
            spark_types = [
                spark_type
                for type_part in get_args(type_hint.__origin__)
                for spark_type in _spark_types_of(type_part)
            ]
        (spark_type,) = spark_types
        columns.append(Column(field_name, spark_type, meaning))
    return tuple(columns)


def _spark_types_of(type_part: Any) -> tuple[str, ...]:
    return getattr(type_part, "__metadata__", ())


String = Annotated[str, "string"]
Int = Annotated[int, "int"]
Bigint = Annotated[int, "bigint"]
Boolean = Annotated[bool, "boolean"]
HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"
PARTITIONS_TYPE: Final = "array<struct<topic: string, partition: int>>"
STATE_BATCHES_TYPE: Final = (
    "array<struct<first_offset: bigint, last_offset: bigint, delivery_state: int,"
    " delivery_count: int>>"
)
"""Spark types of columns that hold structs."""
BROKERS_TYPE: Final = "array<int>"
TEXTS_TYPE: Final = "array<string>"
TIMESTAMP_TYPE: Final = "timestamp"


class RecordRow(msgspec.Struct, frozen=True, kw_only=True):
    """One record."""

    offset: Annotated[Bigint, "Of the record."]
    timestamp_ms: Annotated[Bigint | None, "Of the record, as a consumer is given it."]


class ProducerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One producer in one snapshot."""

    snapshot_offset: Annotated[Bigint, "The state holds all records below."]
    is_last: Annotated[Boolean, "No snapshot of the replica is newer."]
    producer_id: Annotated[Bigint, "The producer."]
    producer_epoch: Annotated[Int, "Its newest epoch."]
    last_sequence: Annotated[Int | None, "Null where it has none: markers only."]
    last_offset: Annotated[Bigint | None, "Of its last batch of data; null where there is none."]
    offset_delta: Annotated[Int | None, "Records in that batch, less one."]
    last_timestamp_ms: Annotated[Bigint | None, "Of its last batch or marker."]
    coordinator_epoch: Annotated[Int | None, "Of its last marker; null without one."]
    open_offset: Annotated[Bigint | None, "First offset of its open transaction; null without one."]


class AbortedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One aborted transaction."""

    producer_id: Annotated[Bigint, "Whose transaction."]
    first_offset: Annotated[Bigint, "Where it began."]
    marker_offset: Annotated[Bigint, "Of its ABORT marker."]
    last_stable_offset: Annotated[Bigint, "As the marker was appended."]


class LeaderEpochRow(msgspec.Struct, frozen=True, kw_only=True):
    """One leader epoch."""

    leader_epoch: Annotated[Int, "The epoch."]
    start_offset: Annotated[Bigint, "First offset that was appended in it."]


class TransactionRow(RecordRow, frozen=True, kw_only=True):
    """One record of ``__transaction_state``."""

    transactional_id: Annotated[String | None, "Null where the key can't be read."] = None
    is_tombstone: Annotated[Boolean, "The coordinator forgot the id."]
    value_version: Annotated[Int | None, "Of TransactionLogValue; null in a tombstone."] = None
    state: Annotated[
        String | None,
        "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort.",
    ] = None
    producer_id: Annotated[Bigint | None, "Null in a tombstone."] = None
    producer_epoch: Annotated[Int | None, "Null in a tombstone."] = None
    previous_producer_id: Annotated[Bigint | None, "Of the transaction before (KIP-890)."] = None
    next_producer_id: Annotated[Bigint | None, "Of the next one, where the epoch is used up."] = (
        None
    )
    timeout_ms: Annotated[Int | None, "Of the producer."] = None
    partitions: Annotated[
        tuple[dict[str, str | int], ...] | None,
        PARTITIONS_TYPE,
        "That still wait for a marker, or take part; sorted. Null in a tombstone.",
    ] = None
    start_timestamp_ms: Annotated[
        Bigint | None, "When the transaction began; null without one."
    ] = None
    last_update_timestamp_ms: Annotated[Bigint | None, "When the state changed."] = None
    client_transaction_version: Annotated[Int | None, "0 or 1: old flow; 2: KIP-890's."] = None
    problem: Annotated[
        String | None,
        "Why the row has only a place: an unknown version, or bytes that can't be read. Null in "
        "sound rows.",
    ] = None


class OffsetRow(RecordRow, frozen=True, kw_only=True):
    """One record of ``__consumer_offsets``."""

    kind: Annotated[
        String,
        "offset_commit, group_metadata, or a record of the newer protocols by name; unknown where "
        "it has none here.",
    ]
    key_version: Annotated[Int | None, "What the key begins with: the kind as a number."]
    value_version: Annotated[Int | None, "Null in a tombstone."]
    is_tombstone: Annotated[Boolean, "The entry is deleted."]
    group_id: Annotated[String | None, "Of the group."] = None
    committed_topic: Annotated[String | None, "Of an offset commit."] = None
    committed_partition: Annotated[Int | None, "Of an offset commit."] = None
    committed_topic_id: Annotated[String | None, "Where the commit names it."] = None
    committed_offset: Annotated[Bigint | None, "The position."] = None
    committed_leader_epoch: Annotated[Int | None, "Null where the commit names none."] = None
    committed_metadata: Annotated[String | None, "The client's own words."] = None
    commit_timestamp_ms: Annotated[Bigint | None, "When it was committed."] = None
    expire_timestamp_ms: Annotated[Bigint | None, "Only in the oldest versions."] = None
    detail: Annotated[String | None, "What a record of another kind says, as JSON."] = None
    producer_id: Annotated[Bigint | None, "Null without one."]
    producer_epoch: Annotated[Int | None, "Null without a producer id."]
    is_transactional: Annotated[Boolean, "Committed inside a transaction."]
    problem: Annotated[
        String | None,
        "Why the row has only a place: an unknown kind or version, or bytes that can't be read. "
        "Null in sound rows.",
    ] = None


class ShareStateRow(RecordRow, frozen=True, kw_only=True):
    """One record of ``__share_group_state``."""

    kind: Annotated[
        String, "snapshot: the whole state; update: what has changed since; else unknown."
    ]
    key_version: Annotated[Int | None, "What the key begins with: the kind as a number."]
    value_version: Annotated[Int | None, "Null in a tombstone."]
    is_tombstone: Annotated[Boolean, "The state is deleted."]
    group_id: Annotated[String | None, "Of the share group."] = None
    shared_topic_id: Annotated[String | None, "Whose partition is shared."] = None
    shared_partition: Annotated[Int | None, "The partition that is shared."] = None
    snapshot_epoch: Annotated[Int | None, "Of the snapshot that updates build on."] = None
    state_epoch: Annotated[
        Int | None, "Rises where offsets are altered; null in an update, which keeps it."
    ] = None
    leader_epoch: Annotated[Int | None, "Of the leader that wrote; -1 before the first."] = None
    start_offset: Annotated[
        Bigint | None, "Records below are done with; null where the record has none."
    ] = None
    delivery_complete_count: Annotated[
        Int | None, "Records from the start on that are done with; null where the record has none."
    ] = None
    state_batches: Annotated[
        tuple[dict[str, int], ...] | None,
        STATE_BATCHES_TYPE,
        "Ranges with their state (0 available, 2 acknowledged, 3 archiving, 4 archived); of an "
        "update, those that have changed. Null in a tombstone.",
    ] = None
    create_timestamp_ms: Annotated[Bigint | None, "Of a snapshot: when its state was new."] = None
    write_timestamp_ms: Annotated[Bigint | None, "Of a snapshot: when it was written."] = None
    problem: Annotated[
        String | None,
        "Why the row has only a place: an unknown kind or version, or bytes that can't be read. "
        "Null in sound rows.",
    ] = None


class SegmentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One segment."""

    file: Annotated[String, "Path of the `.log` file."]
    size_bytes: Annotated[Bigint, "Of the file."]
    sound_bytes: Annotated[Bigint | None, "Up to where it stops making sense; else the same."] = (
        None
    )
    is_last: Annotated[Boolean, "The one that was written to."]
    batches: Annotated[Bigint | None, "In it."] = None
    records: Annotated[Bigint | None, "In them."] = None
    first_offset: Annotated[Bigint | None, "Null where it is empty."] = None
    last_offset: Annotated[Bigint | None, "Null where it is empty."] = None
    max_timestamp_ms: Annotated[Bigint | None, "Null where it is empty."] = None


class ReplicaRow(msgspec.Struct, frozen=True, kw_only=True):
    """One replica."""

    directory: Annotated[String, "The replica's folder."]
    cluster_id: Annotated[String | None, "Of `meta.properties`."]
    topic_id: Annotated[String | None, "Of `partition.metadata`."]
    segments: Annotated[Int, "`.log` files."]
    size_bytes: Annotated[Bigint, "Of them."]
    first_segment_offset: Annotated[Bigint | None, "The oldest segment's number."]
    last_segment_offset: Annotated[Bigint | None, "The newest segment's number."]
    log_start_offset: Annotated[
        Bigint | None,
        "Of `log-start-offset-checkpoint`; where that does not name the replica, the oldest "
        "segment's number.",
    ]
    high_watermark: Annotated[Bigint | None, "As checkpointed; null where it is not."]
    recovery_point: Annotated[Bigint | None, "Flushed up to here; null where it is not known."]
    last_snapshot_offset: Annotated[Bigint | None, "Of the newest `.snapshot`."]
    is_clean: Annotated[Boolean, "The broker stopped in order (`.kafka_cleanshutdown`)."]


class ErrorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a file becomes malformed."""

    file: Annotated[String, "Path of the file."]
    kind: Annotated[
        String,
        "torn, format, length, crc, behind, records, txn_index, snapshot, checkpoint, metadata, "
        "missing, short or unreadable.",
    ]
    position: Annotated[Bigint, "First byte that makes no sense."] = 0
    size_bytes: Annotated[
        Bigint, "From there to the end of the file; of kinds crc and records the batch's."
    ]
    is_cut: Annotated[Boolean, "A broker that starts here cuts it off (LogSegment.recover)."] = (
        False
    )
    reason: Annotated[String, "What was found, for people."]


_REPLICA_COLUMNS: Final = """
    log_dir string The log directory, as it was found.
    broker int Whose it is (`meta.properties`); -1 where it does not tell.
    topic string Of the replica.
    partition int Of the replica.
"""
_SEGMENT_COLUMNS: Final = f"""{_REPLICA_COLUMNS}\
    segment_base_offset bigint Of the segment: the number its file is named for.
"""
_PRODUCER_COLUMNS: Final = """
    producer_id bigint Null without one.
    producer_epoch int Null without a producer id.
"""
_NULL_IN_SOME_BATCHES: Final = (
    "codec",
    "producer_id",
    "producer_epoch",
    "control_type",
    "coordinator_epoch",
)
"""Columns of a batch's header that may be null. Spark checks each value of such a column twice,
which takes a quarter of the time for reading a row.
"""

_TABLES: Final = {
    "batches": Table.of(
        "A row per record batch, from its header alone.",
        _SEGMENT_COLUMNS,
        """
        position bigint First byte in the file.
        size_bytes int Of the whole batch.
        base_offset bigint Offset of the first record, also of one cleaned away.
        last_offset bigint Offset of the last record, also of one cleaned away.
        leader_epoch int Of the leader that appended it.
        crc bigint CRC-32C as stated.
        codec string none, gzip, snappy, lz4 or zstd; null for an unknown one.
        timestamp_type string CreateTime or LogAppendTime.
        is_transactional boolean Part of a transaction; markers are, too.
        is_control boolean Holds a marker or another control record.
        has_delete_horizon boolean The cleaner has been here: `base_timestamp_ms` is when markers
            and tombstones may go.
        base_timestamp_ms bigint What the records' timestamps count from.
        max_timestamp_ms bigint Largest timestamp of its records.
        """,
        _PRODUCER_COLUMNS,
        """
        base_sequence int Sequence of the first record; null without one.
        records int How many there are; 0 in a batch that the cleaner emptied.
        control_type string abort, commit, or another control record's name; null in a batch of
            data.
        coordinator_epoch int Of the marker's coordinator.
        is_valid boolean Whether the CRC is right; null where it was not computed.
        """,
        nullable={*_NULL_IN_SOME_BATCHES, "base_sequence", "is_valid"},
    ),
    "fragments": Table.of(
        "What one producer did in one segment of one replica, such that the rows of a replica "
        "can be merged in any grouping, in order of `first_offset`. The *head* is what came in "
        "front of the first marker, the *tail* what came behind the last one. A segment with very "
        "many producers has several rows for one (memory is bounded). Batches without a producer "
        "have a row, too.",
        _SEGMENT_COLUMNS,
        """
        producer_id bigint The producer; null for batches without one.
        first_offset bigint Of its first batch.
        last_offset bigint Of its last batch.
        batches bigint Of data.
        records bigint In them.
        bytes bigint Of all its batches, markers included.
        first_epoch int Producer epoch of the first batch of data.
        first_sequence int Its sequence.
        last_epoch int Producer epoch of the last batch, a marker included.
        last_sequence int Of the last record of data.
        last_timestamp_ms bigint The largest, markers included.
        commits bigint Markers.
        aborts bigint Markers.
        coordinator_epoch int Of the last marker.
        head_offset bigint Where the transaction in front of the first marker began, unless in an
            older segment.
        head_marker_offset bigint Of the first marker.
        head_is_commit boolean Whether that one commits.
        open_offset bigint Where the transaction after the last marker began; in a segment without
            a marker the same as `head_offset`.
        open_timestamp_ms bigint Of that batch.
        open_last_timestamp_ms bigint Of the transaction's last batch.
        open_epoch int Producer epoch of that.
        open_records bigint Of the transaction, in this segment.
        sequence_gaps bigint Batches whose sequence is not the next one.
        epochs_back bigint Batches of an older epoch than one before.
        idle_markers bigint Markers behind a marker, nothing in between.
        """,
    ),
    "endings": Table.of(
        "A row per transaction that ended on a partition: per marker.",
        _SEGMENT_COLUMNS,
        """
        producer_id bigint Whose transaction.
        producer_epoch int Of the marker.
        first_offset bigint Where it began in this segment; null if before, or if there was nothing
            to end.
        marker_offset bigint Of the marker.
        is_commit boolean Or an abort.
        coordinator_epoch int Of the marker's coordinator.
        first_timestamp_ms bigint Of the batch at `first_offset`.
        timestamp_ms bigint Of the marker.
        records bigint Of data in this segment.
        """,
    ),
    "records": Table.of(
        "A row per record, decompressed and decoded; control records too. The expensive one.",
        _SEGMENT_COLUMNS,
        columns_of(RecordRow),
        "timestamp_type string CreateTime or LogAppendTime.",
        "key binary Null without one.",
        "value binary Null in a tombstone.",
        (Column("headers", HEADERS_TYPE, "In order; may be empty."),),
        _PRODUCER_COLUMNS,
        """
        sequence int Of the record; null without one.
        is_transactional boolean As its batch.
        is_control boolean As its batch.
        control_type string abort, commit, or another control record's name.
        coordinator_epoch int Of the marker's coordinator.
        codec string Of its batch.
        leader_epoch int Of its batch.
        batch_base_offset bigint Of its batch.
        batch_position bigint First byte of its batch in the file.
        """,
        nullable={*_NULL_IN_SOME_BATCHES, "key", "value", "sequence"},
    ),
    "producer_state": Table.of(
        "A row per producer and snapshot (`.snapshot`): what a broker knew of it at that offset. "
        "After a stop in order the last one names every open transaction.",
        _REPLICA_COLUMNS,
        columns_of(ProducerRow),
    ),
    "aborted": Table.of(
        "A row per aborted transaction (`.txnindex`), as read_committed consumers get it.",
        _SEGMENT_COLUMNS,
        columns_of(AbortedRow),
    ),
    "leader_epochs": Table.of(
        "A row per leader epoch of a replica (`leader-epoch-checkpoint`).",
        _REPLICA_COLUMNS,
        columns_of(LeaderEpochRow),
    ),
    "transactions": Table.of(
        "A row per record of `__transaction_state`: what the coordinator wrote, in order. The "
        "last one per transactional id, by partition and offset, is its entry.",
        _SEGMENT_COLUMNS,
        columns_of(TransactionRow),
    ),
    "offsets": Table.of(
        "A row per record of `__consumer_offsets`: offsets that groups committed, and what their "
        "coordinators wrote about them. A commit inside a transaction counts once its COMMIT "
        "marker follows (table endings).",
        _SEGMENT_COLUMNS,
        columns_of(OffsetRow),
    ),
    "share_states": Table.of(
        "A row per record of `__share_group_state`: how far the share groups are. The state of a "
        "share partition is its last snapshot and the updates behind it.",
        _SEGMENT_COLUMNS,
        columns_of(ShareStateRow),
    ),
    "segments": Table.of(
        "A row per segment: how large it is and what it spans, by its headers.",
        _SEGMENT_COLUMNS,
        columns_of(SegmentRow),
    ),
    "replicas": Table.of(
        "A row per replica, from the small files of its directory: no segment is read.",
        _REPLICA_COLUMNS,
        columns_of(ReplicaRow),
    ),
    "errors": Table.of(
        "A row per place where a file stops making sense, and per file that is gone. Nothing ends "
        "this read: it goes on with the next file.",
        _SEGMENT_COLUMNS,
        columns_of(ErrorRow),
    ),
    "findings": Table.of(
        "A row per open transaction and partition, judged (docs/forensics.md). One task reads "
        "all directories: for logs of many gigabytes use `txnsim_spark.find_hanging`, which "
        "shares them out.",
        f"""
        log_dir string Where the replica lies whose word counts.
        broker int Whose replica that is; -1 where its directory does not tell.
        topic string Where the transaction is open.
        partition int Where the transaction is open.
        topic_id string Of the replica's `partition.metadata`; null where it has none.
        producer_id bigint Whose transaction.
        producer_epoch int Of its last batch.
        coordinator_epoch int Of the producer's last marker; null before the first.
        start_offset bigint Of its first record.
        started_at {TIMESTAMP_TYPE} Of its first batch; null where that is not there any more.
        last_written_at {TIMESTAMP_TYPE} Of its last batch.
        as_of {TIMESTAMP_TYPE} The time that ages are counted to.
        age_ms bigint From `last_written_at` to `as_of`.
        verdict string hanging, decided, alive, replicas_disagree, recent or unknown.
        rule string What the coordinator's log decided.
        reason string A sentence for people.
        listed_by_kafka boolean Kafka's own find-hanging would list it.
        is_late boolean Older than its timeout and five minutes.
        transactional_id string Null where no coordinator knows the producer.
        state string Of the transactional id's entry.
        outcome string The marker that it should have had: commit, abort or unknown; null where it
            is not over.
        timeout_ms int `transaction.timeout.ms` of the producer.
        open_on {BROKERS_TYPE} Brokers whose replica has it open.
        behind {BROKERS_TYPE} Brokers whose replica has not come that far.
        against {BROKERS_TYPE} Brokers whose replica contradicts.
        evidence_status string sound, damaged or incomplete.
        evidence_reasons {TEXTS_TYPE} Why it is not sound; empty where it is.
        replicas string Which replicas were seen, in words.
        evidence string All of the evidence, as JSON.
        command string What ends it with the marker that was decided; null unless it hangs, and
            where the evidence is not sound.
        """,
        nullable=(
            *("topic_id", "coordinator_epoch", "started_at", "transactional_id", "state"),
            *("outcome", "timeout_ms", "command"),
        ),
    ),
}
_TIME_COLUMN_ENDING: Final = "timestamp_ms"


def milliseconds_of(name: str) -> str:
    """The column of milliseconds from which a column of times is computed."""
    return f"{name}_ms"


def _with_times(columns: Sequence[Column]) -> Iterator[Column]:
    for column in columns:
        yield column
        if column.name.endswith(_TIME_COLUMN_ENDING):
            meaning = f"`{column.name}` as a time; null before 1970 and after 9999."
            yield Column(column.name.removesuffix("_ms"), TIMESTAMP_TYPE, meaning)


TABLES: Final = {
    name: msgspec.structs.replace(table, columns=tuple(_with_times(table.columns)))
    for name, table in _TABLES.items()
}
"""Name -> table; each ``timestamp_ms`` column is followed by a ``timestamp`` column."""
DECODED_TABLES: Final = ("records", "transactions", "offsets", "share_states")
"""Tables with a row per record."""
OFFSET_COLUMNS: Final = {
    "batches": ("base_offset", "last_offset"),
    "fragments": ("first_offset", "last_offset"),
    "endings": ("marker_offset", "marker_offset"),
    **dict.fromkeys(DECODED_TABLES, ("offset", "offset")),
}
"""Table -> columns of a row's first and last offset, if it has such."""
TIME_COLUMNS: Final = {
    "batches": "max_timestamp_ms",
    "fragments": "last_timestamp_ms",
    **dict.fromkeys(("endings", *DECODED_TABLES), "timestamp_ms"),
}
"""Table -> column of a row's time, if it has one: none is later than the segment's largest."""
TABLES_BY_PRODUCER: Final = frozenset(
    {"aborted", "batches", "endings", "fragments", "offsets", "producer_state", "records"}
)
"""Tables whose rows can be chosen by producer before they are made. In ``transactions`` the
producer is known only when the record has been read.
"""
