"""Share groups of very many members, names and partitions, and the share coordinator's requests."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from tests.attacks.sending import asked, request
from tests.attacks.shares import PARTITIONS, WIDE, topic_id_of, with_states
from tests.attacks.target import Attack, Target

SERVE: Final = ("--brokers", "1", "--ready-coordinators", "--topic", f"{WIDE}:{PARTITIONS}")
MEMBERS: Final = 200
"""``group.share.max.size``."""
STATES: Final = 5_000
NAMES: Final = 19_900
OFTEN: Final = 10
_HEARTBEAT, _DESCRIBE = 76, 77
_READ, _WRITE, _DELETE, _SUMMARY = 84, 85, 86, 87
_OFFSETS, _ALTER, _FORGET = 90, 91, 92
_ALL: Final = range(PARTITIONS)


def members(target: Target) -> int:
    """Groups of 200 members over 9,990 partitions; more join, then all fall silent."""
    frames = [_joins(f"g{group}", at, [WIDE]) for group in range(5) for at in range(MEMBERS + 20)]
    sent = asked(target, frames)
    time.sleep(50.0)
    return sent


def groups(target: Target) -> int:
    """5,000 groups of one member; a topic of theirs is deleted."""
    sent = asked(target, [_joins(f"g{group}", 0, ["small"]) for group in range(5_000)])
    target.is_made()
    with target.connect() as connection:
        wanted = {"name": "small", "num_partitions": 1, "replication_factor": 1}
        connection.ask(19, 7, topics=[wanted], timeout=10_000)
        time.sleep(5.0)
        gone = [{"name": "small", "topic_id": UUID(int=0)}]
        connection.ask(20, 6, topics=gone, timeout=30_000)
    time.sleep(2.0)
    return sent


def names(target: Target) -> int:
    """94 members of one group, each with 19,900 names of its own."""
    frames = [_joins("g", at, [f"{at}-{number}" for number in range(NAMES)]) for at in range(94)]
    return asked(target, frames) + asked(target, [_joins("h", at, [WIDE]) for at in range(100)])


def describes(target: Target) -> int:
    """ShareGroupDescribe of a group of 200 members with 9,990 partitions, named 64 times."""
    sent = asked(target, [_joins("g", at, [WIDE]) for at in range(MEMBERS)])
    time.sleep(5.0)
    target.is_made()
    frame = request(_DESCRIBE, 1, group_ids=["g"] * 64, include_authorized_operations=True)
    return sent + asked(target, [frame] * OFTEN)


def states(target: Target) -> int:
    """All five requests to the share coordinator about 5,000 partitions, ten times."""
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent = with_states(connection, topic_id, range(STATES))
    batch = {"first_offset": 0, "last_offset": 0, "delivery_state": 0, "delivery_count": 1}
    written = {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": [batch]}
    frames = [
        request(_READ, 0, **_states(topic_id, range(STATES), leader_epoch=0)),
        request(_WRITE, 0, **_states(topic_id, range(STATES), **written)),
        request(_SUMMARY, 1, **_states(topic_id, range(STATES), leader_epoch=0)),
    ] * OFTEN
    frames.append(request(_DELETE, 0, **_states(topic_id, range(STATES))))
    return sent + asked(target, frames)


def long_state(target: Target) -> int:
    """WriteShareGroupState and ReadShareGroupState of 19,000 batches of a partition, ten times."""
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent = with_states(connection, topic_id, (0,))
    batches = [
        {"first_offset": at, "last_offset": at, "delivery_state": 0, "delivery_count": 1 + at % 2}
        for at in range(19_000)
    ]
    written = {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": batches}
    frames = [request(_WRITE, 0, **_states(topic_id, (0,), **written))] * OFTEN
    frames += [request(_READ, 0, **_states(topic_id, (0,), leader_epoch=0))] * OFTEN
    return sent + asked(target, frames)


def offsets(target: Target) -> int:
    """Offsets of 9,990 share partitions: described, altered and deleted ten times."""
    sent = asked(target, [_joins("g", 0, [WIDE])])
    time.sleep(5.0)
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent += with_states(connection, topic_id, _ALL, group="h")
        leaves = {"group_id": "g", "member_id": _member(0), "member_epoch": -1, "rack_id": None}
        connection.ask(_HEARTBEAT, 1, **leaves, subscribed_topic_names=None)
    target.is_made()
    wanted = [{"group_id": "g", "topics": [{"topic_name": WIDE, "partitions": list(_ALL)}]}]
    frames = [request(_OFFSETS, 1, groups=wanted)] * OFTEN
    starts = [{"partition_index": at, "start_offset": 0} for at in _ALL]
    altered = [{"topic_name": WIDE, "partitions": starts}]
    frames += [request(_ALTER, 0, group_id="g", topics=altered)] * OFTEN
    frames += [request(_FORGET, 0, group_id="g", topics=[{"topic_name": WIDE}])] * OFTEN
    return sent + asked(target, frames)


def _member(at: int) -> str:
    return f"m{at}"


def _joins(group: str, at: int, topics: list[str]) -> bytes:
    return request(
        _HEARTBEAT,
        1,
        group_id=group,
        member_id=_member(at),
        member_epoch=0,
        rack_id=None,
        subscribed_topic_names=topics,
    )


def _states(topic_id: UUID, partitions: Iterable[int], **each: Any) -> dict[str, Any]:
    parts = [{"partition": one, **each} for one in partitions]
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
