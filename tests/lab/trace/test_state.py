"""What each kind of event assigns. The whole is held against live clusters in
``tests/lab/catalogue/test_causes.py``.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.coordinator import FOO_0, CoordinatorBench
from tests.support.group_world import GroupBench, run_groups
from tests.support.streams_groups import counting_image, heartbeat, tasks
from tests.support.within_environment import within
from txnsim.coordinators.txn._transition_effects import RETRY_PAUSE_MS
from txnsim.errors import ErrorCode
from txnsim.group.consumer_group import LEFT_EPOCH
from txnsim.group.streams.commands import StreamsReply
from txnsim.group.streams.tasks import Tasks
from txnsim.runtime.trace import Event, TraceLevel, Tracer
from txnsim.txn.markers import NoLeader
from txnsim_lab.trace.state import TraceState, owed_by, state_at, transactional_id_of

NODES = (
    *("user", "broker/3/txn/1", "broker/1/log/t-0", "broker/1", "fault", "broker/2/log/t-0"),
    *("broker/2", "broker/3"),
)
USER, COORDINATOR, LOG, BROKER, FAULT, FOLLOWER, OTHER, THIRD = range(len(NODES))
TX = "app/7:0"


def follow(*event_rows: tuple[int, str, dict[str, Any]], tx: str = TX) -> TraceState:
    events = [
        Event(event_index, event_index * 1_000_000, node_id, event_index, (), kind, tx, data)
        for event_index, (node_id, kind, data) in enumerate(event_rows)
    ]
    return state_at(events, NODES)


LEADS = (BROKER, "node.role", {"tp": "t-0", "role": "leader", "epoch": 4})
OPENS = (LOG, "pid.open", {"tp": "t-0", "pid": 7, "epoch": 0, "first": 0})


def batch(base_offset: int, last_offset: int, **batch_fields: Any) -> dict[str, Any]:
    return {
        "tp": "t-0",
        "pid": 7,
        "epoch": 0,
        "seq": base_offset,
        "base": base_offset,
        "last": last_offset,
        **batch_fields,
    }


def marker(offset: int) -> dict[str, Any]:
    return {"tp": "t-0", "pid": 7, "epoch": 0, "offset": offset, "coordinator_epoch": 3}


def completed_move(state: str, **event_fields: Any) -> tuple[int, str, dict[str, Any]]:
    data = {"state": state, "pid": 7, "epoch": 0, "pending": None, "partitions": [], **event_fields}
    return COORDINATOR, "txn.complete", data


def test_a_log_is_as_its_leader_tells() -> None:
    state = follow(
        LEADS,
        (LOG, "log.append", batch(0, 2)),
        OPENS,
        (FOLLOWER, "log.truncate", {"tp": "t-0", "to": 0, "epoch": 4}),
        (LOG, "log.hw", {"tp": "t-0", "to": 3}),
        (LOG, "log.lso", {"tp": "t-0", "to": 0}),
    )
    log = state.logs["t-0"]
    assert (log["leader"], log["end"], log["hw"], log["lso"]) == (1, 3, 3, 0)
    assert log["producers"]["7"]["first"] == 0
    assert log["producers"]["7"]["seq"] == 2
    assert log["producers"]["7"]["i"] == 2


def test_a_new_leader_tells_of_the_log_that_it_finds() -> None:
    producer_found = {"pid": 7, "epoch": 1, "first": 5, "seq": 9}
    role = {
        "tp": "t-0",
        "role": "leader",
        "epoch": 5,
        "end": 9,
        "lso": 5,
        "producers": [producer_found],
    }
    log = follow(LEADS, (BROKER, "node.role", role)).logs["t-0"]
    assert (log["epoch"], log["end"], log["lso"]) == (5, 9, 5)
    assert log["producers"]["7"]["first"] == 5


def test_how_many_replicas_there_are_is_known_where_the_leader_tells() -> None:
    role = {"tp": "t-0", "role": "leader", "epoch": 4, "replicas": 1}
    role_event = (BROKER, "node.role", role)
    grown = {"tp": "t-0", "role": "replicas", "replicas": 3}
    assert follow(LEADS).logs["t-0"]["replicas"] == 0, "an old trace"
    assert follow(role_event).logs["t-0"]["replicas"] == 1
    log = follow(role_event, (LOG, "log.append", batch(0, 2)), (LOG, "node.role", grown)).logs[
        "t-0"
    ]
    assert (log["replicas"], log["end"]) == (3, 3)
    assert follow(role_event, (FOLLOWER, "node.role", grown)).logs["t-0"]["replicas"] == 1


def test_a_marker_closes_and_an_expired_producer_is_forgotten() -> None:
    closed_state = follow(LEADS, OPENS, (LOG, "marker.written", marker(1)))
    assert closed_state.logs["t-0"]["end"] == 2
    assert closed_state.logs["t-0"]["producers"]["7"]["first"] == -1
    assert closed_state.logs["t-0"]["producers"]["7"]["coordinator_epoch"] == 3
    state_after = follow(LEADS, OPENS, (LOG, "pid.expire", {"tp": "t-0", "pid": 7}))
    assert state_after.logs["t-0"]["producers"] == {}


def test_a_log_that_begins_later_tells_what_is_still_open() -> None:
    start = {"tp": "t-0", "to": 4, "lso": 6, "open": [], "reason": "DeleteRecords"}
    log = follow(LEADS, OPENS, (LOG, "log.start", start)).logs["t-0"]
    assert (log["start"], log["lso"], log["producers"]["7"]["first"]) == (4, 6, -1)


def test_an_entry_of_a_coordinator_takes_over_what_each_move_tells() -> None:
    state = follow(
        completed_move("Ongoing", partitions=["t-0"], timeout_ms=60_000),
        (COORDINATOR, "txn.decide", {"pending": "PrepareCommit"}),
    )
    entry = state.transactions["app"]
    assert (entry["state"], entry["pending"], entry["timeout_ms"]) == (
        "Ongoing", "PrepareCommit", 60_000,
    )  # fmt: skip
    assert entry["node"] == "broker/3/txn/1"
    assert follow(completed_move("Ongoing"), completed_move("Dead")).transactions == {}
    refused_event = (
        COORDINATOR,
        "txn.append",
        {"state": "PrepareCommit", "error": "NOT_COORDINATOR"},
    )
    pending = (COORDINATOR, "txn.decide", {"pending": "PrepareCommit"})
    assert (
        follow(completed_move("Ongoing"), pending, refused_event).transactions["app"]["pending"]
        is None
    )


def test_markers_are_owed_until_they_are_acknowledged_or_the_coordinator_moves() -> None:
    prepare_event = completed_move("PrepareAbort", partitions=["t-0", "t-1"])
    owed_event = (COORDINATOR, "marker.owed", {"tp": "t-0", "committed": False})
    refused_event = (
        COORDINATOR,
        "marker.refused",
        {"tp": "t-0", "error": "NOT_LEADER_OR_FOLLOWER"},
    )
    state = follow(prepare_event, owed_event, refused_event)
    assert state.owed[f"{TX} t-0"] == {
        "committed": False, "how": "refused", "error": "NOT_LEADER_OR_FOLLOWER", "i": 2,
    }  # fmt: skip
    acked_state = follow(prepare_event, owed_event, (COORDINATOR, "marker.acked", {"tp": "t-0"}))
    assert acked_state.owed == {}
    assert acked_state.transactions["app"]["partitions"] == ["t-1"]
    assert follow(prepare_event, owed_event, (COORDINATOR, "marker.cancelled", {})).owed == {}


def test_a_coordinator_that_loads_has_the_entries_of_its_part() -> None:
    state = follow(completed_move("Ongoing"), (COORDINATOR, "txn.unload", {}))
    assert state.transactions["app"]["node"] == "/1"
    state_after = follow(
        completed_move("Ongoing"), (COORDINATOR, "txn.unload", {}), (COORDINATOR, "txn.load", {})
    )
    assert state_after.transactions["app"]["node"] == "broker/3/txn/1"


def test_faults_are_known_while_they_are_armed() -> None:
    arm_event = (FAULT, "fault.arm", {"rule": "late", "point": "client.request", "action": "hold"})
    hit_event = (FAULT, "fault.hit", {"rule": "late", "matched": 2, "struck": 1, "held": 1})
    assert follow(arm_event, hit_event).faults["late"]["struck"] == 1
    release_event = (FAULT, "fault.release", {"rule": "late", "matched": 2, "struck": 1, "held": 0})
    assert follow(arm_event, hit_event, release_event).faults["late"]["held"] == 0
    disarming_event = (FAULT, "fault.release", {"rule": "late", "held": 0, "disarmed": True})
    assert follow(arm_event, hit_event, disarming_event).faults == {}


def test_the_wall_clock_is_that_of_the_inputs() -> None:
    begins = (USER, "input", {"do": "create-topics", "args": {}, "at": 5_000})
    ahead = (USER, "input", {"do": "advance", "args": {"ms": 700}, "at": 6_000})
    assert follow(begins, LEADS).now_ms == 6_000
    assert follow(begins, ahead).now_ms == 6_700


def test_a_snapshot_is_what_a_reader_begins_with() -> None:
    fault = {"rule": "late", "point": "now", "action": "hold", "matched": 0, "struck": 0, "held": 0}
    first_part = {
        "part": 0,
        "last": True,
        "trace": TraceLevel.BRIEF.value,
        "features": {},
        "brokers": [{"node": "broker/1", "state": "running"}],
        "faults": [fault],
        "partitions": [{"tp": "t-0", "leader": 1, "epoch": 4, "isr": [1], "end": 7, "lso": 7}],
        "transactions": [{"node": "broker/3/txn/1", "tx": TX, "d": {"state": "Ongoing"}}],
        "positions": [
            {"node": "broker/1/group/0", "group": "g", "tp": "t-0", "offset": 3},
            {"node": "broker/1/group/0", "group": "g", "tp": "t-1", "offset": 4, "pid": 7},
        ],
    }
    added_event = (COORDINATOR, "group.offset_pending", {"group": "old", "tp": "t-0", "offset": 4})
    state = follow(completed_move("PrepareAbort"), added_event, (BROKER, "snapshot", first_part))
    assert state.offsets == {"g t-1": 4}, "what waits for a marker"
    assert state.level == "brief"
    assert state.brokers == {"broker/1": "running"}
    assert state.logs["t-0"]["end"] == 7
    assert state.transactions["app"]["state"] == "Ongoing"
    assert "late" in state.faults


def test_the_state_at_an_event_knows_nothing_of_later_ones() -> None:
    events = [
        Event(0, 0, BROKER, 0, (), "node.up", "", {"role": "broker"}),
        Event(1, 9, BROKER, 1, (), "node.down", "", {"role": "broker"}),
    ]
    assert state_at(events, NODES, 0).brokers == {"broker/1": "running"}
    assert state_at(events, NODES).brokers == {"broker/1": "down"}


def test_offsets_of_a_transaction_are_pending_until_it_ends() -> None:
    added_event = (COORDINATOR, "group.offset_pending", {"group": "g", "tp": "t-0", "offset": 4})
    assert follow(added_event).offsets == {"g t-0": 4}
    abort_event = (COORDINATOR, "group.offset_abort", {"group": "g", "tp": "t-0", "offset": 4})
    assert follow(added_event, abort_event).offsets == {}


@pytest.mark.parametrize(
    "transactional_id",
    ["app", "a/b", "a/b:c", "http://host:1/x:y", "__proto__", "a b", "é/😀", "/"],
)
def test_an_id_may_be_any_text(transactional_id: str) -> None:
    """Whatever stood behind the last slash was taken for the producer if it had a colon."""
    for tx in (transactional_id, f"{transactional_id}/7:0", f"{transactional_id}/-1:-1"):
        assert transactional_id_of(tx) == transactional_id
    assert owed_by(f"{transactional_id}/7:0 t-0") == (transactional_id, "t-0")


async def test_a_marker_of_a_topic_that_was_deleted_is_owed_no_more() -> None:
    """The state once showed such a marker as owed to the end of the trace."""
    coordinator_bench = CoordinatorBench(is_traced=True)
    coordinator_bench.answers_markers = False
    session = await coordinator_bench.ready()
    await coordinator_bench.add(session, FOO_0)
    await coordinator_bench.end(session)
    await coordinator_bench.settle()
    tracer = coordinator_bench.tracer
    assert state_at(tracer.events(), tracer.nodes, level=TraceLevel.FULL).owed
    coordinator_bench.leaders[FOO_0] = NoLeader.NO_SUCH_PARTITION
    coordinator_bench.sent[0].reply(ErrorCode.unknown_topic_or_partition)
    await coordinator_bench.settle()
    coordinator_bench.clock.pass_ms(RETRY_PAUSE_MS)
    await coordinator_bench.settle()
    assert state_at(tracer.events(), tracer.nodes, level=TraceLevel.FULL).owed == {}


# Share groups


def share(node_id: int, kind: str, start: int, *held_spans: str) -> tuple[int, str, dict[str, Any]]:
    share_state = {
        "start": start,
        "next": start + 1,
        "held": list(held_spans),
        "isolation": "read_committed",
    }
    return node_id, f"share.{kind}", {"group": "a b", "tp": "t-0", **share_state}


GONE = {"group": "a b", "tp": "t-0"}


def test_a_share_partition_is_as_its_leader_tells_and_ends_with_it() -> None:
    load_events = (share(BROKER, "load", 0), share(BROKER, "acquire", 0, "0-0:m"))
    assert follow(*load_events).shares == {
        "a b t-0": {
            "start": 0, "next": 1, "held": ["0-0:m"], "isolation": "read_committed",
            "node": "broker/1", "i": 1,
        }
    }  # fmt: skip
    late_state = follow(
        share(BROKER, "load", 0), share(OTHER, "load", 4), share(BROKER, "persist", 1)
    )
    assert late_state.shares["a b t-0"]["start"] == 4, "who led before tells nothing of it any more"
    unloaded_state = follow(share(OTHER, "load", 4), (BROKER, "share.unload", GONE))
    assert list(unloaded_state.shares) == ["a b t-0"]
    assert follow(*load_events, (BROKER, "share.unload", GONE)).shares == {}
    down_state = follow(*load_events, (BROKER, "node.down", {"role": "broker"}))
    assert down_state.shares == {}
    assert down_state.unserved_shares["a b t-0"]["held"] == ["0-0:m"], "what was known last is kept"
    reloaded_state = follow(
        *load_events, (BROKER, "node.down", {"role": "broker"}), share(OTHER, "load", 1)
    )
    assert (list(reloaded_state.shares), reloaded_state.unserved_shares) == (["a b t-0"], {})
    assert list(follow(*load_events, (OTHER, "node.down", {"role": "broker"})).shares) == [
        "a b t-0"
    ]
    assert follow((BROKER, "share.load", {**GONE, "error": "NOT_COORDINATOR"})).shares == {}
    older_event = (BROKER, "share.load", {**GONE, "start": 0, "end": 0})
    assert (
        follow(older_event, (BROKER, "share.acquire", {**GONE, "member": "m", "ranges": []})).shares
        == {}
    )


# Streams groups


async def _send_heartbeat(
    group_bench: GroupBench, member_id: str, epoch: int, *task_ids: str
) -> int:
    """Send a heartbeat of a member with these active tasks; return its new epoch."""
    owned_tasks = Tasks(active=tasks(*task_ids)) if task_ids or not epoch else None
    reply = await group_bench.groups.streams_heartbeat(
        heartbeat(member_id, epoch, owned=owned_tasks)
    )
    assert isinstance(reply, StreamsReply), reply
    return reply.member_epoch


@within(run_groups)
async def test_members_of_streams_groups_are_as_their_coordinator_tells(
    group_bench: GroupBench,
) -> None:
    group_bench.image = counting_image()
    group_bench.settings = msgspec.structs.replace(
        group_bench.settings,
        group_streams_initial_rebalance_delay_ms=0,
        group_streams_assignment_interval_ms=0,
    )
    trace = group_bench.groups.streams.trace
    tracer = trace.tracer = Tracer(lambda: 0, level=TraceLevel.FULL, is_strict=True)
    states_seen: list[tuple[str, list[str]]] = []

    def look() -> None:
        """Check that a reader of the trace knows the group's members."""
        members_told = state_at(tracer.events(), tracer.nodes).streams
        for member in members_told.values():
            del member["i"]
        assert members_told == {
            f"{member['group']} {member['member']}": member for member in trace.members()
        }
        states_seen.extend(
            (f"{member['member']} {member['state']}", member["active"])
            for member in members_told.values()
        )

    a = await _send_heartbeat(group_bench, "a", 0)
    look()
    b = await _send_heartbeat(group_bench, "b", 0)
    look()
    a = await _send_heartbeat(group_bench, "a", a)
    look()
    a = await _send_heartbeat(group_bench, "a", a, "0_0", "1_0")
    b = await _send_heartbeat(group_bench, "b", b)
    look()
    group_bench.unload()
    assert state_at(tracer.events(), tracer.nodes).streams == {}
    group_bench.load()
    look()
    await _send_heartbeat(group_bench, "a", LEFT_EPOCH)
    look()
    assert ("a unrevoked_tasks", ["0_0", "1_0"]) in states_seen
    assert ("b stable", ["0_1", "1_1"]) in states_seen
    assert states_seen[-1][0].startswith("b ")


def test_members_of_streams_groups_go_with_the_broker_of_their_coordinator() -> None:
    member = {"group": "g h", "member": "m n", "active": ["0_0"]}
    at_three = (COORDINATOR, "streams.member", member)
    assert list(follow(at_three).streams) == ["g h m n"]
    for node_id, members_left in ((BROKER, ["g h m n"]), (THIRD, [])):
        broker_down = (node_id, "node.down", {"role": "broker"})
        state_after = follow(at_three, broker_down)
        assert list(state_after.streams) == members_left
        assert len(state_after.streams) + len(state_after.unserved_streams) == 1, (
            "it was known last"
        )
    served_state = follow(at_three, (THIRD, "node.down", {"role": "broker"}), at_three)
    assert (len(served_state.streams), served_state.unserved_streams) == (1, {})
