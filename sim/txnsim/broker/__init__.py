"""One broker, composed, and the paths of the requests that touch its logs.

- ``broker``: the partitions it leads, the coordinators it hosts, the requests of its peers, the
  markers that it writes, periodic work on logs.
- ``produce``, ``fetch``: these requests at a replica; ``look_ahead`` unpacks
  heavy batches before.
- ``share_fetch``: ShareFetch and ShareAcknowledge (KIP-932); ``_share_partitions``:
  the share partitions that the broker leads.
- ``verification``: asks the coordinator before a transaction opens (KIP-890).
- ``_coordinator_host``, ``_share_host``: what coordinators need of their broker.
- ``_share_persister``: asks share coordinators (KIP-932).

Kafka's counterparts: BrokerServer, ReplicaManager, KafkaApis.
"""
