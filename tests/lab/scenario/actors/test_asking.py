from __future__ import annotations

from tests.support.stories import call, seen, told
from txnsim_lab.check.observations import Ended

MARKERS = {"id": "slow", "point": "peer.request", "api": "WriteTxnMarkers", "topic": "t"}
FIRST = [
    call("init-producer-id"),
    call("begin"),
    call("add-partitions", partitions="t-0"),
    call("produce", partition="t-0", value="r1"),
    {"arm": {**MARKERS, "action": {"do": "delay", "delay_ms": 300}}},
    call("commit"),
    call("begin"),
]


def test_what_passes_is_asked_again_unless_the_story_wants_the_first_answer() -> None:
    patient = [*FIRST, call("add-partitions", partitions="t-0"), call("abort")]
    assert told(patient).as_declared
    add = {"partitions": "t-0", "error": "CONCURRENT_TRANSACTIONS"}
    assert told([*FIRST, call("add-partitions", **add)]).as_declared
    once = call("add-partitions", partitions="t-0", once=True)
    result = told([*FIRST, once])
    assert "CONCURRENT_TRANSACTIONS" in result.verdict.because[0]


def test_a_coordinator_that_can_t_write_does_not_say_what_became_of_an_end() -> None:
    """The record may be found by the next coordinator, so it is no refusal."""
    moved = [
        *FIRST[:4],
        {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 1}},
        call("commit", broker=2, error="NOT_COORDINATOR", once=True),
    ]
    ends = seen(told(moved), Ended)
    assert [(one.outcome, one.error) for one in ends] == [("unknown", "NOT_COORDINATOR")]
    late = [*FIRST[:4], call("abort"), call("commit", error="INVALID_TXN_STATE")]
    assert [one.outcome for one in seen(told(late), Ended)] == ["ok", "failed"]


def test_a_request_is_aimed_at_a_broker_right_or_wrong() -> None:
    lead = {"cluster": {"do": "move-leader", "partition": "t-0", "to": 1}}
    steps = [
        call("init-producer-id"),
        lead,
        call("begin"),
        call("add-partitions", partitions="t-0"),
        call("produce", partition="t-0", value="r1", broker=2, error="NOT_LEADER_OR_FOLLOWER"),
        call("produce", partition="t-0", value="r2", broker=1, sequence=0, offset=0),
        {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 3}},
        call("commit", broker=2, error="NOT_COORDINATOR", once=True),
        call("commit", broker=3),
    ]
    result = told(steps)
    assert result.as_declared, result.verdict
