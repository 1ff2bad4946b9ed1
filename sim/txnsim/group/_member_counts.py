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

Source = frozenset[str] | str
_NO_NAMES: Final[frozenset[str]] = frozenset()

NAMES_MAX: Final = 200_000
"""Limit of names in all subscriptions of a group, counting equal subscriptions once: a member that
would exceed it can't join.
"""
REGEXES_MAX: Final = 100
"""Limit of different regular expressions in a group."""


class Counted(Protocol):
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


class Tally:
    """Counts over the members of a group."""

    __slots__ = (
        "_hash",
        "_names",
        "_resolved",
        "_settled",
        "_sources",
        "_users",
        "assignors",
        "classic",
        "classic_protocols",
        "names_total",
        "regexes",
    )

    def __init__(self) -> None:
        self._users: Counter[Source] = Counter()
        self._sources: dict[frozenset[str], frozenset[str]] = {}
        self._resolved: dict[str, frozenset[str]] = {}
        self._names: Counter[str] = Counter()
        """Topic name -> number of subscribed sources that contain it."""
        self._settled: Counter[int] = Counter()
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

    def copy(self) -> Tally:
        """An independent copy."""
        later = Tally()
        for name in ("_users", "_names", "_settled", "assignors", "classic_protocols"):
            setattr(later, name, Counter(getattr(self, name)))
        for name in ("_sources", "_resolved", "regexes"):
            setattr(later, name, dict(getattr(self, name)))
        later._hash = self._hash.copy()
        later.classic, later.names_total = self.classic, self.names_total
        return later

    # Changes

    def share_names(self, names: frozenset[str]) -> frozenset[str]:
        """The equal set of another member, to be shared; else the argument itself."""
        return self._sources.get(names, names)

    def replace(self, old: Counted | None, new: Counted | None) -> None:
        """Update the counts for a member that joined, changed its subscription or epoch, or
        left.
        """
        if old is not None and new is not None and _subscribes_as(old, new):
            self._count_settled(old, -1)
            self._count_settled(new, 1)
            return
        old_sources = () if old is None else tuple(_sources(old))
        new_sources = () if new is None else tuple(_sources(new))
        self._count_names(*self._name_changes(old_sources, new_sources, {}))
        for source in new_sources:
            self._count_source(source, 1)
        for source in old_sources:
            self._count_source(source, -1)
        for member, sign in ((old, -1), (new, 1)):
            if member is None:
                continue
            self._count_settled(member, sign)
            _count(self.assignors, member.server_assignor, sign)
            if member.classic is not None:
                self.classic += sign
                for name in {name for name, _ in member.classic.protocols}:
                    _count(self.classic_protocols, name, sign)

    def count_resolved(self, regex: str, topics: frozenset[str]) -> None:
        """Count the topics that a regular expression matches; an empty set removes them."""
        self._count_names(*self._name_changes((), (), {regex: topics}))
        if topics:
            self._resolved[regex] = topics
        else:
            self._resolved.pop(regex, None)

    # Queries

    def has_subscriber(self, name: str) -> bool:
        return name in self._names

    def settled_count(self, epoch: int) -> int:
        """Number of members that are stable at an epoch."""
        return self._settled[epoch]

    def refusal(self, names: frozenset[str]) -> Rejection | None:
        """Why nobody may subscribe to these names; None if the limit allows it."""
        if names in self._users or self.names_total + len(names) <= NAMES_MAX:
            return None
        return Rejection(
            error=ErrorCode.group_max_size_reached,
            reason=f"The subscriptions of the group would have more than {NAMES_MAX} topics.",
        )

    def topics_hash(
        self,
        image: ClusterImage,
        *,
        leaving: Iterable[Counted] = (),
        joining: Iterable[Counted] = (),
        resolved: Mapping[str, frozenset[str]] | None = None,
    ) -> int:
        """The topics hash of the group after members leave and join, and after lookups of regular
        expressions.
        """
        self._hash.refresh(self._names, image)
        changed = self._changed_in(image, leaving, joining, resolved or {})
        counts = self._names
        new_topics = [name for name in changed if name not in counts]
        removed_topics = [
            name for name, change in changed.items() if name in counts and not counts[name] + change
        ]
        return self._hash.value_with(new_topics, removed_topics, image)

    def topics_after(
        self, image: ClusterImage, *, leaving: Iterable[Counted], joining: Iterable[Counted]
    ) -> set[str]:
        """Existing subscribed topics after members leave and join."""
        counts = self._names
        topics = set(image.existing(counts))
        for name, change in self._changed_in(image, leaving, joining, {}).items():
            if counts[name] + change:
                topics.add(name)
            else:
                topics.discard(name)
        return topics

    # Parts

    def _changed_in(
        self,
        image: ClusterImage,
        leaving: Iterable[Counted],
        joining: Iterable[Counted],
        resolved: Mapping[str, frozenset[str]],
    ) -> Counter[str]:
        """Change of the number of sources per existing topic."""
        added, removed = self._name_changes(
            [source for member in leaving for source in _sources(member)],
            [source for member in joining for source in _sources(member)],
            resolved,
        )
        changed: Counter[str] = Counter()
        for topic_names in added:
            changed.update(image.existing(topic_names))
        for topic_names in removed:
            changed.subtract(image.existing(topic_names))
        return changed

    def _name_changes(
        self,
        old_sources: Iterable[Source],
        new_sources: Iterable[Source],
        resolved: Mapping[str, frozenset[str]],
    ) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
        """The sets of names to count from now on, and those to stop counting."""
        net: Counter[Source] = Counter(new_sources)
        net.subtract(old_sources)
        net.update(dict.fromkeys(resolved, 0))
        added, removed = [], []
        for source, change in net.items():
            users = self._users[source]
            topics_before = self._topics(source) if users else _NO_NAMES
            topics_after = _NO_NAMES
            if users + change:
                topics_after = (
                    resolved[source]
                    if isinstance(source, str) and source in resolved
                    else self._topics(source)
                )
            if topics_before is not topics_after:
                added.append(topics_after)
                removed.append(topics_before)
        return added, removed

    def _topics(self, source: Source) -> frozenset[str]:
        return self._resolved.get(source, _NO_NAMES) if isinstance(source, str) else source

    def _count_names(
        self, added: Iterable[frozenset[str]], removed: Iterable[frozenset[str]]
    ) -> None:
        """Update the counts in one pass: a member may have 20,000 names, each a cache miss of the
        processor.
        """
        counts = self._names
        for names in added:
            counts.update(names)
            self._hash.note_changes(names, counts, 1)
        for names in removed:
            for name in names:
                users = counts[name] - 1
                if users:
                    counts[name] = users
                else:
                    counts.pop(name)  # del calls a function for each
            self._hash.note_changes(names, counts, 0)

    def _count_source(self, source: Source, sign: int) -> None:
        users = self._users[source] + sign
        if isinstance(source, str):
            if users:
                self.regexes[source] = users
            else:
                self.regexes.pop(source, None)
        elif users == sign == 1:
            self._sources[source] = source
            self.names_total += len(source)
        elif not users:
            self._sources.pop(source, None)
            self.names_total -= len(source)
        if users:
            self._users[source] = users
        else:
            self._users.pop(source, None)

    def _count_settled(self, member: Counted, sign: int) -> None:
        if member.is_stable:
            _count(self._settled, member.member_epoch, sign)


def _subscribes_as(old: Counted, new: Counted) -> bool:
    return (
        old.topic_names is new.topic_names
        and old.topic_regex == new.topic_regex
        and old.server_assignor == new.server_assignor
        and old.classic is new.classic
    )


def _sources(member: Counted) -> Iterator[Source]:
    if member.topic_names:
        yield member.topic_names
    if member.topic_regex:
        yield member.topic_regex


def _count(counts: Counter[Any], key: str | int | None, sign: int) -> None:
    if key is None:
        return
    count = counts[key] + sign
    if count:
        counts[key] = count
    else:
        del counts[key]
