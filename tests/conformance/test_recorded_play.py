"""Random plays that a real Kafka was asked, played again in virtual time: the answers are equal."""

from __future__ import annotations

from typing import Final

import pytest

from tests.conformance.cluster_setups import (
    ClusterSetup,
    take_first_producer_id,
    trace_level_at,
    virtual_on,
)
from tests.conformance.operations import Batch, Operation, Pid, TopicId
from tests.conformance.random_play import PROPERTIES
from tests.conformance.recorded_play import RecordedPlay, from_json, play_again, read_plays, to_json
from txnsim_lab.conformance._book.model import TXN_LEVELS

PLAYS: Final = read_plays()
PLAYS_MIN: Final = 36
SETUP: Final = ClusterSetup(name="random plays", properties=PROPERTIES)


def test_plays_of_every_level_are_kept() -> None:
    assert len(PLAYS) >= PLAYS_MIN
    assert {play.transaction_version for play in PLAYS} == set(TXN_LEVELS)


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.name)
def test_a_play_has_a_real_broker_s_answers(play: RecordedPlay) -> None:
    level = play.transaction_version
    with virtual_on(SETUP, level, trace_level=trace_level_at(level)) as virtual_world:
        take_first_producer_id(virtual_world, level)
        transcript = play_again(play, virtual_world.bootstrap)
    assert play.differences(transcript) == []


@pytest.mark.parametrize(
    "argument",
    [
        Pid(3, 1),
        TopicId("t"),
        Batch(values=("a", "b"), pid=Pid(0), epoch=1, sequence=2, transactional=True),
        Operation(
            api="Produce",
            version=11,
            mode="right",
            values={"topic_data": [{"records": Batch(values=("a",))}], "raw": b"\x00\xff"},
            transactional_id="id",
            unanswered=True,
        ),
        None,
        7,
    ],
)
def test_an_argument_is_read_as_it_was_written(argument: object) -> None:
    assert from_json(to_json(argument)) == argument
