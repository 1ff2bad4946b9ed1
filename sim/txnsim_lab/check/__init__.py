"""Judging from outside, by what clients and operators saw and nothing else.

- ``observations``: what clients can see; ``history``: all of it in order, also as JSON lines.
- ``anomaly``: the kinds of errors; ``judge`` asks every checker.
- Checkers of records: ``losses``, ``duplicates``, ``dirty_reads``, ``visibility``, ``ordering``,
  ``dependencies`` (by ``graph``).
- Checkers of positions: ``positions``, ``skipped``.
- Checkers of what stands still: ``hanging``, ``starvation``, ``coordinators``, ``cleaning``.
- Checkers of errors: ``fencing``, ``refusals``.
- ``topics``: topics of one name, told apart.
"""
