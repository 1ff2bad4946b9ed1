"""The API versions of this client, and those that it shares with a broker.

Pure. Kafka's counterpart is ``NodeApiVersions.latestUsableVersion``; refusals use its words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import ModuleType
from typing import Any, Final, Self

import msgspec

from txnsim.client.errors import ClientTooOldError, NotSupportedError
from txnsim.errors import ErrorCode
from txnsim.wire.registry import version_range


class VersionRange(msgspec.Struct, frozen=True):
    """Lowest and highest version, both included."""

    lowest: int
    highest: int


_ALL: Final = 32767


class ClientApi(IntEnum):
    """The APIs that this client uses, by their keys. It supports every version that has messages
    (``wire.registry``); exceptions have their own lowest or highest version, with the reason.
    """

    own_range: VersionRange

    def __new__(cls, key: int, lowest: int = 0, highest: int = _ALL) -> Self:
        """Make the member: its value is the API key, and it has the range of versions."""
        api = int.__new__(cls, key)
        api._value_ = key
        lowest_known, highest_known = version_range(key)
        api.own_range = VersionRange(max(lowest_known, lowest), min(highest_known, highest))
        return api

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    # 0 does not tell the controller.
    METADATA = 3, 1
    # From 10 on topics go by id.
    OFFSET_COMMIT = 8, 2, 9
    # From 8 on a request is about several groups; one is enough here. 0 and 1 can't ask for all.
    OFFSET_FETCH = 9, 2, 7
    # 0 knows groups alone.
    FIND_COORDINATOR = 10, 1
    # Below, answers have no throttle time.
    JOIN_GROUP = 11, 2
    HEARTBEAT = 12, 1
    LEAVE_GROUP = 13, 1
    SYNC_GROUP = 14, 1
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    # After 0 the tokens come without headers; every broker since 1.0 knows 1 (KIP-152).
    SASL_HANDSHAKE = 17, 1
    # 5 says nothing that is needed here, and costs a second request to brokers before 4.4.
    API_VERSIONS = 18, 0, 4
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    # 6 is KIP-939's, which none up to 4.4 advertises: only two-phase commit asks for it.
    INIT_PRODUCER_ID = 22
    # Later ones are for brokers (KIP-890).
    ADD_PARTITIONS_TO_TXN = 24, 0, 3
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    # 0 is all that brokers before 2.8 have; Java's clients have dropped it with 4.0.
    WRITE_TXN_MARKERS = 27
    # From 6 on topics go by id.
    TXN_OFFSET_COMMIT = 28, 0, 5
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    DELETE_GROUPS = 42
    # 0 knows no unclean election.
    ELECT_LEADERS = 43, 1
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    # Kafka has 0 alone; 1 is the text of KIP-994, on the listener of --kip-text.
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


ANY: Final = VersionRange(0, _ALL)


class HandBuiltRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose message the caller builds itself, for any API."""

    api: int
    build: Callable[[ModuleType], Any]
    """Builds the message from the schema of the chosen version."""
    timeout_ms: float | None = None
    """Overrides ``request_timeout_ms``."""
    is_answered: bool = True
    """False for Produce with acks=0, which no broker answers."""


class VersionedRequest(HandBuiltRequest, frozen=True, kw_only=True):
    """A request whose version is not chosen yet."""

    api: ClientApi
    accepted_versions: VersionRange = ANY


def choose_version(
    api: ClientApi, broker: Mapping[int, VersionRange], *, accepted_versions: VersionRange = ANY
) -> int:
    """The highest version that the broker, we and ``accepted_versions`` have in common.

    Args:
        api: The API.
        broker: The versions in the broker's ApiVersions answer.
        accepted_versions: Further limits, such as "not above 4" of the old transaction protocol.

    Raises:
        ClientTooOldError: The versions of the broker, or of ``accepted_versions``, are newer than
            ours.
        NotSupportedError: The broker does not know the API, or its versions are older.
    """
    broker_range = broker.get(api)
    if broker_range is None:
        raise NotSupportedError(
            f"The node does not support {api.name}", error=ErrorCode.unsupported_version
        )
    own_range = api.own_range
    highest = min(own_range.highest, broker_range.highest, accepted_versions.highest)
    lowest = max(own_range.lowest, broker_range.lowest, accepted_versions.lowest)
    if highest < lowest:
        wanted_low = max(own_range.lowest, accepted_versions.lowest)
        wanted_high = min(own_range.highest, accepted_versions.highest)
        lowest_version = max(broker_range.lowest, accepted_versions.lowest)
        if lowest_version > own_range.highest:
            raise ClientTooOldError(
                f"This client speaks {api.name} up to version {own_range.highest}; version"
                f" {lowest_version}"
                f" is needed. The node supports [{broker_range.lowest},{broker_range.highest}].",
                error=ErrorCode.unsupported_version,
            )
        raise NotSupportedError(
            f"The node does not support {api.name} with version in range"
            f" [{wanted_low},{wanted_high}]. The supported range is"
            f" [{broker_range.lowest},{broker_range.highest}].",
            error=ErrorCode.unsupported_version,
        )
    return highest


class FinalizedFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """Finalized feature levels as one ApiVersions answer has them (KIP-584)."""

    epoch: int = -1
    """FinalizedFeaturesEpoch; -1: the broker did not know."""
    levels: tuple[tuple[str, int], ...] = ()

    def level(self, feature: str) -> int:
        """The level of a feature; 0 if it is not listed, because Kafka leaves out level 0."""
        return dict(self.levels).get(feature, 0)


def newer_features(
    features_before: FinalizedFeatures, answered_features: FinalizedFeatures
) -> FinalizedFeatures:
    """Merge another answer: only a higher epoch replaces the known features
    (ApiVersions.update)."""
    return answered_features if answered_features.epoch > features_before.epoch else features_before
