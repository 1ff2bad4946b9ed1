"""The tables of a trace: their columns and what these mean. Plain data, without Spark.

Times are microseconds of the run (column ``t`` of a trace): exact in virtual time. A null means
that the trace lacks the value: it began later or ended earlier. docs/trace-tables.md is generated
from this module.
"""

from __future__ import annotations

from typing import Final

from txnsim_spark.schemas import Table

VIEW_PREFIX: Final = "trace_"
"""Prefix of a table's view in Spark SQL, such as ``trace_transactions``."""


_RUN_COLUMN: Final = (
    "run string Which trace: the path of its file, as far as it tells it from others."
)
_EVENT_COLUMNS: Final = """
    i bigint The event's position in its trace.
    at_us bigint When: microseconds since the run's start.
"""
_PARTITION_COLUMNS: Final = """
    topic string The topic.
    partition int Its partition.
"""
_PRODUCER_COLUMNS: Final = """
    transactional_id string Whose; where an event does not say, that of its producer id.
    producer_id bigint The producer id.
    producer_epoch int Its epoch.
"""
_NUMBER_COLUMN: Final = (
    "number int Which of the transactional id's transactions in this trace, from 1 on."
)
_VERSION_COLUMN: Final = """
    transaction_version int 2 where transactions v2 are spoken; else 1 or 0, the cluster's level.
"""

