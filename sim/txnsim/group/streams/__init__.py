"""Streams groups (KIP-1071): the coordinator assigns the tasks of a Kafka Streams application.

- ``topology``: what an application reads and writes, held against the topics that there are.
- ``tasks``: tasks, and what a member has of them: start here.
- ``_records``: what ``__consumer_offsets`` remembers.
- ``group``: a group, its members and epochs, replay.
- ``commands``: a heartbeat, its answer, and what comes of it.
- ``protocol``: decisions: heartbeats, leaving, sessions, the delayed first assignment.
- ``_members``: who sends a heartbeat, and whether it may.
- ``assignor``: which task goes to which member.
- ``_reconciliation``: a member's next step to its target.
- ``_java_order``: the order in which Kafka goes through its maps.
- ``_record_fields``: fields of records from and to messages.
"""
