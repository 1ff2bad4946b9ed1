"""In which version a broker sends what it asks of another one, or of the controller. Pure data.

There are three ways. A follower goes by the cluster's ``metadata.version``, which every broker of
the cluster knows. Most other senders ask their peer first what it knows (ApiVersions), and take the
newest version that both know. Two did not, in some releases: they sent the newest of their own,
whatever the peer knows (switches ``verification_follows_peer_version`` and
``markers_follow_peer_version``). Kafka's counterparts: MetadataVersion, and the argument
``discoverBrokerVersions`` of NetworkClient.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

Levels = tuple[tuple[int, int], ...]
"""(from this level of ``metadata.version`` on, version of the request), ascending; a cluster of 2.8
has level 0.
"""

FOLLOWER_FETCH: Final[Levels] = (
    (0, 12),
    (2, 13),  # topics by id
    (9, 14),
    (10, 15),  # the follower's broker epoch (KIP-903)
    (19, 16),
    (21, 17),
    (27, 18),  # the high watermark that the follower knows (KIP-1166)
)
"""MetadataVersion.fetchRequestVersion."""
FOLLOWER_LIST_OFFSETS: Final[Levels] = ((0, 6), (1, 7), (9, 8), (21, 9), (25, 10), (29, 11))
"""MetadataVersion.listOffsetRequestVersion."""


def at_level(levels: Levels, level: int) -> int:
    """The version of a request where the cluster's ``metadata.version`` is at a level."""
    return next(version for least, version in reversed(levels) if least <= level)


class Chosen(Enum):
    """What the version of an exchange goes by."""

    BY_METADATA_VERSION = "`metadata.version`"
    BY_ASKING = "the peer"
    """The newest that both know."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of request between brokers, or to the controller."""

    api_key: int
    what: str
    chosen: Chosen
    levels: Levels = ()
    unless: str = ""
    """A switch; while it is off, the sender takes its own newest version without asking."""


EXCHANGES: Final = (
    Exchange(
        api_key=1,
        what="Fetch of a follower",
        chosen=Chosen.BY_METADATA_VERSION,
        levels=FOLLOWER_FETCH,
    ),
    Exchange(
        api_key=2,
        what="ListOffsets of a follower",
        chosen=Chosen.BY_METADATA_VERSION,
        levels=FOLLOWER_LIST_OFFSETS,
    ),
    Exchange(
        api_key=24,
        what="AddPartitionsToTxn of a leader",
        chosen=Chosen.BY_ASKING,
        unless="verification_follows_peer_version",
    ),
    Exchange(
        api_key=27,
        what="WriteTxnMarkers of a coordinator",
        chosen=Chosen.BY_ASKING,
        unless="markers_follow_peer_version",
    ),
    Exchange(api_key=56, what="AlterPartition to the controller", chosen=Chosen.BY_ASKING),
    Exchange(api_key=62, what="BrokerRegistration to the controller", chosen=Chosen.BY_ASKING),
    Exchange(api_key=63, what="BrokerHeartbeat to the controller", chosen=Chosen.BY_ASKING),
    Exchange(api_key=67, what="AllocateProducerIds to the controller", chosen=Chosen.BY_ASKING),
)
"""All that brokers ask here. A broker forwards what the controller decides in the version of the
client's request; so it lists these APIs only in versions that the controller knows, too
(``FORWARDED``).
"""

FORWARDED: Final = frozenset(
    {19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81, 94}
)
"""Keys of ``ApiKeys.forwardable``, in 4.4."""
