"""Short forms in story files, and what they stand for."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.support.stories import (
    call,
    document,
    failure,
    observations_of,
    play_steps,
    sentences,
    small,
    transaction,
)
from txnsim.errors import ConfigError
from txnsim.settings import DEFAULTS
from txnsim.types import TopicPartition, partition_for
from txnsim_lab.check.observations import Ended, Wrote
from txnsim_lab.scenario._notation import internal_partitions
from txnsim_lab.scenario._notation.blocks import unroll_blocks
from txnsim_lab.scenario.fields import with_numbers
from txnsim_lab.scenario.runner import ScenarioRun, in_drawn_order, run_in_virtual_time
from txnsim_lab.scenario.scenario_reader import read

INIT = call("init-producer-id")


def problems(*steps: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as error_info:
        read("small.yaml", yaml.safe_dump(document(steps), sort_keys=False))
    return str(error_info.value)


def test_steps_are_taken_so_often_and_know_their_turn() -> None:
    turns = {"repeat": 3, "steps": transaction("r{n}", "s{n}")}
    expected_values = ["r1", "s1", "r2", "s2", "r3", "s3"]
    look = {"expect": {"partition": "t-0", "committed": expected_values}}
    result = play_steps([INIT, turns, look])
    assert result.as_declared, result.verdict
    assert len(observations_of(result, Ended)) == 3


def test_what_is_named_in_a_turn_is_named_once() -> None:
    begin = [call("begin"), call("add-partitions", partitions="t-0")]
    send_step = call("produce", partition="t-0", value="r{n}", background="sent-{n}")
    turn = [*begin, send_step, {"await": "sent-{n}"}, call("commit")]
    assert play_steps([INIT, {"repeat": 2, "steps": turn}]).as_declared
    repeated_steps = [*begin, {**send_step, "call": {**send_step["call"], "background": "sent"}}]
    assert "steps.0.steps.2.call.background: sent is a call" in problems(
        {"repeat": 2, "steps": repeated_steps}
    )


def test_errors_name_the_line_and_the_field_of_the_file() -> None:
    complaint = problems(
        INIT, {"repeat": 2, "steps": [call("begin"), call("beginn")]}, call("begin")
    )
    lines = yaml.safe_dump(
        document([INIT, {"repeat": 2, "steps": [call("begin"), call("beginn")]}, call("begin")]),
        sort_keys=False,
    ).splitlines()
    line_number = lines.index("      do: beginn") + 1
    assert (
        f"small.yaml:{line_number}: steps.1.steps.1.call.do: no call of a wire 'beginn'"
        in complaint
    )


def test_a_failure_names_the_step_of_the_file() -> None:
    turn = {"repeat": 2, "steps": [{"expect": {"partition": "t-0", "stable": 7}}]}
    (because,) = play_steps([INIT, turn]).verdict.because
    assert "steps.1.steps.0.expect: " in because
    assert failure(play_steps([INIT, turn])) != ""


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"repeat": 0, "steps": [INIT]}, "steps.0.repeat: expected how many times"),
        ({"repeat": True, "steps": [INIT]}, "steps.0.repeat: expected how many times"),
        ({"repeat": 2}, "steps.0.repeat: expected steps beside it"),
        (
            {"repeat": 2, "steps": [INIT], "say": "x"},
            "steps.0.say: a block has steps, beside it repeat and only",
        ),
        ({"repeat": 2, "steps": [{"repeat": 2, "steps": [INIT]}]}, "can't stand in another one"),
        ({"repeat": 10_001, "steps": [INIT]}, "a story has at most 10000 steps"),
        ({"steps": [INIT]}, "steps.0.steps: expected repeat or only beside it"),
        ({"only": "armed", "steps": []}, "steps.0.steps: expected a list of steps"),
        ({"any-order": INIT}, "steps.0.any-order: expected a list of steps"),
        ({"any-order": [INIT], "repeat": 2}, "steps.0.repeat: a block has any-order, beside it"),
        ({"any-order": [{"any-order": [INIT]}]}, "steps.0.any-order.0.any-order: it can't stand"),
        ({"only": ["armed", "V9"], "steps": [INIT]}, "steps.0.only.1: no run, mode or take 'V9'"),
        (
            {"only": "armed", "steps": [INIT, {**INIT, "only": "V9"}]},
            "steps.0.steps.1.only.0: no run, mode or take 'V9'",
        ),
    ],
)
def test_what_is_no_block_is_refused_with_its_place(block: dict[str, Any], message: str) -> None:
    assert message in problems(block)


def test_a_block_restricts_all_of_its_steps_also_those_that_restrict_themselves() -> None:
    inner = {"repeat": 2, "steps": [call("append", "bystander", partition="t-0", value="r{n}")]}
    block = {
        "only": ["armed", "control"],
        "steps": [
            inner,
            {**call("append", "bystander", partition="t-1", value="a"), "only": ["V-", "V+"]},
            {**call("append", "bystander", partition="t-1", value="b"), "only": "control"},
        ],
    }
    head = {"control": "As it is."}

    def values_written(run_name: str, take_name: str) -> list[str | None]:
        return [
            observation.value
            for observation in observations_of(
                play_steps([block], run_name=run_name, take_name=take_name, **head), Wrote
            )
        ]

    assert values_written("V-", "armed") == ["r1", "r2", "a"]
    assert values_written("TV2", "armed") == ["r1", "r2"]
    assert values_written("V+", "control") == ["r1", "r2", "a", "b"]
    assert values_written("V-", "disarmed") == []


def test_the_seed_draws_the_order_of_a_block_and_a_part_keeps_its_own() -> None:
    first_step, second_step, third_step, four = (
        call("append", "bystander", partition="t-0", value=value) for value in "abcd"
    )
    scenario = small(
        [{"any-order": [{"only": "armed", "steps": [first_step, second_step]}, third_step]}, four]
    )

    def values_written(seed: int) -> str:
        result = run_in_virtual_time(ScenarioRun(scenario=scenario, run="V-"), seed=seed)
        assert result.as_declared, result.verdict
        return "".join(observation.value for observation in observations_of(result, Wrote))

    assert {values_written(seed) for seed in range(1, 9)} == {"abcd", "cabd"}
    assert values_written(3) == values_written(3)


def test_a_file_without_a_block_is_left_alone() -> None:
    document_given = document([INIT])
    rolled_out_document, origins, complaints = unroll_blocks(document_given)
    assert rolled_out_document == document_given
    assert not complaints
    assert origins.place_in_file(("steps", 0, "call")) == ("steps", 0, "call")
    assert small([INIT]).steps[0].place == "small.yaml:26: steps.0.call"


POSITIONS = [
    call("begin"),
    call("add-offsets", group="g"),
    call("commit-offsets", group="g", offsets={"in-0": 10}),
]


def test_a_partition_is_asked_for_by_whom_it_serves() -> None:
    group = internal_partitions.by_name("__consumer_offsets@readers")
    assert group is not None
    assert internal_partitions.partition_text(group) == "__consumer_offsets@readers"
    count = DEFAULTS.offsets_topic_num_partitions
    group_partition = TopicPartition("__consumer_offsets", partition_for("readers", count))
    assert (
        internal_partitions.with_partition_number(group, DEFAULTS)
        == group_partition
        == internal_partitions.partition_of_group("readers", DEFAULTS)
    )
    assert internal_partitions.by_name("orders-0") is None
    assert internal_partitions.by_name("orders@readers") is None
    assert internal_partitions.by_name("__consumer_offsets@") is None


def test_a_step_without_such_a_name_is_the_same_object() -> None:
    plain_step, named_step = small(
        [
            {"wait-until": {"open": "t-0"}},
            {"wait-until": {"open": "__consumer_offsets@g"}},
        ]
    ).steps
    assert with_numbers(plain_step, DEFAULTS) is plain_step
    numbered = with_numbers(named_step, DEFAULTS)
    assert numbered.wait_until.open == internal_partitions.partition_of_group("g", DEFAULTS)
    assert numbered.place == named_step.place


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
    move_step = {"cluster": {"do": "move-leader", "partition": "__transaction_state@app", "to": 2}}
    result = play_steps([*steps[:-1], move_step, steps[-1]])
    assert result.as_declared, result.verdict


def test_the_last_look_sees_a_transaction_that_hangs_in_an_internal_partition() -> None:
    """A late TxnOffsetCommit without verification (KAFKA-14402 for positions)."""
    runs = {"V-": {"mode": "V-", "verdict": "stuck-last-stable-offset"}}
    begin_steps = POSITIONS[:2]
    hold_late = {"hold": {"id": "late", "point": "client.request", "api": "TxnOffsetCommit"}}
    late_step = call(
        "commit-offsets", group="g", offsets={"in-0": 10}, connection="slow", background="late"
    )
    steps = [
        INIT,
        *begin_steps,
        hold_late,
        late_step,
        {"wait-until": {"struck": "late"}},
        call("abort"),
    ]
    end_step = {"wait-until": {"transaction": {"id": "app", "is": "CompleteAbort"}}}
    result = play_steps([*steps, end_step, {"release": "late"}, {"await": "late"}], runs=runs)
    assert result.as_declared, result.verdict
    assert "__consumer_offsets" in result.verdict.because[0]


def test_find_hanging_before_3_1_leaves_internal_topics_out() -> None:
    runs = {"V-": {"mode": "V-", "verdict": "stuck-last-stable-offset", "cured": "healthy"}}
    hold_late = {"hold": {"id": "late", "point": "client.request", "api": "TxnOffsetCommit"}}
    late_step = call(
        "commit-offsets", group="g", offsets={"in-0": 10}, connection="slow", background="late"
    )
    steps = [
        INIT, *POSITIONS[:2], hold_late, late_step,
        {"wait-until": {"struck": "late"}}, call("abort"),
        {"wait-until": {"transaction": {"id": "app", "is": "CompleteAbort"}}},
        {"release": "late"}, {"await": "late"},
    ]  # fmt: skip
    cure = [
        call("find-hanging", "operator", tool="before-3.1", names=[]),
        call("find-hanging", "operator", tool="today", names="__consumer_offsets@g"),
        call("abort-found", "operator"),
    ]
    result = play_steps(steps, runs=runs, cure=cure)
    assert result.as_declared, (result.verdict, result.cured)
    assert "find-hanging names nothing" in sentences(result)


def test_parts_are_shuffled_and_all_else_stays() -> None:
    names = [call("append", "bystander", partition="t-0", value=value) for value in "abcde"]
    first_name, second_name, third_name, fourth_name, fifth_name = names
    part = {"only": "armed", "steps": [second_name, third_name]}
    steps = small([first_name, {"any-order": [part, fourth_name]}, fifth_name]).steps

    def values(shuffle: Any) -> str:
        drawn_steps = in_drawn_order(steps, shuffle)
        return "".join(str(step.call.value) for step in drawn_steps if step.call is not None)

    assert values(lambda parts: None) == "abcde"
    assert values(lambda parts: parts.reverse()) == "adbce"
