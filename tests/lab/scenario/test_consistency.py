from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.support.stories import call, document
from txnsim.errors import ConfigError
from txnsim_lab.scenario.reading import read

RULE = {"id": "late", "point": "client.request", "api": "Produce"}


def problems(steps: list[dict[str, Any]], **head: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read("small.yaml", yaml.safe_dump(document(steps, **head), sort_keys=False))
    return str(caught.value)


def produce(**fields: Any) -> dict[str, Any]:
    return call("produce", **{"partition": "t-0", "value": "x", **fields})


@pytest.mark.parametrize(
    ("steps", "field", "message"),
    [
        ([call("begin", "Q")], "steps.0.call.who", "no actor 'Q'"),
        ([call("beginn")], "steps.0.call.do", "did you mean begin?"),
        ([call("begin", partition="t-0")], "steps.0.call.partition", "no field of begin"),
        ([call("produce", value="x")], "steps.0.call.do", "produce needs partition"),
        ([call("produce", partition="t-0")], "steps.0.call.do", "produce needs value or values"),
        ([produce(values=["a"])], "steps.0.call.values", "either value or values"),
        ([produce(partition="q-0")], "steps.0.call.partition", "no topic 'q'"),
        ([produce(partition="t-2")], "steps.0.call.partition", "has the partitions 0 to 1"),
        ([produce(error="FENCED")], "steps.0.call.error", "no error 'FENCED'"),
        ([produce(error={"V-": {"V9": "NONE"}})], "steps.0.call.error.V-.V9", "take 'V9'"),
        ([produce(error={"V-": {"else": "X"}})], "steps.0.call.error.V-.else", "no error 'X'"),
        (
            [call("read", "reader", partition="t-0", reads={"V9": []})],
            "steps.0.call.reads.V9",
            "no run, mode or take 'V9'",
        ),
        ([produce(error={"V9": "NONE"})], "steps.0.call.error.V9", "no run, mode or take 'V9'"),
        ([produce(background="a"), produce(background="a")], "steps.1.call.background", "a call"),
        ([{"await": "a"}], "steps.0.await", "no step before names 'a'"),
        ([produce(background="ab"), {"give-up": "a"}], "steps.1.give-up", "did you mean ab?"),
        ([{"wait-until": {"answered": "a"}}], "steps.0.wait-until.answered", "no step before"),
        ([{"release": "late"}], "steps.0.release", "no step before names 'late'"),
        ([{"hold": RULE}, {"disarm": "lat"}], "steps.1.disarm", "did you mean late?"),
        ([{"hold": RULE}, {"arm": RULE}], "steps.1.arm.id", "late is armed by a step before"),
        ([{"wait-until": {"struck": "x"}}], "steps.0.wait-until.struck", "no step before"),
        ([{"wait-until": {"marker": "t-9"}}], "steps.0.wait-until.marker", "has the partitions"),
        ([{"advance": "1s", "only": "V9"}], "steps.0.only.0", "no run, mode or take 'V9'"),
        ([{"cluster": {"do": "rol"}}], "steps.0.cluster.do", "did you mean roll?"),
        ([{"cluster": {"do": "stop"}}], "steps.0.cluster.do", "stop needs broker"),
        ([{"cluster": {"do": "stop", "broker": 9}}], "steps.0.cluster.broker", "brokers 1 to 3"),
        ([{"cluster": {"do": "move-leader", "to": 1}}], "steps.0.cluster.do", "needs either"),
        ([call("commit-offsets")], "steps.0.call.do", "commit-offsets needs member, or group"),
        ([call("commit-offsets", member="P")], "steps.0.call.member", "no member 'P'"),
        (
            [{"expect": {"partition": "q-0", "stable": 1}}],
            "steps.0.expect.partition",
            "no topic 'q'",
        ),
        ([produce(of="q-0@1")], "steps.0.call.of.0", "no topic 'q'"),
        ([produce(of=["in-0@0", "in-1@0"])], "steps.0.call.of.1", "has the partitions 0 to 0"),
        ([produce(of="in-0")], "steps.0.call.of.0", "expected a record such as orders-0@5"),
        ([produce(), produce()], "steps.1.call.value", "the value 'x' is used twice in t-0"),
        (
            [produce(), produce(value="y", beside={"t-1": "z", "t-0": "x"})],
            "steps.1.call.beside",
            "t-0 is the partition of the call itself",
        ),
        ([produce(partition="t-1"), produce(beside={"t-1": "x"})], "steps.1.call.beside", "twice"),
        ([produce(beside={"q-0": "y"})], "steps.0.call.beside", "no topic 'q'"),
        ([produce(beside=["t-1"])], "steps.0.call.beside", "expected partitions with values"),
        (
            [{"repeat": 2, "steps": [call("produce", partition="t-0", values=["x", "y{n}"])]}],
            "steps.0.steps.0.call.values",
            "'x' is used twice in t-0",
        ),
        (
            [call("append", "bystander", partition="t-0", count=2)] * 2,
            "steps.1.call.value",
            "'update-0' is used twice",
        ),
        (
            [produce(background="a"), {"await": {"call": "a", "error": "X"}}],
            "steps.1.await.error",
            "no error 'X'",
        ),
    ],
)
def test_steps_use_what_there_is(steps: list[dict[str, Any]], field: str, message: str) -> None:
    found = problems(steps)
    assert f": {field}: " in found
    assert message in found


@pytest.mark.parametrize(
    ("head", "field", "message"),
    [
        ({"runs": {"armed": {"mode": "V-", "verdict": "healthy"}}}, "runs.armed", "something else"),
        (
            {"runs": {"V-": {"mode": "V-", "verdict": "lost-writ"}}},
            "runs.V-.verdict.0",
            "lost-write",
        ),
        (
            {"runs": {"V-": {"mode": "V-", "verdict": "healthy", "rules": {"x": True}}}},
            "runs.V-.rules.x",
            "no rule 'x'",
        ),
        (
            {"runs": {"V-": {"mode": "V-", "verdict": "healthy", "cured": "healthy"}}},
            "runs.V-.cured",
            "there is no cure",
        ),
        (
            {"runs": {"V-": {"mode": "V-", "verdict": "healthy", "players": ["kafka"]}}},
            "runs.V-.players.0",
            "did you mean kafka-python?",
        ),
        ({"disarmed": "nothing"}, "disarmed.0", "no verdict 'nothing'"),
        ({"topics": {"t": {"partitions": 2, "leaders": [1]}}}, "topics.t.leaders", "expected 2"),
        ({"topics": {"t": {"leaders": [4]}}}, "topics.t.leaders.0", "brokers 1 to 3"),
        (
            {"actors": {"A": {"plays": "application", "players": ["jva"]}}},
            "actors.A.players.0",
            "no player 'jva'",
        ),
        ({"actors": {"a": {"plays": "member"}}}, "actors.a.plays", "a member needs group"),
        ({"actors": {"a": {"plays": "wire", "group": "g"}}}, "actors.a.group", "is in no group"),
        ({"control": "Something else."}, "control", "no step has `only: control`"),
    ],
)
def test_the_head_names_what_there_is(head: dict[str, Any], field: str, message: str) -> None:
    found = problems([{"advance": "1s"}], **head)
    assert f": {field}: " in found
    assert message in found


def test_a_member_names_topics_and_partitions_that_there_are() -> None:
    actors = {"a": {"plays": "member", "group": "g"}}
    found = problems([call("subscribe", "a", topics=["q"], assigned=["in-3"])], actors=actors)
    assert "steps.0.call.topics.0: no topic 'q'" in found
    assert "steps.0.call.assigned: topic in has the partitions 0 to 0" in found
    assert "subscribe needs topics" in problems([call("subscribe", "a")], actors=actors)


def test_a_value_may_stand_twice_where_it_is_one_record_or_one_telling_has_it_once() -> None:
    again = [
        {**produce(), "only": "armed"},
        {**produce(), "only": "disarmed"},
        produce(partition="t-1"),
        produce(value="y", error={"V+": "INVALID_TXN_STATE"}),
        produce(value="y"),
        produce(value="z"),
        produce(value="z", sequence=2),
        {"cluster": {"do": "delete-topic", "topic": "t"}},
        {"cluster": {"do": "create-topic", "topic": "t"}},
        produce(),
    ]
    assert len(read("small.yaml", yaml.safe_dump(document(again))).steps) == len(again)


def test_an_application_sends_no_tombstones() -> None:
    found = problems(
        [call("send", "a", partition="t-0", value=None)], actors={"a": {"plays": "application"}}
    )
    assert "steps.0.call.value: a tombstone is sent by a wire actor or a bystander" in found


def test_a_generation_is_named_before_it_is_used() -> None:
    actors = {"P": {"plays": "wire"}, "a": {"plays": "member", "group": "g"}}
    commit = call("commit-offsets", member="a", generation="old")
    poll = call("poll", "a", generation=3)
    found = problems([commit, poll], actors=actors)
    assert "steps.0.call.generation: no step before names 'old'" in found
    assert "steps.1.call.generation: expected a name for the generation" in found
