"""The page on a commit without a leader shows what a stock client sees of both kinds of release."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.real import leaderless

PAGE = Path(__file__).resolve().parents[2] / "docs" / "commit-without-a-leader.md"


@pytest.mark.parametrize("cluster_name", ["kafka-4.2.2", "kafka-4.4.0"])
def test_the_page_shows_what_was_seen(cluster_name: str) -> None:
    (block,) = re.findall(
        rf"{re.escape(cluster_name)}:\n((?:  {{.*}}\n)+)", PAGE.read_text("utf-8")
    )
    events = [json.loads(line) for line in block.splitlines()]
    assert leaderless.comparable_events(events) == leaderless.expected_events(cluster_name)
