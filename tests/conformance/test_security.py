"""Who is let in, and what somebody without rights is answered: as a real Apache Kafka does.

Sessions end in virtual time; over TCP clients log in in ``tests/clients/test_security.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.security import KINDS, Answers, recorded_answers, virtual
from tests.support.broker_api import KEYS
from tests.support.denied_requests import denials
from txnsim.api.authorization._named_resources import PARTS
from txnsim.api.authorization._whole_requests import CHECKS
from txnsim.api.authorization.gate import GUARDS


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, Answers]]:
    """The simulator's answers."""
    with virtual() as addresses:
        yield {kind: ask(addresses) for kind, ask in KINDS.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "answer_name"), [(kind, name) for kind in KINDS for name in recorded_answers(kind)]
)
def test_the_answer_is_that_of_apache_kafka(
    answers: dict[str, Answers], kind: str, answer_name: str
) -> None:
    assert answers[kind][answer_name] == recorded_answers(kind)[answer_name]


def test_everything_is_recorded() -> None:
    assert [denial.name for denial in denials()] == list(recorded_answers("denied"))


def test_every_api_that_asks_for_a_right_is_asked_without_it() -> None:
    apis_asked = {KEYS[denial.api] for denial in denials()}
    assert apis_asked >= {*CHECKS, *PARTS, *GUARDS}
