"""The cases to the simulator, held against what a real Apache Kafka answered; no Java, no clock.

Each play has a cluster of its own in virtual time, so plays come in any order and on any number of
workers, and no busy machine lets a transaction time out between two steps. The cluster starts at
the lowest level of ``transaction.version`` and is upgraded, as the real one was.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.conformance.casebook import transcripts
from tests.conformance.casebook.model import LEVELS
from tests.conformance.casebook.playing import finalize, play
from tests.conformance.casebook.reading import Case, brokers, cases
from tests.conformance.casebook.stages import virtual
from tests.conformance.recordings import unlike

PLAYS = [(case, level) for level in LEVELS for case in cases() if level in case.text.levels]
EXHAUSTED = "coordinator/exhausted"
recorded = cache(transcripts.read)


def id_of(case: Case, level: int) -> str:
    return f"{case.id}-tv{level}"


def marks_of(case: Case, level: int) -> tuple[pytest.MarkDecorator, ...]:
    """The quick check plays each case at its highest level, unless it climbs through all epochs."""
    is_quick = level == max(case.text.levels) and case.file != EXHAUSTED
    return () if is_quick else (pytest.mark.slow,)


@pytest.mark.parametrize(
    ("case", "level"),
    [pytest.param(*one, id=id_of(*one), marks=marks_of(*one)) for one in PLAYS],
)
def test_the_simulator_answers_as_kafka_did(case: Case, level: int) -> None:
    recording = recorded(case.file).get(case.name, {}).get(level)
    assert recording is not None, "record it: python -m tests.conformance.record_cases"
    with virtual(brokers()[case.broker], LEVELS[0]) as stage:
        finalize(stage.address, level)
        found = play(case, stage.address, level, life=stage.life)
    wrong = [*unlike(recording, found.transcript), *found.unshown]
    again = f"If the case has changed: python -m tests.conformance.record_cases --case {case.id}"
    assert not wrong, "\n".join([f"{len(wrong)} differences (Kafka != ours):", *wrong, again])
