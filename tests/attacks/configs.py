"""Settings that Kafka accepts, at their edges."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any, Final

from tests.attacks.target import ANSWER_S_MAX, Attack, AttackTarget

CREATE_TOPICS: Final = 19
ALTER_CONFIGS: Final = 44
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_IDLE_S: Final = 3.0
_NOT_FINITE: Final = ("NaN", "1e308", "Infinity", "-Infinity")


def not_finite(target: AttackTarget) -> int:
    """Numbers without an end as a cleaner's load factor, while others change topics."""
    name = "log.cleaner.io.buffer.load.factor"
    for number, config_value in enumerate(_NOT_FINITE):
        assert not _alter(target, _BROKER, "", name, config_value)
        with target.connect() as connection:
            topic = {"name": f"new-{number}", "num_partitions": 1, "replication_factor": 1}
            answer: Any = connection.ask(CREATE_TOPICS, 7, topics=[topic], timeout=30_000)
            assert not answer.topics[0].error_code, answer
        assert not _alter(target, _TOPIC, f"new-{number}", "retention.ms", "5")
    assert not _alter(target, _BROKER, "", name, None)
    return len(_NOT_FINITE) * 500


def no_backoff(target: AttackTarget) -> int:
    """A cleaner without a pause between its looks, and advances of the clock."""
    assert not _alter(target, _BROKER, "", "log.cleaner.backoff.ms", "0")
    for advance_ms in (0, 1, 2_000, 86_400_000):
        body = json.dumps({"advance_ms": advance_ms}).encode()
        head = {"Content-Type": "application/json"}
        clock_request = urllib.request.Request(f"{target.http}/api/v1/clock", body, head)
        with urllib.request.urlopen(clock_request, timeout=ANSWER_S_MAX) as answer:
            assert answer.status == 200
    time.sleep(_IDLE_S)
    return 1_000


def _alter(
    target: AttackTarget, resource_type: int, name: str, config_name: str, config_value: str | None
) -> int:
    """Set a config, or remove it without a value; returns the error code."""
    change = {
        "name": config_name,
        "config_operation": _DELETE if config_value is None else _SET,
        "value": config_value,
    }
    resource = {"resource_type": resource_type, "resource_name": name, "configs": [change]}
    with target.connect() as connection:
        answer: Any = connection.ask(ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    return int(answer.responses[0].error_code)


ATTACKS: Final = (
    Attack("config-not-finite", not_finite, serve=("--brokers", "1")),
    Attack("config-no-backoff", no_backoff, serve=("--brokers", "1")),
)
