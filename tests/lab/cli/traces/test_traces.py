"""``txnsim trace``, ``diff`` and ``explain``."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest

from tests.support.traces import hung_at, recording_of_run, trace_of_run
from txnsim.cli.main import main
from txnsim.errors import ConfigError
from txnsim_lab.cli._traces import html_file
from txnsim_lab.cli._traces.text_formats import FORMATS


def test_a_file_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="where"):
        html_file.write(tmp_path / "no" / "where", [("z01", recording_of_run())], redacts=False)


@pytest.mark.parametrize("is_opened", [True, False])
def test_open_tells_the_address_also_where_no_browser_is(
    is_opened: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    opened_urls: list[str] = []
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened_urls.append(url)) or is_opened)
    trace_file = tmp_path / "z01.jsonl"
    trace_file.write_bytes(trace_of_run())
    capsys.readouterr()  # the run is played in this process, and its brokers log
    assert main(["trace", "open", str(trace_file)]) == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == opened_urls[0]
    assert ("no browser" in captured.err) == (not is_opened)
    page_file = Path(opened_urls[0].removeprefix("file://"))
    assert "late-produce-after-abort V- armed" in page_file.read_text("utf-8")


@pytest.mark.slow
def test_a_scenario_writes_its_runs_as_one_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "z01.html"
    arguments = ["--mode", "V-", "--armed", "--quiet", "--html", str(path), "--redact"]
    assert main(["scenario", "run", "z01", *arguments]) == 0
    assert "Record values are left out" in path.read_text("utf-8")


def test_redact_is_for_pages_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace_file = tmp_path / "z01.jsonl"
    trace_file.write_bytes(trace_of_run())
    assert main(["trace", "convert", str(trace_file), "--as", "otlp", "--redact"]) == 2
    assert "--redact is for --as html" in capsys.readouterr().err


# ``diff``


# ``explain``


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "z01.jsonl"
    path.write_bytes(trace_of_run())
    return str(path)


def test_brief_prints_one_line_per_event(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "brief", trace]) == 0
    printed_lines = capsys.readouterr().out.splitlines()
    assert len(printed_lines) == len(trace_of_run().splitlines()) - 2
    assert printed_lines[0].startswith("#0 ")


def test_brief_as_json_names_nodes(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "brief", trace, "--json"]) == 0
    printed_lines = [
        json.loads(printed_line) for printed_line in capsys.readouterr().out.splitlines()
    ]
    assert "broker/1" in {line["node"] for line in printed_lines}


@pytest.mark.parametrize("form_name", FORMATS)
def test_every_form_is_printed_and_written(
    form_name: str, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "convert", trace, "--as", form_name]) == 0
    output = capsys.readouterr()
    assert ("regular expression" in output.err) == (form_name == "shiviz")
    target_path = tmp_path / "out"
    assert main(["trace", "convert", trace, "--as", form_name, "--to", str(target_path)]) == 0
    assert target_path.read_text("utf-8").strip() == output.out.strip()


def test_what_is_no_trace_or_can_not_be_written_is_a_misuse(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other_file = tmp_path / "other"
    other_file.write_text("nonsense\n")
    assert main(["trace", "brief", str(other_file)]) == 2
    assert f"{other_file}, line 1" in capsys.readouterr().err
    missing_path = str(tmp_path / "no" / "where")
    assert main(["trace", "convert", trace, "--as", "otlp", "--to", missing_path]) == 2
    assert json.loads(trace_of_run().splitlines()[0])["k"] == "run"


@pytest.fixture
def traces(tmp_path: Path) -> tuple[str, str]:
    paths = tmp_path / "armed.jsonl", tmp_path / "disarmed.jsonl"
    for path, take_name in zip(paths, ("armed", "disarmed"), strict=True):
        path.write_bytes(trace_of_run(take_name=take_name))
    return str(paths[0]), str(paths[1])


def test_two_runs_part_in_one_sentence_and_both_sides_are_shown(
    traces: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *traces]) == 1
    output = capsys.readouterr().out
    assert output.startswith("They part at client late-producer: A tells ")
    assert "  take: A armed, B disarmed" in output
    assert output.count("  -> #") == 2


def test_a_run_and_itself_do_the_same(
    traces: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", traces[0], traces[0]]) == 0
    assert capsys.readouterr().out == "They do the same.\n"
    assert main(["diff", traces[0], traces[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) is None


def test_two_traces_without_an_event_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace_file = tmp_path / "empty.jsonl"
    trace_file.write_bytes(
        trace_of_run().splitlines(keepends=True)[0] + b'{"k":"end","events":0}\n'
    )
    assert main(["diff", str(trace_file), str(trace_file)]) == 4
    captured = capsys.readouterr()
    assert (captured.out, "have no event: nothing was compared" in captured.err) == ("", True)
    assert main(["diff", str(trace_file), str(trace_file), "--json"]) == 4
    assert "nothing was compared" in json.loads(capsys.readouterr().out)["error"]


def test_a_side_that_ends_is_shown_as_such(
    traces: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short_trace_file = tmp_path / "short.jsonl"
    short_trace_file.write_bytes(b"".join(trace_of_run().splitlines(keepends=True)[:1]))
    assert main(["diff", traces[0], str(short_trace_file)]) == 1
    assert "-> nothing more" in capsys.readouterr().out


def test_what_is_no_trace_is_a_misuse(tmp_path: Path) -> None:
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 2


def test_why_the_last_stable_offset_is_here(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    hung_at_index = str(hung_at(recording_of_run()))
    assert main(["explain", "lso", "payments-0", trace, "--at", hung_at_index]) == 0
    output = capsys.readouterr().out
    assert "It hangs. It was not committed: end it with ABORT" in output
    assert "To end it: txnsim txns repair" in output
    assert "It follows from:\n  #" in output
    assert main(["explain", "lso", "payments-0", trace, "--at", hung_at_index, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cause"] == "hanging transaction"


def test_what_has_become_of_a_transaction(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "txn", "app", trace]) == 0
    output = capsys.readouterr().out
    assert output.startswith("app is ")
    assert "The last move and what caused it:\n  #" in output
    assert main(["explain", "txn", "app", trace, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["transactional_id"] == "app"


def test_what_is_not_in_the_trace_is_a_misuse(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "lso", "nowhere-0", trace]) == 2
    assert "tells nothing of nowhere-0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("event_fields", "problem_text"),
    [
        ('"k":"marker.sent","d":{}', "event 0: no payload of marker.sent: 'tp' is missing; "),
        ('"k":"reader.wait","d":{"client":"a"}', "event 0: no payload of reader.wait: "),
        ('"k":"topic.deleted","d":{"topic":"a","partitions":"3"}', "event 0: no payload of topic"),
        ('"k":"log.append","d":[1]', "event 0: no payload of log.append: 'tp' is missing; "),
        # A state without the rest is applied, and is found where it is read.
        ('"k":"txn.complete","tx":"x/1:0","d":{"state":"Ongoing"}', "events up to 0: "),
    ],
)
def test_a_payload_that_lacks_a_field_is_a_misuse(
    event_fields: str, problem_text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace_file = tmp_path / "odd.jsonl"
    trace_file.write_text(
        '{"k":"run","schema":2,"brokers":1,"level":"full","nodes":["broker/1/txn/0"]}\n'
        f'{{"i":0,"t":0,"n":0,"l":0,"p":[],{event_fields}}}\n'
        '{"k":"end","events":1,"hash":"x"}\n'
    )
    page_file = tmp_path / "page.html"
    for arguments in (
        ["explain", "lso", "orders-0", str(trace_file)],
        ["explain", "txn", "x", str(trace_file)],
        ["trace", "convert", str(trace_file), "--as", "html", "--to", str(page_file)],
    ):
        assert main(arguments) == 2
        assert f"{trace_file}, {problem_text}" in capsys.readouterr().err
    assert not page_file.exists()
