"""Plans made by hand. One commits while a partition's only broker is down; it has steps that its
finding does not need.
"""

from __future__ import annotations

from typing import Any

from txnsim_lab.simulation.plan import Act, Plan, Track, World


def _call(do: str, after_ms: int = 20, unit: int = 1, **call_fields: Any) -> Act:
    return Act({"call": {"who": "p", "do": do, **call_fields}}, after_ms, unit)


def leaderless_plan(*, as_version: str | None = None) -> Plan:
    """A plan that leaves a transaction open forever on 4.3, and not on 4.2."""
    producer = Track(
        "p",
        (
            _call("init-producer-id", unit=0),
            _call("begin"),
            _call("produce", partition="t-0", value="p.0"),
            _call("produce", partition="u-0", value="p.1"),
            _call("commit", after_ms=20_000),
            _call("begin", unit=2),
            _call("produce", unit=2, partition="u-0", value="p.2"),
            _call("commit", unit=2),
        ),
        {"plays": "wire", "transactional-id": "p"},
    )
    reader = Track(
        "reader",
        (Act({"call": {"who": "reader", "do": "read", "partition": "u-0"}}, 400, 1),),
    )
    outage_track = Track(
        "",
        (
            Act({"cluster": {"do": "kill", "broker": 2}}, 2_000, 1),
            Act({"cluster": {"do": "start", "broker": 2}}, 30_000, 1),
        ),
    )
    topic_config = {"partitions": 1, "replication-factor": 1}
    world = World(
        mode="TV2+",
        settings={"broker.session.timeout.ms": 4_000},
        topics={"t": {**topic_config, "leaders": [2]}, "u": {**topic_config, "leaders": [1]}},
        as_version=as_version,
    )
    return Plan(seed=7, world=world, tracks=(producer, reader, outage_track))


def overwriting_plan() -> Plan:
    """A plan in which two programs write two keys at once, in opposite orders (seed 11261)."""

    def track(actor: str, *keys: str) -> Track:
        calls: list[dict[str, Any]] = [{"do": "init-producer-id"}, {"do": "begin"}]
        calls += [
            {"do": "produce", "partition": "t-0", "value": f"{actor} at {key}", "key": key}
            for key in keys
        ]
        acts = [
            Act({"call": {"who": actor, **call}}, 2_000, 1) for call in [*calls, {"do": "commit"}]
        ]
        return Track(actor, tuple(acts), {"plays": "wire", "transactional-id": actor})

    topics = {"t": {"partitions": 1, "replication-factor": 1, "leaders": [1]}}
    world = World(mode="TV2+", topics=topics)
    return Plan(seed=7, world=world, tracks=(track("p", "k1", "k2"), track("q", "k2", "k1")))
