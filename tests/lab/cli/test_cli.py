"""Commands of the lab."""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import httpx
import jsonschema
import msgspec
import pytest

from tests.lab.exam.test_exam import KNOWS_ITS_NAME, YES
from tests.support.bash_completion import completions_of, write_completion
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main
from txnsim.cli.parsing import MISUSE_STATUS
from txnsim.errors import ConfigError
from txnsim.security.options import TlsFiles
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import Began, Ended, Outcome, Read, Record, Seen, Wrote
from txnsim_lab.cli import _proxy as proxy
from txnsim_lab.cli._schema import KINDS
from txnsim_lab.proxy.addresses import NodeAddress

# ``check``


WROTE = Wrote(at_ms=1, who="p", transaction="T1", topic="t", partition=0, value="r1", offset=0)
ABORTED = Ended(at_ms=2, who="p", transaction="T1", commit=False)
READ = Read(
    at_ms=3,
    who="r",
    topic="t",
    partition=0,
    asked=0,
    next_offset=2,
    records=(Record(offset=0, value="r1"),),
)
EMPTY_READ = msgspec.structs.replace(READ, records=())


@pytest.fixture
def healthy(tmp_path: Path) -> str:
    path = tmp_path / "healthy.jsonl"
    path.write_bytes(History([WROTE, ABORTED, EMPTY_READ]).to_lines())
    return str(path)


@pytest.fixture
def wrong_history(tmp_path: Path) -> str:
    path = tmp_path / "wrong.jsonl"
    path.write_bytes(b"# a story\n" + History([WROTE, ABORTED, READ]).to_lines())
    return str(path)


