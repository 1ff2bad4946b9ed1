from __future__ import annotations

from tests.broker.cli.control.conftest import Ask


def state_of(txnsim: Ask, broker: int) -> str:
    (one,) = (one for one in txnsim("brokers", "list", "--json").json if one["id"] == broker)
    return str(one["state"])


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
    refused = txnsim("brokers", "start", "3", "--as-version", "4.2")
    assert refused.status == 1
    assert "does not support finalized version" in refused.err
    assert txnsim("brokers", "start", "3", "--as-version", "4.4", "--json").json["release"] == "4.4"


def test_a_broker_is_cut_off_and_healed(txnsim: Ask) -> None:
    cut = txnsim("brokers", "isolate", "3", "--from-clients").out
    assert "(isolated, cut off from clients)" in cut or "cut off from clients)" in cut
    assert "to undo it: txnsim brokers heal 3" in cut
    assert "isolated" in txnsim("brokers", "list").out
    assert "cut off" not in txnsim("brokers", "heal", "3").out


def test_a_broker_that_is_not_there_is_named_with_those_that_are(txnsim: Ask) -> None:
    said = txnsim("brokers", "kill", "9")
    assert (said.status, said.err) == (1, "txnsim: there is no broker 9, only 1, 2, 3\n")
