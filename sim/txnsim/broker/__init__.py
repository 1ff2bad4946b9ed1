"""One broker, composed, and the paths of the requests that touch its logs.

- ``broker``: the partitions it leads, the coordinators it hosts, the requests of its peers.
- ``produce``, ``fetch``, ``marker_writes``: these requests at a replica; ``look_ahead`` unpacks
  heavy batches before.
- ``verification``: the coordinator is asked before a transaction opens (KIP-890).
- ``coordinator_host``, ``group_host``: what coordinators need of their broker.
- ``housekeeping``: periodic work on logs.

Kafka's counterparts: BrokerServer, ReplicaManager, KafkaApis.
"""
