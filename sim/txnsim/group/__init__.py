"""The group coordinator's state and decisions, pure. Its shell: ``txnsim.coordinators.group``.

state.py           states of a classic group, the table, requests that every group takes: start here
records.py         what ``__consumer_offsets`` remembers
offsets.py         committed positions, and those pending in transactions
offset_commands.py commands about positions
offset_machine.py  decisions: committing, reading, deleting and expiring positions
commands.py        commands about membership, and their effects
classic_group.py   a classic group and its members
rebalance.py       the steps of a rebalance
classic.py         decisions: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, timers
consumer_records.py  records of groups of the consumer protocol (KIP-848)
assignors.py       uniform and range
topics_hash.py     a number that changes with the topics consumed
consumer_group.py  such a group, its members and epochs, replay
reconciliation.py  a member's next step to its target
consumer_members.py  who sends a heartbeat, and whether it may
consumer_regex.py  subscriptions by regular expression
consumer.py        decisions: heartbeats, leaving, sessions
subscription.py    the data of consumers in JoinGroup and SyncGroup
record_kinds.py    kinds of records, as a table
log_format.py      records as bytes
shard.py           one partition of ``__consumer_offsets``: groups and positions, replay and load
"""
