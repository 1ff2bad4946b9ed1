"""The group coordinator of one broker, around the decisions of ``txnsim.group``.

- ``service``: commands, administration, markers, load and unload.
- ``_classic_membership``: classic groups and their waiting requests.
- ``_consumer_membership``: groups of the consumer protocol: heartbeats, assignments, conversions.
- ``_share_membership``: share groups (KIP-932): heartbeats, sessions, offsets, and requests to
  share coordinators.
- ``_streams_membership``: streams groups (KIP-1071): heartbeats, sessions, delayed assignments.
- ``_group_timers``: timers of sessions, rebalances and revocations, of groups of any type.
- ``_group_writes``: a write of a group: decide, append, wait for replication.
- ``_offset_trace``, ``_streams_trace``: events of the trace about positions and streams groups.
- ``_writer``: append, apply, wait for replication.
"""
