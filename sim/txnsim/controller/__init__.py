"""The decisions of the controller, pure. Its shell is ``txnsim.node.controller_node``.

- ``controller``: topics, partitions, configs, leaders; ``features`` has UpdateFeatures.
- ``broker_sessions``, ``registrations``: which brokers are alive; registration and fencing.
- ``leadership``, ``elections``: leaders across the cluster, and elections on request.
- ``isr_requests``: AlterPartition.
- ``replica_placement``, ``partition_growth``, ``reassignments``: placement of replicas, additional
  partitions, moves to other brokers.
"""
