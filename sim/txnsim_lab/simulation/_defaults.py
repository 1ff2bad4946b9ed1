"""The weights by which runs are drawn.

They are not tuned to a bug: what a seed does must be what clients and operators do, not what a
known bug needs. ``tests/lab/simulation`` sees to it that no bug is named here;
tests/lab/known_bugs/RESULTS.md has the date of the weights. Which acts never meet,
``python -m tests.lab.known_bugs.pairs`` prints.
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
"""How many of a hundred seeds have each: swarm testing leaves features out, as a feature can hide
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
"""What seeds have besides, from a stream of its own (``_further_features``)."""

TROUBLED: Final = 0.12
"""Of seeds, from a stream of its own as well."""
STEPS: Final = (
    "log.read",
    "group.completion",
    "metadata.apply",
    "clock.timer",
    "coordinator.unload",
)
"""Background steps of a broker that may be delayed."""
REFUSED: Final = 0.3
"""How often its log refuses something instead."""
KINDS: Final = ("data", "marker", "coordinator", "coordinator")
REFUSAL: Final = "NOT_ENOUGH_REPLICAS"
"""Never NOT_LEADER: a coordinator would wait for its successor for ever."""
CURIOSITY: Final = 0.1
"""Of seeds; from a stream of its own as well."""
INTERESTS: Final = ((1, 0.4), (2, 0.4), (3, 0.2))
"""Number of interests of a curious actor."""
ODDITIES: Final = ((0.04, 0.35), (0.12, 0.4), (0.3, 0.25))
"""Probability of an odd value, per field and per list."""
ASKED_FOR: Final = ((4, 0.3), (8, 0.4), (16, 0.3))
"""How many APIs he knows of these kinds."""
FAVOURITES: Final = 0.4
"""Probability of reusing one of two favourite values."""
QUESTIONS: Final = ((20, 0.3), (60, 0.4), (120, 0.3))
CARE: Final = 0.06
"""How often he has a log of his own rolled or cleaned instead."""
MOVES_WHILE_HELD: Final = 0.2
"""Of seeds with three brokers; from a stream of its own as well."""
HELD: Final = (
    ("Fetch", 0.5),
    ("WriteTxnMarkers", 0.15),
    ("AddPartitionsToTxn", 0.15),
    ("load", 0.2),
)
"""What comes late while leaders move: an API between brokers, or the loading of a coordinator."""
KEYED_RECORDS: Final = 0.7
"""Of seeds with a compacted topic."""
DELETE_RETENTIONS_MS: Final = ((100, 0.6), (86_400_000, 0.4))
TOGETHER: Final = 0.4
"""Of seeds with a client that sends requests by hand: it writes to several partitions at once."""
MONITORED: Final = 0.4
"""Share of seeds with a group in which a monitor polls its positions."""
REPLACED_MEMBERS: Final = 0.3
"""Of seeds with a group: producers commit positions in the name of what their member was first."""
BOTH_WAYS: Final = 0.35
"""Of seeds with a group: its members commit by themselves as well, as with enable.auto.commit."""
ROUNDS: Final = ((0, 0.3), (1, 0.4), (2, 0.3))
"""How often they do, for each poll."""
GOES_BACK: Final = 0.25
"""How often one of them goes back first, to read again."""
LATE_FOLLOWERS: Final = 0.12
"""Of seeds with three brokers; from a stream of its own as well."""
LAGS_MS: Final = ((500, 0.5), (2_000, 0.5))
"""replica.lag.time.max.ms there."""
LATE_ANSWERS_MS: Final = ((40, 0.3), (150, 0.4), (400, 0.3))
"""How late followers are told what is new, and what is replicated."""
BEHIND_MS: Final = ((300, 0.4), (1_000, 0.3), (4_000, 0.3))
"""Between what is done while a follower is behind."""
MOVES: Final = ((1, 0.3), (2, 0.4), (3, 0.3))
"""Of one leader in a row."""
MOVE_PAUSES_MS: Final = ((1_500, 1.0),)
"""Between them: time enough for a client to come in between."""
AMID_FAULTS: Final = 0.16
"""Of seeds: something happens to the cluster before something else is over."""
AMID_UNITS: Final = ((1, 0.4), (2, 0.4), (3, 0.2))
AMID: Final = ((1, 0.4), (2, 0.4), (4, 0.2))
AMID_TRANSACTIONS: Final = 0.15
"""Of seeds: somebody looks after partitions that an open transaction has written to."""
LOOKED_AFTER: Final = 0.4
"""How often somebody does, for each act that writes."""
CARES: Final = ("clean", "delete-old", "move-leader", "reassign", "producers", "read")
"""What can be done to a partition of a topic, Kafka's own ones as well, and loses nothing."""
LEAVING: Final = 0.3
"""Of seeds with a group: members go while their positions are in an open transaction."""
GOES: Final = ("leave", "leave", "die", "stand-still")
BROKERS: Final = ((3, 0.75), (2, 0.15), (1, 0.1))
REPLICATION: Final = ((1, 0.6), (3, 0.25), (2, 0.15))
"""One replica in most seeds: an outage then is one."""
TOPICS: Final = ((1, 0.4), (2, 0.45), (3, 0.15))
PARTITIONS: Final = ((1, 0.55), (2, 0.3), (3, 0.15))
INTERNAL_PARTITIONS: Final = ((1, 0.3), (2, 0.3), (3, 0.4))
APPLICATIONS: Final = ((0, 0.2), (1, 0.45), (2, 0.35))
WIRES: Final = ((0, 0.15), (1, 0.35), (2, 0.35), (3, 0.15))
TRANSACTIONS: Final = ((1, 0.15), (2, 0.2), (3, 0.2), (5, 0.25), (8, 0.2))
"""Per client."""
RECORDS: Final = ((1, 0.5), (2, 0.3), (4, 0.2))
"""Per transaction."""
COMMITTED: Final = 0.72
"""Share of transactions to commit."""
TIMEOUTS_S: Final = ((10, 0.2), (20, 0.3), (60, 0.5))
"""transaction.timeout.ms"""
PAUSES_MS: Final = ((0, 0.35), (20, 0.2), (200, 0.2), (1_000, 0.15), (6_000, 0.1))
"""Between two acts of a client: up to so much."""
LONG_PAUSES_MS: Final = ((8_000, 0.4), (25_000, 0.4), (70_000, 0.2))
"""Of somebody who sleeps in the middle of a transaction."""
DISTURBERS: Final = ((0, 0.1), (1, 0.4), (2, 0.35), (3, 0.15))
"""How many act on the cluster, each in turn."""
DISTURBANCES: Final = ((1, 0.2), (2, 0.3), (3, 0.3), (5, 0.2))
"""Number of disturbances of each disturber."""
DISTURBANCE_PAUSES_MS: Final = ((300, 0.25), (2_000, 0.35), (8_000, 0.25), (25_000, 0.15))
OUTAGES_MS: Final = ((1_000, 0.2), (6_000, 0.2), (20_000, 0.4), (60_000, 0.2))
"""Upper bounds of the time for which a broker is down or cut off."""
FAULT_TIMES: Final = ((1, 0.5), (2, 0.3), (5, 0.2))
FAULT_DELAYS_MS: Final = ((50, 0.25), (600, 0.3), (4_000, 0.3), (32_000, 0.15))
TIME_JUMPS_S: Final = ((2, 0.3), (15, 0.3), (70, 0.3), (1_300, 0.1))
EXPIRATIONS_MS: Final = ((10_000, 0.3), (30_000, 0.4), (120_000, 0.3))
"""Expirations of unused state, in seeds where it expires early."""
LATENCIES_US: Final = (((50, 500), 0.6), ((20, 5_000), 0.25), ((500, 60_000), 0.15))
"""One way, of clients and between brokers."""
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
SHARED: Final = 0.2
"""Of seeds with brokers of the reference; from a stream of its own as well."""
SHARE_GROUPS: Final = ((1, 0.7), (2, 0.3))
SHARE_MEMBERS: Final = ((1, 0.4), (2, 0.4), (3, 0.2))
SHARE_POLLS: Final = ((3, 0.3), (6, 0.4), (12, 0.3))
SHARE_ISOLATIONS: Final = (("read_committed", 0.65), ("read_uncommitted", 0.35))
LOCKS_MS: Final = ((1_000, 0.4), (5_000, 0.3), (30_000, 0.3))
RECORD_LOCKS: Final = ((100, 0.5), (2_000, 0.5))
"""How many records of a partition a group may have at a time."""
DELIVERY_LIMITS: Final = ((2, 0.4), (5, 0.6))
SAYS_SOMETHING: Final = 0.8
"""Probability of an acknowledgement after a poll."""
ACKNOWLEDGED_AS: Final = (("accept", 0.55), ("release", 0.25), ("reject", 0.1), ("renew", 0.1))
COMES_AND_GOES: Final = 0.12
"""How often a member dies or leaves after a poll, and comes back."""
LARGE_TRANSACTIONS: Final = 0.4
"""Of these seeds: somebody writes transactions of so many records."""
LARGE: Final = ((20, 0.4), (130, 0.6))
STREAMS: Final = 0.25
"""Of seeds with a group and brokers of the reference: its members are threads of Kafka Streams."""
