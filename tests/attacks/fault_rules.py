"""As many fault rules as there may be, and large ones."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, Final

from tests.attacks.sending import exchange, request
from tests.attacks.target import ANSWER_S_MAX, Attack, AttackTarget
from txnsim.wire.batch import Record, build_batch

PLANS: Final = 5
PLAN_RULES: Final = 1_000
LARGE_RULES: Final = 150
PARTITIONS: Final = 1_000
PRODUCE: Final = 0
SERVE: Final = ("--brokers", "1", "--ready-coordinators", "--topic", f"wide:{PARTITIONS}")


def crossed(target: AttackTarget) -> int:
    """5,000 rules that match nothing, and a Produce of 1,000 partitions that crosses them."""
    sent_bytes = 0
    for point in ("log.append", "client.request"):
        for criteria in ({"topic": "nobody-{}"}, {"topic": "wide", "transactional_id": "no-{}"}):
            sent_bytes += _arm(target, point, criteria)
            sent_bytes += _produce(target)
            sent_bytes += _ask(target, "DELETE", "/api/v1/faults")
    return sent_bytes


def counted(target: AttackTarget) -> int:
    """5,000 rules that match each append and never strike, and a Produce of 1,000 partitions."""
    sent_bytes = _arm(target, "log.append", {"topic": "wide"}, nth=1_000_000_000)
    return sent_bytes + _produce(target) + _ask(target, "DELETE", "/api/v1/faults")


def listed(target: AttackTarget) -> int:
    """150 rules of 1 MB, armed, listed, disarmed and judged; then 5,000 small ones."""
    sent_bytes = 0
    for large_number in range(LARGE_RULES):
        rule = {"id": f"l{large_number}", "point": "client.request", "action": {"do": "hold"}}
        sent_bytes += _ask(target, "POST", "/api/v1/faults", {**rule, "client_id": "x" * 990_000})
        if large_number % 10 == 5:
            sent_bytes += _ask(target, "DELETE", f"/api/v1/faults/l{large_number}")
    sent_bytes += _list(target) + _ask(target, "POST", "/api/v1/faults/verify?forget=true")
    sent_bytes += _arm(target, "client.request", {"topic": "x" * 500 + "{}"})
    return sent_bytes + _list(target)


def _list(target: AttackTarget) -> int:
    return sum(
        _ask(target, method, f"/api/v1/faults{path}")
        for method, path in (("GET", ""), ("POST", "/verify"), ("DELETE", ""), ("POST", "/verify"))
    )


def _arm(target: AttackTarget, point: str, criteria: dict[str, str], **fields: Any) -> int:
    sent_bytes = 0
    for plan_number in range(PLANS):
        plan = [
            {"id": f"r{plan_number}-{number}", "point": point, "action": {"do": "hold"}, **fields}
            | {name: value.format(number) for name, value in criteria.items()}
            for number in range(PLAN_RULES)
        ]
        sent_bytes += _ask(target, "POST", "/api/v1/faults/plan", plan)
    return sent_bytes


def _produce(target: AttackTarget) -> int:
    batch = build_batch([Record(key=None, value=b"v")], timestamp_ms=1_700_000_000_000)
    partition_data = [{"index": index, "records": batch} for index in range(PARTITIONS)]
    topic = {"name": "wide", "partition_data": partition_data}
    frame = request(PRODUCE, 9, transactional_id=None, acks=1, timeout=30_000, topic_data=[topic])
    with target.socket() as connection:
        connection.settimeout(ANSWER_S_MAX)
        exchange(connection, frame, answer_count=1)
    return len(frame)


def _ask(target: AttackTarget, method: str, path: str, document: object = None) -> int:
    """Send a request to the control port; what it refuses is an answer."""
    body = None if document is None else json.dumps(document).encode()
    http_request = urllib.request.Request(target.http + path, data=body, method=method)
    try:
        with urllib.request.urlopen(http_request, timeout=ANSWER_S_MAX) as answer:
            answer.read()
    except urllib.error.HTTPError as refused:
        refused.read()
    return len(path) + len(body or b"")


ATTACKS: Final = (
    Attack("rules-crossed", crossed, serve=SERVE),
    Attack("rules-counted", counted, serve=SERVE),
    Attack("rules-listed", listed, serve=SERVE),
)
