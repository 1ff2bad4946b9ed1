"""The recorded requests, as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.broker.codec.golden.record import HERE


def golden_requests() -> Iterator[bytes]:
    """A request of every API and version, as Kafka's Java classes write it."""
    for line in (HERE / "messages.jsonl").read_text().splitlines():
        message = json.loads(line)
        if message["direction"] == "request":
            yield bytes.fromhex(message["header"] + message["hex"])
