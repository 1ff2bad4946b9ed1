"""Every sentence of a verdict. Each is made once, here; commands, control port, page, lessons and
reports print it as it is.

The sentences on one open transaction (``OpenTxnStatus.judge``) and on its past decision
(``DecisionEvidence``) are made with them, and stand inside of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from txnsim.shell_text import ShellText, command_line, continued, option
from txnsim.txn.open_txn_verdict import DISCARD_WARNING, OpenTxnStatus
from txnsim.txn.past_decision import DecisionEvidence
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim.verdict.facts import MarkerSending, OwedMarkerFacts, PartitionFacts, WrongData
from txnsim.verdict.reader_standing import BlockingTxn, Cause, ReaderStanding

NAMED_GROUPS_MAX: Final = 10
"""Most share groups that a sentence names."""

# Names


def transaction_name(transactional_id: str | None, producer_id: int) -> str:
    """How a sentence names a transaction."""
    if transactional_id is None:
        return f"a transaction of producer {producer_id}"
    return transactional_id


def marker_name(*, is_commit: bool) -> str:
    return "COMMIT" if is_commit else "ABORT"


def _headline_start(transactional_id: str | None, producer_id: int) -> str:
    """How a headline that begins with a transaction names it. An id keeps its letters, also one
    that reads like words.
    """
    if transactional_id is None:
        return f"A transaction of producer {producer_id}"
    return transactional_id


# Headlines: without a full stop


def healthy_headline(partition: TopicPartition | None = None) -> str:
    if partition is None:
        return "No transaction holds readers back"
    return f"No transaction holds readers of {partition} back"


def hanging_headline(
    transactional_id: str | None,
    producer_id: int,
    partition: TopicPartition,
    *,
    first_offset: int,
    log_start: int,
    stands_at: int | None,
) -> str:
    """The headline of a transaction that no marker will end.

    Args:
        transactional_id: Whose transaction it is; None if no coordinator knows its producer id.
        producer_id: The producer id of the transaction.
        partition: The partition.
        first_offset: First offset of the transaction.
        log_start: First offset of the log. DeleteRecords may have deleted records of the
            transaction, which stays open, as on a real broker.
        stands_at: Where readers stand because of it; None if another transaction holds them.
    """
    effect = (
        f"open since offset {first_offset}"
        if stands_at is None
        else f"readers get nothing from offset {stands_at} on"
    )
    deleted_text = _deleted_text(first_offset, log_start)
    # The transaction hangs: the name of an application alone reads as if the application hung.
    owner_name = f"producer {producer_id}" if transactional_id is None else transactional_id
    return f"A transaction of {owner_name} hangs on {partition}: {effect}{deleted_text}"


def open_headline(
    transactional_id: str | None,
    producer_id: int,
    partition: TopicPartition,
    *,
    first_offset: int,
    log_start: int,
) -> str:
    name = _headline_start(transactional_id, producer_id)
    deleted_text = _deleted_text(first_offset, log_start)
    return f"{name} is open on {partition} since offset {first_offset}{deleted_text}"


def _deleted_text(first_offset: int, log_start: int) -> str:
    if first_offset >= log_start:
        return ""
    return f". Its first records are deleted: the log begins at {log_start}"


def owed_headline(name: str, partition: TopicPartition, owed_marker: OwedMarkerFacts | None) -> str:
    if owed_marker is None:
        return f"{partition} waits for the marker of {name}"
    marker = marker_name(is_commit=owed_marker.is_commit)
    detail = {
        MarkerSending.ABANDONED: ", which its coordinator does not send again",
        MarkerSending.HELD: f", which the fault rule {owed_marker.held_by!r} holds",
        MarkerSending.RETRIED: ", which its coordinator sends again",
    }.get(owed_marker.sending, "")
    return f"{partition} waits for the {marker} marker of {name}{detail}"


def unserved_headline(
    name: str, partition: TopicPartition, unserved_coordinators: Sequence[int]
) -> str:
    return (
        f"{partition} waits for the coordinator of {name}: {_unserved_text(unserved_coordinators)}"
    )


def replication_headline(partition: TopicPartition) -> str:
    return f"{partition} waits for its replicas: a marker is not on all of them yet"


def leaderless_headline(facts: PartitionFacts) -> str:
    if facts.leader_id < 0:
        return f"{facts.partition} has no leader"
    return (
        f"{facts.partition} has no leader: broker {facts.leader_id} does not run, or not lead yet"
    )


def wrong_data_headline(contradiction: WrongData) -> str:
    ending_word, opposite_marker = (
        ("committed", "ABORT") if contradiction.is_commit else ("aborted", "COMMIT")
    )
    txn_name = transaction_name(contradiction.transactional_id, contradiction.producer_id)
    belief_text = (
        "whose application was answered that it is"
        if contradiction.is_by_application
        else "which was"
    )
    return (
        f"{contradiction.partition} has wrong data: the {opposite_marker} marker at offset"
        f" {contradiction.offset} has"
        f" ended records of {txn_name}, {belief_text} {ending_word}"
    )


def ignorance_headline(reason: str) -> str:
    return f"What is so now is not known: {reason}"


def untold_headline(partition: TopicPartition) -> str:
    return f"Readers of {partition} stand still, and its brokers are too old to tell why"


def unfinished_headline(
    transactional_id: str, state: str, *, is_decided: bool, partitions: Sequence[str]
) -> str:
    """The headline of a transaction that no partition has open, and that its coordinator has not
    finished.
    """
    partitions_text = ", ".join(partitions)
    if not is_decided:
        with_text = f" with {partitions_text}" if partitions else ""
        return (
            f"{transactional_id} is open at its coordinator{with_text};"
            " no partition has an open record of it"
        )
    if partitions:
        return f"{transactional_id} is {state}: its coordinator waits for {partitions_text}"
    return f"{transactional_id} is {state}: its coordinator has yet to write down its end"


def application_sentence(asked_end: str | None, answer: str | None) -> str:
    """What an application knows of its newest transaction.

    Args:
        asked_end: The end that it has asked for, ``commit`` or ``abort``; None for none.
        answer: Error of the answer, ``NONE`` for success; None without an answer.
    """
    if asked_end is None:
        return "The application has not asked to end it."
    if answer is None:
        return f"The application asked to {asked_end}, and has no answer."
    if answer == "NONE":
        ending_word = "committed" if asked_end == "commit" else "aborted"
        return f"The application asked to {asked_end}, and knows that it is {ending_word}."
    return f"The application asked to {asked_end}, and got {answer}."


def application_status(asked_end: str | None, answer: str | None) -> str:
    """The same in a few words, for a picture: ``open``, ``asked to abort, no answer``,
    ``aborted ✓``.
    """
    if asked_end is None:
        return "open"
    if answer is None:
        return f"asked to {asked_end}, no answer"
    if answer == "NONE":
        return "committed ✓" if asked_end == "commit" else "aborted ✓"
    return f"asked to {asked_end}, got {answer}"


def application_request(asked_end: str) -> str:
    """What an application asks for, as a clause of a sentence: ``asks to commit``."""
    return f"asks to {asked_end}"


NO_TRANSACTION: Final = "no transaction yet"
UNRECORDED_APPLICATION: Final = "began before the recording"


def unrecorded_sentence(*, is_open: bool) -> str:
    """What is known of an application that has sent nothing in a transaction since the recording
    began.
    """
    if is_open:
        return "Its transaction began before the recording, so its application is not known."
    return "Its application has begun no transaction."


def coordinator_sentence(
    transactional_id: str, state: str, *, owed_count: int, is_last_commit: bool | None
) -> str:
    """What a coordinator has of a transactional id, without a full stop.

    Args:
        transactional_id: The id.
        state: The state's name.
        owed_count: Number of markers that it owes.
        is_last_commit: Whether its last transaction was committed; None if none is known to have
            ended.
    """
    markers = {0: "no marker is owed", 1: "its marker is owed"}.get(
        owed_count, f"{owed_count} markers are owed"
    )
    match state:
        case "Ongoing":
            return f"{transactional_id} is open"
        case "PrepareEpochFence":
            return f"{transactional_id} is being fenced"
        case "PrepareCommit" | "PrepareAbort":
            end_word = "commit" if state == "PrepareCommit" else "abort"
            return f"{transactional_id} is decided: {end_word}; {markers}"
        case "CompleteCommit" | "CompleteAbort":
            ending_word = "committed" if state == "CompleteCommit" else "aborted"
            return f"{transactional_id} is over: {ending_word}; {markers}"
    if is_last_commit is not None:
        return (
            f"{transactional_id} is over: {'committed' if is_last_commit else 'aborted'}; {markers}"
        )
    return f"{transactional_id} has begun no transaction"


def marker_status(owed_marker: OwedMarkerFacts) -> str:
    """The status of a marker that a coordinator owes, as a label for a picture."""
    return {
        MarkerSending.UNDER_WAY: "on its way",
        MarkerSending.RETRIED: "sent again",
        MarkerSending.LEADERLESS: "waits for a leader",
        MarkerSending.HELD: f"held by {owed_marker.held_by}",
        MarkerSending.ABANDONED: "not sent again",
        MarkerSending.UNTOLD: "owed",
    }[owed_marker.sending]


def operator_marker_label(*, is_commit: bool) -> str:
    """An operator's marker, for a picture."""
    return f"{marker_name(is_commit=is_commit)} by an operator"


