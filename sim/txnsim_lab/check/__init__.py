"""Judging from outside, by what clients and operators saw and nothing else.

- ``observations``: what clients can see; ``history``: all of it in order, also as JSON lines.
- ``anomaly``: the kinds of errors; ``judge`` asks every checker.
- Checkers of records: ``_losses``, ``_duplicates``, ``_dirty_reads``, ``_visibility``,
  ``_ordering``, ``_dependencies``.
- Checkers of positions: ``_positions``, ``_skipped``.
- Checkers of share groups: ``_share_groups``.
- Checkers of what stands still: ``_hanging``, ``_starvation``, ``_coordinators``, ``_cleaning``.
- Checkers of errors: ``_fencing``, ``_refusals``.
- ``_topics``: topics of one name, told apart.
"""
