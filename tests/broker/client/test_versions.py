from __future__ import annotations

import pytest

from txnsim.client.errors import ClientTooOldError, ErrorCode, NotSupportedError
from txnsim.client.versions import (
    ANY,
    Api,
    FinalizedFeatures,
    VersionRange,
    choose_version,
    newer_features,
)
from txnsim.wire import codec
from txnsim.wire.registry import version_range


def test_the_highest_common_version_is_chosen() -> None:
    assert choose_version(Api.END_TXN, {26: VersionRange(0, 9)}) == 5
    assert choose_version(Api.END_TXN, {26: VersionRange(0, 3)}) == 3
    within = VersionRange(0, 4)
    assert choose_version(Api.END_TXN, {26: VersionRange(0, 5)}, within=within) == 4


@pytest.mark.parametrize(
    ("broker", "message"),
    [
        ({}, "The node does not support END_TXN"),
        (
            {26: VersionRange(0, 4)},
            "The node does not support END_TXN with version in range [5,5]. The supported range is"
            " [0,4].",
        ),
    ],
)
def test_no_common_version_says_what_was_needed(
    broker: dict[int, VersionRange], message: str
) -> None:
    with pytest.raises(NotSupportedError) as error:
        choose_version(Api.END_TXN, broker, within=VersionRange(5, 99))
    assert str(error.value) == message
    assert error.value.error == ErrorCode.unsupported_version


NEWER = version_range(Api.LIST_TRANSACTIONS)[1] + 1


@pytest.mark.parametrize(
    ("theirs", "within"),
    [
        (VersionRange(NEWER, NEWER + 1), ANY),
        (VersionRange(0, NEWER), VersionRange(NEWER, NEWER)),
    ],
)
def test_a_limit_of_ours_is_not_called_the_brokers(
    theirs: VersionRange, within: VersionRange
) -> None:
    with pytest.raises(ClientTooOldError, match="This client speaks LIST_TRANSACTIONS up to") as it:
        choose_version(Api.LIST_TRANSACTIONS, {66: theirs}, within=within)
    assert it.value.error is ErrorCode.unsupported_version


def test_the_client_speaks_every_version_that_there_are_messages_for() -> None:
    behind = {api for api in Api if api.ours.highest < version_range(api)[1]}
    assert behind == {
        Api.OFFSET_COMMIT,
        Api.OFFSET_FETCH,
        Api.API_VERSIONS,
        Api.ADD_PARTITIONS_TO_TXN,
        Api.TXN_OFFSET_COMMIT,
    }, "each says why, in client/versions.py"


@pytest.mark.slow
def test_every_version_that_we_claim_has_schemas() -> None:
    for api in Api:
        for version in range(api.ours.lowest, api.ours.highest + 1):
            codec.request_class(api, version)
            codec.response_class(api, version)


def test_an_unlisted_feature_is_at_level_0() -> None:
    features = FinalizedFeatures(epoch=1, levels=(("transaction.version", 2),))
    assert features.level("transaction.version") == 2
    assert features.level("group.version") == 0


def test_only_a_higher_epoch_replaces_what_is_known() -> None:
    old, new = FinalizedFeatures(epoch=4), FinalizedFeatures(epoch=5)
    assert newer_features(old, new) is new
    assert newer_features(new, old) is new
    assert newer_features(old, FinalizedFeatures(epoch=4, levels=(("x", 1),))) is old
    unknown = FinalizedFeatures()
    assert newer_features(old, unknown) is old