def operator_marker_sentence(name: str, partition: str, *, is_commit: bool) -> str:
    """What an operator has done who has written a marker.

    Args:
        name: The transaction (``transaction_name``).
        partition: The partition.
        is_commit: Whether the marker is a COMMIT.
    """
    marker = marker_name(is_commit=is_commit)
    fate = "get" if is_commit else "discard"
    return (
        f"An operator has written the {marker} marker of {name} on {partition}. Readers {fate} its"
        " records."
    )


def repeated_marker_reason(*, is_of_later_coordinator: bool) -> str:
    """Why a marker was written a second time; without a full stop."""
    if is_of_later_coordinator:
        return "its coordinator was loaded anew, and did not know that it is written"
    return "its coordinator had no answer to the one before"


# On a real cluster


class RealKafkaAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """How a transaction that hangs is noticed, ended and prevented with Kafka's own tools (KIP-664,
    KIP-890).
    """

    notice: str
    find_command: ShellText
    end: str
    """What speaks against ending it with Kafka's tool; empty if nothing does."""
    end_command: ShellText | None
    prevent: str


_KAFKA_TOOL: Final = ("kafka-transactions.sh", "--bootstrap-server", "HOST:PORT")


def real_kafka_advice(
    partition: TopicPartition, stands_at: int, *, is_commit: bool
) -> RealKafkaAdvice:
    """What to do about a transaction that hangs on a real cluster.

    Args:
        partition: The partition.
        stands_at: Where readers stand.
        is_commit: Whether its coordinator has committed it.
    """
    partition_options = (
        *option("--topic", partition.topic),
        *option("--partition", partition.partition),
    )
    return RealKafkaAdvice(
        notice=(
            "The lag of read_committed groups stays, and the metric"
            " PartitionsWithLateTransactionsCount leaves 0."
        ),
        find_command=command_line(*_KAFKA_TOOL, "find-hanging", *partition_options),
        end=(
            "This tool writes ABORT alone, and this transaction was committed: its records would"
            " be lost."
            if is_commit
            else ""
        ),
        end_command=(
            None
            if is_commit
            else command_line(
                *_KAFKA_TOOL, "abort", *partition_options, *option("--start-offset", str(stands_at))
            )
        ),
        prevent=(
            "Brokers from 3.6 on verify (transaction.partition.verification.enable, on by"
            " default). From 4.0 on raise transaction.version to 2, with clients that speak it."
        ),
    )


