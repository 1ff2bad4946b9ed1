"""The API versions of this client, and the ones that a broker and this client have in common.

Pure. Kafka's counterpart is ``NodeApiVersions.latestUsableVersion``; refusals use its words. The
ranges are the versions that this client supports; ``AddPartitionsToTxn`` ends at 3, because later
versions are for brokers (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import ModuleType
from typing import Any, Final

import msgspec

from txnsim.client.errors import NotSupportedError
from txnsim.errors import ErrorCode


class Api(IntEnum):
    """The APIs that this client uses, by key."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68


class VersionRange(msgspec.Struct, frozen=True):
    """Lowest and highest version, both included."""

    lowest: int
    highest: int


OURS: Final[Mapping[int, VersionRange]] = {
    Api.PRODUCE: VersionRange(3, 13),
    Api.FETCH: VersionRange(4, 18),
    Api.LIST_OFFSETS: VersionRange(1, 11),
    Api.METADATA: VersionRange(1, 13),
    # From 10 on topics go by id.
    Api.OFFSET_COMMIT: VersionRange(2, 9),
    # Up to here a request is about one group; that is enough here.
    Api.OFFSET_FETCH: VersionRange(2, 7),
    Api.FIND_COORDINATOR: VersionRange(1, 6),
    Api.JOIN_GROUP: VersionRange(2, 9),
    Api.HEARTBEAT: VersionRange(1, 4),
    Api.LEAVE_GROUP: VersionRange(1, 5),
    Api.SYNC_GROUP: VersionRange(1, 5),
    Api.LIST_GROUPS: VersionRange(0, 4),
    # After 0 the tokens come without headers; every broker since 1.0 knows 1 (KIP-152).
    Api.SASL_HANDSHAKE: VersionRange(1, 1),
    Api.API_VERSIONS: VersionRange(0, 4),
    Api.CREATE_TOPICS: VersionRange(2, 7),
    Api.DELETE_TOPICS: VersionRange(1, 6),
    Api.DELETE_RECORDS: VersionRange(0, 2),
    Api.INIT_PRODUCER_ID: VersionRange(0, 5),
    Api.ADD_PARTITIONS_TO_TXN: VersionRange(0, 3),
    Api.ADD_OFFSETS_TO_TXN: VersionRange(0, 4),
    Api.END_TXN: VersionRange(0, 5),
    # 0 is all that brokers before 2.8 have; Java's clients have dropped it with 4.0.
    Api.WRITE_TXN_MARKERS: VersionRange(0, 2),
    Api.TXN_OFFSET_COMMIT: VersionRange(0, 5),
    Api.DESCRIBE_CONFIGS: VersionRange(1, 4),
    Api.SASL_AUTHENTICATE: VersionRange(0, 2),
    Api.DELETE_GROUPS: VersionRange(0, 2),
    Api.ELECT_LEADERS: VersionRange(1, 2),
    Api.INCREMENTAL_ALTER_CONFIGS: VersionRange(0, 1),
    Api.ALTER_PARTITION_REASSIGNMENTS: VersionRange(0, 1),
    Api.UPDATE_FEATURES: VersionRange(0, 2),
    Api.DESCRIBE_CLUSTER: VersionRange(0, 2),
    Api.DESCRIBE_PRODUCERS: VersionRange(0, 0),
    # Kafka has 0 alone; 1 is the text of KIP-994, on the listener of --kip-text.
    Api.DESCRIBE_TRANSACTIONS: VersionRange(0, 1),
    Api.LIST_TRANSACTIONS: VersionRange(0, 2),
    Api.CONSUMER_GROUP_HEARTBEAT: VersionRange(0, 1),
}

ANY: Final = VersionRange(0, 32767)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose version is not chosen yet."""

    api: Api
    build: Callable[[ModuleType], Any]
    """Makes the message from the schema of the version chosen."""
    within: VersionRange = ANY
    timeout_ms: float | None = None
    """Instead of ``request_timeout_ms``."""
    answered: bool = True
    """False for Produce with acks=0, which no broker answers."""


def choose_version(
    api: Api, broker: Mapping[int, VersionRange], *, within: VersionRange = ANY
) -> int:
    """The highest version that the broker, we and ``within`` have in common.

    Args:
        api: Which API.
        broker: What the broker's ApiVersions answer said.
        within: Further limits, such as "not above 4" of the old transaction protocol.

    Raises:
        NotSupportedError: There is none.
    """
    theirs = broker.get(api)
    if theirs is None:
        raise NotSupportedError(
            f"The node does not support {api.name}", error=ErrorCode.unsupported_version
        )
    ours = OURS[api]
    highest = min(ours.highest, theirs.highest, within.highest)
    lowest = max(ours.lowest, theirs.lowest, within.lowest)
    if highest < lowest:
        wanted_low = max(ours.lowest, within.lowest)
        wanted_high = min(ours.highest, within.highest)
        raise NotSupportedError(
            f"The node does not support {api.name} with version in range"
            f" [{wanted_low},{wanted_high}]. The supported range is"
            f" [{theirs.lowest},{theirs.highest}].",
            error=ErrorCode.unsupported_version,
        )
    return highest


class FinalizedFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """Finalized feature levels as one ApiVersions answer has them (KIP-584)."""

    epoch: int = -1
    """FinalizedFeaturesEpoch; -1: the broker did not know."""
    levels: tuple[tuple[str, int], ...] = ()

    def level(self, feature: str) -> int:
        """The level of a feature; 0 where it is not listed, as Kafka leaves level 0 out."""
        return dict(self.levels).get(feature, 0)


def newer_features(known: FinalizedFeatures, seen: FinalizedFeatures) -> FinalizedFeatures:
    """Merge another answer: only a higher epoch replaces the known features
    (ApiVersions.update)."""
    return seen if seen.epoch > known.epoch else known
