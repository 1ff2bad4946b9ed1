"""What brokers ask each other and the controller, as typed values without behaviour. Pure.

- ``transactions``: AddPartitionsToTxn v4+, WriteTxnMarkers, AllocateProducerIds.
- ``replication``: Fetch and ListOffsets of a follower, AlterPartition.
- ``lifecycle``: BrokerRegistration, BrokerHeartbeat.
- ``dead_letters``: Produce of a share partition's leader to a dead letter topic.
- ``share_state``: InitializeShareGroupState to ReadShareGroupStateSummary, a partition each.

A command travels through ``node.peers`` with its API key and version, as an object.
``faults.subjects`` says whom it is about.
"""
