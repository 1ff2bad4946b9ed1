"""The group coordinator's state and decisions, pure. Its shell: ``txnsim.coordinators.group``.

Every group:

- ``state``: states of a classic group, the table, requests that every group supports: start here.
- ``commands``: commands about membership, and their effects.
- ``shard``: one partition of ``__consumer_offsets``: groups and positions, replay and load.
- ``migration``: a change of a group's protocol.
- ``log_format``: records as bytes; ``record_kinds`` is the table of their kinds.

Positions:

- ``_offsets``: committed positions, and those pending in transactions.
- ``offset_commands``: commands about positions.
- ``offset_machine``: decisions: committing, reading, deleting and expiring positions.

The classic protocol:

- ``classic_group``: a group and its members.
- ``rebalance``: the steps of a rebalance.
- ``classic``: decisions: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, timers.
- ``subscription``: the data of consumers in JoinGroup and SyncGroup.
- ``records``: the records of ``__consumer_offsets``.

Share groups (KIP-932) are in the package ``sharing``, streams groups (KIP-1071) in ``streams``.

The consumer protocol (KIP-848):

- ``consumer_group``: a group, its members and epochs, replay.
- ``consumer``: decisions: heartbeats, leaving, sessions, a member's next step to its target.
- ``_consumer_members``: finds and checks the sender of a heartbeat.
- ``consumer_regex``: subscriptions by regular expression.
- ``consumer_classic``: its members that speak the classic protocol.
- ``assignors``: uniform and range, and the one of share groups.
- ``_member_counts``: counts over the members, kept up to date as they join and leave.
- ``_topics_hash``: a number that changes with the topics consumed.
- ``consumer_records``: their records in ``__consumer_offsets``, and those of share groups.
"""