TABLES: Final[dict[str, Table]] = {
    "runs": Table.of(
        "One row for each trace: what its header and trailer say.",
        _RUN_COLUMN,
        """
        file string Where it was read.
        schema_version int Of the trace's format.
        sim string Version of txnsim.
        scenario string The story that was played, empty without one.
        scenario_run string Which run of the scenario.
        take string `armed`, `disarmed` or `control`; empty without a scenario.
        seed bigint Of all chance; null where the run was not drawn from one.
        level string How much was recorded: `brief` or `full`.
        mode string The transaction protocol of the story: `V-`, `V+`, `TV2` or `TV2+`.
        brokers int How many; null in a trace of schema 1.
        releases array<string> Of Apache Kafka, as they were asked for; none for the newest.
        rules map<string,boolean> Behaviours that differ from those of the release.
        clock string `virtual` or `real`.
        settings map<string,string> Settings that differ from the defaults, by Kafka's names.
        first bigint Position of the oldest event that was kept.
        events bigint How many were ever recorded; null where the trailer is missing.
        hash string The trailer's, equal for equal runs.
        verdict string What a scenario's judges found.
        """,
    ),
    "events": Table.of(
        "One row for each event, also of kinds that this release does not know.",
        _RUN_COLUMN,
        _EVENT_COLUMNS,
        """
        lamport bigint Lamport clock; of a server's trace its steps are uneven.
        node string The role it happened at: `broker/1`, `broker/1/txn/7` or the like.
        role string What sort of role: `broker`, `txn` (a coordinator), `log`, `client` and others.
        broker int Which broker, where it is one.
        kind string The kind (trace-kinds.md).
        is_known boolean Whether this release knows the kind.
        cause bigint Position of the event that it is mainly due to.
        causes array<bigint> Positions of all such events.
        """,
        _PRODUCER_COLUMNS.replace(
            "; where an event does not say, that of its producer id", ", if it says so"
        ),
        _PARTITION_COLUMNS,
        """
        error string Kafka's name of the error; null for none.
        details string The payload as it was written, JSON.
        """,
    ),
    "producers": Table.of(
        "One row for each producer id that belongs to a transactional id.",
        _RUN_COLUMN,
        """
        producer_id bigint The producer id.
        transactional_id string Whose it is.
        """,
        _VERSION_COLUMN,
    ),
    "steps": Table.of(
        "One row for each event that concerns a transactional id: decisions, moves, markers, writes"
        ". In order of `i` they are the life of one.",
        _RUN_COLUMN,
        _EVENT_COLUMNS,
        "kind string The event's kind (trace-kinds.md).",
        "broker int At which broker.",
        _PRODUCER_COLUMNS,
        _NUMBER_COLUMN.replace("from 1 on", "from 1 on; 0 before the first"),
        _VERSION_COLUMN,
        _PARTITION_COLUMNS,
        """
        state string The state that was reached, where the event is a move that took effect.
        command string The last command before it that a coordinator carried out.
        commanded_us bigint When that was.
        error string Kafka's name of the error; null for none.
        level int Level of the feature transaction.version, where the event is a move.
        client_version int Version of the protocol that the move was written with: 0 or 2.
        timeout_ms bigint The producer's transaction.timeout.ms, where the event is a move.
        partitions array<string> Those of the transaction then, where the event is a move.
        first_offset bigint Where the transaction begins on the partition that it is opened on.
        offset bigint A marker's offset.
        committed boolean COMMIT or ABORT, of a marker.
        attempt int Which sending of a marker it is, from 2 on; null for the first.
        """,
    ),
    "transactions": Table.of(
        "One row for each transaction, as its coordinator saw it.",
        _RUN_COLUMN,
        """
        transactional_id string Whose.
        number int Which of the id's transactions in this trace, from 1 on.
        producer_id bigint The producer id it was begun with.
        producer_epoch int The epoch it was begun with.
        end_epoch int The epoch of its markers: one more under transactions v2 and for a fence.
        """,
        _VERSION_COLUMN,
        """
        level int Level of the feature transaction.version.
        client_version int Version of the protocol that it was written with: 0 or 2.
        coordinator int The broker that decided it; where undecided, began it.
        timeout_ms bigint Its producer's transaction.timeout.ms.
        began_us bigint When its first partition was added; null where it was aborted empty.
        first_write_us bigint When its first batch was in a log.
        asked_us bigint When the command came that ended it.
        decided_us bigint When the decision was in the transaction log (PrepareCommit or -Abort).
        completed_us bigint When every marker was written and that was in the log.
        decided_by string The command: `EndTxn`, `InitProducerId` (a fence), `timeout`.
        outcome string `committed`, `aborted`, or `undecided` at the end of the trace.
        timed_out boolean Whether the coordinator ended it because it took too long.
        partitions array<string> All that were ever part of it.
        writes int Batches that went in, repeats left out.
        refused_writes int Batches that a log refused.
        refusals int Commands that the coordinator refused meanwhile.
        last_error string The last such refusal's error.
        """,
    ),
    "markers": Table.of(
        "One row for each marker that a transaction owes a partition, and for each one that was "
        "written without being owed.",
        _RUN_COLUMN,
        _PRODUCER_COLUMNS,
        _NUMBER_COLUMN,
        _VERSION_COLUMN,
        _PARTITION_COLUMNS,
        """
        committed boolean COMMIT or ABORT.
        owed_us bigint When the coordinator began to owe it: decided. Null for one that it did not.
        sent_us bigint When it was sent first; of a `brief` trace, when it was sent again.
        sends int How often it was sent.
        refused int How often a leader refused it.
        written_us bigint When it was first in the partition's log.
        offset bigint Its offset there.
        leader int The broker that wrote it.
        acked_us bigint When the coordinator knew.
        strays int Markers of this producer written here before this one was owed: late ones of an
            earlier transaction, or an operator's.
        """,
    ),
    "partition_transactions": Table.of(
        "One row for each time that a producer had a transaction open on a partition's log.",
        _RUN_COLUMN,
        _PARTITION_COLUMNS,
        _PRODUCER_COLUMNS,
        _NUMBER_COLUMN,
        _VERSION_COLUMN,
        """
        leader int The broker at which it was opened.
        first_offset bigint Its first offset: the last stable offset can't pass it.
        opened_us bigint When its first batch was in the log.
        closed_us bigint When a marker closed it; null where it is open at the end of the trace.
        marker_offset bigint The marker's offset.
        committed boolean COMMIT or ABORT.
        open_us bigint How long it was open, up to the end of the trace at most.
        timeout_ms bigint The transaction.timeout.ms of its transaction.
        opened_late boolean Whether its transaction was decided before: it stays open for good.
        """,
    ),
    "positions": Table.of(
        "One row for each moment at which a leader's log moved, with what was known of it then.",
        _RUN_COLUMN,
        _EVENT_COLUMNS,
        _PARTITION_COLUMNS,
        """
        leader int The broker.
        kind string What moved it.
        log_end bigint Log end offset.
        high_watermark bigint High watermark; the log end where the trace is `brief` and tells none.
        last_stable bigint Last stable offset.
        lag bigint High watermark − last stable offset: what read_committed does not see yet.
        lasts_us bigint How long it stayed so, up to the end of the trace at most.
        """,
    ),
    "stalls": Table.of(
        "One row for each time that a last stable offset stood still below the high watermark.",
        _RUN_COLUMN,
        _PARTITION_COLUMNS,
        """
        last_stable bigint Where it stood.
        from_us bigint Since when.
        stalled_us bigint For how long.
        lag_max bigint How far it was behind at most.
        is_over boolean Whether it went on within the trace.
        """,
        _PRODUCER_COLUMNS.replace(
            "Whose; where an event does not say, that of its producer id",
            "Whose transaction began there and held it",
        ),
        _NUMBER_COLUMN,
        _VERSION_COLUMN,
    ),
    "verifications": Table.of(
        "One row for each question of a leader to a coordinator before a transaction opens (KIP-890"
        ").",
        _RUN_COLUMN,
        """
        asked_us bigint When it was asked.
        answered_us bigint When the answer was there; null where none came, which is seen at `full`.
        waited_us bigint How long that took.
        leader int The broker that asked.
        """,
        _PRODUCER_COLUMNS,
        _VERSION_COLUMN,
        _PARTITION_COLUMNS,
        """
        adds boolean Whether the partition is added by it (transactions v2) or only looked for.
        outcome string `allowed`, `refused` or `unanswered`.
        error string Why it was refused, as it is answered to the client's Produce or its like.
        """,
    ),
    "writes": Table.of(
        "One row for each batch of a client that reached a leader's log.",
        _RUN_COLUMN,
        _EVENT_COLUMNS,
        _PARTITION_COLUMNS,
        """
        leader int The broker.
        """,
        _PRODUCER_COLUMNS,
        """
        base_sequence int Its base sequence.
        base_offset bigint Where it is; null where it was refused.
        last_offset bigint The offset of its last record; null where it was refused or a duplicate.
        transactional boolean Whether it is part of a transaction.
        opened boolean Whether it opened the transaction on this partition.
        outcome string `appended`, `duplicate` or `refused`.
        error string Why it was refused.
        reason string The same in words.
        """,
    ),
    "epoch_bumps": Table.of(
        "One row for each time that a transactional id's epoch rose or its producer id changed.",
        _RUN_COLUMN,
        _EVENT_COLUMNS,
        """
        transactional_id string Whose.
        coordinator int The broker that did it.
        from_producer_id bigint Before.
        from_epoch int Before.
        producer_id bigint After.
        epoch int After.
        command string By which command: `EndTxn` (transactions v2), `InitProducerId`, `timeout`.
        state string The state that was reached with it.
        """,
        _VERSION_COLUMN,
    ),
    "commands": Table.of(
        "One row for each command that a coordinator decided, for or against.",
        _RUN_COLUMN,
        _EVENT_COLUMNS,
        """
        coordinator int The broker.
        transactional_id string Whose.
        command string `InitProducerId`, `AddPartitionsToTxn`, `EndTxn`, `timeout`.
        state string The state it met.
        pending string The move that was under way already.
        error string Why it was refused; null where it was not.
        reason string The same in words.
        """,
    ),
    "requests": Table.of(
        "One row for each request that a broker received, from clients and from other brokers.",
        _RUN_COLUMN,
        _EVENT_COLUMNS,
        """
        broker int The broker that received it.
        peer string The sender: `client/ID` or `broker/ID`.
        api string Kafka's name of it.
        version int The request's version.
        correlation bigint The sender's number of it.
        answered_us bigint When the answer was ready; null where none is known, as at `brief`.
        error string Errors in the answer, each once; of clients' requests only.
        """,
    ),
    "faults": Table.of(
        "One row for each crossing that a fault rule has struck.",
        _RUN_COLUMN,
        _EVENT_COLUMNS,
        """
        rule string The rule's id.
        point string The fault point.
        action string What was done to it.
        api string The request, where it is one.
        source string The sender.
        target string The receiver, or the place.
        """,
    ),
    "unreadable": Table.of(
        "One row for each line that is no event: cut off, damaged, or lost by the listener.",
        _RUN_COLUMN,
        """
        file string Where.
        reason string What is wrong with it.
        text string How it begins.
        """,
    ),
}
"""Name -> table, in the order of the documents."""


def view_of(table: str) -> str:
    """Name of a table's view in Spark SQL."""
    return VIEW_PREFIX + table
