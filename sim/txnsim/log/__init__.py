"""The log of one partition, as a pure state machine: no clock, no socket, no other replica.

- ``partition_log``: bounds, reads, searches by time, and changes of the log as a whole; start
  reading here.
- ``leader_append``: a leader's appends, with the checks of producers. ``replicated``: a stored
  batch for a follower.
- ``local_log``: its data on disk: segments, the index of aborted transactions, the recovery point.
- ``producer_state_manager``: its producers, their snapshots and guards; ``producer_snapshot``: one
  of the snapshots.
- ``log_loader``: loads a log from the files that a starting broker finds.
- ``producer_state``: epochs, the five-batch window, open transactions.
- ``verification``: guards against late appends (KIP-890).
- ``validation``: whether a leader may write a batch, and why it refuses records.
  ``unpacking`` unpacks them in slices.
- ``_segment``, ``_segments``: the segments that hold the bytes.
- ``txn_index``: aborted transactions. The leader epochs are ``EpochCache`` of ``partition_log``.
- ``cleaner``: compaction.
- ``answers``, ``config``: values that go in and out.
- ``_invariants``: conditions that must hold at every moment.
"""
