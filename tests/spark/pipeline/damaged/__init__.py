"""Damaged log directories and what a real Apache Kafka makes of them.

- ``make``: makes the directory that is kept (``directory.tar.xz``), with a real broker. Five
  transactions hang in it, two are alive.
- ``recipes``: what is done to a copy of it, by name. Copies are made at the time of the test.
- ``ask``: starts a real broker on each copy and keeps its answers (``answers.json``).
"""
