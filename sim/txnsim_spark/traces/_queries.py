"""The queries that make the tables of a trace from its lines and events: plain SQL for Spark, and
for DuckDB after a few words are changed (``embedded``).

A query reads views of earlier ones (``trace_`` and the table's name), so the order of the tables
here is that of making them. Every window is over one transactional id or one partition of one run;
no query needs a run as a whole in one place.
"""

from __future__ import annotations

from typing import Final

from txnsim.runtime.trace_kinds import KINDS
from txnsim.wire.apis import APIS
from txnsim_spark.traces._files import HEADER_START, TRAILER_START

LINE_DDL: Final = (
    "i bigint, t bigint, n int, node string, l bigint, p array<bigint>, k string, tx string,"
    " d string, schema int, sim string, scenario string, seed bigint, `set` map<string,string>,"
    " clock string, first bigint, nodes array<string>, events bigint, hash string, verdict string,"
    " run string, mode string, take string, brokers int, releases array<string>,"
    " rules map<string,boolean>, level string,"
    " lost bigint, misfit string"
)
"""Columns for every key of a header, an event and a trailer; the payload stays text. Spark puts a
line that does not fit into ``misfit``.
"""
UNREADABLE_TEXT_MAX: Final = 200
"""Characters kept of an unreadable line."""

_TX: Final = "^(.*)/(-?[0-9]+):(-?[0-9]+)$"
"""Regular expression of ``tx``: transactional id, producer id, epoch."""
_TP_REGEX: Final = "^(.*)-([0-9]+)$"
_TXN_PAYLOAD: Final = """struct<state string, pending string, command string, reason string,
    timeout_ms bigint, partitions array<string>, version int, level int, epoch int, pid bigint>"""
_LOG_PAYLOAD: Final = """struct<`to` bigint, base bigint, last bigint, `first` bigint,
    `offset` bigint, seq int, txn boolean, opened boolean, reason string, committed boolean,
    attempt int>"""
_API_NAME_CASES: Final = " ".join(
    f"WHEN '{api_key}' THEN '{api_name}'" for api_key, (api_name, _) in sorted(APIS.items())
)

FOREIGN_FILES_QUERY: Final = """
SELECT named.file
FROM trace_files AS named
LEFT JOIN trace_lines AS line ON line.run = named.run
GROUP BY named.file
HAVING count_if(line.value LIKE '{%"k":"%') = 0
ORDER BY named.file
"""
"""Query for files in which no line looks like a line of a trace; it parses no line."""

RUNS_QUERY: Final = f"""
SELECT
  named.run, named.file, header.line.schema AS schema_version, header.line.sim,
  header.line.scenario, header.line.run AS scenario_run, header.line.take, header.line.seed,
  header.line.level, header.line.mode, header.line.brokers, header.line.releases,
  header.line.rules, header.line.clock, header.line.`set` AS settings,
  header.line.`first`, trailer.line.events, trailer.line.hash,
  nullif(trailer.line.verdict, '') AS verdict
FROM trace_files AS named
LEFT JOIN trace_lines AS header
  ON header.run = named.run AND startswith(header.value, '{HEADER_START}')
LEFT JOIN trace_lines AS trailer
  ON trailer.run = named.run AND startswith(trailer.value, '{TRAILER_START}')
"""

