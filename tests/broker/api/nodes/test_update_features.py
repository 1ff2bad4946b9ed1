"""UpdateFeatures v0 to v2: what takes effect; the casebook has what is refused."""

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
