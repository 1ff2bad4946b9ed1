"""Members of share groups that name many partitions, join by the thousand, or send much about few
records.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from tests.attacks.sending import exchange, read_answers, request, send_frames
from tests.attacks.target import Attack, AttackTarget
from txnsim.client.raw.connection import RawConnection
from txnsim.interbroker.share_state import ShareKey
from txnsim.types import uuid_text
from txnsim.wire.batch import Record, build_batch

WIDE: Final = "wide"
PARTITIONS: Final = 9_990
ACKNOWLEDGED: Final = 5_000
SESSIONS: Final = 3_000
PARKED: Final = 500
TINY: Final = 20_000
SERVE: Final = ("--brokers", "1", "--topic", f"{WIDE}:{PARTITIONS}")
_SHARE_FETCH, _SHARE_ACKNOWLEDGE, _INITIALIZE, _FIND = 78, 79, 83, 10
_STAMP_MS: Final = 1_700_000_000_000


def first_fetch(target: AttackTarget) -> int:
    """A first ShareFetch of 9,990 partitions that the share coordinator has states of."""
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent_bytes = with_states(connection, topic_id, range(PARTITIONS))
        target.reset_memory_peak()
        frame = _fetch(topic_id, "g", "m", 0, range(PARTITIONS))
    return sent_bytes + send_frames(target, [frame])


def fetches(target: AttackTarget) -> int:
    """A share session of 9,990 partitions, opened ten times, and asked ten times again."""
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent_bytes = with_states(connection, topic_id, range(PARTITIONS))
        target.reset_memory_peak()
    opening_fetches = [_fetch(topic_id, "g", "m", 0, range(PARTITIONS))] * 10
    following_fetches = [_fetch(topic_id, "g", "m", epoch, ()) for epoch in range(1, 11)]
    return sent_bytes + send_frames(target, [*opening_fetches, *following_fetches])


def fetch_without_states(target: AttackTarget) -> int:
    """The same of a group that the share coordinator does not know, five times."""
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
    return send_frames(target, [_fetch(topic_id, "g", "m", 0, range(PARTITIONS))] * 5)


def fetch_unknown(target: AttackTarget) -> int:
    """A ShareFetch of 9,990 topics that are not there, five times."""
    topics = [
        {"topic_id": UUID(int=partition_number), "partitions": [{"partition_index": 0}]}
        for partition_number in range(1, PARTITIONS)
    ]
    return send_frames(target, [_fetch(None, "g", "m", 0, (), topics=topics)] * 5)


def acknowledge_many(target: AttackTarget) -> int:
    """ShareAcknowledge of a record of each of 5,000 partitions."""
    chosen_partitions = range(ACKNOWLEDGED)
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent_bytes = with_states(connection, topic_id, chosen_partitions)
        sent_bytes += _with_records(target, chosen_partitions)
        epoch = 0
        acquired = 0
        while acquired < ACKNOWLEDGED:
            values = _fetch_values(
                topic_id, "g", "m", epoch, chosen_partitions if not epoch else ()
            )
            answer = connection.ask(_SHARE_FETCH, 2, **values)
            acquired += sum(
                len(partition.acquired_records)
                for topic in answer.responses
                for partition in topic.partitions
            )
            epoch += 1
        target.reset_memory_peak()
        partitions = [
            {
                "partition_index": partition_index,
                "acknowledgement_batches": [_acknowledgement(0, 0)],
            }
            for partition_index in chosen_partitions
        ]
        values = {
            **_member("g", "m", epoch),
            "is_renew_ack": False,
            "topics": [{"topic_id": topic_id, "partitions": partitions}],
        }
        connection.ask(_SHARE_ACKNOWLEDGE, 2, **values)
    return sent_bytes + len(request(_SHARE_ACKNOWLEDGE, 2, **values))


def acknowledge_each(target: AttackTarget) -> int:
    """ShareAcknowledge of 2,000 records, each by itself and of another type than the one before."""
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent_bytes = with_states(connection, topic_id, (0,))
        records = build_batch(
            [Record(key=None, value=b"v") for _ in range(2_000)], timestamp_ms=_STAMP_MS
        )
        sent_bytes += _with_records(target, (0,), records)
        answer: Any = None
        for epoch in range(100):
            values = _fetch_values(topic_id, "g", "m", epoch, () if epoch else (0,))
            answer = connection.ask(_SHARE_FETCH, 2, **values)
            if any(
                partition.acquired_records
                for topic in answer.responses
                for partition in topic.partitions
            ):
                break
        target.reset_memory_peak()
        batches = [_acknowledgement(offset, offset, 1 + offset % 3) for offset in range(2_000)]
        partition_fields = {"partition_index": 0, "acknowledgement_batches": batches}
        values = {
            **_member("g", "m", epoch + 1),
            "is_renew_ack": False,
            "topics": [{"topic_id": topic_id, "partitions": [partition_fields]}],
        }
        connection.ask(_SHARE_ACKNOWLEDGE, 2, **values)
    return sent_bytes + len(request(_SHARE_ACKNOWLEDGE, 2, **values))


def sessions(target: AttackTarget) -> int:
    """3,000 members that open a share session each, of 1,000 partitions, over one connection."""
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent_bytes = with_states(connection, topic_id, range(1_000))
        target.reset_memory_peak()
    frames = [
        _fetch(topic_id, "g", f"m{session_number}", 0, range(1_000), max_wait=0)
        for session_number in range(SESSIONS)
    ]
    return sent_bytes + send_frames(target, frames)


def parked_members(target: AttackTarget) -> int:
    """500 members of as many groups wait for the next record of the same 20 partitions."""
    chosen_partitions = range(20)
    sent_bytes = 0
    with target.connect() as connection, contextlib.ExitStack() as open_ones:
        topic_id = topic_id_of(connection)
        for group_number in range(PARKED):
            sent_bytes += with_states(
                connection, topic_id, chosen_partitions, group=f"g{group_number}"
            )
        target.reset_memory_peak()
        sockets = []
        for group_number in range(PARKED):
            member_socket = open_ones.enter_context(target.socket())
            member_socket.settimeout(60.0)
            frame = _fetch(topic_id, f"g{group_number}", "m", 0, chosen_partitions, max_wait=20_000)
            member_socket.sendall(frame)
            sent_bytes += len(frame)
            sockets.append(member_socket)
        time.sleep(2.0)
        sent_bytes += _with_records(target, chosen_partitions)
        for member_socket in sockets:
            read_answers(member_socket, 1)
    return sent_bytes


def tiny(target: AttackTarget) -> int:
    """20,000 batches of one record; ten members want one record each, and may read 50 MiB."""
    with target.connect() as connection:
        topic_id = topic_id_of(connection)
        sent_bytes = with_states(connection, topic_id, (0,))
    batch = build_batch([Record(key=None, value=b"v")], timestamp_ms=_STAMP_MS)
    topics = [{"name": WIDE, "partition_data": [{"index": 0, "records": batch}]}]
    frame = request(0, 9, acks=1, timeout=30_000, topic_data=topics)
    with target.socket() as connection:
        exchange(connection, frame * TINY, answer_count=TINY)
    target.reset_memory_peak()
    frames = [
        _fetch(topic_id, "g", f"m{frame_number}", 0, (0,), max_records=1)
        for frame_number in range(10)
    ]
    return sent_bytes + TINY * len(frame) + send_frames(target, frames)


# What is sent


def topic_id_of(connection: RawConnection) -> UUID:
    (topic,) = connection.ask(3, 12, topics=[{"name": WIDE}]).topics
    return UUID(bytes=topic.topic_id.bytes)


def with_states(
    connection: RawConnection, topic_id: UUID, partitions: Iterable[int], *, group: str = "g"
) -> int:
    """Have a state at the share coordinator; bytes sent."""
    sent_bytes = 0
    for part in in_parts(partitions, 1_000):
        values = {
            "group_id": group,
            "topics": [
                {
                    "topic_id": topic_id,
                    "partitions": [
                        {"partition": partition_index, "state_epoch": 0, "start_offset": 0}
                        for partition_index in part
                    ],
                }
            ],
        }
        while True:
            (topic,) = connection.ask(_INITIALIZE, 0, **values).results
            sent_bytes += len(request(_INITIALIZE, 0, **values))
            if not any(result.error_code for result in topic.partitions):
                break
            coordinator_key = ShareKey(group, uuid_text(topic_id), part[0]).coordinator_key
            connection.ask(_FIND, 6, key_type=2, coordinator_keys=[coordinator_key])
            time.sleep(0.05)
    return sent_bytes


def _with_records(
    target: AttackTarget, partitions: Iterable[int], records: bytes | None = None
) -> int:
    """A record in each, or that batch; bytes sent."""
    batch = records or build_batch([Record(key=None, value=b"v")], timestamp_ms=_STAMP_MS)
    sent_bytes = 0
    with target.socket() as connection:
        connection.settimeout(60.0)
        for part in in_parts(partitions, 500):
            partition_data = [{"index": index, "records": batch} for index in part]
            topics = [{"name": WIDE, "partition_data": partition_data}]
            frame = request(0, 9, acks=1, timeout=30_000, topic_data=topics)
            connection.sendall(frame)
            read_answers(connection, 1)
            sent_bytes += len(frame)
    return sent_bytes


def in_parts(numbers: Iterable[int], size: int) -> Iterator[list[int]]:
    number_list = list(numbers)
    for start in range(0, len(number_list), size):
        yield number_list[start : start + size]


def _member(group: str, member: str, epoch: int) -> dict[str, Any]:
    return {"group_id": group, "member_id": member, "share_session_epoch": epoch}


def _acknowledgement(first_offset: int, last_offset: int, kind: int = 1) -> dict[str, Any]:
    return {"first_offset": first_offset, "last_offset": last_offset, "acknowledge_types": [kind]}


def _fetch_values(
    topic_id: UUID | None, group: str, member: str, epoch: int, partitions: Iterable[int]
) -> dict[str, Any]:
    parts = [
        {"partition_index": partition_index, "acknowledgement_batches": []}
        for partition_index in partitions
    ]
    return {
        **_member(group, member, epoch),
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "max_records": 500_000,
        "batch_size": 500,
        "share_acquire_mode": 0,
        "is_renew_ack": False,
        "topics": [{"topic_id": topic_id, "partitions": parts}] if parts else [],
        "forgotten_topics_data": [],
    }


def _fetch(
    topic_id: UUID | None,
    group: str,
    member: str,
    epoch: int,
    partitions: Iterable[int],
    **other_fields: Any,
) -> bytes:
    values = {**_fetch_values(topic_id, group, member, epoch, partitions), **other_fields}
    return request(_SHARE_FETCH, 2, **values)


ATTACKS: Final = (
    Attack("share-first-fetch", first_fetch, serve=SERVE),
    Attack("share-fetches", fetches, serve=SERVE),
    Attack("share-fetch-without-states", fetch_without_states, serve=SERVE),
    Attack("share-fetch-unknown", fetch_unknown, serve=SERVE),
    Attack("share-acknowledge-many", acknowledge_many, serve=SERVE),
    Attack("share-acknowledge-each", acknowledge_each, serve=SERVE),
    Attack("share-sessions", sessions, serve=SERVE),
    Attack("share-tiny-batches", tiny, serve=SERVE),
    Attack("share-parked", parked_members, serve=SERVE),
)
