"""Streams groups answer raw requests as a real 4.4.0 did, in literal plays and in drawn ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import drawn, streams_drawn, streams_literal
from tests.conformance.streams_literal import PLAYS
from tests.conformance.streams_plays import SETTINGS, Plays
from tests.support.txnsim_server import TxnsimServer

ANSWERS_MIN = 450
CASES_MIN = 80
SEEDS = drawn.recorded(streams_drawn.TRANSCRIPT)


@pytest.fixture
def address(tmp_path: Path) -> Any:
    settings = tmp_path / "server.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
    with TxnsimServer(brokers=1, arguments=("--config", str(settings))) as server:
        yield server.bootstrap


def test_a_real_broker_s_answers(address: str) -> None:
    rows = streams_literal.answers(Plays(address, pause_s=0.05))
    lines = streams_literal.TRANSCRIPT.read_text().splitlines()
    recorded = [json.loads(line) for line in lines]
    assert len(recorded) >= ANSWERS_MIN
    assert len(rows) == len(recorded)
    for ours, theirs in zip(rows, recorded, strict=True):
        assert json.loads(json.dumps(ours, sort_keys=True, default=str)) == theirs


def test_drawn_plays_have_a_real_broker_s_answers(address: str) -> None:
    assert len(SEEDS) + len(PLAYS) >= CASES_MIN
    plays = Plays(address, pause_s=0.02)
    with plays.connected():
        for seed, rows in drawn.answers(plays, sorted(SEEDS), streams_drawn.play):
            assert drawn.unlike(SEEDS[seed], rows) is None, seed
