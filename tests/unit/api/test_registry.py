"""Which versions are answered and which are told."""

from __future__ import annotations

import pytest

from sim.api.registry import ACCEPTED, ADVERTISED, HANDLERS
from sim.releases.kafka_4_3 import RELEASE_4_3
from sim.wire import codec


def test_what_is_advertised_lies_within_the_release() -> None:
    for key, (low, high) in ADVERTISED.items():
        least, most = RELEASE_4_3.api_versions[key]
        assert least <= low <= high <= most, key


def test_only_produce_is_advertised_lower_than_it_is_answered() -> None:
    assert {key for key in ADVERTISED if ADVERTISED[key] != ACCEPTED[key]} == {0}
    assert (ADVERTISED[0], ACCEPTED[0]) == ((0, 13), (3, 13))


def test_no_unstable_version_is_answered() -> None:
    assert ACCEPTED[22] == (0, 5), "InitProducerId v6 is unstable"


@pytest.mark.parametrize("key", sorted(HANDLERS))
def test_every_answered_version_has_its_messages(key: int) -> None:
    handler = HANDLERS[key]
    assert handler.key == key
    low, high = ACCEPTED[key]
    for version in range(low, high + 1):
        assert codec.request_class(key, version).__version__ == version
        assert codec.response_class(key, version).__version__ == version
