"""The decisions of the controller, pure. Its shell is ``txnsim.node.controller_node``.

- ``controller``: topics, partitions, configs, leaders; ``features`` has UpdateFeatures.
- ``broker_sessions``, ``registrations``: who is alive, and brokers that come and go.
- ``leadership``, ``elections``: leaders across the cluster, and elections on request.
- ``isr_requests``: AlterPartition.
- ``replica_placement``, ``partition_growth``, ``reassignments``: where replicas go, more
  partitions, other brokers.
"""
