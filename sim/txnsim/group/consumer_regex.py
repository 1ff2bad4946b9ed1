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
    is_another: bool
    bumps_epoch: bool
    """Whether the topics of the new subscription are known, so that the group can get a new
    assignment.
    """
    lookups: tuple[str, ...] = ()
    """Expressions to look up after the heartbeat."""


def subscription_change(
    group: ConsumerGroup,
    member: ConsumerMember,
    updated: ConsumerMember,
    *,
    image: ClusterImage,
    refresh_ms: int,
    now_ms: int,
) -> SubscriptionChange | Rejection:
    """The change of subscription that a heartbeat brings."""
    old, new = member.topic_regex or "", updated.topic_regex or ""
    names_changed = updated.topic_names != member.topic_names
    records: list[ConsumerRecord] = []
    if updated != member or member.member_id not in group.members:
        records.append(subscription_record(group.group_id, updated))
    is_new = bumps_epoch = False
    if old != new:
        if old and group.regex_users(old) == 1:
            records.append(RegexDeleted(group_id=group.group_id, regex=old))
        if new and group.regex_users(new) == 0:
            refusal = _check(new, regex_count=len(group.tally.regexes))
            if refusal is not None:
                return refusal
            is_new = True
        else:
            bumps_epoch = not new or new in group.resolved
    regexes: Collection[str] = group.tally.regexes
    if old != new:
        users = group.tally.regexes
        regexes = {regex for regex, count in users.items() if regex != old or count > 1}
        regexes |= {new} - {""}
    last_ms, version = group.last_lookup()
    is_due = now_ms > last_ms + REFRESH_MIN_MS and (
        is_new
        or len(regexes) != len(group.resolved)
        or version < image.offset
        or now_ms > last_ms + refresh_ms
    )
    return SubscriptionChange(
        records=tuple(records),
        is_another=names_changed or old != new,
        bumps_epoch=names_changed or bumps_epoch,
        lookups=tuple(sorted(regexes)) if is_due else (),
    )


Found = Mapping[str, tuple[str, ...]]
"""Expression -> the topics that match it."""


def matching_topics(
    regexes: Sequence[str], *, image: ClusterImage, may_describe: MayDescribe = None
) -> Generator[int, None, Found]:
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
        names = []
        for name in image.topics:
            if may_describe is None or may_describe(name):
                if pattern.matches(name):
                    names.append(name)
                yield pattern.weight(name)
            else:
                yield 1
        topics_by_regex[regex] = tuple(sorted(names))
    return topics_by_regex


def resolve(
    group: ConsumerGroup, topics_by_regex: Found, *, image: ClusterImage, now_ms: int
) -> tuple[RegexStored | EpochStored, ...]:
    """The records for new matches of expressions; a difference raises the group's epoch."""
    records: list[RegexStored | EpochStored] = []
    changed = False
    stands_for: dict[str, frozenset[str]] = {}
    for regex, topics in topics_by_regex.items():
        if group.regex_users(regex) == 0:
            continue
        stands_for[regex] = frozenset(topics)
        old_lookup = group.resolved.get(regex)
        changed = changed or (old_lookup.topics if old_lookup else frozenset()) != stands_for[regex]
        records.append(
            RegexStored(
                group_id=group.group_id,
                regex=regex,
                topics=topics,
                version=image.offset,
                timestamp_ms=now_ms,
            )
        )
    hashed = group.tally.topics_hash(image, resolved=stands_for)
    if records and (changed or hashed != group.metadata_hash):
        records.append(
            EpochStored(group_id=group.group_id, group_epoch=group.epoch + 1, metadata_hash=hashed)
        )
    return tuple(records)


def _check(regex: str, *, regex_count: int) -> Rejection | None:
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
