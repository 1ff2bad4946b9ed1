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

from tests.test_repair_page import BLOCK, ROOT, practised, typed
from txnsim_spark.forensics.findings import Finding, json_schema

FORENSICS: Final = ROOT / "docs" / "forensics.md"
BROKERS: Final = (1, 2, 3)
COMMAND: Final = "$ txnsim logs find-hanging "
JUDGED: Final = ("topic", "partition", "producer_id", "producer_epoch", "start_offset", "verdict")


class Played(NamedTuple):
    """What was printed."""

    shown: str
    status: int
    offline: list[tuple[object, ...]]
    """Findings of the directories."""
    living: list[tuple[object, ...]]
    without: dict[int, list[str]]
    """Broker that is taken away -> what is said of the replicas, per finding."""


def block_of() -> re.Match[str]:
    """The block of the page that shows the command."""
    (found,) = (
        block
        for block in BLOCK.finditer(FORENSICS.read_text("utf-8"))
        if block[2].startswith(COMMAND)
    )
    return found


def played() -> Played:
    """Make the situation that docs/repair.md has to practise on, write it, judge it."""
    with practised() as server, tempfile.TemporaryDirectory() as name:
        address = server.bootstrap.split(",")[0]
        asked = f"$ txnsim txns --bootstrap-server {address} find-hanging --all --json"
        living = json_of(typed(asked, address, Path(name))[0])
        typed(f"$ txnsim logs write shot --url {server.http}", address, Path(name))
        command, *_ = block_of()[2].splitlines()
        shown, status = typed(command, address, Path(name))
        offline = json_of(typed(f"{COMMAND}--json shot", address, Path(name))[0])
        without = {
            broker: _replicas_told(
                typed(f"{COMMAND}--json {_all_but(broker)}", address, Path(name))[0]
            )
            for broker in BROKERS
        }
    return Played(
        re.sub(r"as of \S+Z\.", "as of 2026-11-20T18:59:27Z.", shown),
        status,
        [tuple(one[field] for field in JUDGED) for one in offline["findings"]],
        list(_living(living)),
        without,
    )


def _all_but(broker: int) -> str:
    return " ".join(f"shot/broker-{one}" for one in BROKERS if one != broker)


def _replicas_told(printed: str) -> list[str]:
    findings: list[dict[str, Any]] = json_of(printed)["findings"]
    return [one["evidence"]["replicas"]["summary"] for one in findings]


def json_of(printed: str) -> dict[str, list[dict[str, object]]]:
    """The object behind the lines for people."""
    found: dict[str, list[dict[str, object]]] = json.loads(printed[printed.index("\n{") :])
    return found


def _living(told: dict[str, list[dict[str, object]]]) -> Iterator[tuple[object, ...]]:
    for row in told["findings"]:
        finding = row["finding"]
        assert isinstance(finding, dict)
        where = finding["transaction"]["partition"]
        producer = finding["transaction"]["producer"]
        yield (
            where["topic"],
            where["partition"],
            producer["producer_id"],
            producer["producer_epoch"],
            producer["txn_start_offset"],
            finding["verdict"],
        )


@pytest.mark.costly
@pytest.mark.slow
def test_the_page_shows_what_is_printed_and_directories_are_judged_as_the_cluster_was() -> None:
    found = played()
    assert block_of()[2] == found.shown
    assert found.status == 3
    assert sorted(found.offline) == sorted(found.living)
    assert len(found.offline) == 3
    for broker, told in found.without.items():
        assert len(told) == 3
        assert all(one.startswith("2 of 3 replicas seen, in sync {1,2,3}, leader ") for one in told)
        assert all(one.endswith(f"; not seen: broker {broker}") for one in told)


def test_the_finding_of_the_page_is_as_the_schema_says() -> None:
    (shown,) = (
        block[2]
        for block in BLOCK.finditer(FORENSICS.read_text("utf-8"))
        if block[2].startswith("{")
    )
    finding = json.loads(shown)
    assert tuple(finding) == Finding.__struct_fields__
    schema = {**json_schema(), "$ref": "#/$defs/Finding"}
    jsonschema.validate(finding, schema)


def write() -> None:
    """Put what is printed now into the page."""
    block, page = block_of(), FORENSICS.read_text("utf-8")
    shown = played().shown
    FORENSICS.write_text(page[: block.start(2)] + shown + page[block.end(2) :], "utf-8")


if __name__ == "__main__":
    assert sys.argv[1:] == ["--write"], "--write"
    write()