# Groups


class ShareStanding(msgspec.Struct, frozen=True, kw_only=True):
    """Where a share group stands on a partition."""

    group_id: str
    start_offset: int
    next_offset: int
    """Where its next fetch reads."""
    held: tuple[str, ...]
    """What members hold, as ``first-last:member``."""
    waits_at: int | None
    """The offset of the open transaction at which it waits; None if it waits at none."""
    is_served: bool
    """Whether a broker serves it; else this was known last."""


LAST_KNOWN: Final = " (last known: no broker serves it)"


def share_group_sentence(share_standing: ShareStanding) -> str:
    """What a share group holds of a partition, where it stands and waits; without a full stop."""
    position_text = (
        f"next {share_standing.next_offset}"
        if share_standing.waits_at is None
        else f"waits at {share_standing.waits_at}"
    )
    holding_text = "no record is held"
    if share_standing.held:
        held_range, _, member = share_standing.held[0].partition(":")
        more_count = len(share_standing.held) - 1
        holding_text = (
            f"held: {held_range} by {member}{f' and {more_count} more' if more_count else ''}"
        )
    group_words = (
        f"share group {share_standing.group_id}{'' if share_standing.is_served else LAST_KNOWN}"
    )
    return (
        f"{group_words}: start offset {share_standing.start_offset}, {position_text} ·"
        f" {holding_text}"
    )


class StreamsMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a streams group (KIP-1071)."""

    member_id: str
    active: tuple[str, ...]
    """Tasks, as ``subtopology_partition``."""
    standby: tuple[str, ...]
    warmup: tuple[str, ...]
    revoked: tuple[str, ...]
    """Tasks that it has to give up first."""
    state: str


def streams_member_sentence(member: StreamsMember, *, is_served: bool) -> str:
    """What a member of a streams group holds, and what it waits for; without a full stop."""
    fact_texts = [
        f"{role} {', '.join(tasks)}"
        for role, tasks in (
            ("runs", member.active),
            ("keeps a standby of", member.standby),
            ("warms up", member.warmup),
        )
        if tasks
    ]
    if member.revoked:
        fact_texts.append(f"has to give up {', '.join(member.revoked)} first")
    elif member.state.lower() == "unreleased_tasks":
        fact_texts.append("waits for tasks that another member has to give up")
    member_words = f"{member.member_id} {'; '.join(fact_texts) or 'has no task'}"
    return member_words if is_served else f"{member_words}{LAST_KNOWN}"


def pending_position_sentence(partition: str, offset: int) -> str:
    """The position of a group that an open transaction has added; without a full stop."""
    return f"position {offset} of {partition} is in a transaction that is not over"


# What ends it


def producer_ends(timeout_ms: int, *, is_two_phase: bool) -> str:
    if is_two_phase:
        return "Its external coordinator ends it; it has no timeout."
    return f"Its producer ends it, or its coordinator after transaction.timeout.ms={timeout_ms}."


def marker_ends(owed_marker: OwedMarkerFacts | None) -> str:
    """Sentences that say which marker ends a decided transaction, and when."""
    if owed_marker is None or owed_marker.sending is MarkerSending.UNTOLD:
        return "Its marker ends it. Its coordinator has yet to get it written."
    marker = marker_name(is_commit=owed_marker.is_commit)
    match owed_marker.sending:
        case MarkerSending.UNDER_WAY:
            return f"Its {marker} marker ends it, and is on its way."
        case MarkerSending.RETRIED:
            return f"Its {marker} marker ends it. Its coordinator sends it again."
        case MarkerSending.LEADERLESS:
            return f"Its {marker} marker ends it, once the partition has a leader."
        case MarkerSending.HELD:
            return (
                f"The fault rule {owed_marker.held_by!r} holds its {marker} marker without a limit:"
                " release the rule."
            )
    return (
        f"Its coordinator does not send its {marker} marker again: move the leader of its partition"
        f" of {TRANSACTION_STATE_TOPIC}. The broker that loads it sends the marker."
    )


def unserved_ends(unserved_coordinators: Sequence[int]) -> str:
    return f"Its coordinator ends it, once it serves: {_unserved_text(unserved_coordinators)}."


def leader_ends(facts: PartitionFacts) -> str:
    return f"Readers and writers wait for a leader. {_start_text(facts)}"


def _start_text(facts: PartitionFacts) -> str:
    """Which brokers to start; a trace may know no replica but the leader."""
    candidates = facts.isr or facts.replicas or (facts.leader_id,)
    if len(candidates) == 1:
        return f"Start broker {candidates[0]}."
    return f"Start one of the brokers {', '.join(map(str, candidates))}."


REPAIR_ENDS: Final = "No timeout ends it, and no marker is on its way: an operator has to end it."
"""What ends a hanging transaction. The command stands beside it (``Ending.command``)."""


def repair_action(marker: str | None) -> str:
    """What a button says that ends a hanging transaction; `marker`: that of its coordinator's
    decision, None if this is unknown.
    """
    if marker is None:
        return "End it: the decision is unknown, write ABORT"
    return f"End it: write {marker}"


WRONG_DATA_ENDS: Final = (
    "Nothing mends it: readers get these records as the marker says. Compare with what the"
    " application was answered."
)
REPLICATION_ENDS: Final = "Replication ends it."


def _unserved_text(unserved_coordinators: Sequence[int]) -> str:
    name_list_text = ", ".join(
        f"{TRANSACTION_STATE_TOPIC}-{index}" for index in unserved_coordinators[:NAMED_GROUPS_MAX]
    )
    more_count = len(unserved_coordinators) - NAMED_GROUPS_MAX
    return f"no broker serves {name_list_text}{f' and {more_count} more' if more_count > 0 else ''}"


def unserved_reason(producer_id: int, unserved_coordinators: Sequence[int]) -> str:
    """Why it is not known what becomes of an open transaction, without its full stop."""
    return (
        f"no coordinator that serves knows producer id {producer_id}, and"
        f" {_unserved_text(unserved_coordinators)}"
    )


# Who waits


def waiters_sentence(readers: Sequence[str], share_groups: Sequence[object] | None) -> str:
    """Which consumers wait; none is said. Share groups that wait have a sentence of their own, so
    here stands only that none does.

    Args:
        readers: Client ids of the consumers.
        share_groups: The share groups; None if they are unknown.
    """
    no_group_text = "" if share_groups is None or share_groups else " No share group waits."
    return f"Consumers that wait: {', '.join(readers) or 'none'}.{no_group_text}"


def age_text(age_ms: int) -> str:
    """A time span in the largest unit that it fills: ``12 s``, ``3 min``, ``2 h``."""
    seconds = max(0, age_ms) // 1000
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 3600 else f"{seconds // 3600} h"


def standing_word(
    *, state: str, is_led: bool, holder_age_ms: int | None, is_alive: bool, stands_at: int | None
) -> str:
    """Where readers of a partition stand, for a table: ``move``, ``open, 3 s``,
    ``stand at offset 1``, ``no leader``, ``wrong data``.

    Args:
        state: The state's word.
        is_led: Whether it has a leader that runs.
        holder_age_ms: Age of the open transaction at which they stand; None if unknown.
        is_alive: Whether that one is open at its coordinator, too.
        stands_at: The offset at which a transaction or replication holds them; None if nothing
            does.
    """
    if not is_led:
        return "no leader"
    if stands_at is None:
        return "wrong data" if state == "wrong-data" else "move"
    if is_alive:
        return "open" if holder_age_ms is None else f"open, {age_text(holder_age_ms)}"
    return f"stand at offset {stands_at}"


def holder_mark(*, is_hanging: bool) -> str:
    """The label of the transaction at which readers stop, for a picture."""
    return f"open from here{' · no marker will come' if is_hanging else ''}"


def reader_mark(readers: Sequence[str] | None) -> str:
    """The label of the readers at the last stable offset, for a picture."""
    if not readers:
        return "readers stop here"
    return f"{', '.join(readers[:NAMED_GROUPS_MAX])} {'waits' if len(readers) == 1 else 'wait'}"


READERS_AT_END: Final = "readers get everything"
"""The label of the readers where nothing holds them back, for a picture."""


def standing_summary(
    *,
    age_ms: int | None,
    records_behind: int,
    readers: Sequence[str] | None,
    share_groups: Sequence[str] | None,
) -> str:
    """One line on an open transaction that holds readers back: since when, how much it withholds,
    who waits.

    Args:
        age_ms: Time since the timestamp of its first batch; None if that is deleted or unknown.
        records_behind: Offsets that read_committed readers don't get.
        readers: Client ids of the consumers that wait; None if unknown.
        share_groups: Share groups that wait; None if unknown.
    """
    offsets = "offset" if records_behind == 1 else "offsets"
    fact_texts = [f"{records_behind} {offsets} withheld from readers"]
    if age_ms is not None:
        # Since when it is open is known by a timestamp only, which the producer has set.
        fact_texts.insert(0, f"its first record is {age_text(age_ms)} old by its timestamp")
    if readers or share_groups:
        waiters = [*(readers or ()), *(f"share group {name}" for name in share_groups or ())]
        named_groups = ", ".join(waiters[:NAMED_GROUPS_MAX])
        unnamed_count = len(waiters) - NAMED_GROUPS_MAX
        fact_texts.append(
            f"waiting: {named_groups}{f' and {unnamed_count} more' if unnamed_count > 0 else ''}"
        )
    elif readers is not None:
        fact_texts.append("no consumer waits at this moment")
    return " · ".join(fact_texts)


# Where readers of a partition stand, in full


def standing_sentences(reader_standing: ReaderStanding) -> tuple[str, ...]:
    """Explain why readers don't get further, and what to do."""
    if reader_standing.cause is Cause.NOTHING:
        return (
            f"{healthy_headline()}: the last stable offset is"
            f" {reader_standing.last_stable_offset}, the high watermark is"
            f" {reader_standing.high_watermark}.",
            "A consumer that stands there has read everything. One that stands lower is held"
            " back by itself, by its group, or by a broker it can't reach.",
            *_delay_causes(reader_standing),
        )
    withheld_text = withheld_sentence(
        reader_standing.last_stable_offset, reader_standing.high_watermark
    )
    blocking_txn = reader_standing.blocking_txn
    if reader_standing.cause is Cause.WRITTEN:
        return (
            withheld_text,
            "No transaction is open there. What was written last is at the leader and not yet"
            " on all replicas that are in sync. It is a matter of replication.",
        )
    if blocking_txn is None or reader_standing.cause is Cause.UNREPLICATED:
        return (
            withheld_text,
            "No transaction is open there any more: the marker that ended it is written at the"
            " leader and not yet on all replicas that are in sync. It is a matter of"
            " replication.",
            *_delay_causes(reader_standing),
        )
    later_txns = (
        (f"Transactions that are open behind it: {reader_standing.later_open_count}.",)
        if reader_standing.later_open_count
        else ()
    )
    share_groups = (
        (_share_groups_sentence(reader_standing.share_groups),)
        if reader_standing.share_groups
        else ()
    )
    waiters = (
        ()
        if reader_standing.readers is None
        else (waiters_sentence(reader_standing.readers, reader_standing.share_groups),)
    )
    return (
        withheld_text,
        _open_txn_sentence(blocking_txn),
        _advice_with_command(reader_standing, blocking_txn),
        *later_txns,
        *waiters,
        *share_groups,
    )


