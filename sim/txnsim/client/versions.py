"""The API versions of this client, and the ones that a broker and this client have in common.

Pure. Kafka's counterpart is ``NodeApiVersions.latestUsableVersion``; refusals use its words. The
ranges are the versions that this client supports; ``AddPartitionsToTxn`` ends at 3, because later
versions are for brokers (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import ModuleType
from typing import Any, Final, Self

import msgspec

from txnsim.client.errors import ClientTooOldError, NotSupportedError
from txnsim.errors import ErrorCode


class VersionRange(msgspec.Struct, frozen=True):
    """Lowest and highest version, both included."""

    lowest: int
    highest: int


class Api(IntEnum):
    """The APIs that this client uses: key, lowest and highest version that it speaks."""

    ours: VersionRange

    def __new__(cls, key: int, lowest: int, highest: int) -> Self:
        """The number of an API, which knows its versions."""
        made = int.__new__(cls, key)
        made._value_ = key
        made.ours = VersionRange(lowest, highest)
        return made

    PRODUCE = 0, 3, 13
    FETCH = 1, 4, 18
    LIST_OFFSETS = 2, 1, 11
    METADATA = 3, 1, 13
    # From 10 on topics go by id.
    OFFSET_COMMIT = 8, 2, 9
    # Up to here a request is about one group; that is enough here.
    OFFSET_FETCH = 9, 2, 7
    FIND_COORDINATOR = 10, 1, 6
    JOIN_GROUP = 11, 2, 9
    HEARTBEAT = 12, 1, 4
    LEAVE_GROUP = 13, 1, 5
    SYNC_GROUP = 14, 1, 5
    LIST_GROUPS = 16, 0, 4
    # After 0 the tokens come without headers; every broker since 1.0 knows 1 (KIP-152).
    SASL_HANDSHAKE = 17, 1, 1
    API_VERSIONS = 18, 0, 4
    CREATE_TOPICS = 19, 2, 7
    DELETE_TOPICS = 20, 1, 6
    DELETE_RECORDS = 21, 0, 2
    # 6 is KIP-939's, which none up to 4.4 advertises: only two-phase commit asks for it.
    INIT_PRODUCER_ID = 22, 0, 6
    ADD_PARTITIONS_TO_TXN = 24, 0, 3
    ADD_OFFSETS_TO_TXN = 25, 0, 4
    END_TXN = 26, 0, 5
    # 0 is all that brokers before 2.8 have; Java's clients have dropped it with 4.0.
    WRITE_TXN_MARKERS = 27, 0, 2
    TXN_OFFSET_COMMIT = 28, 0, 5
    DESCRIBE_CONFIGS = 32, 1, 4
    SASL_AUTHENTICATE = 36, 0, 2
    DELETE_GROUPS = 42, 0, 2
    ELECT_LEADERS = 43, 1, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 0, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 0, 1
    UPDATE_FEATURES = 57, 0, 2
    DESCRIBE_CLUSTER = 60, 0, 2
    DESCRIBE_PRODUCERS = 61, 0, 0
    # Kafka has 0 alone; 1 is the text of KIP-994, on the listener of --kip-text.
    DESCRIBE_TRANSACTIONS = 65, 0, 1
    LIST_TRANSACTIONS = 66, 0, 2
    CONSUMER_GROUP_HEARTBEAT = 68, 0, 1


ANY: Final = VersionRange(0, 32767)


class ByHand(msgspec.Struct, frozen=True, kw_only=True):
    """A request of any API."""

    api: int
    build: Callable[[ModuleType], Any]
    """Makes the message from the schema of the version chosen."""
    timeout_ms: float | None = None
    """Instead of ``request_timeout_ms``."""
    answered: bool = True
    """False for Produce with acks=0, which no broker answers."""


class Request(ByHand, frozen=True, kw_only=True):
    """A request whose version is not chosen yet."""

    api: Api
    within: VersionRange = ANY


def choose_version(
    api: Api, broker: Mapping[int, VersionRange], *, within: VersionRange = ANY
) -> int:
    """The highest version that the broker, we and ``within`` have in common.

    Args:
        api: Which API.
        broker: What the broker's ApiVersions answer said.
        within: Further limits, such as "not above 4" of the old transaction protocol.

    Raises:
        ClientTooOldError: The versions that the broker has, or that are wanted, are newer.
        NotSupportedError: The broker does not know the API, or its versions are older.
    """
    theirs = broker.get(api)
    if theirs is None:
        raise NotSupportedError(
            f"The node does not support {api.name}", error=ErrorCode.unsupported_version
        )
    ours = api.ours
    highest = min(ours.highest, theirs.highest, within.highest)
    lowest = max(ours.lowest, theirs.lowest, within.lowest)
    if highest < lowest:
        wanted_low = max(ours.lowest, within.lowest)
        wanted_high = min(ours.highest, within.highest)
        needed = max(theirs.lowest, within.lowest)
        if needed > ours.highest:
            raise ClientTooOldError(
                f"This client speaks {api.name} up to version {ours.highest}; version {needed} is"
                f" needed. The node supports [{theirs.lowest},{theirs.highest}].",
                error=ErrorCode.unsupported_version,
            )
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
