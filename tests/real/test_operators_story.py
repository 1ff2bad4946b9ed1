"""operators_story.md, told again on three brokers of a real Apache Kafka: its facts hold."""

from __future__ import annotations

import json

import pytest

from tests.spark.pipeline.operators_story import CULPRIT, PAGE, READERS, tell
from tests.spark.pipeline.told_page import names_in

pytestmark = pytest.mark.real


def test_the_story_leads_from_a_lag_to_one_command_that_ends_it() -> None:
    sections, start_offset = tell()
    assert set(sections) == names_in(PAGE)
    (waiter,) = [line for line in sections["waiting"].splitlines() if line.startswith(READERS)]
    assert CULPRIT in waiter
    assert "hanging" in waiter
    command = "repair --topic orders --partition 0 --yes"
    assert command in sections["find-hanging"]
    evidence = json.loads(sections["evidence"])
    assert (evidence["status"], evidence["start_batch"]) == ("sound", "this_producers")
    assert evidence["replicas"]["seen"] == evidence["replicas"]["exist"] == [1, 2, 3]
    assert [line.split()[:3] for line in sections["lost"].splitlines() if "open" in line] == [
        ["orders", str(start_offset + number), "open"] for number in range(2)
    ]
    assert READERS not in sections["after"]
