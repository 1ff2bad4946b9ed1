"""Reads and writes Kafka's files on disk, as bytes, without deciding what to keep.

- ``names``: the meaning of names in a log directory.
- ``log_file``: record batches of a segment (``*.log``), up to a torn tail.
- ``_indexes``: a segment's sparse indexes (``*.index``, ``*.timeindex``), written only.
- ``txn_index``: aborted transactions of a segment (``*.txnindex``).
- ``producer_snapshot``: producer state of a partition at one offset (``*.snapshot``).
- ``checkpoints``: leader epochs of a replica, offsets of all replicas of a broker.
- ``metadata_files``: the owner of a directory and the topic of a folder.
- ``log_dir``: writes the whole log directory of a broker, or the folder of a replica.
- ``metadata_log``: reads a copy of a KRaft cluster's metadata log; ``metadata_snapshot``: writes
  one for our cluster.
- ``disks``: the log directories of a cluster, and when it was stopped; ``replica_files``,
  ``replica_loading``: load a replica's log from its folder, as a starting broker does.
- ``replica_install``: installs replicas in the log directory of a stopped broker; ``lock``: tells
  whether it is stopped.
- ``stored_file``: a file that is not written yet, and a tar archive of such files. ``regular_file``
  opens files safely.
"""
