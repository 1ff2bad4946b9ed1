"""Requests and replies between brokers, and between brokers and the controller, as typed values
without behaviour. Pure.

- ``transactions``: AddPartitionsToTxn v4+, WriteTxnMarkers, AllocateProducerIds.
- ``replication``: Fetch and ListOffsets of a follower, AlterPartition.
- ``lifecycle``: BrokerRegistration, BrokerHeartbeat.
- ``dead_letters``: Produce from a share partition's leader to a dead letter topic.
- ``share_state``: InitializeShareGroupState to ReadShareGroupStateSummary, one value per partition.

``node.peers`` sends a command as an object, with its API key and version. ``faults.subjects`` says
which partitions, transactions and groups a command is about.
"""
