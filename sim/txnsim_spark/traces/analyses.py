"""What traces say about transactions: analyses by transaction version and by transactional id.

Each is plain SQL over the views of a trace's tables (``trace_tables.register_views``), and a
function that runs it. An answer has a row for all, one for each transaction version and one for
each transactional id; ``grouped_by`` tells which. Percentiles are exact up to 10,000 values of a
group; above, they are off by at most 1/10,000 of the ranks. Nothing is collected to the driver.

Kafka's counterpart is its metrics, which have no transactional ids: ``TxnMarkerDelay`` has none at
all, and ``PartitionsWithLateTransactionsCount`` only counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LATE_AFTER_MS: Final = 1_200_000
"""Age at which an open transaction is late: the default of transaction.max.timeout.ms, and five
minutes that it may take to end after that (ProducerStateManager.LATE_TRANSACTION_BUFFER_MS).
"""
GROUPED_BY_VERSION: Final = "transaction_version"
GROUPED_BY_ID: Final = "transactional_id"
"""Values of ``grouped_by``, besides ``all``."""
GROUPS_MAX: Final = 16
"""Limit of the number of groups: more than there are transaction versions."""
_GROUP_COLUMNS: Final = """
  CASE
    WHEN grouping(transaction_version) = 1 THEN 'all'
    WHEN grouping(transactional_id) = 1 THEN 'transaction_version'
    ELSE 'transactional_id'
  END AS grouped_by,
  transaction_version,
  transactional_id"""
_GROUPING_CLAUSE: Final = """
GROUP BY GROUPING SETS ((), (transaction_version), (transaction_version, transactional_id))
ORDER BY grouping(transactional_id) + grouping(transaction_version) DESC,
  transaction_version, transactional_id"""


def _duration_columns(duration_column: str, column_prefix: str, *percentile_ranks: float) -> str:
    """SQL for percentiles and maximum of a duration, in milliseconds."""
    column_expressions = [
        f"  round(percentile_approx({duration_column}, {percentile_rank}, 10000) / 1000, 3) AS"
        f" {column_prefix}_p{percentile_rank * 100:g}"
        for percentile_rank in percentile_ranks or (0.5, 0.9, 0.99)
    ]
    return ",\n".join(
        [*column_expressions, f"  round(max({duration_column}) / 1000, 3) AS {column_prefix}_max"]
    )


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """One analysis: its SQL and what commands and pages show of it."""

    title: str
    worst_by: str
    """The column by which transactional ids are ranked."""
    sql: str

    def worst(self, ids_max: int) -> str:
        """SQL for the groups, and for the transactional ids with the worst values."""
        return f"""
SELECT * FROM (
  SELECT *, row_number() OVER (
    PARTITION BY grouped_by
    ORDER BY {self.worst_by} DESC NULLS LAST, transactional_id, transaction_version
  ) AS place
  FROM ({self.sql})
)
-- A bound for every group lets Spark drop ids where they are, before they are gathered.
WHERE place <= {max(ids_max, GROUPS_MAX)}
  AND (grouped_by != '{GROUPED_BY_ID}' OR place <= {ids_max})
ORDER BY grouped_by = '{GROUPED_BY_ID}', grouped_by = '{GROUPED_BY_VERSION}',
  CASE WHEN grouped_by = '{GROUPED_BY_ID}' THEN place END, transaction_version
"""

    def run(self, spark: SparkSession, *, late_after_ms: int = LATE_AFTER_MS) -> DataFrame:
        """Run the analysis; returns its rows.

        Args:
            spark: A session with the views of a trace.
            late_after_ms: Time after which an open transaction is late, in milliseconds.
        """
        return spark.sql(self.sql, args={"late_after_ms": late_after_ms})


ANALYSES: Final[dict[str, Analysis]] = {
    "time_to_decide": Analysis(
        title="Time to decide",
        worst_by="decide_ms_max",
        sql=f"""
-- How long transactions take, from their first partition to the decision and to its end.
SELECT {_GROUP_COLUMNS},
  count(*) AS transactions,
  count_if(outcome = 'committed') AS committed,
  count_if(outcome = 'aborted') AS aborted,
  count_if(outcome = 'undecided') AS undecided,
  count_if(timed_out) AS timed_out,
  -- From the first partition to the decision in the log, and what of that was the coordinator's.
{_duration_columns("decided_us - began_us", "decide_ms")},
{_duration_columns("decided_us - asked_us", "deciding_ms", 0.5, 0.99)},
  -- From there until every marker was written.
{_duration_columns("completed_us - decided_us", "completing_ms", 0.5, 0.99)}
FROM trace_transactions{_GROUPING_CLAUSE}
""",
    ),
    "marker_delay": Analysis(
        title="Marker delay",
        worst_by="delay_ms_max",
        sql=f"""