def offline_sentence(facts: PartitionFacts) -> str:
    """Why clients can't read or write, and which brokers would change it."""
    if facts.leader_id >= 0:
        return (
            f"{leaderless_headline(facts)}. Clients can't read or write until it leads, or the"
            " controller has made another one the leader."
        )
    return (
        f"The partition has no leader: none of its replicas {list(facts.replicas)} that may lead"
        f" is alive, so clients can't read or write. {_start_text(facts)}"
    )


def withheld_sentence(last_stable_offset: int, high_watermark: int) -> str:
    """Sentence about the offsets that read_committed consumers do not get."""
    offset_count = high_watermark - last_stable_offset
    if offset_count <= 0:
        return (
            f"read_committed consumers stop at offset {last_stable_offset}, the last stable"
            f" offset. So does the high watermark: nothing is written behind it yet."
        )
    last_offsets = "offset" if offset_count == 1 else f"{offset_count} offsets"
    return (
        f"read_committed consumers stop at offset {last_stable_offset}, the last stable"
        f" offset; the high watermark is {high_watermark}, so they do not get the last"
        f" {last_offsets}."
    )


def untold_sentences(
    producer_id: int | None, producer_epoch: int | None, abort_command: str
) -> tuple[str, ...]:
    """What is known of the transaction that holds readers back where brokers are older than 3.0.

    Args:
        producer_id: Producer of the record at which readers stand; None if the log does not tell.
        producer_epoch: Its epoch.
        abort_command: The command that aborts it.
    """
    old_brokers_sentence = (
        "These brokers are too old to tell whether it hangs (Kafka 3.0 is needed): ask its"
        " application, and wait for longer than any transaction.timeout.ms."
    )
    if producer_id is None:
        return ("The log does not tell whose transaction begins there.", old_brokers_sentence)
    return (
        f"That is where the transaction of producer id {producer_id}, epoch {producer_epoch},"
        " begins, as the record says that lies there.",
        old_brokers_sentence,
        "Where it hangs and was not committed, this ends it and discards its records. If it is"
        " fenced, the partition has seen a marker of a later coordinator epoch, and a higher one is"
        f" needed: {abort_command}",
    )


