"""How replicas follow, and the effects: watermarks, commits, changes of the ISR.

- ``leader_appends``: every append to a log that this broker leads; ``append_events`` tells of it.
- ``replica_fetcher``: a follower at work; ``replica_sessions``: followers at their leader.
- ``isr_changes``: what leaders ask of the controller.
- ``deletions``: DeleteRecords, on every replica.
- ``log_maintenance``, ``budget_keeper``: retention and compaction; the memory of all logs.
"""
