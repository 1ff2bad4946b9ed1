"""Which events of a trace say by which row of docs/rules.md they came to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

EXPLAINED: Final = frozenset(
    {
        "log.append",
        "log.duplicate",
        "log.reject",
        "marker.acked",
        "marker.cancelled",
        "marker.owed",
        "marker.refused",
        "marker.sent",
        "marker.written",
        "pid.expire",
        "txn.append",
        "txn.decide",
        "verify.answer",
    }
)
"""Kinds of decisions, refusals, markers and appends."""


def explanations(trace: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """(rule, event) of each event of those kinds; the rule is empty where none is named."""
    for line in trace.splitlines():
        event = msgspec.json.decode(line)
        if event["k"] in EXPLAINED:
            yield event["d"].get("rule", ""), event