def _share_groups_sentence(share_groups: Sequence[tuple[str, int | None]]) -> str:
    group_names = ", ".join(
        group_name if start_offset is None else f"{group_name} (start offset {start_offset})"
        for group_name, start_offset in share_groups[:NAMED_GROUPS_MAX]
    )
    unlisted_text = (
        f" and {len(share_groups) - NAMED_GROUPS_MAX} more"
        if len(share_groups) > NAMED_GROUPS_MAX
        else ""
    )
    return (
        "Share groups with read_committed get nothing from there on either:"
        f" {group_names}{unlisted_text}."
    )


def _open_txn_sentence(blocking_txn: BlockingTxn) -> str:
    beginning_words = (
        "began, and its first records are deleted; it is open here"
        if blocking_txn.is_beginning_deleted
        else "begins, which is open here"
    )
    return (
        f"That is where the transaction of producer id {blocking_txn.producer_id}, epoch"
        f" {blocking_txn.producer_epoch}, {beginning_words}; its newest record is stamped"
        f" {age_text(blocking_txn.quiet_ms)} ago; {blocking_txn.reason}."
    )


def standing_advice(reader_standing: ReaderStanding) -> str:
    """What to do about the transaction that holds readers, without the command that ends it if it
    hangs. It is the beginning of one of ``standing_sentences``; empty if no transaction holds them.
    """
    blocking_txn = reader_standing.blocking_txn
    if blocking_txn is None or reader_standing.cause in (
        Cause.NOTHING,
        Cause.WRITTEN,
        Cause.UNREPLICATED,
    ):
        return ""
    return _advice(reader_standing, blocking_txn)


