"""A real Apache Kafka still answers as is kept in ``tests/conformance/transcripts/security/``;
``tests/conformance/test_security.py`` holds the simulator against that.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.security import KINDS, differences, kafka

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    with kafka() as running_kafka:
        yield running_kafka


@pytest.mark.parametrize("kind", KINDS)
def test_apache_kafka_answers_as_is_kept(addresses: dict[str, str], kind: str) -> None:
    assert differences(kind, KINDS[kind](addresses)) == {}
