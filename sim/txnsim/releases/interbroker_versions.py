"""The versions in which a broker sends requests to other brokers and to the controller. Pure data.

There are three ways. A follower uses the version that belongs to the cluster's
``metadata.version``, which every broker knows. Most other senders ask their peer for its versions
first (ApiVersions), and use the newest version that both support. In some releases two senders did
not ask: they sent their own newest version, even to a peer that does not support it
(``InterbrokerRequest.unless``). Kafka's counterparts: MetadataVersion, and the argument
``discoverBrokerVersions`` of NetworkClient.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.releases.rules import Rules

Levels = tuple[tuple[int, int], ...]
"""(lowest level of ``metadata.version``, version of the request) pairs, ascending; a 2.8 cluster
has level 0.
"""


class InterbrokerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of request between brokers, or to the controller."""

    api_key: int
    what: str
    levels: Levels = ()
    """The request's versions by ``metadata.version``; if empty, the newest version that both
    brokers support is used.
    """
    unless: str = ""
    """Name of a switch; while it is off, the sender uses its own newest version without asking."""

    def at_level(self, level: int) -> int:
        """The version to use at a level of the cluster's ``metadata.version``."""
        return next(
            version for first_level, version in reversed(self.levels) if first_level <= level
        )

    def follows_peer(self, release_rules: Rules) -> bool:
        """Whether a sender with these rules asks its peer for its versions first."""
        return not self.unless or bool(getattr(release_rules, self.unless))


FOLLOWER_FETCH: Final = InterbrokerRequest(
    api_key=1,
    what="Fetch of a follower",
    levels=(
        (0, 12),
        (2, 13),  # topics by id
        (9, 14),
        (10, 15),  # the follower's broker epoch (KIP-903)
        (19, 16),
        (21, 17),
        (27, 18),  # the high watermark that the follower knows (KIP-1166)
    ),
)
"""Versions from MetadataVersion.fetchRequestVersion."""
FOLLOWER_LIST_OFFSETS: Final = InterbrokerRequest(
    api_key=2,
    what="ListOffsets of a follower",
    levels=((0, 6), (1, 7), (9, 8), (21, 9), (25, 10), (29, 11)),
)
"""Versions from MetadataVersion.listOffsetRequestVersion."""
LIST_OFFSETS: Final = InterbrokerRequest(api_key=2, what="ListOffsets of a group coordinator")
DEAD_LETTERS: Final = InterbrokerRequest(api_key=0, what="Produce of dead letters")
ADD_PARTITIONS_TO_TXN: Final = InterbrokerRequest(
    api_key=24, what="AddPartitionsToTxn of a leader", unless="verification_follows_peer_version"
)
WRITE_TXN_MARKERS: Final = InterbrokerRequest(
    api_key=27, what="WriteTxnMarkers of a coordinator", unless="markers_follow_peer_version"
)
ALTER_PARTITION: Final = InterbrokerRequest(api_key=56, what="AlterPartition to the controller")
BROKER_REGISTRATION: Final = InterbrokerRequest(
    api_key=62, what="BrokerRegistration to the controller"
)
BROKER_HEARTBEAT: Final = InterbrokerRequest(api_key=63, what="BrokerHeartbeat to the controller")
ALLOCATE_PRODUCER_IDS: Final = InterbrokerRequest(
    api_key=67, what="AllocateProducerIds to the controller"
)
SHARE_STATE: Final = tuple(
    InterbrokerRequest(api_key=key, what=f"{name} to a share coordinator")
    for key, name in (
        (83, "InitializeShareGroupState"),
        (84, "ReadShareGroupState"),
        (85, "WriteShareGroupState"),
        (86, "DeleteShareGroupState"),
        (87, "ReadShareGroupStateSummary"),
    )
)

EXCHANGES: Final = (
    *(FOLLOWER_FETCH, FOLLOWER_LIST_OFFSETS, LIST_OFFSETS, DEAD_LETTERS),
    *(ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS),
    *(ALTER_PARTITION, BROKER_REGISTRATION, BROKER_HEARTBEAT, ALLOCATE_PRODUCER_IDS),
    *SHARE_STATE,
)
"""All requests that brokers send. Requests that a broker forwards to the controller are not among
them (``FORWARDED``): they keep the version of the client's request, so the broker lists their APIs
only in versions that the controller supports, too.
"""

FORWARDED: Final = frozenset(
    {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81, 94}
)
"""API keys that a broker forwards to the controller (``ApiKeys.forwardable`` in 4.4)."""
