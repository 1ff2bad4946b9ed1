"""``txnsim logs report``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="the extra spark is not installed")

from tests.support.broker_dirs import BrokerDir, move
from tests.support.full_disk import little_room
from tests.support.logs import NOW, LogDriver
from tests.support.position_logs import HERE
from txnsim.cli.main import main
from txnsim_spark.report_page.page import Written

AS_OF = str(NOW + 3_600_000)


def words(tmp_path: Path, *then: str) -> list[str]:
    """A transaction on a partition; what its coordinator wrote after it had begun."""
    driver = LogDriver()
    driver.txn(0)
    made = BrokerDir(tmp_path / "broker-1")
    made.replica(driver)
    made.coordinator(move("Ongoing", HERE), *(move(state) for state in then))
    out = str(tmp_path / "report.html")
    return ["logs", "report", str(made.stop()), "--as-of", AS_OF, "--out", out]


def test_the_file_is_written_and_the_status_is_that_of_a_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(tmp_path, "CompleteAbort")) == 3
    shown = capsys.readouterr()
    file = tmp_path / "report.html"
    assert shown.out == (
        f"{file}: {file.stat().st_size} bytes; 1 partitions, 0 transactions that ended."
        " This file holds no keys and no values of records.\n"
    )
    assert "hanging: 1" in shown.err


def test_a_full_disk_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = words(tmp_path)
    with little_room():
        assert main(told) == 2
    assert "report.html: File too large; nothing of it is there" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["broker-1"]


def test_json_has_the_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert tuple(told) == Written.__struct_fields__
    assert [one["verdict"] for one in told["report"]["findings"]] == ["alive"]


def test_a_file_that_can_not_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = words(tmp_path)
    assert main([*told[:-1], str(tmp_path / "none" / "report.html")]) == 2
    assert "none/report.html: No such file or directory" in capsys.readouterr().err
