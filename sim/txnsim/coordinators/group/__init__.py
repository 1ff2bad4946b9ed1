"""The group coordinator of one broker, around the decisions of ``txnsim.group``.

timers.py          sessions, rebalances and revocations that end by themselves
writer.py          append, apply, wait for replication
membership.py      classic members: requests that wait
consumer_membership.py  members of the consumer protocol: heartbeats, lookups
service.py         commands, administration, markers, load and unload
"""
