"""``logs decisions --story``: the story of a finding makes the same finding on the simulator."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from txnsim.cli.main import main
from txnsim.txn.decision_audit import AuditState
from txnsim.txn.decision_report import DecisionFinding, DecisionPlace, MarkerPlace
from txnsim.txn.finding_facts import EndingMarker, FindingFacts
from txnsim.types import TopicPartition
from txnsim_lab.scenario.incidents import INCIDENTS, write_incident
from txnsim_spark.cli.logs._decision_story import differences_between, report_of

pytest.importorskip("duckdb", reason="the extra spark is not installed")


@pytest.mark.parametrize("name", [name for name, incident in INCIDENTS.items() if incident.states])
def test_the_story_of_an_incidents_finding_makes_it_again(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disks = str(tmp_path / "disks")
    write_incident(name).write(Path(disks))
    main(["logs", "decisions", disks, "--json"])
    for finding in json.loads(capsys.readouterr().out)["findings"]:
        assert main(["logs", "decisions", disks, "--story", finding["id"], "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["is_same"], report["differences"]) == (True, [])
        assert report["finding"] == finding
        assert report["guesses"]


@pytest.mark.parametrize("name", ["lost-commit-goes-on", "wrong-commit", "operators-marker"])
def test_a_printed_story_is_a_scenario_that_comes_out_as_declared(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disks = str(tmp_path / "disks")
    write_incident(name).write(Path(disks))
    main(["logs", "decisions", disks, "--json"])
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert main(["logs", "decisions", disks, "--story", finding["id"]]) == 0
    output = capsys.readouterr()
    assert f"played: its disks have the finding {finding['id']} again" in output.err
    guesses = [line for line in output.err.splitlines() if line.startswith("guessed: ")]
    for guess in guesses:
        assert f"# Guessed: {guess.removeprefix('guessed: ')}.\n" in output.out
    file = tmp_path / "found.yaml"
    file.write_text(output.out, "utf-8")
    assert main(["scenario", "run", str(file), "--quiet"]) == 0


def test_what_is_no_finding_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_incident("lost-commit").write(tmp_path)
    assert main(["logs", "decisions", str(tmp_path), "--story", "no-marker:orders-0"]) == 2
    assert "no finding" in capsys.readouterr().err


COMMIT = DecisionPlace(offset=9, partition=0, at_ms=1, outcome="commit")


def finding_of(state: AuditState, *outcomes: str, **finding_fields: object) -> DecisionFinding:
    """A finding about three records of orders-0, with markers of these outcomes."""
    markers = tuple(
        MarkerPlace(offset=20 + number, outcome=outcome, at_ms=2, coordinator_epoch=0)
        for number, outcome in enumerate(outcomes)
    )
    has_decision = state in (AuditState.NO_MARKER, AuditState.CONTRADICTS, AuditState.TWICE)
    finding = DecisionFinding(
        id=f"{state}:orders-0:decision-0-9",
        state=state,
        transactional_id="shop",
        producer_id=77,
        producer_epoch=5,
        topic="orders",
        partition=0,
        decision=COMMIT if has_decision else None,
        markers=markers,
        first_offset=17,
        last_offset=19,
        records=3,
        reads_as="aborted, though their commit was acknowledged",
        explained_by=None,
        explanation="",
        advice="",
    )
    return msgspec.structs.replace(finding, **finding_fields)


NO_RECORD = {"records": 0, "first_offset": None, "reads_as": "no record is concerned"}
OPEN = "unread: readers stop at offset 17, though their commit was acknowledged"
MANY_OTHERS = tuple(TopicPartition("payments", number) for number in range(7))
FACTS = {
    "no record, old flow": FindingFacts(
        finding=finding_of(AuditState.NO_MARKER, **NO_RECORD), is_v2=False
    ),
    "a lost marker, and many partitions": FindingFacts(
        finding=finding_of(AuditState.NO_MARKER, reads_as=OPEN),
        is_v2=True,
        other_partitions=MANY_OTHERS,
    ),
    "a lost marker, and an operator's abort of the next epoch": FindingFacts(
        finding=finding_of(AuditState.NO_MARKER),
        is_v2=False,
        ended_by=EndingMarker(is_commit=False, is_decided=True),
    ),
    "an abort in front of the commit": FindingFacts(
        finding=finding_of(AuditState.CONTRADICTS, "abort", "commit", explained_by="operator"),
        is_v2=True,
    ),
    "an operator's abort in front of the commit": FindingFacts(
        finding=finding_of(AuditState.CONTRADICTS, "abort", "commit", explained_by="operator"),
        is_v2=False,
    ),
    "an abort behind the commit": FindingFacts(
        finding=finding_of(
            AuditState.CONTRADICTS,
            *("commit", "abort"),
            reads_as="committed",
        ),
        is_v2=True,
    ),
    "a commit sent again": FindingFacts(
        finding=finding_of(
            AuditState.TWICE, "commit", "commit", explained_by="sent-again", **NO_RECORD
        ),
        is_v2=True,
        leader_moves=2,
    ),
    "records behind, of an entry that was cut off, old flow": FindingFacts(
        finding=finding_of(
            AuditState.RECORDS_BEHIND,
            explained_by="z34",
            reads_as="unread: readers stop at offset 17",
        ),
        is_v2=False,
    ),
    "a marker of a producer that nobody knows": FindingFacts(
        finding=finding_of(
            AuditState.WITHOUT_DECISION,
            "commit",
            transactional_id=None,
            explained_by="operator",
            **NO_RECORD,
        ),
        is_v2=False,
    ),
    "an operator's marker for nothing": FindingFacts(
        finding=finding_of(
            AuditState.WITHOUT_DECISION, "abort", explained_by="operator", **NO_RECORD
        ),
        is_v2=True,
    ),
    "an operator's marker for an entry that was cut off": FindingFacts(
        finding=finding_of(
            AuditState.WITHOUT_DECISION, "commit", explained_by="operator", reads_as="committed"
        ),
        is_v2=True,
    ),
    "an old epoch, and open": FindingFacts(
        finding=finding_of(
            AuditState.EPOCH_BACK,
            explained_by="fence-forgotten",
            reads_as="unread: readers stop at offset 17",
        ),
        is_v2=True,
    ),
}


@pytest.mark.parametrize("name", FACTS)
def test_every_way_leads_to_its_finding(name: str) -> None:
    report = report_of(FACTS[name])
    assert report.is_same, report.differences
    assert report.differences == ()


def test_a_story_writes_twenty_records_of_many() -> None:
    finding = finding_of(AuditState.NO_MARKER, records=1_000_000, reads_as=OPEN)
    report = report_of(FindingFacts(finding=finding, is_v2=True))
    assert report.is_same
    assert report.differences == ("records: 1000000 on the disks, 20 in the story",)
    assert "20 of 1,000,000 records are enough" in report.guesses


@pytest.mark.parametrize(
    ("fields", "expected_reason"),
    [
        ({"topic": "__consumer_offsets"}, "positions of groups"),
        ({"partition": 100}, "100 partitions at most"),
        (NO_RECORD, "no record of the transaction"),
    ],
)
def test_what_can_be_no_story_is_said_with_the_reason(
    fields: dict[str, object], expected_reason: str
) -> None:
    report = report_of(FindingFacts(finding=finding_of(AuditState.NO_MARKER, **fields), is_v2=True))
    assert expected_reason in (report.why_no_story or "")
    assert (report.status, report.story) == (4, None)


def test_differences_leave_out_offsets_ids_and_times() -> None:
    finding = finding_of(AuditState.NO_MARKER, reads_as=OPEN)
    played_finding = msgspec.structs.replace(
        finding, producer_id=0, first_offset=0, reads_as=OPEN.replace("17", "0")
    )
    assert differences_between(finding, played_finding) == ()
    other_finding = msgspec.structs.replace(played_finding, records=2, explained_by="z34")
    assert differences_between(finding, other_finding) == (
        "records: 3 on the disks, 2 in the story",
        "explained by: nothing on the disks, z34 in the story",
    )
