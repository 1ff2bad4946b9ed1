"""UpdateFeatures v0 to v2: levels, upgrade types, all or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api
from txnsim.errors import ErrorCode

NAME = "transaction.version"


def values(*updates: tuple[str, int, int], validate_only: bool = False) -> dict[str, Any]:
    return {
        "validate_only": validate_only,
        "feature_updates": [
            {
                "feature": feature,
                "max_version_level": level,
                "upgrade_type": kind,
                "allow_downgrade": kind != 1,
            }
            for feature, level, kind in updates
        ],
    }


@pytest.mark.parametrize("version", [1, 2])
async def test_upgrade_types_lower_and_raise(api: Api, version: int) -> None:
    for level, kind in ((1, 2), (0, 2), (2, 1)):
        before = api.broker.image.features_epoch
        answer = await api.ask("UpdateFeatures", version, **values((NAME, level, kind)))
        assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
        assert api.broker.transaction_version() == level
        assert api.broker.image.features_epoch > before
        if version < 2:
            assert [(one.feature, one.error_message) for one in answer.results] == [(NAME, "NONE")]


async def test_version_0_raises_and_never_lowers(api: Api) -> None:
    # QuorumController reads the upgrade type, which version 0 does not have, not allow_downgrade.
    lower = values((NAME, 1, 2))
    refused = await api.ask("UpdateFeatures", 0, **lower)
    assert refused.error_code is ErrorCode.invalid_update_version
    assert api.broker.transaction_version() == 2
    await api.ask("UpdateFeatures", 1, **lower)
    answer = await api.ask("UpdateFeatures", 0, **values((NAME, 2, 1)))
    assert [(one.feature, one.error_message) for one in answer.results] == [(NAME, "NONE")]
    assert api.broker.transaction_version() == 2


@pytest.mark.parametrize("version", [1, 2])
async def test_a_dry_run_changes_nothing(api: Api, version: int) -> None:
    answer = await api.ask("UpdateFeatures", version, **values((NAME, 0, 2), validate_only=True))
    assert answer.error_code is ErrorCode.none
    assert api.broker.transaction_version() == 2


@pytest.mark.parametrize("version", [1, 2])
async def test_a_refused_update_stops_all_and_is_the_top_level_error(
    api: Api, version: int
) -> None:
    wanted = values((NAME, 1, 2), ("nonsense", 1, 1))
    answer = await api.ask("UpdateFeatures", version, **wanted)
    assert answer.error_code is ErrorCode.invalid_update_version
    assert answer.error_message == (
        "The update failed for all features since the following feature had an error: Invalid "
        "update version 1 for feature nonsense. Local controller 1 does not support this feature."
    )
    assert getattr(answer, "results", ()) == ()
    assert api.broker.transaction_version() == 2


@pytest.mark.parametrize("kind", [0, 4])
async def test_unknown_upgrade_types_are_refused(api: Api, kind: int) -> None:
    answer = await api.ask("UpdateFeatures", 1, **values((NAME, 2, kind)))
    assert answer.error_code is ErrorCode.invalid_update_version


async def test_refusing(api: Api) -> None:
    answer = api.refuse("UpdateFeatures", 1, ErrorCode.request_timed_out, **values((NAME, 1, 2)))
    assert (answer.error_code, answer.results) == (ErrorCode.request_timed_out, ())
