from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.traces import told
from txnsim.cli.main import main
from txnsim_lab.cli._traces.text import FORMS


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "z01.jsonl"
    path.write_bytes(told())
    return str(path)


def test_brief_prints_one_line_per_event(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "brief", trace]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(told().splitlines()) - 2
    assert lines[0].startswith("#0 ")


def test_brief_as_json_names_nodes(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "brief", trace, "--json"]) == 0
    assert '"node": "broker/1"' in capsys.readouterr().out


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_printed_and_written(
    form: str, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "convert", trace, "--as", form]) == 0
    printed = capsys.readouterr()
    assert ("regular expression" in printed.err) == (form == "shiviz")
    to = tmp_path / "out"
    assert main(["trace", "convert", trace, "--as", form, "--to", str(to)]) == 0
    assert to.read_text("utf-8").strip() == printed.out.strip()


def test_what_is_no_trace_or_can_not_be_written_is_a_misuse(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.write_text("nonsense\n")
    assert main(["trace", "brief", str(other)]) == 2
    assert f"{other}, line 1" in capsys.readouterr().err
    nowhere = str(tmp_path / "no" / "where")
    assert main(["trace", "convert", trace, "--as", "otlp", "--to", nowhere]) == 2
    assert json.loads(told().splitlines()[0])["k"] == "run"
