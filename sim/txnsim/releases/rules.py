"""Behaviours in which Kafka's releases differ: one named switch per behaviour.

A core asks ``Rules`` and never knows a release's name. A switch is one row here: ``since`` and
``until`` say in which releases it is on. The defaults are those of the reference release. A
scenario that shows a bug sets a switch by hand. A switch is named for the behaviour of the
reference release (or, where that release has the bug, for what it fails to do); the switch of a
newer release is named for the new behaviour. The table for readers is ``docs/releases.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import msgspec

from txnsim.errors import ConfigError

REFERENCE_VERSION: Final = "4.4.0"
"""The release that brokers run by default; a real broker of it decides what is right.

All code that depends on the reference asks here or ``releases.REFERENCE``: no other module knows
its number.
"""

Numbers = tuple[int, ...]
"""The numbers of a release or of a release line: (4, 2, 1), (4, 3)."""


class RuleSwitch(msgspec.Struct, frozen=True):
    """The documentation of one switch."""

    ticket: str
    """Kafka's ticket or KIP."""
    since: tuple[Numbers, ...]
    """First releases in which the switch is on: a patch release turns it on in its own line, the
    last one named in all later lines. Empty if no release has it.
    """
    until: Numbers
    """Last line of an earlier time in which the switch was on: it is on in all lines up to this
    one. Empty if there was none.
    """
    behaviour_before: str
    """Behaviour while the switch is off."""
    behaviour_after: str
    """Behaviour while the switch is on."""

    def is_on(self, version: str) -> bool:
        """Whether the switch is on in a release.

        Args:
            version: The release, such as ``3.1.1``. With ``since`` 3.1.2 and 3.2 it is off in 3.1.1
                and on in 3.1.3.
        """
        version_numbers = numbers(version)
        if version_numbers[: len(self.until)] <= self.until and self.until:
            return True
        return bool(self.since) and (
            version_numbers >= self.since[-1]
            or any(
                version_numbers[:-1] == first_version[:-1] and version_numbers >= first_version
                for first_version in self.since
            )
        )

    def came(self, newest_version: str) -> str:
        """Say since when the switch is on, for readers who may know newer releases than this table.

        Args:
            newest_version: The newest release in the table.
        """
        since_text = ", ".join(map(text_of, self.since))
        if not self.until:
            return since_text or f"none up to {newest_version}"
        until_text = f"up to {text_of(self.until)}"
        return f"{until_text}, and from {since_text} on" if since_text else until_text


def numbers(version: str) -> Numbers:
    """The numbers of a release: (4, 3, 1) for ``4.3.1``.

    Raises:
        ConfigError: The text is no release number.
    """
    try:
        return tuple(map(int, version.split(".")))
    except ValueError:
        raise ConfigError(f"{version}: no release of Apache Kafka") from None


def text_of(version_numbers: Numbers) -> str:
    """The release as text: ``4.3.1``."""
    return ".".join(map(str, version_numbers))


_switches: Final[list[RuleSwitch]] = []


def _switch(ticket: str, since: str = "", *, until: str = "", after: str, before: str) -> bool:
    """Register the documentation of a switch, for ``documentation``.

    Args:
        ticket: See ``RuleSwitch``.
        since: Releases, separated by commas: ``3.9.1, 4.0``; empty if no release has it.
        until: A release line: ``4.2``.
        after: Behaviour while the switch is on.
        before: Behaviour while the switch is off.

    Returns:
        Whether the switch is on in the reference release.
    """
    since_versions = tuple(numbers(version) for version in since.split(", ")) if since else ()
    until_version = numbers(until) if until else ()
    rule_switch = RuleSwitch(
        ticket, since_versions, until_version, behaviour_before=before, behaviour_after=after
    )
    _switches.append(rule_switch)
    return rule_switch.is_on(REFERENCE_VERSION)


