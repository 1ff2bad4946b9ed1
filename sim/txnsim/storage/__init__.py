"""Kafka's files on disk, as bytes: read and written, without a policy of what to keep.

- ``names``: what the names in a log directory say.
- ``log_file``: record batches of a segment (``*.log``), up to a torn tail.
- ``_indexes``: the sparse indexes beside it (``*.index``, ``*.timeindex``), written only.
- ``txn_index``: aborted transactions of a segment (``*.txnindex``).
- ``producer_snapshot``: producer state of a partition at one offset (``*.snapshot``).
- ``checkpoints``: leader epochs of a replica, offsets of all replicas of a broker.
- ``metadata_files``: the owner of a directory and the topic of a folder.
- ``log_dir``: the whole folder of a broker, and of each replica.
- ``metadata_log``: what the copy of a KRaft cluster's metadata log says; ``metadata_snapshot``: one
  that says what our cluster is.
- ``disks``: the log directories of a cluster, and when it was stopped; ``replica_files``,
  ``replica_loading``: a replica's log made from its folder, as a starting broker makes it.
- ``replica_install``: replicas put into the directory of a stopped broker; ``lock``: is it stopped?
- ``stored_file``: a file before it is written, and an archive of them. ``regular_file`` opens what
  may be anything.
"""
