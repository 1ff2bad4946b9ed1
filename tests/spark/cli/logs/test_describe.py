"""``txnsim logs describe``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.logs import LogDriver
from tests.support.soundness import write_log_dir
from txnsim.cli.main import main
from txnsim.storage import names


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Three replicas; a transaction of producer 7 is open on the first one."""
    open_driver = LogDriver()
    open_driver.txn(0)
    open_driver.end(committed=True)
    open_driver.txn(1)
    driver_by_name = {"orders-0": open_driver, "orders-1": LogDriver(), "other-0": LogDriver()}
    write_log_dir(tmp_path / "disk", 4, driver_by_name)
    return tmp_path / "disk"


def test_log_directories_are_described(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "describe", str(log_dir), "--topic", "orders"]) == 0
    directory, header, first_line, second_line = capsys.readouterr().out.splitlines()
    assert directory == (
        f"{log_dir}: broker 4, stopped in order; 2 replicas, 1 held back by open transactions"
    )
    assert header.split() == [
        *("Replica", "Segments", "Batches", "Bytes", "Offsets"),
        *("HighWatermark", "LastStable", "OpenTransactions"),
    ]
    assert first_line.split() == [
        str(log_dir / "orders-0"),
        "1",
        "3",
        "218",
        "0-3",
        "3",
        "2",
        "7@2",
    ]
    assert second_line.split() == [str(log_dir / "orders-1"), "1", "0", "0", "0-0", "0", "0"]


def test_a_torn_end_is_told(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn_log_file = log_dir / "orders-1" / "00000000000000000000.log"
    torn_log_file.write_bytes(b"\0" * 20)
    (log_dir / names.FileName.CLEAN_SHUTDOWN).unlink()
    (log_dir / names.FileName.META_PROPERTIES).unlink()
    assert main(["logs", "describe", str(log_dir)]) == 0
    directory, *_, damage = capsys.readouterr().out.splitlines()
    assert directory.startswith(f"{log_dir}: of an unknown broker, not stopped in order; 3 ")
    assert damage == (
        f"{torn_log_file}, byte 0: 20 bytes, less than a header; a broker would cut off 20 bytes"
    )


def test_a_folder_of_several_is_read_as_json(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "describe", str(log_dir.parent), "--json"]) == 0
    description = json.loads(capsys.readouterr().out)
    assert [(replica["topic"], replica["partition"]) for replica in description] == [
        ("orders", 0),
        ("orders", 1),
        ("other", 0),
    ]
    assert description[0]["open_transactions"][0]["first_offset"] == 2


def test_a_misuse_has_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "describe", str(tmp_path / "nowhere")]) == 2
    assert "nowhere is no directory" in capsys.readouterr().err
