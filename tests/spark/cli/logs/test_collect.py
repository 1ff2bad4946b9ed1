"""``txnsim logs collect``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.full_disk import little_room
from tests.support.logs import NOW, LogDriver
from txnsim.cli.main import main
from txnsim_spark.forensics.collection import Manifest

AS_OF = ["--as-of", str(NOW + 3_600_000)]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    driver = LogDriver()
    driver.txn(0)
    made = BrokerDir(tmp_path / "broker-1")
    made.replica(driver)
    made.coordinator(move("Empty"))
    return made.kill()


def test_an_archive_takes_the_place_of_the_directory(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "one.zip"
    assert main(["logs", "collect", str(log_dir), "--to", str(target)]) == 0
    first, cost = capsys.readouterr().out.splitlines()
    assert first == (
        f"{target}: {target.stat().st_size} bytes; 1 replicas, 1 open transactions, 1 coordinators'"
        " logs"
    )
    assert cost.startswith("cost: ")
    printed = []
    for path in (log_dir, target):
        assert main(["logs", "find-hanging", str(path), *AS_OF]) == 3
        printed.append(capsys.readouterr())
    assert printed[0] == printed[1]


def test_a_full_disk_leaves_no_archive(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "one.zip"
    with little_room(file_bytes_max=100):
        assert main(["logs", "collect", str(log_dir), "--to", str(target)]) == 2
    assert f"txnsim: {target}: File too large; nothing of it is there" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [log_dir]


def test_json_has_the_documented_fields(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "collect", str(log_dir), "--to", str(tmp_path / "a.zip"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert tuple(found["manifest"]) == Manifest.__struct_fields__
    documented = Path("docs/forensics.md").read_text()
    assert all(f"`{name}`" in documented for name in (*found, *found["manifest"]))


def test_a_misuse_has_its_status(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    assert main(["logs", "collect", str(log_dir), "--to", str(taken)]) == 2
    assert main(["logs", "find-hanging", str(taken)]) == 2
    assert main(["logs", "find-hanging", str(taken), str(log_dir)]) == 2
    assert "or directories, not both" in capsys.readouterr().err
