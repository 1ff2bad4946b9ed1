"""Share groups of very many members, names and partitions, and the share coordinator's requests."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from tests.attacks.sending import request, send_frames
from tests.attacks.shares import PARTITIONS, WIDE, topic_id_of, with_states
from tests.attacks.target import Attack, AttackTarget

SERVE: Final = ("--brokers", "1", "--ready-coordinators", "--topic", f"{WIDE}:{PARTITIONS}")
MEMBERS: Final = 200
"""``group.share.max.size``."""
STATES: Final = 5_000
NAME_COUNT: Final = 19_900
OFTEN: Final = 10
_HEARTBEAT, _DESCRIBE = 76, 77
_READ, _WRITE, _DELETE, _SUMMARY = 84, 85, 86, 87
_OFFSETS, _ALTER, _FORGET = 90, 91, 92
_ALL: Final = range(PARTITIONS)


def members(target: AttackTarget) -> int:
    """Groups of 200 members over 9,990 partitions; more join, then all fall silent."""
    frames = [
        _joins(f"g{group}", member_number, [WIDE])
        for group in range(5)
        for member_number in range(MEMBERS + 20)
    ]
    sent_bytes = send_frames(target, frames)
    time.sleep(50.0)
    return sent_bytes


def groups(target: AttackTarget) -> int:
    """5,000 groups of one member; a topic of theirs is deleted."""
    sent_bytes = send_frames(target, [_joins(f"g{group}", 0, ["small"]) for group in range(5_000)])
    target.reset_memory_peak()
    with target.connect() as connection:
        topic = {"name": "small", "num_partitions": 1, "replication_factor": 1}
        connection.ask(19, 7, topics=[topic], timeout=10_000)
        time.sleep(5.0)
        deleted_topics = [{"name": "small", "topic_id": UUID(int=0)}]
        connection.ask(20, 6, topics=deleted_topics, timeout=30_000)
    time.sleep(2.0)
    return sent_bytes


def names(target: AttackTarget) -> int:
    """94 members of one group, each with 19,900 names of its own."""
    frames = [
        _joins("g", member, [f"{member}-{number}" for number in range(NAME_COUNT)])
        for member in range(94)
    ]
    return send_frames(target, frames) + send_frames(
        target, [_joins("h", member, [WIDE]) for member in range(100)]
    )


def describes(target: AttackTarget) -> int:
    """ShareGroupDescribe of a group of 200 members with 9,990 partitions, named 64 times."""
    sent_bytes = send_frames(
        target, [_joins("g", member_number, [WIDE]) for member_number in range(MEMBERS)]
    )
    time.sleep(5.0)
    target.reset_memory_peak()
    frame = request(_DESCRIBE, 1, group_ids=["g"] * 64, include_authorized_operations=True)
    return sent_bytes + send_frames(target, [frame] * OFTEN)


def states(target: AttackTarget) -> int:
    """All five requests to the share coordinator about 5,000 partitions, ten times."""
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent_bytes = with_states(connection, topic_id, range(STATES))
    batch = {"first_offset": 0, "last_offset": 0, "delivery_state": 0, "delivery_count": 1}
    written_state = {
        "state_epoch": 0,
        "leader_epoch": 0,
        "start_offset": 0,
        "state_batches": [batch],
    }
    frames = [
        request(_READ, 0, **_states(topic_id, range(STATES), leader_epoch=0)),
        request(_WRITE, 0, **_states(topic_id, range(STATES), **written_state)),
        request(_SUMMARY, 1, **_states(topic_id, range(STATES), leader_epoch=0)),
    ] * OFTEN
    frames.append(request(_DELETE, 0, **_states(topic_id, range(STATES))))
    return sent_bytes + send_frames(target, frames)


def long_state(target: AttackTarget) -> int:
    """WriteShareGroupState and ReadShareGroupState of 19,000 batches of a partition, ten times."""
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent_bytes = with_states(connection, topic_id, (0,))
    batches = [
        {
            "first_offset": offset,
            "last_offset": offset,
            "delivery_state": 0,
            "delivery_count": 1 + offset % 2,
        }
        for offset in range(19_000)
    ]
    written_state = {
        "state_epoch": 0,
        "leader_epoch": 0,
        "start_offset": 0,
        "state_batches": batches,
    }
    frames = [request(_WRITE, 0, **_states(topic_id, (0,), **written_state))] * OFTEN
    frames += [request(_READ, 0, **_states(topic_id, (0,), leader_epoch=0))] * OFTEN
    return sent_bytes + send_frames(target, frames)


def offsets(target: AttackTarget) -> int:
    """Offsets of 9,990 share partitions: described, altered and deleted ten times."""
    sent_bytes = send_frames(target, [_joins("g", 0, [WIDE])])
    time.sleep(5.0)
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent_bytes += with_states(connection, topic_id, _ALL, group="h")
        leaves = {"group_id": "g", "member_id": _member(0), "member_epoch": -1, "rack_id": None}
        connection.ask(_HEARTBEAT, 1, **leaves, subscribed_topic_names=None)
    target.reset_memory_peak()
    group_filters = [{"group_id": "g", "topics": [{"topic_name": WIDE, "partitions": list(_ALL)}]}]
    frames = [request(_OFFSETS, 1, groups=group_filters)] * OFTEN
    starts = [{"partition_index": start_index, "start_offset": 0} for start_index in _ALL]
    altered_topics = [{"topic_name": WIDE, "partitions": starts}]
    frames += [request(_ALTER, 0, group_id="g", topics=altered_topics)] * OFTEN
    frames += [request(_FORGET, 0, group_id="g", topics=[{"topic_name": WIDE}])] * OFTEN
    return sent_bytes + send_frames(target, frames)


def _member(member_number: int) -> str:
    return f"m{member_number}"


def _joins(group: str, number: int, topics: list[str]) -> bytes:
    return request(
        _HEARTBEAT,
        1,
        group_id=group,
        member_id=_member(number),
        member_epoch=0,
        rack_id=None,
        subscribed_topic_names=topics,
    )


def _states(topic_id: UUID, partitions: Iterable[int], **partition_fields: Any) -> dict[str, Any]:
    parts = [{"partition": partition_index, **partition_fields} for partition_index in partitions]
    return {"group_id": "g", "topics": [{"topic_id": topic_id, "partitions": parts}]}


ATTACKS: Final = (
    Attack("share-members", members, serve=SERVE, limit_s=300.0),
    Attack("share-groups", groups, serve=SERVE, limit_s=300.0),
    Attack("share-names", names, serve=SERVE),
    Attack("share-describes", describes, serve=SERVE),
    Attack("share-states", states, serve=SERVE),
    Attack("share-long-state", long_state, serve=SERVE),
    Attack("share-offsets", offsets, serve=SERVE),
)
