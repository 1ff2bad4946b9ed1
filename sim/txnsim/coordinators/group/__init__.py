"""The group coordinator of one broker, around the decisions of ``txnsim.group``.

- ``service``: commands, administration, markers, load and unload.
- ``membership``: classic members: requests that wait.
- ``consumer_membership``: members of the consumer protocol: heartbeats, lookups.
- ``timers``: sessions, rebalances and revocations that end by themselves.
- ``writer``: append, apply, wait for replication.
- ``tracing``: positions of transactions in the trace.
"""
