"""Streams groups answer raw requests as a real 4.4.0 did, in literal plays and in drawn ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import drawn, streams_drawn, streams_literal
from tests.conformance.streams_literal import PLAYS
from tests.conformance.streams_plays import SETTINGS, Plays
from tests.support.txnsim_server import TxnsimServer

ANSWERS_MIN = 450
CASES_MIN = 80
SEEDS = drawn.recorded_rows(streams_drawn.TRANSCRIPT)


@contextmanager
def streams_broker(directory: Path, *arguments: str) -> Iterator[str]:
    """A broker with the settings of the plays; its address."""
    settings = directory / "server.properties"
    settings.write_text(
        "".join(
            f"{setting_name}={setting_value}\n" for setting_name, setting_value in SETTINGS.items()
        )
    )
    with TxnsimServer(brokers=1, arguments=("--config", str(settings), *arguments)) as server:
        yield server.bootstrap


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with streams_broker(tmp_path) as broker_address:
        yield broker_address


def assert_same(rows: list[list[Any]], transcript: Path) -> None:
    """Our answers are those that were recorded."""
    recorded_rows = [json.loads(line) for line in transcript.read_text().splitlines()]
    assert len(rows) == len(recorded_rows)
    for our_row, real_row in zip(rows, recorded_rows, strict=True):
        assert json.loads(json.dumps(our_row, sort_keys=True, default=str)) == real_row


def test_a_real_broker_s_answers(address: str) -> None:
    rows = streams_literal.answers(Plays(address, pause_s=0.05))
    assert len(rows) >= ANSWERS_MIN
    assert_same(rows, streams_literal.TRANSCRIPT)


def test_up_to_4_3_a_task_is_given_up_before_it_changes_its_role(tmp_path: Path) -> None:
    with streams_broker(tmp_path, "--as-version", "4.3") as address:
        plays = Plays(address, pause_s=0.05, newest=0)
        rows = streams_literal.answers(plays, streams_literal.PLAYED_BEFORE)
    assert_same(rows, streams_literal.BEFORE)


@pytest.mark.costly
def test_drawn_plays_have_a_real_broker_s_answers(address: str) -> None:
    assert len(SEEDS) + len(PLAYS) >= CASES_MIN
    plays = Plays(address, pause_s=0.02)
    with plays.connected():
        for seed, rows in drawn.answers(plays, sorted(SEEDS), streams_drawn.play):
            assert drawn.unlike(SEEDS[seed], rows) is None, seed
