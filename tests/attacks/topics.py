"""Few bytes that ask for many partitions."""

from __future__ import annotations

from typing import Final

from tests.attacks.target import Attack, AttackTarget
from txnsim.client.raw.connection import NoAnswer

CREATE_TOPICS: Final = 19


def most_partitions(target: AttackTarget) -> int:
    """CreateTopics with 2,147,483,647 partitions, the most that its field holds."""
    return _create(target, partitions=2_147_483_647)


def many_partitions(target: AttackTarget) -> int:
    """CreateTopics with 200,000 partitions."""
    return _create(target, partitions=200_000)


def _create(target: AttackTarget, *, partitions: int) -> int:
    topic = {"name": "huge", "num_partitions": partitions, "replication_factor": 1}
    with target.connect() as connection:
        answer = connection.ask(CREATE_TOPICS, 7, topics=[topic], timeout=10_000)
    assert not isinstance(answer, NoAnswer), answer
    return 60


ATTACKS: Final = (
    Attack("create-most-partitions", most_partitions, limit_s=30.0),
    Attack("create-many-partitions", many_partitions),
)
