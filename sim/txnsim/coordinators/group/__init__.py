"""The group coordinator of one broker, around the decisions of ``txnsim.group``.

writer.py          append, apply, wait for replication
membership.py      classic members: requests that wait, timers
consumer_membership.py  members of the consumer protocol: heartbeats, timers, lookups
service.py         commands, administration, markers, load and unload
"""
