"""Traces by DuckDB; that Spark says the same is judged in tests/spark/pipeline/test_trace.py."""

from __future__ import annotations

import bz2
import gzip
import io
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest

from tests.spark.pipeline.made_trace import STREAM, brief_lives, odd_lives
from txnsim.cli.main import main
from txnsim.errors import BadInputError
from txnsim_spark.embedded import EmbeddedDatabase
from txnsim_spark.traces import _small_traces, _trace_lines
from txnsim_spark.traces._small_traces import small_files
from txnsim_spark.traces._trace_lines import measure_trace
from txnsim_spark.traces.analyses import ANALYSES, LATE_AFTER_MS
from txnsim_spark.traces.tables import TraceError, embedded_queries

pytest.importorskip("duckdb", reason="the extra spark is not installed")


@pytest.fixture
def odd_traces(tmp_path: Path) -> Path:
    (tmp_path / "odd.jsonl").write_text(odd_lives())
    with gzip.open(tmp_path / "brief.jsonl.gz", "wt") as packed_file:
        packed_file.write(brief_lives())
    (tmp_path / "stream.sse").write_text(STREAM)
    (tmp_path / ".hidden").write_text("nothing of a trace")
    return tmp_path


def test_files_folders_and_patterns_are_found(
    odd_traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_files = small_files([str(odd_traces)])
    assert all_files is not None
    assert [path.name for path in all_files] == ["brief.jsonl.gz", "odd.jsonl", "stream.sse"]
    assert small_files([f"{odd_traces}/*.jsonl"]) == (odd_traces / "odd.jsonl",)
    assert small_files([f"file://{odd_traces}/odd.jsonl"]) == (odd_traces / "odd.jsonl",)
    monkeypatch.chdir(odd_traces)
    assert small_files(["*.sse"]) == (Path("stream.sse"),)
    assert small_files(["s3a://bucket/x.jsonl"]) is None
    monkeypatch.setattr(_small_traces, "SMALL_TRACES_BYTES_MAX", 10)
    assert small_files([str(odd_traces)]) is None


def test_a_packed_trace_counts_as_what_comes_out_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb_file = tmp_path / "bomb.jsonl.gz"
    bomb_file.write_bytes(gzip.compress(bytes(50 << 20)))
    unpacked: list[bytes] = []
    read = gzip.GzipFile.read

    def read_and_note(file: gzip.GzipFile, size: int | None = -1) -> bytes:
        unpacked.append(read(file, size))
        return unpacked[-1]

    monkeypatch.setattr(gzip.GzipFile, "read", read_and_note)
    monkeypatch.setattr(_small_traces, "SMALL_TRACES_BYTES_MAX", 5 << 20)
    assert bomb_file.stat().st_size < 100_000
    assert small_files([str(bomb_file)]) is None
    assert sum(map(len, unpacked)) < 10 << 20, "and it is unpacked no further"


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("lines_before", [0, 1, 70_000])
def test_a_line_that_is_too_long_is_refused_wherever_it_is(
    is_packed: bool,
    lines_before: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(_trace_lines, "LINE_BYTES_MAX", 3 << 20)
    pack = gzip.compress if is_packed else bytes
    file = tmp_path / ("x.jsonl.gz" if is_packed else "x.jsonl")
    line = brief_lives().encode().partition(b"\n")[0] + b"\n"
    text_before = line * lines_before
    file.write_bytes(pack(text_before + bytes((3 << 20) + 1) + b"\n" + line))
    assert main(["trace", "analyse", str(file)]) == 2
    complaint = capsys.readouterr().err
    assert f"{file}: line {lines_before + 1}, which begins at byte {len(text_before)}," in complaint
    file.write_bytes(pack(text_before + 5 * (bytes(3 << 20) + b"\n")))
    assert small_files([str(file)]) == (file,)


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".bz2", bz2.compress), (".zst", cramjam.zstd.compress)]
)
def test_lines_of_files_that_spark_has_to_unpack_are_measured_all_the_same(
    suffix: str,
    pack: Callable[[bytes], bytes | cramjam.Buffer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hadoop's reader skips a line that is too long without a word."""
    monkeypatch.setattr(_trace_lines, "LINE_BYTES_MAX", 3 << 20)
    file = tmp_path / f"x.jsonl{suffix}"
    pieces = [bytes(pack(b"x\n" * 10)), bytes(pack(bytes(3 << 20) + b"\n"))]
    file.write_bytes(b"".join(pieces))
    assert small_files([str(file)]) is None
    assert measure_trace(file) == 21 + (3 << 20)
    file.write_bytes(b"".join(pieces) + bytes(pack(bytes((3 << 20) + 1) + b"\n")))
    with pytest.raises(BadInputError, match="line 12, which begins at byte 3145749,"):
        measure_trace(file)
    file.write_bytes(pieces[1][:-3])
    with pytest.raises(BadInputError, match="it can't be unpacked"):
        measure_trace(file)


def test_a_file_is_measured_up_to_where_it_ended_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may append faster than the reader reads."""
    file = tmp_path / "x.jsonl"
    file.write_bytes(b"x\n" * 1_000)
    monkeypatch.setattr(_trace_lines, "_PIECE_BYTES", 100)
    assert measure_trace(file, bytes_max=500) == 501
    monkeypatch.setattr(Path, "open", lambda *_: io.BytesIO(b"x\n" * 100_000))
    assert measure_trace(file) == 2_000


@pytest.mark.parametrize("damage", ["cut off", "noise", "changed"])
def test_what_can_t_be_unpacked_is_no_trace(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed_lines = gzip.compress(brief_lives().encode())
    middle_index = len(packed_lines) // 2
    damaged_bytes = {
        "cut off": packed_lines[:-12],
        "noise": bytes(range(1, 200)),
        "changed": packed_lines[:middle_index] + bytes(20) + packed_lines[middle_index + 20 :],
    }[damage]
    file = tmp_path / "damaged.jsonl.gz"
    file.write_bytes(damaged_bytes)
    assert main(["trace", "analyse", str(file)]) == 2
    complaint = capsys.readouterr().err
    assert f"{file}: it can't be unpacked: " in complaint
    assert "Traceback" not in complaint


@pytest.mark.parametrize("damage", ["cut off", "noise", "another program's"])
def test_a_damaged_export_is_told(
    damage: str, odd_traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export_file = tmp_path / "export"
    assert (
        main(["trace", "export", str(odd_traces / "brief.jsonl.gz"), "--to", str(export_file)]) == 0
    )
    file = next(export_file.glob("runs/**/*.parquet"))
    content = file.read_bytes()
    if damage == "another program's":
        database = EmbeddedDatabase()
        database.write_parquet("SELECT 1 AS x", file)
    else:
        file.write_bytes(content[:-100] if damage == "cut off" else bytes(range(256)) * 8)
    capsys.readouterr()
    for arguments in (
        ("analyse", str(export_file)),
        ("export", str(odd_traces / "odd.jsonl"), "--to", str(export_file)),
    ):
        assert main(["trace", *arguments]) == 2
        complaint = capsys.readouterr().err
        assert f"{export_file}: no export that can be read: " in complaint
        assert "Traceback" not in complaint


def test_traces_become_tables(odd_traces: Path) -> None:
    ask = embedded_queries([str(odd_traces)], are_exported=False)
    assert ask is not None
    kinds = ask("SELECT run, outcome, count(*) AS many FROM trace_transactions GROUP BY ALL")
    assert sorted((kind["run"], kind["outcome"]) for kind in kinds) == [
        ("brief", "committed"), ("odd", "aborted"), ("odd", "committed"), ("odd", "undecided"),
    ]  # fmt: skip
    (unreadable_row,) = ask("SELECT reason, text FROM trace_unreadable")
    assert unreadable_row == {
        "reason": "17 events were lost by a slow listener",
        "text": '{"lost":17,"next":60}',
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"i":9,"k":"note","d":{"te', "no line of a trace, or one that was cut off while it was"),
        ('{"i":true,"k":"note"}', "a value of an unexpected type"),
        ("{}", "no line of a trace, or one that was cut off while it was"),
    ],
)
def test_a_line_that_is_none_is_told(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "x.jsonl").write_text(odd_lives() + line + "\n")
    ask = embedded_queries([str(tmp_path)], are_exported=False)
    assert ask is not None
    (row,) = ask("SELECT reason, text FROM trace_unreadable")
    assert row["reason"].startswith(reason)
    assert row["text"] == line


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of a trace\n")
    with pytest.raises(TraceError, match=r"notes\.txt: no trace"):
        embedded_queries([str(tmp_path)], are_exported=False)


def test_ids_that_stand_out_come_behind_their_groups(odd_traces: Path) -> None:
    ask = embedded_queries([str(odd_traces)], are_exported=False)
    assert ask is not None
    rows = ask(ANALYSES["time_to_decide"].worst(1), late_after_ms=LATE_AFTER_MS)
    assert [row["grouped_by"] for row in rows] == ["all", "transaction_version", "transactional_id"]
    assert rows[-1]["transactional_id"] == "a"
    late_rows = ask(ANALYSES["late_transactions"].sql, late_after_ms=0)
    assert late_rows[0]["late"] == 1


@pytest.mark.usefixtures("without_java", "without_session")
def test_the_command_starts_no_java(odd_traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "analyse", str(odd_traces), "--only", "epoch_bumps"]) == 1
    output = capsys.readouterr()
    assert output.out.startswith("Epoch bumps\n")
    assert "17 events were lost" in output.err


def test_a_path_that_is_not_there_is_refused_without_java(tmp_path: Path) -> None:
    missing_path = tmp_path / "none.jsonl"
    with pytest.raises(BadInputError, match=f"{missing_path}: no such file or directory"):
        small_files([str(missing_path)])
