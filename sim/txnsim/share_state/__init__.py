"""What the share coordinator knows of share partitions (KIP-932), and how it decides. Pure.

- ``records``: the records of ``__share_group_state``.
- ``log_format``: their bytes.
- ``_combining``: merges batches of states into as few as possible.
- ``shard``: one partition of that topic: replay, fencing by epochs, pruning of records.
- ``decisions``: initialises, reads, writes, deletes and summarises a state.

Kafka's counterparts: ShareCoordinatorShard, ShareGroupOffset, PersisterStateBatchCombiner.
"""
