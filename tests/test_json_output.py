"""With ``--json`` standard output has one JSON document, or lines of JSON, and nothing else.

The table has every command with ``--json``, by the parsers: with input that it answers, and with
input that it can't judge, refuses, or fails on. What needs a cluster is asked of nobody here, and
answered in the test beside its name.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.support.alone import ROOT
from tests.support.small_results import exam_run
from txnsim.cli.commands import commands
from txnsim.cli.main import INTERRUPTED_STATUS, main, parser_of
from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import MISUSE_STATUS
from txnsim_lab.exam.results import SituationOutcome

NOBODY: Final = "127.0.0.1:1"
CONTROL: Final = ("--http", f"http://{NOBODY}")
BROKER: Final = ("--bootstrap-server", NOBODY)
LINES: Final = ("trace brief",)
"""Commands that print lines of JSON; `txns … --watch` is tested in tests/broker/cli/txns, `stream`
in tests/spark/streaming.
"""
ANSWERED: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "badge": (("{results}",),),
    "campaign run": (("--seeds", "1..2", "--out", "{out}", "--jobs", "1", "--no-shrink"),),
    "check": (("{history}",), ("{history}", "{history}")),
    "check-hypothesis": (("{words}",), ("{missing}",)),
    "conformance": (("--needs",),),
    "diff": (("{trace}", "{trace}"), ("{trace}", "{other trace}")),
    "exam list": ((), ("--core",)),
    "explain error": (("INVALID_TXN_STATE",), ("no such thing at all",)),
    "explain lso": (("payments-0", "{trace}"),),
    "explain txn": (("app", "{trace}"),),
    "lesson": ((),),
    "logs decisions": (("{log dir}",),),
    "logs describe": (("{log dir}",),),
    "logs dumped": (("{words}",),),
    "logs find-hanging": (("{log dir}",),),
    "logs sql": (("select 1 as a", "{log dir}"), ("select 1 as a where false", "{log dir}")),
    "logs timeline": (("nobody", "{log dir}"),),
    "logs verify": (("{log dir}",),),
    "logs waiting": (("{log dir}",),),
    "explore": ((), ("z27", "--deviations", "0", "--jobs", "1"), ("z27", "--way", "")),
    "referee": (
        ("4.3", "4.4", "--explore", "none", "--stories", "z34", "--seeds", "none"),
        ("4.3", "4.4", "--on", "B", "--seed", "1"),
        ("4.3", "4.4", "--on", "A", "--explore", "broker-dies", "--way", ""),
    ),
    "scenario check": (("z01",), ("z01", "{words}.yaml")),
    "scenario list": ((),),
    "scenario run": (("z01", "--mode", "TV2", "--armed"),),
    "scenario show": (("z01",),),
    "simulate": (
        ("--seed", "1", "--no-shrink", "--out", "{out}"),
        ("--seed", "1", "--against", "4.0", "--out", "{out}"),
    ),
    "trace analyse": (("{trace}",),),
    "trace brief": (("{trace}",),),
}
"""What a command answers in a document or lines, whatever its status."""
REFUSED: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "badge": (("{words}",), ("{missing}",)),
    "campaign run": (("--seeds", "none", "--out", "{out}"),),
    "check": (("{words}",), ("{history}", "{missing}")),
    "check-hypothesis": (("z01", "--seeds", "0"),),
    "conformance": ((), (NOBODY,), (NOBODY, "--only", "none")),
    "diff": (("{trace}", "{words}"),),
    "exam compare": (("{missing}", "{missing}"),),
    "exam list": (("--only", "none"),),
    "exam readers serve": (("--expected", "{missing}/file"),),
    "exam run": (("--driver", "{missing}"),),
    "explain lso": (("nothing-0", "{trace}"),),
    "explain txn": (("nobody", "{trace}"),),
    "explore": (("none",), ("z27", "--bounds", "none")),
    "faults arm": (("--file", "{missing}"),),
    "lesson": (("L1",), ("L1", "--sheet"), ("--handed-in", "{words}")),
    "logs decisions": (("{missing}",),),
    "logs describe": (("{missing}",),),
    "logs find-hanging": (("{missing}",),),
    "logs sql": (("no query", "{log dir}"),),
    "logs timeline": (("nobody", "{missing}"),),
    "logs verify": (("{missing}",),),
    "logs waiting": (("{missing}",),),
    "logs write": (("{out}", "--http", "ftp://x"), ("{out}", "--http", f"http://{NOBODY}")),
    "practise": (("upgrade",), ("--from", "4.3"), ("upgrade", "--from", "9.9")),
    "referee": (("none", "4.4"), ("4.3", "{missing}.py"), ("4.3", "4.4", "--on", "A")),
    "scenario check": ((),),
    "scenario matrix": (("--mode", "none"),),
    "scenario run": (("none",), ("z01", "--mode", "none")),
    "scenario show": (("none",),),
    "serve": (("--as-version", "none"),),
    "proxy": (("--upstream", "none"),),
    "simulate": (("--seeds", "none"),),
    "site build": (("{out}", "--from", "{missing}"),),
    "stream": (("--topic", "t"),),
    "trace analyse": (("{words}",), ("{trace}", "--only", "none")),
    "trace brief": (("{words}",),),
    "trace export": (("{trace}",),),
}
"""What a command refuses with status 2 before it has begun: standard output is empty."""
FAILS: Final[dict[str, tuple[str, ...]]] = {
    "brokers heal": ("1", *CONTROL),
    "brokers isolate": ("1", *CONTROL),
    "brokers kill": ("1", *CONTROL),
    "brokers list": CONTROL,
    "brokers start": ("1", *CONTROL),
    "brokers stop": ("1", *CONTROL),
    "clock advance": ("1s", *CONTROL),
    "clock set": ("--ahead", "1s", *CONTROL),
    "clock show": CONTROL,
    "faults arm": ("rule", "--point", "client.request", "--do", "drop", *CONTROL),
    "faults disarm": ("--all", *CONTROL),
    "faults list": CONTROL,
    "faults release": ("rule", *CONTROL),
    "faults verify": CONTROL,
    "faults wait": ("rule", *CONTROL),
    "groups delete": ("shop", *BROKER),
    "groups describe": ("shop", *BROKER),
    "groups list": BROKER,
    "groups offsets delete": ("shop", "--topic", "t", *BROKER),
    "groups offsets reset": ("shop", "--topic", "t", "--to-latest", *BROKER),
    "topics create": ("t", *CONTROL),
    "topics delete": ("t", *CONTROL),
    "topics describe": ("t", *CONTROL),
    "topics list": CONTROL,
    "topics move-leader": ("t-0", "1", *CONTROL),
    "txns abort": ("--topic", "t", "--partition", "0", "--start-offset", "0", *BROKER),
    "txns commit": (
        *("--transactional-id", "x", "--producer-id", "0", "--producer-epoch", "0"),
        *BROKER,
    ),
    "txns decisions": BROKER,
    "txns describe": ("--transactional-id", "x", *BROKER),
    "txns describe-producers": ("--topic", "t", "--partition", "0", *BROKER),
    "txns find-hanging": ("--all", *BROKER),
    "txns forceTerminateTransaction": ("--transactionalId", "x", *BROKER),
    "txns list": BROKER,
    "txns repair": BROKER,
    "txns why": ("t", "0", *BROKER),
}
"""What fails after it has begun: it prints ``{"error": …}``. With a cluster these are tested in
tests/broker/cli/control, tests/broker/cli/test_groups.py and tests/broker/cli/txns.
"""


def json_commands() -> set[str]:
    """Every command with ``--json`` that has no commands of its own, by the parsers."""
    return {
        " ".join(path)
        for command in commands()
        for path, parser in leaves(parser_of(command), ())
        if "--json" in parser._option_string_actions
    }


def leaves(
    parser: argparse.ArgumentParser, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in inner:
        for name, branch in action.choices.items():
            yield from leaves(branch, (*path, name))
    if not inner:
        yield path, parser


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Small real input by name."""
    folder = tmp_path_factory.mktemp("inputs")
    traces_folder = folder / "told"
    arguments = (
        "z01",
        "--mode",
        "TV2",
        "--trace",
        str(traces_folder),
        "--history",
        str(traces_folder),
        "--quiet",
    )
    assert main(["scenario", "run", *arguments]) == 0
    (folder / "words").write_text("no JSON\n")
    (folder / "results").write_bytes(msgspec.json.encode(exam_run(SituationOutcome.PASSED)))
    (folder / "logs" / "orders-0").mkdir(parents=True)
    (folder / "logs" / "orders-0" / f"{0:020}.log").write_bytes(b"")
    (history_file,) = traces_folder.glob("*.armed.history.jsonl")
    (trace_file,) = (path for path in traces_folder.glob("*.armed.jsonl") if path != history_file)
    (control_history_file,) = (
        path for path in traces_folder.glob("*.disarmed.jsonl") if "history" not in path.name
    )
    return {
        "history": str(history_file),
        "trace": str(trace_file),
        "other trace": str(control_history_file),
        "words": str(folder / "words"),
        "results": str(folder / "results"),
        "missing": str(folder / "missing"),
        "log dir": str(folder / "logs"),
    }