class Rules(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """The behaviour of one broker, where releases differ."""

    # Coordinator: rights of producers

    unverified_is_abortable: bool = _switch(
        "KAFKA-16314",
        "3.8",
        after="a partition outside of the transaction is verified as TRANSACTION_ABORTABLE",
        before="as INVALID_TXN_STATE, also where the client knows the other error",
    )
    verify_ignores_pending: bool = _switch(
        "KAFKA-14904",
        "3.6",
        after="verification looks at what is committed only",
        before="a move under way answers CONCURRENT_TRANSACTIONS",
    )
    pending_comes_before_identity: bool = _switch(
        "KAFKA-18660",
        "4.0",
        after="adding partitions meets a move under way before its identity is compared",
        before="the identity is compared first, so an overflow fences its own producer",
    )
    late_commit_is_fenced: bool = _switch(
        "KAFKA-20785",
        "4.5",
        after="under transactions v2 a late commit that meets a timeout's abort is PRODUCER_FENCED",
        before="it is INVALID_TXN_STATE, which clients take for fatal",
    )

    # Coordinator: epochs and identities

    timeout_bumps_epoch: bool = _switch(
        "KAFKA-6119",
        "0.11.0.2, 1.0",
        after="the abort of a timed-out transaction carries a higher epoch",
        before="it keeps the producer's epoch, which so is not fenced",
    )
    end_needs_exact_epoch: bool = _switch(
        "KAFKA-9600",
        "2.6",
        after="EndTxn of a client before transactions v2 needs exactly the coordinator's epoch",
        before="an epoch from the future is INVALID_PRODUCER_EPOCH too, but only when the end is "
        "logged: no marker is sent until the coordinator moves",
    )
    failed_fence_keeps_epoch: bool = _switch(
        "KAFKA-9666",
        "2.7",
        after="a fence whose record was lost is repeated with the same epoch",
        before="each attempt raises the epoch again",
    )
    fence_bumps_once: bool = _switch(
        "KAFKA-19367",
        "4.0.1, 4.1",
        until="3.9",  # which has no transactions v2
        after="a fence under transactions v2 raises the epoch by one",
        before="by two, and fails for good at epoch 32766",
    )
    fence_rotates_exhausted_id: bool = _switch(
        "KAFKA-20090",
        "4.3",
        after="a fence under transactions v2 at epoch 32766 brings the next producer id",
        before="the transaction ends at epoch 32767 of the same producer id",
    )
    last_epoch_recovers: bool = _switch(
        "KAFKA-20090",
        "4.3",
        after="a transaction that was opened at epoch 32767 can be aborted",
        before="every attempt to end it under transactions v2, or to fence it, is "
        "UNKNOWN_SERVER_ERROR",
    )
    never_waits_for_ids: bool = _switch(
        "KAFKA-14694",
        "3.6",
        after="without a block of producer ids InitProducerId is COORDINATOR_LOAD_IN_PROGRESS",
        before="it waits for the block",
    )

    # Coordinator: stored and logged values

    client_version_is_kept: bool = _switch(
        "KIP-890, second part",
        "4.0",
        after="an entry remembers which version of the protocol its transaction has",
        before="there is no version 2 to remember",
    )
    swapped_ids_are_logged: bool = _switch(
        "KAFKA-20310",
        "4.3",
        after="previous and next producer id are part of the log of __transaction_state",
        before="they are lost when the coordinator moves in mid-overflow",
    )
    moves_replace_whole_entry: bool = _switch(
        "KAFKA-15370",
        "4.1",
        after="an entry is all that its last record says",
        before="a new session keeps the start of the last transaction in memory, and other "
        "moves keep the previous producer id",
    )
    start_may_step_back: bool = _switch(
        "KAFKA-8803",
        "2.5",
        after="a transaction may start earlier than the one before, by a clock set back",
        before="its first move is never finished and the transactional id stays locked",
    )
    flexible_records_are_read: bool = _switch(
        "KAFKA-14869",
        "3.5",
        after="records of version 1 in __transaction_state are understood",
        before="loading stops at the first one",
    )
    unknown_records_are_skipped: bool = _switch(
        "KAFKA-18883",
        "4.3",
        after="a record of an unknown version is skipped while loading",
        before="loading stops there, and what was read so far is used",
    )
    unload_calls_off_load: bool = _switch(
        "KAFKA-18137",
        "4.0",
        after="becoming a follower calls off a load of an older epoch",
        before="the load goes on and leaves stale entries behind",
    )

    coordinator_checks_leadership: bool = _switch(
        "KAFKA-21181",
        "4.5",
        after="a coordinator answers for its partition only while its broker leads it, under the "
        "epoch at which it was loaded",
        before="until the partition is unloaded, what needs no record is answered from what is "
        "remembered, beside the new coordinator",
    )
    empty_commits_are_ended: bool = _switch(
        "KAFKA-21181, proposed in the review of #23630",
        after="under transactions v2 a commit without a transaction is ended as an abort is: with "
        "records, and the next epoch",
        before="it is INVALID_TXN_STATE, which needs no record",
    )
    prepared_transactions_are_kept: bool = _switch(
        "KIP-939, #21735",
        after="KeepPreparedTxn keeps the open transaction and gives out the identity that ends it",
        before="it is UNSUPPORTED_VERSION, and who loads a kept transaction forgets that identity",
    )
    prepared_ends_are_concurrent: bool = _switch(
        "KIP-939, #21735",
        after="under transactions v2 EndTxn is CONCURRENT_TRANSACTIONS while the markers are sent",
        before="of a wrong epoch it is PRODUCER_FENCED, of the other outcome INVALID_TXN_STATE",
    )
    lost_partitions_are_not_listed: bool = _switch(
        "KAFKA-21481",
        after="ListTransactions leaves out ids whose partition the broker does not lead any more",
        before="it lists them until their partition is unloaded",
    )
    loads_wait_for_replication: bool = _switch(
        "none: no ticket is known to us",
        after="a coordinator answers for its partition once all that it has read is replicated",
        before="it answers from what it has read to the end of the log, and that may be lost yet",
    )

    # Coordinator: timers

    expired_ids_take_many_batches: bool = _switch(
        "KAFKA-13099",
        "2.8.1, 3.0",
        after="transactional ids that expire at once are taken away in as many batches as it takes",
        before="in one batch per partition: where the log refuses it, none of them ever expires",
    )
    unnumbered_ids_expire: bool = _switch(
        "KAFKA-14880",
        "3.5",
        after="an id whose first record was lost (epoch -1) expires",
        before="it ends the whole pass over its partition",
    )
    longest_timeout_is_never: bool = _switch(
        "KIP-939",
        "4.1",
        after="a transaction with a timeout of 2147483647 ms is never timed out",
        before="that timeout is one like any other",
    )

    # Coordinator: markers

    stale_answers_spare_newer_debt: bool = _switch(
        "KAFKA-16352",
        "3.8",
        after="an answer to a marker of an older coordinator epoch changes nothing",
        before="it forgets the newer completion too, which is then never written",
    )
    storage_errors_are_retried: bool = _switch(
        "KAFKA-9749",
        "2.5",
        after="a marker refused with KAFKA_STORAGE_ERROR is sent again",
        before="it is not, and the transaction stays prepared until its coordinator moves",
    )
    unhosted_markers_are_retried: bool = _switch(
        "KAFKA-5610",
        "0.11.0.1",
        after="a leader answers UNKNOWN_TOPIC_OR_PARTITION to a marker it can't place",
        before="UNSUPPORTED_FOR_MESSAGE_FORMAT, which counts as done: the marker is lost",
    )
    leaderless_partitions_keep_markers: bool = _switch(
        "KAFKA-20734",
        until="4.2",
        after="a partition without a leader keeps its marker waiting",
        before="it counts as deleted and its marker is dropped: a hanging transaction",
    )
    markers_follow_peer_version: bool = _switch(
        "KAFKA-20322",
        "4.2.1",
        until="4.1",  # where there was only one version
        after="WriteTxnMarkers is sent in a version that the leader knows",
        before="always in the newest, which older leaders answer by closing the connection",
    )

    positions_come_before_answer: bool = _switch(
        "KAFKA-17507",
        "3.9.1, 4.0",
        after="a marker is acknowledged once the positions of its transaction are the group's",
        before="it is acknowledged before that, and what is done then concerns the producer's "
        "next transaction as well",
    )

    # Group coordinator

    full_groups_take_static_members_back: bool = _switch(
        "KAFKA-20601",
        "4.4",
        after="a static member comes back to a consumer group that is full",
        before="it is refused with GROUP_MAX_SIZE_REACHED unless it brings its member id",
    )
    assignors_run_in_background: bool = _switch(
        "KAFKA-20292",
        after="the assignor of a consumer group runs behind the heartbeat that needs it, and later "
        "heartbeats bring what it came to",
        before="it runs within the heartbeat, whose answer goes by it",
    )
    another_assignor_is_a_change: bool = _switch(
        "KAFKA-20434",
        "4.4",
        after="members of a consumer group that prefer another assignor raise its epoch, and it "
        "assigns at once",
        before="it assigns by that assignor at the next other change",
    )
    last_leaver_ends_assignment: bool = _switch(
        "KAFKA-20442",
        "4.4",
        after="where the last member leaves a consumer group, the epoch of its assignment follows",
        before="the empty group keeps the assignment epoch of before",
    )
    malformed_subscription_is_inconsistent: bool = _switch(
        "KAFKA-20662",
        "4.4",
        after="a subscription that can't be read is INCONSISTENT_GROUP_PROTOCOL where a classic "
        "member joins a group of the consumer protocol",
        before="it is UNKNOWN_SERVER_ERROR",
    )
    members_behind_may_commit: bool = _switch(
        "KAFKA-20066, KIP-1251",
        "4.3",
        after="a member of the consumer protocol at an older epoch may commit positions of what it "
        "has had since then",
        before="its epoch must be the member's: else STALE_MEMBER_EPOCH, and ILLEGAL_GENERATION "
        "in a transaction",
    )

    missing_groups_are_named: bool = _switch(
        "KIP-848",
        "4.0",
        after="OffsetCommit 9 with the generation of a group that does not exist is "
        "GROUP_ID_NOT_FOUND",
        before="it is ILLEGAL_GENERATION, as in older versions",
    )
    cleanup_takes_many_batches: bool = _switch(
        "KIP-848",
        "4.0",
        after="positions that have expired or whose topic is gone are taken away in as many "
        "batches as it takes",
        before="in one for each group, also where OffsetDelete or DeleteGroups asks for it; what "
        "the log refuses is forgotten all the same, and is back when the coordinator moves",
    )
    last_leaver_waits_for_log: bool = _switch(
        "KIP-848",
        "4.0",
        after="the last member that leaves a classic group is answered once the log has it, with "
        "the error where the log refuses it",
        before="it is answered at once",
    )
    deletion_waits_for_log: bool = _switch(
        "KAFKA-18629",
        "4.1",
        after="a group is deleted once all is replicated that its coordinator has written before; "
        "where that takes too long it stays",
        before="it is deleted at once",
    )
    groups_outlive_positions: bool = _switch(
        "KIP-848",
        "4.0",
        after="a group without members stays when OffsetDelete takes its last position, until the "
        "next look for expired ones",
        before="it is gone at once",
    )
    positions_are_told_as_asked: bool = _switch(
        "KIP-848",
        "4.0",
        after="OffsetFetch tells a position each time its partition is named",
        before="it tells it once",
    )
    large_positions_are_server_errors: bool = _switch(
        "KIP-848",
        "4.0",
        after="positions that do not fit into the log are UNKNOWN_SERVER_ERROR",
        before="they are INVALID_COMMIT_OFFSET_SIZE",
    )
    consumer_groups_begin_at_one: bool = _switch(
        "KAFKA-20268",
        "4.3",
        after="a consumer group begins at epoch 1, and its first member gets epoch 2",
        before="it begins at epoch 0, and its first member gets epoch 1, also without a topic",
    )
    what_is_given_up_is_described: bool = _switch(
        "KAFKA-20431",
        "4.3",
        after="ConsumerGroupDescribe counts a partition that a member has not given up yet as its",
        before="it leaves such a partition out",
    )
    fenced_members_join_again: bool = _switch(
        "KAFKA-19233",
        "4.2",
        after="a member of a consumer group that is known joins again with epoch 0",
        before="it is FENCED_MEMBER_EPOCH, but for one whose last epoch was 0",
    )

    # Controller

    features_change_together: bool = _switch(
        "KAFKA-16308",
        "4.0",
        after="one feature that can't go to its level fails the whole UpdateFeatures",
        before="each feature has a result of its own, and the others change",
    )

    # Partition leader: replication

    min_isr_is_bounded: bool = _switch(
        "KAFKA-15583",
        "3.7",
        after="min.insync.replicas demands at most as many replicas as a partition has",
        before="a greater number refuses every acks=-1: NOT_ENOUGH_REPLICAS",
    )
    high_watermark_needs_min_isr: bool = _switch(
        "KAFKA-15583",
        "3.7",
        after="while fewer than min.insync.replicas are in sync the high watermark stands still",
        before="it goes on with the replicas that are left, so readers get what acks=1 wrote",
    )

    # Partition leader: verification

    transactions_are_verified: bool = _switch(
        "KIP-890, first part",
        "3.6",
        after="a leader asks the coordinator before a transaction opens on its partition",
        before="any transactional batch opens one",
    )
    offset_commits_are_verified: bool = _switch(
        "KAFKA-15449",
        "3.7",
        after="a group coordinator asks before positions are committed in a transaction",
        before="it does not, and its partition is not looked after",
    )
    guards_are_compared: bool = _switch(
        "KAFKA-14884",
        "3.6",
        after="an append shows the guard it was verified under, and a marker makes it void",
        before="an answer that arrives after the abort still lets the batch in",
    )
    earlier_sequence_goes_first: bool = _switch(
        "KAFKA-14920",
        "3.6",
        after="a batch that overtook an earlier one on its verification is refused",
        before="it is written, and the earlier one never can be",
    )
    request_has_one_epoch: bool = _switch(
        "KAFKA-15987",
        "3.8",
        after="all transactional batches of a request have one producer id and one epoch",
        before="only the producer id is compared",
    )
    verification_follows_peer_version: bool = _switch(
        "KAFKA-16692",
        "3.7.1, 3.8",
        after="a leader asks a coordinator from before 3.6, which can't verify, nothing, and takes "
        "everything for verified",
        before="it sends AddPartitionsToTxn 4, and the coordinator closes the connection: no "
        "transactional record is taken",
    )
    lost_verification_is_retriable: bool = _switch(
        "KAFKA-16386",
        "3.7.1, 3.8",
        after="a lost verification is NOT_ENOUGH_REPLICAS to the producer",
        before="NETWORK_EXCEPTION",
    )
    open_transactions_have_epochs: bool = _switch(
        "KIP-890, second part",
        "4.0",
        after="only an open transaction of the batch's own epoch makes asking the coordinator "
        "needless; a newer epoch is verified, or added under transactions v2",
        before="any open transaction of the producer id does: a batch of a newer epoch joins "
        "it unasked (one of an older epoch is refused either way)",
    )
    own_epoch_marker_keeps_guard: bool = _switch(
        "KAFKA-18575",
        "4.0",
        after="under transactions v2 a marker with the very epoch that is being verified "
        "leaves the guard alone: it is the last transaction's, sent again",
        before="every marker of the producer makes the guard void, and the batch behind it is "
        "INVALID_TXN_STATE, as at levels 0 and 1 in any release",
    )
    implicit_add_is_repeated: bool = _switch(
        "KAFKA-18654",
        "4.0",
        after="a leader repeats an implicit add that meets CONCURRENT_TRANSACTIONS",
        before="the producer gets it at once",
    )
    stale_epoch_is_refused_early: bool = _switch(
        "KAFKA-18042",
        "4.1",
        after="a fenced epoch is refused before the coordinator is asked",
        before="the coordinator judges it",
    )
    stale_epoch_comes_before_guard: bool = _switch(
        "KAFKA-19690",
        "3.9.2, 4.0.1, 4.1.1",
        after="at the append a fenced epoch is INVALID_PRODUCER_EPOCH",
        before="the missing guard comes first: INVALID_TXN_STATE, which clients take for fatal",
    )
    v2_starts_at_sequence_zero: bool = _switch(
        "KAFKA-18202",
        "4.1",
        after="an unknown producer of transactions v2 must begin with sequence 0",
        before="it may begin anywhere",
    )

    # Partition leader: markers and producer state

    v2_markers_need_higher_epoch: bool = _switch(
        "KAFKA-19446",
        "4.2",
        after="a marker of transactions v2 must carry a higher epoch than the data it ends",
        before="an equal one is enough, so a late marker ends the next transaction",
    )
    repeated_v2_markers_are_written: bool = _switch(
        "KAFKA-19999",
        "4.2",
        after="a marker of equal epoch is accepted where no transaction is open",
        before="it is refused, and the coordinator gives its transaction up",
    )
    last_epoch_markers_are_written: bool = _switch(
        "KAFKA-20090",
        "4.3",
        after="a marker of epoch 32767 ends a transaction of epoch 32767",
        before="it is refused",
    )
    cleaner_spares_markers: bool = _switch(
        "KAFKA-14055",
        "3.0.2, 3.1.2, 3.2.1, 3.3",
        after="compaction never takes a marker for a record",
        before="a record with the key of a marker makes older markers of that kind go",
    )
    half_cleaned_segments_are_indexed: bool = _switch(
        "KAFKA-13727",
        "2.8.2, 3.0.2, 3.1.1, 3.2",
        after="a segment that was cleaned in part keeps all its aborted transactions",
        before="those behind the part that was cleaned are forgotten, and readers get their "
        "records",
    )
    unknown_topics_are_hashed: bool = _switch(
        "seen on a real 4.4.0",
        "4.4",
        after="Metadata tells topics that are unknown in the order of a hash set",
        before="in the order in which they were asked for",
    )
    logger_operations_are_checked: bool = _switch(
        "seen on a real 4.4.0",
        "4.4",
        after="an unknown operation on a logger's level is INVALID_REQUEST",
        before="UNKNOWN_SERVER_ERROR",
    )
    brokers_guard_their_configs: bool = _switch(
        "seen on a real 4.4.0",
        "4.4",
        after="who may not alter configs of brokers is refused without words",
        before="the refusal says: Cluster authorization failed.",
    )
    quotas_are_finite: bool = _switch(
        "seen on a real 4.4.0",
        "4.4",
        after="a quota that is no finite number is refused",
        before="it is taken",
    )
    group_configs_tell_bounds: bool = _switch(
        "KIP-1191, and seen on a real 4.4.0",
        "4.4",
        after="groups have configs of dead letters, assignors and warmup replicas, and a refusal "
        "tells the numbers between which a value must be",
        before="they have no such configs, and a refusal tells names of broker configs",
    )
    groups_have_limits: bool = _switch(
        "seen on a real 4.2.2",
        "4.3",
        after="groups have configs of assignment intervals, and share groups of delivery counts, "
        "locks and renewals; DescribeConfigs names the broker config behind a group's default",
        before="the brokers' configs alone say these, and share groups may always renew; "
        "DescribeConfigs gives a group's default as its own",
    )
    groups_without_configs_go: bool = _switch(
        "seen on a real 4.2.2",
        "4.3",
        after="ListConfigResources leaves out a group whose configs were all taken away",
        before="it lists the group",
    )
    topics_have_dead_letters: bool = _switch(
        "KIP-1191, and seen on a real 4.4.0",
        "4.4",
        after="topics have errors.deadletterqueue.group.enable, remote.copy.lag.bytes and "
        "remote.copy.lag.ms, and brokers their defaults",
        before="topics and brokers have no configs of these names",
    )
    decompression_is_bounded: bool = _switch(
        "seen on a real 4.2.2",
        "4.2.2, 4.4",
        after="topics and brokers have max.decompressed.message.bytes",
        before="they have no config of that name",
    )
    rounds_leave_no_mark: bool = _switch(
        "KAFKA-20452",
        "4.4",
        after="of batches without records the cleaner keeps the one that ends at the high "
        "watermark, besides the last one of each producer",
        before="it keeps the last batch of each round, wherever the log goes on",
    )
    last_markers_stay_whole: bool = _switch(
        "none: no ticket is known to us",
        after="the cleaner keeps the record of a marker whose batch has to stay",
        before="the batch stays without a record, so a replica that copies it learns no epoch",
    )
    cut_transactions_begin_at_batch: bool = _switch(
        "KAFKA-17803",
        "4.0",
        after="where DeleteRecords cut into an open transaction, the last stable offset is the "
        "first of the batch that holds the log start, and may lie below it",
        before="it is the log start",
    )
    future_records_are_refused: bool = _switch(
        "KIP-1030",
        "4.0",
        after="message.timestamp.after.max.ms is an hour where it is not set",
        before="it has no bound then",
    )
    special_times_need_their_version: bool = _switch(
        "KAFKA-17331",
        "3.9",
        after="ListOffsets refuses a special timestamp that its version does not know",
        before="one that the broker knows is known in all versions; each other one is searched for "
        "as a time, and finds the first record",
    )
    repeated_partitions_are_answered_once: bool = _switch(
        "KAFKA-15859, KIP-1075",
        "4.0",
        after="ListOffsets refuses a partition that a request names twice with one answer",
        before="with an answer each time it is named",
    )
    refused_fetches_have_records: bool = _switch(
        "KAFKA-18646",
        "4.0",
        after="a Fetch below version 13 that is refused as a whole has no records",
        before="its records are null",
    )
    reads_know_one_high_watermark: bool = _switch(
        "KAFKA-9807",
        "2.5",
        after="a Fetch takes the high watermark once, and the last stable offset from it",
        before="a transaction that is replicated between two looks is read while it is open",
    )
    markers_renew_producers: bool = _switch(
        "KAFKA-9144",
        "2.4.1, 2.5",
        after="a marker counts as a sign of life of its producer",
        before="a producer without batches expires at once, and its epoch is forgotten",
    )
    producers_outlive_records: bool = _switch(
        "KAFKA-7190",
        "2.5",
        after="a producer is known on after its last record was deleted (KIP-360)",
        before="it is forgotten with its last record, open transaction and epoch included",
    )
    share_epochs_are_checked: bool = _switch(
        "KAFKA-20743",
        "4.4",
        after="a share coordinator refuses negative leader and state epochs",
        before="it takes them, and -1 is never fenced",
    )
    share_reads_pass_without_epoch: bool = _switch(
        "KAFKA-20694",
        "4.3.1",
        after="ReadShareGroupState with the leader epoch -1 is not fenced",
        before="it always is",
    )
    share_starts_never_go_back: bool = _switch(
        "seen on a real 4.4.0",
        "4.4",
        after="WriteShareGroupState never moves the start offset of a share partition back, nor "
        "the count of complete deliveries behind the same start offset",
        before="both are what the last write says",
    )
    share_fetches_tell_unknown_topics: bool = _switch(
        "seen on a real 4.2.2 and 4.3.1",
        "4.2.2, 4.4",
        after="a ShareFetch of an unknown topic id gets UNKNOWN_TOPIC_ID for that topic",
        before="all that it asks for fails with UNKNOWN_SERVER_ERROR",
    )
    share_requests_need_groups: bool = _switch(
        "seen on a real 4.2.2",
        "4.3",
        after="ShareFetch and ShareAcknowledge without a group get INVALID_REQUEST",
        before="they get UNKNOWN_SERVER_ERROR",
    )
    share_state_fences_are_brief: bool = _switch(
        "seen on a real 4.3.1",
        "4.4",
        after="a share coordinator tells FENCED_STATE_EPOCH in words of its own",
        before="in those of the error",
    )
    share_gaps_begin_with_the_log: bool = _switch(
        "none: no ticket is known to us",
        after="where the log begins later than a gap in the stored state of a share partition, the "
        "gap begins there, too",
        before="the leader reads below the log's start for ever, and the group gets nothing",
    )
    share_states_are_made_once: bool = _switch(
        "none: no ticket is known to us",
        after="an InitializeShareGroupState that comes again leaves the state as it is",
        before="it makes the state of the share partition anew, without what was acknowledged",
    )
    share_states_are_swept: bool = _switch(
        "seen on a real 4.3.1",
        "4.4",
        after="neighbouring records in the same state are one batch in __share_group_state",
        before="batches are combined two at a time, and some that are alike stay apart",
    )
    share_groups_assign_nobody: bool = _switch(
        "seen on a real 4.4.0",
        "4.4",
        after="the assignment epoch of a share group goes on when its last member has left",
        before="it stays until a member joins",
    )
    share_groups_read_grown_topics_whole: bool = _switch(
        "seen on a real 4.4.0",
        "4.4",
        after="a share group reads partitions that its topic gets later from 0 on",
        before="it reads them from where share.auto.offset.reset says",
    )
    streams_heartbeats_are_whole: bool = _switch(
        "seen on a real 4.3.1",
        "4.4",
        after="StreamsGroupHeartbeat takes static members, offsets of tasks and warm-up tasks",
        before="it refuses them with INVALID_REQUEST, and tells no interval of task offsets",
    )
    streams_tasks_change_in_place: bool = _switch(
        "KAFKA-20665",
        "4.4",
        after="a standby that is to be its member's active task stays until then, and an active "
        "task becomes a standby at once",
        before="the member gives the task up first, and gets it in its new role afterwards",
    )

    version: str = REFERENCE_VERSION
    """The release whose settings brokers have. It is no switch: only the table of settings
    (``txnsim.metadata.settings_table``) asks for it, where a switch for each setting would be too
    much.
    """

    @staticmethod
    @cache
    def documentation() -> Mapping[str, RuleSwitch]:
        """The ``RuleSwitch`` of each switch, in order of declaration."""
        switch_names = (field for field in Rules.__struct_fields__ if field != "version")
        return MappingProxyType(dict(zip(switch_names, _switches, strict=True)))


LATEST_RULES: Final = Rules()
"""Rules of the reference release."""


class Proposal(msgspec.Struct, frozen=True):
    """A KIP whose brokers' part is under review."""

    switches: tuple[str, ...]
    """On at brokers of a release that is not out, and at no other."""
    settings: tuple[str, ...]
    """On in the whole cluster, as clients can't see the proposal without them."""


PROPOSALS: Final[Mapping[int, Proposal]] = MappingProxyType(
    {
        939: Proposal(
            switches=("prepared_transactions_are_kept", "prepared_ends_are_concurrent"),
            settings=("unstable_api_versions_enable", "transaction_two_phase_commit_enable"),
        )
    }
)
"""Number of the KIP -> what ``--kip`` turns on."""
