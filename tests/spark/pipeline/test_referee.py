"""The seeds of a match on Spark give the same verdict as on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from txnsim_lab.referee.design import read_design
from txnsim_lab.referee.matches import Match, SeedsTask, _play_task, play_match
from txnsim_lab.referee.pairs import Designs
from txnsim_lab.referee.verdict import Pair
from txnsim_lab.referee.writing import as_json
from txnsim_spark.campaign_engine import SparkEngine

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIX = """
from txnsim_lab.referee.plugin import replaces

@replaces("coordinator.may-answer")
def may_answer(original, owned_partition, log, release_rules):
    return log.leads(owned_partition.partition, owned_partition.coordinator_epoch)
"""


def match_of(seeds: range, plugin_file: Path, *, seconds_max: float | None = None) -> Match:
    designs = Designs(read_design("4.2"), read_design(f"4.3,{plugin_file}"))
    return Match(designs=designs, seeds=seeds, seconds_max=seconds_max)


def test_a_match_on_spark_has_the_verdict_of_this_machine(
    spark: SparkSession, tmp_path: Path
) -> None:
    plugin_file = tmp_path / "fix.py"
    plugin_file.write_text(FIX)
    match = match_of(range(10), plugin_file)
    pairs: list[Pair] = []
    verdict_on_spark = play_match(
        match, on_pair=pairs.append, start_engine=lambda: SparkEngine(spark)
    )
    assert sorted(int(pair.name) for pair in pairs) == [*match.seeds]
    verdict_here = play_match(match)
    assert verdict_here.differs, "seed 0 tells the two designs apart"
    assert as_json(verdict_on_spark) == as_json(verdict_here)


def test_a_worker_begins_no_seed_when_the_time_is_up(spark: SparkSession, tmp_path: Path) -> None:
    plugin_file = tmp_path / "fix.py"
    plugin_file.write_text(FIX)
    designs = match_of(range(0), plugin_file).designs
    tasks = [SeedsTask(seeds=(0, 1), designs=designs, until_ms=0)]
    assert not [*SparkEngine(spark).rows(tasks, SeedsTask, _play_task, "pair binary")]


def test_no_engine_is_started_without_a_seed_or_without_time(tmp_path: Path) -> None:
    plugin_file = tmp_path / "fix.py"
    plugin_file.write_text(FIX)

    def start() -> SparkEngine:
        pytest.fail("an engine was started")

    for match in (
        match_of(range(0), plugin_file),
        match_of(range(4), plugin_file, seconds_max=0.0),
    ):
        assert not play_match(match, start_engine=start).anomalies
