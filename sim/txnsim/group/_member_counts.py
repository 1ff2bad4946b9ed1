"""Counts over a group's members.

Counts are updated as members join, change and leave. So a heartbeat does not read all members, and
takes no longer in a large group. A *source* is a subscription: a set of names, or a regular
expression. Members with equal sets share one, and its names count once. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from txnsim.errors import ErrorCode, Rejection
from txnsim.group._topics_hash import TopicsHash
from txnsim.group.consumer_records import ClassicMetadata
from txnsim.metadata.image import ClusterImage

SubscriptionSource = frozenset[str] | str
_NO_TOPIC_NAMES: Final[frozenset[str]] = frozenset()

NAMES_MAX: Final = 200_000
"""Limit of names in all subscriptions of a group, counting equal subscriptions once: a member that
would exceed it can't join.
"""
REGEXES_MAX: Final = 100
"""Limit of different regular expressions in a group."""


class CountedMember(Protocol):
    """The fields of a member that are counted."""

    @property
    def topic_names(self) -> frozenset[str]: ...
    @property
    def topic_regex(self) -> str | None: ...
    @property
    def server_assignor(self) -> str | None: ...
    @property
    def classic(self) -> ClassicMetadata | None: ...
    @property
    def member_epoch(self) -> int: ...
    @property
    def is_stable(self) -> bool: ...


class MemberTally:
    """Counts over the members of a group."""

    __slots__ = (
        "_hash",
        "_source_counts",
        "_sources",
        "_stable_counts",
        "_topics_by_regex",
        "_user_counts",
        "assignors",
        "classic",
        "classic_protocols",
        "names_total",
        "regexes",
    )

    def __init__(self) -> None:
        self._user_counts: Counter[SubscriptionSource] = Counter()
        self._sources: dict[frozenset[str], frozenset[str]] = {}
        self._topics_by_regex: dict[str, frozenset[str]] = {}
        self._source_counts: Counter[str] = Counter()
        """Topic name -> number of subscribed sources that contain it."""
        self._stable_counts: Counter[int] = Counter()
        """Epoch -> number of members that are stable at it."""
        self._hash = TopicsHash()
        self.assignors: Counter[str] = Counter()
        """Server-side assignor -> number of members that vote for it."""
        self.classic = 0
        """Number of members that use the classic protocol."""
        self.classic_protocols: Counter[str] = Counter()
        """Classic protocol name -> number of classic members that support it."""
        self.names_total = 0
        """Number of names in all sets of names."""
        self.regexes: dict[str, int] = {}
        """Regular expression -> number of members that subscribe by it."""

    def copy(self) -> MemberTally:
        """An independent copy."""
        copied_tally = MemberTally()
        for attribute in (
            "_user_counts",
            "_source_counts",
            "_stable_counts",
            "assignors",
            "classic_protocols",
        ):
            setattr(copied_tally, attribute, Counter(getattr(self, attribute)))
        for attribute in ("_sources", "_topics_by_regex", "regexes"):
            setattr(copied_tally, attribute, dict(getattr(self, attribute)))
        copied_tally._hash = self._hash.copy()
        copied_tally.classic, copied_tally.names_total = self.classic, self.names_total
        return copied_tally

    # Changes

    def shared_names(self, topic_names: frozenset[str]) -> frozenset[str]:
        """The equal set of another member, to be shared; else the argument itself."""
        return self._sources.get(topic_names, topic_names)

    def recount_member(
        self, old_member: CountedMember | None, new_member: CountedMember | None
    ) -> None:
        """Update the counts for a member that joined, changed its subscription or epoch, or
        left.
        """
        if (
            old_member is not None
            and new_member is not None
            and _has_same_subscription(old_member, new_member)
        ):
            self._count_settled(old_member, -1)
            self._count_settled(new_member, 1)
            return
        old_sources = () if old_member is None else tuple(_sources(old_member))
        new_sources = () if new_member is None else tuple(_sources(new_member))
        self._count_names(*self._name_changes(old_sources, new_sources, {}))
        for source in new_sources:
            self._count_source(source, 1)
        for source in old_sources:
            self._count_source(source, -1)
        for member, count_change in ((old_member, -1), (new_member, 1)):
            if member is None:
                continue
            self._count_settled(member, count_change)
            _add_to_count(self.assignors, member.server_assignor, count_change)
            if member.classic is not None:
                self.classic += count_change
                for protocol_name in {
                    protocol_name for protocol_name, _ in member.classic.protocols
                }:
                    _add_to_count(self.classic_protocols, protocol_name, count_change)

    def count_resolved(self, regex: str, topics: frozenset[str]) -> None:
        """Count the topics that a regular expression matches; an empty set removes them."""
        self._count_names(*self._name_changes((), (), {regex: topics}))
        if topics:
            self._topics_by_regex[regex] = topics
        else:
            self._topics_by_regex.pop(regex, None)

    # Queries

    def has_subscriber(self, topic_name: str) -> bool:
        return topic_name in self._source_counts

    def settled_count(self, epoch: int) -> int:
        """Number of members that are stable at an epoch."""
        return self._stable_counts[epoch]

    def subscription_refusal(self, topic_names: frozenset[str]) -> Rejection | None:
        """Why nobody may subscribe to these names; None if the limit allows it."""
        if topic_names in self._user_counts or self.names_total + len(topic_names) <= NAMES_MAX:
            return None
        return Rejection(
            error=ErrorCode.group_max_size_reached,
            reason=f"The subscriptions of the group would have more than {NAMES_MAX} topics.",
        )

    def topics_hash(
        self,
        image: ClusterImage,
        *,
        leaving_members: Iterable[CountedMember] = (),
        joining_members: Iterable[CountedMember] = (),
        topics_by_regex: Mapping[str, frozenset[str]] | None = None,
    ) -> int:
        """The topics hash of the group after members leave and join, and after lookups of regular
        expressions.
        """
        self._hash.refresh(self._source_counts, image)
        count_changes = self._source_count_changes(
            image, leaving_members, joining_members, topics_by_regex or {}
        )
        source_counts = self._source_counts
        new_topics = [topic_name for topic_name in count_changes if topic_name not in source_counts]
        removed_topics = [
            topic_name
            for topic_name, count_change in count_changes.items()
            if topic_name in source_counts and not source_counts[topic_name] + count_change
        ]
        return self._hash.value_with(new_topics, removed_topics, image)

    def topics_after(
        self,
        image: ClusterImage,
        *,
        leaving_members: Iterable[CountedMember],
        joining_members: Iterable[CountedMember],
    ) -> set[str]:
        """Existing subscribed topics after members leave and join."""
        source_counts = self._source_counts
        topics = set(image.existing_topics(source_counts))
        for topic_name, count_change in self._source_count_changes(
            image, leaving_members, joining_members, {}
        ).items():
            if source_counts[topic_name] + count_change:
                topics.add(topic_name)
            else:
                topics.discard(topic_name)
        return topics

    # Parts

    def _source_count_changes(
        self,
        image: ClusterImage,
        leaving_members: Iterable[CountedMember],
        joining_members: Iterable[CountedMember],
        topics_by_regex: Mapping[str, frozenset[str]],
    ) -> Counter[str]:
        """Change of the number of sources per existing topic."""
        added_name_sets, removed_name_sets = self._name_changes(
            [source for member in leaving_members for source in _sources(member)],
            [source for member in joining_members for source in _sources(member)],
            topics_by_regex,
        )
        count_changes: Counter[str] = Counter()
        for topic_names in added_name_sets:
            count_changes.update(image.existing_topics(topic_names))
        for topic_names in removed_name_sets:
            count_changes.subtract(image.existing_topics(topic_names))
        return count_changes

    def _name_changes(
        self,
        old_sources: Iterable[SubscriptionSource],
        new_sources: Iterable[SubscriptionSource],
        topics_by_regex: Mapping[str, frozenset[str]],
    ) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
        """The sets of names to count from now on, and those to stop counting."""
        user_changes: Counter[SubscriptionSource] = Counter(new_sources)
        user_changes.subtract(old_sources)
        user_changes.update(dict.fromkeys(topics_by_regex, 0))
        added_name_sets, removed_name_sets = [], []
        for source, user_change in user_changes.items():
            user_count = self._user_counts[source]
            topics_before = self._topics_of_source(source) if user_count else _NO_TOPIC_NAMES
            topics_after = _NO_TOPIC_NAMES
            if user_count + user_change:
                topics_after = (
                    topics_by_regex[source]
                    if isinstance(source, str) and source in topics_by_regex
                    else self._topics_of_source(source)
                )
            if topics_before is not topics_after:
                added_name_sets.append(topics_after)
                removed_name_sets.append(topics_before)
        return added_name_sets, removed_name_sets

    def _topics_of_source(self, source: SubscriptionSource) -> frozenset[str]:
        return (
            self._topics_by_regex.get(source, _NO_TOPIC_NAMES)
            if isinstance(source, str)
            else source
        )

    def _count_names(
        self, added_name_sets: Iterable[frozenset[str]], removed_name_sets: Iterable[frozenset[str]]
    ) -> None:
        """Update the counts in one pass: a member may have 20,000 names, each a cache miss of the
        processor.
        """
        source_counts = self._source_counts
        for topic_names in added_name_sets:
            source_counts.update(topic_names)
            self._hash.note_changes(topic_names, source_counts, 1)
        for topic_names in removed_name_sets:
            for topic_name in topic_names:
                source_count = source_counts[topic_name] - 1
                if source_count:
                    source_counts[topic_name] = source_count
                else:
                    source_counts.pop(topic_name)  # del calls a function for each
            self._hash.note_changes(topic_names, source_counts, 0)

    def _count_source(self, subscription_source: SubscriptionSource, count_change: int) -> None:
        user_count = self._user_counts[subscription_source] + count_change
        if isinstance(subscription_source, str):
            if user_count:
                self.regexes[subscription_source] = user_count
            else:
                self.regexes.pop(subscription_source, None)
        elif user_count == count_change == 1:
            self._sources[subscription_source] = subscription_source
            self.names_total += len(subscription_source)
        elif not user_count:
            self._sources.pop(subscription_source, None)
            self.names_total -= len(subscription_source)
        if user_count:
            self._user_counts[subscription_source] = user_count
        else:
            self._user_counts.pop(subscription_source, None)

    def _count_settled(self, member: CountedMember, count_change: int) -> None:
        if member.is_stable:
            _add_to_count(self._stable_counts, member.member_epoch, count_change)


def _has_same_subscription(old_member: CountedMember, new_member: CountedMember) -> bool:
    return (
        old_member.topic_names is new_member.topic_names
        and old_member.topic_regex == new_member.topic_regex
        and old_member.server_assignor == new_member.server_assignor
        and old_member.classic is new_member.classic
    )


def _sources(member: CountedMember) -> Iterator[SubscriptionSource]:
    if member.topic_names:
        yield member.topic_names
    if member.topic_regex:
        yield member.topic_regex


def _add_to_count(counts: Counter[Any], key: str | int | None, count_change: int) -> None:
    if key is None:
        return
    count = counts[key] + count_change
    if count:
        counts[key] = count
    else:
        del counts[key]
