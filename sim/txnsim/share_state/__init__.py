"""What the share coordinator knows of share partitions (KIP-932), and decides. Pure.

- ``records``: what ``__share_group_state`` remembers.
- ``log_format``: its bytes.
- ``_combining``: batches of states become the fewest that say the same.
- ``shard``: one partition of that topic: replay, epochs that fence, what may be pruned.
- ``decisions``: initialise, read, write, delete, sum up.

Kafka's counterparts: ShareCoordinatorShard, ShareGroupOffset, PersisterStateBatchCombiner.
"""
