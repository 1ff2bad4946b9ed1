"""The data pipeline: Kafka's log directories, traces and live streams as tables of Apache Spark.

Everything here needs the extra ``txnsim[pipeline]`` and Java 17, and is imported by nobody who does
not ask for it.

- ``session``: the one way to a SparkSession; ``daemon`` has the compiled walk loaded before workers
  are forked.
- ``source``: the data source ``kafka_log``; ``options`` and ``schemas`` are its public face,
  ``planning`` shares segments out to tasks, ``tables`` has a module per table.
- ``scan``: from files to columns, the compiled walk over batch headers.
- ``forensics``: what is open and what becomes of it; the life of a transactional id.
- ``soundness``: every rule that a log must keep.
- ``export``: tables as Parquet.
- ``streaming``: records out of Kafka, each once, and alerts on what holds them back.
- ``traces``: event traces as tables, analyses, figures.
"""