QUERIES_OVER_LINES: Final = {
    "events": f"""
WITH parsed AS (
  SELECT
    of_event.run, of_event.line.i, of_event.line.t, of_event.line.l, of_event.line.k,
    of_event.line.p, of_event.line.tx, of_event.line.d,
    -- An event stream names the node, a trace counts within its header's list.
    coalesce(of_event.line.node, get(header.line.nodes, of_event.line.n)) AS place,
    from_json(of_event.line.d, 'struct<tp string, pid bigint, epoch int, error string>') AS payload
  FROM trace_lines AS of_event
  LEFT JOIN trace_lines AS header
    ON header.run = of_event.run AND startswith(header.value, '{HEADER_START}')
  WHERE of_event.line.k IS NOT NULL AND of_event.line.k NOT IN ('run', 'end')
)
SELECT
  run, i,
  t AS at_us,
  l AS lamport,
  place AS node,
  split_part(place, '/', if(regexp_like(place, '^broker/[0-9]+/'), 3, 1)) AS role,
  cast(nullif(regexp_extract(place, '^broker/([0-9]+)', 1), '') AS int) AS broker,
  k AS kind,
  k IN ({", ".join(f"'{event_kind}'" for event_kind in KINDS)}) AS is_known,
  get(p, 0) AS cause,
  p AS causes,
  nullif(if(regexp_like(tx, '{_TX}'), regexp_extract(tx, '{_TX}', 1), tx), '') AS transactional_id,
  coalesce(payload.pid, cast(nullif(regexp_extract(tx, '{_TX}', 2), '') AS bigint)) AS producer_id,
  if(
    payload.pid IS NULL, cast(nullif(regexp_extract(tx, '{_TX}', 3), '') AS int), payload.epoch
  ) AS producer_epoch,
  nullif(regexp_extract(payload.tp, '{_TP_REGEX}', 1), '') AS topic,
  cast(nullif(regexp_extract(payload.tp, '{_TP_REGEX}', 2), '') AS int) AS partition,
  nullif(nullif(upper(payload.error), ''), 'NONE') AS error,
  d AS details
FROM parsed
""",
    "unreadable": f"""
SELECT
  run,
  file,
  CASE
    WHEN line.lost IS NOT NULL THEN concat(line.lost, ' events were lost by a slow listener')
    WHEN line.k IS NOT NULL THEN 'a value of an unexpected type'
    ELSE 'no line of a trace, or one that was cut off while it was written'
  END AS reason,
  left(value, {UNREADABLE_TEXT_MAX}) AS text
FROM trace_lines
WHERE line.k IS NULL OR line.misfit IS NOT NULL
""",
}
"""Table -> its query over ``trace_lines``. ``runs`` is one of them, but its query is run last."""

