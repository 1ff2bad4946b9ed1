"""The group coordinator of one broker, around the decisions of ``txnsim.group``.

- ``service``: commands, administration, markers, load and unload.
- ``_membership``: classic members and their waiting requests; members of the consumer protocol;
  timers of sessions, rebalances and revocations.
- ``_share_membership``: share groups (KIP-932): heartbeats, sessions, offsets, and requests to
  share coordinators.
- ``_streams_membership``: streams groups (KIP-1071): heartbeats, sessions, delayed assignments.
- ``_writer``: append, apply, wait for replication.
"""
