"""Open transactions in log directories and the verdict on each; the history of one transactional
id.

- ``find_hanging``: searches directories and returns a report; ``findings`` has the types of the
  report, ``findings_frame`` returns it as one DataFrame, ``_search_memory`` keeps results for the
  next search.
- ``_open_transactions``, ``replica_state``: the open transactions of a replica, from its snapshots
  and segments; ``_read_compiled`` reads the segments, ``_read_notes`` has the irregularities found
  there, ``_start_batch`` looks up the first batch of each transaction.
- ``_coordinator_log``, ``_coordinator_entries``: the coordinators' logs.
- ``_metadata_copies``, ``identity``: which topics exist, and which replicas belong to them.
- ``verdicts``, ``_evidence``: the verdict on each open transaction, and whether the files are
  sound.
- ``timeline``, ``timeline_reading``: one transactional id from both sides.
- ``dumped``: open transactions and verdicts from the text of ``kafka-dump-log``, whose lines
  ``_dump_lines`` parses.
"""
