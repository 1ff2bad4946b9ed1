"""One broker, composed, and the paths of the requests that touch its logs.

- ``broker``: wires the parts, applies new metadata. ``_peer_requests``: what other brokers ask of
  it; ``_marker_writes``: markers of transactions; ``_housekeeping``: periodic work on logs.
- ``produce``, ``fetch``: these requests at a replica; ``look_ahead`` unpacks
  heavy batches before.
- ``share_fetch``: ShareFetch and ShareAcknowledge (KIP-932); ``_share_partitions``:
  the share partitions that the broker leads.
- ``verification``: asks the coordinator before a transaction opens (KIP-890).
- ``coordinator_host``, ``_share_host``: what coordinators need of their broker.
- ``_share_persister``: asks share coordinators (KIP-932).

Kafka's counterparts: BrokerServer, ReplicaManager, KafkaApis.
"""
