"""Subscriptions by regular expression: when they are looked up, and what that changes (KIP-848).

Expressions have RE2/J syntax, as everywhere in Kafka's broker. An expression stands for the topics
that it matched in its last lookup; lookups happen after a heartbeat, never during it, and at most
every ten seconds. Pure. Counterpart in Kafka: GroupMetadataManager.maybeUpdateRegularExpressions,
handleRegularExpressionsResult, TopicRegexResolver.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, PatternError, Rejection
from txnsim.group._consumer_members import subscription_record
from txnsim.group._member_counts import REGEXES_MAX
from txnsim.group.commands import MayDescribe
from txnsim.group.consumer_group import ConsumerGroup, ConsumerMember
from txnsim.group.consumer_records import ConsumerRecord, EpochStored, RegexDeleted, RegexStored
from txnsim.metadata.image import ClusterImage
from txnsim.patterns import compile_pattern

REFRESH_MIN_MS: Final = 10_000
"""Least time between two lookups in ms
(GroupMetadataManager.REGEX_BATCH_REFRESH_MIN_INTERVAL_MS).
"""


class SubscriptionChange(msgspec.Struct, frozen=True, kw_only=True):
    """How a heartbeat changes a subscription by names and by regular expression."""

    records: tuple[ConsumerRecord, ...]
    is_changed: bool
    bumps_epoch: bool
    """Whether the topics of the new subscription are known, so that the group can get a new
    assignment.
    """
    regexes_to_look_up: tuple[str, ...] = ()
    """Expressions to look up after the heartbeat."""


def subscription_change(
    group: ConsumerGroup,
    member: ConsumerMember,
    updated_member: ConsumerMember,
    *,
    image: ClusterImage,
    refresh_ms: int,
    now_ms: int,
) -> SubscriptionChange | Rejection:
    """The change of subscription that a heartbeat brings."""
    old_regex, new_regex = member.topic_regex or "", updated_member.topic_regex or ""
    names_changed = updated_member.topic_names != member.topic_names
    records: list[ConsumerRecord] = []
    if updated_member != member:
        records.append(subscription_record(group.group_id, updated_member))
    is_new_regex = bumps_epoch = False
    if old_regex != new_regex:
        if old_regex and group.regex_user_count(old_regex) == 1:
            records.append(RegexDeleted(group_id=group.group_id, regex=old_regex))
        if new_regex and group.regex_user_count(new_regex) == 0:
            refusal = _check_regex(new_regex, regex_count=len(group.tally.regexes))
            if refusal is not None:
                return refusal
            is_new_regex = True
        else:
            bumps_epoch = not new_regex or new_regex in group.resolved
    regexes: Collection[str] = group.tally.regexes
    if old_regex != new_regex:
        user_counts = group.tally.regexes
        regexes = {
            regex
            for regex, user_count in user_counts.items()
            if regex != old_regex or user_count > 1
        }
        regexes |= {new_regex} - {""}
    last_lookup_ms, looked_up_version = group.last_lookup()
    lookup_is_due = now_ms > last_lookup_ms + REFRESH_MIN_MS and (
        is_new_regex
        or len(regexes) != len(group.resolved)
        or looked_up_version < image.offset
        or now_ms > last_lookup_ms + refresh_ms
    )
    return SubscriptionChange(
        records=tuple(records),
        is_changed=names_changed or old_regex != new_regex,
        bumps_epoch=names_changed or bumps_epoch,
        regexes_to_look_up=tuple(sorted(regexes)) if lookup_is_due else (),
    )


TopicsByRegex = Mapping[str, tuple[str, ...]]
"""Expression -> the topics that match it."""


def matching_topics(
    regexes: Sequence[str], *, image: ClusterImage, may_describe: MayDescribe = None
) -> Generator[int, None, TopicsByRegex]:
    """Find the topics that match expressions; yields the work done, after some topics.

    Topics that the asking member may not describe are left out for the whole group, as in
    TopicRegexResolver.filterTopicDescribeAuthorizedTopics, and are not matched at all.
    """
    topics_by_regex: dict[str, tuple[str, ...]] = {}
    for regex in regexes:
        try:
            pattern = compile_pattern(regex)
        except PatternError:
            topics_by_regex[regex] = ()  # of a group that another program has written
            continue
        topic_names = []
        for topic_name in image.topics:
            if may_describe is None or may_describe(topic_name):
                if pattern.matches(topic_name):
                    topic_names.append(topic_name)
                yield pattern.weight(topic_name)
            else:
                yield 1
        topics_by_regex[regex] = tuple(sorted(topic_names))
    return topics_by_regex


def resolve(
    group: ConsumerGroup, topics_by_regex: TopicsByRegex, *, image: ClusterImage, now_ms: int
) -> tuple[RegexStored | EpochStored, ...]:
    """The records for new matches of expressions; a difference raises the group's epoch."""
    records: list[RegexStored | EpochStored] = []
    have_topics_changed = False
    resolved_topics: dict[str, frozenset[str]] = {}
    for regex, topics in topics_by_regex.items():
        if group.regex_user_count(regex) == 0:
            continue
        resolved_topics[regex] = frozenset(topics)
        old_lookup = group.resolved.get(regex)
        have_topics_changed = (
            have_topics_changed
            or (old_lookup.topics if old_lookup else frozenset()) != resolved_topics[regex]
        )
        records.append(
            RegexStored(
                group_id=group.group_id,
                regex=regex,
                topics=topics,
                version=image.offset,
                timestamp_ms=now_ms,
            )
        )
    metadata_hash = group.tally.topics_hash(image, topics_by_regex=resolved_topics)
    if records and (have_topics_changed or metadata_hash != group.metadata_hash):
        records.append(
            EpochStored(
                group_id=group.group_id, group_epoch=group.epoch + 1, metadata_hash=metadata_hash
            )
        )
    return tuple(records)


def _check_regex(regex: str, *, regex_count: int) -> Rejection | None:
    complaint = ""
    if regex_count >= REGEXES_MAX:
        complaint = f"can't be taken: the group has {regex_count} others"
    try:
        compile_pattern(regex)
    except PatternError as error:
        complaint = f"is not a valid regular expression: {error}"
    if not complaint:
        return None
    return Rejection(
        error=ErrorCode.invalid_regular_expression,
        reason=f"SubscribedTopicRegex `{regex}` {complaint}.",
    )
