"""In which version a broker sends what it asks of another one, or of the controller. Pure data.

There are three ways. A follower goes by the cluster's ``metadata.version``, which every broker of
the cluster knows. Most other senders ask their peer first what it knows (ApiVersions), and take the
newest version that both know. In some releases two senders did not ask: they sent their own newest
version, even to a peer that does not know it (``InterbrokerRequest.unless``). Kafka's counterparts:
MetadataVersion, and the argument ``discoverBrokerVersions`` of NetworkClient.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.releases.rules import Rules

Levels = tuple[tuple[int, int], ...]
"""(from this level of ``metadata.version`` on, version of the request), ascending; a cluster of 2.8
has level 0.
"""


class InterbrokerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of request between brokers, or to the controller."""

    api_key: int
    what: str
    levels: Levels = ()
    """Where the cluster's ``metadata.version`` decides; elsewhere the version is the newest that
    both know.
    """
    unless: str = ""
    """A switch; while it is off, the sender takes its own newest version without asking."""

    def at_level(self, level: int) -> int:
        """The version where the cluster's ``metadata.version`` is at a level."""
        return next(version for least, version in reversed(self.levels) if least <= level)

    def follows_peer(self, rules: Rules) -> bool:
        """Whether a sender with these rules asks its peer first."""
        return not self.unless or bool(getattr(rules, self.unless))


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
"""MetadataVersion.fetchRequestVersion."""
FOLLOWER_LIST_OFFSETS: Final = InterbrokerRequest(
    api_key=2,
    what="ListOffsets of a follower",
    levels=((0, 6), (1, 7), (9, 8), (21, 9), (25, 10), (29, 11)),
)
"""MetadataVersion.listOffsetRequestVersion."""
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
"""All that brokers ask here. A broker forwards what the controller decides in the version of the
client's request; so it lists these APIs only in versions that the controller knows, too
(``FORWARDED``).
"""

FORWARDED: Final = frozenset(
    {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81, 94}
)
"""Keys of ``ApiKeys.forwardable``, in 4.4."""
