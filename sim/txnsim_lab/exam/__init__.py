"""An exam for client libraries: what does a library do when a transaction goes wrong?

A library takes part by a small program, its driver, which reads commands and writes answers as JSON
lines (docs/exam.md). Nothing here knows a library: a verdict follows from what the log holds and
what the driver has answered.

- ``_driver`` is the program. ``_session`` notes what it was asked and what it has told, step by
  step, and says in words where that is not what it should have told.
- ``_ledger`` notes each transaction with its end, as told, and holds it against the log.
- ``targets`` opens the cluster of each situation: a simulated one, or a real one behind the proxy
  (``real_targets``).
- ``_application`` is what a situation works with: an application that does what the library says,
  and another producer.
- ``situation`` is what happens and what is asked; ``situations`` has them, by kind.
- ``fixture_topics`` are topics to read, ``readers`` those that read them without a coordinator.
- ``run`` plays the situations; ``results`` are its values, and a page of them. ``misses`` makes a
  report of each miss.
- ``compare`` asks two drivers the same and draws variants near what differs.
- ``pytest_plugin`` makes a test of each situation.
"""
