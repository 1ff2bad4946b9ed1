"""Replication between brokers: followers that fetch, high watermarks, commits, changes of the ISR.

- ``leader_appends``: every append to a log that this broker leads; ``append_events`` traces it.
- ``replica_fetcher``: a follower's fetches; ``replica_sessions``: the leader's side of them.
- ``isr_changes``: the leaders' requests to the controller.
- ``deletions``: DeleteRecords, on every replica.
- ``log_maintenance``, ``budget_keeper``: retention and compaction; the memory of all logs.
"""
