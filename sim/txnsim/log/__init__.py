"""One partition, as a value machine: no clock, no socket, no other replica.

- ``partition_log``: bounds, reads, searches by time, and all that changes a log as a whole; start
  reading here.
- ``leader_append``: may this producer append this? A leader's appends. ``_replicated``: a stored
  batch on its way to a follower.
- ``local_log``: its part on the disk: segments, the index of aborted transactions, what is durable.
- ``producer_state_manager``: its producers, their snapshots and guards.
- ``log_loader``: makes a log from the files that a starting broker finds.
- ``producer_state``: epochs, the five-batch window, open transactions.
- ``verification``: guards against late appends (KIP-890).
- ``validation``: is this a batch that a leader may write? Why are records refused?
  ``unpacking`` unpacks them with breaks.
- ``segment``, ``_segments``: the bytes, in pieces.
- ``txn_index``, ``_epoch_cache``: aborted transactions, leader epochs.
- ``cleaner``: compaction.
- ``answers``, ``config``: the values that go in and out.
- ``_invariants``: conditions that must hold at every moment.
"""
