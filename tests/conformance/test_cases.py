"""The cases to the simulator, held against what a real Apache Kafka answered; no Java.

One server for each configuration, side by side; each goes through the levels of
``transaction.version``, as the real one did when it was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import pytest

from tests.conformance.casebook import transcripts
from tests.conformance.casebook.model import LEVELS
from tests.conformance.casebook.playing import Play, finalize, play_all
from tests.conformance.casebook.reading import Case, brokers, cases
from tests.conformance.casebook.stages import simulated
from tests.conformance.recordings import unlike

PATIENCE_S = 280
"""For all cases; less than pytest's patience with one test."""

Plays = dict[tuple[str, int], "Future[Play]"]
PLAYS = [(case, level) for level in LEVELS for case in cases() if level in case.text.levels]
"""In the order in which they are played."""
recorded = cache(transcripts.read)


def id_of(case: Case, level: int) -> str:
    return f"{case.id}-tv{level}"


@pytest.fixture(scope="module")
def plays(request: pytest.FixtureRequest) -> Iterator[Plays]:
    """What the simulator answers to those cases that are asked for, as soon as it is known."""
    asked = {item.name for item in request.session.items if item.path == request.path}
    wanted = [
        (case, level)
        for case, level in PLAYS
        if any(name.endswith(f"[{id_of(case, level)}]") for name in asked)
    ]
    found: Plays = {(case.id, level): Future() for case, level in wanted}
    names = sorted({case.broker for case, _ in wanted})
    with ThreadPoolExecutor(max(1, len(names))) as lanes:
        for name in names:
            mine = [(case, level) for case, level in wanted if case.broker == name]
            lanes.submit(play_lane, name, mine, found)
        yield found


def play_lane(name: str, mine: Sequence[tuple[Case, int]], found: Plays) -> None:
    """Play what one configuration is asked; a failure belongs to the test that waits for it."""
    try:
        with simulated(brokers()[name], LEVELS[0]) as stage:
            for level in LEVELS:
                here = [case for case, at in mine if at == level]
                if here:
                    finalize(stage.address, level)
                for case, done in play_all(here, stage.address, level, life=stage.life):
                    hand_over(done, found[case.id, level])
    except Exception as failure:  # noqa: BLE001 - handed to the tests that still wait
        for case, level in mine:
            if not found[case.id, level].done():
                found[case.id, level].set_exception(failure)


def hand_over(done: Future[Play], promise: Future[Play]) -> None:
    failure = done.exception()
    if failure is None:
        promise.set_result(done.result())
    else:
        promise.set_exception(failure)


@pytest.mark.parametrize(("case", "level"), [pytest.param(*one, id=id_of(*one)) for one in PLAYS])
def test_the_simulator_answers_as_kafka_did(case: Case, level: int, plays: Plays) -> None:
    recording = recorded(case.file).get(case.name, {}).get(level)
    assert recording is not None, "record it: python -m tests.conformance.record_cases"
    play = plays[case.id, level].result(PATIENCE_S)
    wrong = [*unlike(recording, play.transcript), *play.unshown]
    again = f"If the case has changed: python -m tests.conformance.record_cases --case {case.id}"
    assert not wrong, "\n".join([f"{len(wrong)} differences (Kafka != ours):", *wrong, again])
