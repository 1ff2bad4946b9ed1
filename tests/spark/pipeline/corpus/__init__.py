"""Log directories of a real Apache Kafka, and what is known of them for certain.

``python -m tests.spark.pipeline.corpus.make`` starts brokers, brings about everything that leaves a
trace on disk (``stories``), records the brokers' answers meanwhile (``truth``), and keeps their
directories. Tests take it from ``made.corpus()``, which makes it once per digest of these sources.
"""
