"""``python -m tests.spark.pipeline.analysis_page --write``: the tables of
tests/spark/pipeline/analysis.md.

The text of the page is written by hand; its tables stand between comments and are made from the run
that ``recorded_run`` records. Without ``--write`` it prints the differences.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from tests.spark.pipeline.recorded_run import record
from txnsim_spark.session import spark_session
from txnsim_spark.traces.analyses import ANALYSES, GROUPED_BY_ID, lso_lag_by_partition
from txnsim_spark.traces.tables import traces_as_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "tests/spark/pipeline/analysis.md"
BLOCK: Final = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

COLUMNS: Final = {
    "time_to_decide": (
        "transactions committed aborted timed_out decide_ms_p50 decide_ms_p90 decide_ms_max"
        " deciding_ms_p50 completing_ms_p50 completing_ms_max"
    ),
    "marker_delay": "owed repeated delay_ms_p50 delay_ms_p90 delay_ms_max acked_ms_p50",
    "lso_lag": "stalls unfinished lag_max stalled_ms_sum stalled_ms_p50 stalled_ms_max",
    "late_transactions": (
        "opened opened_late never_closed hanging open_ms_p50 open_ms_p99 open_ms_max"
    ),
    "verification_failures": "asked added refused errors waited_ms_p50 waited_ms_p90 waited_ms_max",
    "epoch_bumps": "bumps by_end by_init by_timeout apart_ms_p50",
}
"""Columns of each analysis that the page shows."""
WORST: Final = """
SELECT
  run, topic, partition, transactional_id, transaction_version AS version, last_stable, lag_max,
  round(stalled_us / 1000, 3) AS stalled_ms, is_over
FROM trace_stalls
ORDER BY stalled_us DESC, run, topic, partition
LIMIT 8
"""
HANGING: Final = """
SELECT
  hanging.run, topic, partition, hanging.transactional_id, hanging.producer_id, first_offset,
  txn.decided_us, opened_us, closed_us
FROM trace_partition_transactions AS hanging
JOIN trace_transactions AS txn USING (run, transactional_id, number)
WHERE opened_late
ORDER BY run
"""
REQUESTS: Final = """
SELECT
  run, api,
  count(*) AS requests,
  count_if(error = 'CONCURRENT_TRANSACTIONS') AS answered_concurrent,
  round(percentile_approx(answered_us - at_us, 0.5, 10000) / 1000, 3) AS answered_ms_p50
FROM trace_requests
WHERE peer LIKE 'client/shop-%' AND api IN ('AddPartitionsToTxn', 'Produce', 'EndTxn')
GROUP BY run, api
ORDER BY run, api
"""
QUERIES: Final = {"worst": WORST, "hanging": HANGING, "requests": REQUESTS}


def blocks(spark: SparkSession) -> dict[str, str]:
    """The tables of the page, made from the views of the recorded run."""
    blocks_by_name = {}
    for table_name, columns in COLUMNS.items():
        frame = ANALYSES[table_name].run(spark)
        blocks_by_name[table_name] = _table(
            frame.where(frame.grouped_by != GROUPED_BY_ID).select(
                "transaction_version", *columns.split()
            )
        )
    for table_name, query in QUERIES.items():
        blocks_by_name[table_name] = _table(spark.sql(query))
    partitions = lso_lag_by_partition(spark)
    blocks_by_name["partitions"] = _table(
        partitions.where(~partitions.topic.startswith("__")).limit(8)
    )
    return blocks_by_name


def fill_page(page_text: str, blocks_by_name: Mapping[str, str]) -> str:
    """The page with these tables.

    Raises:
        KeyError: The page names a table that is not made.
    """
    return BLOCK.sub(lambda match: match[1] + blocks_by_name[match[2]] + match[3], page_text)


def names(page_text: str) -> list[str]:
    """Names of the tables in the page."""
    return [match[2] for match in BLOCK.finditer(page_text)]


def _table(frame: DataFrame) -> str:
    def line(cells: Iterator[object] | Sequence[object]) -> str:
        return "| " + " | ".join("–" if cell is None else f"{cell}" for cell in cells) + " |\n"

    head = [
        "version" if column_name == "transaction_version" else column_name
        for column_name in frame.columns
    ]
    body = [
        [
            "all" if name == "version" and cell is None else cell
            for name, cell in zip(head, row, strict=True)
        ]
        for row in frame.toLocalIterator()
    ]
    return line(head) + "|" + " --- |" * len(head) + "\n" + "".join(map(line, body))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.pipeline.analysis_page")
    parser.add_argument("--write", action="store_true", help="write them")
    options = parser.parse_args(arguments)
    spark = spark_session("local[2]")
    with TemporaryDirectory() as directory:
        traces = record(Path(directory) / "traces")
        with traces_as_views(spark, list(map(str, traces))):
            blocks_by_name = {PAGE: fill_page(PAGE.read_text("utf-8"), blocks(spark)).encode()}
    spark.stop()
    differ = [
        path
        for path, data in blocks_by_name.items()
        if not path.exists() or path.read_bytes() != data
    ]
    for path in differ:
        sys.stdout.write(f"{'written' if options.write else 'differs'}: {path.relative_to(ROOT)}\n")
        if options.write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(blocks_by_name[path])
    return int(bool(differ) and not options.write)


if __name__ == "__main__":
    sys.exit(main())
