"""Streams groups (KIP-1071): the coordinator assigns the tasks of a Kafka Streams application.

- ``topology``: what an application reads and writes, compared with the existing topics.
- ``tasks``: tasks, and those that a member has: start here.
- ``_records``: their records in ``__consumer_offsets``.
- ``group``: a group, its members and epochs, replay.
- ``commands``: a heartbeat, its answer, and its outcome.
- ``protocol``: decisions: heartbeats, leaving, sessions, the delayed first assignment.
- ``_members``: finds and checks the sender of a heartbeat.
- ``assignor``: which task goes to which member.
- ``_reconciliation``: a member's next step to its target.
- ``_java_order``: the iteration order of Java's maps.
- ``_record_fields``: conversion of fields between records and messages.
"""
