from __future__ import annotations

from typing import Any

import pytest

from sim.client.fetching import fetch
from sim.client.producer import Producer
from sim.errors import ClientError, InvariantViolation
from sim.scenario import steps
from sim.scenario.model import Call
from sim.scenario.stage import Stage
from sim.scenario.steps import StoryFailedError, act, need_strikes
from sim.types import IsolationLevel
from tests.support.stories import staged, step

RULE = {"id": "late", "point": "client.request", "api": "Produce", "transactional_id": "app"}


def call(who: str, do: str, **more: Any) -> dict[str, Any]:
    return {"call": {"who": who, "do": do, **more}}


BEGIN, SEND = call("producer", "begin"), call("producer", "send", value="late")
ACK, ABORT = call("producer", "await-ack"), call("producer", "abort")
APPEND = call("bystander", "append", values=["x", "y"])


async def play(built: Stage, *given: dict[str, Any]) -> None:
    for one in given:
        await act(built, step(**one))


async def test_what_is_released_has_been_handled_when_the_step_ends() -> None:
    async with staged() as built:
        await play(built, BEGIN, {"hold": RULE}, SEND, {"wait_until": {"struck": "late"}})
        assert built.facts.late_epoch == 0
        assert (await _values(built)) == []
        await play(built, call("producer", "give-up"), {"release": "late"})
        assert (await _values(built)) == ["late"]
        assert built.facts.handled == built.facts.struck >= 1
        assert built.cluster.injector.rules() == ()


async def _values(built: Stage) -> list[str]:
    result = await fetch(
        built.outside, "payments", 0, 0, isolation=IsolationLevel.READ_UNCOMMITTED, max_wait_ms=0
    )
    return [(record.value or b"").decode() for record in result.records]


async def test_a_fault_on_the_way_back_is_released_without_an_onlooker() -> None:
    async with staged() as built:
        await play(built, BEGIN, {"hold": {**RULE, "point": "client.response"}}, SEND)
        await play(built, {"wait_until": {"struck": "late"}}, {"release": "late"}, ACK)
        assert (built.facts.struck, built.facts.handled) == (1, 0)


async def test_a_fault_that_never_struck_fails_the_story() -> None:
    async with staged() as built:
        await play(built, {"hold": {**RULE, "transactional_id": "nobody"}}, BEGIN, SEND, ACK)
        with pytest.raises(StoryFailedError, match="the fault late never struck"):
            await play(built, {"release": "late"})
        with pytest.raises(StoryFailedError, match="the fault late never struck"):
            need_strikes(built)


async def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "PATIENCE_MS", 20)
    async with staged() as built:
        await play(built, {"hold": {**RULE, "transactional_id": "nobody"}})
        for condition, told in (
            ({"struck": "late"}, "0 of 1 strikes"),
            ({"transaction": "CompleteAbort"}, "until DescribeTransactions says CompleteAbort"),
            ({"marker": "written"}, "until DescribeProducers shows the marker"),
        ):
            with pytest.raises(StoryFailedError, match=told):
                await play(built, {"wait_until": condition})
        await play(built, BEGIN, SEND, ACK)
        with pytest.raises(StoryFailedError, match="until DescribeProducers shows the marker"):
            await play(built, {"wait_until": {"marker": "written"}})  # a batch brings none


async def test_a_new_epoch_behind_the_abort_is_as_good_as_its_completion() -> None:
    async with staged("V+") as built:
        await play(built, BEGIN, SEND, ACK, ABORT)
        await play(built, {"wait_until": {"transaction": "CompleteAbort"}})
        assert (built.facts.state_after_abort, built.facts.epoch_after_abort) == (
            "CompleteAbort",
            0,
        )
        again = Producer(built.outside, transactional_id="app")
        await again.init_transactions()  # as Java does behind an abort (KIP-360)
        await again.close()
        await play(built, {"wait_until": {"transaction": "CompleteAbort"}})
        assert (built.facts.state_after_abort, built.facts.epoch_after_abort) == ("Empty", 1)


async def test_what_the_operator_finds_is_what_is_aborted() -> None:
    async with staged() as built:
        await play(built, BEGIN, {"hold": RULE}, SEND, {"wait_until": {"struck": "late"}})
        await play(built, call("producer", "give-up"), ABORT, {"wait_until": {"marker": "written"}})
        await play(built, {"expect": {"observe": "reader-position"}}, {"release": "late"}, APPEND)
        await play(built, {"expect": {"observe": "after-release"}})
        await play(built, {"expect": {"observe": "late-gauge-before"}}, {"advance": "21m"})
        await play(built, {"expect": {"observe": "late-gauge-after"}})
        await play(built, call("operator", "find-hanging"), call("operator", "abort-found"))
        await play(built, {"expect": {"observe": "after-repair"}})
        facts = built.facts
        tracer = built.environment.tracer
        said = [event.d["text"] for event in tracer.events(0) if event.k == "note"]  # type: ignore[index]
    assert facts.appended == ("x", "y")
    assert (facts.late_gauge_before, facts.late_gauge_after) == (0, 1)
    assert [finding.start_offset for finding in facts.found] == [1]
    assert said == [
        "has read everything that is committed, and stands at offset 1",
        "x, y acknowledged at 2, 3",
        "a read_committed Fetch at 1 brings nothing, though the high watermark is 4: the last "
        "stable offset stands at 1",
        "PartitionsWithLateTransactionsCount was 0 and is 1",
        "find-hanging names payments-0: producer 0, epoch 0, open since offset 1",
        "the same Fetch now brings x, y; the last stable offset is 5, the high watermark 5",
    ]


async def test_where_nothing_hangs_nothing_is_found_and_the_reader_goes_on() -> None:
    async with staged() as built:
        await play(built, {"expect": {"observe": "reader-position"}, "say": "It begins."}, APPEND)
        await play(built, {"expect": {"observe": "after-release"}})
        await play(built, call("operator", "find-hanging"), call("operator", "abort-found"))
        await play(built, {"expect": {"observe": "after-repair"}})
        tracer = built.environment.tracer
        said = [event.d["text"] for event in tracer.events(0) if event.k == "note"]  # type: ignore[index]
    assert said[0] == "It begins."
    assert said[-2:] == [
        "find-hanging names nothing: there is nothing to abort",
        "the same Fetch still brings x, y; the last stable offset is 2, the high watermark 2",
    ]


async def test_a_producer_that_can_not_do_its_part_is_an_error() -> None:
    async with staged() as built:
        with pytest.raises(ClientError):
            await play(built, ABORT)  # nothing was begun


async def test_a_call_that_no_file_can_make_is_a_bug_of_ours() -> None:
    async with staged() as built:
        given = step(**BEGIN).model_copy(update={"call": Call(who="operator", do="dance")})
        with pytest.raises(InvariantViolation, match="operator can't 'dance'"):
            await act(built, given)
