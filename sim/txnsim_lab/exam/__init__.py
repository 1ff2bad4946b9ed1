"""An exam for client libraries: what does a library do when a transaction goes wrong?

A library takes part through a small program, its driver, which reads commands and writes answers as
JSON lines (docs/exam.md). This package knows no library: a verdict follows from the records in the
log and from the driver's answers.

- ``_driver`` runs that program. ``_session`` records its commands and answers, step by step, and
  explains answers that are wrong.
- ``_ledger`` records each transaction with the end that the library reported, and compares it with
  the log.
- ``targets`` opens the cluster of each situation: a simulated one, or a real one behind the proxy
  (``real_targets``).
- ``_application`` is an application that does what the library says, and another producer.
- ``situation`` is the type of a situation; ``situations`` has all situations, by kind.
- ``fixture_topics`` are topics to read; ``readers`` examines programs that read them without a
  coordinator.
- ``run`` plays the situations; ``results`` has the types of results, and a page of them. ``misses``
  writes a report of each failure.
- ``compare`` plays the same situations with two drivers, and random variants of those in which they
  differ.
- ``pytest_plugin`` makes a test of each situation.
"""
