from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.broker.cli.control.conftest import Ask

FROM_NOBODY = ("--point", "client.request", "--client-id", "nobody-at-all")


def test_a_rule_is_armed_as_the_options_say(txnsim: Ask) -> None:
    rule = ("--api", "WriteTxnMarkers", "--topic", "orders", "--partition", "1", "--aborted")
    armed = txnsim(
        "faults", "arm", "r1", "--point", "peer.request", *rule, "--nth", "2", "--limit", "3",
        "--probability", "0.5", "--do", "delay", "--delay", "2s", "--json",
    )  # fmt: skip
    (one,) = armed.json
    assert one["rule"] == {
        "id": "r1", "point": "peer.request", "api": "WriteTxnMarkers", "topic": "orders",
        "partition": 1, "committed": False, "nth": 2, "limit": 3, "probability": 0.5,
        "action": {"do": "delay", "delay_ms": 2_000},
    }  # fmt: skip
    listed = txnsim("faults", "list").out
    assert "r1" in listed
    assert "delay 2000" in listed
    assert txnsim("faults", "disarm", "r1").out == "r1 is taken back; it has struck 0\n"


def test_what_holds_says_how_it_is_let_go(txnsim: Ask) -> None:
    armed = txnsim("faults", "arm", "r2", *FROM_NOBODY, "--api", "EndTxn", "--do", "hold")
    assert armed.out.splitlines() == [
        "armed r2: hold at client.request EndTxn (client_id=nobody-at-all)",
        "  wait for it: txnsim faults wait r2",
        "  let it go:   txnsim faults release r2",
    ]
    assert txnsim("faults", "release", "r2").out == "let go 0\n"
    late = txnsim("faults", "wait", "r2", "--timeout", "1ms")
    assert late.status == 1
    assert "0 of 1 strikes within 1 ms" in late.err
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
    assert [one["rule"]["id"] for one in armed.json] == ["p1", "p2"]
    assert "choose another id" in txnsim("faults", "arm", "--file", str(file)).err
    for name in ("p1", "p2"):
        assert txnsim("faults", "disarm", name).status == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
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
def test_what_is_wrong_is_said(txnsim: Ask, words: tuple[str, ...], complaint: str) -> None:
    said = txnsim("faults", *words)
    assert said.status in (1, 2)
    assert said.out == ""
    assert complaint in said.err


def test_a_single_rule_of_a_file_is_no_plan(txnsim: Ask, tmp_path: Path) -> None:
    """Its mistakes began with the index of a plan: 1.point."""
    file = tmp_path / "rule.json"
    file.write_text(json.dumps({"id": "p", "point": "peer.reqest", "action": "drop"}))
    said = txnsim("faults", "arm", "--file", str(file)).err
    assert "1.point" not in said
    assert "point: no value 'peer.reqest'" in said
    assert """action: 'drop' is a name alone: say {"do": "drop"}""" in said


def test_a_file_that_is_no_json_is_named(txnsim: Ask, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("id: x")
    assert f"--file {file}: no JSON" in txnsim("faults", "arm", "--file", str(file)).err
