"""The weights by which runs are drawn.

They are not tuned to a bug: runs must do what clients and operators do, not what a known bug needs.
``tests/lab/simulation`` checks that no bug is named here; tests/lab/known_bugs/RESULTS.md has the
date of the weights. ``python -m tests.lab.known_bugs.pairs`` prints which acts never occur
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CLIENT_FEATURES: Final[Mapping[str, float]] = {
    "gives-up": 0.35,
    "ends-elsewhere": 0.3,
    "unknown-end": 0.35,
    "pooled": 0.3,
    "zombie": 0.3,
    "other-identity": 0.1,
    "wrong-broker": 0.15,
    "bumps": 0.3,
    "plain-records": 0.1,
    "needless-adds": 0.15,
    "no-adds": 0.08,
    "impatient": 0.25,
    "long-transactions": 0.3,
    "groups": 0.45,
    "new-protocol": 0.5,
    "static-members": 0.3,
    "members-die": 0.4,
    "members-behind": 0.3,
    "bystander": 0.4,
    "reader": 0.5,
    "operator-looks": 0.3,
    "operator-aborts": 0.2,
    "operator-errs": 0.1,
    "operator-fences": 0.25,
    "delete-records": 0.2,
    "feature-levels": 0.12,
}
"""Share of seeds that have each feature. Swarm testing leaves features out, as a feature can hide
what another one shows (Groce et al., 2012).
"""

CLUSTER_FEATURES: Final[Mapping[str, float]] = {
    "kill": 0.45,
    "power-failure": 0.15,
    "stop": 0.3,
    "isolate": 0.25,
    "move-leader": 0.45,
    "move-coordinator": 0.45,
    "reassign": 0.15,
    "remake-topic": 0.12,
    "grow-topic": 0.12,
    "care-for-logs": 0.25,
    "time-passes": 0.3,
    "clock-jumps": 0.12,
    "lagging-replica": 0.25,
    "full-disk": 0.08,
    "slow-peers": 0.4,
    "lossy-peers": 0.3,
    "slow-clients": 0.35,
    "lossy-clients": 0.25,
    "slow-logs": 0.15,
    "slow-loading": 0.15,
}

FURTHER_FEATURES: Final[Mapping[str, float]] = {
    "short-expirations": 0.1,
    "long-lived-ids": 0.08,
    "move-groups": 0.12,
    "rolling-upgrade": 0.05,
}
"""Share of seeds with each further feature, from its own random stream (``_further_features``)."""

TROUBLED_BROKERS_SHARE: Final = 0.12
"""Share of seeds with troubled brokers, from its own random stream."""
DELAYED_STEPS: Final = (
    "log.read",
    "group.completion",
    "metadata.apply",
    "clock.timer",
    "coordinator.unload",
)
"""Background steps of a broker that may be delayed."""
APPEND_REFUSAL_PROBABILITY: Final = 0.3
"""Probability that a troubled broker's log refuses an append, instead of a delay."""
APPENDED_RECORD_KINDS: Final = ("data", "marker", "coordinator", "coordinator")
REFUSAL_ERROR: Final = "NOT_ENOUGH_REPLICAS"
"""Error of a refused append. It is not NOT_LEADER, as a coordinator would then wait forever for its
successor.
"""
CURIOUS_CLIENT_SHARE: Final = 0.1
"""Share of seeds with a curious client, from its own random stream."""
INTEREST_COUNTS: Final = ((1, 0.4), (2, 0.4), (3, 0.2))
"""Number of interests of a curious actor."""
ODD_VALUE_PROBABILITIES: Final = ((0.04, 0.35), (0.12, 0.4), (0.3, 0.25))
"""Probability of an odd value, per field and per list."""
CURIOUS_API_COUNTS: Final = ((4, 0.3), (8, 0.4), (16, 0.3))
"""Number of APIs that a curious client uses."""
FAVOURITE_PROBABILITY: Final = 0.4
"""Probability of reusing one of two favourite values."""
CURIOUS_REQUEST_COUNTS: Final = ((20, 0.3), (60, 0.4), (120, 0.3))
LOG_CARE_PROBABILITY: Final = 0.06
"""Probability that a curious client has a log of its own rolled or cleaned instead of a request."""
MOVES_WHILE_HELD_SHARE: Final = 0.2
"""Share of seeds with three brokers in which leaders move while a step is held; own random
stream.
"""
HELD_STEPS: Final = (
    ("Fetch", 0.5),
    ("WriteTxnMarkers", 0.15),
    ("AddPartitionsToTxn", 0.15),
    ("load", 0.2),
)
"""What is held while leaders move: an API between brokers, or the loading of a coordinator."""
KEYED_RECORDS_SHARE: Final = 0.7
"""Share of seeds with a compacted topic in which wire actors write keyed records."""
DELETE_RETENTIONS_MS: Final = ((100, 0.6), (86_400_000, 0.4))
JOINT_PRODUCE_SHARE: Final = 0.4
"""Share of seeds with a wire actor in which it writes to several partitions in one request."""
MONITORED_GROUPS_SHARE: Final = 0.4
"""Share of seeds with a group in which a monitor polls its positions."""
REPLACED_MEMBERS_SHARE: Final = 0.3
"""Share of seeds with a group in which producers commit positions with the first identity of their
member.
"""
MEMBER_COMMITS_SHARE: Final = 0.35
"""Share of seeds with a group in which members also commit by themselves, as with
enable.auto.commit.
"""
MEMBER_COMMIT_COUNTS: Final = ((0, 0.3), (1, 0.4), (2, 0.3))
"""Number of commits that a member makes by itself after each poll."""
SEEK_BACK_PROBABILITY: Final = 0.25
"""Probability that a member seeks back before it commits by itself, to read again."""
LATE_FOLLOWERS_SHARE: Final = 0.12
"""Share of seeds with three brokers in which followers lag; own random stream."""
REPLICA_LAGS_MS: Final = ((500, 0.5), (2_000, 0.5))
"""replica.lag.time.max.ms in seeds with late followers."""
LATE_ANSWER_DELAYS_MS: Final = ((40, 0.3), (150, 0.4), (400, 0.3))
"""Delay of the answers to followers, in milliseconds."""
FOLLOWER_BEHIND_PAUSES_MS: Final = ((300, 0.4), (1_000, 0.3), (4_000, 0.3))
"""Pause between acts while a follower is behind, in milliseconds."""
LEADER_MOVE_COUNTS: Final = ((1, 0.3), (2, 0.4), (3, 0.3))
"""Number of moves of one leader in a row."""
MOVE_PAUSES_MS: Final = ((1_500, 1.0),)
"""Pause between the moves of one leader, in milliseconds: enough for a client's request."""
OVERLAPPING_FAULTS_SHARE: Final = 0.16
"""Share of seeds in which a disturbance begins before another one has ended."""
OVERLAPPING_FAULT_UNITS: Final = ((1, 0.4), (2, 0.4), (3, 0.2))
OVERLAPPING_FAULT_COUNTS: Final = ((1, 0.4), (2, 0.4), (4, 0.2))
MAINTENANCE_SHARE: Final = 0.15
"""Share of seeds in which an operator maintains partitions with an open transaction."""
MAINTENANCE_PROBABILITY: Final = 0.4
"""Probability that an operator maintains a partition after an act that writes to it."""
MAINTENANCE_ACTS: Final = ("clean", "delete-old", "move-leader", "reassign", "producers", "read")
"""Maintenance of a partition, also of an internal topic, that loses no data."""
LEAVING_MEMBERS_SHARE: Final = 0.3
"""Share of seeds with a group in which members leave while their positions are in an open
transaction.
"""
LEAVING_ACTS: Final = ("leave", "leave", "die", "stand-still")
BROKER_COUNTS: Final = ((3, 0.75), (2, 0.15), (1, 0.1))
REPLICA_COUNTS: Final = ((1, 0.6), (3, 0.25), (2, 0.15))
"""Replicas per partition. One replica in most seeds, so that an outage of a broker is noticed."""
TOPIC_COUNTS: Final = ((1, 0.4), (2, 0.45), (3, 0.15))
PARTITION_COUNTS: Final = ((1, 0.55), (2, 0.3), (3, 0.15))
INTERNAL_PARTITION_COUNTS: Final = ((1, 0.3), (2, 0.3), (3, 0.4))
APPLICATION_COUNTS: Final = ((0, 0.2), (1, 0.45), (2, 0.35))
WIRE_ACTOR_COUNTS: Final = ((0, 0.15), (1, 0.35), (2, 0.35), (3, 0.15))
TRANSACTION_COUNTS: Final = ((1, 0.15), (2, 0.2), (3, 0.2), (5, 0.25), (8, 0.2))
"""Number of transactions per client."""
RECORD_COUNTS: Final = ((1, 0.5), (2, 0.3), (4, 0.2))
"""Number of records per transaction."""
COMMIT_PROBABILITY: Final = 0.72
"""Share of transactions that commit."""
TIMEOUTS_S: Final = ((10, 0.2), (20, 0.3), (60, 0.5))
"""transaction.timeout.ms of clients, in seconds."""
PAUSES_MS: Final = ((0, 0.35), (20, 0.2), (200, 0.2), (1_000, 0.15), (6_000, 0.1))
"""Upper bound of the pause between two acts of a client, in milliseconds."""
LONG_PAUSES_MS: Final = ((8_000, 0.4), (25_000, 0.4), (70_000, 0.2))
"""Pause of a client that sleeps in the middle of a transaction, in milliseconds."""
DISTURBER_COUNTS: Final = ((0, 0.1), (1, 0.4), (2, 0.35), (3, 0.15))
"""Number of disturbers; each makes its disturbances one after the other."""
DISTURBANCE_COUNTS: Final = ((1, 0.2), (2, 0.3), (3, 0.3), (5, 0.2))
"""Number of disturbances of each disturber."""
DISTURBANCE_PAUSES_MS: Final = ((300, 0.25), (2_000, 0.35), (8_000, 0.25), (25_000, 0.15))
OUTAGES_MS: Final = ((1_000, 0.2), (6_000, 0.2), (20_000, 0.4), (60_000, 0.2))
"""Upper bounds of the time for which a broker is down or cut off."""
FAULT_STRIKE_COUNTS: Final = ((1, 0.5), (2, 0.3), (5, 0.2))
FAULT_DELAYS_MS: Final = ((50, 0.25), (600, 0.3), (4_000, 0.3), (32_000, 0.15))
TIME_JUMPS_S: Final = ((2, 0.3), (15, 0.3), (70, 0.3), (1_300, 0.1))
EXPIRATIONS_MS: Final = ((10_000, 0.3), (30_000, 0.4), (120_000, 0.3))
"""Expirations of unused state, in seeds where it expires early."""
LATENCIES_US: Final = (((50, 500), 0.6), ((20, 5_000), 0.25), ((500, 60_000), 0.15))
"""Latency of one direction in microseconds, for clients and between brokers."""
PEER_APIS: Final = (
    "WriteTxnMarkers",
    "AddPartitionsToTxn",
    "Fetch",
    "AlterPartition",
    "any",
)
CLIENT_APIS: Final = (
    "Produce",
    "EndTxn",
    "AddPartitionsToTxn",
    "InitProducerId",
    "TxnOffsetCommit",
)
SHARE_GROUPS_PROBABILITY: Final = 0.2
"""Share of seeds with the reference release that have share groups; own random stream."""
SHARE_GROUP_COUNTS: Final = ((1, 0.7), (2, 0.3))
SHARE_MEMBER_COUNTS: Final = ((1, 0.4), (2, 0.4), (3, 0.2))
SHARE_POLL_COUNTS: Final = ((3, 0.3), (6, 0.4), (12, 0.3))
SHARE_ISOLATIONS: Final = (("read_committed", 0.65), ("read_uncommitted", 0.35))
LOCK_DURATIONS_MS: Final = ((1_000, 0.4), (5_000, 0.3), (30_000, 0.3))
RECORD_LOCK_LIMITS: Final = ((100, 0.5), (2_000, 0.5))
"""Maximum number of acquired records of a group in a partition."""
DELIVERY_LIMITS: Final = ((2, 0.4), (5, 0.6))
ACKNOWLEDGE_PROBABILITY: Final = 0.8
"""Probability of an acknowledgement after a poll."""
ACKNOWLEDGE_TYPES: Final = (("accept", 0.55), ("release", 0.25), ("reject", 0.1), ("renew", 0.1))
MEMBER_RESTART_PROBABILITY: Final = 0.12
"""Probability that a member dies or leaves after a poll, and comes back."""
LARGE_TRANSACTIONS_SHARE: Final = 0.4
"""Share of the seeds with share groups in which a client writes transactions with more records than
a group may lock.
"""
LARGE_RECORD_COUNTS: Final = ((20, 0.4), (130, 0.6))
STREAMS_GROUPS_SHARE: Final = 0.25
"""Share of seeds with a group and the reference release in which its members are threads of Kafka
Streams.
"""
