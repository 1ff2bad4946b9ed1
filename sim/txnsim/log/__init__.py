"""One partition, as a value machine: no clock, no socket, no other replica.

- ``partition_log``: append, high watermark, truncation; start reading here.
- ``log_view``: the reading half: bounds, reads, searches.
- ``log_upkeep``: segments are begun, dropped by age and size, exchanged; snapshots of producers.
- ``follower_log``: what a leader has written is taken over, or cut off.
- ``loaded_log``: a starting broker makes it from what lies on its disk.
- ``append_info``: may this producer append this? The rules, pure.
- ``producer_state``: epochs, the five-batch window, open transactions.
- ``verification``: guards against late appends (KIP-890).
- ``validation``: is this a batch that a leader may write?
- ``segment``, ``segments``: the bytes, in pieces. ``snapshots``: producers as they once were.
- ``txn_index``, ``epoch_cache``, ``timestamps``: aborted transactions, leader epochs, searches by
  time.
- ``answers``, ``config``: the values that go in and out.
- ``invariants``: what must hold at every moment.
"""
