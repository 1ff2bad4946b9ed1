"""Streams groups answer raw requests as a real 4.4.0 did, in literal plays and in drawn ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance import drawn, streams_drawn, streams_literal
from tests.conformance.cluster_setups import ClusterSetup, virtual_on
from tests.conformance.streams_literal import PLAYS
from tests.conformance.streams_plays import SETTINGS, Plays
from txnsim.releases import REFERENCE

ANSWERS_MIN: Final = 450
CASES_MIN: Final = 80
SEEDS: Final = drawn.recorded_rows(streams_drawn.TRANSCRIPT)
SETUP: Final = ClusterSetup(name="streams groups", properties=SETTINGS)


@contextmanager
def plays_on_ours(release: str = REFERENCE.name, *, newest: int = 1) -> Iterator[Plays]:
    """Plays at our broker of a release, with its settings."""
    with virtual_on(SETUP, 2, release) as virtual_world:
        yield Plays(virtual_world.bootstrap, pause_s=drawn.REAL_PAUSE_S, newest=newest)


def assert_same(rows: Sequence[list[Any]], transcript_file: Path) -> None:
    """Our answers are those that were recorded."""
    recorded_rows = [json.loads(line) for line in transcript_file.read_text().splitlines()]
    assert len(rows) == len(recorded_rows)
    for our_row, real_row in zip(rows, recorded_rows, strict=True):
        assert json.loads(json.dumps(our_row, sort_keys=True, default=str)) == real_row


def test_a_real_broker_s_answers() -> None:
    with plays_on_ours() as plays:
        rows = streams_literal.answers(plays)
    assert len(rows) >= ANSWERS_MIN
    assert_same(rows, streams_literal.TRANSCRIPT)


def test_up_to_4_3_a_task_is_given_up_before_it_changes_its_role() -> None:
    with plays_on_ours("4.3", newest=0) as plays:
        rows = streams_literal.answers(plays, streams_literal.PLAYED_BEFORE)
    assert_same(rows, streams_literal.BEFORE)


@pytest.mark.parametrize("drawn_seed", sorted(SEEDS))
def test_a_drawn_play_has_a_real_broker_s_answers(drawn_seed: int) -> None:
    with plays_on_ours() as plays, plays.connected():
        ((_, rows),) = drawn.answers(plays, [drawn_seed], streams_drawn.play)
    assert drawn.unlike(SEEDS[drawn_seed], rows) is None


def test_many_plays_are_recorded() -> None:
    assert len(SEEDS) + len(PLAYS) >= CASES_MIN
