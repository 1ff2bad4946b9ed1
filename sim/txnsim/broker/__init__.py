"""One broker, composed, and the paths of the requests that touch its logs.

- ``broker``: the partitions it leads, the coordinators it hosts, the requests of its peers.
- ``produce``, ``fetch``, ``_marker_writes``: these requests at a replica; ``look_ahead`` unpacks
  heavy batches before.
- ``verification``: the coordinator is asked before a transaction opens (KIP-890).
- ``_coordinator_host``, ``_group_host``: what coordinators need of their broker.
- ``_housekeeping``: periodic work on logs.

Kafka's counterparts: BrokerServer, ReplicaManager, KafkaApis.
"""
