"""Share groups answer drawn raw requests as a real 4.4.0 did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import drawn, share_drawn
from tests.conformance.streams_plays import Plays
from tests.support.txnsim_server import TxnsimServer

SEEDS_MIN = 45
RECORDED = drawn.recorded_rows(share_drawn.TRANSCRIPT)


@pytest.fixture
def address(tmp_path: Path) -> Any:
    settings = tmp_path / "server.properties"
    lines = [
        f"{setting_name}={setting_value}\n"
        for setting_name, setting_value in share_drawn.SETTINGS.items()
    ]
    settings.write_text("".join(lines), "utf-8")
    with TxnsimServer(brokers=1, arguments=("--config", str(settings))) as server:
        yield server.bootstrap


def assert_answers_of_a_real_broker(address: str, seeds: Sequence[int]) -> None:
    plays = Plays(address, pause_s=0.02)
    with plays.connected():
        for seed, rows in drawn.answers(plays, seeds, share_drawn.play):
            assert drawn.unlike(RECORDED[seed], rows) is None, seed


@pytest.mark.costly
def test_some_drawn_plays_have_a_real_broker_s_answers(address: str) -> None:
    assert_answers_of_a_real_broker(address, sorted(RECORDED)[::4])


@pytest.mark.nightly
def test_all_drawn_plays_have_a_real_broker_s_answers(address: str) -> None:
    assert len(RECORDED) >= SEEDS_MIN
    assert_answers_of_a_real_broker(address, sorted(RECORDED))
