"""Streams records from Kafka to a table, each batch once, and alerts on hanging transactions.

- ``stream`` joins two queries: ``_records`` writes to ``_sink``, ``_watch`` reads the data source
  of ``lag_source``, and ``_alerts`` decides.
- ``_lag_probe``: one probe of partitions, from outside.
- ``_checkpoint``: reads Spark's checkpoint; ``events``: the events of a stream; ``options``: its
  options.
"""
