"""Share groups (KIP-932), as the group coordinator knows them. Pure.

- ``share_group``: a group, its members and epochs, what is initialised, replay.
- ``share``: decisions: heartbeats, leaving, sessions.
- ``share_topics``: decisions: share state that is initialised, altered, deleted.
"""
