"""What lies open in log directories, and what becomes of it; the life of one transactional id.

- ``find_hanging``: from directories to a report; ``findings`` are its values, ``findings_frame``
  the same as one DataFrame, ``_search_memory`` keeps what was read for the next search.
- ``_open_transactions``, ``replica_state``: what a replica has open, by its snapshots and segments;
  ``_read_compiled`` reads them, ``_read_notes`` and ``_start_batch`` say what came to light.
- ``_coordinator_log``, ``_coordinator_entries``: what coordinators wrote.
- ``_metadata_copies``, ``identity``: which topics exist, which replicas are of one.
- ``verdicts``, ``_evidence``: what becomes of each, and whether the files are sound.
- ``timeline``, ``timeline_reading``: one transactional id from both sides.
- ``dumped``: the same from the text of ``kafka-dump-log``, whose lines ``_dump_lines`` reads.
"""
