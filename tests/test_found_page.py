"""docs/found.md: its table of releases is what real brokers came to, as it was kept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
HANGS: Final = "stuck-last-stable-offset"
ROW: Final = re.compile(r"^\| (\d\S+) \| ([^|]+) \| (hangs) \| (healthy) \|$", re.MULTILINE)


def test_each_release_of_the_table_hangs_on_real_brokers_and_only_with_the_fault() -> None:
    kept = map(json.loads, (ROOT / "tests/real/verdicts.jsonl").read_text().splitlines())
    rows = [row for row in kept if row["animal"] == "Z34"]
    page = (ROOT / "docs/found.md").read_text("utf-8")
    told = {
        (release, run): (hangs, healthy)
        for release, runs, hangs, healthy in ROW.findall(page)
        for run in re.findall(r"`([^`]+)`", runs)
    }
    assert told.keys() == {(row["on"], row["run"]) for row in rows}
    for row in rows:
        seen, _, cured = row["real"].partition("; cured: ")
        assert (HANGS in seen) == (row["take"] == "armed"), row
        assert HANGS not in cured, f"the abort has not ended it: {row}"
