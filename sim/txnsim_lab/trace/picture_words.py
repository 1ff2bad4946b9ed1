"""What a picture of a cluster has to say about its transactions after an event of a trace, made of
the words of the judge (``txnsim.verdict.words``). A page draws them and adds none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from txnsim.verdict import words
from txnsim.verdict.facts import ClusterFacts, MarkerSending
from txnsim.verdict.judge import PartitionVerdict
from txnsim_lab.trace._applications import ApplicationView
from txnsim_lab.trace.followed_trace import FollowedTrace

MarkerPlace = Literal["owed", "held", "refused"]

_PLACES: Final[dict[MarkerSending, MarkerPlace]] = {
    MarkerSending.HELD: "held",
    MarkerSending.ABANDONED: "refused",
}


class MarkerWords(msgspec.Struct, frozen=True, kw_only=True):
    """A marker that a coordinator owes."""

    how: MarkerPlace
    """How it is drawn."""
    text: str


class OperatorMarkerWords(msgspec.Struct, frozen=True, kw_only=True):
    """A marker that an operator has written."""

    label: str
    sentence: str


class PictureWords(msgspec.Struct, frozen=True, kw_only=True):
    """The words of a picture after an event."""

    applications: dict[str, ApplicationView]
    """Transactional id -> what its application knows."""
    coordinators: dict[str, str]
    """Transactional id -> what its coordinator has."""
    markers: dict[str, MarkerWords]
    """Transactional id, a space, partition -> the marker that is owed there."""
    operator_markers: dict[str, OperatorMarkerWords]
    """Partition, a space, offset of a marker that an operator has written -> what is said of it."""
    deleted_partitions: tuple[str, ...]
    """Partitions that were deleted and are not made again."""
    repeated_markers: dict[str, str]
    """Partition, a space, offset of a marker that was written a second time -> why."""
    share_groups: dict[str, tuple[str, ...]]
    """Partition -> a sentence on each share group of it."""
    streams_groups: dict[str, tuple[str, ...]]
    """Streams group -> a sentence on each of its members, and on its pending positions."""


def picture_words(
    followed_trace: FollowedTrace, facts: ClusterFacts, partitions: Sequence[PartitionVerdict]
) -> PictureWords:
    """The words after the last event.

    Args:
        followed_trace: The trace up to the event.
        facts: Its facts (``FollowedTrace.facts``).
        partitions: The verdicts on partitions.
    """
    owed_counts: dict[str, int] = {}
    for owed_marker in facts.owed_markers:
        transactional_id = owed_marker.transactional_id
        owed_counts[transactional_id] = owed_counts.get(transactional_id, 0) + 1
    transactions = followed_trace.state.transactions
    views = followed_trace.applications.views()
    return PictureWords(
        applications={
            transactional_id: views.get(transactional_id) or _unrecorded_view(transaction)
            for transactional_id, transaction in transactions.items()
        },
        coordinators={
            transactional_id: words.coordinator_sentence(
                transactional_id,
                transaction["state"],
                owed_count=owed_counts.get(transactional_id, 0),
                is_last_commit=_last_outcome(followed_trace, transactional_id, transaction),
            )
            for transactional_id, transaction in transactions.items()
        },
        markers={
            f"{owed_marker.transactional_id} {owed_marker.partition}": MarkerWords(
                how=_PLACES.get(owed_marker.sending, "owed"), text=words.marker_status(owed_marker)
            )
            for owed_marker in facts.owed_markers
        },
        operator_markers={
            f"{partition} {offset}": OperatorMarkerWords(
                label=words.operator_marker_label(is_commit=marker.is_commit),
                sentence=words.operator_marker_sentence(
                    words.transaction_name(marker.transactional_id, marker.producer_id),
                    partition,
                    is_commit=marker.is_commit,
                ),
            )
            for (partition, offset), marker in followed_trace.operator_markers.items()
        },
        deleted_partitions=tuple(sorted(followed_trace.deleted_partitions)),
        repeated_markers={
            f"{partition} {offset}": words.repeated_marker_reason(is_of_later_coordinator=is_later)
            for (partition, offset), is_later in followed_trace.repeated_markers.items()
        },
        share_groups=_share_groups(followed_trace, partitions),
        streams_groups=_streams_groups(followed_trace),
    )


def _last_outcome(
    followed_trace: FollowedTrace, transactional_id: str, transaction: dict[str, Any]
) -> bool | None:
    faults_and_decisions = followed_trace.faults_and_decisions
    decisions = faults_and_decisions.decisions_by_producer.get(transaction["pid"])
    return (
        decisions[-1].is_commit
        if decisions and transactional_id in faults_and_decisions.end_positions
        else None
    )


def _share_groups(
    followed_trace: FollowedTrace, partitions: Sequence[PartitionVerdict]
) -> dict[str, tuple[str, ...]]:
    offset_waited_for = {
        (group.group_id, partition_verdict.partition): partition_verdict.stands_at
        for partition_verdict in partitions
        for group in partition_verdict.share_groups or ()
    }
    sentences_by_partition: dict[str, list[str]] = {}
    for is_served, share_by_key in (
        (True, followed_trace.state.shares),
        (False, followed_trace.state.unserved_shares),
    ):
        for share_key, share_fields in share_by_key.items():
            group_id, _, partition = share_key.rpartition(" ")
            standing = words.ShareStanding(
                group_id=group_id,
                start_offset=share_fields["start"],
                next_offset=share_fields["next"],
                held=tuple(share_fields["held"]),
                waits_at=offset_waited_for.get((group_id, partition)),
                is_served=is_served,
            )
            sentences_by_partition.setdefault(partition, []).append(
                words.share_group_sentence(standing)
            )
    return {
        partition: tuple(sorted(sentences_of_partition))
        for partition, sentences_of_partition in sentences_by_partition.items()
    }


def _streams_groups(followed_trace: FollowedTrace) -> dict[str, tuple[str, ...]]:
    state = followed_trace.state
    sentences_by_broker: dict[str, list[str]] = {}
    for is_served, member_by_key in ((True, state.streams), (False, state.unserved_streams)):
        for member in member_by_key.values():
            streams_member = words.StreamsMember(
                member_id=member["member"],
                active=tuple(member.get("active", ())),
                standby=tuple(member.get("standby", ())),
                warmup=tuple(member.get("warmup", ())),
                revoked=tuple(member.get("revoked", ())),
                state=str(member.get("state", "")),
            )
            sentence = words.streams_member_sentence(streams_member, is_served=is_served)
            sentences_by_broker.setdefault(member["group"], []).append(sentence)
    for position_key, offset in state.offsets.items():
        group_id, _, partition = position_key.rpartition(" ")
        if group_id in sentences_by_broker:
            sentence = words.pending_position_sentence(partition, offset)
            sentences_by_broker[group_id].append(sentence)
    return {
        group_id: tuple(sentences_of_broker)
        for group_id, sentences_of_broker in sorted(sentences_by_broker.items())
    }


def _unrecorded_view(transaction: dict[str, Any]) -> ApplicationView:
    """What is known of an application without a recorded request in a transaction."""
    is_open = transaction["state"] == "Ongoing" or transaction["state"].startswith("Prepare")
    status = words.UNRECORDED_APPLICATION if is_open else words.NO_TRANSACTION
    return ApplicationView(
        status=status, sentence=words.unrecorded_sentence(is_open=is_open), moves=()
    )
