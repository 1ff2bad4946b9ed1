"""Commands that ask the control port."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.broker.cli.control.conftest import Ask
from tests.support.alone import ROOT
from tests.support.hostile_brokers import answering, hostile_broker, resetting_after
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.control._words import duration_ms, key_value, new_topic, topic_partition
from txnsim.cli.control.port import ControlPortError, add_arguments, port_of
from txnsim.cli.main import main
from txnsim.errors import ConfigError

CLI_PAGE = (ROOT / "docs/cli.md").read_text()

# ``faults``


FROM_NOBODY = ("--point", "client.request", "--client-id", "nobody-at-all")


def test_a_rule_is_armed_as_the_options_say(txnsim: Ask) -> None:
    rule = ("--api", "WriteTxnMarkers", "--topic", "orders", "--partition", "1", "--aborted")
    armed = txnsim(
        "faults", "arm", "r1", "--point", "peer.request", *rule, "--nth", "2", "--limit", "3",
        "--probability", "0.5", "--do", "delay", "--delay", "2s", "--json",
    )  # fmt: skip
    (armed_rule,) = armed.json
    assert armed_rule["rule"] == {
        "id": "r1", "point": "peer.request", "api": "WriteTxnMarkers", "topic": "orders",
        "partition": 1, "committed": False, "nth": 2, "limit": 3, "probability": 0.5,
        "action": {"do": "delay", "delay_ms": 2_000},
    }  # fmt: skip
    listing_text = txnsim("faults", "list").out
    assert "r1" in listing_text
    assert "delay 2000" in listing_text
    assert txnsim("faults", "disarm", "r1").out == "r1 is taken back; it has struck 0\n"


def test_what_holds_says_how_it_is_let_go(txnsim: Ask) -> None:
    armed = txnsim("faults", "arm", "r2", *FROM_NOBODY, "--api", "EndTxn", "--do", "hold")
    assert armed.out.splitlines() == [
        "armed r2: hold at client.request EndTxn (client_id=nobody-at-all)",
        "  wait for it: txnsim faults wait r2",
        "  let it go:   txnsim faults release r2",
    ]
    assert txnsim("faults", "release", "r2").out == "let go 0\n"
    late_answer = txnsim("faults", "wait", "r2", "--timeout", "1ms")
    assert late_answer.status == 1
    assert "0 of 1 strikes within 1 ms" in late_answer.err
    assert "r2: 0 crossings matched" in txnsim("faults", "verify").err
    txnsim("faults", "disarm", "r2")


def test_a_strike_is_waited_for(txnsim: Ask) -> None:
    txnsim("faults", "arm", "r3", "--point", "now", "--do", "clock", "--with", "by_ms=5")
    assert txnsim("faults", "wait", "r3").out == "r3 has struck once\n"
    txnsim("faults", "disarm", "r3")


@pytest.mark.parametrize("from_stdin", [True, False])
def test_rules_of_a_file_are_armed_all_or_none(
    txnsim: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_stdin: bool
) -> None:
    action = {"do": "error", "error": "NOT_COORDINATOR"}
    plan = [
        {"id": name, "point": "client.request", "client_id": "nobody-at-all", "action": action}
        for name in ("p1", "p2")
    ]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(plan)))
    armed = txnsim("faults", "arm", "--file", "-" if from_stdin else str(file), "--json")
    assert [armed_rule["rule"]["id"] for armed_rule in armed.json] == ["p1", "p2"]
    assert "choose another id" in txnsim("faults", "arm", "--file", str(file)).err
    for name in ("p1", "p2"):
        assert txnsim("faults", "disarm", name).status == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("arm", "x", "--do", "hold"), "--point is missing"),
        (("arm",), "an ID, --point, --do is missing"),
        (("arm", "x", "--file", "f.json"), "leave out id"),
        (("arm", "--file", "none.json"), "No such file"),
        (("arm", "x", "--point", "peer.reqest", "--do", "hold"), "peer.request"),
        (("arm", "x", *FROM_NOBODY, "--do", "error", "--error", "NOPE"), "NOPE"),
        (("arm", "x", *FROM_NOBODY, "--do", "delay", "--delay", "1.5"), "as in 90s"),
        (("disarm",), "name a rule, or say --all"),
        (("disarm", "a", "--all"), "name a rule, or say --all"),
        (("release", "nope"), "`txnsim faults list`"),
    ],
)
def test_what_is_wrong_is_said(txnsim: Ask, arguments: tuple[str, ...], complaint: str) -> None:
    result = txnsim("faults", *arguments)
    assert result.status in (1, 2)
    assert result.out == ""
    assert complaint in result.err


def test_a_single_rule_of_a_file_is_no_plan(txnsim: Ask, tmp_path: Path) -> None:
    """The complaint must not begin with the index of a plan, as in ``1.point``."""
    file = tmp_path / "rule.json"
    file.write_text(json.dumps({"id": "p", "point": "peer.reqest", "action": "drop"}))
    complaint = txnsim("faults", "arm", "--file", str(file)).err
    assert "1.point" not in complaint
    assert "point: no value 'peer.reqest'" in complaint
    assert """action: 'drop' is a name alone: say {"do": "drop"}""" in complaint


def test_a_file_that_is_no_json_is_named(txnsim: Ask, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("id: x")
    assert f"--file {file}: no JSON" in txnsim("faults", "arm", "--file", str(file)).err


def test_a_file_that_is_nested_too_deeply_is_no_json(txnsim: Ask, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("[" * 100_000)
    assert f"--file {file}: no JSON" in txnsim("faults", "arm", "--file", str(file)).err


# ``answers``: what another program at the address says


ASKING = (
    ("faults", "list"),
    ("faults", "verify"),
    ("faults", "wait", "r"),
    ("faults", "release", "r"),
    ("faults", "disarm", "r"),
    ("faults", "disarm", "--all"),
    ("faults", "arm", "r", "--point", "client.request", "--do", "hold"),
    ("clock", "show"),
    ("clock", "advance", "1s"),
    ("clock", "set", "--ahead", "1s"),
    ("brokers", "list"),
    ("brokers", "kill", "1"),
    ("brokers", "stop", "1"),
    ("brokers", "start", "1"),
    ("brokers", "isolate", "1"),
    ("brokers", "heal", "1"),
    ("topics", "list"),
    ("topics", "describe", "orders"),
    ("topics", "create", "orders"),
    ("topics", "delete", "orders"),
    ("topics", "move-leader", "orders-0", "1"),
)
OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
OTHER_ANSWERS = {
    "nothing": b"",
    "noise": bytes(range(256)),
    "a status that is no number": b"HTTP/1.1 abc OK\r\n\r\n",
    "fewer bytes than it says": b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n[{"id"',
    "a page": OK + b"<html>hello</html>",
    "null": OK + b"null",
    "a number": OK + b"5",
    "a text": OK + b'"x"',
    "an object": OK + b"{}",
    "a list of an object": OK + b"[{}]",
    "a list of null": OK + b"[null]",
    "much that is nested": OK + b"[" * 100_000,
    "bytes that are no UTF-8": OK + b'{"id": "\xff"}',
    "a refusal of something else": b"HTTP/1.1 404 No\r\n\r\n" + b'{"error":' + b"[" * 100_000,
}


@pytest.mark.parametrize("kind", OTHER_ANSWERS)
@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
def test_another_program_at_the_address_is_no_control_port(
    arguments: tuple[str, ...], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be anybody's web server: its empty object does not say that every rule has struck."""
    with hostile_broker(answering(OTHER_ANSWERS[kind])) as address:
        status = main([*arguments, "--http", f"http://{address}"])
    output = capsys.readouterr()
    assert status == 1
    assert output.out == ""
    assert address in output.err
    assert "Traceback" not in output.err


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("", "answers 404 No: is it a control port of txnsim?"),
        ('{"error": "there is no', "answers 404 No: is it a control port of txnsim?"),
        ('{"error": "there is no clock"}', "there is no clock"),
    ],
)
@pytest.mark.parametrize("length", ["", "Content-Length: 900\r\n"])
def test_a_refusal_is_told_also_where_the_connection_is_reset_behind_it(
    length: str, body: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status of the answer is known, so the message must not say that no port answers."""
    answer = f"HTTP/1.1 404 No\r\n{length}\r\n{body}".encode()
    with hostile_broker(resetting_after(answer)) as address:
        assert main(["clock", "show", "--http", f"http://{address}"]) == 1
    assert complaint in capsys.readouterr().err


def test_every_command_that_asks_is_tried() -> None:
    sections = re.findall(r"^## txnsim (faults|clock|brokers|topics) (.+)$", CLI_PAGE, re.MULTILINE)
    assert {arguments[:2] for arguments in ASKING} == set(sections)


TOKEN = "a-token-of-sixteen-letters"


def args_of(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def ready_file(directory: Path, **facts: object) -> Path:
    file = directory / "ready.json"
    file.write_text(json.dumps({"bootstrap": "h:1", **facts}))
    return file


@pytest.mark.parametrize(
    ("arguments", "environment", "url"),
    [
        ((), {}, "http://127.0.0.1:9080"),
        (("--http", "1234"), {"TXNSIM_HTTP": "http://x:1"}, "http://127.0.0.1:1234"),
        (("--http", "host:1"), {}, "http://host:1"),
        ((), {"TXNSIM_HTTP": "https://host:1/", "TXNSIM_READY_FILE": "none"}, "https://host:1"),
    ],
)
def test_where_it_is(arguments: tuple[str, ...], environment: dict[str, str], url: str) -> None:
    assert port_of(args_of(*arguments), environment).url == url


def test_the_ready_file_says_it(tmp_path: Path) -> None:
    file = str(ready_file(tmp_path, http="http://h:2"))
    assert port_of(args_of(), {"TXNSIM_READY_FILE": file}).url == "http://h:2"
    control_port = port_of(args_of("--ready-file", file), {"TXNSIM_HTTP": "http://x:1"})
    assert control_port.url == "http://h:2"


@pytest.mark.parametrize(
    "wrong_address", ["ftp://x", "h:x", "h:99999", "http://", "http://h/api", "", "a..b:1"]
)
def test_an_address_that_is_none_is_refused(wrong_address: str) -> None:
    with pytest.raises(ConfigError, match=r"--http .*expected http://HOST:PORT"):
        port_of(args_of("--http", wrong_address), {})


def test_a_ready_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ControlPortError, match="there is no such file"):
        port_of(args_of("--ready-file", str(tmp_path / "none")), {})
    for content in ("{", "[]", "{}"):
        (tmp_path / "x").write_text(content)
        with pytest.raises(ConfigError, match="it is no ready file"):
            port_of(args_of("--ready-file", str(tmp_path / "x")), {})
    with pytest.raises(ControlPortError, match="has no control port"):
        port_of(args_of("--ready-file", str(ready_file(tmp_path, http=None))), {})


def test_nothing_there_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clock", "show", "--http", "1"]) == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith("txnsim: no control port answers at http://127.0.0.1:1 (")
    assert "`txnsim serve --http`" in complaint


@pytest.mark.slow
def test_the_token_comes_by_option_variable_or_ready_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TXNSIM_TOKEN", TOKEN)
    with TxnsimServer(brokers=1, arguments=("--http", "0")) as server:
        show = ["clock", "show", "--http", str(server.http)]
        assert main(show) == 0
        monkeypatch.delenv("TXNSIM_TOKEN")
        assert main(show) == 1
        assert "wants a token: set TXNSIM_TOKEN or --token" in capsys.readouterr().err
        assert main([*show, "--token", TOKEN]) == 0
        assert main([*show, "--token", TOKEN + "x"]) == 1
        assert "wants another token" in capsys.readouterr().err
        file = ready_file(tmp_path, http=server.http, token=TOKEN)
        assert main(["clock", "show", "--ready-file", str(file)]) == 0


@pytest.mark.slow
def test_what_is_no_control_port_is_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    with TxnsimServer(brokers=1, arguments=("--http", "0")) as server:
        kafka = server.bootstrap
        assert main(["clock", "show", "--http", kafka]) == 1
    assert f"no control port answers at http://{kafka}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0", 0), ("1500ms", 1_500), ("30s", 30_000), ("2M", 120_000),
     ("1h", 3_600_000), ("7d", 604_800_000)],
)  # fmt: skip
def test_a_time_is_whole_milliseconds(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_a_time_has_a_unit() -> None:
    with pytest.raises(ArgumentTypeError, match=r"'5' has no unit: 5s, or 5ms\?"):
        duration_ms("5")


@pytest.mark.parametrize(
    ("read", "wrong_text", "message"),
    [
        *((duration_ms, text, "as in 90s") for text in ("1.5", "60e3", "-5s", "", "2 minutes")),
        *((new_topic, text, "as in orders:3") for text in ("", ":3", "a:", "a:0", "a:b")),
        *((topic_partition, text, "as in orders-0") for text in ("orders", "-0", "orders-x")),
        *((key_value, text, "as in cleanup") for text in ("a", "=b", "")),
    ],
)
def test_what_is_wrong_is_answered_with_the_form_that_is_wanted(
    read: Callable[[str], Any], wrong_text: str, message: str
) -> None:
    with pytest.raises(ArgumentTypeError, match=message):
        read(wrong_text)


def test_topics_partitions_and_pairs() -> None:
    assert new_topic("orders") == ("orders", -1)
    assert new_topic("orders:3") == ("orders", 3)
    assert topic_partition("a-b-12") == ("a-b", 12)
    assert key_value("retention.ms=a=b") == ("retention.ms", "a=b")


# ``clock``


def test_time_passes(txnsim: Ask) -> None:
    clock_before = txnsim("clock", "show", "--json").json
    clock_after = txnsim("clock", "advance", "2m", "--json").json
    assert clock_after["advanced_ms"] - clock_before["advanced_ms"] == 120_000
    assert "on the cluster's clock, moved by" in txnsim("clock", "show").out


def test_one_brokers_clock_is_set(txnsim: Ask) -> None:
    time_before = txnsim("clock", "show", "--json").json["brokers"]["2"]
    assert txnsim("clock", "set", "--back", "5s", "--broker", "2").status == 0
    assert txnsim("clock", "show", "--json").json["brokers"]["2"] == time_before - 5_000
    assert "broker 2: " in txnsim("clock", "set", "--ahead", "2s", "--broker", "2").out


def test_a_time_that_is_no_whole_number_is_refused_with_the_form(txnsim: Ask) -> None:
    result = txnsim("clock", "advance", "1.5")
    assert result.status == 2
    assert "expected a number with ms, s, m, h or d, as in 90s" in result.err


def test_a_time_without_a_unit_or_below_zero_is_refused_with_what_was_meant(txnsim: Ask) -> None:
    for arguments, complaint in (
        (
            ("clock", "advance", "-5s"),
            "'-5s': no time passes backwards; `txnsim clock set --back 5s`",
        ),
        (("clock", "advance", "5"), "time: '5' has no unit: 5s, or 5ms?"),
        (("clock", "set", "--back", "-5s"), "'-5s': expected a number with ms, s, m, h or d"),
    ):
        result = txnsim(*arguments)
        assert result.status == 2
        assert complaint in result.err


def test_a_clock_is_set_one_way_only(txnsim: Ask) -> None:
    assert txnsim("clock", "set", "--ahead", "1s", "--back", "1s").status == 2


# ``brokers``


def state_of(txnsim: Ask, broker: int) -> str:
    (listed_broker,) = (
        listed_broker
        for listed_broker in txnsim("brokers", "list", "--json").json
        if listed_broker["id"] == broker
    )
    return str(listed_broker["state"])


def test_a_broker_is_killed_and_started(txnsim: Ask) -> None:
    killed = txnsim("brokers", "kill", "3", "--lose-unflushed")
    assert killed.out.startswith("broker 3 is down, ")
    assert killed.out.endswith("; to undo it: txnsim brokers start 3\n")
    assert (
        txnsim("brokers", "kill", "3").err == "txnsim: broker 3 is down already: start it first\n"
    )
    assert txnsim("brokers", "start", "3").out.startswith("broker 3 is running")
    assert state_of(txnsim, 3) == "running"


def test_a_broker_is_stopped_in_order(txnsim: Ask) -> None:
    assert txnsim("brokers", "stop", "3", "--wait", "1m").out.startswith("broker 3 is down")
    refusal = txnsim("brokers", "start", "3", "--as-version", "4.2")
    assert refusal.status == 1
    assert "does not support finalized version" in refusal.err
    assert txnsim("brokers", "start", "3", "--as-version", "4.4", "--json").json["release"] == "4.4"


def test_a_broker_is_cut_off_and_healed(txnsim: Ask) -> None:
    isolation_output = txnsim("brokers", "isolate", "3", "--from-clients").out
    assert (
        "(isolated, cut off from clients)" in isolation_output
        or "cut off from clients)" in isolation_output
    )
    assert "to undo it: txnsim brokers heal 3" in isolation_output
    assert "isolated" in txnsim("brokers", "list").out
    assert "cut off" not in txnsim("brokers", "heal", "3").out


def test_a_broker_that_is_not_there_is_named_with_those_that_are(txnsim: Ask) -> None:
    result = txnsim("brokers", "kill", "9")
    assert (result.status, result.err) == (1, "txnsim: there is no broker 9, only 1, 2, 3\n")


# ``topics``


def test_a_topic_is_made_shown_and_deleted(txnsim: Ask) -> None:
    creation = txnsim("topics", "create", "made:2", "--config", "cleanup.policy=compact")
    assert creation.out.startswith("made: 2 partitions, led by broker ")
    listed_topics = [
        printed_line.split("\t")[0].strip()
        for printed_line in txnsim("topics", "list").out.splitlines()
    ]
    assert "made" in listed_topics
    rows = txnsim("topics", "describe", "made").out.splitlines()
    assert rows[0].split() == [
        "Partition", "Broker", "Role", "LogStart", "LastStable", "HighWatermark", "LogEnd",
    ]  # fmt: skip
    assert [line.split()[0] for line in rows[1:]].count("made-1") >= 1
    assert txnsim("topics", "describe", "made", "--json").json["configs"] == {
        "cleanup.policy": "compact"
    }
    assert txnsim("topics", "delete", "made").out == "made is deleted, with 2 partitions\n"
    second_deletion = txnsim("topics", "delete", "made")
    assert (
        second_deletion.err == "txnsim: there is no topic 'made'; `txnsim topics list` lists them\n"
    )
    assert second_deletion.status == 1


def test_a_leader_moves_to_a_replica_in_sync(txnsim: Ask) -> None:
    txnsim("topics", "create", "moving:1", "--replication-factor", "3")
    (partition,) = txnsim("topics", "describe", "moving", "--json").json["partitions"]
    other_replica = next(replica for replica in partition["isr"] if replica != partition["leader"])
    move_result = txnsim("topics", "move-leader", "moving-0", str(other_replica))
    assert move_result.out.startswith(f"moving-0: broker {other_replica} leads, leader epoch 1")
    refusal = txnsim("topics", "move-leader", "moving-0", "9")
    assert refusal.status == 1
    assert "in sync are" in refusal.err


def test_kafkas_refusals_are_told(txnsim: Ask) -> None:
    result = txnsim("topics", "create", "wrong", "--config", "no.such=1")
    assert result.status == 1
    assert "INVALID_CONFIG" in result.err
