"""``txnsim logs verify``: what it prints, with Spark's part done in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.soundness import busy_log, write_log_dir
from txnsim.cli.main import main

SECOND = "00000000000000000025"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_log_dir(tmp_path, 4, {"orders-0": busy_log()})
    return tmp_path


def test_sound_directories_are_told_in_one_line(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "verify", str(log_dir)]) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("replicas: 1, segments: 5, bytes: ")
    assert output.err.endswith(": sound\n")


def test_each_finding_is_a_line(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / "orders-0" / f"{SECOND}.txnindex").write_bytes(b"no")
    assert main(["logs", "verify", str(log_dir)]) == 1
    output = capsys.readouterr()
    assert output.out == (
        f"error unreadable-file: broker 4, orders-0/{SECOND}.txnindex: {SECOND}.txnindex, byte 0: "
        "2 bytes too many; expected: whole entries that ascend\n"
    )
    assert output.err.endswith(": 1 error\n")


def test_a_notice_is_no_reason_to_fail_unless_asked(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = busy_log()
    driver.end(committed=True, pid=99)
    write_log_dir(log_dir, 4, {"orders-0": driver})
    assert main(["logs", "verify", str(log_dir)]) == 0
    assert capsys.readouterr().out.startswith("notice idle-marker: broker 4, ")
    assert main(["logs", "verify", str(log_dir), "--strict"]) == 1


def test_json_has_the_documented_fields(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / "orders-0" / f"{SECOND}.txnindex").write_bytes(b"no")
    assert main(["logs", "verify", str(log_dir), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["replicas", "segments", "bytes", "findings"]
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"]) == ("unreadable-file", "error")
    documented = Path("docs/logs-reference.md").read_text()
    assert all(f"`{name}`" in documented for name in (*report, *finding))


def test_a_misuse_has_its_status(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "verify", str(log_dir / "nowhere")]) == 2
    assert "is no directory" in capsys.readouterr().err