def cases(table: dict[str, tuple[tuple[str, ...], ...]]) -> list[tuple[str, tuple[str, ...]]]:
    return [(command, arguments) for command, several in table.items() for arguments in several]


def run(command: str, arguments: tuple[str, ...], inputs: dict[str, str], tmp_path: Path) -> int:
    path_by_name = {**inputs, "out": str(tmp_path / "out")}
    words_of_run = []
    for argument in arguments:
        name, _, ending = argument.removeprefix("{").partition("}")
        words_of_run.append(
            f"{path_by_name[name]}{ending}" if argument.startswith("{") else argument
        )
    return main([*command.split(), *words_of_run, "--json"])


def read_output(command: str, text: str) -> Any:
    """Standard output as JSON."""
    return list(map(json.loads, text.splitlines())) if command in LINES else json.loads(text)


def test_the_tables_have_every_command_with_json() -> None:
    assert json_commands() == {*ANSWERED, *REFUSED, *FAILS}


@pytest.mark.parametrize(("command", "arguments"), cases(ANSWERED))
def test_an_answer_is_json_and_nothing_else(
    command: str,
    arguments: tuple[str, ...],
    inputs: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    run(command, arguments, inputs, tmp_path)
    output = capsys.readouterr()
    assert output.out, output.err
    read_output(command, output.out)


@pytest.mark.parametrize(("command", "arguments"), cases(REFUSED))
def test_what_is_refused_prints_nothing(
    command: str,
    arguments: tuple[str, ...],
    inputs: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    assert run(command, arguments, inputs, tmp_path) == MISUSE_STATUS
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.strip()
    assert "[Errno" not in output.err


@pytest.mark.parametrize("command", FAILS)
def test_what_fails_prints_why_as_json(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    status = run(command, FAILS[command], {}, tmp_path)
    output = capsys.readouterr()
    assert status not in (0, MISUSE_STATUS), output.err
    (name, reason), *other_fields = json.loads(output.out).items()
    assert (name, other_fields) == ("error", [])
    assert reason in output.err


def test_ctrl_c_without_a_result_says_so_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("txnsim_lab.cli._scenario.command._run_here", interrupt)
    assert main(["scenario", "run", "z01", "--json"]) == INTERRUPTED_STATUS
    assert "stopped" in json.loads(capsys.readouterr().out)["error"]


def test_a_failure_behind_a_result_adds_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(args: argparse.Namespace) -> int:
        TERMINAL.tell(args, {"cells": 1}, lambda _: ["one cell"])
        TERMINAL.complain("the rest failed")
        return 1

    monkeypatch.setattr("txnsim_lab.cli._scenario.command.run", failing)
    assert main(["scenario", "list", "--json"]) == 1
    assert msgspec.json.decode(capsys.readouterr().out) == {"cells": 1}


def test_the_page_of_commands_states_the_rule() -> None:
    assert "standard output has one JSON document" in (ROOT / "docs/cli.md").read_text()
