"""Damaged log directories, and what a real Apache Kafka reports about them.

- ``make``: makes the directory that is kept (``directory.tar.xz``), with a real broker. Five
  transactions hang in it, two are alive.
- ``recipes``: damages a copy of it, by name. Copies are made during the test.
- ``ask``: starts a real broker on each copy and keeps its answers (``answers.json``).
"""
