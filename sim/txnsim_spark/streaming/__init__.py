"""Records out of Kafka, each batch once, and alerts on what holds them back.

- ``stream`` joins two queries: ``records`` writes to ``sink``, ``watch`` reads the data source of
  ``lag_source`` and lets ``alerts`` decide.
- ``lag_probe``: one look at partitions, from outside.
- ``checkpoint``: what Spark's own says; ``events``: what a stream tells; ``options``: its values.
"""
