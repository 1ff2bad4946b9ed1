"""A campaign on Spark gives the same table as on this machine, also if workers are lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.pipeline.test_standalone import with_a_worker_killed
from tests.support.standalone_spark import StandaloneSpark
from txnsim_lab.campaigns import (
    FAILED_VERDICT,
    FOUND_VERDICT,
    TABLE_COLUMNS,
    TABLE_DDL,
    CampaignFolder,
    campaign,
    on_engine,
    on_this_machine,
)
from txnsim_lab.simulation.drawing import SimulationOptions
from txnsim_spark.campaign_engine import SparkEngine

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEEDS = range(200, 300)
"""Seeds that ``tests/lab/simulation/test_drawing.py`` does not use."""
ALIKE = range(200, 224)
LIMIT_S = 60.0

CAMPAIGN_WHEN_RELEASED = """
import sys
from pathlib import Path
from time import sleep

from txnsim_lab import campaigns
from txnsim_lab.simulation.drawing import SimulationOptions
from txnsim_spark.campaign_engine import SparkEngine
from txnsim_spark.session import spark_session

master, out, marks = sys.argv[1:]
marks, play_task = Path(marks), campaigns._play_task


def play_when_released(task):
    (worker,) = [part for part in Path.cwd().parts if part.startswith("worker-")]
    (marks / worker).touch()
    while not (marks / "released").exists():
        sleep(0.02)
    yield from play_task(task)


spark = spark_session(master)
campaigns._play_task = play_when_released
folder = campaigns.CampaignFolder(Path(out), SimulationOptions())
missing = folder.missing_ranges(range(200, 224), file_size=1000)
play, _ = campaigns.on_engine(SparkEngine(spark), SimulationOptions(), cpu_s=60)
print(*[len(rows) for rows in folder.write_rows(missing, play(missing))])
spark.stop()
"""
"""A program whose tasks wait, so that a worker can be killed while it surely has one."""


def without_machine(table: pa.Table) -> pa.Table:
    """The columns that do not differ between machines."""
    return table.drop_columns(["cpu_ms"])


def test_a_hundred_seeds_on_spark_are_what_this_machine_plays(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark_folder = CampaignFolder(tmp_path / "spark", SimulationOptions())
    play, _ = on_engine(SparkEngine(spark), SimulationOptions(), cpu_s=LIMIT_S)
    [*spark_folder.write_rows([SEEDS], play([SEEDS]))]
    table = spark_folder.read_table()
    assert table.column("seed").to_pylist() == [*SEEDS]
    assert FAILED_VERDICT not in table.column("verdict").to_pylist()
    violation_rows = [row for row in table.to_pylist() if row["verdict"] == FOUND_VERDICT]
    assert [row["seed"] for row in violation_rows if not row["causes"]] == []
    local_campaign = CampaignFolder(tmp_path / "local", SimulationOptions())
    play_here, _ = on_this_machine(SimulationOptions(), process_count=2, cpu_s=LIMIT_S)
    [*local_campaign.write_rows([ALIKE], play_here([ALIKE]))]
    assert without_machine(local_campaign.read_table()).equals(
        without_machine(table.slice(0, len(ALIKE))), check_metadata=True
    )


def test_a_frame_has_the_columns_and_a_limit_is_a_row(spark: SparkSession) -> None:
    frame = campaign(spark, None, range(2), cpu_s=0.001)
    assert tuple(frame.columns) == tuple(column.name for column in TABLE_COLUMNS)
    assert (
        frame.schema.simpleString() == f"struct<{TABLE_DDL.replace(' ', ':').replace(',:', ',')}>"
    )
    rows = frame.collect()
    assert sorted(row.seed for row in rows) == [0, 1]
    assert {row.verdict for row in rows} == {FAILED_VERDICT}
    assert "more than 0.001 s" in rows[0].failure


def test_findings_are_shrunk_on_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    folder = CampaignFolder(tmp_path, SimulationOptions())
    _, examine = on_engine(SparkEngine(spark), SimulationOptions(), cpu_s=LIMIT_S)
    (report,) = folder.examine_seeds([8], examine)
    assert [cause.anomalies for cause in report.causes] == [("z23",)]
    assert report.shrunk is not None
    assert {Path(file).name for file in report.files} > {"seed-8.plan.json", "seed-8.trace.jsonl"}


@pytest.mark.real
def test_a_worker_that_is_killed_costs_no_seed_and_doubles_none(
    cluster: StandaloneSpark, tmp_path: Path
) -> None:
    output_file = tmp_path / "out"
    command = (sys.executable, "-c", CAMPAIGN_WHEN_RELEASED, cluster.url, str(output_file))
    output, ends = with_a_worker_killed(cluster, tmp_path / "marks", command)
    assert output == f"{len(ALIKE)}\n"
    assert ends > {"Success"}, "the task of the worker that was killed has failed"
    play_here, _ = on_this_machine(SimulationOptions(), process_count=2, cpu_s=LIMIT_S)
    local_campaign = CampaignFolder(tmp_path / "local", SimulationOptions())
    [*local_campaign.write_rows([ALIKE], play_here([ALIKE]))]
    assert without_machine(CampaignFolder(output_file, SimulationOptions()).read_table()).equals(
        without_machine(local_campaign.read_table()), check_metadata=True
    )


def test_a_worker_whose_hashes_do_not_repeat_is_refused() -> None:
    program = "from txnsim_lab.simulation.seed_batch import prepare_worker; prepare_worker()"
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "random"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "can't repeat runs" in process.stderr
