"""The queries of ``logs decisions``, for Spark and for DuckDB: they divide decisions and markers
into those that plainly agree, which are only counted, and the rest, which ``txn.decision_audit``
judges.

A window holds a decision of a producer id and epoch on a partition, and the markers until the next
decision. Windows are numbered by running sums, not by a join on times: an epoch of a million
transactions is sorted once.

Beside the tables of ``kafka_log`` there are small ones. ``audited_logs`` has the logs that are
read, and the offset from which each is complete, null for the whole log. ``coordinator_reach`` has
the time since which a coordinator's log is complete, for those that lack their beginning. A third
one, ``compared_logs``, has the partitions whose replicas are compared, and how many they are.
"""

from __future__ import annotations

from typing import Final

REACH: Final = """
-- For each log that lacks its beginning the time since which it is complete, and for each log the
-- time of its newest marker or entry.
SELECT
  log.topic, log.partition,
  min_by(entry.at_ms, entry.log_offset)
    FILTER (WHERE entry.log_offset >= log.complete_from) AS since_ms,
  max(entry.at_ms) AS newest_ms
FROM audited_logs AS log
JOIN (
  SELECT topic, partition, `offset` AS log_offset, timestamp_ms AS at_ms FROM kafka_transactions
  UNION ALL
  SELECT topic, partition, marker_offset AS log_offset, timestamp_ms AS at_ms FROM kafka_endings
) AS entry
  ON entry.topic = log.topic AND entry.partition = log.partition
GROUP BY log.topic, log.partition
"""
GAPS: Final = """
-- For each coordinator's log: the first offset above every gap that the cleaner has left.
SELECT partition, max(CASE WHEN `offset` > offset_before + 1 THEN `offset` END) AS complete_from
FROM (
  SELECT
    partition, `offset`,
    coalesce(lag(`offset`) OVER (PARTITION BY partition ORDER BY `offset`), -1) AS offset_before
  FROM kafka_transactions
) AS neighbours
GROUP BY partition
"""
AUDIT: Final = """
WITH owners AS (
  -- No producer id has two transactional ids.
  SELECT producer_id, max(partition) AS coordinator
  FROM (
    SELECT producer_id, partition FROM kafka_transactions WHERE producer_id IS NOT NULL
    UNION ALL
    SELECT previous_producer_id, partition FROM kafka_transactions
    WHERE previous_producer_id IS NOT NULL
    UNION ALL
    SELECT next_producer_id, partition FROM kafka_transactions WHERE next_producer_id IS NOT NULL
  ) AS ids
  GROUP BY producer_id
), events AS (
  SELECT
    decision.producer_id, decision.producer_epoch, decision.topic, decision.partition,
    decision.decided_ms AS at_ms, 0 AS is_marker, decision.decision_offset AS log_offset,
    decision.is_commit, decision.coordinator, decision.transactional_id, decision.completed_ms,
    CASE WHEN decision.is_by_epoch THEN 1 ELSE 0 END AS by_epoch,
    CAST(NULL AS int) AS coordinator_epoch, 0 AS is_beyond_reach
  FROM kafka_decisions AS decision
  JOIN audited_logs AS log
    ON log.topic = decision.topic AND log.partition = decision.partition
  UNION ALL
  SELECT
    marker.producer_id, marker.producer_epoch, marker.topic, marker.partition,
    marker.timestamp_ms AS at_ms, 1 AS is_marker, marker.marker_offset AS log_offset,
    marker.is_commit,
    owners.coordinator, CAST(NULL AS string) AS transactional_id,
    CAST(NULL AS bigint) AS completed_ms, 0 AS by_epoch, marker.coordinator_epoch,
    CASE
      WHEN marker.timestamp_ms < coalesce(reach.since_ms, :unknown_since_ms) - :skew_ms THEN 1
      ELSE 0
    END AS is_beyond_reach
  FROM kafka_endings AS marker
  LEFT JOIN owners ON owners.producer_id = marker.producer_id
  LEFT JOIN coordinator_reach AS reach ON reach.coordinator = owners.coordinator
), numbered AS (
  SELECT
    *,
    max(by_epoch) OVER whole_epoch AS is_by_epoch,
    sum(1 - is_marker) OVER whole_epoch AS epoch_decisions,
    sum(1 - is_marker) OVER (
      PARTITION BY producer_id, producer_epoch, topic, partition
      ORDER BY at_ms, is_marker, log_offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS running_number
  FROM events
  WINDOW whole_epoch AS (PARTITION BY producer_id, producer_epoch, topic, partition)
), windowed AS (
  SELECT
    *,
    CAST(
      CASE WHEN is_by_epoch = 1 AND epoch_decisions = 1 THEN 1 ELSE running_number END AS bigint
    ) AS number,
    -- Its decision is gone, as the coordinator's log no longer reaches so far.
    CASE
      WHEN running_number = 0 AND is_beyond_reach = 1
        AND NOT (is_by_epoch = 1 AND epoch_decisions = 1) THEN 1
      ELSE 0
    END AS is_gone
  FROM numbered
), checked AS (
  SELECT
    *,
    CASE
      WHEN is_gone = 0
        AND sum(is_marker) OVER its_window = 1 AND sum(1 - is_marker) OVER its_window = 1
        AND bool_and(is_commit) OVER its_window = bool_or(is_commit) OVER its_window THEN 1
      ELSE 0
    END AS is_plain_window
  FROM windowed
  WINDOW its_window AS (
    PARTITION BY producer_id, producer_epoch, topic, partition, is_gone, number
  )
), sorted_out AS (
  SELECT
    *,
    CASE
      WHEN is_gone = 1 THEN 'gone'
      -- What lies far from everything doubtful needs no thought.
      WHEN min(is_plain_window) OVER (
        PARTITION BY producer_id, producer_epoch, topic, partition, is_gone
        ORDER BY number RANGE BETWEEN :neighbours PRECEDING AND :neighbours FOLLOWING
      ) = 1 THEN 'agrees'
      ELSE 'doubtful'
    END AS kind
  FROM checked
)
SELECT
  kind, producer_id, producer_epoch, topic, partition, at_ms, is_marker, log_offset, is_commit,
  coordinator, transactional_id, completed_ms, by_epoch, coordinator_epoch, number
FROM sorted_out
"""
COUNTED: Final = """
-- Per partition of __transaction_state what plainly agrees, and what is out of reach.
SELECT
  kind, coordinator, cast(sum(1 - is_marker) AS bigint) AS decisions,
  cast(sum(is_marker) AS bigint) AS markers, min(at_ms) AS first_ms
FROM audited_events
WHERE kind <> 'doubtful'
GROUP BY kind, coordinator
"""
DOUBTFUL: Final = """
-- What has to be judged, epoch by epoch, in the order of the logs.
SELECT *
FROM audited_events
WHERE kind = 'doubtful'
ORDER BY producer_id, producer_epoch, topic, partition, number, is_marker, log_offset
"""
ABSENT: Final = """
-- The decisions about partitions without a log here.
SELECT decision.topic, decision.partition, count(*) AS decisions
FROM kafka_decisions AS decision
LEFT JOIN audited_logs AS log
  ON log.topic = decision.topic AND log.partition = decision.partition
WHERE log.topic IS NULL
GROUP BY decision.topic, decision.partition
ORDER BY decision.topic, decision.partition
"""
EPOCHS_BACK: Final = """
-- Producers whose records have an older epoch than they had on the partition before.
SELECT topic, partition, producer_id, max(last_epoch) AS newest_epoch
FROM (
  SELECT
    topic, partition, producer_id, first_epoch, last_epoch, epochs_back,
    lag(last_epoch) OVER (
      PARTITION BY log_dir, topic, partition, producer_id ORDER BY first_offset
    ) AS epoch_before
  FROM kafka_fragments
  WHERE producer_id IS NOT NULL
) AS neighbours
WHERE epochs_back > 0 OR first_epoch < epoch_before
GROUP BY topic, partition, producer_id
ORDER BY topic, partition, producer_id
"""
DISAGREEMENTS: Final = """
-- Partitions whose replicas are equally long and hold different markers, by their number.
SELECT DISTINCT log.topic, log.partition
FROM (
  SELECT
    topic, partition, producer_id, count(*) AS replicas,
    max(commits) > min(commits) OR max(aborts) > min(aborts) AS is_different
  FROM (
    SELECT
      log_dir, topic, partition, producer_id, sum(commits) AS commits, sum(aborts) AS aborts
    FROM kafka_fragments
    WHERE producer_id IS NOT NULL
    GROUP BY log_dir, topic, partition, producer_id
  ) AS of_replica
  GROUP BY topic, partition, producer_id
) AS producer
JOIN compared_logs AS log
  ON log.topic = producer.topic AND log.partition = producer.partition
WHERE producer.is_different OR producer.replicas < log.replicas
ORDER BY log.topic, log.partition
"""
NEIGHBOURS: Final = """
-- When a coordinator wrote its last record below an offset, and its first from there on.
SELECT
  max(timestamp_ms) FILTER (WHERE `offset` < {offset}) AS before_ms,
  min(timestamp_ms) FILTER (WHERE `offset` >= {offset}) AS after_ms
FROM kafka_transactions
WHERE partition = {coordinator}
"""
OWNERS: Final = """
-- Whose producer ids they are.
SELECT DISTINCT producer_id, transactional_id, partition AS coordinator
FROM kafka_transactions
WHERE producer_id IN (:producer_ids) AND transactional_id IS NOT NULL
"""
LISTED: Final = """
-- The partitions that a decision lists.
SELECT topic, partition FROM kafka_decisions
WHERE coordinator = {coordinator} AND decision_offset = {offset}
ORDER BY topic, partition
"""
LATER_DECISIONS: Final = """
-- Decisions of one outcome about a partition, behind another one in the coordinator's log.
SELECT count(*) AS decisions FROM kafka_decisions
WHERE producer_id = {producer_id} AND topic = '{topic}' AND partition = {partition}
  AND decision_offset > {offset} AND is_commit = {is_commit}
"""
CLIENT_VERSION: Final = """
-- The newest protocol that the clients of a producer id used.
SELECT max(client_transaction_version) AS client_version FROM kafka_transactions
WHERE producer_id = {producer_id}
"""
GROUP_COLUMNS: Final = ("producer_id", "producer_epoch", "topic", "partition")
"""The columns of ``DOUBTFUL`` that tell one epoch on one partition from another."""