def _advice_with_command(reader_standing: ReaderStanding, blocking_txn: BlockingTxn) -> str:
    advice = _advice(reader_standing, blocking_txn)
    command = blocking_txn.verdict.repair_command(
        reader_standing.partition, program=reader_standing.program
    )
    if command is None:
        return advice
    return f"{advice} To end it: {DecisionEvidence.with_guess(command, blocking_txn.decided)}"


def _advice(reader_standing: ReaderStanding, blocking_txn: BlockingTxn) -> str:
    if blocking_txn.verdict is OpenTxnStatus.HANGING:
        return "It hangs." if blocking_txn.decided is None else f"It hangs. {blocking_txn.decided}."
    if blocking_txn.verdict is OpenTxnStatus.DECIDED:
        return _marker_advice(blocking_txn)
    if blocking_txn.verdict is OpenTxnStatus.UNKNOWN:
        return "Whether it hangs is not known until that coordinator serves."
    if blocking_txn.is_two_phase:
        return (
            "It does not hang: its external coordinator ends it. Ask that one first: fencing its"
            f" producer aborts it, even if it was decided to commit, and {DISCARD_WARNING}:"
            f" {_terminate_command(reader_standing.program, blocking_txn)}"
        )
    return (
        "It does not hang. See first whether its application runs, or will start again with this"
        " transactional id and end it itself, and what its last checkpoint says of it. To end it"
        f" now, fence its producer, which aborts it; {DISCARD_WARNING}:"
        f" {_terminate_command(reader_standing.program, blocking_txn)}"
    )


def _marker_advice(blocking_txn: BlockingTxn) -> str:
    if blocking_txn.owed_marker is not None and blocking_txn.owed_marker.sending in (
        MarkerSending.ABANDONED,
        MarkerSending.HELD,
    ):
        return (
            "It does not hang, and does not heal by itself."
            f" {marker_ends(blocking_txn.owed_marker)}"
        )
    return (
        "It does not hang: the marker comes as soon as its coordinator reaches the leader."
        f" Look at broker {blocking_txn.coordinator_id} and at its way to the leader."
    )


def _terminate_command(program: ShellText, blocking_txn: BlockingTxn) -> ShellText:
    id_option = option("--transactionalId", blocking_txn.transactional_id)
    return continued(program, "forceTerminateTransaction", *id_option)


def _delay_causes(reader_standing: ReaderStanding) -> tuple[str, ...]:
    """Other causes that may delay the end."""
    if not reader_standing.not_in_sync:
        return ()
    return (
        f"Replicas {list(reader_standing.not_in_sync)} are not in sync; with min.insync.replicas"
        " not met the high watermark stands still.",
    )
