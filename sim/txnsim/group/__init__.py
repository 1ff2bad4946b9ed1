"""The group coordinator's state and decisions, pure. Its shell: ``txnsim.coordinators.group``.

state.py           states of a classic group, the table, what every group can be asked: start here
records.py         what ``__consumer_offsets`` remembers
offsets.py         committed positions, and those pending in transactions
offset_commands.py what can be asked about positions
offset_machine.py  decisions: committing, reading, deleting and expiring positions
commands.py        what can be asked about membership, and the effects that answer
classic_group.py   a classic group and its members
rebalance.py       the steps of a rebalance
classic.py         decisions: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, timers
consumer_records.py  what is remembered of groups of the consumer protocol (KIP-848)
consumer_commands.py what these can be asked
assignors.py       uniform and range
topics_hash.py     a number that changes with the topics consumed
consumer_group.py  such a group, its members and epochs, replay
reconciliation.py  a member's next step to its target
consumer_members.py  who sends a heartbeat, and whether it may
consumer_regex.py  subscriptions by regular expression
consumer.py        decisions: heartbeats, leaving, sessions
consumer_log_format.py  their records as messages
subscription.py    what consumers tell each other, as far as a coordinator looks
log_format.py      records as bytes
shard.py           one partition of ``__consumer_offsets``: groups and positions, replay and load
"""
