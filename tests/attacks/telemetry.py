"""Subscriptions of client metrics by the thousand, and clients that are held against them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tests.attacks.sending import request, send_frames
from tests.attacks.target import Attack, AttackTarget

SERVE: Final = (
    *("--brokers", "1"),
    *("--config", str(Path(__file__).with_name("telemetry.yaml"))),
)
SUBSCRIPTIONS: Final = 2_000
CLIENTS: Final = 20
_ALTER, _GET = 44, 71


def subscriptions(target: AttackTarget) -> int:
    """Twenty clients are held against 4,000 subscriptions of client metrics."""
    sent_bytes = 0
    for start in range(0, 2 * SUBSCRIPTIONS, SUBSCRIPTIONS):
        resources = [
            _subscription(subscription_number)
            for subscription_number in range(start, start + SUBSCRIPTIONS)
        ]
        sent_bytes += send_frames(
            target, [request(_ALTER, 1, resources=resources, validate_only=False)]
        )
    target.reset_memory_peak()
    client_ids = [UUID(int=client_number + 100) for client_number in range(CLIENTS)]
    return sent_bytes + send_frames(
        target, [request(_GET, 0, client_instance_id=client_id) for client_id in client_ids]
    )


def _subscription(number: int) -> dict[str, Any]:
    values = {
        "metrics": ",".join(f"metric.{number}.{metric}" for metric in range(3)),
        "match": f"client_id=(attack|{number}|[a-z])+",
    }
    configs = [{"name": key, "config_operation": 0, "value": text} for key, text in values.items()]
    return {"resource_type": 16, "resource_name": f"s{number}", "configs": configs}


ATTACKS: Final = (Attack("telemetry-subscriptions", subscriptions, serve=SERVE, limit_s=300.0),)
