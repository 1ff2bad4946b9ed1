"""The group coordinator of one broker, around the decisions of ``txnsim.group``.

- ``service``: commands, administration, markers, load and unload.
- ``_membership``: classic members: requests that wait; members of the consumer protocol:
  heartbeats, lookups; sessions, rebalances and revocations that end by themselves.
- ``_share_membership``: share groups (KIP-932): heartbeats, sessions, offsets, and what share
  coordinators are asked for.
- ``_streams_membership``: streams groups (KIP-1071): heartbeats, sessions, delayed assignments.
- ``_writer``: append, apply, wait for replication.
"""
