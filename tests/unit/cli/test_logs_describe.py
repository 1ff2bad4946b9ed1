"""``txnsim logs describe``."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from sim.cli.main import main
from tests.support.log_dirs import write_partition
from tests.support.logs import LogDriver


def test_log_directories_are_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("orders-0", "orders-1", "other-0"):
        write_partition(tmp_path / name, LogDriver().log, topic_id=uuid.UUID(int=1))
    torn = tmp_path / "orders-1" / "00000000000000000000.log"
    torn.write_bytes(b"\0" * 20)
    describe = ["logs", "describe", str(tmp_path)]
    assert main([*describe, "--topic", "orders"]) == 0
    header, first, second, damage = capsys.readouterr().out.splitlines()
    assert header.split() == [
        *("Replica", "Segments", "Batches", "Bytes", "Offsets", "OpenTransactions")
    ]
    assert first.split() == [str(torn.parent.with_name("orders-0")), "1", "0", "0", "0-0"]
    assert second.split()[0] == str(torn.parent)
    assert damage == (
        f"{torn}, byte 0: 20 bytes, less than a header; a broker would cut off 20 bytes"
    )
    assert main([*describe, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["topic"] for one in found} == {"orders", "other"}
    assert main(["logs", "describe", str(tmp_path / "nowhere")]) == 2
    assert "nowhere: No such file" in capsys.readouterr().err
