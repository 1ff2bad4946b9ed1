from __future__ import annotations

import msgspec
import pytest

from tests.support.traces import hung_at, small, told_run
from txnsim.errors import BadInputError, ConfigError
from txnsim.scenario.catalog import find
from txnsim.scenario.commands import Input, PlannedStep
from txnsim.scenario.given_inputs import GivenInputs
from txnsim.scenario.lessons import Lesson, fact, is_reached, lesson, lessons
from txnsim.scenario.reading import read_step
from txnsim.scenario.runner import Telling, tell_virtual
from txnsim.scenario.stage import Stage
from txnsim.trace.reading import Recording, recording


class Watched(GivenInputs):
    """Inputs, and the trace as it was before each step."""

    def __init__(self, inputs: tuple[Input, ...] = ()) -> None:
        super().__init__(inputs)
        self.before_step: dict[int, Recording] = {}

    async def before(self, stage: Stage, step: PlannedStep) -> None:
        await super().before(stage, step)
        lines = b"".join(stage.environment.tracer.pieces()).splitlines()
        self.before_step[step.number] = recording("the run", lines)


def told(one: Lesson, inputs: tuple[Input, ...] = ()) -> Watched:
    watched = Watched(inputs)
    telling = Telling(scenario=find(one.scenario)[1], run=one.run, take=one.take)
    tell_virtual(telling, pace=watched)
    return watched


def test_every_question_has_the_answer_of_its_run_among_several_choices() -> None:
    assert {"L0", "L1"} <= lessons().keys()
    for one in lessons().values():
        runs = told(one).before_step
        for part in one.parts:
            assert part.until in runs
            if part.ask:
                assert fact(runs[part.until], part.fact) in part.choices
                assert len(part.choices) > 1
                assert part.hints


def test_texts_are_plain_and_the_tour_says_what_its_run_shows() -> None:
    for one in lessons().values():
        assert "`" not in msgspec.json.encode(one).decode()  # they are no Markdown
    tour = lesson("l0")
    run = told(tour).before_step
    written = [
        sum(event.k == "log.append" for event in run[part.until].events) for part in tour.parts
    ]
    assert written == [1, 2, 2]
    assert "writes its first record" in tour.parts[0].say
    assert "writes a second record" in tour.parts[1].say


@pytest.mark.slow
def test_a_goal_is_reached_by_exactly_one_of_its_actions() -> None:
    one = lesson("l1")
    assert one.goal is not None
    end = one.parts[-1].until
    reached = []
    for action in one.goal.actions:
        read_step(action.step)
        runs = told(one, (Input(before=end, step=action.step),)).before_step
        reached.append(is_reached(one.goal, runs[end]))
    assert reached == [False, False, True]
    assert not is_reached(one.goal, told(one).before_step[end])


def test_facts_are_read_from_the_trace() -> None:
    run = told_run()
    until = tuple(event for event in run.events if event.i <= hung_at(run))
    run = msgspec.structs.replace(run, events=until)
    assert fact(run, "cause payments-0") == "hanging transaction"
    assert fact(run, "lso payments-0") == "1"
    assert fact(run, "withheld payments-0") == "3"
    assert fact(run, "state app") in ("CompleteAbort", "Empty")


def test_what_is_no_fact_or_no_lesson_is_told() -> None:
    with pytest.raises(BadInputError, match="nothing of orders-0"):
        fact(told_run(), "lso orders-0")
    with pytest.raises(BadInputError, match="nothing of shop"):
        fact(small(("broker/1",)), "state shop")
    with pytest.raises(ConfigError, match="no fact 'weather'"):
        fact(told_run(), "weather payments-0")
    with pytest.raises(ConfigError, match="L1"):
        lesson("L9")
