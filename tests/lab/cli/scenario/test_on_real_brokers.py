"""``txnsim scenario run --on``: a simulated cluster over TCP stands for the real one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, default_int_handler, signal

import pytest

from tests.support.slow_machine import SLOW_S
from txnsim.cli.main import INTERRUPTED_STATUS, main
from txnsim.testing import SimulatedKafka

STORY = "late-commit-leaves-a-ghost"


@pytest.fixture(scope="module")
def kafka() -> Iterator[SimulatedKafka]:
    with SimulatedKafka(brokers=3) as running:
        yield running


def run(kafka: SimulatedKafka, *args: str) -> int:
    return main(["scenario", "run", *args, "--on", kafka.bootstrap])


@pytest.mark.slow
def test_a_story_is_told_on_both_sides_and_cleaned_up(
    kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(kafka, "late-commit-leaves-a-ghost", "--mode", "TV2+", "--armed", "--yes") == 0
    out, err = capfd.readouterr()
    assert "topics, groups and transactional ids begin with txnsim-" in err
    assert "could not be cleaned" not in err
    assert out.rstrip().endswith("1 of 1 runs on real brokers agree with the simulator")
    topics = kafka.cluster.metadata.image.topics
    assert [name for name in topics if name.startswith("txnsim-")] == []


@pytest.mark.slow
def test_ctrl_c_ends_what_is_open_and_deletes_the_topics(kafka: SimulatedKafka) -> None:
    """The story waits for a timeout when it is interrupted, with a transaction open."""
    words = ["scenario", "run", "z23", "--mode", "TV2+/before", "--armed", "--yes", "--json"]
    was = signal(SIGINT, default_int_handler)  # a shell in the background hands on that it ignores
    try:
        told = subprocess.Popen(
            [sys.executable, "-m", "txnsim", *words, "--on", kafka.bootstrap],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal(SIGINT, was)
    assert told.stderr is not None
    prefix = told.stderr.readline().split()[-1]
    kafka.transactions.wait_for_state(f"{prefix}app", "Ongoing")
    told.send_signal(SIGINT)
    out, err = told.communicate(timeout=SLOW_S)
    assert told.returncode == INTERRUPTED_STATUS, err
    assert "could not be cleaned" not in err
    assert [(cell["why_not"], cell["left"]) for cell in json.loads(out)] == [
        ("it was broken off", [])
    ]
    # The commit that the story had held is let go when it ends.
    ended = ("Empty", "CompleteAbort", "CompleteCommit")
    kafka.transactions.wait_for_state(f"{prefix}app", *ended, timeout_ms=1)
    topics = kafka.cluster.metadata.image.topics
    assert [name for name in topics if name.startswith(prefix)] == []


@pytest.mark.slow
def test_what_is_left_is_told_with_its_command_and_is_no_success(
    capfd: pytest.CaptureFixture[str],
) -> None:
    args = ("late-commit-leaves-a-ghost", "--mode", "TV2+", "--armed", "--yes")
    with SimulatedKafka(brokers=3, settings={"delete.topic.enable": False}) as undeletable:
        assert run(undeletable, *args) == 1
        out, err = capfd.readouterr()
        assert run(undeletable, *args, "--json") == 1
        as_json, said = capfd.readouterr()
        prefix = err.splitlines()[0].split()[-1]
        where = f"--bootstrap-server {undeletable.bootstrap}"
    assert f"could not be cleaned: topic {prefix}t: " in out
    assert "TOPIC_DELETION_DISABLED" in out
    assert f"\n   kafka-topics.sh {where} --delete --topic {prefix}t\n" in out
    assert "1 of 1 runs on real brokers agree with the simulator" in out
    (cell,) = json.loads(as_json)
    (left,) = cell["left"]
    assert left.keys() == {"kind", "name", "why", "command"}
    assert (left["kind"], cell["agrees"]) == ("topic", True)
    assert left["command"] in said


@pytest.mark.slow
def test_a_story_whose_topics_are_refused_is_no_success(
    kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    args = ("late-commit-leaves-a-ghost", "--mode", "TV2+", "--armed", "--yes")
    policy = {"do": "error", "error": "POLICY_VIOLATION"}
    kafka.faults.arm(id="policy", point="client.request", api="CreateTopics", action=policy)
    try:
        assert run(kafka, *args) == 1
        out = capfd.readouterr().out
        assert run(kafka, *args, "--json") == 1
        (cell,) = json.loads(capfd.readouterr().out)
    finally:
        kafka.faults.disarm("policy")
    assert "POLICY_VIOLATION" in out
    assert out.rstrip().endswith("agree with the simulator; no verdict on 1")
    assert (cell["real"], cell["agrees"], cell["left"]) == (None, None, [])


def test_what_can_not_be_told_there_says_which_step_it_was(
    kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("commit-without-a-leader", "--mode", "TV2/4.3", "--yes")
    assert run(kafka, *words, "--json") == 2
    out, err = capfd.readouterr()
    cells = json.loads(out)
    assert [cell["why_not"] for cell in cells] == [
        "step 1: it moves a leader of __transaction_state"
    ] * 3
    assert [cell["agrees"] for cell in cells] == [None] * 3
    # It said "0 of 0 runs agree", and ended with 0.
    assert (
        f"txnsim: nothing was played on {kafka.bootstrap}: step 1: it moves a leader of "
        "__transaction_state. Name a run of the story that fits with --mode"
    ) in err
    assert run(kafka, *words) == 2
    assert "agree" not in capfd.readouterr().out


def test_another_verdict_is_told_with_its_reason(
    kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    refused = {"do": "error", "error": "INVALID_TXN_STATE"}
    kafka.faults.arm(id="refused", point="client.request", api="EndTxn", action=refused)
    try:
        assert run(kafka, STORY, "--mode", "TV2+", "--armed", "--yes", "--quiet") == 1
    finally:
        kafka.faults.disarm("refused")
    out = capfd.readouterr().out
    assert "differs" in out
    assert "commit is answered INVALID_TXN_STATE" in out
    assert "0 of 1 runs on real brokers agree" in out


def test_modes_that_the_cluster_is_not_are_left_out(
    kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    """They were played, waited for what could not come, and accused the cluster."""
    assert run(kafka, "z01", "--armed", "--yes", "--json") == 0
    cells = {cell["run"]: cell for cell in json.loads(capfd.readouterr().out)}
    cluster = "transaction.version 2 with verification, strict markers (KIP-1228)"
    assert {name: cell["why_not"] for name, cell in cells.items()} == {
        **dict.fromkeys(("V-", "V+", "TV2"), f"not this cluster's generation: {cluster}"),
        "TV2+": "",
    }
    assert cells["TV2+"]["agrees"]


@pytest.mark.parametrize(("strikes", "agrees"), [(1, True), (3, None)])
def test_brokers_in_trouble_are_not_accused_but_asked_again(
    strikes: int, agrees: object, kafka: SimulatedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    trouble = {"do": "error", "error": "NOT_ENOUGH_REPLICAS"}
    kafka.faults.arm(
        id="busy", point="client.request", api="Produce", limit=strikes, action=trouble
    )
    try:
        run(kafka, STORY, "--mode", "TV2+", "--armed", "--yes", "--json")
    finally:
        kafka.faults.disarm("busy")
    out, err = capfd.readouterr()
    (cell,) = json.loads(out)
    assert cell["agrees"] is agrees
    assert err.count("no verdict, brokers answer NOT_ENOUGH_REPLICAS") == strikes
    expected = "" if agrees else "no verdict: brokers answer NOT_ENOUGH_REPLICAS, 3 times"
    assert cell["why_not"] == expected


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("127.0.0.1:1", "say --yes"),
        ("apache-4.3.1,127.0.0.1:1", "expected releases such as apache-4.4.0, or HOST:PORT"),
        ("kafka", "expected releases such as apache-4.4.0, or HOST:PORT"),
        ("apache-latest", "expected a release of Apache Kafka such as apache-4.4.0"),
    ],
)
def test_a_place_that_is_none_is_refused(
    where: str, complaint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", "run", "z01", "--on", where]) == 2
    assert complaint in capfd.readouterr().err


@pytest.mark.parametrize("option", [("--trace", "x"), ("--html", "x.html"), ("--inputs", "[]")])
def test_options_of_virtual_time_are_refused(
    option: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenario", "run", "z01", "--on", "apache-4.3.1", *option]) == 2
    assert f"{option[0]} is of no use with --on" in capfd.readouterr().err


def test_other_players_are_refused_where_sasl_is_wanted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="a" password="b";\n'
    )
    where = ("--on", "127.0.0.1:1", "--yes", "--command-config", str(config))
    words = ["scenario", "run", "z01", "--armed", "--mode", "V-", "--program", "true", *where]
    assert main(words) == 2
    assert "only our own client can log in by SASL" in capfd.readouterr().err
