"""docs/forensics.md, played: directories of a simulated cluster are judged as the page shows, and
as the living cluster was judged.

``python -m tests.test_forensics_page --write`` puts what is printed now into the page.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import jsonschema
import pytest

from tests.test_repair_page import BLOCK, ROOT, practise_server, run_typed
from txnsim_spark.forensics.findings import Finding, json_schema

FORENSICS: Final = ROOT / "docs" / "forensics.md"
BROKERS: Final = (1, 2, 3)
COMMAND: Final = "$ txnsim logs find-hanging "
JUDGED: Final = ("topic", "partition", "producer_id", "producer_epoch", "start_offset", "verdict")


class PlayedPage(NamedTuple):
    """The output of the page's commands, and the findings in it."""

    shown: str
    status: int
    offline: list[tuple[object, ...]]
    """Findings of the directories."""
    living: list[tuple[object, ...]]
    without: dict[int, list[str]]
    """Broker that is taken away -> what is said of the replicas, per finding."""


def block_of() -> re.Match[str]:
    """The page's block of code that shows the command."""
    (block,) = (
        block
        for block in BLOCK.finditer(FORENSICS.read_text("utf-8"))
        if block[2].startswith(COMMAND)
    )
    return block


def play_page() -> PlayedPage:
    """Make the situation that docs/repair.md has to practise on, write it, judge it."""
    with practise_server() as server, tempfile.TemporaryDirectory() as name:
        address = server.bootstrap.split(",")[0]
        question = f"$ txnsim txns --bootstrap-server {address} find-hanging --all --json"
        live_rows = json_of(run_typed(question, address, Path(name))[0])
        run_typed(f"$ txnsim logs write shot --http {server.http}", address, Path(name))
        command, *_ = block_of()[2].splitlines()
        output, status = run_typed(command, address, Path(name))
        offline = json_of(run_typed(f"{COMMAND}--json shot", address, Path(name))[0])
        summaries = {
            broker: _replicas_told(
                run_typed(f"{COMMAND}--json {_all_but(broker)}", address, Path(name))[0]
            )
            for broker in BROKERS
        }
    return PlayedPage(
        re.sub(r"as of \S+Z\.", "as of 2026-11-20T18:59:27Z.", output),
        status,
        [tuple(finding[field] for field in JUDGED) for finding in offline["findings"]],
        list(_living(live_rows)),
        summaries,
    )


def _all_but(broker: int) -> str:
    return " ".join(f"shot/broker-{broker_id}" for broker_id in BROKERS if broker_id != broker)


def _replicas_told(output: str) -> list[str]:
    findings: list[dict[str, Any]] = json_of(output)["findings"]
    return [finding["evidence"]["replicas"]["summary"] for finding in findings]


def json_of(output: str) -> dict[str, list[dict[str, object]]]:
    """The JSON object that follows the lines for people."""
    report: dict[str, list[dict[str, object]]] = json.loads(output[output.index("\n{") :])
    return report


def _living(report: dict[str, list[dict[str, object]]]) -> Iterator[tuple[object, ...]]:
    for row in report["findings"]:
        finding = row["finding"]
        assert isinstance(finding, dict)
        partition = finding["transaction"]["partition"]
        producer = finding["transaction"]["producer"]
        yield (
            partition["topic"],
            partition["partition"],
            producer["producer_id"],
            producer["producer_epoch"],
            producer["txn_start_offset"],
            finding["verdict"],
        )


@pytest.mark.costly
@pytest.mark.slow
def test_the_page_shows_what_is_printed_and_directories_are_judged_as_the_cluster_was() -> None:
    forensics = play_page()
    assert block_of()[2] == forensics.shown
    assert forensics.status == 3
    assert sorted(forensics.offline) == sorted(forensics.living)
    assert len(forensics.offline) == 3
    for broker, summaries in forensics.without.items():
        assert len(summaries) == 3
        assert all(
            summary.startswith("2 of 3 replicas seen, in sync {1,2,3}, leader ")
            for summary in summaries
        )
        assert all(summary.endswith(f"; not seen: broker {broker}") for summary in summaries)


def test_the_finding_of_the_page_is_as_the_schema_says() -> None:
    (page_finding,) = (
        block[2]
        for block in BLOCK.finditer(FORENSICS.read_text("utf-8"))
        if block[2].startswith("{")
    )
    finding = json.loads(page_finding)
    assert tuple(finding) == Finding.__struct_fields__
    schema = {**json_schema(), "$ref": "#/$defs/Finding"}
    jsonschema.validate(finding, schema)


def write() -> None:
    """Write the present output of the command into the page."""
    block, page_text = block_of(), FORENSICS.read_text("utf-8")
    output = play_page().shown
    FORENSICS.write_text(page_text[: block.start(2)] + output + page_text[block.end(2) :], "utf-8")


if __name__ == "__main__":
    assert sys.argv[1:] == ["--write"], "--write"
    write()
