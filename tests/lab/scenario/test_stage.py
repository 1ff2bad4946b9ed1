from __future__ import annotations

import pytest

from tests.support.stories import call, late_produce, seen, small, told
from txnsim.errors import ConfigError
from txnsim_lab.check.observations import Wrote
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time


def test_a_program_is_told_of_the_partition_that_it_sends_to() -> None:
    result = run_in_virtual_time(ScenarioRun(scenario=late_produce(), run="V+"))
    assert {(one.topic, one.partition) for one in seen(result, Wrote)} == {("payments", 0)}


def test_a_topic_that_cant_be_is_refused() -> None:
    story = small([{"advance": "1s"}], topics={"t": {"partitions": 1, "configs": {"no.such": 1}}})
    with pytest.raises(ConfigError, match=r"small: topic t: .*no\.such"):
        run_in_virtual_time(ScenarioRun(scenario=story, run="V-"))


def test_what_still_waits_when_a_story_ends_does_not_keep_it() -> None:
    hold = {"hold": {"id": "late", "point": "client.response", "api": "InitProducerId"}}
    steps = [hold, call("init-producer-id", background="init"), {"wait-until": {"struck": "late"}}]
    assert told(steps).as_declared
