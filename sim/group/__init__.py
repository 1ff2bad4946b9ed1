"""The group coordinator.

state.py           states of a classic group, the table, what every group can be asked: start here
records.py         what ``__consumer_offsets`` remembers
offsets.py         committed positions, and those pending in transactions
offset_commands.py what can be asked about positions
offset_machine.py  decisions: committing, reading, deleting and expiring positions
commands.py        what can be asked about membership, and the effects that answer
classic_group.py   a classic group and its members
rebalance.py       the steps of a rebalance
classic.py         decisions: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, timers
subscription.py    what consumers tell each other, as far as a coordinator looks
log_format.py      records as bytes
shard.py           one partition of ``__consumer_offsets``: groups and positions, replay and load

Shells:
writer.py          append, apply, wait for replication
membership.py      requests that wait, timers
service.py         the coordinator of one broker: commands, administration, markers, load and unload
"""
