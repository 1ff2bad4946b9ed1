"""A story leaves the disks of its brokers."""

from __future__ import annotations

from pathlib import Path

from txnsim.storage.names import PartitionDirectory
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.story_disks import play_onto_disks


def test_the_disks_of_a_story_have_its_replicas_and_its_verdict_is_the_usual_one(
    tmp_path: Path,
) -> None:
    scenario_run = ScenarioRun(scenario=find("z34")[1], run="V-")
    disks = play_onto_disks(scenario_run, tmp_path)
    assert [path.name for path in disks.directories] == ["broker-1", "broker-2", "broker-3"]
    assert disks.result.verdict == run_in_virtual_time(scenario_run).verdict
    assert disks.stopped_at_ms > 0
    topics = {
        replica.topic_partition.topic
        for path in disks.directories
        for replica in PartitionDirectory.all_in(path)
    }
    assert {*scenario_run.scenario.topics, "__transaction_state"} <= topics
