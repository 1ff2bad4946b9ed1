"""What lies open in log directories, and what becomes of it; the life of one transactional id.

- ``find_hanging``: from directories to a report; ``findings`` are its values, ``findings_frame``
  the same as one DataFrame, ``since`` keeps what was read for the next search.
- ``open_transactions``, ``replica_state``: what a replica has open, by its snapshots and segments;
  ``segment_reading``, ``read_compiled`` read them, ``read_notes`` and ``start_batch`` say what came
  to light.
- ``coordinator_log``, ``coordinator_entries``: what coordinators wrote.
- ``metadata_copies``, ``identity``: which topics exist, which replicas are of one.
- ``verdicts``, ``evidence``: what becomes of each, and whether the files are sound.
- ``timeline``, ``timeline_reading``: one transactional id from both sides.
- ``collection``, ``collected_reading``: one broker's part in an archive, and archives in place of
  directories.
"""
