"""Records out of Kafka, each batch once, and alerts on what holds them back.

- ``stream`` joins two queries: ``_records`` writes to ``_sink``, ``_watch`` reads the data source
  of ``lag_source`` and lets ``_alerts`` decide.
- ``_lag_probe``: one look at partitions, from outside.
- ``_checkpoint``: what Spark's own says; ``events``: what a stream tells; ``options``: its values.
"""
