"""Members of consumer groups, of both protocols: classic, and that of KIP-848.

A ``GroupMember`` subscribes, polls, seeks, commits and leaves as a consumer does. Heartbeats go on
beside it; a rebalance happens in its polls, as in Kafka's own clients.

It differs from them on purpose: a poll first checks for a rebalance, heartbeats are sent every 300
ms, there is no auto-commit, and the only assignor is ``range``.

Kafka's counterparts are ``ConsumerCoordinator`` and ``ConsumerMembershipManager``.
"""
