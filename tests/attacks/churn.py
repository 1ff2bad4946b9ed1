"""What comes and goes: connections, sessions, leaders, fault rules."""

from __future__ import annotations

import contextlib
import json
import socket
import urllib.error
import urllib.request
from typing import Any, Final
from uuid import UUID

from tests.attacks.patterns import make_ids
from tests.attacks.sending import exchange, request
from tests.attacks.shares import _fetch as share_fetch
from tests.attacks.target import Attack, AttackTarget

CONNECTIONS: Final = 3_000
SESSIONS: Final = 5_000
SHARE_SESSIONS: Final = 2_000
MOVES: Final = 300
ELECTIONS: Final = 300
RULES: Final = 1_000
WAITS: Final = 1_000
FETCH: Final = 1
ELECT_LEADERS: Final = 43
TIMEOUT_S: Final = 60.0
ONE_BROKER: Final = ("--brokers", "1", "--ready-coordinators")
_STATE: Final = "__transaction_state"


def connections(target: AttackTarget) -> int:
    """3,000 connections, one after the other, each reset in the middle of a frame."""
    frame_bytes = request(18, 3, client_software_name="a", client_software_version="1")[:-3]
    for _ in range(CONNECTIONS):
        with target.socket() as connection:
            connection.sendall(frame_bytes)
            linger = (1).to_bytes(4, "little") + bytes(4)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    return CONNECTIONS * len(frame_bytes)


def fetch_sessions(target: AttackTarget) -> int:
    """5,000 fetch sessions that are opened, and forgotten by their client."""
    opening_request = request(
        *(FETCH, 11),
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        max_bytes=1,
        session_id=0,
        session_epoch=0,
        topics=[{"topic": "neighbour", "partitions": [{"partition": 0, "partition_max_bytes": 1}]}],
    )
    with target.socket() as connection:
        connection.settimeout(TIMEOUT_S)
        exchange(connection, opening_request * SESSIONS, answer_count=SESSIONS)
    return SESSIONS * len(opening_request)


def share_sessions(target: AttackTarget) -> int:
    """2,000 share sessions that are opened and closed in turn, each of a group of its own."""
    with target.connect() as connection:
        (topic,) = connection.ask(3, 12, topics=[{"name": "neighbour"}]).topics
        topic_id = UUID(bytes=topic.topic_id.bytes)
    frame_bytes = b"".join(
        share_fetch(topic_id, f"g{number}", "m", epoch, (0,) if epoch == 0 else (), max_wait=0)
        for number in range(SHARE_SESSIONS)
        for epoch in (0, -1)
    )
    with target.socket() as connection:
        connection.settimeout(2 * TIMEOUT_S)
        exchange(connection, frame_bytes, answer_count=2 * SHARE_SESSIONS)
    return len(frame_bytes)


def moves(target: AttackTarget) -> int:
    """Coordinators of 2,000 transactional ids that move to another broker 300 times."""
    sent_bytes = make_ids(target, [f"id-{number}" for number in range(2_000)]) or 0
    for move_number in range(MOVES):
        move = {"topic": _STATE, "partition": move_number % 50, "leader": move_number % 3 + 1}
        sent_bytes += _post(target, "/api/v1/leaders", move)
    return sent_bytes


def elections(target: AttackTarget) -> int:
    """ElectLeaders of all partitions of the coordinators, 300 times."""
    topics = [{"topic": _STATE, "partitions": list(range(50))}]
    frame = request(ELECT_LEADERS, 2, election_type=0, topic_partitions=topics, timeout=30_000)
    with target.socket() as connection:
        connection.settimeout(TIMEOUT_S)
        exchange(connection, frame * ELECTIONS, answer_count=ELECTIONS)
    return ELECTIONS * len(frame)


def rules(target: AttackTarget) -> int:
    """1,000 fault rules that are armed, each after the one before, and disarmed again."""
    sent_bytes = 0
    for number in range(RULES):
        rule: dict[str, Any] = {"id": f"r{number}", "point": "log.append", "action": {"do": "pass"}}
        rule |= {"probability": 0.5} if number == 0 else {"after": f"r{number - 1}"}
        sent_bytes += _post(target, "/api/v1/faults", rule)
    for number in range(RULES):
        sent_bytes += _ask(target, "DELETE", f"/api/v1/faults/r{number}", None)
    return sent_bytes


def waits(target: AttackTarget) -> int:
    """1,000 waits for strikes of a rule that never strikes."""
    never_rule = {"id": "never", "point": "client.request", "api": "DeleteTopics"}
    sent_bytes = _post(target, "/api/v1/faults", {**never_rule, "action": {"do": "hold"}})
    for _ in range(WAITS):
        sent_bytes += _ask(target, "GET", "/api/v1/faults/never/wait?timeout_ms=0", None)
    return sent_bytes


def _post(target: AttackTarget, path: str, document: object) -> int:
    return _ask(target, "POST", path, json.dumps(document).encode())


def _ask(target: AttackTarget, method: str, path: str, body: bytes | None) -> int:
    """Send a request to the control port; what it refuses (409, 408, 422) is an answer."""
    http_request = urllib.request.Request(target.http + path, data=body, method=method)
    with (
        contextlib.suppress(urllib.error.HTTPError),
        urllib.request.urlopen(http_request, timeout=TIMEOUT_S) as answer,
    ):
        answer.read()
    return len(path) + len(body or b"")


ATTACKS: Final = (
    Attack("churn-connections", connections, serve=ONE_BROKER),
    Attack("churn-fetch-sessions", fetch_sessions, serve=ONE_BROKER),
    Attack("churn-share-sessions", share_sessions, serve=ONE_BROKER, limit_s=300.0),
    Attack("churn-coordinators", moves, serve=("--ready-coordinators",), limit_s=300.0),
    Attack("churn-elections", elections, serve=("--ready-coordinators",), limit_s=300.0),
    Attack("churn-rules", rules, serve=ONE_BROKER, limit_s=300.0),
    Attack("churn-waits", waits, serve=ONE_BROKER),
)
