"""reports/: each report is whole, its recorded output has what it claims, and real brokers confirm
that again.
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.real.reports import LAST_LINE, PLAYS, REPORTS
from tests.support.apache_kafka import REPOSITORY

SECTIONS: Final = ("What happens", "Reproduction", "The place", "A proposed change")
WITHOUT_A_TICKET: Final = re.compile(r"\| none(?:: \[report\]\(\.\./reports/(\S+)/)?")


def test_every_report_is_played_and_in_the_list() -> None:
    folders = {path.parent.name for path in REPORTS.glob("*/README.md")}
    assert folders == PLAYS.keys()
    listed_folders = re.findall(
        r"^\| \[.+\]\((\S+)/README\.md\)", (REPORTS / "README.md").read_text(), re.M
    )
    assert sorted(listed_folders) == sorted(folders)


@pytest.mark.parametrize("file_name", PLAYS)
def test_a_report_has_all_its_parts(file_name: str) -> None:
    page_text = (REPORTS / file_name / "README.md").read_text("utf-8")
    assert tuple(re.findall(r"^## (.+)$", page_text, re.MULTILINE)) == SECTIONS
    for part in ("**Affects**", "**Expected**", "**Actual**", "known to us"):
        assert part in page_text
    heading, _, *lines = (REPORTS / file_name / "output.txt").read_text("utf-8").splitlines()
    assert heading.startswith("Apache Kafka 4.4.0")
    assert lines[-1] == LAST_LINE


def test_each_finding_without_a_ticket_has_its_report() -> None:
    reports = WITHOUT_A_TICKET.findall((REPOSITORY / "docs/found.md").read_text("utf-8"))
    assert sorted(reports) == sorted(
        name for name in PLAYS if name.startswith("kafka-") and "python" not in name
    )


@pytest.mark.real
@pytest.mark.parametrize("name", PLAYS)
def test_real_brokers_say_so_again(name: str) -> None:
    _, play = PLAYS[name]
    assert play("4.4.0")[-1] == LAST_LINE
