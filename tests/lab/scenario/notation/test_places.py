from __future__ import annotations

from tests.support.stories import call, sentences, small, told
from txnsim.settings import DEFAULTS
from txnsim.types import TopicPartition, partition_for
from txnsim_lab.scenario._notation import places
from txnsim_lab.scenario.fields import with_numbers

INIT = call("init-producer-id")
POSITIONS = [
    call("begin"),
    call("add-offsets", group="g"),
    call("commit-offsets", group="g", offsets={"in-0": 10}),
]


def test_a_partition_is_asked_for_by_whom_it_serves() -> None:
    group = places.by_name("__consumer_offsets@readers")
    assert group is not None
    assert places.shown(group) == "__consumer_offsets@readers"
    count = DEFAULTS.offsets_topic_num_partitions
    found = TopicPartition("__consumer_offsets", partition_for("readers", count))
    assert places.located(group, DEFAULTS) == found == places.of_group("readers", DEFAULTS)
    assert places.by_name("orders-0") is None
    assert places.by_name("orders@readers") is None
    assert places.by_name("__consumer_offsets@") is None


def test_a_step_without_such_a_name_is_the_same_object() -> None:
    plain, named = small(
        [
            {"wait-until": {"open": "t-0"}},
            {"wait-until": {"open": "__consumer_offsets@g"}},
        ]
    ).steps
    assert with_numbers(plain, DEFAULTS) is plain
    numbered = with_numbers(named, DEFAULTS)
    assert numbered.wait_until.open == places.of_group("g", DEFAULTS)
    assert numbered.place == named.place


def test_a_story_looks_at_the_partition_on_which_a_group_lives() -> None:
    steps = [
        INIT,
        *POSITIONS,
        {"wait-until": {"open": "__consumer_offsets@g"}},
        call("producers", "operator", partition="__consumer_offsets@g", open_since=[0]),
        call("commit"),
        {"wait-until": {"marker": "__consumer_offsets@g"}},
        {"cluster": {"do": "move-leader", "partition": "__consumer_offsets@g", "to": 2}},
        {"wait-until": {"leader": {"partition": "__transaction_state@app", "is": 2}}},
    ]
    moved = {"cluster": {"do": "move-leader", "partition": "__transaction_state@app", "to": 2}}
    result = told([*steps[:-1], moved, steps[-1]])
    assert result.as_declared, result.verdict


def test_the_last_look_sees_a_transaction_that_hangs_in_an_internal_partition() -> None:
    """A late TxnOffsetCommit without verification (KAFKA-14402 for positions)."""
    runs = {"V-": {"mode": "V-", "verdict": "stuck-last-stable-offset"}}
    begun = POSITIONS[:2]
    held = {"hold": {"id": "late", "point": "client.request", "api": "TxnOffsetCommit"}}
    late = call(
        "commit-offsets", group="g", offsets={"in-0": 10}, connection="slow", background="late"
    )
    steps = [INIT, *begun, held, late, {"wait-until": {"struck": "late"}}, call("abort")]
    ended = {"wait-until": {"transaction": {"id": "app", "is": "CompleteAbort"}}}
    result = told([*steps, ended, {"release": "late"}, {"await": "late"}], runs=runs)
    assert result.as_declared, result.verdict
    assert "__consumer_offsets" in result.verdict.because[0]


def test_find_hanging_before_3_1_leaves_internal_topics_out() -> None:
    runs = {"V-": {"mode": "V-", "verdict": "stuck-last-stable-offset", "cured": "healthy"}}
    held = {"hold": {"id": "late", "point": "client.request", "api": "TxnOffsetCommit"}}
    late = call(
        "commit-offsets", group="g", offsets={"in-0": 10}, connection="slow", background="late"
    )
    steps = [
        INIT, *POSITIONS[:2], held, late, {"wait-until": {"struck": "late"}}, call("abort"),
        {"wait-until": {"transaction": {"id": "app", "is": "CompleteAbort"}}},
        {"release": "late"}, {"await": "late"},
    ]  # fmt: skip
    cure = [
        call("find-hanging", "operator", tool="before-3.1", names=[]),
        call("find-hanging", "operator", tool="today", names="__consumer_offsets@g"),
        call("abort-found", "operator"),
    ]
    result = told(steps, runs=runs, cure=cure)
    assert result.as_declared, (result.verdict, result.cured)
    assert "find-hanging names nothing" in sentences(result)
