"""Attacks by a user with rights: floods of ACLs, passwords of many iterations, and all epochs of a
producer id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.attacks.neighbour import TOPIC as NEIGHBOUR
from tests.attacks.patterns import INIT_PRODUCER_ID, ONE_BROKER, WITH_ACLS, make_ids
from tests.attacks.sending import exchange, request
from tests.attacks.target import Attack, AttackTarget

CREATE_ACLS: Final = 30
ALTER_SCRAM: Final = 51
MOST_ACLS: Final = 10_000
"""The most ACLs that one request may create."""
EPOCHS: Final = 2**15
"""Epochs of a producer id. After the last one the producer gets another id."""


def acls(target: AttackTarget) -> int:
    """100,000 ACLs: 50,000 for the neighbour's topic, as many for others; then one by one."""
    sent_bytes = 0
    with target.connect() as connection:
        own_creations = [{**_acl(NEIGHBOUR, "User:ANONYMOUS"), "operation": 2}]
        connection.ask(CREATE_ACLS, 3, creations=own_creations)
        for start in range(0, 50_000, MOST_ACLS):
            numbers = range(start, start + MOST_ACLS)
            for creations in (
                [_acl(NEIGHBOUR, f"User:u-{user_number}") for user_number in numbers],
                [_acl(f"topic-{topic_number}", "User:u") for topic_number in numbers],
                *([_acl(f"one-{start}-{number}", "User:u")] for number in range(5)),
            ):
                creation = connection.ask(CREATE_ACLS, 3, creations=creations)
                assert not any(result.error_code for result in creation.results)
                sent_bytes += len(request(CREATE_ACLS, 3, creations=creations))
        of_all = {"resource_type_filter": 1, "pattern_type_filter": 1, "permission_type": 1}
        connection.ask(29, 3, **of_all, operation=1)
        connection.ask(31, 3, filters=[{**of_all, "operation": 1}])
    return sent_bytes


def iterations(target: AttackTarget) -> int:
    """Passwords of 2,147,483,647, of 16,384 and of no iterations, each for 1,000 users."""
    sent_bytes = 0
    with target.connect() as connection:
        for count, error in ((2**31 - 1, 93), (16_384, 0), (0, 93), (-1, 93)):
            credential = {"mechanism": 2, "iterations": count, "salt": b"s" * 16}
            credential["salted_password"] = b"x" * 64
            upsertions = [
                {"name": f"u-{user_number}", **credential} for user_number in range(1_000)
            ]
            answer = connection.ask(ALTER_SCRAM, 0, deletions=[], upsertions=upsertions)
            assert {result.error_code for result in answer.results} == {error}, answer.results[0]
            sent_bytes += len(request(ALTER_SCRAM, 0, deletions=[], upsertions=upsertions))
    return sent_bytes


def epochs(target: AttackTarget) -> int:
    """A producer that takes the next epoch 33,000 times: all that its id has, and the next id."""
    sent_bytes = make_ids(target, ["t"])
    fields: dict[str, Any] = {"transactional_id": "t", "transaction_timeout": 60_000}
    frame = request(INIT_PRODUCER_ID, 4, **fields, producer_id=-1, producer_epoch=-1)
    with target.socket() as connection:
        for frames in _batches(frame, EPOCHS + 200):
            exchange(connection, frames, answer_count=len(frames) // len(frame))
            sent_bytes += len(frames)
    with target.connect() as connection:
        description = connection.ask(65, 0, transactional_ids=["t"]).transaction_states[0]
        assert (description.error_code, description.producer_epoch < 1_000) == (0, True), (
            description
        )
    return sent_bytes


def _batches(frame: bytes, count: int) -> Iterator[bytes]:
    for start in range(0, count, 1_000):
        yield frame * min(1_000, count - start)


def _acl(resource_name: str, principal: str) -> dict[str, Any]:
    return {
        "resource_type": 2,
        "resource_name": resource_name,
        "resource_pattern_type": 3,
        "principal": principal,
        "host": "*",
        "operation": 4,
        "permission_type": 3,
    }


ATTACKS: Final = (
    Attack("acl-flood", acls, serve=(*ONE_BROKER, *WITH_ACLS)),
    Attack("scram-iterations", iterations, serve=ONE_BROKER),
    Attack("epochs-exhausted", epochs, serve=ONE_BROKER),
)
