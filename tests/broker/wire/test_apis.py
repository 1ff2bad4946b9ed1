from __future__ import annotations

import pytest

from txnsim.wire.apis import API_VERSIONS, APIS, api_name, is_flexible


def test_names_are_kafkas() -> None:
    assert api_name(26) == "EndTxn"
    assert api_name(API_VERSIONS) == "ApiVersions"


def test_unknown_key_has_a_name_fit_for_a_message() -> None:
    assert api_name(4) == "ApiKey(4)"


@pytest.mark.parametrize(
    ("key", "first"), [(0, 9), (18, 3), (22, 2), (24, 3), (26, 3), (27, 1), (65, 0)]
)
def test_flexible_from_a_version_on(key: int, first: int) -> None:
    assert is_flexible(key, first)
    assert is_flexible(key, 99)
    assert not is_flexible(key, first - 1)


@pytest.mark.parametrize("key", [17, 47, 4, 999])
def test_old_and_unknown_apis_are_never_flexible(key: int) -> None:
    assert not is_flexible(key, 32767)


def test_keys_ascend() -> None:
    assert list(APIS) == sorted(APIS)
