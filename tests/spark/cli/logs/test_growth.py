"""``txnsim logs growth``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, move
from txnsim.cli.main import main
from txnsim_spark.questions.growth import Growth, IdSize, PartitionSize


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    made = BrokerDir(tmp_path / "broker-1")
    made.coordinator(*[move("Empty", name="busy")] * 4)
    return made.stop()


def test_sums_reasons_partitions_and_ids(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "growth", str(log_dir)]) == 0
    total, reason, _, partition, _, one = capsys.readouterr().out.splitlines()
    size = total.split()[1]
    assert (
        total == f"__transaction_state: {size} bytes, 4 records of 1 ids, 75 % dead, 0 tombstones"
    )
    assert reason.startswith(f"  100 % of {size} bytes is in newest segments")
    assert partition.split() == ["0", "1", size, "4", "1", "75", "0", "-", "4", "0", size]
    assert one.split() == ["busy", "0", size, "4", "75", "0"]


def test_json_has_the_documented_fields(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "growth", str(log_dir), "--json", "--top", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert tuple(found) == Growth.__struct_fields__
    assert tuple(found["partitions"][0]) == PartitionSize.__struct_fields__
    assert tuple(found["largest"][0]) == IdSize.__struct_fields__
    documented = Path("docs/logs-reference.md").read_text()
    names = (*found, *found["partitions"][0], *found["largest"][0])
    assert all(f"`{name}`" in documented for name in names)


def test_damage_and_misuse_have_their_status(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (log_dir / "cleaner-offset-checkpoint").write_text("nonsense\n")
    assert main(["logs", "growth", str(log_dir)]) == 4
    assert "cleaner-offset-checkpoint: 1 lines, without version" in capsys.readouterr().err
    assert main(["logs", "growth", str(tmp_path / "nothing")]) == 2
