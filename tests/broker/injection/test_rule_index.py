"""The index of rules: it leaves out only rules that can't match, and asks few of very many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.injection.test_injector import run
from tests.support.counted_steps import CountedSteps
from txnsim.faults.actions import Hold, Pass
from txnsim.faults.interception import Crossing
from txnsim.faults.plan import FaultRule, matches
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.injection import _rule_index
from txnsim.injection._rule_index import FEW_VALUES, RuleIndex
from txnsim.injection.armed_rule import ArmedRule
from txnsim.injection.injector import Injector
from txnsim.runtime.virtual.run import VirtualEnvironment
from txnsim.types import TopicPartition, uuid_text

MANY = 5_000
NAMES = [f"n{number}" for number in range(6)]
NUMBERS = range(6)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(NAMES), st.sampled_from(NUMBERS))
POINTS = (FaultPoint.CLIENT_REQUEST, FaultPoint.LOG_APPEND)


def crossing(point: str, *subjects: Subject, source: str = "client/n0", api: int = -1) -> Crossing:
    first_subject = subjects[0] if subjects else Subject()
    return Crossing(
        point=point,
        source=source,
        target="broker/1",
        api_key=api,
        api_version=9,
        correlation_id=1,
        subject=Subject(
            transactional_id=first_subject.transactional_id,
            producer_id=first_subject.producer_id,
            partitions=first_subject.partitions,
            other_subjects=subjects[1:],
        ),
    )


SUBJECTS = st.builds(
    Subject,
    transactional_id=st.none() | st.sampled_from(NAMES),
    producer_id=st.none() | st.sampled_from(NUMBERS),
    partitions=st.lists(PARTITIONS, max_size=4).map(tuple),
)
CROSSINGS = st.builds(
    lambda point, subjects, source, api: crossing(point, *subjects, source=source, api=api),
    st.sampled_from(POINTS),
    st.lists(SUBJECTS, max_size=3),
    st.sampled_from(NAMES).map("client/{}".format),
    st.sampled_from([0, 3, 22]),
)


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    """The fields of a rule: mostly one criterion, of many values, so that the index is used."""
    point = draw(st.sampled_from(POINTS))
    fields: dict[str, Any] = {"point": point}
    criteria = ["transactional_id", "producer_id", "topic", "source"]
    if point is FaultPoint.CLIENT_REQUEST:
        criteria += ["client_id", "api", "client_instance_id"]
    for name in draw(st.lists(st.sampled_from(criteria), max_size=2, unique=True)):
        match name:
            case "producer_id":
                fields[name] = draw(st.sampled_from(NUMBERS))
            case "api":
                fields[name] = draw(st.sampled_from(["Produce", 0, "InitProducerId", 22]))
            case "client_instance_id":
                fields[name] = uuid_text(draw(st.uuids()))
            case "source":
                fields[name] = f"client/{draw(st.sampled_from(NAMES))}"
            case _:
                fields[name] = draw(st.sampled_from(NAMES))
    if "topic" in fields:
        fields["partition"] = draw(st.none() | st.sampled_from(NUMBERS))
    if fields.get("api") == "InitProducerId":
        fields.pop("topic", None)
        fields.pop("partition", None)
    return fields


@given(
    st.lists(rules(), min_size=1, max_size=30),
    st.sets(st.integers(0, 29)),
    st.lists(CROSSINGS, min_size=1, max_size=4),
)
def test_all_rules_that_match_are_candidates_in_the_order_of_arming(
    rule_fields: list[dict[str, Any]], removed_numbers: set[int], crossings: list[Crossing]
) -> None:
    index = RuleIndex()
    armed_rules = [
        ArmedRule(FaultRule(id=f"r{number}", action=Hold(), **fields))
        for number, fields in enumerate(rule_fields)
    ]
    for armed_rule in armed_rules:
        index.add(armed_rule)
    for number in sorted(removed_numbers):
        if number < len(armed_rules):
            index.remove(armed_rules[number])
    kept_rules = [
        armed_rule for number, armed_rule in enumerate(armed_rules) if number not in removed_numbers
    ]
    for met_crossing in crossings:
        for few_values in (0, 2, FEW_VALUES):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_rule_index, "FEW_VALUES", few_values)
                candidates = list(index.candidates(met_crossing))
            numbers = [kept_rules.index(candidate) for candidate in candidates]
            assert numbers == sorted(set(numbers))
            assert [rule for rule in candidates if matches(rule.rule, met_crossing)] == [
                rule for rule in kept_rules if matches(rule.rule, met_crossing)
            ]


async def lines_of(step: Callable[[], object]) -> int:
    """Lines of code that a callback of the loop runs."""
    with CountedSteps() as steps:
        asyncio.get_running_loop().call_soon(step)
        await asyncio.sleep(0)
    assert steps.longest
    return steps.longest


@pytest.mark.parametrize(
    "criteria_of",
    [
        lambda number: {"topic": f"nobody-{number}"},
        lambda number: {"topic": "wide", "partition": 10_000 + number},
        lambda number: {"transactional_id": f"nobody-{number}"},
        lambda number: {"producer_id": 10_000 + number},
        lambda number: {"source": f"client/nobody-{number}"},
        lambda number: {"point": FaultPoint.LOG_FLUSH},
    ],
)
def test_very_many_rules_that_can_t_match_are_not_asked(criteria_of: Any) -> None:
    async def main(_env: VirtualEnvironment, injector: Injector) -> tuple[int, int]:
        wide_crossing = crossing(
            FaultPoint.LOG_APPEND,
            Subject(producer_id=7, partitions=(TopicPartition("wide", 1),)),
            source="broker/1",
        )
        injector.arm(FaultRule(id="few", point=FaultPoint.LOG_APPEND, action=Pass(), topic="w"))
        lines_before = await lines_of(partial(injector.cross, wide_crossing))
        for number in range(MANY):
            fields = {"point": FaultPoint.LOG_APPEND, **criteria_of(number)}
            injector.arm(FaultRule(id=f"r{number}", action=Hold(), **fields))
        return lines_before, await lines_of(partial(injector.cross, wide_crossing))

    lines_before, lines_after = run(main)
    assert lines_after < lines_before + 50


def test_disarming_very_many_rules_looks_at_each_once() -> None:
    async def main(_env: VirtualEnvironment, injector: Injector) -> list[int]:
        counts = []
        for rule_count in (500, 1_000):
            for number in range(rule_count):
                # All but the last can strike no more: only it keeps the injector armed.
                injector.arm(
                    FaultRule(
                        id=f"r{number}",
                        point=FaultPoint.LOG_APPEND,
                        action=Pass(),
                        limit=1,
                        topic="wide" if number < rule_count - 1 else "other",
                    )
                )
            wide_subject = Subject(partitions=(TopicPartition("wide", 1),))
            injector.cross(crossing(FaultPoint.LOG_APPEND, wide_subject, source="broker/1"))
            counts.append(await lines_of(injector.disarm_all))
            assert not injector.is_armed
        return counts

    few_lines, many_lines = run(main)
    assert many_lines < 2.2 * few_lines


def test_of_rules_that_have_struck_and_are_gone_only_the_ids_are_kept() -> None:
    async def main(_env: VirtualEnvironment, injector: Injector) -> None:
        point, long_name = FaultPoint.CLIENT_REQUEST, "x" * 10_000
        met_crossing = crossing(point, Subject(transactional_id=long_name))
        for _ in range(3):
            for number in range(10):
                injector.arm(
                    FaultRule(
                        id=f"r{number}", point=point, action=Pass(), transactional_id=long_name
                    )
                )
                injector.cross(met_crossing)
                injector.disarm(f"r{number}")
            assert injector.kept_bytes == 10 * len("r0")
        # Others may still name them.
        injector.arm(FaultRule(id="later", point=point, action=Pass(), after="r3"))
        injector.arm(FaultRule(id="ended", point=point, action=Pass(), until="r4"))
        injector.cross(met_crossing)
        assert [armed_rule.matched for armed_rule in injector.rules()] == [1, 0]
        injector.forget()
        assert injector.kept_bytes == sum(rule.size_bytes for rule in injector.rules())

    run(main)
