"""The facts of engineers_story.md hold when the story is run again with three brokers."""

from __future__ import annotations

import re

import pytest

from benchmarks.store_data import LogHours
from tests.spark.pipeline.engineers_story import PAGE, tell
from tests.spark.pipeline.told_page import names_in

pytestmark = [pytest.mark.spark, pytest.mark.real, pytest.mark.slow]


def test_the_story_finds_what_hung_in_that_hour_and_its_records() -> None:
    outputs = tell(LogHours(brokers=3, partitions=10, transactions=2))
    assert names_in(PAGE) == set(outputs)
    (printed_line,) = [
        printed_line
        for printed_line in outputs["hour"].splitlines()
        if printed_line.startswith("orders")
    ]
    columns = printed_line.split("\t")
    assert (columns[1], columns[2]) == ("1", "900001"), "6 hangs since 9 h"
    assert columns[4:6] == ["2026-09-21T18:00:00Z", "sound"]
    (row,) = [
        printed_line.split("|")
        for printed_line in outputs["lost"].splitlines()
        if "orders" in printed_line
    ]
    assert [cell_text.strip() for cell_text in row[1:6]] == [
        "orders",
        "1",
        "900001",
        columns[3],
        "10",
    ]
    counts_of_urls = {
        name: int(re.findall(r"asked for: ([\d,]+)", outputs[name])[0].replace(",", ""))
        for name in ("search", "first", "again", "lost")
    }
    assert counts_of_urls["first"] == 10 * 3 * 24 + 3, (
        "every segment, and three logs of coordinators"
    )
    assert (
        max(counts_of_urls["search"], counts_of_urls["again"], counts_of_urls["lost"])
        < counts_of_urls["first"] / 2
    )
