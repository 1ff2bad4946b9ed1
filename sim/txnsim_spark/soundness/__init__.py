"""Whether log directories are sound: the rules of ``txnsim logs verify``, without Spark.

Segments are checked in parallel, and the results are joined afterwards.

- ``verify``: plans and runs the verification with ``txnsim_spark.engine``.
- ``violations``: the types of findings, and the rules by name.
- ``_replica_facts``: facts on a replica that are known before its segments are read.
- ``_segment_walk``: one segment by the compiled walk -> ``_segment_parts``.
- ``_chain``: joins the parts of one replica, in order, and finds errors across segments.
- ``_producer_rules``: checks what producers did against Kafka's rules.
- ``_stored_file_rules``: compares snapshots and indexes of aborted transactions with the state that
  follows from the log.
- ``_replica_rules``: compares the replicas of a ``_partition``.
"""