-- How long partitions wait for the markers that decided transactions owe them.
SELECT {_GROUP_COLUMNS},
  count_if(owed_us IS NOT NULL) AS owed,
  count_if(owed_us IS NOT NULL AND written_us IS NULL) AS unwritten,
  count_if(sends > 1) AS repeated,
  sum(refused) AS refused,
  sum(strays) AS strays,
{_duration_columns("written_us - owed_us", "delay_ms")},
{_duration_columns("acked_us - owed_us", "acked_ms", 0.5, 0.99)}
FROM trace_markers{_GROUPING_CLAUSE}
""",
    ),
    "lso_lag": Analysis(
        title="LSO lag",
        worst_by="stalled_ms_sum",
        sql=f"""
-- How long last stable offsets stood still, and whose transactions held them.
SELECT {_GROUP_COLUMNS},
  count(*) AS stalls,
  count_if(NOT is_over) AS unfinished,
  max(lag_max) AS lag_max,
  round(sum(stalled_us) / 1000, 3) AS stalled_ms_sum,
{_duration_columns("stalled_us", "stalled_ms")}
FROM trace_stalls{_GROUPING_CLAUSE}
""",
    ),
    "late_transactions": Analysis(
        title="Late transactions",
        worst_by="open_ms_max",
        sql=f"""
-- How long producers have transactions open on partitions, late ones, and which stay open for good.
SELECT {_GROUP_COLUMNS},
  count(*) AS opened,
  count_if(open_us > timeout_ms * 1000) AS beyond_timeout,
  count_if(open_us > :late_after_ms * 1000) AS late,
  count_if(opened_late) AS opened_late,
  count_if(closed_us IS NULL) AS never_closed,
  count_if(opened_late AND closed_us IS NULL) AS hanging,
{_duration_columns("open_us", "open_ms")}
FROM trace_partition_transactions{_GROUPING_CLAUSE}
""",
    ),
    "verification_failures": Analysis(
        title="Verification failures",
        worst_by="refused",
        sql=f"""
-- What coordinators answer to leaders that ask before they take a batch (KIP-890).
SELECT {_GROUP_COLUMNS},
  count(*) AS asked,
  count_if(adds) AS added,
  count_if(outcome = 'refused') AS refused,
  count_if(outcome = 'unanswered') AS unanswered,
  array_join(array_sort(collect_set(if(outcome = 'refused', error, NULL))), ', ') AS errors,
{_duration_columns("waited_us", "waited_ms")}
FROM trace_verifications{_GROUPING_CLAUSE}
""",
    ),
    "epoch_bumps": Analysis(
        title="Epoch bumps",
        worst_by="bumps",
        sql=f"""
-- How often epochs rise, and by which command.
SELECT {_GROUP_COLUMNS},
  count(*) AS bumps,
  count_if(command = 'EndTxn') AS by_end,
  count_if(command = 'InitProducerId') AS by_init,
  count_if(command = 'timeout') AS by_timeout,
  count_if(producer_id != from_producer_id) AS new_producer_ids,
{_duration_columns("since_us", "apart_ms")}
FROM (
  SELECT *, at_us - lag(at_us) OVER (PARTITION BY run, transactional_id ORDER BY i) AS since_us
  FROM trace_epoch_bumps
){_GROUPING_CLAUSE}
""",
    ),
}
"""Name -> analysis, in the order of the documents."""

LSO_LAG_BY_PARTITION: Final = """
SELECT
  run, topic, partition,
  max(lag) AS lag_max,
  round(sum(lag * lasts_us) / sum(lasts_us), 3) AS lag_mean,
  round(sum(if(lag > 0, lasts_us, 0)) / sum(lasts_us), 3) AS stalled_share,
  max_by(lag, i) AS lag_last
FROM trace_positions
GROUP BY run, topic, partition
HAVING sum(lasts_us) > 0
ORDER BY lag_mean DESC, run, topic, partition
"""


def lso_lag_by_partition(spark: SparkSession) -> DataFrame:
    """How far each partition's last stable offset is behind its high watermark, over time."""
    return spark.sql(LSO_LAG_BY_PARTITION)