QUERIES_OVER_EVENTS: Final = {
    "producers": f"""
SELECT
  run,
  producer_id,
  max_by(transactional_id, i) AS transactional_id,
  CASE
    WHEN max(parsed.version) = 2 THEN 2
    ELSE least(max(parsed.level), 1)
  END AS transaction_version
FROM (
  SELECT *, from_json(details, '{_TXN_PAYLOAD}') AS parsed
  FROM trace_events
  WHERE kind LIKE 'txn.%' AND transactional_id IS NOT NULL AND producer_id >= 0
)
GROUP BY run, producer_id
""",
    "steps": f"""
WITH parsed AS (
  SELECT
    event.run, event.i, event.at_us, event.kind, event.broker,
    coalesce(event.transactional_id, producer.transactional_id) AS transactional_id,
    event.producer_id, event.producer_epoch, event.topic, event.partition, event.error,
    producer.transaction_version,
    CASE WHEN event.kind LIKE 'txn.%' THEN from_json(event.details, '{_TXN_PAYLOAD}') END AS txn,
    CASE WHEN event.kind NOT LIKE 'txn.%' THEN from_json(event.details, '{_LOG_PAYLOAD}') END AS log
  FROM trace_events AS event
  LEFT JOIN trace_producers AS producer
    ON producer.run = event.run AND producer.producer_id = event.producer_id
  WHERE event.kind IN ('txn.decide', 'txn.complete', 'log.append', 'log.reject', 'pid.open')
    OR event.kind LIKE 'marker.%'
),
states AS (
  SELECT
    *,
    CASE WHEN kind = 'txn.complete' THEN txn.state END AS state,
    last(CASE WHEN kind = 'txn.complete' THEN txn.state END) IGNORE NULLS OVER earlier AS before,
    last(CASE WHEN kind = 'txn.decide' AND error IS NULL THEN txn.command END) IGNORE NULLS
      OVER earlier AS command,
    last(CASE WHEN kind = 'txn.decide' AND error IS NULL THEN at_us END) IGNORE NULLS
      OVER earlier AS commanded_us
  FROM parsed
  WHERE transactional_id IS NOT NULL
  WINDOW earlier AS (
    PARTITION BY run, transactional_id ORDER BY i
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  )
)
SELECT
  run, i, at_us, kind, broker, transactional_id, producer_id, producer_epoch, topic, partition,
  error, transaction_version, state, command, commanded_us,
  txn.level, txn.version AS client_version, txn.timeout_ms, txn.partitions,
  log.`first` AS first_offset, log.`offset`, log.committed, log.attempt,
  -- A transaction is new where its id leaves a state of rest, or is first met in the middle of one.
  sum(
    CASE
      WHEN state = 'Ongoing' AND coalesce(before, '') != 'Ongoing' THEN 1
      WHEN state LIKE 'Prepare%'
        AND NOT regexp_like(coalesce(before, ''), '^(Ongoing|Prepare)') THEN 1
      WHEN state LIKE 'Complete%' AND before IS NULL THEN 1
      ELSE 0
    END
  ) OVER (
    PARTITION BY run, transactional_id ORDER BY i
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
  ) AS number
FROM states
""",
    "transactions": """
WITH ended AS (
  SELECT
    run,
    transactional_id,
    number,
    min_by(producer_id, i) FILTER (WHERE state IS NOT NULL) AS producer_id,
    min_by(producer_epoch, i) FILTER (WHERE state IS NOT NULL) AS producer_epoch,
    min_by(producer_epoch, i) FILTER (WHERE state LIKE 'Prepare%') AS end_epoch,
    max_by(level, i) FILTER (WHERE state NOT IN ('Empty', 'Dead')) AS level,
    max_by(client_version, i) FILTER (WHERE state NOT IN ('Empty', 'Dead')) AS client_version,
    coalesce(
      min_by(broker, i) FILTER (WHERE state LIKE 'Prepare%'),
      min_by(broker, i) FILTER (WHERE state IS NOT NULL)
    ) AS coordinator,
    min_by(timeout_ms, i) FILTER (WHERE state IS NOT NULL) AS timeout_ms,
    min(at_us) FILTER (WHERE state = 'Ongoing') AS began_us,
    min(at_us) FILTER (WHERE kind = 'log.append') AS first_write_us,
    min_by(commanded_us, i) FILTER (WHERE state LIKE 'Prepare%') AS asked_us,
    min(at_us) FILTER (WHERE state LIKE 'Prepare%') AS decided_us,
    min(at_us) FILTER (WHERE state LIKE 'Complete%') AS completed_us,
    min_by(command, i) FILTER (WHERE state LIKE 'Prepare%') AS decided_by,
    CASE
      WHEN bool_or(state LIKE '%Commit') THEN 'committed'
      WHEN bool_or(state LIKE '%Abort') THEN 'aborted'
      ELSE 'undecided'
    END AS outcome,
    max_by(partitions, size(partitions)) FILTER (WHERE state IS NOT NULL) AS partitions,
    cast(count_if(kind = 'log.append') AS int) AS writes,
    cast(count_if(kind = 'log.reject') AS int) AS refused_writes,
    cast(count_if(kind = 'txn.decide' AND error IS NOT NULL) AS int) AS refusals,
    max_by(error, i) FILTER (WHERE kind = 'txn.decide' AND error IS NOT NULL) AS last_error
  FROM trace_steps
  WHERE number > 0
  GROUP BY run, transactional_id, number
)
SELECT
  *,
  CASE WHEN client_version = 2 THEN 2 ELSE least(level, 1) END AS transaction_version,
  coalesce(decided_by = 'timeout', false) AS timed_out
FROM ended
""",
    "markers": """
WITH parsed AS (
  SELECT
    *,
    min(CASE WHEN kind = 'marker.owed' THEN i END) OVER (
      PARTITION BY run, transactional_id, number, topic, partition
    ) AS owed_i
  FROM trace_steps
  WHERE kind LIKE 'marker.%' AND topic IS NOT NULL
)
SELECT
  run, transactional_id, topic, partition,
  number,
  coalesce(min_by(producer_id, i) FILTER (WHERE i >= owed_i), min_by(producer_id, i))
    AS producer_id,
  coalesce(min_by(producer_epoch, i) FILTER (WHERE i >= owed_i), min_by(producer_epoch, i))
    AS producer_epoch,
  max(transaction_version) AS transaction_version,
  coalesce(min_by(committed, i) FILTER (WHERE i >= owed_i), min_by(committed, i))
    AS committed,
  min(at_us) FILTER (WHERE kind = 'marker.owed') AS owed_us,
  min(at_us) FILTER (WHERE kind = 'marker.sent') AS sent_us,
  -- At brief a first attempt that went well is not recorded; later ones say which they are.
  greatest(
    cast(count_if(kind = 'marker.sent') AS int),
    coalesce(max(CASE WHEN kind = 'marker.sent' THEN attempt END), 0),
    max(CASE WHEN kind = 'marker.acked' THEN 1 ELSE 0 END)
  ) AS sends,
  cast(count_if(kind = 'marker.refused') AS int) AS refused,
  min(at_us) FILTER (WHERE kind = 'marker.written' AND (owed_i IS NULL OR i > owed_i))
    AS written_us,
  min_by(`offset`, i) FILTER (WHERE kind = 'marker.written' AND (owed_i IS NULL OR i > owed_i))
    AS `offset`,
  min_by(broker, i) FILTER (WHERE kind = 'marker.written' AND (owed_i IS NULL OR i > owed_i))
    AS leader,
  min(at_us) FILTER (WHERE kind = 'marker.acked') AS acked_us,
  cast(count_if(kind = 'marker.written' AND (owed_i IS NULL OR i < owed_i)) AS int) AS strays
FROM parsed
GROUP BY run, transactional_id, number, topic, partition
""",
    "partition_transactions": f"""
WITH ends AS (
  SELECT run, max(at_us) AS ended_us FROM trace_events GROUP BY run
),
closed AS (
  SELECT
    run, topic, partition, producer_id, parsed.`first` AS first_offset,
    min(at_us) AS closed_us,
    min_by(parsed.last, i) AS marker_offset,
    min_by(parsed.committed, i) AS committed
  FROM (
    SELECT *, from_json(details, '{_LOG_PAYLOAD}') AS parsed
    FROM trace_events
    WHERE kind = 'pid.close'
  )
  GROUP BY run, topic, partition, producer_id, parsed.`first`
)
SELECT
  opened.run, opened.topic, opened.partition, opened.transactional_id, opened.producer_id,
  opened.producer_epoch,
  opened.number,
  coalesce(txn.transaction_version, opened.transaction_version) AS transaction_version,
  opened.broker AS leader,
  opened.first_offset AS first_offset,
  opened.at_us AS opened_us,
  closed.closed_us, closed.marker_offset, closed.committed,
  coalesce(closed.closed_us, ends.ended_us) - opened.at_us AS open_us,
  txn.timeout_ms,
  coalesce(txn.decided_us < opened.at_us, false) AS opened_late
FROM trace_steps AS opened
JOIN ends ON ends.run = opened.run
LEFT JOIN closed
  ON closed.run = opened.run AND closed.topic = opened.topic
  AND closed.partition = opened.partition AND closed.producer_id = opened.producer_id
  AND closed.first_offset = opened.first_offset
LEFT JOIN trace_transactions AS txn
  ON txn.run = opened.run AND txn.transactional_id = opened.transactional_id
  AND txn.number = opened.number
WHERE opened.kind = 'pid.open'
""",
    "positions": f"""
WITH ends AS (
  SELECT run, max(at_us) AS ended_us FROM trace_events GROUP BY run
),
parsed AS (
  SELECT run, i, at_us, topic, partition, broker, kind, from_json(details, '{_LOG_PAYLOAD}') AS log
  FROM trace_events
  WHERE kind IN ('log.append', 'log.hw', 'log.lso', 'marker.written') AND topic IS NOT NULL
),
known AS (
  SELECT
    *,
    coalesce(log.last + 1, log.`offset` + 1) AS end_told,
    CASE WHEN kind = 'log.hw' THEN log.`to` END AS hw_told,
    CASE WHEN kind = 'log.lso' THEN log.`to` END AS lso_told,
    -- Where the trace does not say yet, the log was at rest before the first batch that it has.
    first(coalesce(log.base, log.`offset`)) IGNORE NULLS OVER whole AS at_first,
    max(CASE WHEN kind = 'log.hw' THEN 1 ELSE 0 END) OVER whole AS tells_hw
  FROM parsed
  WINDOW whole AS (
    PARTITION BY run, topic, partition ORDER BY i
    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
  )
),
placed AS (
  SELECT
    *,
    last(end_told) IGNORE NULLS OVER so_far AS log_end,
    CASE
      WHEN tells_hw = 1 THEN coalesce(last(hw_told) IGNORE NULLS OVER so_far, at_first)
      ELSE last(end_told) IGNORE NULLS OVER so_far
    END AS high_watermark,
    coalesce(last(lso_told) IGNORE NULLS OVER so_far, at_first) AS last_stable
  FROM known
  WINDOW so_far AS (
    PARTITION BY run, topic, partition ORDER BY i
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
  )
)
SELECT
  placed.run, i, at_us, topic, partition, broker AS leader, kind, log_end, high_watermark,
  last_stable,
  greatest(high_watermark - last_stable, 0) AS lag,
  coalesce(lead(at_us) OVER (PARTITION BY placed.run, topic, partition ORDER BY i), ended_us)
    - at_us AS lasts_us
FROM placed
JOIN ends ON ends.run = placed.run
""",
    "stalls": """
WITH stood AS (
  SELECT
    run, topic, partition, last_stable,
    min(at_us) AS from_us,
    sum(lasts_us) AS stalled_us,
    max(lag) AS lag_max,
    max(i) AS last_i
  FROM trace_positions
  WHERE lag > 0
  GROUP BY run, topic, partition, last_stable
),
ends AS (
  SELECT run, topic, partition, max(last_stable) AS last_stable
  FROM trace_positions
  GROUP BY run, topic, partition
)
SELECT
  stood.run, stood.topic, stood.partition, stood.last_stable, stood.from_us, stood.stalled_us,
  stood.lag_max,
  ends.last_stable > stood.last_stable AS is_over,
  holder.transactional_id, holder.producer_id, holder.producer_epoch, holder.number,
  holder.transaction_version
FROM stood
JOIN ends
  ON ends.run = stood.run AND ends.topic = stood.topic AND ends.partition = stood.partition
LEFT JOIN trace_partition_transactions AS holder
  ON holder.run = stood.run AND holder.topic = stood.topic
  AND holder.partition = stood.partition AND holder.first_offset = stood.last_stable
WHERE stood.stalled_us > 0
""",
    "verifications": """
WITH parsed AS (
  SELECT *, from_json(details, 'struct<`add` boolean, waited_us bigint>') AS payload
  FROM trace_events
  WHERE kind IN ('verify.ask', 'verify.answer')
),
asked AS (
  SELECT * FROM parsed WHERE kind = 'verify.ask'
),
answered AS (
  SELECT * FROM parsed WHERE kind = 'verify.answer'
),
-- Only a full trace has questions; an answer tells all of its own. In traces of before it does not.
pairs AS (
  SELECT
    coalesce(asked.run, answered.run) AS run,
    coalesce(asked.at_us, answered.at_us - answered.payload.waited_us) AS asked_us,
    answered.at_us AS answered_us,
    coalesce(asked.broker, answered.broker) AS leader,
    coalesce(asked.transactional_id, answered.transactional_id) AS transactional_id,
    coalesce(asked.producer_id, answered.producer_id) AS producer_id,
    coalesce(asked.producer_epoch, answered.producer_epoch) AS producer_epoch,
    coalesce(asked.topic, answered.topic) AS topic,
    coalesce(asked.partition, answered.partition) AS partition,
    coalesce(asked.payload.`add`, answered.payload.`add`, false) AS adds,
    answered.error,
    answered.i IS NOT NULL AS is_answered
  FROM asked
  FULL JOIN answered ON answered.run = asked.run AND answered.cause = asked.i
)
SELECT
  pairs.run, asked_us, answered_us,
  answered_us - asked_us AS waited_us,
  leader, pairs.transactional_id, pairs.producer_id, producer_epoch,
  CASE WHEN adds THEN 2 ELSE producer.transaction_version END AS transaction_version,
  topic, partition, adds,
  CASE
    WHEN NOT is_answered THEN 'unanswered'
    -- A coordinator that is too old to be asked: it passes unverified.
    WHEN error IS NULL OR error = 'UNSUPPORTED_VERSION' THEN 'allowed'
    ELSE 'refused'
  END AS outcome,
  error
FROM pairs
LEFT JOIN trace_producers AS producer
  ON producer.run = pairs.run AND producer.producer_id = pairs.producer_id
""",
    "writes": f"""
SELECT
  event.run, event.i, event.at_us, event.topic, event.partition, event.broker AS leader,
  coalesce(event.transactional_id, producer.transactional_id) AS transactional_id,
  event.producer_id, event.producer_epoch,
  parsed.seq AS base_sequence, parsed.base AS base_offset, parsed.last AS last_offset,
  parsed.txn AS transactional,
  coalesce(parsed.opened, false) AS opened,
  CASE kind
    WHEN 'log.append' THEN 'appended' WHEN 'log.duplicate' THEN 'duplicate' ELSE 'refused'
  END AS outcome,
  event.error, parsed.reason
FROM (
  SELECT *, from_json(details, '{_LOG_PAYLOAD}') AS parsed
  FROM trace_events
  WHERE kind IN ('log.append', 'log.duplicate', 'log.reject')
) AS event
LEFT JOIN trace_producers AS producer
  ON producer.run = event.run AND producer.producer_id = event.producer_id
""",
    "epoch_bumps": """
SELECT
  run, i, at_us, transactional_id, broker AS coordinator,
  from_producer_id, from_epoch, producer_id, producer_epoch AS epoch, command, state,
  transaction_version
FROM (
  SELECT
    *,
    lag(producer_id) OVER moves AS from_producer_id,
    lag(producer_epoch) OVER moves AS from_epoch
  FROM trace_steps
  WHERE state IS NOT NULL
  WINDOW moves AS (PARTITION BY run, transactional_id ORDER BY i)
)
WHERE from_epoch IS NOT NULL
  AND (from_epoch != producer_epoch OR from_producer_id != producer_id)
""",
    "commands": f"""
SELECT
  run, i, at_us, broker AS coordinator, transactional_id,
  parsed.command, parsed.state, parsed.pending, error, parsed.reason
FROM (
  SELECT *, from_json(details, '{_TXN_PAYLOAD}') AS parsed
  FROM trace_events
  WHERE kind = 'txn.decide'
)
""",
    "requests": f"""
WITH messages AS (
  SELECT
    run, i, at_us, broker, kind, error, parsed.peer, parsed.version, parsed.correlation,
    -- Of an answer: what it says comes first, the request that it answers last.
    get(causes, size(causes) - 1) AS request,
    -- Between brokers traces of schema 1 have the number of an API.
    CASE parsed.api {_API_NAME_CASES} ELSE parsed.api END AS api,
    coalesce(parsed.response, false) AS is_response,
    parsed.peer LIKE 'client/%' AS from_client
  FROM (
    SELECT
      *,
      from_json(
        details,
        'struct<api string, version int, correlation bigint, peer string, response boolean>'
      ) AS parsed
    FROM trace_events
    WHERE kind IN ('msg.recv', 'msg.send') AND broker IS NOT NULL
  )
),
answers AS (
  SELECT run, request, min(at_us) AS answered_us, min_by(error, i) AS error
  FROM messages
  WHERE kind = 'msg.send' AND is_response AND from_client
  GROUP BY run, request
),
-- Correlation ids of brokers are unique between two of them; those of clients are not.
peer_answers AS (
  SELECT run, broker, peer, correlation, min(at_us) AS answered_us
  FROM messages
  WHERE kind = 'msg.send' AND is_response AND NOT from_client
  GROUP BY run, broker, peer, correlation
)
SELECT
  asked.run, asked.i, asked.at_us, asked.broker, asked.peer, asked.api, asked.version,
  asked.correlation,
  coalesce(answers.answered_us, peer_answers.answered_us) AS answered_us,
  answers.error
FROM messages AS asked
LEFT JOIN answers
  ON asked.from_client AND answers.run = asked.run AND answers.request = asked.i
LEFT JOIN peer_answers
  ON NOT asked.from_client AND peer_answers.run = asked.run AND peer_answers.broker = asked.broker
  AND peer_answers.peer = asked.peer AND peer_answers.correlation = asked.correlation
WHERE asked.kind = 'msg.recv' AND NOT asked.is_response
""",
    "faults": """
SELECT
  run, i, at_us, parsed.rule, parsed.point, parsed.action, parsed.api, parsed.source, parsed.target
FROM (
  SELECT
    *,
    from_json(
      details,
      'struct<rule string, point string, action string, api string, source string, target string>'
    ) AS parsed
  FROM trace_events
  WHERE kind = 'fault.hit'
)
""",
}
"""Table -> query; later queries may use earlier tables."""
