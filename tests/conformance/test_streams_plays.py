"""Streams groups answer raw requests as a real 4.4.0 did: 357 answers, recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conformance.streams_plays import SETTINGS, TRANSCRIPT, Plays
from tests.support.txnsim_server import TxnsimServer

ANSWERS_MIN = 350


def test_a_real_broker_s_answers(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
    with TxnsimServer(brokers=1, arguments=("--config", str(settings))) as server:
        rows = Plays(server.bootstrap, pause_s=0.05).run()
    given = [_as_read(row) for row in rows]
    recorded = [json.loads(line) for line in TRANSCRIPT.read_text().splitlines()]
    assert len(recorded) >= ANSWERS_MIN
    assert len(given) == len(recorded)
    for ours, theirs in zip(given, recorded, strict=True):
        assert ours == theirs


def _as_read(row: list[Any]) -> Any:
    return json.loads(json.dumps(row, sort_keys=True, default=str))
