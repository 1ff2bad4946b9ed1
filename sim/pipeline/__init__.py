"""The data pipeline: Kafka's log directories, traces and live streams as tables of Apache Spark.

Everything here needs the extra ``txnsim[pipeline]`` and Java 17, and is imported by nobody who does
not ask for it.

- ``session``: the one way to a SparkSession.
- ``source``: the data source ``kafka_log``; ``options`` and ``schemas`` are its public face,
  ``tables`` has a module per table, ``segments`` finds the files.
- ``kernel``, ``kernel_fragments``, ``walk``: the compiled walk over batch headers; ``daemon`` has
  it loaded before workers are forked.
- ``stream``: records out of Kafka, each once, and alerts on what holds them back; made of
  ``stream_records`` with ``stream_sink``, and ``stream_watch`` with the data source of
  ``lag_source`` and the decision of ``stream_alerts``.
"""
