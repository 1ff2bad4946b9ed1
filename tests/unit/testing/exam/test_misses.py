"""A folder per miss has what a report needs."""

from __future__ import annotations

import asyncio
import json

from tests.unit.testing.exam.test_sitting import YES, driver
from txnsim.testing.exam.misses import folders
from txnsim.testing.exam.results import page
from txnsim.testing.exam.sitting import chosen, sit
from txnsim.testing.exam.situations import SITUATIONS


def test_a_miss_can_be_reported_and_opens_in_the_page() -> None:
    sitting = asyncio.run(sit(driver(YES), chosen(SITUATIONS, ["reads-open"]), levels=(2,)))
    files = folders(sitting, command="txnsim exam run --driver ./yes")
    assert {name.partition("/")[0] for name in files} == {"reads-open-2"}
    report = files["reads-open-2/report.md"].decode()
    assert "--only reads-open --transaction-version 2" in report
    assert "- library: yes" in report
    assert json.loads(files["reads-open-2/versions.json"])["transaction.version"] == 2
    assert b"reads-open@2" in files["reads-open-2/page.html"]
    assert 'href="all/reads-open-2/page.html"' in page(sitting, misses="all")
