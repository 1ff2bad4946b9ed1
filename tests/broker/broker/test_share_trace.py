"""What the trace tells of share partitions."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.broker.broker.test_share_fetch import LOCK_MS, configure_group, member_of, second_member
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.share_members import errors, fill, task
from tests.support.within_environment import within
from txnsim.broker._share_trace import LISTED_RANGES_MAX
from txnsim.faults.actions import Fail, Hold
from txnsim.faults.points import FaultPoint
from txnsim.runtime.trace import Event, TraceLevel
from txnsim.server._trace_snapshot import snapshot_parts
from txnsim.types import TopicPartition

traced = within(run_cluster, brokers=1, trace_level=TraceLevel.BRIEF)
NOW = ("start", "next", "held", "isolation")


def share_events(cluster: VirtualCluster) -> list[Event]:
    return [event for event in cluster.env.tracer.events() if event.k.startswith("share.")]


def brief(event: Event) -> tuple[Any, ...]:
    """Kind, start offset, next offset, held records and other fields of an event."""
    data = dict(event.d)
    event_fields = {
        name: value for name, value in data.items() if name not in (*NOW, "group", "tp")
    }
    return (
        event.k.removeprefix("share."),
        data.get("start"),
        data.get("next"),
        data.get("held"),
        event_fields,
    )


@traced
async def test_each_move_is_told_with_where_the_share_partition_stands_then(
    cluster: VirtualCluster,
) -> None:
    member = await member_of(cluster, 3)
    assert await member.get() == "0-2:1"
    assert errors(await member.acknowledge("0-1:2,1")) == {0: "none"}
    assert errors(await member.acknowledge("1:1")) == {0: "invalid_record_state"}
    cluster.advance(LOCK_MS)
    await asyncio.sleep(0.1)
    assert await member.get() == "0-0:2 2-2:2"
    member.link.note_closed()
    await asyncio.sleep(0.1)
    m1 = {"member": "m1"}
    back = {"batches": ["2-2:available:1"]}
    both_batches = {"batches": ["0-0:available:2", "2-2:available:2"]}
    assert list(map(brief, share_events(cluster))) == [
        ("load", 0, 0, [], {"end": 0, "state_epoch": 0, "leader_epoch": 0}),
        ("acquire", 0, 3, ["0-2:m1"], {**m1, "ranges": ["0-2:1"]}),
        ("persist", 0, 0, ["2-2:m1"], {"batches": ["0-0:available:1", "1-1:acknowledged:1"]}),
        ("acknowledge", None, None, None, {**m1, "batches": ["0-1:2,1"]}),
        (
            "acknowledge", None, None, None,
            {**m1, "batches": ["1-1:1"], "error": "INVALID_RECORD_STATE"},
        ),
        ("release", 0, 0, [], {**back, "reason": "locks"}),
        ("persist", 0, 0, [], back),
        ("acquire", 0, 3, ["0-0:m1", "2-2:m1"], {**m1, "ranges": ["0-0:2", "2-2:2"]}),
        ("release", 0, 3, ["0-0:m1", "2-2:m1"], {**m1, **both_batches, "reason": "session"}),
        ("unload", None, None, None, {}),
        ("persist", 0, 0, [], both_batches),
    ]  # fmt: skip


@traced
async def test_a_share_partition_begins_later_with_its_log(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    await member.get()
    await fill(member.api, 3)
    topic_partition = TopicPartition("orders", 0)
    cluster.sim.brokers[cluster.leader(topic_partition)].replicas.led[
        topic_partition
    ].delete_records_before(3)
    while not await member.get():
        pass
    (start_event,) = [brief(event) for event in share_events(cluster) if event.k == "share.start"]
    assert start_event == ("start", 3, 3, ["0-0:m1"], {})


@traced
async def test_a_lock_that_ran_out_is_due_to_its_timer(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 1)
    await member.get()
    cluster.advance(LOCK_MS)
    await asyncio.sleep(0.1)
    (timer_event,) = [event for event in cluster.env.tracer.events() if event.k == "timer.fire"]
    assert timer_event.d == {"timer": "share.record.lock", "waited_ms": LOCK_MS}
    assert timer_event.p == ()
    (release_event,) = [event for event in share_events(cluster) if event.k == "share.release"]
    assert release_event.p == (timer_event.i,)


@traced
async def test_of_very_many_ranges_the_first_are_told(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, *[1] * 1_200)
    assert await member.get() == "0-499:1"
    await member.acknowledge(*(f"{offset}:1" for offset in range(1, 500, 2)))
    assert brief(share_events(cluster)[-2])[3] == [
        f"{offset}-{offset}:m1" for offset in range(0, 200, 2)
    ]
    assert len(share_events(cluster)[-2].d["batches"]) == LISTED_RANGES_MAX


@traced
async def test_what_is_not_persisted_stays_with_its_member(cluster: VirtualCluster) -> None:
    member = await member_of(cluster, 2)
    await member.get()
    cluster.arm(Fail(error="coordinator_not_available"), FaultPoint.SHARE_PERSIST, limit=1)
    assert errors(await member.acknowledge("0:1")) == {0: "coordinator_not_available"}
    (refused_event,) = [
        brief(event) for event in share_events(cluster) if event.k == "share.persist"
    ]
    assert refused_event == (
        "persist", 0, 2, ["0-1:m1"],
        {"batches": ["0-0:acknowledged:1"], "error": "COORDINATOR_NOT_AVAILABLE"},
    )  # fmt: skip


@traced
async def test_a_recording_that_begins_late_knows_who_holds_what(cluster: VirtualCluster) -> None:
    configure_group(cluster, isolation_level="read_committed")
    member = await member_of(cluster, 2)
    await member.get()
    await fill(member.api, 1)
    await second_member(member).get()
    cluster.arm(Hold(), FaultPoint.SHARE_PERSIST)
    acknowledgement_task = task(member.acknowledge("0:1"))
    await asyncio.sleep(0.1)
    (snapshot_part,) = snapshot_parts(cluster.sim)
    assert snapshot_part["shares"] == [
        {
            "group": "g", "tp": "orders-0", "node": "broker/1", "start": 0, "next": 3,
            "held": ["0-1:m1", "2-2:m2"], "isolation": "read_committed",
        }
    ]  # fmt: skip
    cluster.sim.injector.release("f")
    assert errors(await acknowledgement_task) == {0: "none"}
