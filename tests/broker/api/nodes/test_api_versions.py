"""ApiVersions v0 to v5: the ranges, features by version, refusals; the casebook has the rest."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api
from txnsim.api.registry import ADVERTISED
from txnsim.errors import ErrorCode

CLIENT = {"client_software_name": "x", "client_software_version": "1.0"}


@pytest.mark.parametrize("version", range(6))
async def test_every_version_lists_what_is_advertised(api: Api, version: int) -> None:
    answer = await api.ask("ApiVersions", version, **CLIENT)
    assert answer.error_code is ErrorCode.none
    ranges = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert ranges == ADVERTISED
    assert ranges[0] == (0, 13), "librdkafka wants to see Produce 0 (KAFKA-18659)"


async def test_level_zero_features_are_shown_from_v4(api: Api) -> None:
    shown = {
        version: {
            one.name: (one.min_version, one.max_version)
            for one in (await api.ask("ApiVersions", version, **CLIENT)).supported_features
        }
        for version in (3, 4)
    }
    assert shown[3] == {"metadata.version": (7, 33)}
    assert shown[4]["transaction.version"] == (0, 2)
    assert shown[4]["kraft.version"] == (0, 1)


async def test_a_version_of_the_future_gets_this_apis_own_range(api: Api) -> None:
    answer = api.refuse("ApiVersions", 0, ErrorCode.unsupported_version)
    (own,) = answer.api_keys
    assert answer.error_code is ErrorCode.unsupported_version
    assert (own.api_key, own.min_version, own.max_version) == (18, 0, 5)


async def test_any_other_refusal_lists_nothing(api: Api) -> None:
    answer = api.refuse("ApiVersions", 4, ErrorCode.unknown_server_error, **CLIENT)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.unknown_server_error, ())
