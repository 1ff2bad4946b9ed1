"""An exam for client libraries: what does a library do when a transaction goes wrong?

A library takes part by a small program, its driver, which reads commands and writes answers as JSON
lines (docs/exam.md). Nothing here knows a library: a verdict follows from what the log holds and
what the driver has answered.

- ``_driver`` talks with the program. ``_book`` notes what the program was told, and holds it
  against the log.
- ``_talk`` notes what the library was asked and what it has told, step by step, and says in words
  where that is not what it should have told.
- ``hall`` is the cluster: a simulated one, or a real one behind the proxy (``real_hall``).
- ``_room`` is what a situation works with: a cluster, the talk, an application that does what the
  library says (``_working``: one that reads and writes exactly once). ``_neighbour`` is another
  producer.
- ``situation`` is what happens and what is asked; ``situations`` has them, by kind.
- ``papers`` are topics to read, ``readers`` those that read them without a coordinator.
- ``sitting`` plays them; ``results`` are its values, and a page of them. ``misses`` makes a report
  of each miss.
- ``pytest_plugin`` makes a test of each situation.
"""
