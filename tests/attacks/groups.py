"""Groups with very many members, names or positions, and the small requests that come after."""

from __future__ import annotations

import contextlib
import struct
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.attacks.answers import PARTITIONS, WIDE
from tests.attacks.sending import exchange, read_answers, request
from tests.attacks.target import Attack, AttackTarget

HEARTBEAT: Final = 68
JOIN: Final = 11
OFFSET_COMMIT: Final = 8
TXN_OFFSET_COMMIT: Final = 28
_PROPERTIES: Final = str(Path(__file__).with_name("groups.properties"))
SERVE: Final = ("--brokers", "1", "--ready-coordinators", "--config", _PROPERTIES)
WIDE_TOPICS: Final = ("--topic", f"{WIDE}:{PARTITIONS - 1}", "--topic", "other:1")
LIMIT_S: Final = 600.0


def silent_members(target: AttackTarget) -> int:
    """8,000 ConsumerGroupHeartbeats that join one group and fall silent."""
    frame_bytes = b"".join(_heartbeats(8_000, lambda number: ["other"]))
    with target.socket() as connection:
        exchange(connection, frame_bytes, answer_count=8_000)
    time.sleep(15.0)
    return len(frame_bytes)


def silent_classic(target: AttackTarget) -> int:
    """900 clients join one classic group and fall silent once they have a generation."""
    frame = join("c", [("range", subscription(1))])
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(target.socket()) for _ in range(900)]
        for connection in connections:
            connection.sendall(frame)
        for connection in connections:
            read_answers(connection, 1)
    time.sleep(10.0)
    return len(connections) * len(frame)


def names(target: AttackTarget) -> int:
    """JoinGroup with 500,000 and with 10,000,000 empty names, then heartbeats of KIP-848."""
    sent_bytes = 0
    for group, count in (("few", 500_000), ("many", 10_000_000)):
        data = join("c", [("range", subscription(count))], group=group)
        with target.socket() as connection:
            exchange(connection, data, answer_count=1)
        sent_bytes += len(data)
    with target.socket() as connection:
        for group in ("few", "many"):
            data = b"".join(_heartbeats(50, lambda number: ["other"], group=group))
            exchange(connection, data, answer_count=50)
            sent_bytes += len(data)
    return sent_bytes


def uneven_members(target: AttackTarget) -> int:
    """1,000 members, every second with one topic more, over 9,990 partitions; 50 more join."""
    frame_bytes = b"".join(_heartbeats(1_050, lambda number: [WIDE, "other"][: 1 + number % 2]))
    with target.socket() as connection:
        exchange(connection, frame_bytes, answer_count=1_050)
        for _ in range(10):
            time.sleep(1.1)  # a target assignment is made once a second at most
            more_heartbeats = b"".join(_heartbeats(10, lambda number: [WIDE, "other"]))
            exchange(connection, more_heartbeats, answer_count=10)
    return len(frame_bytes)


def many_names(target: AttackTarget) -> int:
    """94 members of one group, each with 19,900 names of its own."""
    sent_bytes = 0
    with target.socket() as connection:
        for member in range(94):
            own_names = [f"{member}-{name_number}" for name_number in range(19_900)]
            (frame_bytes,) = _heartbeats(1, lambda _, own_names=own_names: own_names)
            exchange(connection, frame_bytes, answer_count=1)
            sent_bytes += len(frame_bytes)
        more_heartbeats = b"".join(_heartbeats(100, lambda member: ["other"]))
        exchange(connection, more_heartbeats, answer_count=100)
    return sent_bytes + len(more_heartbeats)


def many_protocols(target: AttackTarget) -> int:
    """100 JoinGroups with 19,000 protocols each."""
    frame = join("c", [(f"{number}", b"") for number in range(19_000)])
    with target.socket() as connection:
        exchange(connection, frame * 100, answer_count=100)
    return 100 * len(frame)


def static_members(target: AttackTarget) -> int:
    """2,000 static members of one group; 200 of them begin anew."""
    frames = list(_heartbeats(2_000, lambda number: ["other"], is_static=True))
    rejoining = list(_heartbeats(200, lambda number: ["other"], is_static=True))
    with target.socket() as connection:
        exchange(connection, b"".join(frames), answer_count=2_000)
        leave_frames = [
            request(
                HEARTBEAT,
                1,
                group_id="g",
                member_id=f"m{member_number:08}",
                member_epoch=-2,
                instance_id=f"i{member_number}",
                rebalance_timeout=-1,
                topic_partitions=None,
                subscribed_topic_names=None,
                subscribed_topic_regex=None,
                server_assignor=None,
                rack_id=None,
            )
            for member_number in range(200)
        ]
        exchange(connection, b"".join(leave_frames), answer_count=200)
        exchange(connection, b"".join(rejoining), answer_count=200)
    return len(b"".join(frames)) + len(b"".join(rejoining))


