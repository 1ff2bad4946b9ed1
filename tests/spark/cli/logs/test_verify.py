"""``txnsim logs verify``: what it prints, with Spark's part done in this process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.soundness import busy_log, write_log_dir
from txnsim.cli.main import main
from txnsim_spark.scan.log_dirs import LogDirectory

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
    driver.end(committed=True, producer_id=99)
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
    documented_text = Path("docs/logs-reference.md").read_text()
    assert all(f"`{name}`" in documented_text for name in (*report, *finding))


def test_a_misuse_has_its_status(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "verify", str(log_dir / "nowhere")]) == 2
    assert "is no directory" in capsys.readouterr().err


def test_a_directory_without_replicas_is_not_called_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=4\n")
    assert main(["logs", "verify", str(tmp_path)]) == 4
    assert capsys.readouterr().err == (
        "replicas: 0, segments: 0, bytes: 0: there is nothing to judge\n"
    )
    assert main(["logs", "describe", str(tmp_path)]) == 4
    assert "No replica is in these directories." in capsys.readouterr().err


@pytest.mark.parametrize("folder_name", ["orders-2147483648", "orders-1.copy", "pay: ments-0"])
def test_a_folder_of_segments_with_another_name_is_told(
    log_dir: Path, folder_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = log_dir / folder_name
    shutil.copytree(log_dir / "orders-0", folder)
    why_text = "it holds segments, and its name is none that Kafka gives, TOPIC-PARTITION"
    assert main(["logs", "verify", str(log_dir)]) == 4
    output = capsys.readouterr().out
    assert output.startswith(f"notice foreign-folder: {log_dir}, {folder_name}: {why_text}")
    for action in (["find-hanging"], ["decisions"], ["describe"], ["waiting"]):
        assert main(["logs", *action, str(log_dir)]) in (3, 4)
        output_and_errors = "".join(capsys.readouterr())
        assert f"{folder}: {why_text}" in output_and_errors, action
    assert main(["logs", "sql", "SELECT count(*) FROM kafka_batches", str(log_dir)]) == 4
    assert f"{folder}: {why_text}" in capsys.readouterr().err
    query = "SELECT file, kind FROM kafka_errors"
    assert main(["logs", "sql", query, str(log_dir), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"file": str(folder), "kind": "unreadable"}]


@pytest.mark.parametrize("leaves", ["nothing", "another suffix"])
def test_a_log_without_a_segment_is_not_called_sound(
    log_dir: Path, leaves: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (high_watermark,) = LogDirectory.read(log_dir).high_watermarks.values()
    for segment in (log_dir / "orders-0").glob("*.log"):
        if leaves == "nothing":
            segment.unlink()
        else:
            segment.rename(segment.with_suffix(".log.deleted"))
    assert main(["logs", "verify", str(log_dir)]) == 1
    output = capsys.readouterr().out
    assert "error checkpoint: broker 4, orders-0/orders-0" in output
    assert f"no segment; expected: a log that reaches offset {high_watermark}" in output


def test_a_replica_that_checkpoints_name_and_that_is_not_here_is_told(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(log_dir / "orders-0")
    why = "it names partitions with records whose folders are not here: orders-0"
    assert main(["logs", "verify", str(log_dir)]) == 4
    assert f"notice absent-replica: {log_dir}, " in (output := capsys.readouterr().out)
    assert why in output
    assert main(["logs", "find-hanging", str(log_dir)]) == 4
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("suffix", "meaning"),
    [
        ("delete", "a broker was deleting it"),
        ("future", "a broker was moving it here from another directory"),
        ("stray", "a broker found that it has no such replica any more"),
    ],
)
def test_a_folder_that_no_broker_serves_is_named_with_its_meaning(
    log_dir: Path, capsys: pytest.CaptureFixture[str], suffix: str, meaning: str
) -> None:
    folder = (log_dir / "orders-0").rename(log_dir / f"orders-0.{32 * 'a'}-{suffix}")
    why = (
        f"it names orders-0 with records, and no folder here serves it; of {folder.name} {meaning}"
    )
    assert main(["logs", "verify", str(log_dir)]) == 4
    assert why in capsys.readouterr().out
    assert main(["logs", "find-hanging", str(log_dir)]) == 4
    output = capsys.readouterr().err
    assert why in output
    assert f"{folder}: {meaning}; not judged, as no broker serves it" in output


def test_a_folder_beside_the_one_that_is_served_is_a_normal_thing(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = log_dir / f"orders-0.{32 * 'a'}-delete"
    shutil.copytree(log_dir / "orders-0", folder)
    status = main(["logs", "find-hanging", str(log_dir), "--all"])
    capsys.readouterr()
    shutil.rmtree(folder)
    assert main(["logs", "find-hanging", str(log_dir), "--all"]) == status
    assert "not judged" not in capsys.readouterr().err
    assert main(["logs", "verify", str(log_dir)]) == 0


def test_a_foreign_folder_of_coordinators_is_told_by_a_timeline(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = log_dir / "__transaction_state-0.copy"
    shutil.copytree(log_dir / "orders-0", folder)
    assert main(["logs", "timeline", "app", str(log_dir)]) == 4
    assert str(folder) in capsys.readouterr().err


@pytest.mark.parametrize("folder_name", ["orders-1.0123456789abcdef0123456789abcdef-stray", "logs"])
def test_other_folders_are_not_told(log_dir: Path, folder_name: str) -> None:
    folder = log_dir / folder_name
    folder.mkdir()
    (folder / "server.log").touch()
    if folder_name != "logs":
        (folder / "00000000000000000000.log").touch()
    assert main(["logs", "verify", str(log_dir), "--strict"]) == 0


@pytest.mark.parametrize("suffix", ["log", "snapshot"])
def test_a_file_named_for_no_offset_of_a_log_is_told(
    log_dir: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file_name = f"{'9' * 20}.{suffix}"
    (log_dir / "orders-0" / file_name).touch()
    why_text = f"{file_name} is named for an offset above 9223372036854775807: move the file away"
    for path in (log_dir, log_dir / "orders-0"):
        assert main(["logs", "verify", str(path)]) == 1
        output = capsys.readouterr().out
        assert f"error unreadable-file: broker 4, orders-0/{file_name}: {why_text}" in output
        assert main(["logs", "find-hanging", str(path)]) == 4
        assert why_text in capsys.readouterr().err
    assert main(["logs", "sql", "SELECT count(*) FROM kafka_batches", str(log_dir)]) == 4
    assert why_text in capsys.readouterr().err
