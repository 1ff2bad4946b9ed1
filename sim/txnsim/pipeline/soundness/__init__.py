"""Whether log directories are sound: the rules of ``txnsim logs verify``, without Spark.

A log is looked at segment by segment, by as many as there are hands, and put together afterwards:

- ``findings``: what is found, and the rules by name.
- ``facts``: what is known of a replica before its segments are read.
- ``segment_walk``: one segment, batch by batch -> ``parts``.
- ``parts``: what a segment leaves to be put together, as values.
- ``producer_walk``: what producers did in a stretch of a segment, and what breaks Kafka's rules.
- ``index_rules``: the sparse indexes against the batches.
- ``chain``: the parts of one replica, in order: what only shows across segments.
- ``snapshot_rules``, ``aborted_rules``: files against the state that the log leads to.
- ``replica_rules``: replicas of a partition against one another.
"""