def positions(target: AttackTarget) -> int:
    """600,000 positions of 60 groups: other topics go, then their own."""
    with target.connect() as connection:
        for number in range(5):
            _create(connection, f"small-{number}", 1)
    with target.socket() as connection:
        groups_and_topics = [(f"p{group}", WIDE) for group in range(60)]
        for group_id, topic in groups_and_topics:
            for start in range(0, 9_900, 330):
                parts = range(start, start + 330)
                exchange(connection, _commit(group_id, topic, parts), answer_count=1)
    target.reset_memory_peak()
    sent_bytes = 0
    with target.connect() as connection:
        for number in range(5):
            sent_bytes += _delete(connection, f"small-{number}")
        sent_bytes += _delete(connection, WIDE)
    time.sleep(10.0)
    return sent_bytes


def pending(target: AttackTarget) -> int:
    """EndTxn over as many pending positions as a producer may have."""
    with target.connect() as connection:
        connection.ask(10, 4, key_type=1, coordinator_keys=["t"])
        time.sleep(1.0)
        identity = connection.ask(
            22,
            4,
            transactional_id="t",
            transaction_timeout=600_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        errors: list[int] = []
        partitions = [
            {"partition_index": partition_index, "committed_offset": 1}
            for partition_index in range(PARTITIONS - 1)
        ]
        for group in range(11):
            answer = connection.ask(
                TXN_OFFSET_COMMIT,
                5,
                transactional_id="t",
                group_id=f"g{group}",
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=[{"name": WIDE, "partitions": partitions}],
            )
            errors.append(answer.topics[0].partitions[0].error_code)
        assert (errors[0], errors[-1]) == (0, 28), errors
        target.reset_memory_peak()
        end_answer = connection.ask(
            26,
            5,
            transactional_id="t",
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=True,
        )
    assert not end_answer.error_code, end_answer
    return 100


def _heartbeats(
    count: int, topics: Any, *, group: str = "g", is_static: bool = False
) -> Iterator[bytes]:
    """Frames of members that join, each with its topics."""
    for member_number in range(count):
        yield request(
            HEARTBEAT,
            1,
            group_id=group,
            member_id=f"m{member_number:08}" if is_static else str(uuid.uuid4()),
            member_epoch=0,
            instance_id=f"i{member_number}" if is_static else None,
            rack_id=None,
            rebalance_timeout=60_000,
            subscribed_topic_names=topics(member_number),
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=[],
        )


def subscription(count: int) -> bytes:
    """A consumer's subscription to ``count`` topics without names."""
    return struct.pack("!hi", 1, count) + bytes(2 * count) + struct.pack("!ii", -1, 0)


def join(client: str, protocols: Iterable[tuple[str, bytes]], *, group: str = "g") -> bytes:
    return request(
        JOIN,
        3,
        group_id=group,
        session_timeout=6_000,
        rebalance_timeout=6_000,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": name, "metadata": metadata} for name, metadata in protocols],
    )


def _commit(group: str, topic: str, partition_indexes: range) -> bytes:
    partitions = [
        {"partition_index": partition_index, "committed_offset": 1}
        for partition_index in partition_indexes
    ]
    return request(
        OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": topic, "partitions": partitions}],
    )


def _create(connection: Any, name: str, partitions: int) -> None:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    connection.ask(19, 7, topics=[topic], timeout=10_000)


def _delete(connection: Any, name: str) -> int:
    connection.ask(20, 6, topics=[{"name": name, "topic_id": uuid.UUID(int=0)}], timeout=30_000)
    return 60


ATTACKS: Final = (
    Attack("group-silent-members", silent_members, serve=(*SERVE, "--topic", "other:1")),
    Attack("group-silent-classic", silent_classic, serve=SERVE),
    Attack("group-names", names, serve=(*SERVE, "--topic", "other:1")),
    Attack("group-uneven", uneven_members, serve=(*SERVE, *WIDE_TOPICS)),
    Attack("group-many-names", many_names, serve=(*SERVE, "--topic", "other:1")),
    Attack("group-many-protocols", many_protocols, serve=SERVE),
    Attack("group-static-members", static_members, serve=(*SERVE, "--topic", "other:1")),
    Attack("group-positions", positions, serve=(*SERVE, *WIDE_TOPICS), limit_s=LIMIT_S),
    Attack("group-pending-positions", pending, serve=(*SERVE, *WIDE_TOPICS), limit_s=LIMIT_S),
)
