"""Share groups (KIP-932) in the group coordinator. Pure.

- ``share_group``: a group, its members and epochs, initialised partitions, replay.
- ``share``: decisions: heartbeats, leaving, sessions.
- ``share_topics``: decisions: share state that is initialised, altered, deleted.
"""
