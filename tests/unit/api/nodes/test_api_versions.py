"""ApiVersions v0 to v4: the ranges, the features, names of client software."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api, handlers
from txnsim.api.registry import ADVERTISED
from txnsim.errors import ErrorCode

CLIENT = {"client_software_name": "x", "client_software_version": "1.0"}


@pytest.mark.parametrize("version", range(5))
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
    assert shown[3] == {"metadata.version": (7, 30)}
    assert shown[4]["transaction.version"] == (0, 2)
    assert shown[4]["kraft.version"] == (0, 1)


@pytest.mark.parametrize("level", [0, 1, 2])
async def test_finalized_levels_are_answered_but_not_level_zero(level: int) -> None:
    async with handlers(level=level) as api:
        answer = await api.ask("ApiVersions", 3, **CLIENT)
    found = {one.name: one.max_version_level for one in answer.finalized_features}
    assert found.get("transaction.version", 0) == level
    assert ("transaction.version" in found) == (level > 0)
    assert found["metadata.version"] == 30
    assert "kraft.version" not in found
    assert answer.finalized_features_epoch > 0


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "é"])
async def test_bad_names_of_software_are_refused(api: Api, version: int, name: str) -> None:
    for field in CLIENT:
        answer = await api.ask("ApiVersions", version, **{**CLIENT, field: name})
        assert (answer.error_code, answer.api_keys) == (ErrorCode.invalid_request, ())


async def test_a_version_of_the_future_gets_this_apis_own_range(api: Api) -> None:
    answer = api.refuse("ApiVersions", 0, ErrorCode.unsupported_version)
    (own,) = answer.api_keys
    assert answer.error_code is ErrorCode.unsupported_version
    assert (own.api_key, own.min_version, own.max_version) == (18, 0, 4)


async def test_any_other_refusal_lists_nothing(api: Api) -> None:
    answer = api.refuse("ApiVersions", 4, ErrorCode.unknown_server_error, **CLIENT)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.unknown_server_error, ())
