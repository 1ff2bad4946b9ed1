"""Whether log directories are sound: the rules of ``txnsim logs verify``, without Spark.

A log is looked at segment by segment, by as many as there are hands, and put together afterwards:

- ``verify``: the whole, shared out by ``txnsim_spark.engine``.
- ``violations``: what is found, and the rules by name.
- ``_replica_facts``: what is known of a replica before its segments are read.
- ``_segment_walk``: one segment by the compiled walk -> ``_segment_parts``.
- ``_chain``: the parts of one replica, in order: what only shows across segments.
- ``_producer_rules``: what producers did, and what breaks Kafka's rules.
- ``_stored_file_rules``: snapshots and indexes of aborted transactions against the state that the
  log leads to.
- ``_replica_rules``: replicas of a ``_partition`` against one another.
"""
