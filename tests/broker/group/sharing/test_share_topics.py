"""Share state of topics: offsets that are altered and deleted, groups and topics that go."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.consumer_groups import GROUP, NOW, image, topic_id
from tests.support.share_groups import ShareDriver
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.consumer_records import DeletingTopic, ShareRecord, ShareTopic, ShareTopicsStored
from txnsim.group.sharing.share_topics import (
    NO_PARTITION_ERROR,
    PartitionError,
    ShareAlteration,
    ShareDeletion,
    TopicOutcome,
    alter_offsets,
    delete_all_topics,
    delete_offsets,
    records_of_deleted,
    records_without_topics,
)
from txnsim.interbroker.share_state import DeleteShareState, InitializeShareState, ShareKey
from txnsim.types import uuid_text

E = ErrorCode
T, U, GONE = topic_id("t"), topic_id("u"), topic_id("gone")
UNKNOWN = PartitionError(
    error=E.unknown_topic_or_partition, message="This server does not host this topic-partition."
)
NOTHING = PartitionError(
    error=E.unknown_topic_or_partition, message="There is no offset information to delete."
)


def share_topic(topic_name: str, *partitions: int) -> ShareTopic:
    return ShareTopic(topic_id=topic_id(topic_name), topic_name=topic_name, partitions=partitions)


def going(topic_name: str) -> DeletingTopic:
    return DeletingTopic(topic_id=topic_id(topic_name), topic_name=topic_name)


def stored_topics(
    initializing: Iterable[ShareTopic] = (),
    initialized: Iterable[ShareTopic] = (),
    deleting: Iterable[DeletingTopic] = (),
) -> ShareTopicsStored:
    return ShareTopicsStored(
        group_id=GROUP,
        initializing=tuple(sorted(initializing)),
        initialized=tuple(sorted(initialized)),
        deleting=tuple(sorted(deleting)),
        stored_at_ms=NOW,
    )


def key(name: str, partition: int) -> ShareKey:
    return ShareKey(GROUP, uuid_text(topic_id(name)), partition)


def holding(*records: ShareRecord) -> ShareDriver:
    driver = ShareDriver(image(t=2, u=1))
    driver.write(records)
    return driver


def with_member() -> ShareDriver:
    driver = holding()
    driver.beat_ok("m", 0, "t")
    return driver


def alter(driver: ShareDriver, *topics: tuple[str, list[tuple[int, int]]]) -> ShareAlteration:
    alteration = alter_offsets(driver.group, topics, image=driver.image, now_ms=NOW)
    assert isinstance(alteration, ShareAlteration)
    return alteration


def delete(driver: ShareDriver, *names: str) -> ShareDeletion:
    deleted = delete_offsets(driver.group, names, image=driver.image, now_ms=NOW)
    assert isinstance(deleted, ShareDeletion)
    return deleted


# Altering


def test_partitions_begin_where_they_are_told_to() -> None:
    driver = holding(stored_topics(initialized=[share_topic("t", 0)]))
    alteration = alter(driver, ("t", [(0, 5), (1, 7)]))
    assert alteration.records == (stored_topics([share_topic("t", 0, 1)], [share_topic("t", 0)]),)
    assert alteration.topics == (
        TopicOutcome(
            topic_name="t",
            topic_id=T,
            partitions=((0, NO_PARTITION_ERROR), (1, NO_PARTITION_ERROR)),
        ),
    )
    assert alteration.states_to_initialize == tuple(
        InitializeShareState(key=key("t", partition_index), state_epoch=1, start_offset=offset)
        for partition_index, offset in ((0, 5), (1, 7))
    )


def test_what_is_not_there_is_not_altered() -> None:
    alteration = alter(holding(), ("t", [(2, 5)]), ("gone", [(0, 5)]))
    assert alteration.records == (stored_topics([share_topic("t")]),)
    assert alteration.topics == (
        TopicOutcome(topic_name="t", topic_id=T, partitions=((2, UNKNOWN),)),
        TopicOutcome(topic_name="gone", partitions=((0, UNKNOWN),)),
    )
    assert alteration.states_to_initialize == ()
    assert alter(holding(), ("gone", [])).records == ()


def test_a_group_with_members_is_not_altered() -> None:
    refusal = alter_offsets(with_member().group, [], image=image(t=2), now_ms=NOW)
    assert refusal == Rejection(error=E.non_empty_group, reason="The group is not empty.")


# Deleting


def test_what_was_initialised_is_deleted() -> None:
    driver = holding(stored_topics(initialized=[share_topic("t", 0, 1), share_topic("u", 0)]))
    deletion = delete(driver, "t")
    assert deletion.records == (
        stored_topics(initialized=[share_topic("u", 0)], deleting=[going("t")]),
    )
    assert deletion.states_to_delete == tuple(
        DeleteShareState(key=key("t", partition_index)) for partition_index in (0, 1)
    )
    driver.write(deletion.records)
    driver.write(records_of_deleted(driver.group, [T], now_ms=NOW))
    assert driver.records == [stored_topics(initialized=[share_topic("u", 0)])]


def test_what_is_being_deleted_is_asked_for_again() -> None:
    driver = holding(stored_topics(deleting=[going("t")]))
    deletion = delete(driver, "t")
    assert deletion.records == (stored_topics(deleting=[going("t")]),)
    assert deletion.states_to_delete == tuple(
        DeleteShareState(key=key("t", partition_index)) for partition_index in (0, 1)
    )


def test_topics_without_offsets_are_refused_one_by_one() -> None:
    driver = holding(stored_topics(initialized=[share_topic("t", 0)]))
    deletion = delete(driver, "u", "gone")
    assert deletion.refused_topics == (
        TopicOutcome(topic_name="u", outcome=NOTHING),
        TopicOutcome(topic_name="gone", outcome=UNKNOWN),
    )
    assert (deletion.records, deletion.states_to_delete) == (
        (stored_topics(initialized=[share_topic("t", 0)]),),
        (),
    )


def test_a_group_that_never_had_topics_says_nothing_of_them() -> None:
    driver = holding()
    assert delete(driver, "u", "gone") == ShareDeletion()
    assert records_of_deleted(driver.group, [T], now_ms=NOW) == ()
    assert delete_all_topics(driver.group, image=driver.image, now_ms=NOW) == ShareDeletion()


def test_a_group_with_members_keeps_its_offsets() -> None:
    refusal = delete_offsets(with_member().group, ["t"], image=image(t=2), now_ms=NOW)
    assert refusal == Rejection(error=E.non_empty_group, reason="The group is not empty.")


def test_with_the_group_all_its_share_state_goes() -> None:
    driver = holding(
        stored_topics(
            [share_topic("t", 0)],
            [share_topic("t", 1), share_topic("gone", 3)],
            [going("u"), going("left")],
        )
    )
    deleted = delete_all_topics(driver.group, image=driver.image, now_ms=NOW)
    assert deleted.records == (stored_topics(deleting=[going("t"), going("u"), going("gone")]),)
    assert set(deleted.states_to_delete) == {
        DeleteShareState(key=key(name, partition_index))
        for name, partition_index in (("t", 0), ("t", 1), ("gone", 3), ("u", 0))
    }
    driver.write([stored_topics()])
    deletion = delete_all_topics(driver.group, image=driver.image, now_ms=NOW)
    assert (deletion.records, deletion.states_to_delete) == ((stored_topics(),), ())


# Topics that go


def test_a_group_forgets_topics_that_were_deleted() -> None:
    driver = holding(
        stored_topics(
            [share_topic("t", 1)], [share_topic("t", 0), share_topic("u", 0)], [going("gone")]
        )
    )
    assert records_without_topics(driver.group, {topic_id("other")}, now_ms=NOW) == ()
    driver.write(records_without_topics(driver.group, {T, GONE}, now_ms=NOW))
    assert driver.records == [stored_topics(initialized=[share_topic("u", 0)])]
    driver.write(records_without_topics(driver.group, {U}, now_ms=NOW))
    assert driver.records == [stored_topics()]
