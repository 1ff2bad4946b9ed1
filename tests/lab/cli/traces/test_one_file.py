from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from tests.support.traces import told, told_run
from txnsim.cli.main import main
from txnsim.errors import ConfigError
from txnsim_lab.cli._traces import one_file


def test_a_file_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="where"):
        one_file.write(tmp_path / "no" / "where", [("z01", told_run())], redact=False)


@pytest.mark.parametrize("found", [True, False])
def test_open_tells_the_address_also_where_no_browser_is(
    found: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened: list[str] = []
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or found)
    trace = tmp_path / "z01.jsonl"
    trace.write_bytes(told())
    capsys.readouterr()  # the run is played in this process, and its brokers log
    assert main(["trace", "open", str(trace)]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == opened[0]
    assert ("no browser" in said.err) == (not found)
    page = Path(opened[0].removeprefix("file://"))
    assert "late-produce-after-abort V- armed" in page.read_text("utf-8")


@pytest.mark.slow
def test_a_scenario_writes_its_runs_as_one_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "z01.html"
    arguments = ["--mode", "V-", "--armed", "--quiet", "--html", str(path), "--redact"]
    assert main(["scenario", "run", "z01", *arguments]) == 0
    assert "Record values are left out" in path.read_text("utf-8")


def test_redact_is_for_pages_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "z01.jsonl"
    trace.write_bytes(told())
    assert main(["trace", "convert", str(trace), "--as", "otlp", "--redact"]) == 2
    assert "--redact is for --as html" in capsys.readouterr().err
