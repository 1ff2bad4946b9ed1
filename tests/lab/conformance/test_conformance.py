"""The casebook to a broker of others: what passes, what differs, and what is left behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main
from txnsim.client.raw.connection import RawConnection
from txnsim.testing import SimulatedKafka
from txnsim_lab.conformance._book.answers import Answers
from txnsim_lab.conformance._book.casebook_reader import cases, choose_cases
from txnsim_lab.conformance._book.transcript import Transcript
from txnsim_lab.conformance._name_prefixes import java_hash, prefix_without_hash
from txnsim_lab.conformance.results import CaseOutcome, CaseResult, ConformanceResults, junit_xml
from txnsim_lab.conformance.run import (
    NAME_PREFIX,
    ConformanceOptions,
    needed_settings,
    run_conformance,
    unplayable_reason,
)

METADATA, LIST_GROUPS, DELETE_GROUPS = 3, 16, 42


def settings_for(release_name: str = "4.4") -> dict[str, object]:
    return {name: int(value) for name, value in needed_settings(release_name).items()}


SETTINGS = settings_for()
SOME = ("coordinator/end_txn_v5", "groups/consumer", "groups/migration", "coordinator/listing")


@pytest.fixture
def kafka() -> Iterator[SimulatedKafka]:
    with SimulatedKafka(brokers=1, settings=SETTINGS) as cluster:
        yield cluster


def run_cases(kafka: SimulatedKafka, *only: str, release: str = "4.4") -> ConformanceResults:
    conformance_options = ConformanceOptions(bootstrap=kafka.bootstrap, release=release, only=only)
    return run_conformance(conformance_options, lambda _result, _total: None)


def names_on(kafka: SimulatedKafka) -> list[str]:
    """The names of all topics and groups of a cluster."""
    with RawConnection(kafka.bootstrap) as connection:
        topics = [topic.name for topic in connection.ask(METADATA, 12, topics=None).topics]
        return topics + [group.group_id for group in connection.ask(LIST_GROUPS, 5).groups]


def test_a_broker_that_answers_as_kafka_passes_and_is_left_clean(kafka: SimulatedKafka) -> None:
    results = run_cases(kafka, *SOME)
    assert [
        result.case for result in results.results if result.outcome is CaseOutcome.DIFFERS
    ] == []
    assert results.outcome_count(CaseOutcome.PASSED) >= 90
    assert results.left_behind == ()
    assert [name for name in names_on(kafka) if name.startswith(NAME_PREFIX)] == []
    kept_rules, broken_rules = results.rules()
    assert "end.v5.commit" in kept_rules
    assert not broken_rules


@pytest.mark.costly
def test_an_answer_of_its_own_is_shown_beside_kafkas_with_its_rule(kafka: SimulatedKafka) -> None:
    kafka.faults.arm(
        point="client.request", api="EndTxn", action={"do": "error", "error": "NOT_COORDINATOR"}
    )
    results = run_cases(kafka, "coordinator/end_txn/empty-session")
    (first_result, *_) = results.results
    assert first_result.outcome is CaseOutcome.DIFFERS
    assert first_result.differences[0].request.startswith("EndTxn v0 of p")
    assert first_result.differences[0].rules == ("end.v4.empty-commit",)
    assert first_result.differences[0].fields == (
        "error_code: '48 invalid_txn_state' != '16 not_coordinator'",
    )
    assert "end.v4.empty-commit" in results.rules()[1]


@pytest.mark.costly
def test_an_older_release_has_answers_of_its_own() -> None:
    only = ("coordinator/fencing",)
    with SimulatedKafka(brokers=1, settings=settings_for("3.9"), as_version="3.9") as older_kafka:
        assert run_cases(older_kafka, *only, release="3.9").outcome_count(CaseOutcome.DIFFERS) == 0
        assert run_cases(older_kafka, *only, release="4.4").outcome_count(CaseOutcome.DIFFERS) > 0


def test_cases_that_need_more_of_a_cluster_do_not_apply() -> None:
    (death_case,) = choose_cases(["leader/deaths"])[:1]
    (climbing_case,) = choose_cases(["coordinator/exhausted"])[:1]
    assert unplayable_reason(death_case, 2).startswith("it needs other brokers or settings")
    assert unplayable_reason(climbing_case, 2) == "it goes through all epochs of a producer"


@pytest.mark.costly
def test_topics_of_others_are_a_reason_to_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedKafka(brokers=1, settings=SETTINGS, topics={"orders": 1}) as kafka:
        _refuse_beside_others(kafka, capsys)


def _refuse_beside_others(kafka: SimulatedKafka, capsys: pytest.CaptureFixture[str]) -> None:
    only = ["--only", "coordinator/end_txn/commit-v4"]
    assert main(["conformance", kafka.bootstrap, *only]) == 2
    assert "topics of others (orders)" in capsys.readouterr().err
    assert main(["conformance", kafka.bootstrap, *only, "--beside-others"]) == 0
    assert "orders" in names_on(kafka)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--release", "3.6"], "Kafka 3.6 was not asked; answers are known of 3.9, 4.4"),
        (["--only", "no/such"], "no case is called no/such"),
        (["--release", "7"], "there is no release '7'"),
    ],
)
def test_what_can_not_be_played_is_said(
    kafka: SimulatedKafka, capsys: pytest.CaptureFixture[str], options: list[str], reason: str
) -> None:
    assert main(["conformance", kafka.bootstrap, *options]) == 2
    assert reason in capsys.readouterr().err


def test_a_cluster_of_several_brokers_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedKafka(brokers=3) as kafka:
        assert main(["conformance", kafka.bootstrap.split(",")[0]]) == 2
    assert "3 brokers" in capsys.readouterr().err
    assert main(["conformance", "127.0.0.1:1"]) == 2
    assert main(["conformance"]) == 2


def test_results_as_json_and_for_junit(
    kafka: SimulatedKafka, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "results.xml"
    options = ["--only", "coordinator/markers", "--only", "leader/deaths", "--junit", str(file)]
    assert main(["conformance", kafka.bootstrap, *options, "--json"]) == 0
    output = capsys.readouterr().out
    report = json.loads(output[output.index("{") :])  # lines of the cluster's log come first
    suite = ElementTree.parse(file).getroot()
    assert int(suite.attrib["tests"]) == len(report["results"]) == len(suite)
    assert suite.attrib["failures"] == "0"
    skipped_count = sum(case.file == "leader/deaths" for case in cases())
    assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped")) == skipped_count
    assert suite[0].attrib["classname"] == "coordinator.markers"


def test_a_failure_is_one_for_junit(kafka: SimulatedKafka) -> None:
    kafka.faults.arm(
        point="client.request", api="EndTxn", action={"do": "error", "error": "NOT_COORDINATOR"}
    )
    suite = ElementTree.fromstring(
        junit_xml(run_cases(kafka, "coordinator/end_txn/empty-session-v4"))
    )
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "end.v4.empty-commit" in str(failure.text)


@pytest.mark.costly
def test_tls_and_a_login_lead_to_the_broker_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--security", "demo", "--security-dir", str(tmp_path))
    with TxnsimServer(brokers=1, arguments=arguments) as server:
        address = server.ready["security"]["bootstrap"]["SASL_SSL"]
        config = ["--command-config", str(tmp_path / "admin.properties")]
        only = ["--only", "coordinator/end_txn/commit"]
        assert main(["conformance", address, *config, *only]) == 0
        wrong_file = tmp_path / "wrong.properties"
        file_text = (tmp_path / "admin.properties").read_text()
        wrong_file.write_text(file_text.replace('password="', 'password="not-'))
        assert main(["conformance", address, "--command-config", str(wrong_file), *only]) != 0
    assert "5 passed, 0 differs" in capsys.readouterr().out


def test_what_a_broker_needs_is_a_file_of_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--needs"]) == 0
    printed_settings = dict(
        printed_line.split("=") for printed_line in capsys.readouterr().out.splitlines()
    )
    assert printed_settings == needed_settings()
    assert printed_settings["group.initial.rebalance.delay.ms"] == "0"
    assert "group.consumer.assignment.interval.ms" in printed_settings


def test_a_broker_needs_no_setting_that_its_release_lacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["conformance", "--needs", "--release", "3.9"]) == 0
    output = capsys.readouterr().out
    assert "group.initial.rebalance.delay.ms=0" in output
    assert "group.consumer.assignment.interval.ms" not in output


def test_a_prefix_and_the_number_of_a_broker_do_not_tell_answers_apart() -> None:
    first_transcript, other_transcript = (
        Transcript(play_prefix="case-"),
        Transcript(play_prefix="of-us-case-", run_prefix="of-us-", broker_id=7),
    )
    first_transcript.note(
        "asked", {"leader_id": 1, "group": "case-g", "metadata": b"\x00\x06case-t\xff"}
    )
    other_transcript.note(
        "asked", {"leader_id": 7, "group": "of-us-case-g", "metadata": b"\x00\x0cof-us-case-t\xff"}
    )
    assert first_transcript.entries == other_transcript.entries


@pytest.mark.costly
def test_a_prefix_does_not_change_the_hash_of_a_name() -> None:
    assert java_hash("billing") == 0xFFFFFFFF & -109829509
    first_prefix, second_prefix = (prefix_without_hash(NAME_PREFIX) for _ in range(2))
    assert first_prefix != second_prefix
    assert java_hash(f"{first_prefix}billing") == java_hash("billing")
    assert first_prefix.startswith(NAME_PREFIX)


def test_the_reference_is_asked_where_a_release_answers_the_same() -> None:
    older_answers, newest_answers = Answers.of_release("3.9"), Answers.of_release("4.4")
    assert older_answers.kafka == "3.9.2"
    case = ("coordinator/end_txn", "commit-v4", 0)
    assert older_answers.of_case(*case) == newest_answers.of_case(*case)
    assert older_answers.of_case("coordinator/end_txn", "no-such", 0) is None


def test_what_is_stopped_is_cleaned_up_and_tells_what_is_known_and_what_is_left(
    kafka: SimulatedKafka,
) -> None:
    cases_told: list[tuple[str, int]] = []

    def tell(result: CaseResult, total_count: int) -> None:
        cases_told.append((result.case, total_count))
        if result.outcome is CaseOutcome.PASSED:
            raise KeyboardInterrupt

    conformance_options = ConformanceOptions(
        bootstrap=kafka.bootstrap, release="4.4", only=("coordinator/end_txn",)
    )
    conformance = run_conformance(conformance_options, tell, stops=(KeyboardInterrupt,))
    assert conformance.is_stopped
    assert 0 < len(conformance.results) == len(cases_told) < len(conformance.cases)
    assert {total_count for _, total_count in cases_told} == {len(conformance.cases)}
    assert conformance.files_left() == ["coordinator/end_txn"]
    assert conformance.left_behind == ()
    with pytest.raises(KeyboardInterrupt):
        run_conformance(conformance_options, tell)
    assert not [name for name in names_on(kafka) if name.startswith("txnsim-conformance-")]


def test_progress_has_a_total_in_a_file_too(
    kafka: SimulatedKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["conformance", kafka.bootstrap, "--only", "coordinator/end_txn"])
    printed_lines = [
        printed_line
        for printed_line in capsys.readouterr().err.splitlines()
        if " cases, " in printed_line
    ]
    assert 2 <= len(printed_lines) <= 10
    first_line, last_line = printed_lines[0], printed_lines[-1]
    total = last_line.split()[2]
    assert first_line.split()[1:3] == ["of", total]
    assert last_line.startswith(f"{total} of {total} cases, ")
