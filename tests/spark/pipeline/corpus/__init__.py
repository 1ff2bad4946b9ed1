"""Log directories of a real Apache Kafka, and what is known of them for certain.

``python -m tests.spark.pipeline.corpus.make`` starts brokers, lets everything happen to them that
leaves a trace on disk (``stories``), writes down what they answered while it happened (``truth``),
and keeps their directories. Tests take it from ``made.corpus()``, which makes it once per digest
of these sources.
"""
