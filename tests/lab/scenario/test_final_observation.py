from __future__ import annotations

import pytest

from tests.support.stories import call, seen, sentences, told, transaction
from txnsim_lab.check.observations import Gauge, Healed, Listed, Producers, Read
from txnsim_lab.scenario.final_observation import LATE_GAUGE, LONG_MS


def test_everybody_looks_twice_at_the_end_and_twice_more_after_a_cure() -> None:
    steps = [call("init-producer-id"), *transaction("r1")]
    result = told(steps, cure=[{"advance": "1s"}])
    assert len(seen(result, Listed)) == 4
    assert len(seen(result, Healed)) == 1
    assert {(one.name, one.value) for one in seen(result, Gauge)} == {(LATE_GAUGE, 0)}
    partitions = {(one.topic, one.partition) for one in seen(result, Producers)}
    assert partitions == {("t", 0), ("t", 1), ("in", 0)}
    times = [one.at_ms for one in seen(result, Listed)]
    assert times[1] - times[0] > LONG_MS
    assert {one.isolation for one in seen(result, Read)} == {"read_committed", "read_uncommitted"}


@pytest.mark.costly
@pytest.mark.slow
def test_a_partition_without_a_leader_is_no_obstacle() -> None:
    topics = {"t": {"partitions": 1, "replication-factor": 1, "leaders": [2]}}
    result = told([{"cluster": {"do": "kill", "broker": 2}}], topics=topics)
    assert result.as_declared, result.verdict
    assert "it is not known who writes to t-0" in sentences(result)