def test_a_healthy_history_is_told_so(healthy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", healthy]) == 0
    assert capsys.readouterr().out == f"{healthy}: healthy (3 observations)\n"


def test_records_that_nothing_read_are_not_called_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "unread.jsonl"
    path.write_bytes(History([WROTE]).to_lines())
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: healthy (1 observations)",
        "  not judged: the records of t-0. They were written, and no reader was given any",
    ]
    assert main(["check", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["unread"] == ["t-0"]


@pytest.mark.parametrize(
    "unanswered",
    [
        Began(at_ms=1, who="p", transaction="T1", transactional_id="app"),
        msgspec.structs.replace(WROTE, outcome=Outcome.UNKNOWN),
    ],
    ids=["only begun", "never answered"],
)
def test_a_history_without_an_answer_is_refused(
    unanswered: Seen, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "unanswered.jsonl"
    path.write_bytes(History([unanswered]).to_lines())
    assert main(["check", str(path)]) == 2
    assert "no answer of a broker in it: nothing was judged" in capsys.readouterr().err


def test_anomalies_are_told_with_their_evidence(
    healthy: str, wrong_history: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", healthy, wrong_history]) == 1
    printed_lines = capsys.readouterr().out.splitlines()
    assert printed_lines[1] == f"{wrong_history}: aborted-read (3 observations)"
    assert printed_lines[2] == "  aborted-read: r read 'r1' at t-0@0, but T1 was not committed"
    assert [line.split()[0] for line in printed_lines[3:]] == ["1", "2", "3"]
    assert json.loads(printed_lines[5].split(maxsplit=1)[1])["seen"] == "read"


def test_programs_get_the_same_as_json(
    wrong_history: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--json", wrong_history]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert report["verdict"] == ["aborted-read"]
    assert report["observations"] == 3
    (anomaly,) = report["anomalies"]
    assert anomaly["kind"] == "aborted-read"
    assert [observation["number"] for observation in anomaly["evidence"]] == [1, 2, 3]
    assert anomaly["evidence"][1]["observation"]["commit"] is False


def test_a_history_may_come_through_a_pipe(
    wrong_history: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(Path(wrong_history).read_bytes()), "utf-8")
    )
    assert main(["check", "-"]) == 1
    assert capsys.readouterr().out.startswith("-: aborted-read")


def test_what_is_no_history_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text('{"seen":"healed","at_ms":1,"who":"h"}\nthen it broke\n', "utf-8")
    assert main(["check", str(path)]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"txnsim: {path}: line 2: ")


def test_a_value_of_two_records_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "twice.jsonl"
    second_wrote = Wrote(at_ms=4, who="p", topic="t", partition=0, value="r1", offset=3)
    path.write_bytes(History([WROTE, ABORTED, second_wrote]).to_lines())
    assert main(["check", str(path)]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith(
        f"txnsim: {path}: observations 1 and 3: the value 'r1' names two records"
    )


def test_a_file_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nowhere.jsonl"
    assert main(["check", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"txnsim: {path}: No such file or directory; check how it is spelt, and the folder that you"
        " are in\n"
    )


# ``txnsim proxy`` as a process: it says where it is, and ends in order; what can't be is named.


def arguments(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    proxy.add_arguments(parser)
    return parser.parse_args(["--bootstrap-server", "127.0.0.1:1", *options])


def test_arguments_become_options(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=me\nrequest.timeout.ms=5\n")
    options = proxy.options_from(
        arguments(
            *("--command-config", str(config), "--peer", "2=kafka-2:9094", "--port", "0"),
            *("--peer-certificate", "p.pem", "--peer-key", "p.key"),
            *("--certificate", "c.pem", "--key", "k.pem", "--wait", "1.5", "--seed", "7"),
        )
    )
    assert options.peers == (NodeAddress(2, "kafka-2", 9094),)
    assert options.tls == TlsFiles(certificate="c.pem", key="k.pem")
    assert options.peer_tls == TlsFiles(certificate="p.pem", key="p.key")
    assert (options.wait_ms, options.seed, options.port) == (1_500, 7, 0)
    assert (options.settings.client_id, options.settings.request_timeout_ms) == ("me", 5)
    assert proxy.options_from(arguments()).host == "127.0.0.1", "loopback unless told"


@pytest.mark.parametrize(
    ("options", "expected_text"),
    [
        (("--peer", "kafka:9094"), "--peer kafka:9094"),
        (("--certificate", "c.pem"), "--key"),
        (("--peer-key", "k.pem"), "--peer-certificate"),
        (("--wait", "-1"), "--wait -1"),
    ],
)
def test_what_makes_no_sense_is_named(options: tuple[str, ...], expected_text: str) -> None:
    with pytest.raises(ConfigError, match=expected_text):
        proxy.options_from(arguments(*options))


def test_a_cluster_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert proxy.run(arguments("--port", "0", "--http", "0")) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_gssapi_for_look_ups_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n")
    options = ["--bootstrap-server", "127.0.0.1:1", "--command-config", str(config)]
    assert main(["proxy", *options]) == 2
    assert "GSSAPI" in capsys.readouterr().err


@pytest.mark.slow
def test_it_says_where_it_is_and_ends_in_order(tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    with TxnsimServer(arguments=("--brokers", "1")) as server:
        command = [
            *(sys.executable, "-m", "txnsim", "proxy", "--bootstrap-server", server.bootstrap),
            *("--port", "0", "--http", "0", "--ready-file", str(ready_file), "--until-eof"),
        ]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            lines_said = []
            for printed_line in process.stdout:
                lines_said.append(printed_line)
                if "stop with" in printed_line:
                    break
            facts = json.loads(ready_file.read_text())
            assert facts["bootstrap"] != server.bootstrap
            health = httpx.get(f"{facts['http']}/healthz", timeout=60).json()
            assert health["bootstrap"] == facts["bootstrap"]
            assert any("can't pass: client certificates" in line for line in lines_said)
            assert any("GSSAPI" in line for line in lines_said)
            process.stdin.close()
            assert process.wait(timeout=60) == 0
    assert not ready_file.exists()


# ``practise``


Typed = Callable[[str], tuple[int, str]]


@pytest.fixture
def typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typed:
    """What a printed command does, from an empty folder; a remark in brackets is not part of it."""
    monkeypatch.chdir(tmp_path)

    def type_it(line: str) -> tuple[int, str]:
        capsys.readouterr()
        program, *arguments = line.partition(" (")[0].split()
        assert program == "txnsim"
        status = main(arguments)
        output = capsys.readouterr()
        return status, output.out + output.err

    return type_it


@pytest.mark.costly
@pytest.mark.slow
def test_the_printed_commands_find_and_repair_what_hangs(typed: Typed) -> None:
    with TxnsimServer(is_practice=True, arguments=("--http", "0", "--json")) as server:
        exercise = json.loads(server.wait_for_output('"exercise"'))["exercise"]
        assert exercise == server.ready["exercise"]
        with urllib.request.urlopen(f"{server.http}/api/v1/report", timeout=60) as answer:
            assert "nothing was recorded" not in answer.read().decode()
        with urllib.request.urlopen(f"{server.http}/", timeout=60) as answer:
            assert b"<title>txnsim" in answer.read()
        commands = [line.strip() for line in exercise if line.startswith("  txnsim txns ")]
        outcomes = [typed(command_line) for command_line in commands]
        assert [status for status, _ in outcomes] == [3, 3, 3, 0]
        assert "hanging: 1; decided and not yet marked: 1; old and alive: 1" in outcomes[0][1]
        assert "It hangs. It was not committed: end it with ABORT" in outcomes[1][1]
        assert " To end it: txnsim txns " in outcomes[1][1]
        assert "would be repaired" in outcomes[2][1]
        assert "0 -> 2" in outcomes[3][1]
        (release,) = (line.partition(": ")[2] for line in exercise if "faults release" in line)
        assert typed(release) == (0, "let go 1\n")


@pytest.mark.costly
@pytest.mark.slow
def test_it_goes_on_with_copies_of_disks(tmp_path: Path, typed: Typed) -> None:
    disks_directory = tmp_path / "disks"
    with TxnsimServer(is_practice=True, arguments=("--http", "0")) as txnsim_server:
        assert main(["logs", "write", str(disks_directory), "--http", str(txnsim_server.http)]) == 0
    directories = sorted(map(str, disks_directory.iterdir()))
    assert len(directories) == 3
    with TxnsimServer(is_practice=True, arguments=("--http", "0", *directories)) as server:
        printed_output = server.wait_for_output("docs/practise.md")
        assert "loaded " in printed_output
        command_lines = [
            printed_line
            for printed_line in printed_output.splitlines()
            if "find-hanging" in printed_line
        ]
        status, output = typed(command_lines[0])
    assert status == 3
    assert "orders-0 at offset 0: transactional id billing is Empty" in output


def test_what_is_no_directory_of_a_broker_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["practise", "--port", "0", "--http", "0", str(tmp_path)]) == 2
    assert "meta.properties" in capsys.readouterr().err


# ``exam``: ``txnsim exam``: what it prints, and with which status it ends.


def sat(program: str, *arguments: str) -> int:
    """Sit an exam of one situation; return the exit status."""
    command = shlex.join([sys.executable, "-c", program])
    only = ("--only", "commit-lost", "--transaction-version", "2")
    return main(["exam", "run", "--driver", command, *only, *arguments])


def test_a_miss_is_told_and_is_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert sat(YES) == 1
    captured = capsys.readouterr()
    assert "but readers do not get" in captured.out
    assert "again: txnsim exam run --driver" in captured.out
    assert "1 of 1 situations, 1 missed: commit-lost@2: missed" in captured.err


def test_a_known_miss_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known_file, report_file = tmp_path / "known.txt", tmp_path / "exam.html"
    known_file.write_text("commit-lost@2  # reported\n")
    assert sat(YES, "--known", str(known_file), "--report", str(report_file)) == 0
    assert "commit-lost@2 (known)" in capsys.readouterr().out
    assert "commit-lost" in report_file.read_text()


def test_a_known_miss_has_no_folder(tmp_path: Path) -> None:
    known_file, folders, report_file = (
        tmp_path / file_name for file_name in ("known.txt", "misses", "exam.html")
    )
    known_file.write_text("commit-lost@2\n")
    file_options = (
        "--known",
        str(known_file),
        "--misses",
        str(folders),
        "--report",
        str(report_file),
    )
    assert sat(YES, *file_options, "--only", "reads-open") == 1
    assert [folder.name for folder in folders.iterdir()] == ["reads-open-2"]
    assert "misses/reads-open-2/" in report_file.read_text()
    assert "misses/commit-lost-2/" not in report_file.read_text()


def test_json_has_every_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert sat(KNOWS_ITS_NAME, "--json") == MISUSE_STATUS  # nothing applied
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert (result["situation"], result["outcome"]) == ("commit-lost", "does not apply")


def test_a_driver_that_is_none_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert sat("pass") == 2
    assert "has ended" in capsys.readouterr().err


def test_a_file_of_known_misses_must_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert sat(YES, "--known", "nowhere.txt") == 2
    assert "nowhere.txt" in capsys.readouterr().err


def test_the_list_says_what_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exam", "list", "--only", "lag"]) == 0
    assert "lag-is-zero" in capsys.readouterr().out
    assert main(["exam", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "fenced-by-newer"


# ``exam_readers``: ``txnsim exam readers``: what it writes, and how it holds a reader's answers
# against it.


@pytest.fixture
def answers(tmp_path: Path) -> tuple[Path, list[dict[str, object]]]:
    """The file of expected answers, and a reader's right answers."""
    assert main(["exam", "readers", "write", str(tmp_path / "dirs")]) == 0
    path = tmp_path / "dirs" / "expected.json"
    reader_answers = [
        {"topic": expected_topic["topic"], "values": expected_topic["values"]}
        for expected_topic in json.loads(path.read_text())
    ]
    return path, reader_answers


def check_answers(path: Path, reader_answers: list[dict[str, object]]) -> int:
    """Check a reader's answers; return the exit status."""
    answers_file = path.with_name("answers")
    answers_file.write_text("\n".join(map(json.dumps, reader_answers)))
    return main(["exam", "readers", "check", str(path), str(answers_file)])


def test_answers_are_checked(
    answers: tuple[Path, list[dict[str, object]]], capsys: pytest.CaptureFixture[str]
) -> None:
    path, reader_answers = answers
    assert (path.parent / "broker-1" / "open-0").is_dir()
    assert check_answers(path, reader_answers) == 0
    assert check_answers(path, reader_answers[1:]) == 1
    assert "position-on-marker: nothing is said of it" in capsys.readouterr().out
    assert check_answers(path, [*reader_answers, {"topc": "open"}]) == 2
    assert main(["exam", "readers", "write", str(path.parent)]) == 2
    assert "is not overwritten" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_printed_is_a_json_schema(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", kind]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"].startswith("txnsim ")


def test_a_kind_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "story"]) == 2
    assert "story" in capsys.readouterr().err


# ``commands``: Commands of the lab as the shell knows them. Each one's examples: tests/broker/cli.


def test_bash_completes_commands_stories_and_lessons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script_file = write_completion(tmp_path, capsys)
    assert completions_of(script_file, "prac") == ["practise"]
    assert {"z01", "late-produce-after-abort"} <= set(
        completions_of(script_file, "scenario", "run", "")
    )
    assert "L1" in completions_of(script_file, "lesson", "")
