"""One partition, as a value machine: no clock, no socket, no other replica.

- ``partition_log``: append, high watermark, truncation; start reading here.
- ``log_view``: the reading half: bounds, reads, searches.
- ``append_info``: may this producer append this? The rules, pure.
- ``producer_state``: epochs, the five-batch window, open transactions.
- ``verification``: guards against late appends (KIP-890).
- ``validation``: is this a batch that a leader may write?
- ``txn_index``, ``epoch_cache``, ``batch_store``, ``timestamps``: aborted transactions, leader
  epochs, bytes, searches by time.
- ``answers``, ``config``: the values that go in and out.
- ``invariants``: what must hold at every moment.
"""
