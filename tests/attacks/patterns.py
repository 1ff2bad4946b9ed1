"""Patterns of a hundred bytes that take a matcher seconds for one name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.attacks.sending import request
from tests.attacks.target import Attack, AttackTarget
from txnsim.client.raw.connection import NoAnswer

FIND_COORDINATOR: Final = 10
INIT_PRODUCER_ID: Final = 22
LIST_TRANSACTIONS: Final = 66
CONSUMER_GROUP_HEARTBEAT: Final = 68
COSTLY: Final = "(a?){1000}" * 10 + "x"
"""A pattern whose program has 30,000 instructions, each of which is tried at each letter of
a name.
"""
COSTLY_WITHIN: Final = "(a?){1000}(a?){1000}(a?){665}x"
"""The most costly pattern allowed."""
ATTEMPTS_MAX: Final = 1_200
KEYS_AT_ONCE: Final = 1_000
LONG_ID: Final = "a" * 3_000
ONE_BROKER: Final = ("--brokers", "1")
WITH_ACLS: Final = ("--config", str(Path(__file__).with_name("acls.properties")))


def make_ids(target: AttackTarget, transactional_ids: list[str]) -> int:
    """Make transactional ids, each at its coordinator; how many bytes that took."""
    sent_bytes = 0
    for address, ids_there in _coordinators_of(target, transactional_ids).items():
        with target.connect(address) as connection:
            for transactional_id in ids_there:
                fields = {
                    "transactional_id": transactional_id,
                    "transaction_timeout": 60_000,
                    "producer_id": -1,
                    "producer_epoch": -1,
                }
                for _ in _attempts(f"a producer id for {transactional_id[:40]}"):
                    answer = connection.ask(INIT_PRODUCER_ID, 4, **fields)
                    sent_bytes += len(request(INIT_PRODUCER_ID, 4, **fields))
                    if answer.error_code == 0:
                        break
    return sent_bytes


def _coordinators_of(target: AttackTarget, transactional_ids: list[str]) -> dict[str, list[str]]:
    """Address of a broker -> the ids that it coordinates. Their topic is made if it is not there,
    though there may be no id.
    """
    ids_by_address: dict[str, list[str]] = {}
    with target.connect() as connection:
        for start in range(0, len(transactional_ids) or 1, KEYS_AT_ONCE):
            keys = transactional_ids[start : start + KEYS_AT_ONCE] or ["any"]
            for _ in _attempts("coordinators"):
                answer = connection.ask(FIND_COORDINATOR, 4, key_type=1, coordinator_keys=keys)
                if not any(coordinator.error_code for coordinator in answer.coordinators):
                    break
            if transactional_ids:
                for coordinator in answer.coordinators:
                    address = f"{coordinator.host}:{coordinator.port}"
                    ids_by_address.setdefault(address, []).append(coordinator.key)
    return ids_by_address


def _attempts(expectation: str) -> Iterator[None]:
    """Attempts with pauses; an attack that never gets what it needs fails and does not wait for
    ever.
    """
    for _ in range(ATTEMPTS_MAX):
        yield
        time.sleep(0.05)
    raise AssertionError(f"never: {expectation}")


def long_id(target: AttackTarget) -> int:
    """A pattern of 101 bytes in ListTransactions, against one id of 3,000 bytes."""
    return make_ids(target, [LONG_ID]) + _list_by_pattern(target, COSTLY)


def many_ids(target: AttackTarget) -> int:
    """The costliest pattern that is taken, in ListTransactions against 300 ids."""
    names = [f"{'a' * 240}{number}" for number in range(300)]
    return make_ids(target, names) + _list_by_pattern(target, COSTLY_WITHIN)


def without_rights(target: AttackTarget) -> int:
    """List by the pattern as a user who may see none of the ids."""
    names = [f"{'a' * 240}{number}" for number in range(300)]
    sent_bytes = make_ids(target, names)
    denied_acl = {"resource_type": 5, "resource_name": "*", "resource_pattern_type": 3}
    denied_acl |= {"principal": "User:ANONYMOUS", "host": "*", "operation": 2, "permission_type": 2}
    with target.connect() as connection:
        creation = connection.ask(30, 3, creations=[denied_acl])
        assert not creation.results[0].error_code, creation
        for pattern in (COSTLY, COSTLY_WITHIN):
            answer = connection.ask(LIST_TRANSACTIONS, 2, **_list_filters(pattern))
            assert not answer.transaction_states, "none of them may be seen"
            sent_bytes += len(request(LIST_TRANSACTIONS, 2, **_list_filters(pattern)))
    return sent_bytes


def regex(target: AttackTarget) -> int:
    """Send the pattern in a heartbeat of a consumer group, against 300 topics."""
    topics = [
        {"name": f"{'a' * 240}{topic_number}", "num_partitions": 1, "replication_factor": 1}
        for topic_number in range(300)
    ]
    sent_bytes = 0
    with target.connect() as connection:
        creation = connection.ask(19, 7, topics=topics, timeout=10_000)
        assert not isinstance(creation, NoAnswer), creation
        sent_bytes += len(request(19, 7, topics=topics, timeout=10_000))
        connection.ask(10, 4, key_type=0, coordinator_keys=["g"])
        for pattern in (COSTLY, COSTLY_WITHIN):
            for _ in range(200):  # until there is a coordinator
                answer = connection.ask(
                    *(CONSUMER_GROUP_HEARTBEAT, 1),
                    group_id="g",
                    member_id="m",
                    member_epoch=0,
                    instance_id=None,
                    rack_id=None,
                    rebalance_timeout=60_000,
                    subscribed_topic_names=[],
                    subscribed_topic_regex=pattern,
                    server_assignor=None,
                    topic_partitions=[],
                )
                if answer.error_code not in (14, 15, 16):
                    break
                time.sleep(0.05)
            time.sleep(1.0)
    return sent_bytes


def _list_by_pattern(target: AttackTarget, pattern: str) -> int:
    """List by this pattern; how many bytes that took. A closed connection is an answer."""
    fields = _list_filters(pattern)
    with target.connect() as connection:
        connection.ask(LIST_TRANSACTIONS, 2, **fields)
    return len(request(LIST_TRANSACTIONS, 2, **fields))


def _list_filters(pattern: str) -> dict[str, Any]:
    return {
        "state_filters": [],
        "producer_id_filters": [],
        "duration_filter": -1,
        "transactional_id_pattern": pattern,
    }


ATTACKS: Final = (
    Attack("pattern-long-id", long_id, serve=ONE_BROKER),
    Attack("pattern-many-ids", many_ids, serve=ONE_BROKER),
    Attack("pattern-without-rights", without_rights, serve=(*ONE_BROKER, *WITH_ACLS)),
    Attack("pattern-regex", regex, serve=ONE_BROKER),
)
