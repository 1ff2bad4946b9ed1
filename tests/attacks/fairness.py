"""Single requests that are a lot of work."""

from __future__ import annotations

from typing import Final

from tests.attacks.sending import exchange, read_answers, request
from tests.attacks.target import Attack, AttackTarget

METADATA: Final = 3
LIST_GROUPS: Final = 16
DELETE_TOPICS: Final = 20
ADD_PARTITIONS_TO_TXN: Final = 24
ALTER_CLIENT_QUOTAS: Final = 49
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = 50


def large_list_groups(target: AttackTarget) -> int:
    """A ListGroups of 20 MB, all of it states to filter by."""
    return _send_enlarged(
        target, request(LIST_GROUPS, 4, states_filter=["x"]), (b"\x02x", 10_000_000)
    )


def large_metadata(target: AttackTarget) -> int:
    """A Metadata of 9.5 MB, all of it names of topics."""
    topics = [{"name": f"no-such-topic-{topic_number}"} for topic_number in range(500_000)]
    return _send_enlarged(
        target, request(METADATA, 9, topics=topics, allow_auto_topic_creation=False)
    )


def largest_metadata(target: AttackTarget) -> int:
    """A Metadata with as many topics as a request may name, ten times."""
    topics = [{"name": f"no-such-topic-{topic_number}"} for topic_number in range(19_000)]
    frame_bytes = request(METADATA, 9, topics=topics, allow_auto_topic_creation=False)
    with target.socket() as connection:
        exchange(connection, frame_bytes * 10, answer_count=10)
    return len(frame_bytes) * 10


def many_partitions_in_a_transaction(target: AttackTarget) -> int:
    """An AddPartitionsToTxn with 2,000,000 partitions."""
    topics = [{"name": "neighbour", "partitions": range(2_000_000)}]
    return _send_enlarged(
        target,
        request(
            ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id="a",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics,
        ),
    )


def delete_topics(target: AttackTarget) -> int:
    """A DeleteTopics of 19,990 names that no topic has."""
    topics = [{"name": f"no-such-{topic_number}"} for topic_number in range(19_990)]
    return _send_enlarged(target, request(DELETE_TOPICS, 6, topics=topics, timeout=10_000))


def auto_creation(target: AttackTarget) -> int:
    """A Metadata that asks for 4,900 topics to be made on the way."""
    topics = [{"name": f"made-on-the-way-{topic_number}"} for topic_number in range(4_900)]
    return _send_enlarged(
        target, request(METADATA, 9, topics=topics, allow_auto_topic_creation=True)
    )


def scram_users(target: AttackTarget) -> int:
    """A DescribeUserScramCredentials of 19,990 users."""
    users = [{"name": f"no-such-{user_number}"} for user_number in range(19_990)]
    return _send_enlarged(target, request(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users))


def quotas(target: AttackTarget) -> int:
    """An AlterClientQuotas of 6,600 users."""
    entries = [
        {
            "entity": [{"entity_type": "user", "entity_name": f"user-{user_number}"}],
            "ops": [{"key": "producer_byte_rate", "value": 1.0}],
        }
        for user_number in range(6_600)
    ]
    return _send_enlarged(target, request(ALTER_CLIENT_QUOTAS, 1, entries=entries))


def _send_enlarged(
    target: AttackTarget, frame_bytes: bytes, repeated_element: tuple[bytes, int] = (b"", 0)
) -> int:
    """Send a request whose last array has more elements, and read the answer if one comes."""
    element, count = repeated_element
    if count:
        frame_bytes = _enlarge(frame_bytes, element, count)
    with target.socket() as connection:
        connection.settimeout(60.0)
        try:
            connection.sendall(frame_bytes)
            read_answers(connection, 1)
        except ConnectionError:
            pass  # refusing it is an answer
    return len(frame_bytes)


def _enlarge(frame_bytes: bytes, element: bytes, count: int) -> bytes:
    """The request with ``count`` elements in its last field, an array of one element."""
    head = frame_bytes[4 : frame_bytes.rindex(b"\x02" + element)]
    number, length = count + 1, bytearray()
    while number > 127:
        length.append(number & 127 | 128)
        number >>= 7
    length.append(number)
    body = head + bytes(length) + element * count + b"\0"
    return len(body).to_bytes(4, "big") + body


ATTACKS: Final = (
    Attack("large-list-groups", large_list_groups),
    Attack("large-metadata", large_metadata),
    Attack("largest-metadata", largest_metadata),
    Attack("large-delete-topics", delete_topics),
    Attack("large-auto-creation", auto_creation),
    Attack("large-scram-users", scram_users),
    Attack("large-quotas", quotas),
    Attack("many-partitions-in-a-transaction", many_partitions_in_a_transaction),
)
